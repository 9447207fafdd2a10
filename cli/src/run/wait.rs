//! Waiting for the lock.

use std::convert::Infallible;
use std::fmt::Write;
use std::future::pending;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::time::{sleep, timeout};
use zklock::{AcquireError, Contender, Guard, Lock};

use super::context::Context;
use crate::console::Console;
use crate::duration;
use crate::failure::Failure;
use crate::queue::Entry;
use crate::text;

/// How long zklock waits before it says that it waits.
const UNTOLD: Duration = Duration::from_millis(300);

/// How long the servers may take to say who holds the lock.
const PATIENCE: Duration = Duration::from_secs(2);

/// The end of the wait.
pub(super) enum Waited {
    Granted(Guard),
    /// This signal asked zklock to end.
    Signal(i32),
}

/// Waits until the lock is held, until a signal, or until the deadline.
///
/// A timeout of zero waits for no holder. It waits for ZooKeeper's answer, for half a session timeout at most.
pub(super) async fn wait(
    context: &mut Context<'_>,
    lock: &Lock,
    deadline: Option<Instant>,
) -> Result<Waited, Failure> {
    let (asked, console) = (context.run.timeout, context.console);
    loop {
        let attempt = async {
            match (asked, deadline) {
                (Some(Duration::ZERO), _) => lock.try_acquire().await,
                (_, Some(deadline)) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    lock.acquire_timeout(left).await
                }
                (_, None) => lock.acquire().await.map(Some),
            }
        };
        // An attempt that is dropped takes its contender out of the queue.
        let answer = tokio::select! {
            answer = attempt => answer,
            signal = context.signals.next_fatal() => return Ok(Waited::Signal(signal)),
            never = announce(lock, console) => match never {},
        };
        match answer {
            Ok(Some(guard)) => return Ok(Waited::Granted(guard)),
            Ok(None) => return Err(not_in_time(lock, asked, console).await),
            Err(AcquireError::NodeDeleted { .. }) => {
                console.warn("somebody deleted this contender's node; joining the queue again, at the end");
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Says who holds the lock, once it is clear that zklock waits.
async fn announce(lock: &Lock, console: Console) -> Infallible {
    let path = lock.path();
    let mut has_complained = false;
    loop {
        sleep(UNTOLD).await;
        match timeout(PATIENCE, lock.contenders()).await {
            // This contender is alone: ZooKeeper is slow, or a takeover delay runs.
            Ok(Ok(contenders)) if contenders.len() < 2 => {}
            Ok(Ok(contenders)) => {
                console.note(format_args!("waiting for {path}{}", holder(&contenders)));
                return pending().await;
            }
            Ok(Err(_)) | Err(_) if has_complained => {}
            Ok(Err(_)) | Err(_) => {
                console.note(format_args!("waiting for {path}: ZooKeeper does not answer"));
                has_complained = true;
            }
        }
    }
}

async fn not_in_time(lock: &Lock, asked: Option<Duration>, console: Console) -> Failure {
    let path = lock.path();
    // The message is for nobody if the console is quiet, so the servers are not asked for the holder.
    let holder = match console.is_quiet() {
        true => String::new(),
        false => match timeout(PATIENCE, lock.contenders()).await {
            Ok(Ok(contenders)) => holder(&contenders),
            Ok(Err(_)) | Err(_) => String::new(),
        },
    };
    Failure::not_acquired(match asked {
        Some(Duration::ZERO) | None => format!("{path} is taken{holder}"),
        Some(asked) => format!("{path} was not acquired within {}{holder}", duration::text(asked)),
    })
}

/// Who holds the lock and how many wait, as far as it is known. The text stands behind the lock's path.
fn holder(contenders: &[Contender]) -> String {
    let Some(holder) = contenders.first().map(Entry::from) else { return String::new() };
    let mut about = format!(", held by {}", holder.owner_text());
    if let Some(age) = holder.age(Timestamp::now()) {
        let _infallible = write!(about, ", who came {} ago", text::age(age));
    }
    let waiting = contenders.len() - 1;
    if waiting > 0 {
        let _infallible = write!(about, "; {waiting} waiting");
    }
    about
}
