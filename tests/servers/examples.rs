//! The example `quickstart`, as a process that runs to its end.

use std::process::Stdio;

use support::{example, server, until_nothing_is_left, within};
use tokio::process::Command;

#[tokio::test]
async fn quickstart_works_under_the_lock() {
    let server = server().await;
    let mut program = Command::new(example("quickstart"));
    program.arg(server.connect_string()).stdin(Stdio::null()).kill_on_drop(true);
    let output = within("the end", program.output()).await.expect("a process");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    until_nothing_is_left(&server).await;
    let printed = String::from_utf8(output.stdout).expect("UTF-8");
    assert_eq!(printed.lines().last(), Some("inside"));
}
