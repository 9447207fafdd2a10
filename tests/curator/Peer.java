import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.retry.RetryOneTime;

/**
 * A Curator mutex that is told what to do, a line at a time, and answers each line with one.
 *
 * Arguments: servers, path. Lines: `acquire` (answers `waiting`, and `acquired` once it is), `try MILLISECONDS` (`acquired` or
 * `busy`), `release` (`released`), `revoke NODE` (`revoked`). The end of its input ends it.
 */
public final class Peer {
    public static void main(String[] arguments) throws Exception {
        try (CuratorFramework client = CuratorFrameworkFactory.newClient(arguments[0], new RetryOneTime(100))) {
            client.start();
            client.blockUntilConnected();
            InterProcessMutex mutex = new InterProcessMutex(client, arguments[1]);
            say("session 0x" + Long.toHexString(client.getZookeeperClient().getZooKeeper().getSessionId()));
            BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] words = line.split(" ");
                switch (words[0]) {
                    case "acquire":
                        say("waiting");
                        mutex.acquire();
                        say("acquired");
                        break;
                    case "try":
                        boolean acquired = mutex.acquire(Long.parseLong(words[1]), TimeUnit.MILLISECONDS);
                        say(acquired ? "acquired" : "busy");
                        break;
                    case "release":
                        mutex.release();
                        say("released");
                        break;
                    case "revoke":
                        Revoker.attemptRevoke(client, words[1]);
                        say("revoked");
                        break;
                    default:
                        throw new IllegalArgumentException(line);
                }
            }
        }
    }

    private static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
