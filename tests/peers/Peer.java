import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.retry.RetryOneTime;

/**
 * A Curator lock that is told what to do, a line at a time, and answers each line with one.
 *
 * Arguments: servers, path, and what it is: `mutex`, `read`, `write`, `latch`. Lines: `acquire` (answers `waiting`, and `acquired`
 * once it is), `try MILLISECONDS` (`acquired` or `busy`), `release` (`released`), `add TIMES NODE` (as often: acquires, adds one to
 * the number in the node, releases; `added`), `downgrade` (a writer reads as well, and lets go of the write lock; `released`),
 * `revoke NODE` (`revoked`), `revocable` (from now on it lets go when asked to; `revocable`, and `asked` once it is). The end
 * of its input ends it.
 */
public final class Peer {
    public static void main(String[] arguments) throws Exception {
        try (CuratorFramework client =
                CuratorFrameworkFactory.newClient(arguments[0], 6_000, 6_000, new RetryOneTime(100))) {
            client.start();
            client.blockUntilConnected();
            InterProcessReadWriteLock pair = new InterProcessReadWriteLock(client, arguments[1]);
            InterProcessMutex lock =
                    arguments[2].equals("read") ? pair.readLock()
                    : arguments[2].equals("write") ? pair.writeLock()
                    : new InterProcessMutex(client, arguments[1]);
            LeaderLatch latch = null;
            say("session 0x" + Long.toHexString(client.getZookeeperClient().getZooKeeper().getSessionId()));
            BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] words = line.split(" ");
                switch (words[0]) {
                    case "acquire":
                        say("waiting");
                        if (arguments[2].equals("latch")) {
                            latch = new LeaderLatch(client, arguments[1]);
                            latch.start();
                            latch.await();
                        } else {
                            lock.acquire();
                        }
                        say("acquired");
                        break;
                    case "try":
                        boolean acquired = lock.acquire(Long.parseLong(words[1]), TimeUnit.MILLISECONDS);
                        say(acquired ? "acquired" : "busy");
                        break;
                    case "release":
                        if (latch != null) {
                            latch.close();
                        } else {
                            lock.release();
                        }
                        say("released");
                        break;
                    case "add":
                        for (int time = 0; time < Integer.parseInt(words[1]); time++) {
                            lock.acquire();
                            int number = Integer.parseInt(new String(client.getData().forPath(words[2])));
                            client.setData().forPath(words[2], Integer.toString(number + 1).getBytes());
                            lock.release();
                        }
                        say("added");
                        break;
                    case "downgrade":
                        pair.readLock().acquire();
                        pair.writeLock().release();
                        lock = pair.readLock();
                        say("released");
                        break;
                    case "revoke":
                        Revoker.attemptRevoke(client, words[1]);
                        say("revoked");
                        break;
                    case "revocable":
                        lock.makeRevocable(asked -> say("asked"));
                        say("revocable");
                        break;
                    default:
                        throw new IllegalArgumentException(line);
                }
            }
        }
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
