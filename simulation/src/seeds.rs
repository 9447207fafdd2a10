//! Runs seeds until the time is over. Each seed has a process of its own, because a run depends on everything that its
//! process has done before.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use world::Random;
use zklock_simulation::{Seen, unreached};

use crate::args::Args;

/// A run that takes longer than this does not end: a process of it runs without a pause.
const LONGEST: Duration = Duration::from_secs(120);

/// A run of so many minutes is to show what each member is about. One that has not says so, and fails no more for that.
const PROVES: u64 = 10;

/// Events of the library that so few seeds have reached are listed, too.
const RARELY: u64 = 3;

/// The pause between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    /// With what it has seen, and which of the library's events it has reached.
    Passed(Seen, Vec<String>),
    /// With what it has seen, if it came to an end.
    Failed(Option<Seen>, Vec<String>),
}

#[derive(Default)]
struct Sums {
    seeds: u64,
    seen: Seen,
    /// In how many seeds each event of the library was reached.
    reached: BTreeMap<String, u64>,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let unix = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    let from = Random::new(unix.as_nanos() as u64).bits() >> 32;
    let length = Duration::from_secs(60 * args.minutes);
    let (began, mut told, mut sums) = (Instant::now(), Instant::now(), Sums::default());
    for seed in from.. {
        if began.elapsed() >= length {
            break;
        }
        match end(args, seed, &args.without) {
            End::Passed(seen, reached) => sums.add(seen, reached),
            End::Failed(_, violations) => {
                println!("{}", sums.line(began.elapsed()));
                if let Some(ledger) = &args.ledger {
                    sums.note(ledger, &seed.to_string());
                }
                println!("FAIL: seed {seed}");
                violations.iter().for_each(|violation| println!("  {violation}"));
                let without = list(&shrunk(args, seed));
                let without = if without.is_empty() { without } else { format!(" --without {without}") };
                println!("again: zklock-simulation --seed {seed}{}{without} --trace", mode(args));
                return ExitCode::FAILURE;
            }
        }
        if told.elapsed() >= PROGRESS {
            told = Instant::now();
            println!("{}", sums.line(began.elapsed()));
        }
    }
    println!("{}", sums.line(began.elapsed()));
    if let Some(ledger) = &args.ledger {
        sums.note(ledger, "nothing");
    }
    if args.minutes >= PROVES && args.mode.is_none() {
        let Sums { seeds, seen, reached } = sums;
        for (member, slack) in &seen.slack {
            println!("least slack of {member}: {} T to spare", part(*slack));
        }
        seen.unproven().iter().for_each(|missing| println!("not shown: {missing}"));
        for (message, number) in reached.iter().filter(|(_, number)| **number <= RARELY) {
            println!("reached in {number} of {seeds} seeds: {message}");
        }
        let has = |message: &str| reached.keys().any(|it| it.starts_with(message));
        unreached(has).expect("the source").iter().for_each(|message| println!("not reached: {message}"));
    }
    println!("PASS: nothing was wrong in the seeds from {from} on");
    ExitCode::SUCCESS
}

fn mode(args: &Args) -> String {
    args.mode.map(|member| format!(" --mode {member}")).unwrap_or_default()
}

/// A part of a session timeout, of so many millionths.
fn part(millionths: u64) -> String {
    format!("{:.4}", millionths as f64 / 1e6)
}

fn list(numbers: &[usize]) -> String {
    numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

fn end(args: &Args, seed: u64, without: &[usize]) -> End {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.arg("--seed").arg(seed.to_string()).args(args.mode.map(|member| format!("--mode={member}")));
    if !without.is_empty() {
        command.arg("--without").arg(list(without));
    }
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("this program");
    let began = Instant::now();
    // A run prints less than a pipe holds, except if it fails by hundreds.
    while child.try_wait().expect("a child").is_none() {
        if began.elapsed() > LONGEST {
            child.kill().expect("a child");
            break;
        }
        thread::sleep(Duration::from_millis(2));
    }
    let output = child.wait_with_output().expect("a child");
    let said = String::from_utf8_lossy(&output.stdout);
    let seen = said.lines().find_map(|line| serde_json::from_str(line.strip_prefix("seen ")?).ok());
    if output.status.success()
        && let Some(seen) = seen
    {
        let reached = said.lines().filter_map(|line| line.strip_prefix("reached "));
        return End::Passed(seen, reached.map(str::to_owned).collect());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let lines = said.lines().filter_map(|line| line.strip_prefix("VIOLATION "));
    let lines = lines.chain(errors.lines().take(5)).map(str::to_owned).collect::<Vec<_>>();
    let lines = if lines.is_empty() { vec![format!("the run ended by {}", output.status)] } else { lines };
    End::Failed(seen, lines)
}

/// Returns the faults without which the seed still fails: halves first, then single ones.
fn shrunk(args: &Args, seed: u64) -> Vec<usize> {
    let began = Instant::now();
    let End::Failed(Some(seen), _) = end(args, seed, &args.without) else {
        println!("it cannot be shrunk: it passes the second time, or does not end");
        return args.without.clone();
    };
    let all = seen.faults as usize;
    let mut without = args.without.clone();
    let mut size = all.div_ceil(2);
    while size > 0 && began.elapsed() < LONGEST {
        let before = without.len();
        for first in (0..all).step_by(size) {
            let more = (first..all.min(first + size)).filter(|number| !without.contains(number));
            let tried = without.iter().copied().chain(more).collect::<Vec<_>>();
            if tried.len() > without.len() && matches!(end(args, seed, &tried), End::Failed(..)) {
                without = tried;
                print!(".");
                let _ = std::io::stdout().flush();
            }
        }
        size = if size == 1 && without.len() > before { 1 } else { size / 2 };
    }
    println!(" {} of {all} faults are left", all - without.len());
    without
}

impl Sums {
    fn add(&mut self, seen: Seen, reached: Vec<String>) {
        self.seeds += 1;
        self.seen += seen;
        for message in reached {
            *self.reached.entry(message).or_default() += 1;
        }
    }

    /// The least slack of any member, in parts of the session timeout.
    fn slack(&self) -> String {
        self.seen.slack.values().min().map_or("-".to_owned(), |slack| part(*slack))
    }

    /// Appends what was run to a ledger, and what was found.
    fn note(&self, ledger: &Path, found: &str) {
        let Self { seeds, seen: Seen { time, faults, grants, losses, .. }, .. } = self;
        let described = Command::new("git").args(["describe", "--always", "--dirty"]).output();
        let commit = described.map(|it| String::from_utf8_lossy(&it.stdout).trim().to_owned());
        let commit = commit.unwrap_or_default();
        let hours = time.as_secs_f64() / 3600.0;
        let line = format!("{commit},{seeds},{hours:.1},{faults},{grants},{losses},{},{found}", self.slack());
        let file = OpenOptions::new().create(true).append(true).open(ledger);
        file.and_then(|mut file| writeln!(file, "{line}")).expect("a ledger that can be written to");
    }

    fn line(&self, took: Duration) -> String {
        let Self { seeds, seen: Seen { time, faults, grants, losses, .. }, .. } = self;
        let hours = time.as_secs_f64() / 3600.0;
        let rate = time.as_secs_f64() / took.as_secs_f64();
        let slack = self.slack();
        format!(
            "{seeds} seeds, {hours:.1} simulated hours ({rate:.0} an hour), {faults} faults, {grants} grants, {losses} losses, \
             least slack: {slack} T to spare"
        )
    }
}
