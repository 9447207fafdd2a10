//! Checks that the story which the example `fenced_store` tells is true.

use std::process::Command;

#[test]
fn the_stale_write_is_refused() {
    let output = Command::new(env!("CARGO_BIN_EXE_fenced_store")).output().unwrap();
    let story = String::from_utf8_lossy(&output.stdout);
    println!("{story}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success());
    assert!(story.contains("first   writes: REFUSED by the store"));
    assert!(story.ends_with("PASS: the stale write was refused\n"));
}
