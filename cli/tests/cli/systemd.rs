//! `zklock run` as a service of systemd: what a real notify socket receives, and the unit files.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::{
    Running, at, delete_holder, output, queue, run, until_queued, until_stopped, with_session,
};
use zklock_test_support::{server, within};

/// The manager's end of the notify socket.
struct Manager {
    socket: tokio::net::UnixDatagram,
}

impl Manager {
    fn at(address: &SocketAddr) -> Self {
        let socket = UnixDatagram::bind_addr(address).unwrap();
        socket.set_nonblocking(true).unwrap();
        Self { socket: tokio::net::UnixDatagram::from_std(socket).unwrap() }
    }

    async fn hears(&self) -> String {
        let mut message = [0; 4096];
        let length = within("a message", self.socket.recv(&mut message)).await.unwrap();
        String::from_utf8(message[..length].to_vec()).unwrap()
    }

    async fn hears_of(&self, part: &str) -> String {
        let message = self.hears().await;
        assert!(message.contains(part), "{part:?}: {message:?}");
        message
    }

    /// The messages that have come.
    fn heard(&self) -> Vec<String> {
        let mut message = [0; 4096];
        let received = std::iter::from_fn(|| {
            let length = self.socket.try_recv(&mut message).ok()?;
            Some(String::from_utf8(message[..length].to_vec()).unwrap())
        });
        received.collect()
    }
}

/// Prints which of the manager's variables the command has, and ends when its input does.
const TELLS: &str =
    r#"echo "${NOTIFY_SOCKET+socket} ${WATCHDOG_USEC+watchdog} ${WATCHDOG_PID+process}"; read line; exit 3"#;

#[tokio::test(flavor = "multi_thread")]
async fn it_is_ready_once_it_holds_the_lock() {
    let (_server, servers, session) = with_session(server().await).await;
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("notify");
    let manager = Manager::at(&SocketAddr::from_pathname(&socket).unwrap());
    let guard = session.lock("/lock/unit").unwrap().acquire().await.unwrap();
    let mut program = run(&servers, &[], "/lock/unit", TELLS);
    program.env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", "1000").env("WATCHDOG_PID", "1");
    let mut unit = Running::start(program);
    until_queued(&session, "/lock/unit", 2).await;
    assert_eq!(manager.hears().await, "STATUS=connecting to ZooKeeper");
    assert_eq!(manager.hears().await, "STATUS=waiting for /lock/unit");
    // The pings of another process are not due here.
    assert_eq!(manager.heard(), Vec::<String>::new());

    guard.release().await.unwrap();
    let ready = manager.hears_of("READY=1\nSTATUS=holds /lock/unit, token ").await;
    let holder = queue(&session, "/lock/unit").await.remove(0);
    assert!(ready.ends_with(&holder.token.unwrap().to_string()), "{ready}");
    assert_eq!(unit.prints().await.trim(), "");
    unit.end_input();
    manager.hears_of("STOPPING=1\nSTATUS=CMD has ended").await;
    unit.ends_with(3).await;
    assert_eq!(manager.heard(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn it_stops_for_a_loss_unless_it_restarts() {
    let (server, servers) = at(server().await);
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("notify");
    let manager = Manager::at(&SocketAddr::from_pathname(&socket).unwrap());
    for (path, options) in [("/lock/ends", &[][..]), ("/lock/restarts", &["--restart"])] {
        let mut program = run(&servers, options, path, "exec sleep 1000");
        program.env("NOTIFY_SOCKET", &socket);
        let mut unit = Running::start(program);
        manager.hears_of("connecting").await;
        manager.hears_of("waiting").await;
        manager.hears_of("READY=1\n").await;
        delete_holder(&server, path).await;
        if options.is_empty() {
            manager.hears_of("STOPPING=1\nSTATUS=/lock/ends is lost: ").await;
            unit.ends_with(76).await;
        } else {
            // To systemd the service stays up.
            assert!(manager.hears_of("/lock/restarts is lost: ").await.starts_with("STATUS="));
            assert_eq!(manager.hears().await, "STATUS=waiting for /lock/restarts");
            assert!(manager.hears_of("holds").await.starts_with("STATUS=holds"));
            unit.signal(Signal::TERM);
            unit.ends_with(143).await;
        }
        manager.heard();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_pings_while_it_waits_and_while_it_holds() {
    let (_server, servers, session) = with_session(server().await).await;
    let name = format!("zklock-test-{}", std::process::id());
    let manager = Manager::at(&SocketAddr::from_abstract_name(&name).unwrap());
    let guard = session.lock("/lock/watched").unwrap().acquire().await.unwrap();
    let mut program = run(&servers, &[], "/lock/watched", "exec sleep 1000");
    program.env("NOTIFY_SOCKET", format!("@{name}")).env("WATCHDOG_USEC", "2000000");
    let mut unit = Running::start(program);
    let mut guard = Some(guard);
    while !manager.hears().await.contains("waiting") {}
    // A ping comes in time, for longer than the manager waits for one.
    for stage in ["STATUS=", "READY=1"] {
        for _ in 0..5 {
            let asked = Instant::now();
            manager.hears_of("WATCHDOG=1").await;
            assert!(asked.elapsed() < Duration::from_secs(2), "{stage}");
        }
        if let Some(guard) = guard.take() {
            guard.release().await.unwrap();
            while !manager.hears().await.contains("READY=1") {}
        }
    }
    // One that is stopped does not ping. Its warden, which goes on, does not do it instead.
    unit.signal(Signal::STOP);
    until_stopped(unit.pid()).await;
    manager.heard();
    assert!(tokio::time::timeout(Duration::from_millis(1500), manager.socket.readable()).await.is_err());
    unit.signal(Signal::CONT);
    unit.signal(Signal::TERM);
    assert_ne!(unit.ended().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_speaks_for_itself_if_it_should() {
    let (_server, servers) = at(server().await);
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("notify");
    let manager = Manager::at(&SocketAddr::from_pathname(&socket).unwrap());
    let mut program = run(&servers, &["--notify", "cmd"], "/lock/own", TELLS);
    program.env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", "1000").env("WATCHDOG_PID", "1");
    output(program).await.is(3, "socket watchdog \n", "");
    assert_eq!(manager.heard(), Vec::<String>::new());

    // A manager that is gone does not keep the command from running.
    let mut program = run(&servers, &[], "/lock/own", "exit 4");
    program.env("NOTIFY_SOCKET", "/nowhere/notify");
    output(program).await.is(4, "", "cannot reach $NOTIFY_SOCKET (/nowhere/notify)");
}

/// systemd's own check of the unit files. It looks for the programs in them.
#[tokio::test]
async fn systemd_accepts_the_units() {
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../contrib/systemd");
    let directory = tempfile::tempdir().unwrap();
    let mut verify = tokio::process::Command::new("systemd-analyze");
    verify.args(["verify", "--man=no"]);
    let mut number = 0;
    for unit in std::fs::read_dir(units).unwrap().map(|unit| unit.unwrap().path()) {
        let text = std::fs::read_to_string(&unit).unwrap();
        let text = text.replace("=/usr/local/bin/zklock", concat!("=", env!("CARGO_BIN_EXE_zklock")));
        let copy = directory.path().join(unit.file_name().unwrap());
        std::fs::write(&copy, text).unwrap();
        verify.arg(copy);
        number += 1;
    }
    assert_eq!(number, 2);
    let verdict = within("a verdict", verify.stdin(Stdio::null()).output()).await;
    let verdict = verdict.expect("systemd-analyze, of Debian's package systemd");
    assert!(
        verdict.status.success() && verdict.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&verdict.stderr)
    );
}
