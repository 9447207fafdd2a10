//! `zklock run` when nothing goes wrong.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tokio::io::AsyncWriteExt;
use zklock::Sequencer;

use crate::support;
use crate::support::witness::Witness;
use crate::support::{SHORTLY, at, ended, finished, output, run, signal, until_queued, with_session, zklock};
use zklock_test_support::{eventually, server, within};

#[tokio::test]
async fn it_ends_as_its_command_does() {
    let (_server, servers) = at(server().await);
    for (script, status) in [("exit 0", 0), ("exit 3", 3), ("kill -TERM $$", 143), ("kill -KILL $$", 137)] {
        let output = output(run(&servers, &[], "/lock/status", script)).await;
        assert_eq!(output.code, status, "{script}: {output:?}");
        assert_eq!(output.stderr, "", "{script}");
    }
}

#[tokio::test]
async fn the_command_finds_what_it_needs_in_its_environment() {
    let (_server, servers, session) = with_session(server().await).await;
    let script = r#"printf '%s\n' "$ZKLOCK_PATH" "$ZKLOCK_TOKEN" "$ZKLOCK_SEQUENCER" "$ZKLOCK_SESSION_TIMEOUT_MS"; read line"#;
    let mut program = run(&servers, &["--session-timeout", "7s"], "/lock/env", script);
    let mut child = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    until_queued(&session, "/lock/env", 1).await;
    let holder = support::queue(&session, "/lock/env").await.remove(0);

    // The command reads the standard input of zklock.
    child.stdin.take().unwrap().write_all(b"go\n").await.unwrap();
    let output = finished(child).await;
    assert_eq!(output.code, 0, "{output:?}");
    let text = &output.stdout;
    let [path, token, sequencer, timeout] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
    let sequencer = sequencer.parse::<Sequencer>().unwrap();
    assert_eq!((path, timeout), ("/lock/env", "7000"));
    assert_eq!(token.parse(), Ok(holder.token.unwrap()));
    assert_eq!((sequencer.token(), Some(sequencer.session())), (holder.token.unwrap(), holder.session));
}

#[tokio::test]
async fn everything_is_gone_before_the_next_one_begins() {
    let (_server, servers, session) = with_session(server().await).await;
    let (mut first, mut second) = (Witness::new(), Witness::new());
    // One process stays in the group, the other one leaves it. Neither ends by itself or on SIGTERM.
    let left = r#"trap "" TERM; sleep 1000 & setsid sleep 1000 & exit 5"#;
    let mut holder =
        run(&servers, &["--kill-after", "300ms"], "/lock/left", &first.of(&format!("read go; {left}")))
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
    first.began().await;
    let mut waiter =
        run(&servers, &[], "/lock/left", &second.after(&first, ":")).stderr(Stdio::piped()).spawn().unwrap();
    until_queued(&session, "/lock/left", 2).await;

    let began = Instant::now();
    drop(holder.stdin.take());
    let gone = first.gone().await;
    second.began().await;
    assert!(gone - began >= Duration::from_millis(300), "they were not asked first");
    assert_eq!(ended(&mut holder).await.code(), Some(5));
    assert_eq!(ended(&mut waiter).await.code(), Some(0), "the next one began before all was gone");
}

#[tokio::test]
async fn those_that_lost_their_parents_are_waited_for() {
    let server = server().await;
    let mut witness = Witness::new();
    let script = format!("for i in $(seq 20); do (sleep 0.01 &); done; {}", witness.of("exec sleep 1000"));
    let mut child = run(&server.connect_string(), &[], "/lock/orphans", &script).spawn().unwrap();
    witness.began().await;
    let warden = support::child_of(support::pid(&child), "zklock-warden").await;
    eventually("a warden with one child", async || support::children_of(warden).len() == 1).await;
    signal(&child, Signal::TERM);
    assert_eq!(ended(&mut child).await.code(), Some(143));
}

#[tokio::test]
async fn the_children_of_the_shell_that_became_zklock_are_spared() {
    let server = server().await;
    let (mut sidecar, mut witness) = (Witness::new(), Witness::new());
    let script = format!(
        "(exec 9>'{}'; exec sleep 1000) & exec '{}' run /lock/exec -- sh -c \"$0\"",
        sidecar.path().display(),
        env!("CARGO_BIN_EXE_zklock")
    );
    let mut program = tokio::process::Command::new("sh");
    program.args(["-c", &script, &witness.of("sleep 1000")]).env("ZKLOCK_SERVERS", server.connect_string());
    let mut child = program.kill_on_drop(true).spawn().unwrap();
    sidecar.began().await;
    witness.began().await;
    let zklock = support::pid(&child);
    let (warden, aside) =
        (support::child_of(zklock, "zklock-warden").await, support::child_of(zklock, "sleep").await);
    rustix::process::kill_process(warden, Signal::KILL).unwrap();
    witness.gone().await;
    assert_eq!(ended(&mut child).await.code(), Some(70));
    assert!(!sidecar.is_gone(), "a stranger was killed");
    rustix::process::kill_process(aside, Signal::KILL).unwrap();
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
        let mut program = zklock(&server.connect_string());
        program.args(["run", "/lock/tee", "--", "bash", "-c", script]);
        let output = last.insert(output(program).await);
        assert_eq!(output.code, 0, "{output:?}");
        if !output.stdout.is_empty() {
            break;
        }
    }
    assert_eq!(last.map(|output| output.stdout).as_deref(), Some("last words\n"));
}

#[tokio::test]
async fn quiet_waits_without_a_word_and_verbose_tells_each_step() {
    let (_server, servers, session) = with_session(server().await).await;
    let guard = session.lock("/lock/words").unwrap().acquire().await.unwrap();
    let quiet = run(&servers, &["--quiet"], "/lock/words", "exit 0");
    let quiet = tokio::spawn(output(quiet));
    until_queued(&session, "/lock/words", 2).await;
    guard.release().await.unwrap();
    assert_eq!(within("the end", quiet).await.unwrap().stderr, "");

    let text = output(run(&servers, &["--verbose"], "/lock/words", "exit 0")).await.stderr;
    for step in ["connected: session 0x", "acquired /lock/words, token ", "released /lock/words"] {
        assert!(text.contains(step), "{step}: {text}");
    }
    assert!(!text.contains('\u{1b}'), "colours where there is no terminal: {text}");
}

#[tokio::test]
async fn signals_end_the_wait_at_once_and_leave_no_node() {
    let (_server, servers, session) = with_session(server().await).await;
    let _guard = session.lock("/lock/wait").unwrap().acquire().await.unwrap();
    for (asked, status) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129), (Signal::QUIT, 131)]
    {
        let mut waiter = run(&servers, &[], "/lock/wait", "echo in").stdout(Stdio::piped()).spawn().unwrap();
        until_queued(&session, "/lock/wait", 2).await;
        let began = Instant::now();
        signal(&waiter, asked);
        assert_eq!(ended(&mut waiter).await.code(), Some(status));
        assert!(began.elapsed() < SHORTLY, "it took {:?}", began.elapsed());
        until_queued(&session, "/lock/wait", 1).await;
    }
}

#[tokio::test]
async fn signals_are_passed_on_to_the_command() {
    let server = server().await;
    let directory = tempfile::tempdir().unwrap();
    let heard = directory.path().join("heard");
    let script = format!(
        r#"for s in HUP INT QUIT USR1 USR2; do trap "echo $s >> '{0}'" $s; done
        trap 'exit 9' TERM; echo ready >> '{0}'; while :; do sleep 0.02; done"#,
        heard.display()
    );
    let mut child = run(&server.connect_string(), &[], "/lock/signals", &script).spawn().unwrap();
    support::until_lines(&heard, 1).await;
    for (line, asked) in
        [Signal::HUP, Signal::INT, Signal::QUIT, Signal::USR1, Signal::USR2].into_iter().enumerate()
    {
        signal(&child, asked);
        support::until_lines(&heard, line + 2).await;
    }
    signal(&child, Signal::TERM);
    assert_eq!(ended(&mut child).await.code(), Some(9));
    assert_eq!(fs::read_to_string(&heard).unwrap(), "ready\nHUP\nINT\nQUIT\nUSR1\nUSR2\n");
}

#[tokio::test]
async fn what_was_ignored_from_the_start_stays_ignored() {
    let server = server().await;
    let mut witness = Witness::new();
    let script = witness.of("sleep 1000");
    let mut program = tokio::process::Command::new("sh");
    let mut child = program
        .args(["-c", r#"trap "" HUP; exec "$@""#, "sh", env!("CARGO_BIN_EXE_zklock")])
        .args(["run", "--servers", &server.connect_string(), "/lock/nohup", "--", "sh", "-c", &script])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    witness.began().await;
    let warden = support::child_of(support::pid(&child), "zklock-warden").await;
    let command = support::child_of(warden, "sh").await;
    for ignoring in [support::pid(&child), warden, command] {
        rustix::process::kill_process(ignoring, Signal::HUP).unwrap();
    }
    assert!(!witness.is_gone());
    signal(&child, Signal::TERM);
    assert_eq!(ended(&mut child).await.code(), Some(143));
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
    let (file, script) = (file.to_str().unwrap(), script.to_str().unwrap());
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
        let mut program = zklock(&server.connect_string());
        program.args(["run", "/lock/none", "--", command]).env("PATH", directory.path());
        let output = output(program).await;
        output.is(status, "", command);
        output.is(status, "", hint);
    }
}
