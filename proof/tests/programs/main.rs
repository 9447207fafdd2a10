//! The programs, each in a short form.

mod margins;
mod torture;

use std::process::{Command, Output};

/// Runs `zklock-proof` with these arguments, and shows what it says of its progress.
fn proof(arguments: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_zklock-proof")).args(arguments).output();
    let output = output.expect("the program starts");
    println!("{}", String::from_utf8_lossy(&output.stderr));
    output
}
