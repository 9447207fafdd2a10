import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.retry.RetryOneTime;

/**
 * A Curator lock that is told what to do, a line at a time, and answers each line with one.
 *
 * Arguments: servers, path, and what it is: `mutex`, `read`, `write`, or `latch` or `selector` with its id. Lines: `acquire` (answers `waiting`, and `acquired`
 * once it is), `try MILLISECONDS` (`acquired` or `busy`), `release` (`released`), `add TIMES NODE` (as often: acquires, adds one to
 * the number in the node, releases; `added`), `downgrade` (a writer reads as well, and lets go of the write lock; `released`),
 * `leader` (who leads: the first line of its id), `revoke NODE` (`revoked`), `revocable` (from now on it lets go when asked to; `revocable`, and `asked` once it is). The end
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
            Leading leading =
                    arguments[2].equals("latch") ? new Latch(client, arguments[1], arguments[3])
                    : arguments[2].equals("selector") ? new Selector(client, arguments[1], arguments[3])
                    : null;
            say("session 0x" + Long.toHexString(client.getZookeeperClient().getZooKeeper().getSessionId()));
            BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] words = line.split(" ");
                switch (words[0]) {
                    case "acquire":
                        say("waiting");
                        if (leading == null) {
                            lock.acquire();
                            say("acquired");
                        } else {
                            leading.acquire();
                        }
                        break;
                    case "leader":
                        say("leader " + leading.leader().split("\n", 2)[0]);
                        break;
                    case "try":
                        boolean acquired = lock.acquire(Long.parseLong(words[1]), TimeUnit.MILLISECONDS);
                        say(acquired ? "acquired" : "busy");
                        break;
                    case "release":
                        if (leading == null) {
                            lock.release();
                        } else {
                            leading.release();
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

    /** An election. Each `acquire` says `acquired` once it leads. */
    private interface Leading {
        void acquire() throws Exception;

        /** Returns once its node is gone. */
        void release() throws Exception;

        String leader() throws Exception;
    }

    private static final class Latch implements Leading, LeaderLatchListener {
        private final CuratorFramework client;
        private final String path;
        private final String id;
        private LeaderLatch latch;

        Latch(CuratorFramework client, String path, String id) {
            this.client = client;
            this.path = path;
            this.id = id;
        }

        @Override
        public void acquire() throws Exception {
            latch = new LeaderLatch(client, path, id);
            latch.addListener(this);
            latch.start();
        }

        @Override
        public void isLeader() {
            say("acquired");
        }

        @Override
        public void notLeader() {}

        @Override
        public void release() throws Exception {
            String node = latch.getOurPath();
            latch.close();
            while (client.checkExists().forPath(node) != null) {
                Thread.sleep(10);
            }
        }

        @Override
        public String leader() throws Exception {
            return new LeaderLatch(client, path).getLeader().getId();
        }
    }

    private static final class Selector extends LeaderSelectorListenerAdapter implements Leading {
        private final LeaderSelector selector;
        private final String id;
        private CountDownLatch done;

        Selector(CuratorFramework client, String path, String id) {
            this.id = id;
            selector = new LeaderSelector(client, path, this);
            selector.setId(id);
        }

        @Override
        public void acquire() {
            boolean starts = done == null;
            done = new CountDownLatch(1);
            if (starts) {
                selector.start();
            } else {
                selector.requeue();
            }
        }

        @Override
        public void takeLeadership(CuratorFramework client) throws Exception {
            say("acquired");
            done.await();
        }

        @Override
        public void release() throws Exception {
            done.countDown();
            while (selector.getParticipants().stream().anyMatch(participant -> participant.getId().equals(id))) {
                Thread.sleep(10);
            }
        }

        @Override
        public String leader() throws Exception {
            return selector.getLeader().getId();
        }
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
