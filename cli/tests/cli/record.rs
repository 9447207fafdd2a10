//! The files that `zklock run --record` leaves.

use std::fs;
use std::path::Path;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::support::{finished, lock_of, output, run, signal, until_queued, with_session};
use zklock_test_support::server;

const PATH: &str = "/record/lock";

/// Whether the record of a process, which has one file, says that it is whole.
fn is_closed(directory: &Path) -> bool {
    let files = fs::read_dir(directory).unwrap().map(|it| it.unwrap().path()).collect::<Vec<_>>();
    let [file] = &files[..] else { panic!("{files:?}") };
    let text = fs::read_to_string(file).unwrap();
    text.lines().last().unwrap().starts_with(r#"{"closed":"#)
}

#[tokio::test]
async fn a_record_is_closed_on_each_way_out() {
    let (_server, servers, session) = with_session(server().await).await;
    let parent = TempDir::new().unwrap();
    let of = |name: &str| parent.path().join(name);
    let recorded = |name: &str, options: &[&str], script: &str| {
        let directory = of(name);
        let record = [&["--record", directory.to_str().unwrap()], options].concat();
        run(&servers, &record, PATH, script)
    };
    // It has no room for these.
    fs::create_dir(of("ok")).unwrap();
    fs::write(of("ok").join("zklock-web-1-01234567-000000.jsonl"), vec![b'x'; 100 << 10]).unwrap();
    assert_eq!(output(recorded("ok", &["--record-bound", "64K"], "true")).await.code, 0);
    assert!(is_closed(&of("ok")));
    assert_eq!(output(recorded("failed", &[], "exit 3")).await.code, 3);
    assert!(is_closed(&of("failed")));

    let lock = lock_of(&session, PATH, "other");
    let guard = lock.acquire().await.unwrap();
    assert_eq!(output(recorded("busy", &["--timeout", "0"], "true")).await.code, 75);
    assert!(is_closed(&of("busy")));
    let waiter = recorded("waits", &[], "true").spawn().unwrap();
    until_queued(&session, PATH, 2).await;
    signal(&waiter, Signal::TERM);
    assert_eq!(finished(waiter).await.code, 143);
    assert!(is_closed(&of("waits")));
    guard.release().await.unwrap();

    let held = recorded("held", &[], "sleep 1000").spawn().unwrap();
    until_queued(&session, PATH, 1).await;
    signal(&held, Signal::TERM);
    assert_eq!(finished(held).await.code, 143);
    assert!(is_closed(&of("held")));
}
