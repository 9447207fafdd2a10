//! `zklock run`: a command that runs while the lock is held, and not a moment longer.

mod control;
mod job;
mod shift;
mod wait;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use zklock::{Acl, Lock, LockOptions, Session};

use crate::args::{Access, OnLost, Run};
use crate::closing;
use crate::connection::Connection;
use crate::console::Console;
use crate::duration;
use crate::exit::{Code, Failure, Outcome};
use crate::signals::Signals;
use crate::warden::{Descendants, RESERVE};
use shift::{Ending, Shift};
use wait::{Waited, wait};

/// The time from SIGTERM to SIGKILL unless told, if the session timeout allows twice as much: the less time the end takes, the
/// later heartbeats may be answered without a loss.
const DEFAULT_KILL_AFTER: Duration = Duration::from_secs(2);

pub(crate) async fn run(run: Run, connection: &Connection, console: Console) -> Outcome {
    // Before anything else, so that no signal finds us unprepared.
    let mut signals = Signals::listen().map_err(Failure::internal)?;
    let descendants = Descendants::adopt()
        .map_err(|error| Failure::internal(format_args!("no command could be kept here: {error}")))?;
    let started = Instant::now();
    let patience = run.timeout.filter(|timeout| !timeout.is_zero()).unwrap_or(Duration::MAX);
    let session = tokio::select! {
        session = connection.session_within(patience) => session?,
        signal = signals.next_fatal() => return Ok(status_of(signal)),
    };
    console.detail(format_args!(
        "connected: session {:#x}, session timeout {}",
        session.id(),
        duration::text(session.timeout())
    ));
    let outcome = hold(&run, &descendants, console, &session, &mut signals, started).await;
    // Its nodes go with it.
    closing::session(&session).await;
    outcome
}

/// Acquires the lock and runs the command, once or again and again.
async fn hold(
    run: &Run,
    descendants: &Descendants,
    console: Console,
    session: &Session,
    signals: &mut Signals,
    started: Instant,
) -> Outcome {
    let kill_after = kill_after(run, session)?;
    let lock = lock(run, session, kill_after)?;
    let mut waiting_since = started;
    loop {
        let deadline = run.timeout.and_then(|timeout| waiting_since.checked_add(timeout));
        let guard = match wait(run, &lock, deadline, signals, console).await? {
            Waited::Granted(guard) => guard,
            Waited::Signal(signal) => return Ok(status_of(signal)),
        };
        console.detail(format_args!("acquired {}, token {}", lock.path(), guard.token()));
        let shift = Shift::new(run, descendants, session, guard, kill_after, signals, console);
        match shift.work().await? {
            Ending::Own(status) => return Ok(ExitCode::from(status)),
            Ending::NeverBegun { told_to_end: Some(signal) } => return Ok(status_of(signal)),
            Ending::NeverBegun { told_to_end: None } => {
                console.note("the lock was lost before CMD was started; waiting for it again");
            }
            Ending::Lost { told_to_end: None } if run.restart => {
                console.note("waiting for the lock again, to restart CMD");
            }
            Ending::Lost { .. } => return Ok(Code::Lost.into()),
        }
        waiting_since = Instant::now();
    }
}

/// How long the command is to have from SIGTERM to SIGKILL, which must fit into what a lease has left at least.
fn kill_after(run: &Run, session: &Session) -> Result<Duration, Failure> {
    let longest = session.longest_stop_margin().checked_sub(RESERVE);
    match (run.on_lost, run.kill_after, longest) {
        (OnLost::IgnoreAndWarn, asked, _) => Ok(asked.unwrap_or(DEFAULT_KILL_AFTER)),
        (_, _, None) => Err(Failure::usage(format_args!(
            "a session timeout of {} leaves no time to end CMD before the lock is lost; ask for a longer one",
            duration::text(session.timeout())
        ))),
        (OnLost::Term, Some(asked), Some(longest)) if asked > longest => Err(Failure::usage(format_args!(
            "--kill-after {} does not fit: with a session timeout of {}, CMD can be given {} to end before the lock is \
             lost; shorten it, or ask for a longer --session-timeout",
            duration::text(asked),
            duration::text(session.timeout()),
            duration::text(longest)
        ))),
        (_, asked, Some(longest)) => Ok(asked.unwrap_or(DEFAULT_KILL_AFTER.min(longest / 2))),
    }
}

/// The lock, whose guard tells of its end when it is time to begin ending the command.
fn lock(run: &Run, session: &Session, kill_after: Duration) -> Result<Lock, Failure> {
    let margin = match run.on_lost {
        OnLost::Term => kill_after + RESERVE,
        OnLost::Kill => RESERVE,
        OnLost::IgnoreAndWarn => Duration::ZERO,
    };
    let acl = match run.acl {
        Access::Anyone => Acl::open(),
        Access::Creator => Acl::creator_only(),
    };
    let mut options = LockOptions::new().acl(acl).stop_margin(margin).takeover_delay(run.takeover_delay);
    if let Some(owner) = &run.owner {
        options = options.owner(owner);
    }
    Ok(session.lock_with(&run.path, options)?)
}

/// What a program ends with that this signal ends.
fn status_of(signal: i32) -> ExitCode {
    ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX))
}
