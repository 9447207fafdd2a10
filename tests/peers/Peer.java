import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.retry.RetryOneTime;

/**
 * A Curator lock that is told what to do, a line at a time, and answers each line with one.
 *
 * Arguments: servers, path, and what it is: `mutex`, or `permits` (of a semaphore of eight, by `laps` only). Lines: `acquire`
 * (answers `waiting`, and `acquired` once it is), `release` (`released`), `revoke NODE` (`revoked`), `tell` (`telling`, and from now on
 * `told WORD` for each thing that the client is told of its connection), `laps CLIENTS MILLISECONDS` (so many clients, each with a
 * session at the next one of the servers, acquire and release until that time is over; `laps`, and for each client a
 * bar and its cycles, each as when it ended and how long it took, in microseconds: `| ENDED/TOOK ENDED/TOOK`). The end of its input ends
 * it. The environment's `PEER_TIMEOUT_MS` is the session timeout.
 */
public final class Peer {
    private static final int TIMEOUT = Integer.parseInt(System.getenv().getOrDefault("PEER_TIMEOUT_MS", "6000"));

    private final CuratorFramework client;
    private final InterProcessSemaphoreV2 permits;
    private final InterProcessMutex lock;

    private Peer(String[] arguments, int number) throws Exception {
        String[] servers = arguments[0].split(",");
        client = CuratorFrameworkFactory.newClient(
                servers[number % servers.length], TIMEOUT, TIMEOUT, new RetryOneTime(100));
        client.start();
        client.blockUntilConnected();
        lock = new InterProcessMutex(client, arguments[1]);
        permits = arguments[2].equals("permits") ? new InterProcessSemaphoreV2(client, arguments[1], 8) : null;
    }

    public static void main(String[] arguments) throws Exception {
        List<Peer> peers = new ArrayList<>();
        peers.add(new Peer(arguments, 0));
        Peer first = peers.get(0);
        say("session 0x" + Long.toHexString(first.client.getZookeeperClient().getZooKeeper().getSessionId()));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("laps")) {
                int clients = Integer.parseInt(words[1]);
                while (peers.size() < clients) {
                    peers.add(new Peer(arguments, peers.size()));
                }
                say(laps(peers.subList(0, clients), Long.parseLong(words[2])));
            } else {
                first.obey(words);
            }
        }
        peers.forEach(peer -> peer.client.close());
    }

    private void obey(String[] words) throws Exception {
        switch (words[0]) {
            case "acquire":
                say("waiting");
                lock.acquire();
                say("acquired");
                break;
            case "release":
                lock.release();
                say("released");
                break;
            case "revoke":
                Revoker.attemptRevoke(client, words[1]);
                say("revoked");
                break;
            case "tell":
                client.getConnectionStateListenable().addListener((same, state) -> say("told " + state));
                say("telling");
                break;
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static String laps(List<Peer> peers, long milliseconds) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(peers.size());
        long start = System.nanoTime();
        List<Future<String>> runs = new ArrayList<>();
        for (Peer peer : peers) {
            runs.add(threads.submit(() -> peer.run(start, milliseconds)));
        }
        StringBuilder laps = new StringBuilder("laps");
        for (Future<String> run : runs) {
            laps.append(run.get());
        }
        threads.shutdown();
        return laps.toString();
    }

    private String run(long start, long milliseconds) throws Exception {
        StringBuilder laps = new StringBuilder(" |");
        while (true) {
            long begin = System.nanoTime();
            if (begin - start > milliseconds * 1_000_000) {
                return laps.toString();
            }
            if (permits == null) {
                lock.acquire();
                lock.release();
            } else {
                permits.returnLease(permits.acquire());
            }
            long end = System.nanoTime();
            laps.append(' ').append((end - start) / 1_000).append('/').append((end - begin) / 1_000);
        }
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
