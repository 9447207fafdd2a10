//! The small examples, as processes that run to their end.

use std::process::Stdio;

use support::{example, server, until_nothing_is_left, within};
use tokio::process::Command;

/// Runs an example on a server of its own, and returns the lines that it printed.
async fn printed(name: &str) -> Vec<String> {
    let server = server().await;
    let mut program = Command::new(example(name));
    program.arg(server.connect_string()).stdin(Stdio::null()).kill_on_drop(true);
    let output = within("the end", program.output()).await.expect("a process");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    until_nothing_is_left(&server).await;
    String::from_utf8(output.stdout).expect("UTF-8").lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn quickstart_works_under_the_lock() {
    assert_eq!(printed("quickstart").await.last().unwrap(), "inside");
}

#[tokio::test]
async fn readers_read_together_what_the_last_writer_wrote() {
    let expected = [
        "a reader is let in beside the writer: false",
        "readers that hold the lock at once: 2",
        "a reader sees [100, 200]",
        "a reader sees [100, 200]",
        "a reader sees [110, 220]",
    ];
    assert_eq!(printed("readers").await, expected);
}

#[tokio::test]
async fn transfers_in_opposite_directions_lose_nothing() {
    assert_eq!(printed("transfer").await, ["alice has 90, bob has 110"]);
}

#[tokio::test]
async fn a_report_is_written_once() {
    let expected =
        ["the first machine has written the report", "the second machine was told that the report is there"];
    assert_eq!(printed("nightly").await, expected);
}

#[tokio::test]
async fn no_payment_is_lost_between_tasks_and_processes() {
    assert_eq!(printed("registry").await, ["120 payments are booked"]);
}
