//! Brings a database up to date, though every instance of a service tries to as it starts. This program is not async.
//!
//!     cargo run --example migrate -- 127.0.0.1:2181 /lock/migration schema.txt
//!
//! The database is a file here, with a line for each step that was taken.

use std::error::Error;
use std::fs::{OpenOptions, read_to_string};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use zklock::blocking::Session;

const STEPS: [&str; 3] = ["create table orders", "add column state", "index state"];

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let servers = arguments.next().unwrap_or_else(|| "127.0.0.1:2181".into());
    let path = arguments.next().unwrap_or_else(|| "/lock/migration".into());
    let database = arguments.next().unwrap_or_else(|| "schema.txt".into());

    let session = Session::connect(servers)?;
    let lock = session.lock(&path)?;
    let Some(guard) = lock.acquire_timeout(Duration::from_secs(60))? else {
        return Err("another instance has been migrating for a minute".into());
    };
    // A lock serialises, and does not deduplicate: the database says what was done before.
    for step in &STEPS[taken(&database)?..] {
        // Step by step, because nothing can stop a step that blocks. Better, each step is a transaction that compares the token.
        guard.check()?;
        take(&database, step)?;
        println!("{step}, token {}", guard.token());
    }
    Ok(guard.release()?) // an early `?` or a panic releases the guard, too; then the session is closed
}

fn taken(database: impl AsRef<Path>) -> Result<usize, std::io::Error> {
    match read_to_string(database) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
        text => Ok(text?.lines().count()),
    }
}

fn take(database: impl AsRef<Path>, step: &str) -> Result<(), std::io::Error> {
    writeln!(OpenOptions::new().create(true).append(true).open(database)?, "{step}")
}
