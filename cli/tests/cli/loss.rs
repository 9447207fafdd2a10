//! The lock is lost while a command runs. Every process of the command is gone before the next command begins.

use std::time::{Duration, Instant};

use nix::sys::ptrace;
use nix::sys::signal::Signal::SIGKILL;
use nix::sys::wait::WaitStatus;
use rustix::process::Signal;
use zklock::{Session, inspect::Contender};
use zklock_testcontainers::{Ensemble, Link, RequestKind, ZooKeeper};

use crate::support::witness::{EARLY, Witness};
use crate::support::{Running, SHORTLY, delete_holder, kill, queue, run, until_queued};
use zklock_test_support::{self, Server, eventually, operator};

const PATH: &str = "/lock/payout";

/// The holder's options, and the duration in them.
const KILL_AFTER: Duration = Duration::from_millis(500);
const HOLDER: [&str; 6] = ["--session-timeout", "8s", "--tick", "1s", "--kill-after", "500ms"];
/// The session of the waiter outlives every fault.
const WAITER: [&str; 2] = ["--session-timeout", "40s"];
/// Covers the time that the holder takes to end its command.
const DELAYED: [&str; 2] = ["--takeover-delay", "8s"];
/// How long a new connection may be silent before the holder leaves it: two fifths of the session timeout. If the holder
/// resumes its session at the moment at which an operator closes it, the server may keep that connection open, and it
/// drops every request of the closed session (`MissingSessionException` in `ZooKeeperServer`).
const SILENCE: Duration = Duration::from_millis(3200);

/// A shell, its child, a grandchild, and a process that has left their process group. All of them ignore SIGTERM.
const STUBBORN: &str = r#"trap "" TERM; (sleep 1000 & sleep 1000) & setsid sleep 1000 & sleep 1000"#;
/// The same without the last one. Each ends on SIGTERM.
const POLITE: &str = r#"(sleep 1000 & sleep 1000) & sleep 1000"#;

/// One command runs, and another one waits.
struct Contest {
    holder: Running,
    running: Witness,
    waiter: Running,
    next: Witness,
}

impl Contest {
    /// The holder uses the first connect string, the waiter and the observer the second.
    async fn start(holder: &str, waiter: &str, options: &[&str], script: &str) -> Self {
        let observer = Session::connect(waiter).await.expect("a session");
        let mut running = Witness::new();
        let next = Witness::new();
        // Options that begin with another session timeout replace that of the holder.
        let usual = if options.first() == HOLDER.first() { &HOLDER[2..] } else { &HOLDER[..] };
        let holder = Running::start(run(holder, &[usual, options].concat(), PATH, &running.of(script)));
        running.began().await;
        let delay = if options.starts_with(&DELAYED) { &DELAYED[..] } else { &[] };
        let waiter = run(waiter, &[&WAITER, delay].concat(), PATH, &next.after(&running, ":"));
        let waiter = Running::start(waiter);
        until_queued(&observer, PATH, 2).await;
        Self { holder, running, waiter, next }
    }

    /// On one server.
    async fn on(server: &Server, options: &[&str], script: &str) -> Self {
        let servers = server.connect_string();
        Self::start(&servers, &servers, options, script).await
    }

    /// On one server. The holder is behind a proxy.
    async fn behind_link(server: &Server, options: &[&str], script: &str) -> (Link, Self) {
        let link = Link::start(server.address()).await.expect("a link");
        let holder = server.at(link.address());
        let contest = Self::start(&holder, &server.connect_string(), options, script).await;
        (link, contest)
    }

    /// When the last process was gone. The next command must begin later.
    async fn outcome(&mut self, scenario: &str) -> Instant {
        let gone = self.running.gone().await;
        self.next.began().await;
        assert_eq!(self.waiter.ended().await, Some(0), "{scenario}: the next one began before all was gone");
        gone
    }

    /// As [`outcome`](Self::outcome). The holder says that the lock was lost.
    async fn is_lost(&mut self, scenario: &str) {
        self.outcome(scenario).await;
        self.holder_is_told().await;
    }

    async fn holder_is_told(&mut self) {
        self.holder.ends_with(76).await;
    }
}

/// Ticks of a second, so that sessions last from 2 s to 40 s.
async fn server() -> Server {
    let builder = ZooKeeper::builder().tick_time(Duration::from_secs(1));
    builder.max_session_timeout(Duration::from_secs(40)).start().await.expect("a ZooKeeper server").into()
}

#[tokio::test]
async fn the_link_is_a_black_hole() {
    let server = server().await;
    for (script, scenario) in
        [(POLITE, "black hole, CMD ends on SIGTERM"), (STUBBORN, "black hole, CMD ignores SIGTERM")]
    {
        let (link, mut contest) = Contest::behind_link(&server, &[], script).await;
        link.black_hole();
        contest.outcome(scenario).await;
        contest.holder.finished().await.is(76, "", "/lock/payout is about to be lost: ");
    }
}

#[tokio::test]
async fn the_holders_follower_is_cut_off() {
    let builder = Ensemble::builder(3).tick_time(Duration::from_secs(1));
    let ensemble = builder.max_session_timeout(Duration::from_secs(40)).start().await.expect("an ensemble");
    let alone = ensemble.followers().await.unwrap()[0];
    let others = (0..ensemble.len()).filter(|other| *other != alone);
    let others = others.map(|other| ensemble.address(other)).collect::<Vec<_>>().join(",");
    let mut contest = Contest::start(&ensemble.address(alone), &others, &[], STUBBORN).await;
    ensemble.isolate(alone).await.unwrap();
    contest.is_lost("the holder's server is a follower and partitioned").await;
}

#[tokio::test]
async fn an_operator_deletes_the_holders_node() {
    after_a_surprise("an operator deletes the node", async |server, holder| {
        operator(server).await.delete(&holder.path, None).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn an_operator_closes_the_holders_session() {
    after_a_surprise("an operator closes the session", async |server, holder| {
        server.own().close_session(holder.session.unwrap()).await.unwrap();
    })
    .await;
}

/// After a loss that no lease foresees, every process is gone within the time to kill. It is gone before the next command
/// begins if that one waits for it.
async fn after_a_surprise(what: &str, surprise: impl AsyncFn(&Server, &Contender)) {
    let server = server().await;
    for (options, delay) in [(&DELAYED[..], "takeover delay 8 s"), (&[], "no takeover delay")] {
        let scenario = format!("{what}, {delay}");
        let mut contest = Contest::on(&server, options, STUBBORN).await;
        let session = Session::connect(server.connect_string()).await.unwrap();
        let holder = queue(&session, PATH).await.remove(0);
        let began = Instant::now();
        surprise(&server, &holder).await;
        let gone = contest.running.gone().await;
        contest.next.began().await;
        // The news takes a round trip, or new connections, of which one may be silent; and the machine is busy.
        assert!(gone - began < SILENCE + KILL_AFTER + SHORTLY, "{scenario}: it took {:?}", gone - began);
        let status = contest.waiter.ended().await;
        let is_early = status == Some(EARLY);
        assert!(status == Some(0) || is_early, "{scenario}: {status:?}");
        assert!(!is_early || options.is_empty(), "{scenario}: the next one began before all was gone");
        contest.holder_is_told().await;
    }
}

/// The warden is told the end of the lease, and cannot be told another one while zklock is stopped. So the session moves to no
/// server that would make the lease shorter.
#[tokio::test]
async fn zklock_is_stopped_after_its_server_went_and_another_one_grants_less() {
    // Servers elect the highest number, so it does not lead.
    const MEAGRE: usize = 0;
    let builder = Ensemble::builder(3).tick_time(Duration::from_secs(1));
    let builder =
        builder.max_session_timeout(Duration::from_secs(40)).property_of(MEAGRE, "maxSessionTimeout", "4000");
    let ensemble = builder.start().await.expect("an ensemble");
    let ample = Link::start(ensemble.address(1)).await.unwrap();
    let meagre = Link::start(ensemble.address(MEAGRE)).await.unwrap();
    meagre.refuse();
    let holder = format!("{},{}", ample.address(), meagre.address());
    let options = ["--session-timeout", "16s"];
    let mut contest = Contest::start(&holder, &ensemble.address(2), &options, STUBBORN).await;
    meagre.accept();
    ample.refuse();
    ample.cut();
    let moved = eventually("the session moves", async || meagre.requests_of(RequestKind::Sync) > 0);
    let _refused = tokio::time::timeout(Duration::from_secs(2), moved).await;
    contest.holder.signal(Signal::STOP);
    contest.outcome("SIGSTOP to zklock without a server that grants as much").await;
    contest.holder.signal(Signal::CONT);
    contest.holder_is_told().await;
}

#[tokio::test]
async fn zklock_is_killed() {
    let server = server().await;
    // Its lease is longer than the time that this may take.
    let mut contest = Contest::on(&server, &["--session-timeout", "30s"], STUBBORN).await;
    let began = Instant::now();
    contest.holder.signal(Signal::KILL);
    let gone = contest.outcome("SIGKILL to zklock").await;
    assert!(gone - began < SHORTLY, "it took {:?}", gone - began);
}

#[tokio::test]
async fn zklock_is_stopped() {
    let server = server().await;
    let mut contest = Contest::on(&server, &["--quiet"], STUBBORN).await;
    contest.holder.signal(Signal::STOP);
    contest.outcome("SIGSTOP to zklock").await;
    contest.holder.signal(Signal::CONT);
    contest.holder.finished().await.is(76, "", "/lock/payout is lost");
}

#[tokio::test]
async fn the_warden_is_killed() {
    let server = server().await;
    let mut contest = Contest::on(&server, &[], STUBBORN).await;
    kill(contest.holder.warden().await, Signal::KILL);
    contest.outcome("SIGKILL to the warden").await;
    contest.holder.ends_with(70).await;
}

#[tokio::test]
async fn the_warden_is_killed_while_zklock_is_stopped() {
    let server = server().await;
    let mut contest = Contest::on(&server, &[], "exec sleep 1000").await;
    let warden = contest.holder.warden().await;
    contest.holder.signal(Signal::STOP);
    kill(warden, Signal::KILL);
    contest.outcome("SIGSTOP to zklock and SIGKILL to the warden").await;
}

#[tokio::test]
async fn those_that_fork_away_for_ever_are_caught() {
    let server = server().await;
    // Each process leaves its group, starts the next one, and ends.
    let script = r#"chain='setsid sh -c "$0" "$0" & exit'; for i in 1 2 3 4; do sh -c "$chain" "$chain" & done; wait; sleep 1000"#;
    let mut contest = Contest::on(&server, &[], script).await;
    delete_holder(&server, PATH).await;
    contest.running.gone().await;
    contest.holder_is_told().await;
}

/// A traced process that is dead stays until its tracer looks. It stands for a process that the kernel cannot kill.
#[tokio::test]
async fn what_outlives_sigkill_is_waited_for_and_told_of() {
    let server = server().await;
    let holder = run(&server.connect_string(), &HOLDER, PATH, "echo $$; exec sleep 1000");
    let mut holder = Running::start(holder);
    let head = nix::unistd::Pid::from_raw(holder.prints().await.parse().unwrap());
    ptrace::seize(head, ptrace::Options::empty()).unwrap();
    delete_holder(&server, PATH).await;
    while !holder.tells().await.contains("still runs after SIGKILL") {}
    assert_eq!(holder.child.try_wait().unwrap(), None, "it does not wait");
    while nix::sys::wait::waitpid(head, None).unwrap() != WaitStatus::Signaled(head, SIGKILL, false) {}
    holder.ends_with(76).await;
}

#[tokio::test]
async fn the_warden_is_stopped_when_the_link_becomes_a_black_hole() {
    let server = server().await;
    let (link, mut contest) = Contest::behind_link(&server, &[], STUBBORN).await;
    kill(contest.holder.warden().await, Signal::STOP);
    link.black_hole();
    contest.is_lost("black hole, and SIGSTOP to the warden").await;
}

#[tokio::test]
async fn with_kill_nobody_is_asked() {
    let server = server().await;
    let asked = tempfile::tempdir().unwrap();
    let script =
        format!("trap \"touch '{}/yes'\" TERM; while :; do sleep 0.02; done", asked.path().display());
    let (link, mut contest) = Contest::behind_link(&server, &["--on-lost", "kill"], &script).await;
    link.black_hole();
    contest.is_lost("black hole, --on-lost kill").await;
    assert!(!asked.path().join("yes").exists(), "it got SIGTERM");
}

#[tokio::test]
async fn one_that_is_to_go_on_goes_on_and_keeps_its_status() {
    let server = server().await;
    let mut contest = Contest::on(&server, &["--on-lost", "ignore-and-warn"], "read go; exit 4").await;
    delete_holder(&server, PATH).await;
    contest.next.began().await;
    assert!(!contest.running.is_gone(), "it did not go on");
    let said = "/lock/payout is lost: somebody else deleted or changed the holder's node; CMD goes on";
    contest.holder.finished().await.is(4, "", said);
}

#[tokio::test]
async fn a_command_that_ends_as_the_lock_is_lost_is_one_or_the_other() {
    let server = zklock_test_support::server().await;
    let session = Session::connect(server.connect_string()).await.unwrap();
    let client = operator(&server).await;
    let mut lost = 0;
    for turn in 0..30 {
        let mut witness = Witness::new();
        let holder = run(&server.connect_string(), &["--quiet"], PATH, &witness.of("read end"));
        let mut holder = Running::start(holder);
        witness.began().await;
        let node = queue(&session, PATH).await.remove(0).path;
        let is_deleted_first = turn % 2 == 0;
        let deleting = client.delete(&node, None);
        if is_deleted_first {
            deleting.await.unwrap();
            holder.end_input();
        } else {
            holder.end_input();
            let _gone = deleting.await;
        }
        let status = holder.ended().await;
        witness.gone().await;
        // `read` found the end of its input.
        assert!(status == Some(76) || status == Some(1) && !is_deleted_first, "turn {turn}: {status:?}");
        lost += u32::from(status == Some(76));
        assert!(queue(&session, PATH).await.is_empty(), "turn {turn}: a node is left");
    }
    println!("of 30 commands that ended as their node was deleted, {lost} ended with 76");
}
