//! Clocks of client processes that run at other rates, as if NTP slewed them.
//!
//! A library that is loaded in front of libc (`slew.c`) shows a process slewed clocks. It leaves `CLOCK_MONOTONIC_RAW` alone,
//! as NTP does. The contenders say what happens by that clock.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use rustix::time::ClockId;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::sleep;

use super::part::Setup;
use crate::harness::{Instant, now, shown};

/// In parts per million. chrony slews by 83,333 at the most, and leases allow for that on either side. The first rate is far
/// beyond: a lease that did not look at the other clock would last twice as long as it may.
const RATES: [i64; 3] = [-500_000, -83_333, 83_333];
/// For how long a process looks whether its clocks are slewed.
const LOOK: Duration = Duration::from_millis(50);
/// By how much it may err: far less than the rates differ.
const ERROR: i64 = 20_000;

/// The library, built for this run.
pub(super) struct Shim(TempDir);

impl Shim {
    pub(super) async fn build() -> anyhow::Result<Self> {
        let shim = Self(tempfile::tempdir().context("no place for a library")?);
        let source = shim.0.path().join("slew.c");
        std::fs::write(&source, include_str!("slew.c"))?;
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-O2", "-o"]).arg(shim.path()).arg(&source);
        let status = cc.status().await.context("cannot run cc")?;
        ensure!(status.success(), "cc ended with {status}");
        Ok(shim)
    }

    pub(super) fn path(&self) -> PathBuf {
        self.0.path().join("slew.so")
    }
}

/// What stops a client's `CLOCK_BOOTTIME`.
pub(crate) struct Brake(PathBuf);

impl Brake {
    /// For one client of those that have this library.
    pub(super) fn new(shim: &Path, client: u16) -> anyhow::Result<Self> {
        let brake = Self(shim.with_file_name(format!("stop-{client}")));
        std::fs::write(&brake.0, 0_i64.to_ne_bytes()).context("no place for a clock's brake")?;
        Ok(brake)
    }

    pub(super) fn stop(&self) -> anyhow::Result<()> {
        self.set(shown(ClockId::Boottime).0.try_into()?)
    }

    /// Lets the clock go on, as if it had never stopped.
    pub(super) fn go(&self) -> anyhow::Result<()> {
        self.set(0)
    }

    /// Processes have mapped it, so it stays the same file, of the same length.
    fn set(&self, at: i64) -> anyhow::Result<()> {
        let mut file = OpenOptions::new().write(true).open(&self.0).context("a clock's brake is gone")?;
        Ok(file.write_all(&at.to_ne_bytes())?)
    }
}

/// Whether it is a client with slewed clocks: every other one. The others' clocks stay true.
pub(super) fn is_slewed(client: u16) -> bool {
    !client.is_multiple_of(2)
}

/// How much faster than true time a client's clocks run, in parts per million. Those with slewed clocks take the rates in turn.
fn rate(client: u16) -> i64 {
    if is_slewed(client) { RATES[usize::from(client / 2) % RATES.len()] } else { 0 }
}

/// The environment of a client's process.
pub(super) fn environment(setup: &Setup, client: u16, brake: &Brake) -> Vec<(&'static str, OsString)> {
    if !is_slewed(client) {
        return Vec::new();
    }
    vec![
        ("LD_PRELOAD", setup.shim.clone().into()),
        ("SLEW_PPM", rate(client).to_string().into()),
        ("SLEW_STOP", brake.0.clone().into()),
    ]
}

/// Fails unless the clocks of this client's process are slewed so. Without the check, a run could prove less than it says.
pub(super) async fn confirm(client: u16) -> anyhow::Result<()> {
    let slew = rate(client);
    for clock in [ClockId::Boottime, ClockId::Monotonic] {
        let begin = both(clock);
        sleep(LOOK).await;
        let end = both(clock);
        let (its, truly) = (end.0.since(begin.0), end.1.since(begin.1));
        let seen = (its.as_secs_f64() / truly.as_secs_f64() - 1.0) * 1e6;
        ensure!((seen as i64 - slew).abs() < ERROR, "{clock:?} is slewed by {seen:.0} ppm, not by {slew}");
    }
    Ok(())
}

/// This clock and the true one at nearly the same time, whatever else the machine does.
fn both(clock: ClockId) -> (Instant, Instant) {
    loop {
        let (before, its, after) = (now(), shown(clock), now());
        if after.since(before) < LOOK / 500 {
            return (its, before);
        }
    }
}
