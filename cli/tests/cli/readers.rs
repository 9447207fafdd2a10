//! Readers: `zklock run --shared`, and what the other commands say of them.

use rustix::process::Signal;
use serde_json::json;
use zklock::{LostReason, RwLock, Session};

use crate::support::witness::Witness;
use crate::support::{Running, at, has, output, owner, rows, run, until_queued, with_session, zklock};
use zklock_test_support::{Server, own_server, server, session, within};

const PATH: &str = "/lock/prices";

fn lock_of(session: &Session, text: &str) -> RwLock {
    session.rw_lock(PATH).expect("a lock").with_options(owner(text)).expect("a lock")
}

#[tokio::test]
async fn the_command_of_a_reader_finds_that_it_is_one() {
    let (_server, servers) = at(own_server().await);
    let program = env!("CARGO_BIN_EXE_zklock");
    // The claim stands while the command runs.
    let script = format!(
        r#"printf '%s\n' "$ZKLOCK_PATH" "$ZKLOCK_ACCESS" "$ZKLOCK_SEQUENCER"; '{program}' verify "$ZKLOCK_SEQUENCER""#
    );
    let shared = output(run(&servers, &["--shared"], PATH, &script)).await.says(0, "");
    let [path, access, claim] = shared.stdout.lines().collect::<Vec<_>>()[..] else { panic!("{shared:?}") };
    assert_eq!((path, access), (PATH, "shared"));
    assert!(claim.ends_with(":r0:/lock/prices") && shared.stderr.is_empty(), "{shared:?}");
    assert_eq!(zklock(&servers, &["verify", claim]).await.code, 1);
    output(run(&servers, &[], PATH, r#"echo "$ZKLOCK_ACCESS""#)).await.is(0, "exclusive\n", "");
}

#[tokio::test]
async fn a_reader_does_not_wait_with_zero_and_is_told_who_is_in_front() {
    let (_server, servers, session) = with_session(server().await).await;
    let at_once = async || output(run(&servers, &["--shared", "-t", "0"], PATH, "echo in")).await;
    let reading = lock_of(&session, "beta").read().await.unwrap();
    at_once().await.is(0, "in\n", "");
    // A writer that waits is in front of every later reader.
    let mut witness = Witness::new();
    let writer = run(&servers, &["--owner", "gamma"], PATH, &witness.of("read go; exit 0"));
    let mut writer = Running::start(writer);
    until_queued(&session, PATH, 2).await;
    let refused = at_once().await;
    refused.is(75, "", "is not free, held by the reader beta, who came ");
    refused.is(75, "", "; 1 waiting; the writer gamma is in front of this reader");

    // The same of one that waits, and a signal ends its wait.
    loop {
        let mut reader = Running::start(run(&servers, &["--shared"], PATH, "echo in"));
        until_queued(&session, PATH, 3).await;
        let line = reader.tells().await;
        assert!(line.contains("waiting for /lock/prices, held by the reader beta, who came "), "{line}");
        reader.signal(Signal::TERM);
        reader.ends_with(143).await;
        until_queued(&session, PATH, 2).await;
        // It looks once, 300 ms after it began to wait. On a busy machine its own node may not be there by then.
        if !line.ends_with("; 1 waiting; the writer gamma is in front of this reader") {
            assert!(line.ends_with("; 2 waiting; the writer gamma is in front of this reader"), "{line}");
            break;
        }
    }
    reading.release().await.unwrap();
    witness.began().await;
    writer.ends_with(0).await;
}

/// Two readers hold the lock. A writer and a reader wait.
async fn crowd(server: &Server) -> (Vec<zklock::ReadGuard>, Vec<tokio::task::JoinHandle<()>>) {
    let session = session(server).await;
    let mut readers = Vec::new();
    for name in ["alpha", "beta"] {
        readers.push(lock_of(&session, name).read().await.expect("a guard"));
    }
    let writer = lock_of(&session, "gamma");
    let writing = tokio::spawn(async move { drop(writer.write().await.expect("a guard")) });
    until_queued(&session, PATH, 3).await;
    let reader = lock_of(&session, "delta");
    let reading = tokio::spawn(async move { drop(reader.read().await.expect("a guard")) });
    until_queued(&session, PATH, 4).await;
    (readers, vec![writing, reading])
}

#[tokio::test(flavor = "multi_thread")]
async fn show_says_who_reads_who_writes_and_what_waits_for_whom() {
    let server = server().await;
    let (readers, waiters) = crowd(&server).await;
    let servers = server.connect_string();
    let shown = zklock(&servers, &["show", PATH]).await;
    let lines = rows(&shown.stdout);
    let cells = lines[..5].iter().map(|row| [row[0], row[1], row[2], row[7]]).collect::<Vec<_>>();
    let expected = [
        ["POSITION", "KIND", "OWNER", "WAITS FOR"],
        ["holder", "reader", "alpha", "-"],
        ["holder", "reader", "beta", "-"],
        ["2", "writer", "gamma", "2 holders"],
        ["3", "reader", "delta", "2"],
    ];
    assert_eq!(cells, expected);

    let json = zklock(&servers, &["show", "--json", PATH]).await.json();
    let of = |kind: &str, holds: bool, waits_for: Option<usize>| json!({"kind": kind, "holds": holds, "waits_for": waits_for});
    let reads = of("shared", true, None);
    let contenders = [reads.clone(), reads, of("exclusive", false, Some(1)), of("shared", false, Some(2))];
    has(&json, json!({"contenders": contenders}));

    let listed = zklock(&servers, "ls").await.stdout;
    assert!(listed.lines().nth(1).unwrap().contains("2 readers: alpha, …  "), "{listed}");
    let listed = zklock(&servers, "ls --json").await.json();
    has(&listed, json!([{"holders": 2, "waiting": 2, "holder": {"kind": "shared"}}]));

    let report = zklock(&servers, &["doctor", "--json", PATH]).await.report();
    has(&report, json!({"locks": [{"contenders": 4, "foreign": []}]}));
    drop(readers);
    for waiter in waiters {
        within("the grant", waiter).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_reader_or_all_of_them_are_released() {
    const RELEASE: [&str; 4] = ["release", "--force", "--yes", PATH];
    let server = server().await;
    let (mut readers, waiters) = crowd(&server).await;
    let servers = server.connect_string();
    // Only a holder has the lock to lose.
    let waiting = zklock(&servers, &[&RELEASE[..], &["--sequence", "2"]].concat()).await;
    waiting.is(1, "", "no holder of /lock/prices has the sequence 2");

    let second = readers.pop().unwrap();
    let first = readers.pop().unwrap();
    let one = zklock(&servers, &[&RELEASE[..], &["--sequence", "0"]].concat()).await;
    let one = one.says(0, "held by the reader alpha");
    assert!(!one.stderr.contains("beta"), "{one:?}");
    assert!(one.stderr.ends_with("1 other reader still holds it\n"), "{one:?}");
    assert_eq!(within("the loss", first.lost()).await, LostReason::NodeDeleted);
    assert!(second.is_held());

    let session = session(&server).await;
    until_queued(&session, PATH, 3).await;
    // Another reader cannot pass the writer, so one reader is left.
    zklock(&servers, &RELEASE).await.is(0, "", "held by the reader beta");
    assert_eq!(within("the loss", second.lost()).await, LostReason::NodeDeleted);
    for waiter in waiters {
        within("the grant", waiter).await.unwrap();
    }

    let readers =
        [lock_of(&session, "epsilon").read().await.unwrap(), lock_of(&session, "zeta").read().await.unwrap()];
    let all = zklock(&servers, &RELEASE).await;
    for told in ["the reader epsilon", "the reader zeta", "was taken from 2 readers"] {
        all.is(0, "", told);
    }
    for reader in readers {
        assert_eq!(within("the loss", reader.lost()).await, LostReason::NodeDeleted);
    }
}
