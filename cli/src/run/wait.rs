//! Waiting for the lock.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::pending;
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};
use zklock::SessionState;

use super::context::Context;
use super::kin::Kin;
use super::locks::Blocked;
use super::target::{Taken, Target};
use crate::duration;
use crate::exit::Code;
use crate::failure::Failure;
use crate::signals::Signals;

/// What is said of servers that hang up at each request of a contender. A network may do so, too.
const HUNG_UP: &str = "the servers close the connection again and again before this contender has a place in the queue; their logs \
                       say why: they may be older than 3.6, or its request may be longer than their jute.maxbuffer";

/// How long zklock waits before it says that it waits.
const UNTOLD: Duration = Duration::from_millis(300);

/// How long the servers may take to say who holds the lock.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often a connection is lost, before a contender has a place, until zklock says that the servers hang up.
const HANGUPS: u32 = 5;

/// The pause before they are asked again, if the connection was lost.
const AGAIN: Duration = Duration::from_millis(50);

/// The end of the wait: what the command waited for, or the signal that asked zklock to end.
pub(super) type Waited = Result<Taken, i32>;

/// Waits until the command may run, until a signal, or until the deadline.
///
/// A timeout of zero waits for no holder. It waits for ZooKeeper's answer, for half a session timeout at most.
pub(super) async fn wait_for_target(
    context: &Context<'_>,
    signals: &mut Signals,
    target: &Target,
    deadline: Option<Instant>,
) -> Result<Waited, Failure> {
    let names = target.names();
    let hangups = Cell::new(0);
    context.systemd.send_status(format_args!("waiting for {names}"));
    let acquiring = async {
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let is_patient = context.terms.timeout != Some(Duration::ZERO);
            let patience = if is_patient { left.or(Some(Duration::MAX)) } else { None };
            let answer = tokio::select! {
                answer = target.acquire(patience) => answer,
                never = announce_holders(context, target) => match never {},
            };
            match answer {
                Ok(Some(taken)) => return Ok(taken),
                Ok(None) if !context.has_place() && hangups.get() >= HANGUPS => {
                    let message = format!("{names} {} not acquired: {HUNG_UP}", names.was());
                    return Err(Failure::new(Code::Unreachable, message));
                }
                Ok(None) => return Err(not_acquired(context, target).await),
                Err(failure) if failure.has_lost_its_place => context.warn_that_it_waits(
                    "somebody deleted this contender's node; zklock joins the queue again, at the end",
                ),
                Err(failure) => return Err(failure),
            }
        }
    };
    let waiting = format!("waiting for {names}: ");
    // An attempt that is dropped takes its contender out of the queue.
    tokio::select! {
        taken = acquiring => taken.map(Ok),
        signal = signals.next_fatal() => Ok(Err(signal)),
        never = follow_sessions(context) => match never {},
        never = follow_hangups(context, &hangups, &waiting) => match never {},
        never = context.connection.watch_silence(context.session, &waiting, context.console) => match never {},
        never = context.systemd.keep_pinging() => match never {},
        never = context.descendants.keep_reaping() => match never {},
    }
}

/// Remembers the sessions. If one ends while this process has a place in a queue, it says that the place is gone, and why.
async fn follow_sessions(context: &Context<'_>) -> Infallible {
    let session = context.session;
    let mut events = session.events();
    let mut ended = None;
    while let Some(event) = events.next().await {
        context.kin.remember(event.id);
        let now = event.generation + u64::from(event.state == SessionState::Expired);
        // The reader of events may miss that the session expired, but not that another one has taken over.
        if ended.replace(now).is_some_and(|before| before < now) && context.place.send_replace(None).is_some()
        {
            let length = context.connection.silence.length();
            // Whether the servers have ended the session, or this process has given it up: the silence is the cause.
            let why = if length > session.timeout() / 2 {
                format!(
                    "no server has answered this contender for {} or more, so it has lost its place",
                    duration::text(length)
                )
            } else {
                "the ZooKeeper session of this contender has expired".to_owned()
            };
            context.warn_that_it_waits(format_args!("{why}; zklock joins the queue again, at the end"));
        }
    }
    pending().await
}

/// Counts how often the connection is lost before the contender has a place. Servers hang up if they cannot read its request, and do so
/// again each time that it is repeated. They answer what else the session asks, so this is no silence.
async fn follow_hangups(context: &Context<'_>, hangups: &Cell<u32>, waiting: &str) -> Infallible {
    let mut events = context.session.events();
    while let Some(event) = events.next().await {
        if context.has_place() {
            hangups.set(0);
        } else if event.state == SessionState::Disconnected {
            hangups.set(hangups.get() + 1);
            if hangups.get() == HANGUPS {
                context.warn_that_it_waits(format_args!("{waiting}{HUNG_UP}; zklock goes on trying"));
            }
        }
    }
    pending().await
}

/// Says who holds what the command waits for, once it is clear that zklock waits.
async fn announce_holders(context: &Context<'_>, target: &Target) -> Infallible {
    loop {
        sleep(UNTOLD).await;
        match timeout(PATIENCE, target.find_blocked(context.kin)).await {
            Ok(Ok(blocked)) if !blocked.is_empty() => {
                for lock in blocked {
                    context.say_that_it_waits(format_args!("waiting for {}{}", lock.name, lock.holder));
                }
                return pending().await;
            }
            // ZooKeeper is slow, a takeover delay runs, or an ACL hides the queue.
            Ok(Ok(_) | Err(_)) | Err(_) => {}
        }
    }
}

/// Why nothing was acquired: others have it, or no server says whether they do.
async fn not_acquired(context: &Context<'_>, target: &Target) -> Failure {
    let names = target.names();
    let silence = &context.connection.silence;
    let asked = context.terms.timeout.filter(|asked| !asked.is_zero());
    let blocked = match (asked, context.console.is_quiet()) {
        // A server has just answered, and the holders are for nobody.
        (None, true) => Vec::new(),
        _ => {
            let _question = silence.begin_question();
            match (timeout(PATIENCE, blocked_at_last(target, context.kin)).await, asked) {
                (Ok(blocked), _) => blocked,
                (Err(_), None) => Vec::new(),
                (Err(_), Some(asked)) => {
                    return Failure::new(
                        Code::Unreachable,
                        format_args!(
                            "{names} {} not acquired within {}: ZooKeeper has not answered for {} or more, so zklock does \
                             not know whether somebody holds {}",
                            names.was(),
                            duration::text(asked),
                            duration::text(silence.length()),
                            names.them()
                        ),
                    );
                }
            }
        }
    };
    let holders = match &blocked[..] {
        [one] if target.is_one() => one.holder.clone(),
        all => all.iter().map(|lock| format!("; {}{}", lock.name, lock.holder)).collect(),
    };
    let message = match asked {
        None => format!("{names} {}{holders}", target.busy_text()),
        Some(asked) => {
            format!("{names} {} not acquired within {}{holders}", names.was(), duration::text(asked))
        }
    };
    Failure::new(Code::NotAcquired, message).expected()
}

/// What others keep from this session, as soon as a server says it. The session may be moving to another server. An ACL may
/// hide the queue.
async fn blocked_at_last(target: &Target, kin: &Kin) -> Vec<Blocked> {
    loop {
        match target.find_blocked(kin).await {
            Err(failure) if failure.code == Code::Unreachable => sleep(AGAIN).await,
            answer => return answer.unwrap_or_default(),
        }
    }
}
