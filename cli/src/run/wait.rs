//! Waiting for the lock.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::pending;
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};
use zklock::{AcquireError, inspect::places};

use super::context::Context;
use super::kin::Kin;
use super::target::{Taken, Target};
use crate::console::Console;
use crate::duration;
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
    context.systemd.status(format_args!("waiting for {}", target.names()));
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let patience = if asked == Some(Duration::ZERO) { None } else { left.or(Some(Duration::MAX)) };
        let has_place = Cell::new(false);
        let attempt = places(target.take(patience), |_| has_place.set(true));
        // An attempt that is dropped takes its contender out of the queue.
        let answer = tokio::select! {
            answer = attempt => answer,
            signal = context.signals.next_fatal() => return Ok(Err(signal)),
            never = announce(target, kin, console) => match never {},
            never = kin.follow(session, &has_place, console) => match never {},
            never = context.systemd.keep_pinging() => match never {},
            never = context.descendants.keep_reaping() => match never {},
        };
        match answer {
            Ok(Some(taken)) => return Ok(Ok(taken)),
            Ok(None) => return Err(not_in_time(target, kin, asked, console).await),
            Err(AcquireError::NodeDeleted { .. }) => {
                console
                    .warn("somebody deleted this contender's node; zklock joins the queue again, at the end");
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Says who holds what the command waits for, once it is clear that zklock waits.
async fn announce(target: &Target, kin: &Kin, console: Console) -> Infallible {
    let mut has_complained = false;
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
            Ok(Err(_)) | Err(_) if has_complained => {}
            Ok(Err(_)) | Err(_) => {
                console.note(format_args!("waiting for {}: ZooKeeper does not answer", target.names()));
                has_complained = true;
            }
        }
    }
}

async fn not_in_time(target: &Target, kin: &Kin, asked: Option<Duration>, console: Console) -> Failure {
    // The message is for nobody if the console is quiet, so the servers are not asked for the holders.
    let blocked = match console.is_quiet() {
        true => Vec::new(),
        false => timeout(PATIENCE, target.blocked(kin)).await.ok().and_then(Result::ok).unwrap_or_default(),
    };
    let holders = match &blocked[..] {
        [one] if target.is_one() => one.holder.clone(),
        all => all.iter().map(|lock| format!("; {}{}", lock.name, lock.holder)).collect(),
    };
    let names = target.names();
    Failure::not_acquired(match asked {
        Some(Duration::ZERO) | None => format!("{names} {}{holders}", target.busy()),
        Some(asked) => {
            format!("{names} {} not acquired within {}{holders}", names.was(), duration::text(asked))
        }
    })
}
