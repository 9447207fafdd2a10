//! Fail-stop: a process ends if it keeps a guard that is lost. The processes are this test program itself.

use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use futures::future::join_all;
use rustix::process::{Pid, Signal, kill_process};
use support::{patient, server, session, until_nothing_is_left, within};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};
use zklock::LockOptions;
use zklock_testcontainers::Link;

use crate::family::FAMILY;

const TIMEOUT: Duration = Duration::from_secs(2);
const STOP_MARGIN: Duration = Duration::from_millis(300);

/// Says to a process what it does: an address, the member that it acquires, and how it goes on.
const TOLD: &str = "ZKLOCK_FAIL_STOP";

const HELD: &str = "held";

fn path(member: &str) -> String {
    format!("/fail-stop/{member}")
}

/// Starts a process that acquires this member at this address, and returns it once it holds.
async fn holder(test: &str, address: &str, member: &str, deed: &str) -> Child {
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("fail_stop::{test}"), "--nocapture"])
        .env(TOLD, format!("{address} {member} {deed}"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("a process");
    let mut said = BufReader::new(process.stdout.take().unwrap()).lines();
    within("its grant", async { while said.next_line().await.unwrap().expect("a line") != HELD {} }).await;
    process
}

/// In such a process: does what it was told, and returns true.
async fn does_as_told() -> bool {
    let Ok(told) = std::env::var(TOLD) else { return false };
    let [address, member, deed] = told.splitn(3, ' ').collect::<Vec<_>>()[..] else { panic!("{told}") };
    let session = patient(address, TIMEOUT).connect().await.unwrap();
    let member = FAMILY.iter().find(|it| it.name == member).unwrap();
    let options = LockOptions::new().fail_stop(true).stop_margin(STOP_MARGIN);
    let handle = member.handle_with(&session, &path(member.name), options);
    let held = handle.acquire().await.unwrap();
    match deed {
        "lets go" => {
            held.release().await.unwrap();
            drop(handle.acquire().await.unwrap());
            println!("{HELD}");
            std::thread::sleep(TIMEOUT * 2);
        }
        "stops in time" => {
            println!("{HELD}");
            held.lost().await;
            drop(held);
            tokio::time::sleep(TIMEOUT).await;
        }
        "keeps another" => {
            std::mem::forget(held.another());
            drop(held);
            blocks();
        }
        _ => blocks(),
    }
    // Nobody reads what the test program would print.
    std::process::exit(0)
}

/// Blocks the one thread of the runtime for longer than any bound of these tests.
fn blocks() {
    println!("{HELD}");
    std::thread::sleep(Duration::from_secs(600));
}

/// Returns how the process has ended, and what it wrote to its standard error.
async fn end(process: &mut Child) -> (ExitStatus, String) {
    let status = within("its end", process.wait()).await.unwrap();
    let mut written = String::new();
    process.stderr.take().unwrap().read_to_string(&mut written).await.unwrap();
    (status, written)
}

fn is_aborted(status: ExitStatus) -> bool {
    status.signal() == Some(Signal::ABORT.as_raw())
}

#[tokio::test]
async fn a_process_whose_runtime_is_blocked_ends_before_the_next_one_has_its_lock() {
    if does_as_told().await {
        return;
    }
    let test = "a_process_whose_runtime_is_blocked_ends_before_the_next_one_has_its_lock";
    let server = server().await;
    let waiting = session(&server).await;
    let each = FAMILY.iter().zip(["blocks", "keeps another"].iter().cycle()).map(async |(member, deed)| {
        let mut process = holder(test, &server.connect_string(), member.name, deed).await;
        let rival = member.rival(&waiting, &path(member.name)).acquire();
        let rival = within(member.name, rival).await.unwrap();
        let ended = process.try_wait().unwrap();
        assert!(ended.is_some_and(is_aborted), "{}: {ended:?} at the next grant", member.name);
        let (_, written) = end(&mut process).await;
        assert!(written.contains("zklock ends this process"), "{}: {written}", member.name);
        assert!(written.contains(&path(member.name)), "{}: {written}", member.name);
        rival.release().await.unwrap();
    });
    join_all(each).await;
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn a_process_that_was_stopped_ends_once_it_goes_on() {
    if does_as_told().await {
        return;
    }
    let server = server().await;
    let waiting = session(&server).await;
    let mut process =
        holder("a_process_that_was_stopped_ends_once_it_goes_on", &server.connect_string(), "lock", "blocks")
            .await;
    let id = Pid::from_raw(process.id().unwrap().try_into().unwrap()).unwrap();
    kill_process(id, Signal::STOP).unwrap();
    let rival = waiting.lock(&path("lock")).unwrap();
    let rival = within("the grant", rival.acquire()).await.unwrap();
    assert!(process.try_wait().unwrap().is_none(), "a process that is stopped cannot end");
    kill_process(id, Signal::CONT).unwrap();
    assert!(is_aborted(end(&mut process).await.0));
    rival.release().await.unwrap();
}

#[tokio::test]
async fn a_process_that_lets_go_in_time_lives() {
    if does_as_told().await {
        return;
    }
    let server = server().await;
    let each = FAMILY.iter().map(async |member| {
        let mut process =
            holder("a_process_that_lets_go_in_time_lives", &server.connect_string(), member.name, "lets go")
                .await;
        let (status, written) = end(&mut process).await;
        assert!(status.success(), "{}: {status}, {written}", member.name);
    });
    join_all(each).await;
    until_nothing_is_left(&server).await;
    // One that is cut off has the stop margin to let go.
    let link = Link::start(server.address()).await.unwrap();
    let address = server.at(link.address());
    let mut process = holder("a_process_that_lets_go_in_time_lives", &address, "lock", "stops in time").await;
    link.black_hole();
    let (status, written) = end(&mut process).await;
    assert!(status.success(), "{status}, {written}");
}
