//! `zklock run`: a command that runs while the lock is held, and not a moment longer.

mod ask_printer;
mod context;
mod control;
mod guard;
mod job;
mod kin;
mod locks;
mod pool;
mod shift;
mod target;
mod wait;

use std::cell::Cell;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use zklock::{Acl, LockOptions, Session, once::RecordState};

use crate::args::{AclFor, OnLost, Terms};
use crate::connection::Connection;
use crate::console::Console;
use crate::exit::{self, Code};
use crate::failure::{Failure, Outcome};
use crate::signals::Signals;
use crate::systemd::Systemd;
use crate::warden::{Descendants, RESERVE};
use crate::{closing, duration};
use context::Context;
use kin::Kin;
use shift::{CommandEnd, Shift};
pub(crate) use target::Goal;
use target::{Taken, Target};
use wait::wait_for_target;

/// The default time from SIGTERM to SIGKILL, if the session timeout allows twice as much. The less time it takes to end the
/// command, the later heartbeats may be answered without a loss.
const DEFAULT_KILL_AFTER: Duration = Duration::from_secs(2);

/// Runs a command under a lock, or as the leader of an election.
pub(crate) async fn run_under_lock(
    goal: Goal,
    terms: Terms,
    connection: &Connection,
    console: Console,
) -> Outcome {
    // First of all, so that the program handles every signal.
    let mut signals = Signals::listen().map_err(Failure::internal)?;
    let descendants = &Descendants::adopt_orphans().map_err(|error| {
        Failure::internal(format_args!("zklock cannot supervise a command here: {error}"))
    })?;
    let systemd = Systemd::find(terms.notify, console);
    systemd.send_status("connecting to ZooKeeper");
    let started = Instant::now();
    let patience = terms.timeout.filter(|timeout| !timeout.is_zero()).unwrap_or(Duration::MAX);
    let session = &tokio::select! {
        session = connection.session_within(patience, terms.create_chroot) => session?,
        signal = signals.next_fatal() => return Ok(exit::after_signal(signal)),
        never = systemd.keep_pinging() => match never {},
    };
    console.detail(format_args!(
        "connected: session {:#x}, session timeout {}",
        session.id(),
        duration::text(session.timeout())
    ));
    connection.silence.note_answer("", console);
    let context = Context {
        terms: &terms,
        descendants,
        session,
        connection,
        kin: &Kin::of_this_process(),
        systemd: &systemd,
        console,
        says_that_it_waits: Cell::default(),
        place: watch::Sender::default(),
    };
    let outcome = acquire_and_run(&context, &mut signals, goal, started).await;
    // The servers delete the session's nodes with it.
    closing::close_session(session).await;
    systemd.send_rest().await;
    outcome.map_err(|failure| failure.with_conflict_status(terms.conflict_exit_code))
}

/// Acquires the lock and runs the command, once or again and again.
async fn acquire_and_run(
    context: &Context<'_>,
    signals: &mut Signals,
    goal: Goal,
    started: Instant,
) -> Outcome {
    let Context { terms, session, console, .. } = *context;
    let kill_after = kill_after(terms, session)?;
    check_max_hold(terms, kill_after)?;
    let options = lock_options(terms, kill_after).places(context.place.clone());
    let target = tokio::select! {
        target = Target::of(goal, terms.on_lost, session, options) => target?,
        signal = signals.next_fatal() => return Ok(exit::after_signal(signal)),
        never = context.systemd.keep_pinging() => match never {},
    };
    let mut waiting_since = started;
    // The token of a guard that was lost before the command started.
    let mut unstarted = None;
    loop {
        let deadline = terms.timeout.and_then(|timeout| waiting_since.checked_add(timeout));
        let waited = wait_for_target(context, signals, &target, deadline).await?;
        // A user who has read that zklock waits also wants to know that it does not wait any more. A quiet user has
        // read of a silence, too.
        let was_silent = context.connection.silence.take_told();
        let heard = if was_silent { console.max(Console::Normal) } else { console };
        let guard = match waited {
            Ok(Taken::Granted(guard)) => guard,
            Ok(Taken::Done(record))
                if record.state == RecordState::Begun && unstarted == Some(record.token) =>
            {
                return Err(Failure::new(
                    Code::Lost,
                    format_args!(
                        "the lock was lost before CMD started, but the record {} says that the run has begun; give \
                         --retry to begin it again",
                        record.path
                    ),
                ));
            }
            Ok(Taken::Done(record)) => {
                if record.state == RecordState::Succeeded {
                    heard.note(target::recorded_text(&record));
                    return Ok(ExitCode::SUCCESS);
                }
                // A job that has not succeeded is worth a mail, also from cron with --quiet.
                return Err(Failure::new(Code::FailedBefore, target::recorded_text(&record)));
            }
            Err(signal) => return Ok(exit::after_signal(signal)),
        };
        let token = guard.token();
        unstarted = Some(token);
        // Of a pool, the guard says which part. Everything else has the names that the user gave.
        let guard = if let Target::Part(_) = target { guard } else { guard.with_names(target.names()) };
        let acquired = format!("acquired {}, token {token}", guard.names());
        if context.says_that_it_waits.take() || was_silent {
            heard.note(acquired);
        } else {
            console.detail(acquired);
        }
        match Shift::new(context, signals, guard, kill_after).run_command().await? {
            CommandEnd::Own(status) => return Ok(ExitCode::from(status)),
            CommandEnd::NeverBegun { told_to_end: Some(signal) } => {
                target.tell_unended(console);
                return Ok(exit::after_signal(signal));
            }
            CommandEnd::NeverBegun { told_to_end: None } => {
                let names = target.names();
                context.say_that_it_waits(format_args!(
                    "{names} {} lost before CMD started; zklock waits again",
                    names.was()
                ));
            }
            CommandEnd::Lost { told_to_end: None, .. } if terms.restart => {
                let names = target.names();
                context.say_that_it_waits(format_args!("zklock waits for {names} again, to restart CMD"));
            }
            CommandEnd::Lost { code, .. } => {
                target.tell_unended(console);
                return Ok(code.into());
            }
        }
        waiting_since = Instant::now();
    }
}

/// How long the command has from SIGTERM to SIGKILL. It must fit into the least that a lease has left.
fn kill_after(terms: &Terms, session: &Session) -> Result<Duration, Failure> {
    let longest = session.longest_stop_margin().checked_sub(RESERVE);
    match (terms.on_lost, terms.kill_after, longest) {
        (OnLost::IgnoreAndWarn, asked, _) => Ok(asked.unwrap_or(DEFAULT_KILL_AFTER)),
        (_, _, None) => Err(Failure::usage(format_args!(
            "a session timeout of {} leaves no time to end CMD before the lock is lost; give a longer --session-timeout",
            duration::text(session.timeout())
        ))),
        (OnLost::Term, Some(asked), Some(longest)) if asked > longest => Err(Failure::usage(format_args!(
            "--kill-after {} is too long: with a session timeout of {}, the longest --kill-after is {}; give that or \
             less, or a longer --session-timeout",
            duration::text(asked),
            duration::text(session.timeout()),
            duration::text(longest)
        ))),
        (_, asked, Some(longest)) => Ok(asked.unwrap_or(DEFAULT_KILL_AFTER.min(longest / 2))),
    }
}

/// A command must have some of the longest time before it is ended.
fn check_max_hold(terms: &Terms, kill_after: Duration) -> Result<(), Failure> {
    let Some(longest) = terms.max_hold else { return Ok(()) };
    let margin = stop_margin(terms, kill_after);
    if terms.on_lost == OnLost::IgnoreAndWarn {
        return Err(Failure::usage(
            "--on-lost ignore-and-warn cannot be used with --max-hold, because CMD would go on without the lock; leave out one \
             of these options",
        ));
    }
    if longest <= margin {
        return Err(Failure::usage(format_args!(
            "--max-hold {} is too short: ending CMD takes {} of it; give more, or a shorter --kill-after",
            duration::text(longest),
            duration::text(margin)
        )));
    }
    Ok(())
}

/// How long before the end of the lock a command is asked to end.
fn stop_margin(terms: &Terms, kill_after: Duration) -> Duration {
    match terms.on_lost {
        OnLost::Term => kill_after + RESERVE,
        OnLost::Kill => RESERVE,
        OnLost::IgnoreAndWarn => Duration::ZERO,
    }
}

/// The options of each lock. The guard reports the end of the lease early enough to end the command before it.
fn lock_options(terms: &Terms, kill_after: Duration) -> LockOptions {
    let acl = match terms.acl {
        AclFor::Anyone => Acl::open(),
        AclFor::Creator => Acl::creator_only(),
    };
    let options = LockOptions::new().acl(acl).stop_margin(stop_margin(terms, kill_after));
    let options = options.takeover_delay(terms.takeover_delay.unwrap_or_default());
    let options = terms.max_hold.into_iter().fold(options, LockOptions::max_hold);
    match &terms.owner {
        Some(owner) => options.owner(owner),
        None => options,
    }
}
