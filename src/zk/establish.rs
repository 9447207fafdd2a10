//! Establishes new ZooKeeper sessions. The servers' tick comes first, because leases are computed with it.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use tokio::time::Instant;
use tracing::warn;

use super::dialer::{Dialer, Established, Refused};
use super::error::ConnectError;
use super::survey;

/// The pause after the first round that failed. Each further pause is twice as long.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause between two rounds, without its jitter.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Asks each server for a new session, once.
pub(crate) async fn establish(dialer: &Dialer) -> Result<Established, Refused> {
    if dialer.tick.lock().is_some() {
        return dialer.dial().await;
    }
    let tick = survey::tick(dialer).await?;
    *dialer.tick.lock() = Some(tick);
    let established = dialer.dial().await;
    if established.is_err() {
        // Before the next attempt, a server with a longer tick may be there.
        *dialer.tick.lock() = None;
    }
    established
}

/// Asks every server, again and again, with growing pauses, until one establishes a session. The pauses are jittered,
/// so that clients which lost their sessions together do not all come back at once.
///
/// `Err` says why no server will establish one: a server rejected the credentials, or every server has refused for good
/// for a session timeout.
pub(super) async fn redial(dialer: &Dialer) -> Result<Established, ConnectError> {
    let pauses = ExponentialBuilder::new()
        .with_min_delay(SHORTEST_PAUSE)
        .with_max_delay(LONGEST_PAUSE)
        .without_max_times()
        .with_jitter();
    let mut pauses = pauses.build();
    let mut refused_since = None;
    loop {
        let Refused { error, unanimous } = match establish(dialer).await {
            Ok(established) => return Ok(established),
            Err(Refused { error: error @ ConnectError::AuthFailed, .. }) => return Err(error),
            Err(refused) => refused,
        };
        if !unanimous {
            refused_since = None;
        } else if refused_since.get_or_insert_with(Instant::now).elapsed() >= dialer.timeout {
            return Err(error);
        }
        let pause = pauses.next().unwrap_or(LONGEST_PAUSE);
        warn!(%error, ?pause, "no server gives a new session");
        tokio::time::sleep(pause).await;
    }
}
