//! Waiting for the lock.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::pending;
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};
use zklock::{Session, SessionState, inspect::places};

use super::context::Context;
use super::kin::Kin;
use super::locks::Blocked;
use super::target::{Taken, Target};
use crate::console::Console;
use crate::duration;
use crate::exit::Code;
use crate::failure::Failure;
use crate::silence::Silence;

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
pub(super) async fn wait(
    context: &mut Context<'_>,
    target: &Target,
    deadline: Option<Instant>,
) -> Result<Waited, Failure> {
    let (asked, console, silence) = (context.terms.timeout, context.console, &context.connection.silence);
    let (session, kin, connection) = (context.session, context.kin, context.connection);
    let (names, has_place, says_so) = (target.names(), Cell::new(false), &context.says_that_it_waits);
    let hangups = Cell::new(0);
    context.systemd.status(format_args!("waiting for {names}"));
    let waited = async {
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let patience = if asked == Some(Duration::ZERO) { None } else { left.or(Some(Duration::MAX)) };
            has_place.set(false);
            let attempt = places(target.take(patience), |_| has_place.set(true));
            let answer = tokio::select! {
                answer = attempt => answer,
                never = announce(target, kin, says_so, console) => match never {},
            };
            match answer {
                Ok(Some(taken)) => return Ok(taken),
                Ok(None) if !has_place.get() && hangups.get() >= HANGUPS => {
                    let message = format!("{names} {} not acquired: {HUNG_UP}", names.was());
                    return Err(Failure::new(Code::Unreachable, message));
                }
                Ok(None) => return Err(not_in_time(target, kin, silence, asked, console).await),
                Err(failure) if failure.has_lost_its_place => {
                    console.warn(
                        "somebody deleted this contender's node; zklock joins the queue again, at the end",
                    );
                    says_so.set(true);
                }
                Err(failure) => return Err(failure),
            }
        }
    };
    let waiting = format!("waiting for {names}: ");
    let tell_hangups = || {
        console.warn(format_args!("{waiting}{HUNG_UP}; zklock goes on trying"));
        says_so.set(true);
    };
    // An attempt that is dropped takes its contender out of the queue.
    tokio::select! {
        taken = waited => taken.map(Ok),
        signal = context.signals.next_fatal() => Ok(Err(signal)),
        never = kin.follow(session, &has_place, says_so, silence, console) => match never {},
        never = follow_hangups(session, &has_place, &hangups, tell_hangups) => match never {},
        never = connection.watch_silence(session, &waiting, console) => match never {},
        never = context.systemd.keep_pinging() => match never {},
        never = context.descendants.keep_reaping() => match never {},
    }
}

/// Counts how often the connection is lost before the contender has a place. Servers hang up if they cannot read its request, and do so
/// again each time that it is repeated. They answer what else the session asks, so this is no silence.
async fn follow_hangups(
    session: &Session,
    has_place: &Cell<bool>,
    hangups: &Cell<u32>,
    tell: impl Fn(),
) -> Infallible {
    let mut events = session.events();
    while let Some(event) = events.next().await {
        if has_place.get() {
            hangups.set(0);
        } else if event.state == SessionState::Disconnected {
            hangups.set(hangups.get() + 1);
            if hangups.get() == HANGUPS {
                tell();
            }
        }
    }
    pending().await
}

/// Says who holds what the command waits for, once it is clear that zklock waits.
async fn announce(target: &Target, kin: &Kin, says_so: &Cell<bool>, console: Console) -> Infallible {
    loop {
        sleep(UNTOLD).await;
        match timeout(PATIENCE, target.blocked(kin)).await {
            Ok(Ok(blocked)) if !blocked.is_empty() => {
                for lock in blocked {
                    console.note(format_args!("waiting for {}{}", lock.name, lock.holder));
                }
                says_so.set(true);
                return pending().await;
            }
            // ZooKeeper is slow, a takeover delay runs, or an ACL hides the queue.
            Ok(Ok(_) | Err(_)) | Err(_) => {}
        }
    }
}

/// Why nothing was acquired: others have it, or no server says whether they do.
async fn not_in_time(
    target: &Target,
    kin: &Kin,
    silence: &Silence,
    asked: Option<Duration>,
    console: Console,
) -> Failure {
    let names = target.names();
    let asked = asked.filter(|asked| !asked.is_zero());
    let blocked = match (asked, console.is_quiet()) {
        // A server has just answered, and the holders are for nobody.
        (None, true) => Vec::new(),
        _ => {
            let _question = silence.ask();
            match (timeout(PATIENCE, blocked_at_last(target, kin)).await, asked) {
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
        None => format!("{names} {}{holders}", target.busy()),
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
        match target.blocked(kin).await {
            Err(failure) if failure.code == Code::Unreachable => sleep(AGAIN).await,
            answer => return answer.unwrap_or_default(),
        }
    }
}
