//! The program, run to its end.

use std::process::Output;
use std::time::{Duration, Instant};

use assert_cmd::Command;
use serde_json::Value;

/// The longest that any run may take. It takes far less, even on a busy machine.
const BOUND: Duration = Duration::from_secs(60);

/// `zklock` with these arguments, and with nothing in its environment.
pub(crate) fn zklock(arguments: &[&str]) -> Command {
    let mut command = assert_cmd::cargo::cargo_bin_cmd!("zklock");
    let path = std::env::var_os("PATH").expect("a path");
    command.env_clear().env("PATH", path).args(arguments).timeout(BOUND);
    command
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) took: Duration,
}

impl Run {
    pub(crate) fn of(command: &mut Command) -> Self {
        let started = Instant::now();
        let Output { status, stdout, stderr } = command.output().expect("it ends");
        Self {
            code: status.code(),
            stdout: String::from_utf8(stdout).expect("UTF-8"),
            stderr: String::from_utf8(stderr).expect("UTF-8"),
            took: started.elapsed(),
        }
    }

    /// Standard output as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Runs `zklock` with these arguments.
pub(crate) fn run(arguments: &[&str]) -> Run {
    Run::of(&mut zklock(arguments))
}

/// The names of the findings of `zklock doctor --json`, the worst first. Two are left out: slow requests, which a busy machine
/// makes, and forgetful servers, which depend on the version that the tests run on.
pub(crate) fn codes(report: &Value) -> Vec<&str> {
    let findings = report["findings"].as_array().expect("findings");
    let codes = findings.iter().map(|finding| finding["code"].as_str().expect("a code"));
    codes.filter(|code| !["slow-requests", "forgets-writes"].contains(code)).collect()
}
