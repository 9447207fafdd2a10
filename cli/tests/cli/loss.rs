//! The lock is lost while a command runs. Every process of the command is gone before the next command begins.

use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::ptrace;
use nix::sys::signal::Signal::SIGKILL;
use nix::sys::wait::WaitStatus;
use rustix::process::Signal;
use tokio::process::Child;
use zklock::{Session, inspect::Contender};
use zklock_testcontainers::{Ensemble, Link, RequestKind, ZooKeeper};

use crate::support;
use crate::support::witness::{EARLY, Witness};
use crate::support::{
    SHORTLY, child_of, delete_holder, ended, finished, line, lines, pid, queue, run, signal, until_queued,
};
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
    holder: Child,
    running: Witness,
    waiter: Child,
    next: Witness,
}

impl Contest {
    /// The holder uses the first connect string, the waiter and the observer the second.
    async fn start(holder: &str, waiter: &str, options: &[&str], script: &str) -> Self {
        let observer = Session::connect(waiter).await.expect("a session");
        let (mut running, next) = (Witness::new(), Witness::new());
        // Options that begin with another session timeout replace that of the holder.
        let usual = if options.first() == HOLDER.first() { &HOLDER[2..] } else { &HOLDER[..] };
        let holder = run(holder, &[usual, options].concat(), PATH, &running.of(script))
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        running.began().await;
        let delay = if options.starts_with(&DELAYED) { &DELAYED[..] } else { &[] };
        let waiter = run(waiter, &[&WAITER, delay].concat(), PATH, &next.after(&running, ":"))
            .spawn()
            .expect("the program starts");
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
        let status = ended(&mut self.waiter).await;
        assert!(status.success(), "{scenario}: the next one began before all was gone");
        gone
    }

    /// As [`outcome`](Self::outcome). The holder says that the lock was lost.
    async fn is_lost(&mut self, scenario: &str) {
        self.outcome(scenario).await;
        self.holder_is_told().await;
    }

    async fn holder_is_told(&mut self) {
        assert_eq!(ended(&mut self.holder).await.code(), Some(76));
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
        finished(contest.holder).await.is(76, "", "/lock/payout is about to be lost: ");
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
        let status = ended(&mut contest.waiter).await.code();
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
    let (ample, meagre) = (
        Link::start(ensemble.address(1)).await.unwrap(),
        Link::start(ensemble.address(MEAGRE)).await.unwrap(),
    );
    meagre.refuse();
    let holder = format!("{},{}", ample.address(), meagre.address());
    let options = ["--session-timeout", "16s"];
    let mut contest = Contest::start(&holder, &ensemble.address(2), &options, STUBBORN).await;
    meagre.accept();
    ample.refuse();
    ample.cut();
    let moved = eventually("the session moves", async || meagre.requests_of(RequestKind::Sync) > 0);
    let _refused = tokio::time::timeout(Duration::from_secs(2), moved).await;
    signal(&contest.holder, Signal::STOP);
    contest.outcome("SIGSTOP to zklock without a server that grants as much").await;
    signal(&contest.holder, Signal::CONT);
    contest.holder_is_told().await;
}

#[tokio::test]
async fn zklock_is_killed() {
    let server = server().await;
    // Its lease is longer than the time that this may take.
    let mut contest = Contest::on(&server, &["--session-timeout", "30s"], STUBBORN).await;
    let began = Instant::now();
    signal(&contest.holder, Signal::KILL);
    let gone = contest.outcome("SIGKILL to zklock").await;
    assert!(gone - began < SHORTLY, "it took {:?}", gone - began);
}

#[tokio::test]
async fn zklock_is_stopped() {
    let server = server().await;
    let mut contest = Contest::on(&server, &["--quiet"], STUBBORN).await;
    signal(&contest.holder, Signal::STOP);
    contest.outcome("SIGSTOP to zklock").await;
    signal(&contest.holder, Signal::CONT);
    let output = finished(contest.holder).await;
    assert_eq!(output.code, 76);
    let text = &output.stderr;
    assert!(text.contains("/lock/payout is lost"), "it does not say why it failed: {text:?}");
}

#[tokio::test]
async fn the_warden_is_killed() {
    let server = server().await;
    let mut contest = Contest::on(&server, &[], STUBBORN).await;
    let warden = child_of(pid(&contest.holder), "zklock-warden").await;
    rustix::process::kill_process(warden, Signal::KILL).unwrap();
    contest.outcome("SIGKILL to the warden").await;
    assert_eq!(ended(&mut contest.holder).await.code(), Some(70));
}

#[tokio::test]
async fn the_warden_is_killed_while_zklock_is_stopped() {
    let server = server().await;
    let mut contest = Contest::on(&server, &[], "exec sleep 1000").await;
    let warden = child_of(pid(&contest.holder), "zklock-warden").await;
    signal(&contest.holder, Signal::STOP);
    rustix::process::kill_process(warden, Signal::KILL).unwrap();
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
    let mut holder = run(&server.connect_string(), &HOLDER, PATH, "echo $$; exec sleep 1000")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let head = line(&mut lines(&mut holder.stdout)).await;
    let head = nix::unistd::Pid::from_raw(head.parse().unwrap());
    ptrace::seize(head, ptrace::Options::empty()).unwrap();
    delete_holder(&server, PATH).await;
    let mut told = lines(&mut holder.stderr);
    while !line(&mut told).await.contains("still runs after SIGKILL") {}
    assert_eq!(holder.try_wait().unwrap(), None, "it does not wait");
    while nix::sys::wait::waitpid(head, None).unwrap() != WaitStatus::Signaled(head, SIGKILL, false) {}
    assert_eq!(ended(&mut holder).await.code(), Some(76));
}

#[tokio::test]
async fn the_warden_is_stopped_when_the_link_becomes_a_black_hole() {
    let server = server().await;
    let (link, mut contest) = Contest::behind_link(&server, &[], STUBBORN).await;
    let warden = child_of(pid(&contest.holder), "zklock-warden").await;
    rustix::process::kill_process(warden, Signal::STOP).unwrap();
    link.black_hole();
    contest.is_lost("black hole, and SIGSTOP to the warden").await;
}

#[tokio::test]
async fn zklock_is_told_to_end() {
    let server = server().await;
    let mut contest = Contest::on(&server, &[], POLITE).await;
    signal(&contest.holder, Signal::TERM);
    contest.outcome("SIGTERM to zklock").await;
    assert_eq!(ended(&mut contest.holder).await.code(), Some(143));
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
    let options = ["--on-lost", "ignore-and-warn"];
    let directory = tempfile::tempdir().unwrap();
    let script = format!("while ! [ -e '{}/end' ]; do sleep 0.02; done; exit 4", directory.path().display());
    let mut contest = Contest::on(&server, &options, &script).await;
    delete_holder(&server, PATH).await;
    contest.next.began().await;
    assert!(!contest.running.is_gone(), "it did not go on");
    std::fs::write(directory.path().join("end"), "").unwrap();
    let output = finished(contest.holder).await;
    assert_eq!(output.code, 4);
    let text = &output.stderr;
    assert!(
        text.contains(
            "/lock/payout is lost: somebody else deleted or changed the holder's node; CMD goes on"
        ),
        "{text}"
    );
}

#[tokio::test]
async fn a_daemon_is_started_again_after_a_loss() {
    let server = server().await;
    let session = Session::connect(server.connect_string()).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let tokens = directory.path().join("tokens");
    let script = format!("echo $ZKLOCK_TOKEN >> '{}'; exec sleep 1000", tokens.display());
    let mut daemon = run(&server.connect_string(), &["--restart"], PATH, &script).spawn().unwrap();
    let client = operator(&server).await;
    for turn in 1..3 {
        support::until_lines(&tokens, turn).await;
        client.delete(&queue(&session, PATH).await.remove(0).path, None).await.unwrap();
    }
    support::until_lines(&tokens, 3).await;
    // After a signal to end, it does not restart the command.
    signal(&daemon, Signal::TERM);
    assert_eq!(ended(&mut daemon).await.code(), Some(143));
    let text = std::fs::read_to_string(&tokens).unwrap();
    let tokens = text.lines().map(|token| token.parse::<i64>().unwrap()).collect::<Vec<_>>();
    assert!(tokens.is_sorted_by(|earlier, later| earlier < later) && tokens.len() == 3, "{tokens:?}");
}

#[tokio::test]
async fn a_command_that_ends_as_the_lock_is_lost_is_one_or_the_other() {
    let server = zklock_test_support::server().await;
    let session = Session::connect(server.connect_string()).await.unwrap();
    let client = operator(&server).await;
    let mut lost = 0;
    for turn in 0..30 {
        let mut witness = Witness::new();
        let mut holder = run(&server.connect_string(), &["--quiet"], PATH, &witness.of("read end"))
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        witness.began().await;
        let node = queue(&session, PATH).await.remove(0).path;
        let is_deleted_first = turn % 2 == 0;
        let deleting = client.delete(&node, None);
        if is_deleted_first {
            deleting.await.unwrap();
            drop(holder.stdin.take());
        } else {
            drop(holder.stdin.take());
            let _gone = deleting.await;
        }
        let status = ended(&mut holder).await.code();
        witness.gone().await;
        // `read` found the end of its input.
        assert!(status == Some(76) || status == Some(1) && !is_deleted_first, "turn {turn}: {status:?}");
        lost += u32::from(status == Some(76));
        assert!(queue(&session, PATH).await.is_empty(), "turn {turn}: a node is left");
    }
    println!("of 30 commands that ended as their node was deleted, {lost} ended with 76");
}
