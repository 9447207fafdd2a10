//! Seeds that a developer waits for: `make simulate` runs more of them.

use std::process::{Command, Output};

use clap::ValueEnum;
use zklock_contest::member::Member;

fn simulate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_zklock-simulation")).args(arguments).output().unwrap()
}

#[test]
fn a_seed_has_one_trace_whatever_the_environment() {
    for mode in Member::value_variants() {
        let mode = mode.to_string();
        let arguments = ["--seed", "7", "--trace", "--mode", &mode];
        let first = simulate(&arguments);
        assert!(first.status.success(), "{}", String::from_utf8_lossy(&first.stdout));
        let mut command = Command::new(env!("CARGO_BIN_EXE_zklock-simulation"));
        let second = command.args(arguments).env_clear().env("FILLER", "x".repeat(12_345)).output().unwrap();
        assert!(first.stdout == second.stdout, "two runs of one seed differ");
        let other = simulate(&["--seed", "8", "--trace", "--mode", &mode]);
        assert_ne!(first.stdout, other.stdout);
    }
}

/// They are the same ones each time, so that this test does not fail by chance. `make simulate` draws others.
#[test]
fn a_hundred_seeds_find_nothing() {
    for seed in 1..=100 {
        let ran = simulate(&["--seed", &seed.to_string()]);
        let said = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success(), "seed {seed}: {said}{}", String::from_utf8_lossy(&ran.stderr));
    }
}
