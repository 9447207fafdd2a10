//! zklock and zookeeper-client as they ship, on simulated servers, network and clocks, by seed.
//!
//! ```text
//! run ──▶ faults ──▶ cluster (servers on the heap) ──▶ world (time, clocks, network, processes)
//!  └────▶ contender ──▶ zklock_contest ──▶ zklock as it ships ──▶ zookeeper-client as it ships ──▶ shims ──▶ world
//!              └─────▶ history: what was held and when, in global time, and what was wrong with it
//! ```
//!
//! # What this world never does
//!
//! A simulation finds nothing that its world cannot do. So each line says what never happens here, where ZooKeeper or Linux does it,
//! and what zklock does if it happens: *holds*, by a rule or a test, or *open*. A change that makes this world kinder adds a line with
//! its source. Files and lines are those of ZooKeeper 3.9.3, below `zookeeper-server/src/main/java/org/apache/zookeeper/server/`.
//!
//! ## Servers
//!
//! - **Elections need no messages.** `zklock_ensemble::elect` looks at all servers that run, within a second. Real ones exchange votes on a
//!   port of their own (`quorum/FastLeaderElection.java:913`), wait for later ones (`:1050`) and agree on an epoch
//!   (`quorum/Leader.java:1462`). Holds: no decision asks who leads. A lease counts what a majority acknowledged.
//! - **Cuts are between machines**, not between ports: votes never pass where proposals do not. Holds: as above.
//! - **A server takes no time**, except for three delays: a tenth of a tick before it decides, 20 ms before a leader applies, half a
//!   tick before it marks a session, at most. Holds: a late answer counts from when it was asked for. The last one is *open*, below.
//! - **No server loses what it has logged**, but in one ensemble of ten, where safety is excused. A disk is emptied elsewhere only if every
//!   other server has all that it had. Real servers forget: ZOOKEEPER-4712, 4785, 4925. Open: docs/STRICTNESS.md, "Servers that forget".
//! - **No disk is slow, full or wrong.** Real ones wait for it (`persistence/FileTxnLog.java:411`) and find a changed bit by Adler-32
//!   (`:776`). Holds, if it is slow: an acknowledgement is late, as on a slow way. The torture does not force its disks either.
//! - **A follower gets an exact snapshot.** Real ones are written while transactions are applied (`quorum/LearnerHandler.java:583`).
//!   Open: a server whose tree differs from the others' is one that lies.
//! - **One version runs in an ensemble**: 3.8.0, 3.9.3 or 3.9.5. Other replies of other versions: open. No test mixes versions.
//! - **The configuration is plain.** 1, 3 or 5 voters; ticks of 0.1, 0.5 and 2 s, the same everywhere; `syncLimit` 5, `initLimit` 10.
//!   No weights (`quorum/flexible/QuorumHierarchical.java`), and the leader serves clients (`quorum/Leader.java:761`). Different ticks:
//!   open (docs/DESIGN.md, "The tick is learned once"). The rest holds: no rule counts voters.
//! - **No observers** (`quorum/ObserverMaster.java:236`), **local sessions** (`quorum/QuorumPeer.java:686`), **reconfiguration**
//!   (`quorum/Leader.java:1010`), **hard quotas** (`PrepRequestProcessor.java:387`) **or throttled connections**
//!   (`ZooKeeperServer.java:1487`). Holds: `tests/servers/unusual.rs`, a test each. An observer behind an observer master: open.
//! - **A follower that joins again has sent all before.** A real leader reads the former connection to its end, and carries out what comes
//!   there (`quorum/LearnerHandler.java:655`). Holds: late creates are looked for; the fault `Stuck` makes some.
//! - **No limit of connections** (`NIOServerCnxnFactory.java:263`), **no read-only server** (`quorum/QuorumPeer.java:1475`). Both hold.
//! - **No `restore`** (`ZooKeeperServer.java:601`). Holds in part: `tests/servers/restore.rs`; docs/DESIGN.md says for how long not.
//! - **A follower loses no touch.** A real one may lose one in the instant of its report, between two threads
//!   (`quorum/LearnerSessionTracker.java:148`, `:153`). Open for that one touch; the next request mends it.
//! - **A server does one thing at a time**, except for the queues that `zklock_ensemble` names. Real ones read for several sessions at
//!   once (`quorum/CommitProcessor.java:454`). Holds: no decision rests on the order of two sessions' reads.
//! - **Session ids do not come again**, as they do with the uptime (`SessionTrackerImpl.java:98`). Open: docs/STRICTNESS.md.
//! - **Zxids do not roll over** (`quorum/Leader.java:1297`). Holds: that is an election, and tokens grow over it.
//! - **Servers' time of day never jumps, and none of their machines is suspended.** Holds: leaders expire by `CLOCK_MONOTONIC`
//!   (`../common/Time.java:34`), which stops in a suspension, so sessions last longer. Ages that zklock shows are wrong.
//!
//! ## The network
//!
//! - **Bytes come in order and unchanged.** TCP checks 16 bits, ZooKeeper's frames none. Open without TLS: docs/SECURITY.md.
//! - **No frame comes in halves.** Holds: a server that drips, in `tests/servers/connection.rs`.
//! - **Nothing says "unreachable", and every name has one address for ever.** Holds: whatever the error, another attempt
//!   follows. A load balancer, or a name of several servers: open (docs/DESIGN.md, "One name for several servers").
//! - **A kernel never gives an open connection up.** Linux does, mostly after 15 minutes (`tcp_retries2`). Holds: a lease ends before.
//! - **A server that ends resets its connections**, unless they are cut just then, as with a machine without power.
//! - **Size costs no time, and little is there**: six processes, a few nodes. Holds: `tests/servers/scale.rs`. Long nodes: open.
//! - **A server always reads.** Real ones stop at 1,000 requests under way (`ZooKeeperServer.java:1572`), and a paused one's window
//!   fills up. Holds: a request that is written late counts from when it was asked for.
//!
//! ## Processes
//!
//! - **A process has one thread**, and loses the processor only where it reads a clock. Holds: the torture, `make test`. If its machine
//!   is suspended meanwhile, its next reading of `CLOCK_MONOTONIC_RAW` does not show that. Holds: the other clocks bound the lease.
//! - **The program `zklock`, `fork`, copies of processes**: none here. Holds: tests of the program. Copies are open (`zklock::guard`).
//! - **Losers drop their guards within a session timeout.** Holds with a limit: `tests/servers/max_hold.rs`.
//! - **Nobody who holds or waits closes the session in quiet time.** Holds: `tests/servers/close.rs`.
//! - **Memory and descriptors never run out.** Open; a process that ends is simulated.
//! - **Suspensions are reckoned exactly**, and oscillators are within 100 parts in a million. x86 may be a second short: docs/DESIGN.md.
//! - **The tick is told to zklock**, not asked for. Holds: `cli/tests/cli/doctor.rs`.
//! - **Everybody may do everything, in clear text**: no digests, SASL or TLS, and no ACLs, except that nobody may announce a leader for a
//!   while (`announcement.rs`). Holds: `tests/servers/tls.rs`, `directory.rs`.
//! - **Numbers of a queue do not end.** Holds: `tests/servers/exhaustion.rs`.
//! - **Options are few**: sessions of 0.8 to 40 s, no stop margin, a drift of 9% or 0.1%. Holds: `recipe/src/lease/tests.rs`.
//!
//! ## How late a leader is
//!
//! *Touches.* A follower answers a client at once, and reports its touches when the leader pings it, every half tick
//! (`quorum/Leader.java:778`, `:844`; `quorum/Learner.java:883`). The leader handles them as it reads the report, before what the
//! follower sent later (`quorum/LearnerHandler.java:655`, `:691`). So a touch is late by up to half a tick and a round trip. The lease
//! needs no bound of the ways, only of the ping, which may be a quarter tick late. ZooKeeper has no such bound. After a pause (SIGSTOP,
//! garbage collection) the ping is due at once; here it comes even after all that had waited. *Open*: a thread that pings late alone,
//! as the closing of a socket delays it (`quorum/LearnerHandler.java:1080`, `:1176`), under a follower whose report is then lost.
//! The lease is then too long by the time between two touches, less the margin.
//!
//! *Marks.* The leader takes the sessions that are due from their queue (`SessionTrackerImpl.java:167`). For one after the other it marks
//! the session (`:169`), writes a line to its log, and submits the session's end (`:170`; `ZooKeeperServer.java:730`). So the first
//! mark comes at once, and each later one after the lines before it. On 3.9.5 that took 10 to 17 microseconds for each of 1,000 and
//! 8,000 sessions that expired in one tick, and 12 ms once. Here each mark comes up to half a tick late (`expiry_delay`).
//!
//! No line of the source bounds it: a log that nobody reads stops the tracker, and neither touches nor writes. 3.9.5 had a full pipe as
//! its standard output, and ticks of 2 s, so a lag of 1.6 s. Four of five sessions were resumed 1.1 s after they had expired, created
//! nodes 2 s later, and ended with these nodes when the pipe was read, 3.3 s after they had expired (two runs). With a waiter of
//! `zklock run` among such sessions, cut off from the servers before and after, two commands ran at once for 3.5 s (two runs of four; in
//! the others the server answered nobody). With `--takeover-delay` of a session timeout, 4.5 s lay between them (one run).
//!
//! When does a late mark end a lease too early? The leader expires a session after `a + T`, rounded up to a tick
//! (`ExpiryQueue.java:54`), where `a` is the last touch that it had heard of. A touch that it hears of before `a + T - margin` moves that,
//! however late marks are: no guard is lost by them as long as touches come in time. A later touch is in doubt (`Lease::hear`), and all
//! guards are lost by then. An acknowledged write that was sent a lag after it begins a new term, in which waiters are granted. If the
//! mark is later than that, the session ends under them: *open*. They hear of it by their nodes or, if they are cut off, at the end
//! of their lease. Seed 518349804 was that, with a mark a whole tick late. A takeover delay of a session timeout leaves no overlap: after
//! the mark, no write extends the lease.

mod announcement;
mod cluster;
mod contender;
mod core;
mod faults;
mod history;
mod interventions;
mod operator;
mod part;
mod peers;
mod probes;
mod processes;
mod quiet;
mod run;
mod seen;
mod slack;
mod takeover;
mod trace;

pub use history::Outcome;
pub use probes::unreached;
pub use run::{Choices, run};
pub use seen::Seen;
pub use trace::print_trace;
