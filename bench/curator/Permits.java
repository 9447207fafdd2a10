import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.RetryOneTime;

/**
 * Clients of a Curator semaphore, each with a session of its own, that are told what to do, a line at a time.
 *
 * Lines: `open CLIENT SERVER PATH PERMITS DATA`, `acquire CLIENT`, `release CLIENT`. Each is answered by the client's number
 * once it is done. The end of the input ends all of them.
 */
public final class Permits {
    private final ExecutorService thread = Executors.newSingleThreadExecutor();
    private InterProcessSemaphoreV2 semaphore;
    private Lease lease;

    public static void main(String[] arguments) throws Exception {
        Map<String, Permits> clients = new HashMap<>();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            Permits client = clients.computeIfAbsent(words[1], number -> new Permits());
            client.thread.execute(() -> {
                try {
                    client.obey(words);
                    say(words[1]);
                } catch (Exception failure) {
                    failure.printStackTrace();
                    System.exit(1);
                }
            });
        }
        System.exit(0);
    }

    private void obey(String[] words) throws Exception {
        switch (words[0]) {
            case "open":
                CuratorFramework client =
                        CuratorFrameworkFactory.newClient(words[2], 10_000, 10_000, new RetryOneTime(100));
                client.start();
                client.blockUntilConnected();
                semaphore = new InterProcessSemaphoreV2(client, words[3], Integer.parseInt(words[4]));
                semaphore.setNodeData(words[5].getBytes());
                break;
            case "acquire":
                lease = semaphore.acquire();
                break;
            case "release":
                semaphore.returnLease(lease);
                break;
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
