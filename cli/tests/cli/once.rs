//! `zklock run --once` and `--every`: a run begins once, wherever its command is started.

use std::fs;
use std::path::{Path, PathBuf};

use futures::future::join_all;
use jiff::Timestamp;
use rustix::process::Signal;
use tempfile::TempDir;
use zklock::{Session, once::RecordState};

use crate::support::witness::Witness;
use crate::support::{Running, at, delete_holder, output, run, until_queued, zklock};
use zklock_test_support::{Server, eventually, operator, server, session, until_nothing_is_left};

const PATH: &str = "/lock/report";
const NAME: &str = "2026-11-22";
const ONCE: [&str; 2] = ["--once", NAME];

/// The state of the run's record, and how many times it has begun.
async fn recorded(server: &Server) -> (RecordState, u32) {
    let records = session(server).await.once(PATH).unwrap().records().await.unwrap();
    let [record] = &records[..] else { panic!("{records:?}") };
    (record.state, record.attempt)
}

/// A script that adds a line to this file.
fn writing(file: &Path, then: &str) -> String {
    format!("echo \"$ZKLOCK_ONCE\" >> '{}'; {then}", file.display())
}

#[tokio::test]
async fn of_three_processes_at_once_one_runs_the_command() {
    let (server, servers) = at(server().await);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("runs");
    let script = writing(&file, "sleep 0.2");
    let contend =
        async |owner| output(run(&servers, &[&ONCE[..], &["--owner", owner]].concat(), PATH, &script)).await;
    let mut told = 0;
    for ran in join_all(["a", "b", "c"].map(contend)).await {
        told += ran.says(0, "").stderr.matches("run 2026-11-22 has been done already: succeeded on ").count();
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), format!("{NAME}\n"));
    assert_eq!(told, 2);
    // A quiet user is told nothing.
    output(run(&servers, &[&ONCE[..], &["-q"]].concat(), PATH, "exit 5")).await.is_silent(0, "");
    // Without a run it is a plain lock, and knows nothing of runs.
    output(run(&servers, &[], PATH, "echo \"<$ZKLOCK_ONCE>\"")).await.is(0, "<>\n", "");
    assert_eq!(recorded(&server).await, (RecordState::Succeeded, 1));
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn a_failed_command_passes_its_code_on_and_runs_again_only_with_retry() {
    let (server, servers) = at(server().await);
    let retry = [&ONCE[..], &["--retry"]].concat();
    // The options, the command, how it ends, what is said, and the record then.
    for (options, script, code, said, record) in [
        (
            &ONCE[..],
            "exit 3",
            3,
            "run 2026-11-22 is recorded as failed; it does not run again without --retry",
            (RecordState::Failed, 1),
        ),
        (&ONCE, "exit 4", 79, "has failed already, on ", (RecordState::Failed, 1)),
        (
            &retry,
            "kill -KILL $$",
            137,
            "is recorded as failed; it does not run again without --retry",
            (RecordState::Failed, 2),
        ),
        (&retry, "exit 0", 0, "", (RecordState::Succeeded, 3)),
        (&retry, "exit 4", 0, "has been done already: succeeded on ", (RecordState::Succeeded, 3)),
    ] {
        let ran = output(run(&servers, options, PATH, script)).await;
        ran.is(code, "", said);
        assert_eq!(ran.stderr.is_empty(), said.is_empty(), "{ran:?}");
        assert_eq!(ran.stderr.contains("--retry"), said.contains("failed"), "{ran:?}");
        assert_eq!(recorded(&server).await, record);
    }
}

#[tokio::test]
async fn a_killed_holder_leaves_a_run_that_has_begun() {
    let (server, servers) = at(server().await);
    let mut witness = Witness::new();
    let brief = ["--session-timeout", "4s", "--on-lost", "kill", "--clock-drift", "1000"];
    let holder = run(&servers, &[&ONCE[..], &brief].concat(), PATH, &witness.of("sleep 1000"));
    let mut holder = Running::start(holder);
    witness.began().await;
    holder.signal(Signal::KILL);
    holder.ended().await;
    let again = output(run(&servers, &ONCE, PATH, "exit 4")).await;
    again.is(79, "", "has begun already, on ");
    again.is(79, "", "its end was not recorded");
    assert!(witness.is_gone());
    let retry = [&ONCE[..], &["--retry"]].concat();
    assert_eq!(output(run(&servers, &retry, PATH, "exit 0")).await.code, 0);
    assert_eq!(recorded(&server).await, (RecordState::Succeeded, 2));
}

#[tokio::test]
async fn a_run_whose_lock_is_lost_is_told_to_be_begun() {
    let (server, servers) = at(server().await);
    let mut witness = Witness::new();
    let holder = Running::start(run(&servers, &ONCE, PATH, &witness.of("sleep 1000")));
    witness.began().await;
    delete_holder(&server, PATH).await;
    let said = "run 2026-11-22 has begun, and its end is not recorded; it does not run again without --retry";
    holder.finished().await.is(76, "", said);
}

/// The record is what the user wants to be sure of.
#[tokio::test]
async fn a_success_that_cannot_be_recorded_is_no_success() {
    let (server, servers) = at(server().await);
    let mut witness = Witness::new();
    let script = witness.of("read go; exit $go");
    for (own, code) in [(0, 70), (3, 3)] {
        let script = if own == 0 { &script } else { "read go; exit $go" };
        let mut holder = Running::start(run(&servers, &ONCE, PATH, script));
        let observer = session(&server).await;
        // The run has begun once its record is there.
        let once = observer.once(PATH).unwrap();
        eventually("the begin", async || !once.records().await.unwrap().is_empty()).await;
        operator(&server).await.delete("/lock/report.once/2026-11-22", None).await.unwrap();
        holder.reads(&format!("{own}\n")).await;
        let said = "deleted or changed the record /lock/report.once/2026-11-22";
        holder.finished().await.is(code, "", said);
    }
    witness.began().await;
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn the_record_is_written_once_all_is_gone_and_before_the_lock_is_released() {
    let (server, servers) = at(server().await);
    let observer = session(&server).await;
    let mut witness = Witness::new();
    let left = r#"trap "" TERM; sleep 1000 & setsid sleep 1000 & read go; exit 0"#;
    let options = [&ONCE[..], &["--kill-after", "300ms"]].concat();
    let mut holder = Running::start(run(&servers, &options, PATH, &witness.of(left)));
    witness.began().await;
    let mut waiter = Running::start(run(&servers, &ONCE, PATH, "exit 5"));
    until_queued(&observer, PATH, 2).await;
    holder.end_input();
    // The waiter is told by the record, so it was there when the lock was released.
    waiter.ends_with(0).await;
    assert!(witness.is_gone(), "the run was done before all was gone");
    holder.ends_with(0).await;
    assert_eq!(recorded(&server).await, (RecordState::Succeeded, 1));
}

#[tokio::test]
async fn a_run_that_may_have_been_forgotten_is_64() {
    let (server, servers) = at(server().await);
    for (name, code, said) in
        [("d1", 0, ""), ("d2", 0, ""), ("d1", 64, "the run \"d1\" of /lock/report is refused")]
    {
        output(run(&servers, &["--once", name, "--keep", "1"], PATH, "exit 0")).await.is(code, "", said);
    }
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn show_has_the_last_records() {
    let (_server, servers) = at(server().await);
    for (name, script) in [("d1", "exit 0"), ("d2", "exit 0"), ("d3", "exit 1")] {
        output(run(&servers, &["--once", name, "--owner", "host-\u{1b}[2J"], PATH, script)).await;
    }
    let shown = zklock(&servers, &["show", PATH]).await.stdout;
    let lines = shown.lines().collect::<Vec<_>>();
    let [nobody, "", third, second] = lines[..] else { panic!("{lines:?}") };
    assert_eq!(nobody, "nobody holds /lock/report");
    assert!(third.starts_with("run d3 failed on host-\\u{1b}[2J at 2"), "{third}");
    assert!(second.starts_with("run d2 succeeded on "), "{second}");
    let json = zklock(&servers, &["show", "--json", PATH]).await.json();
    let once = json["once"].as_array().unwrap();
    let names = once.iter().map(|record| record["name"].as_str().unwrap()).collect::<Vec<_>>();
    assert_eq!(names, ["d3", "d2", "d1"]);
    assert_eq!((once[0]["state"].as_str(), once[0]["attempt"].as_u64()), (Some("failed"), Some(1)));
    assert_eq!(once[0]["node"], "/lock/report.once/d3");
    assert!(once[0]["begun"].as_str().unwrap() <= once[0]["ended"].as_str().unwrap());
}

/// It is never the same date in both zones, which are 25 hours apart.
#[tokio::test]
async fn a_day_of_a_time_zone_is_its_date_by_the_servers_clock() {
    let (server, servers) = at(server().await);
    let once = session(&server).await.once(PATH).unwrap();
    let mut names = Vec::new();
    for (options, zone) in [
        (["--every", "1d", "--time-zone", "Pacific/Kiritimati"], "Pacific/Kiritimati"),
        (["--every", "1d", "--time-zone", "local"], "Pacific/Pago_Pago"),
    ] {
        let date = async || {
            let now = Timestamp::try_from(once.now().await.unwrap()).unwrap();
            now.in_tz(zone).unwrap().date().to_string()
        };
        let before = date().await;
        let mut program = run(&servers, &options, PATH, "echo \"$ZKLOCK_ONCE\"");
        program.env("TZ", "Pacific/Pago_Pago");
        let ran = output(program).await;
        let name = ran.stdout.trim().to_owned();
        assert!([before, date().await].contains(&name), "{name:?} {ran:?}");
        names.push(name);
    }
    assert!(names[0] > names[1], "{names:?}");
    let again = output(run(&servers, &["--once", &names[1]], PATH, "exit 5")).await;
    again.is(0, "", "has been done already: succeeded on ");
}

/// Shifts the wall clock of every program that loads it.
const SKEW: &str = "
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *time) {
    int failed = syscall(SYS_clock_gettime, clock, time);
    if (failed == 0 && clock == CLOCK_REALTIME) time->tv_sec += atoll(getenv(\"SKEW\"));
    return failed;
}
";

fn skewing(directory: &TempDir) -> PathBuf {
    let source = directory.path().join("skew.c");
    let library = directory.path().join("skew.so");
    fs::write(&source, SKEW).unwrap();
    let mut cc = std::process::Command::new("cc");
    let status = cc.args(["-shared", "-fPIC", "-O2", "-o"]).arg(&library).arg(&source).status().unwrap();
    assert!(status.success());
    library
}

/// The clocks of the two hosts are decades apart. The period is so long that no test begins in one and ends in the next.
#[tokio::test]
async fn a_period_is_the_same_for_hosts_whose_clocks_are_wrong() {
    const DAY: i64 = 86_400;
    let server = server().await;
    let directory = tempfile::tempdir().unwrap();
    let library = skewing(&directory);
    let host = async |skew: i64| {
        let script = "date +%s; echo \"$ZKLOCK_ONCE\"";
        let mut program = run(&server.connect_string(), &["--every", "1000d"], PATH, script);
        program.env("LD_PRELOAD", &library).env("SKEW", skew.to_string());
        output(program).await
    };
    let first = host(4_000 * DAY).await;
    let text = &first.stdout;
    let [clock, name] = text.lines().collect::<Vec<_>>()[..] else { panic!("{first:?}") };
    let true_clock =
        i64::try_from(std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs());
    assert!(
        clock.parse::<i64>().unwrap() > true_clock.unwrap() + 3_000 * DAY,
        "the clock is not skewed: {clock}"
    );
    let now = session(&server).await.once("/lock/other").unwrap();
    let expected = now.period_name(std::time::Duration::from_secs(86_400_000)).await.unwrap();
    assert_eq!(name, expected);
    host(-4_000 * DAY).await.is(0, "", &format!("run {name} has been done already: succeeded on "));
    let session = Session::connect(server.connect_string()).await.unwrap();
    assert_eq!(session.once(PATH).unwrap().records().await.unwrap().len(), 1);
}
