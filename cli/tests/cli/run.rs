//! `zklock run` when nothing goes wrong.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use zklock::Sequencer;

use crate::support::witness::Witness;
use crate::support::{
    Running, SHORTLY, at, child_of, children_of, kill, output, program_of, queue, run, until_queued,
    with_session, zklock,
};
use zklock_test_support::{eventually, server};

#[tokio::test]
async fn it_ends_as_its_command_does() {
    let (_server, servers) = at(server().await);
    for (script, status) in [("exit 0", 0), ("exit 3", 3), ("kill -TERM $$", 143), ("kill -KILL $$", 137)] {
        output(run(&servers, &[], "/lock/status", script)).await.is_silent(status, "");
    }
}

#[tokio::test]
async fn the_command_finds_what_it_needs_in_its_environment() {
    let (_server, servers, session) = with_session(server().await).await;
    let script = r#"printf '%s\n' "$ZKLOCK_PATH" "$ZKLOCK_TOKEN" "$ZKLOCK_SEQUENCER" "$ZKLOCK_SESSION_TIMEOUT_MS"; read line"#;
    let mut running = Running::start(run(&servers, &["--session-timeout", "7s"], "/lock/env", script));
    until_queued(&session, "/lock/env", 1).await;
    let holder = queue(&session, "/lock/env").await.remove(0);

    // The command reads the standard input of zklock.
    running.reads("go\n").await;
    let ran = running.finished().await.says(0, "");
    let [path, token, sequencer, timeout] = ran.stdout.lines().collect::<Vec<_>>()[..] else {
        panic!("{ran:?}")
    };
    let sequencer = sequencer.parse::<Sequencer>().unwrap();
    assert_eq!((path, timeout), ("/lock/env", "7000"));
    assert_eq!(token.parse(), Ok(holder.token.unwrap()));
    assert_eq!((sequencer.token(), Some(sequencer.session())), (holder.token.unwrap(), holder.session));
}

#[tokio::test]
async fn everything_is_gone_before_the_next_one_begins() {
    let (_server, servers, session) = with_session(server().await).await;
    let mut first = Witness::new();
    let mut second = Witness::new();
    // One process stays in the group, the other one leaves it. Neither ends by itself or on SIGTERM.
    let left = r#"read go; trap "" TERM; sleep 1000 & setsid sleep 1000 & exit 5"#;
    let holder = run(&servers, &["--kill-after", "300ms"], "/lock/left", &first.of(left));
    let mut holder = Running::start(holder);
    first.began().await;
    let mut waiter = Running::start(run(&servers, &[], "/lock/left", &second.after(&first, ":")));
    until_queued(&session, "/lock/left", 2).await;

    let began = Instant::now();
    holder.end_input();
    let gone = first.gone().await;
    second.began().await;
    assert!(gone - began >= Duration::from_millis(300), "they were not asked first");
    holder.ends_with(5).await;
    assert_eq!(waiter.ended().await, Some(0), "the next one began before all was gone");
}

#[tokio::test]
async fn those_that_lost_their_parents_are_waited_for() {
    let server = server().await;
    let mut witness = Witness::new();
    let script = format!("for i in $(seq 20); do (sleep 0.01 &); done; {}", witness.of("exec sleep 1000"));
    let mut running = Running::start(run(&server.connect_string(), &[], "/lock/orphans", &script));
    witness.began().await;
    let warden = running.warden().await;
    eventually("a warden with one child", async || children_of(warden).len() == 1).await;
    running.signal(Signal::TERM);
    running.ends_with(143).await;
}

#[tokio::test]
async fn the_children_of_the_shell_that_became_zklock_are_spared() {
    let server = server().await;
    let mut sidecar = Witness::new();
    let mut witness = Witness::new();
    let script = format!(
        "(exec 9>'{}'; exec sleep 1000) & exec '{}' run /lock/exec -- sh -c \"$0\"",
        sidecar.path().display(),
        env!("CARGO_BIN_EXE_zklock")
    );
    let mut program = tokio::process::Command::new("sh");
    program.args(["-c", &script, &witness.of("sleep 1000")]).env("ZKLOCK_SERVERS", server.connect_string());
    program.kill_on_drop(true);
    let mut running = Running::start(program);
    sidecar.began().await;
    witness.began().await;
    let aside = child_of(running.pid(), "sleep").await;
    kill(running.warden().await, Signal::KILL);
    witness.gone().await;
    running.ends_with(70).await;
    assert!(!sidecar.is_gone(), "a stranger was killed");
    kill(aside, Signal::KILL);
    sidecar.gone().await;
}

#[tokio::test]
async fn what_is_left_behind_may_finish_its_last_line() {
    let server = server().await;
    // The shell does not wait for the process that reads its output. That one has a tenth of a second, which it may not get on a
    // busy machine. Without any time it would never finish.
    let script = "exec > >(read -r line; sleep 0.02; echo $line); echo last words";
    let mut last = None;
    for _ in 0..5 {
        let arguments = ["run", "/lock/tee", "--", "bash", "-c", script];
        let output = last.insert(zklock(&server.connect_string(), &arguments).await);
        assert_eq!(output.code, 0, "{output:?}");
        if !output.stdout.is_empty() {
            break;
        }
    }
    assert_eq!(last.map(|output| output.stdout).as_deref(), Some("last words\n"));
}

#[tokio::test]
async fn verbose_tells_each_step() {
    let (_server, servers) = at(server().await);
    let verbose = output(run(&servers, &["--verbose"], "/lock/words", "exit 0")).await;
    for step in ["connected: session 0x", "acquired /lock/words, token ", "released /lock/words"] {
        verbose.is(0, "", step);
    }
    assert!(!verbose.stderr.contains('\u{1b}'), "colours where there is no terminal: {verbose:?}");
}

#[tokio::test]
async fn signals_end_the_wait_at_once_and_leave_no_node() {
    let (_server, servers, session) = with_session(server().await).await;
    let _guard = session.lock("/lock/wait").unwrap().acquire().await.unwrap();
    for (asked, status) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129), (Signal::QUIT, 131)]
    {
        let mut waiter = Running::start(run(&servers, &[], "/lock/wait", "echo in"));
        until_queued(&session, "/lock/wait", 2).await;
        let began = Instant::now();
        waiter.signal(asked);
        waiter.ends_with(status).await;
        assert!(began.elapsed() < SHORTLY, "it took {:?}", began.elapsed());
        until_queued(&session, "/lock/wait", 1).await;
    }
}

#[tokio::test]
async fn signals_are_passed_on_to_the_command() {
    let server = server().await;
    let script = r#"for s in HUP INT QUIT USR1 USR2; do trap "echo $s" $s; done
        trap 'exit 9' TERM; echo ready; while :; do sleep 0.02; done"#;
    let mut running = Running::start(run(&server.connect_string(), &[], "/lock/signals", script));
    assert_eq!(running.prints().await, "ready");
    for (asked, heard) in [
        (Signal::HUP, "HUP"),
        (Signal::INT, "INT"),
        (Signal::QUIT, "QUIT"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
    ] {
        running.signal(asked);
        assert_eq!(running.prints().await, heard);
    }
    running.signal(Signal::TERM);
    running.finished().await.is(9, "", "");
}

#[tokio::test]
async fn what_was_ignored_from_the_start_stays_ignored() {
    let server = server().await;
    let mut witness = Witness::new();
    let script = witness.of("sleep 1000");
    let mut program = tokio::process::Command::new("sh");
    program
        .args(["-c", r#"trap "" HUP; exec "$@""#, "sh", env!("CARGO_BIN_EXE_zklock")])
        .args(["run", "--servers", &server.connect_string(), "/lock/nohup", "--", "sh", "-c", &script])
        .kill_on_drop(true);
    let mut running = Running::start(program);
    witness.began().await;
    let warden = running.warden().await;
    let command = child_of(warden, "sh").await;
    for ignoring in [running.pid(), warden, command] {
        kill(ignoring, Signal::HUP);
    }
    assert!(!witness.is_gone());
    running.signal(Signal::TERM);
    running.ends_with(143).await;
}

#[tokio::test]
async fn a_command_that_cannot_be_run_is_told_apart() {
    let server = server().await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("no-program");
    fs::write(&file, "text").unwrap();
    let script = directory.path().join("script");
    fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let file = file.to_str().unwrap();
    let script = script.to_str().unwrap();
    for (command, status, hint) in [
        ("no-such-command-here", 127, "no directory of PATH has it"),
        ("script", 127, "the interpreter that its first line names is missing"),
        ("/no/such/command", 127, "No such file or directory"),
        (
            "sleep 1",
            127,
            "CMD and each of its arguments are words of their own, so do not quote all of them as one",
        ),
        ("sleep 1", 127, "sh -c 'LINE'"),
        (script, 127, "the interpreter that its first line names is missing"),
        (file, 126, "it may lack the permission to be executed: chmod +x"),
        (directory.path().to_str().unwrap(), 126, "it is a directory; name a program"),
    ] {
        let mut program = program_of(&server.connect_string(), &["run", "/lock/none", "--", command]);
        program.env("PATH", directory.path());
        let output = output(program).await;
        output.is(status, "", command);
        output.is(status, "", hint);
    }
}
