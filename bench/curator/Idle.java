import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryOneTime;

/**
 * Curator's sessions that do nothing: `Idle SERVERS SESSIONS MILLISECONDS`. It prints a line once all are connected, and ends
 * with its input.
 */
public final class Idle {
    public static void main(String[] arguments) throws Exception {
        int timeout = Integer.parseInt(arguments[2]);
        for (int session = 0; session < Integer.parseInt(arguments[1]); session++) {
            CuratorFramework client =
                    CuratorFrameworkFactory.newClient(arguments[0], timeout, timeout, new RetryOneTime(100));
            client.start();
            client.blockUntilConnected();
        }
        System.out.println("connected");
        while (System.in.read() >= 0) {}
        System.exit(0);
    }
}
