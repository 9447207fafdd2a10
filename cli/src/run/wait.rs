//! Waiting for the lock.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::pending;
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};
use zklock::{AcquireError, inspect::places};

use super::context::Context;
use super::kin::Kin;
use super::outage::Outage;
use super::target::{Taken, Target};
use crate::console::Console;
use crate::duration;
use crate::exit::Code;
use crate::failure::Failure;

/// How long zklock waits before it says that it waits.
const UNTOLD: Duration = Duration::from_millis(300);

/// How long the servers may take to say who holds the lock.
const PATIENCE: Duration = Duration::from_secs(2);

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
    let (asked, console) = (context.run.timeout, context.console);
    let (session, kin) = (context.session, context.kin);
    let (names, outage) = (target.names(), Outage::default());
    context.systemd.status(format_args!("waiting for {names}"));
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let patience = if asked == Some(Duration::ZERO) { None } else { left.or(Some(Duration::MAX)) };
        let has_place = Cell::new(false);
        let attempt = places(target.take(patience), |_| has_place.set(true));
        // An attempt that is dropped takes its contender out of the queue.
        let answer = tokio::select! {
            answer = attempt => answer,
            signal = context.signals.next_fatal() => return Ok(Err(signal)),
            never = announce(target, kin, &outage, console) => match never {},
            never = kin.follow(session, &has_place, &outage, console) => match never {},
            never = outage.tell(&names, console) => match never {},
            never = context.systemd.keep_pinging() => match never {},
            never = context.descendants.keep_reaping() => match never {},
        };
        match answer {
            Ok(Some(taken)) => return Ok(Ok(taken)),
            Ok(None) => return Err(not_in_time(target, kin, &outage, asked, console).await),
            Err(AcquireError::NodeDeleted { .. }) => {
                console
                    .warn("somebody deleted this contender's node; zklock joins the queue again, at the end");
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Says who holds what the command waits for, once it is clear that zklock waits.
async fn announce(target: &Target, kin: &Kin, outage: &Outage, console: Console) -> Infallible {
    loop {
        sleep(UNTOLD).await;
        match timeout(PATIENCE, target.blocked(kin)).await {
            // ZooKeeper is slow, or a takeover delay runs.
            Ok(Ok(blocked)) if blocked.is_empty() => {}
            Ok(Ok(blocked)) => {
                for lock in blocked {
                    console.note(format_args!("waiting for {}{}", lock.name, lock.holder));
                }
                return pending().await;
            }
            // An ACL may hide the queue.
            Ok(Err(failure)) if failure.code != Code::Unreachable => {}
            Ok(Err(_)) | Err(_) => outage.say(&target.names(), PATIENCE, console),
        }
    }
}

/// Why nothing was acquired: others have it, or no server says whether they do.
async fn not_in_time(
    target: &Target,
    kin: &Kin,
    outage: &Outage,
    asked: Option<Duration>,
    console: Console,
) -> Failure {
    let names = target.names();
    let asked = asked.filter(|asked| !asked.is_zero());
    let blocked = match (asked, console.is_quiet()) {
        // A server has just answered, and the holders are for nobody.
        (None, true) => Vec::new(),
        _ => match (timeout(PATIENCE, target.blocked(kin)).await, asked) {
            (Ok(Ok(blocked)), _) => blocked,
            (Ok(Err(failure)), _) if failure.code != Code::Unreachable => Vec::new(),
            (Ok(Err(_)) | Err(_), None) => Vec::new(),
            (Ok(Err(_)) | Err(_), Some(asked)) => {
                let length = outage.length().unwrap_or_default().max(PATIENCE);
                return Failure::new(
                    Code::Unreachable,
                    format_args!(
                        "{names} {} not acquired within {}: ZooKeeper has not answered for {} or more, so zklock does not \
                         know whether somebody holds {}",
                        names.was(),
                        duration::text(asked),
                        duration::text(length),
                        names.them()
                    ),
                );
            }
        },
    };
    let holders = match &blocked[..] {
        [one] if target.is_one() => one.holder.clone(),
        all => all.iter().map(|lock| format!("; {}{}", lock.name, lock.holder)).collect(),
    };
    Failure::not_acquired(match asked {
        None => format!("{names} {}{holders}", target.busy()),
        Some(asked) => {
            format!("{names} {} not acquired within {}{holders}", names.was(), duration::text(asked))
        }
    })
}
