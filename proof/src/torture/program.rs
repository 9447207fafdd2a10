//! Clients that are `zklock run`, one after the other. Each runs a command that the kernel judges: [`zklock_contest::members::program`].
//!
//! ```text
//!   coordinator <---records--- torture-client <--------records--------------+
//!                                    | starts                               |
//!                                    v                                      |
//!                               zklock run ---> zklock-warden ---> torture-errand ---> a forgotten descendant
//! ```
//!
//! A client and its `zklock run` are one process group, so faults stop and kill both. Its warden and its command have groups of their own.
//! A command ends once its client says so. If the client is stopped or gone, the command goes on for as long as zklock and the warden let it.
//!
//! A command kills its warden now and then. If zklock is stopped or killed at that time as well, docs/CLI.md promises nothing for
//! descendants. So the descendants of such a command end by themselves as soon as its zklock is stopped or gone.

use std::fs::{self, File};
use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use fastrand::Rng;
use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::{Signal, getppid, kill_process};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, sleep};
use zklock::Sequencer;
use zklock_contest::contender::Orders;
use zklock_contest::member::Member;
use zklock_contest::members::program::{BESIDE, FAILED, UNWARDED};
use zklock_contest::members::rules;
use zklock_contest::record::{Event, How, Leaving, Record, Seen, Who};
use zklock_contest::request::{Claim, Request};

use super::part::{PACE, Part, Said};
use super::servers::AMPLE_TIMEOUT;
use crate::harness::{Voice, now, say};

/// The longest that a command holds on if no fault is to meet it.
const HOLD: Duration = Duration::from_millis(400);
/// The longest that nobody reads the standard error of a zklock, if that is full.
const DEAFNESS: Duration = Duration::from_secs(10);
/// How much a pipe takes.
const PIPE: usize = 1 << 16;
/// How often a command says that it runs.
const LOOK: Duration = Duration::from_millis(20);
/// How long a command or a descendant goes on that nobody ends.
const ENDLESS: Duration = Duration::from_secs(60);

/// Runs a command that SIGTERM does not end.
const STUBBORN: [&str; 3] = ["sh", "-c", r#"trap "" TERM; exec "$0" "$@""#];
/// Starts a descendant by a process that ends at once, and in a session of its own.
const FORGET: &str = r#"setsid sh -c "$0" "$1" </dev/null >/dev/null 2>&1 &"#;
/// What the descendant does: it stays, or it stays until the process of this number is stopped or gone.
const STAY: &str = r#"trap "" TERM; exec sleep 60"#;
const STAY_BESIDE: &str = r#"while grep -q "^State:.[^TZ]" /proc/$0/status; do sleep 0.01; done"#;

/// What a command is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Errand {
    who: Who,
    lock: usize,
    /// What it takes the `flock` on.
    file: PathBuf,
    /// Whether it leaves a descendant behind, which has the `flock`, too.
    forgets: bool,
    /// Whether it kills its warden in the end.
    kills: bool,
}

/// Runs one command after the other, until it is told to finish and one more has ended by itself.
pub(super) async fn contend(part: &Part, orders: Orders) -> anyhow::Result<()> {
    let who = Who { client: part.number, task: 1 };
    let mut rng = Rng::with_seed(part.seed);
    loop {
        let is_last = orders.is_to_finish();
        if run_program(part, who, &mut rng, orders.clone()).await? && is_last {
            break;
        }
        sleep(PACE.think.mul_f64(rng.f64())).await;
    }
    tell(who, Event::Finished);
    Ok(())
}

/// Runs `zklock run` with one command. Returns whether the command ended by itself.
async fn run_program(part: &Part, who: Who, rng: &mut Rng, mut orders: Orders) -> anyhow::Result<bool> {
    let lock = rng.usize(..rules(Member::Program).locks);
    let file = part.setup.shim.with_file_name(format!("flock-{lock}"));
    let errand = Errand { who, lock, file, forgets: rng.u8(..3) == 0, kills: rng.u8(..6) == 0 };
    let this = std::env::current_exe()?;
    let mut zklock = tokio::process::Command::new(this.with_file_name("zklock"));
    zklock.env("ZKLOCK_SERVERS", &part.servers).args(["run", "--tick", "1s", "--owner", &who.to_string()]);
    if rng.u8(..4) > 0 {
        zklock.args(["--session-timeout", &format!("{}s", AMPLE_TIMEOUT.as_secs())]);
    }
    if rng.bool() {
        zklock.args(["--kill-after", "200ms"]);
    }
    zklock.args([&Member::Program.path(lock), "--"]);
    if rng.bool() {
        zklock.args(STUBBORN);
    }
    zklock.arg(this).arg("torture-errand").arg(serde_json::to_string(&errand)?);
    let is_full = !errand.kills && rng.u8(..3) == 0;
    let stderr = if is_full { full_pipe(DEAFNESS.mul_f64(rng.f64()))? } else { Stdio::null() };
    zklock.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr);

    let request = Request::Lock(lock);
    tell(who, Event::Asks { request, how: How::Wait, patience: None, limit: None });
    let started = zklock.spawn();
    let mut zklock = started.context("cannot start zklock; `cargo build -p zklock-cli` builds it")?;
    let mut voice = Voice::of(zklock.stdout.take().context("no pipe")?);
    let mut input = zklock.stdin.take();
    let mut until = None;
    let mut seen = None;
    let mut has_ended = None;
    loop {
        let said = tokio::select! {
            said = voice.next() => said?,
            () = orders.stay(until.unwrap_or_else(Instant::now)), if until.is_some() && input.is_some() => {
                // It may be dead by now.
                let _ = input.take().context("no pipe")?.write_all(b"\n").await;
                continue;
            }
        };
        let Some(Said::Record(record)) = said else { break };
        match &record.event {
            Event::Granted { seen: first, .. } => {
                seen = Some(*first);
                until = Some(Instant::now() + HOLD.mul_f64(rng.f64()));
            }
            Event::Holds { seen: last } => seen = Some(*last),
            Event::Releases { .. } => has_ended = Some(true),
            Event::LeftWithout { .. } => has_ended = Some(false),
            _ => {}
        }
        say(&Said::Record(record))?;
    }
    let status = zklock.wait().await?;
    let is_unwarded = errand.kills && status.code() == Some(FAILED);
    let why = if is_unwarded { UNWARDED.to_owned() } else { status.to_string() };
    match seen {
        _ if has_ended.is_some() => {}
        Some(seen) => tell(who, Event::Lost { seen, reason: why }),
        None => tell(who, Event::LeftWithout { why: Leaving::Failed(why) }),
    }
    Ok(has_ended == Some(true))
}

/// A pipe that is full, and that nobody reads for so long.
fn full_pipe(lasts: Duration) -> io::Result<Stdio> {
    let (mut reader, mut writer) = io::pipe()?;
    writer.write_all(&[b'\n'; PIPE])?;
    thread::spawn(move || {
        thread::sleep(lasts);
        io::copy(&mut reader, &mut io::sink())
    });
    Ok(writer.into())
}

/// The command: it takes the `flock` at once or fails, and holds on until it is told to end.
pub(crate) fn run_command(errand: &Errand) -> anyhow::Result<()> {
    let Errand { who, lock, .. } = *errand;
    let claim: Sequencer = std::env::var("ZKLOCK_SEQUENCER")?.parse()?;
    let file = File::options().append(true).create(true).open(&errand.file)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => {
            let what = format!("{who} {BESIDE}, of lock {}, with the token {}", lock + 1, claim.token());
            tell(who, Event::LeftWithout { why: Leaving::Failed(what.clone()) });
            bail!(what);
        }
        taken => taken?,
    }
    // Whatever it starts inherits the file.
    fcntl_setfd(&file, FdFlags::empty())?;
    tell(
        who,
        Event::Granted {
            session: claim.session(),
            token: Some(claim.token()),
            claims: vec![Claim::exclusive(lock)],
            nodes: vec![claim.node()],
            seen: seen(),
        },
    );
    let warden = getppid().context("it has no warden")?;
    if errand.forgets {
        let status = fs::read_to_string(format!("/proc/{}/status", warden.as_raw_pid()))?;
        let zklock = status.lines().find_map(|line| line.strip_prefix("PPid:\t")).context("no zklock")?;
        let script = if errand.kills { STAY_BESIDE } else { STAY };
        Command::new("sh").args(["-c", FORGET, script, zklock]).status()?;
        tell(who, Event::Shares { number: 1 });
    }
    let told = thread::spawn(|| {
        // Without a word its client is gone, and the warden has to end this process.
        while io::stdin().lock().read_line(&mut String::new()).unwrap_or(0) == 0 {
            thread::sleep(ENDLESS);
        }
    });
    while !told.is_finished() {
        tell(who, Event::Holds { seen: seen() });
        thread::sleep(LOOK);
    }
    if errand.kills {
        kill_process(warden, Signal::KILL)?;
        // The kernel ends this process.
        thread::sleep(ENDLESS);
    }
    tell(who, Event::Releases { seen: seen() });
    Ok(())
}

/// It runs at this instant, and promises no more.
fn seen() -> Seen {
    let valid = now();
    Seen { valid, promised: Some(valid) }
}

/// Says it, unless nobody listens any more.
fn tell(who: Who, event: Event) {
    let _ = say(&Said::Record(Record { at: now(), member: Member::Program, who, event }));
}
