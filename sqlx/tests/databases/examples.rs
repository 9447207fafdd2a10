//! The example, as processes that run to their ends.

use std::process::Stdio;

use tokio::process::Command;
use zklock_test_support::{example, server, until_nothing_is_left, within};

#[tokio::test]
async fn each_order_is_paid_once_though_two_work() {
    let server = server().await;
    let directory = tempfile::tempdir().unwrap();
    let work = || {
        let mut command = Command::new(example("worker"));
        command.args([&server.connect_string(), "/lock/orders"]).arg(directory.path().join("orders.db"));
        let output = command.stdin(Stdio::null()).kill_on_drop(true).output();
        async {
            let output = output.await.expect("a process");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).expect("UTF-8")
        }
    };
    let (one, other) = within("both ends", async { tokio::join!(work(), work()) }).await;
    until_nothing_is_left(&server).await;
    let mut paid = one.lines().chain(other.lines()).collect::<Vec<_>>();
    paid.sort();
    assert_eq!(paid, ["paid 1", "paid 2", "paid 3"]);
}
