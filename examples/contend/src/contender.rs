//! A contender: a process that acquires the lock again and again, and counts one up in the store each time.
//!
//! It says a line for all that it does, with the time at which the guard was certainly held.

use std::io::{self, Write};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::time::sleep;
use zklock::{FencingToken, Guard, ReleaseError, Session};

use crate::Failure;

/// How long a dead process keeps the lock, about. Services have 10 s, unless they set it.
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(4);

/// A holder works for so many steps of this length.
const STEPS: u32 = 12;
const STEP: Duration = Duration::from_millis(50);

pub(crate) async fn run(servers: &str) -> Result<(), Failure> {
    let session = Session::builder(servers).session_timeout(SESSION_TIMEOUT).connect().await?;
    let lock = session.lock("/demo/lock")?;
    let mut is_enough = false;
    while !is_enough {
        let guard = lock.acquire().await?;
        say(format_args!("holds {} {}", guard.token(), now()))?;
        let work = async {
            for _ in 0..STEPS {
                still_holds(&guard)?;
                sleep(STEP).await;
            }
            count_one_up(guard.token())
        };
        // `run` drops the work the moment the guard is lost.
        if let Ok(worked) = guard.run(work).await {
            is_enough = worked?;
        }
        still_holds(&guard)?;
        match guard.release().await {
            Ok(()) => {}
            Err(ReleaseError::Lost(lost)) => say(format_args!("lost {}", lost.reason))?,
            // zklock goes on with it in the background.
            Err(_) => say("lost it was about to be released, and the servers did not confirm that")?,
        }
    }
    Ok(session.close().await?)
}

/// Reads the count and writes the next one. Returns whether that is enough.
///
/// Both are blocking calls, as those of many databases are. `run` cannot drop the work in between, and the process may be
/// paused there for any time. So the store gets the token with the write, to refuse it.
fn count_one_up(token: FencingToken) -> io::Result<bool> {
    say("reads")?;
    let count: u64 = answer()?.parse().map_err(io::Error::other)?;
    say(format_args!("writes {token} {}", count + 1))?;
    Ok(answer()? == "enough")
}

/// Says that the guard is held, if it is.
fn still_holds(guard: &Guard) -> io::Result<()> {
    // The time comes first, so that the guard was held at that time.
    let time = now();
    if guard.is_held() { say(format_args!("held {time}")) } else { Ok(()) }
}

fn say(what: impl std::fmt::Display) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{what}")?;
    output.flush()
}

fn answer() -> io::Result<String> {
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

/// The nanoseconds of `CLOCK_MONOTONIC`, which all processes of a machine share.
fn now() -> i64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
