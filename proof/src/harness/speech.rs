//! What a client process says and is told: lines on standard output and standard input, of the torture's clients in JSON.

use std::io::{BufRead, Write};

use anyhow::Context;
use rustix::process::{Signal, set_parent_process_death_signal};
use serde::Serialize;

/// Says it, and returns once it is written. The line is one `write`, so a process that is killed loses the line that it
/// was about to write, and no other.
pub(crate) fn say(said: &impl Serialize) -> anyhow::Result<()> {
    let line = to_line(said)?;
    let mut output = std::io::stdout().lock();
    output.write_all(line.as_bytes()).and_then(|()| output.flush()).context("nobody listens any more")
}

/// Has `obey` hear every order, on a thread of its own, so that nothing else in this process delays it.
///
/// This process ends with the one that gives the orders, however that one ends, and even if this one is stopped.
pub(crate) fn listen(mut obey: impl FnMut(String) + Send + 'static) -> anyhow::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    std::thread::spawn(move || {
        std::io::stdin().lock().lines().map_while(Result::ok).for_each(&mut obey);
        std::process::exit(3);
    });
    Ok(())
}

pub(crate) fn to_line(said: &impl Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string(said)? + "\n")
}
