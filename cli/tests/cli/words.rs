//! The program writes whole lines, and names its own options.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;

use crate::support::{
    KAZOO, NOBODY, at, contend_as, contend_as_kazoo, ended, output, run, with_session, zklock, zklock_as,
};
use zklock::inspect::is_harmful;
use zklock_test_support::{make, operator, server};
use zookeeper_client::{Acls, Client, CreateMode};

/// The writes of the program to standard error. Each write to a datagram socket is a datagram of its own.
async fn pieces(mut program: tokio::process::Command) -> Vec<String> {
    let (ours, theirs) = UnixDatagram::pair().expect("a pair of sockets");
    let mut child = program.stderr(OwnedFd::from(theirs)).spawn().expect("the program starts");
    // The command keeps the other end of the socket open until it is dropped.
    drop(program);
    ended(&mut child).await;
    ours.set_nonblocking(true).expect("a socket");
    let mut piece = [0; 65_536];
    let mut pieces = Vec::new();
    while let Ok(length @ 1..) = ours.recv(&mut piece) {
        pieces.push(String::from_utf8(piece[..length].to_vec()).expect("UTF-8"));
    }
    pieces
}

/// Two processes that write to one stream write line by line.
#[tokio::test]
async fn messages_are_written_in_whole_lines() {
    let (_server, servers, session) = with_session(server().await).await;
    let _guard = session.lock("/lock/lines").unwrap().acquire().await.unwrap();
    // Each run prints a step, a note and an error, in colours and without.
    for colours in [false, true] {
        let mut waiter = run(&servers, &["--verbose", "--timeout", "6s"], "/lock/lines", "exit 0");
        waiter.env("RUST_LOG", "off");
        if colours {
            waiter.env("CLICOLOR_FORCE", "1");
        }
        let pieces = pieces(waiter).await;
        for text in
            ["connected: session 0x", "waiting for /lock/lines, held by ", "was not acquired within 6s"]
        {
            assert!(pieces.iter().any(|piece| piece.contains(text)), "{text}: {pieces:?}");
        }
        for piece in &pieces {
            assert!(piece.starts_with("zklock: ") && piece.ends_with('\n'), "{pieces:?}");
            assert_eq!(piece.lines().count(), 1, "{pieces:?}");
            assert_eq!(piece.contains('\u{1b}'), colours && !piece.contains("waiting for"), "{pieces:?}");
        }
    }
    // An error of usage is one write as well.
    let pieces = pieces(run(&servers, &["--timeout", "soon"], "/lock/lines", "exit 0")).await;
    assert_eq!(pieces.len(), 1, "{pieces:?}");
    assert!(pieces[0].contains("--timeout <DURATION>"), "{pieces:?}");
}

/// Names that a user of the program has no use for.
const LIBRARY: [&str; 9] = [
    "::",
    "SessionBuilder",
    "LockOptions",
    "Guard",
    "`stop_margin`",
    "`creator_only`",
    "`tick`",
    "`auth`",
    "In the server's words",
];

#[track_caller]
fn names_no_library_item(text: &str) {
    for item in LIBRARY {
        assert!(!text.contains(item), "{item}: {text}");
    }
}

#[tokio::test]
async fn no_description_names_a_library_item_or_shows_a_secret() {
    let help = zklock(NOBODY, "--help").await.stdout;
    let listed =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = listed.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let commands = names.filter(|name| !["", "help"].contains(name)).collect::<Vec<_>>();
    assert!(commands.len() > 10, "{commands:?}");
    let helps = commands.iter().flat_map(|command| [["help", command], [command, "--help"], [command, "-h"]]);
    let others = [vec!["--help"], vec!["-h"]];
    let completions = ["bash", "zsh"].map(|shell| vec!["completions", shell]);
    for arguments in helps.map(Vec::from).chain(others).chain(completions) {
        let described = zklock_as(NOBODY, "alice:wonder:land", &arguments).await.says(0, "");
        assert!(!format!("{described:?}").contains("wonder"), "{described:?}");
        // A shell's script has colons of its own.
        if arguments[0] != "completions" {
            names_no_library_item(&described.stdout);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_and_advice_name_options_of_the_program() {
    let (server, servers) = at(server().await);
    let creator = zklock(&servers, "run --acl creator /lock/orders -- true").await;
    // Servers before 3.7 do not say who a client is, so zklock cannot know it.
    creator.is(64, "", "With --sasl, `zklock doctor` shows");
    let short = zklock(&servers, "show --session-timeout 1s --tick 2s /lock/orders").await;
    short.is(64, "", "--session-timeout");
    names_no_library_item(&format!("{creator:?} {short:?}"));
    let stranger = operator(&server).await;
    make(&stranger, "/lock/orders").await;
    contend_as_kazoo(&stranger, "/lock/orders").await;
    for command in [
        &format!("show --connect-timeout 300ms /lock/orders -s {NOBODY}"),
        "doctor --tick 10ms /lock/orders",
        "doctor --tick 10s /lock/orders",
        "doctor --json /lock/orders",
    ] {
        let ran = zklock(&servers, command).await;
        names_no_library_item(&ran.stdout);
        names_no_library_item(&ran.stderr);
    }
}

/// Holds the lock at this path as somebody does who wants to harm those who look.
pub(crate) async fn hold_as_an_enemy(client: &Client, path: &str) {
    make(client, path).await;
    let owner = format!("\u{1b}[2J\u{202e}evil\n{}", "a".repeat(400_000));
    let id = "1ef3b5a40e4f4cd59a397a9d3a6b7f10";
    let data = serde_json::json!({"id": id, "owner": owner, "since": 1, "data": owner}).to_string();
    let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    client.create(&format!("{path}/lock-"), data.as_bytes(), &options).await.expect("a node");
}

#[track_caller]
fn is_fit_to_read(text: &str) {
    let start = text.chars().take(300).collect::<String>();
    assert!(text.contains(r"\u{1b}[2J\u{202e}evil\n") || text.contains(r"\u{202e}evil"), "{start:?}");
    for line in text.lines() {
        assert!(line.len() < 5000 && !line.contains(is_harmful), "{} bytes: {start:?}", line.len());
    }
}

/// An owner of 400,000 characters that drives a terminal, and a node's name that turns the direction of writing.
#[tokio::test(flavor = "multi_thread")]
async fn what_other_clients_wrote_is_harmless_and_short() {
    let (server, servers) = at(server().await);
    let enemy = operator(&server).await;
    hold_as_an_enemy(&enemy, "/lock/evil").await;
    for command in ["show /lock/evil", "ls /lock", "doctor /lock/evil", "run -t 1s /lock/evil -- true"] {
        println!("{command}");
        let ran = zklock(&servers, command).await;
        is_fit_to_read(&format!("{}{}", ran.stdout, ran.stderr));
    }
    is_fit_to_read(&zklock(&servers, "release --force --yes /lock/evil").await.stderr);
    make(&enemy, "/lock/strange").await;
    contend_as(&enemy, "/lock/strange", &format!("\u{202e}evil{KAZOO}")).await;
    is_fit_to_read(&output(run(&servers, &[], "/lock/strange", "exit 0")).await.stderr);
}
