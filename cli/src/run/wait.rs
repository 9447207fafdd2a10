//! Waiting for the lock.

use std::convert::Infallible;
use std::fmt::Write;
use std::future::pending;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::time::{sleep, timeout};
use zklock::{AcquireError, Contender, Guard, Lock};

use crate::args::Run;
use crate::console::Console;
use crate::duration;
use crate::exit::{Code, Failure};
use crate::queue::Entry;
use crate::signals::Signals;
use crate::text;

/// How long to wait before telling so.
const UNTOLD: Duration = Duration::from_millis(300);

/// How long the servers may take to tell for whom we wait.
const PATIENCE: Duration = Duration::from_secs(2);

/// What became of the wait.
pub(super) enum Waited {
    Granted(Guard),
    /// This signal asked us to end.
    Signal(i32),
}

/// Waits until the lock is held, until a signal, or until the deadline; a timeout of zero waits for nobody but ZooKeeper,
/// and for that for half a session timeout at most.
pub(super) async fn wait(
    run: &Run,
    lock: &Lock,
    deadline: Option<Instant>,
    signals: &mut Signals,
    console: Console,
) -> Result<Waited, Failure> {
    loop {
        let attempt = async {
            match (run.timeout, deadline) {
                (Some(Duration::ZERO), _) => lock.try_acquire().await,
                (_, Some(deadline)) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    lock.acquire_timeout(left).await
                }
                (_, None) => lock.acquire().await.map(Some),
            }
        };
        // Leaving one of them takes the contender out of the queue.
        let answer = tokio::select! {
            answer = attempt => answer,
            signal = signals.next_fatal() => return Ok(Waited::Signal(signal)),
            never = announce(lock, console) => match never {},
        };
        match answer {
            Ok(Some(guard)) => return Ok(Waited::Granted(guard)),
            Ok(None) => return Err(not_in_time(lock, run.timeout).await),
            Err(AcquireError::NodeDeleted { .. }) => {
                console.warn("somebody removed us from the queue; queueing again, at the end");
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Tells for whom we wait, once it is clear that we do.
async fn announce(lock: &Lock, console: Console) -> Infallible {
    let path = lock.path();
    let mut has_complained = false;
    loop {
        sleep(UNTOLD).await;
        match timeout(PATIENCE, lock.contenders()).await {
            // Only ourselves: ZooKeeper is slow, or there is a takeover delay.
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

async fn not_in_time(lock: &Lock, asked: Option<Duration>) -> Failure {
    let path = lock.path();
    let contenders = timeout(PATIENCE, lock.contenders()).await;
    let holder =
        contenders.map_or_else(|_| String::new(), |contenders| holder(&contenders.unwrap_or_default()));
    let message = match asked {
        Some(Duration::ZERO) | None => format!("{path} is taken{holder}"),
        Some(asked) => format!("{path} was not acquired within {}{holder}", duration::text(asked)),
    };
    Failure::new(Code::NotAcquired, message)
}

/// Who has the lock and how many wait, as far as can be told, to be put behind its path.
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
