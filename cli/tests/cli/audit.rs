//! `zklock audit` and `zklock replay`, on the records of `zklock run` on real servers.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use zklock::Session;

use crate::support::{
    Ran, at, delete_holder, ended, finished, output, run, signal, until_queued, with_session, zklock,
};
use zklock_test_support::{eventually, server};

const PATH: &str = "/lock/night";

/// Where each process of a night writes its records.
struct Night {
    directory: TempDir,
    servers: String,
}

impl Night {
    fn new(servers: &str) -> Self {
        Self { directory: TempDir::new().unwrap(), servers: servers.to_owned() }
    }

    fn of(&self, machine: &str) -> PathBuf {
        self.directory.path().join(machine)
    }

    /// A process of this machine, which runs this script under the lock.
    fn run(&self, machine: &str, script: &str) -> Command {
        self.run_at(PATH, machine, script)
    }

    fn run_at(&self, path: &str, machine: &str, script: &str) -> Command {
        let directory = self.of(machine);
        let options =
            ["--session-timeout", "3s", "--record", directory.to_str().unwrap(), "--owner", machine];
        run(&self.servers, &options, path, script)
    }

    /// What the leader's clock shows, in milliseconds: a process asks it, and writes that down.
    async fn time(&self) -> i64 {
        let asks = self.run_at("/lock/zero", "clock", "exit 0").spawn().unwrap();
        assert_eq!(finished(asks).await.code, 0);
        let files = fs::read_dir(self.of("clock")).unwrap().map(|it| it.unwrap().path());
        let lines = files.map(|file| fs::read_to_string(file).unwrap()).collect::<String>();
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter_map(|line| line["stamp"]["time"].as_i64()).max().unwrap()
    }

    /// One that holds until the file is there.
    async fn holds(&self, session: &Session, machine: &str, behind: usize) -> Child {
        let child =
            self.run(machine, &format!("until [ -e {} ]; do sleep 0.05; done", self.of("go").display()));
        let child = { child }.spawn().unwrap();
        until_queued(session, PATH, behind + 1).await;
        child
    }

    fn go(&self) {
        fs::write(self.of("go"), "").unwrap();
    }

    async fn audit(&self) -> Ran {
        let mut program = zklock("nowhere");
        program.arg("audit").arg("--picture").arg(self.of("night.svg")).arg(self.directory.path());
        output(program).await
    }

    async fn report(&self) -> (i32, Value) {
        self.report_with(&[]).await
    }

    async fn report_with(&self, options: &[&str]) -> (i32, Value) {
        let mut program = zklock("nowhere");
        program.args(["audit", "--json"]).args(options).arg(self.directory.path());
        let ran = output(program).await;
        (ran.code, ran.report())
    }

    /// The one file of this machine.
    fn file(&self, machine: &str) -> PathBuf {
        let files = fs::read_dir(self.of(machine)).unwrap().map(|it| it.unwrap().path()).collect::<Vec<_>>();
        let [file] = &files[..] else { panic!("{files:?}") };
        file.clone()
    }

    /// Changes a file while this is looked at.
    async fn with(&self, file: &Path, change: impl FnOnce(String) -> String) -> (i32, Value) {
        let text = fs::read_to_string(file).unwrap();
        fs::write(file, change(text.clone())).unwrap();
        let report = self.report().await;
        fs::write(file, text).unwrap();
        report
    }
}

/// What an audit says of the path, but for times.
fn path(report: &Value) -> &Value {
    &report["paths"][0]
}

#[tokio::test]
async fn a_night_is_proven_and_what_is_missing_is_not() {
    let (_server, servers, session) = with_session(server().await).await;
    let night = Night::new(&servers);
    // The first one releases, the second one is killed, and the third one takes over once the session has expired.
    let first = night.holds(&session, "one", 0).await;
    let mut second = night.run("two", "sleep 1000").spawn().unwrap();
    until_queued(&session, PATH, 2).await;
    let third = night.holds(&session, "three", 2).await;
    night.go();
    assert_eq!(finished(first).await.code, 0);
    eventually("the second one holds", async || {
        fs::read_to_string(night.file("two")).unwrap().contains(r#""outcome":{"granted""#)
    })
    .await;
    signal(&second, Signal::KILL);
    ended(&mut second).await;
    assert_eq!(finished(third).await.code, 0);

    let ran = night.audit().await;
    ran.is(0, &ran.stdout, "");
    assert!(
        ran.stdout.contains(
            "proven: no two guards on record that exclude each other were valid at once (3 records)"
        ),
        "{ran:?}"
    );
    let (code, proven) = night.report().await;
    assert_eq!((code, proven["verdict"].as_str()), (0, Some("proven")));
    assert_eq!(path(&proven)["holds"].as_array().map(Vec::len), Some(3));
    // The lease of the killed one ended before its session did.
    let nearest = &path(&proven)["nearest"];
    let margin = nearest["ms"].as_f64().unwrap() - nearest["error_ms"].as_f64().unwrap();
    assert!(nearest["first"] == 1 && nearest["second"] == 2 && margin > 0.0, "{nearest}");

    let picture = fs::read_to_string(night.of("night.svg")).unwrap();
    assert!(picture.starts_with("<svg") && picture.matches("/lock/night two").count() == 1, "{picture}");
    assert_eq!(picture.matches(", exclusive, token ").count(), 3, "a bar for each hold");

    // A path that nobody has held is no proof.
    let of_path = async |path: &str| {
        let mut program = zklock("nowhere");
        program.args(["audit", "--path", path]).arg(night.directory.path());
        output(program).await
    };
    let ran = of_path("/lock/nigth").await;
    ran.is(66, "", "/lock/nigth is not on record. A path has the chroot of its session. On record are");
    assert_eq!(of_path(ran.stderr.trim().rsplit(' ').next().unwrap()).await.code, 0);

    // The wall clock is a label.
    let hour_off = |text: String| {
        let (before, rest) = text.split_once(r#""wall":"#).unwrap();
        let (wall, behind) = rest.split_once(',').unwrap();
        format!(r#"{before}"wall":{},{behind}"#, wall.parse::<u64>().unwrap() + 3_600_000)
    };
    let (code, slow) = night.with(&night.file("two"), hour_off).await;
    assert_eq!((code, path(&slow)), (0, path(&proven)));

    // The first file of a record was deleted to make room. The others cover the time from a stamp on.
    let whole = fs::read_to_string(night.file("three")).unwrap();
    fs::write(night.file("three"), whole.replacen(r#""file":0"#, r#""file":1"#, 1)).unwrap();
    let (code, rotated) = night.report().await;
    assert_eq!((code, &rotated["verdict"]), (65, &Value::from("unproven")));
    let from = rotated["covered"]["from_ms"].as_i64().unwrap();
    let since = |ms| jiff::Timestamp::from_millisecond(ms).unwrap().to_string();
    assert_eq!(night.report_with(&["--since", &since(from - 1)]).await.0, 65);
    let (code, window) = night.report_with(&["--since", &since(from)]).await;
    assert_eq!((code, &window["verdict"]), (0, &Value::from("proven")), "{window}");
    // What is told can be given.
    let ran = night.audit().await;
    assert!(
        ran.code == 65 && ran.stdout.contains(&format!("all records cover --since {}", since(from))),
        "{ran:?}"
    );
    fs::write(night.file("three"), whole).unwrap();

    // A record that is cut may lack what its process relied on.
    let (code, cut) = night.with(&night.file("two"), |text| text[..text.len() - 7].to_owned()).await;
    assert_eq!((code, &cut["verdict"]), (65, &Value::from("unproven")));
    assert!(cut["unread"][0]["why"].as_str().unwrap().contains("in the middle of a line"), "{cut}");
    assert_eq!(path(&cut)["unproven_count"], 1, "{cut}");

    // So may a copy, also on the machine itself.
    let moved = night.of("copy");
    fs::rename(night.of("two"), &moved).unwrap();
    fs::create_dir(night.of("two")).unwrap();
    let name = night.file("copy").file_name().unwrap().to_owned();
    fs::copy(night.file("copy"), night.of("two").join(&name)).unwrap();
    let (code, _) = night.report().await;
    assert_eq!(code, 0, "two copies of one file, and one is the killed one's own");
    let text = fs::read_to_string(night.file("two")).unwrap();
    fs::write(night.file("two"), text.replacen("lease", "leash", 1)).unwrap();
    let (code, differ) = night.report().await;
    assert_eq!(code, 65);
    assert!(differ.to_string().contains("it says otherwise than"), "{differ}");
    fs::remove_dir_all(night.of("two")).unwrap();
    fs::rename(moved, night.of("two")).unwrap();

    // Lines of another version say something else.
    let (code, strange) = night.with(&night.file("one"), |text| text.replace("\"heard\"", "\"seen\"")).await;
    assert_eq!((code, &strange["verdict"]), (65, &Value::from("unproven")));

    // A grant is proof only if the machine grants by what was recorded.
    let text = fs::read_to_string(night.file("two")).unwrap();
    assert!(text.contains("\"PredecessorReleased\""));
    fs::write(night.file("two"), text.replace("\"PredecessorReleased\"", "\"WatchLost\"")).unwrap();
    let (code, forged) = night.report().await;
    assert_eq!((code, &forged["verdict"]), (65, &Value::from("unproven")));
    let mut replay = zklock("nowhere");
    replay.args(["replay", "--path", PATH]).arg(night.of("two"));
    let replayed = output(replay).await;
    assert!(replayed.code == 1 && replayed.stdout.contains("DIVERGED #0"), "{replayed:?}");
    fs::write(night.file("two"), text).unwrap();
    let mut replay = zklock("nowhere");
    replay.arg("replay").arg(night.directory.path());
    let replayed = output(replay).await;
    assert!(
        replayed.code == 0 && replayed.stdout.contains("the machines decide otherwise in 0 places"),
        "{replayed:?}"
    );

    fs::remove_dir_all(night.of("two")).unwrap();
    let (code, lost) = night.report().await;
    assert_eq!((code, &lost["verdict"]), (65, &Value::from("unproven")));
    assert_eq!(path(&lost)["unknown"][0], "contender number 1 has no record");
}

/// The command kills the holder as soon as it runs.
#[tokio::test]
async fn a_process_that_is_killed_at_its_grant_leaves_the_grant_and_all_before_it() {
    let (_server, servers, session) = with_session(server().await).await;
    let night = Night::new(&servers);
    let first = night.holds(&session, "one", 0).await;
    let pid = night.of("pid");
    let kills = format!("kill -KILL $(cat {})", pid.display());
    let mut second = night.run("two", &kills).spawn().unwrap();
    fs::write(&pid, second.id().unwrap().to_string()).unwrap();
    until_queued(&session, PATH, 2).await;
    night.go();
    assert_eq!(finished(first).await.code, 0);
    assert_eq!(ended(&mut second).await.signal(), Some(9));

    let (_, report) = night.report().await;
    let holds = path(&report)["holds"].as_array().unwrap();
    assert_eq!(holds.len(), 2, "{report}");
    assert!(holds[1]["ended"].as_str().unwrap().contains("its record ends before"), "{report}");
    // The machine grants by the lines that precede the grant. One too few, and it does not.
    let mut replay = zklock("nowhere");
    replay.arg("replay").arg(night.of("two"));
    let replayed = output(replay).await;
    assert!(
        replayed.code == 0 && replayed.stdout.contains("the machines decide otherwise in 0 places"),
        "{replayed:?}"
    );
}

/// A stopped process cannot hear that its node is gone, and its guard would say that it is held.
#[tokio::test]
async fn a_lock_that_an_operator_takes_is_an_overlap() {
    let (server, servers, session) = with_session(server().await).await;
    let night = Night::new(&servers);
    // The leader's clock is known from here on.
    assert_eq!(finished(night.run("zero", "exit 0").spawn().unwrap()).await.code, 0);
    let holder = night.holds(&session, "one", 0).await;
    let next = night.holds(&session, "two", 1).await;
    signal(&holder, Signal::STOP);
    delete_holder(&server, PATH).await;
    eventually("the next one holds", async || {
        fs::read_to_string(night.file("two")).unwrap().contains(r#""outcome":{"granted""#)
    })
    .await;
    // For longer than the clocks may be wrong.
    let begun = night.time().await;
    eventually("both have held for a while", async || night.time().await >= begun + 100).await;
    signal(&holder, Signal::CONT);
    assert_eq!(finished(holder).await.code, 76);
    night.go();
    assert_eq!(finished(next).await.code, 0);

    let ran = night.audit().await;
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stdout.contains("OVERLAP: two guards were valid at once"), "{ran:?}");
    let (_, report) = night.report().await;
    let overlaps = &path(&report)["overlaps"];
    assert_eq!((&overlaps[0]["first"], &overlaps[0]["second"]), (&Value::from(1), &Value::from(2)));
    assert!(overlaps[0]["least_ms"].as_f64().unwrap() > 0.0, "{overlaps}");
}

#[tokio::test]
async fn without_a_record_there_is_no_answer() {
    let (_server, servers) = at(server().await);
    let directory = TempDir::new().unwrap();
    let mut program = zklock(&servers);
    program.arg("audit").arg(directory.path());
    output(program).await.is(66, "", "no flight record is there");
    let mut program = zklock(&servers);
    program.arg("audit").arg(directory.path().join("nigth"));
    output(program).await.is(
        66,
        "",
        "nigth: No such file or directory (os error 2). Name a directory of --record",
    );
    let mut program = zklock(&servers);
    program.args(["audit", "--since", "1h", "--until", "2h"]).arg(directory.path());
    output(program).await.is(64, "", "is not before --until");
    fs::write(directory.path().join("zklock-x.jsonl"), "{}\n").unwrap();
    let mut program = zklock(&servers);
    program.arg("audit").arg(directory.path());
    let ran = output(program).await;
    assert_eq!(ran.code, 65, "{ran:?}");
    assert!(ran.stdout.contains("it does not begin as a flight record"), "{ran:?}");
}
