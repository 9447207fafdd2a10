//! The example `fenced_store`: the story it tells is true.

use std::path::PathBuf;
use std::process::Command;

/// Where Cargo puts the example, beside the directory of this test. It is built with the tests, unless only some are.
fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.ancestors().nth(2).unwrap().join("examples/fenced_store");
    assert!(program.exists(), "build it first: cargo build --example fenced_store");
    program
}

#[test]
fn the_stale_write_is_refused() {
    let output = Command::new(program()).output().unwrap();
    let story = String::from_utf8_lossy(&output.stdout);
    println!("{story}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success());
    assert!(story.contains("first   writes: REFUSED by the store"));
    assert!(story.ends_with("PASS: the stale write was refused\n"));
}
