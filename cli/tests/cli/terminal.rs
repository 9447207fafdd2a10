//! `zklock run` on a terminal: which process has it, and what its keys do.

use crate::support::terminal::Terminal;
use crate::support::witness::Witness;
use crate::support::{Running, delete_holder, run};
use zklock_test_support::{Server, server, session, until_nothing_is_left};

const CTRL_C: &str = "\u{3}";
const CTRL_Z: &str = "\u{1a}";

/// Prints the process group of the command, and the one in its terminal's foreground.
const WHO: &str = "read -r a b c d group f g foreground rest < /proc/$$/stat; echo $group $foreground";

/// Runs until it is interrupted. (A shell that is interrupted right before it starts a program waits for the program
/// first.)
const NAPS: &str = "while :; do sleep 0.02; done";

/// Says that it was continued. (It starts no program meanwhile, so it stops at once on SIGTSTP.)
const HEARS: &str = "trap \"echo con\"\"tinued\" CONT; sleep 1000 & echo be\"\"gun; while :; do wait; done";

/// Echoes two lines.
const TWO_LINES: &str = "sed -u 's/^/got /; 2q'";

/// A shell on a terminal, with a place of its own on a server.
async fn shell() -> (Server, Terminal) {
    let server = server().await;
    let terminal = Terminal::bash(&server.connect_string()).await;
    (server, terminal)
}

/// Whether a line ends with the same number twice. The shell begins the line with a sequence for the terminal.
fn is_in_foreground(shown: &str) -> bool {
    let mut lines = shown.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines.any(
        |line| matches!(line[..], [.., group, foreground] if group == foreground && group.parse::<u32>().is_ok()),
    )
}

/// The command [`TWO_LINES`] is stopped between the lines.
async fn stops_and_goes_on(terminal: &mut Terminal) {
    terminal.press_until("one\n", "got one").await;
    terminal.press_until(CTRL_Z, "Stopped").await;
    terminal.press("fg\n");
    terminal.press_until("two\n", "got two").await;
}

#[tokio::test]
async fn a_job_of_its_own_has_the_terminal_from_the_start() {
    let (_server, mut terminal) = shell().await;
    terminal.press(&format!(
        "zklock run /lock/tty -- sh -c '{WHO}; read x; echo got $x; exit 5'; echo status $?\n"
    ));
    terminal.until("got $x").await;
    terminal.press_until("a line\n", "got a line").await;
    terminal.until("status 5").await;
    assert!(is_in_foreground(&terminal.shown()), "{}", terminal.shown());
    // The shell has the terminal again.
    terminal.press_until("echo $((60 * 70))\n", "4200").await;
}

#[tokio::test]
async fn one_in_a_pipe_gets_the_terminal_when_it_asks() {
    let (_server, mut terminal) = shell().await;
    terminal.press(
        "zklock run /lock/tty -- sh -c 'read x; echo got $x; exit 5' | cat; echo status ${PIPESTATUS[0]}\n",
    );
    terminal.until("PIPESTATUS").await;
    terminal.press_until("a line\n", "got a line").await;
    terminal.until("status 5").await;
}

#[tokio::test]
async fn a_script_has_the_terminal_back_afterwards() {
    let (_server, mut terminal) = shell().await;
    let script = "zklock run /lock/tty -- sh -c \"read x; echo got \\$x\"; read y; echo then $y";
    terminal.press_until(&format!("sh -c '{script}'; echo status $?\n"), "then $y").await;
    terminal.press_until("a line\n", "got a line").await;
    terminal.press_until("another\n", "then another").await;
    terminal.until("status 0").await;
}

#[tokio::test]
async fn ctrl_c_ends_the_command_and_the_script_around_it() {
    for is_script in [false, true] {
        let (server, mut terminal) = shell().await;
        let mut witness = Witness::new();
        let job = |quote: &str| {
            let pipe = witness.path();
            format!("zklock run /lock/tty -- sh -c {quote}exec 9>{}; {NAPS}{quote}", pipe.display())
        };
        terminal.press(&if is_script {
            format!("sh -c '{}; echo un''reached'\n", job("\""))
        } else {
            format!("{}\n", job("'"))
        });
        witness.began().await;
        terminal.press(CTRL_C);
        witness.gone().await;
        terminal.until("ready> ").await;
        terminal.press_until("echo status $?\n", "status 130").await;
        assert!(!terminal.shown().contains("unreached"), "{}", terminal.shown());
        until_nothing_is_left(&server).await;
    }
}

#[tokio::test]
async fn ctrl_z_stops_it_and_fg_goes_on() {
    let (_server, mut terminal) = shell().await;
    terminal.press("zklock run /lock/tty -- sh -c 'read x; echo an''d; read y; echo got $x $y; exit 5'\n");
    terminal.press_until("one\n", "and").await;
    terminal.press_until(CTRL_Z, "Stopped").await;
    terminal.until("zklock: zklock and CMD are stopped; if nobody continues them within ").await;
    terminal.press_until("echo $((60 * 70))\n", "4200").await;
    terminal.press("fg\n");
    terminal.press_until("two\n", "got one two").await;
    terminal.press_until("echo again $?\n", "again 5").await;
}

#[tokio::test]
async fn one_that_is_stopped_for_too_long_is_gone_before_the_next_one_begins() {
    let (server, mut terminal) = shell().await;
    let mut running = Witness::new();
    let mut next = Witness::new();
    terminal.press(&format!(
        "zklock run --session-timeout 4s --tick 1s --kill-after 300ms /lock/tty -- sh -c 'exec 9>{}; exec cat'\n",
        running.path().display()
    ));
    running.began().await;
    let waiter = run(&server.connect_string(), &[], "/lock/tty", &next.after(&running, ":"));
    let mut waiter = Running::start(waiter);
    terminal.press(CTRL_Z);
    running.gone().await;
    next.began().await;
    assert_eq!(waiter.ended().await, Some(0), "the next one began before all was gone");
    terminal.until("Stopped").await;
    terminal.press_until("fg; echo status $?\n", "status 76").await;
}

#[tokio::test]
async fn a_terminal_that_stops_background_jobs_for_their_output_does_not_stop_zklock() {
    let (server, mut terminal) = shell().await;
    let mut witness = Witness::new();
    terminal.press("stty tostop\n");
    terminal.press(&format!(
        "zklock run --verbose /lock/tty -- sh -c 'exec 9>{}; cat'; echo status $?\n",
        witness.path().display()
    ));
    witness.began().await;
    delete_holder(&server, "/lock/tty").await;
    terminal.until("/lock/tty is lost").await;
    terminal.until("status 76").await;
    terminal.press_until("zklock run /lock/tty -- /nonexistent &\n", "/nonexistent: ").await;
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn ctrl_z_stops_what_is_around_it_too() {
    for (command, last) in [
        (format!("sh -c \"zklock run /lock/tty -- {TWO_LINES}; echo th''en\"\n"), "then"),
        // The key stops the inner command. Each zklock then stops itself.
        (format!("zklock run /lock/outer -- zklock run /lock/inner -- {TWO_LINES}\n"), "got two"),
        // SIGCONT continues a program even if the program ignores it.
        (format!("env --ignore-signal=CONT zklock run /lock/tty -- {TWO_LINES}\n"), "got two"),
    ] {
        let (_server, mut terminal) = shell().await;
        terminal.press(&command);
        stops_and_goes_on(&mut terminal).await;
        terminal.until(last).await;
    }
}

/// The inner one has the terminal, and no command yet.
#[tokio::test]
async fn ctrl_z_stops_one_within_another_that_waits() {
    let (server, mut terminal) = shell().await;
    let session = session(&server).await;
    let guard = session.lock("/lock/inner").unwrap().acquire().await.unwrap();
    terminal.press("zklock run /lock/outer -- zklock run /lock/inner -- echo in''side; echo status $?\n");
    terminal.until("waiting for /lock/inner").await;
    terminal.press_until(CTRL_Z, "Stopped").await;
    guard.release().await.unwrap();
    terminal.press_until("fg\n", "inside").await;
    until_nothing_is_left(&server).await;
}

/// Neither has the terminal. Each gets the SIGTSTP from the one above.
#[tokio::test]
async fn ctrl_z_stops_one_within_another_in_a_pipe() {
    let (server, mut terminal) = shell().await;
    terminal.press(&format!("zklock run /lock/outer -- zklock run /lock/inner -- sh -c '{HEARS}' | cat\n"));
    terminal.until("begun").await;
    terminal.press_until(CTRL_Z, "Stopped").await;
    assert!(!terminal.shown().contains("continued"), "{}", terminal.shown());
    terminal.press_until("fg\n", "continued").await;
    terminal.press(CTRL_C);
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn one_that_is_stopped_hears_of_its_end() {
    let (server, mut terminal) = shell().await;
    terminal.press("zklock run /lock/tty -- sh -c 'read x' &\n");
    terminal.until("zklock: CMD waits for the terminal").await;
    terminal.press_until("kill -TERM %1; wait %1; echo status $?\n", "status 143").await;
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn ctrl_c_after_fg_ends_the_script_around_it_too() {
    let (server, mut terminal) = shell().await;
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("script");
    std::fs::write(&script, format!("zklock run /lock/tty -- sh -c '{HEARS}'; echo unreached")).unwrap();
    terminal.press_until(&format!("sh {}\n", script.display()), "begun").await;
    terminal.press_until(CTRL_Z, "Stopped").await;
    terminal.press_until("fg\n", "continued").await;
    terminal.press(CTRL_C);
    until_nothing_is_left(&server).await;
    terminal.press_until("echo status $?\n", "status 130").await;
    assert!(!terminal.shown().contains("unreached"));
}

#[tokio::test]
async fn what_waits_for_a_terminal_that_is_gone_waits_no_more() {
    let (server, mut terminal) = shell().await;
    // It is no job of the shell, so it gets no signal.
    let script = "while echo .; do sleep 0.02; done & read x < /dev/tty";
    terminal.press(&format!("(zklock run /lock/tty -- sh -c '{script}' &)\n"));
    terminal.until("zklock: CMD waits for the terminal").await;
    terminal.torn().await;
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn ctrl_z_does_nothing_where_nobody_could_undo_it() {
    let server = server().await;
    let script = "read x; echo an''d; read y; echo got $x $y";
    let arguments = ["run", "/lock/tty", "--", "sh", "-c", script];
    let mut terminal = Terminal::start_with(&server.connect_string(), &[], |command| {
        command.env("PATH", std::env::var_os("PATH").expect("a path"));
        command.env("ZKLOCK_SERVERS", server.connect_string());
        *command.get_argv_mut() =
            [env!("CARGO_BIN_EXE_zklock")].iter().chain(&arguments).map(Into::into).collect();
    });
    terminal.press_until("one\n", "and").await;
    terminal.press(CTRL_Z);
    terminal.press_until("two\n", "got one two").await;
    assert_eq!(terminal.ended().await, 0);
}

/// In a container, a process group or session that was made outside has the number 0.
#[tokio::test]
async fn its_process_group_may_be_outside_its_pid_namespace() {
    let server = server().await;
    for shell in ["exec", ""] {
        let mut terminal = Terminal::bash(&server.connect_string()).await;
        let script = format!("{shell} zklock run /lock/tty -- {TWO_LINES}; exit");
        let namespace = "unshare --map-root-user --pid --fork --mount-proc";
        terminal.press(&format!("{namespace} sh -c \"{script}\"; echo status $?\n"));
        terminal.press_until("one\n", "got one").await;
        terminal.press(CTRL_Z);
        terminal.press_until("two\n", "got two").await;
        terminal.until("status 0").await;
    }
}

#[tokio::test]
async fn one_in_the_background_waits_for_the_terminal() {
    let (_server, mut terminal) = shell().await;
    terminal.press("zklock run /lock/tty -- sh -c 'read x; echo got $x' &\n");
    terminal.until("zklock: CMD waits for the terminal").await;
    terminal.press("fg\n");
    terminal.press_until("a line\n", "got a line").await;
}

#[tokio::test]
async fn it_may_be_a_shell_with_jobs_of_its_own() {
    let (_server, mut terminal) = shell().await;
    terminal.press("PS1='inn''er> ' zklock run /lock/tty -- bash --norc --noprofile -i; echo status $?\n");
    terminal.until("inner> ").await;
    terminal.press_until("sh -c 'echo be''gun; exec sleep 1000'\n", "begun").await;
    terminal.press_until(CTRL_Z, "Stopped").await;
    terminal.press_until("kill -KILL %1; fg; echo $((60 * 70))\n", "4200").await;
    // It may suspend itself.
    terminal.press_until("suspend\n", "+  Stopped                 PS1").await;
    terminal.press("fg\n");
    terminal.press("exit 7\n");
    terminal.press_until("echo again $?\n", "again 7").await;
}

#[tokio::test]
async fn the_end_of_the_terminal_is_the_end_of_the_command() {
    let (server, mut terminal) = shell().await;
    let mut witness = Witness::new();
    let script = format!("exec 9>{}; while echo .; do sleep 0.02; done", witness.path().display());
    terminal.press(&format!("zklock run /lock/tty -- sh -c '{script}'\n"));
    witness.began().await;
    terminal.torn().await;
    witness.gone().await;
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn colours_are_for_terminals_that_want_them() {
    let server = server().await;
    for (variables, is_colored) in [("", true), ("NO_COLOR=1 ", false)] {
        let mut terminal = Terminal::bash(&server.connect_string()).await;
        let command = format!("{variables}zklock run --kill-after 1h /lock/tty -- true; echo status $?\n");
        terminal.press_until(&command, "status 64").await;
        let shown = terminal.shown();
        assert_eq!(shown.contains("zklock: \u{1b}[31m"), is_colored, "{shown:?}");
        terminal.press("exit\n");
        terminal.ended().await;
    }
}
