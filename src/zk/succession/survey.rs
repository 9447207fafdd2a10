//! Establishes new ZooKeeper sessions. The servers' tick comes first, because leases are computed with it: zklock asks for the tick,
//! and for the session timeouts that servers grant.

use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use futures::future::{Either, join_all, select, try_join};
use futures::stream::FuturesUnordered;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{debug, warn};
use zklock_recipe::{Lengths, Reckoning};
use zookeeper_client::Error;

use crate::wire::dialer::{Dialer, Established, Refused};
use crate::wire::error::ConnectError;
use crate::wire::servers::{Server, ServerSettings};

/// A session timeout that is shorter than two ticks, for every tick above half a second. zookeeper-client waits no
/// longer for its answer than the session timeout that it asks for, so this cannot be much shorter.
const SHORT: Duration = Duration::from_secs(1);

/// A session timeout that is longer than twenty ticks, for every tick below three minutes.
const LONG: Duration = Duration::from_secs(3600);

/// The shortest session timeout that a server with default limits grants, in ticks
/// (`ZooKeeperServer.getMinSessionTimeout`).
const LEAST_TICKS: u32 = 2;

/// The longest session timeout that a server with default limits grants, in ticks.
const MOST_TICKS: u32 = 20;

/// How long a server has for its answer to a four-letter word before zklock probes it as well: a firewall or a proxy may swallow
/// words. A server that does not know the word says so at once.
const HEDGE: Duration = Duration::from_millis(150);

/// How long the other servers have for their answers once the first one has answered.
const GRACE: Duration = Duration::from_secs(1);

/// Asks each server for a new session, once.
pub(crate) async fn establish(dialer: &Dialer) -> Result<Established, Refused> {
    if dialer.tick.lock().is_some() {
        return dialer.dial().await;
    }
    let tick = tick(dialer).await?;
    *dialer.tick.lock() = Some(tick);
    let established = dialer.dial().await;
    if established.is_err() {
        // Before the next attempt, a server with a longer tick may be there.
        *dialer.tick.lock() = None;
    }
    established
}

/// What is known of a server's tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tick {
    /// The tick is known: both limits follow from it, or the server said so.
    Known(Duration),
    /// One limit or both were set by hand. If one of them is the default, the tick is one of these two.
    Between { shorter: Duration, longer: Duration },
}

impl Tick {
    /// Combines what two servers say: the longer tick counts, unless one server knows its tick and so decides which of
    /// the other's two ticks is right.
    fn with(self, other: Self) -> Self {
        match (self, other) {
            (Self::Known(one), Self::Known(another)) => {
                if one != another {
                    warn!(?one, ?another, "the servers have different ticks; zklock takes the longest one");
                }
                Self::Known(one.max(another))
            }
            (Self::Known(known), Self::Between { shorter, longer })
            | (Self::Between { shorter, longer }, Self::Known(known)) => {
                if known == shorter || known >= longer {
                    Self::Known(known)
                } else {
                    Self::Between { shorter: known, longer }
                }
            }
            (Self::Between { longer: one, .. }, Self::Between { longer: another, .. }) => {
                if one >= another {
                    self
                } else {
                    other
                }
            }
        }
    }
}

/// Learns the servers' tick: the longest one of the servers that answer soon. A tick that is longer than the true one
/// makes leases shorter. A tick that is shorter makes them unsound.
pub(crate) async fn tick(dialer: &Dialer) -> Result<Duration, Refused> {
    let mut asked = dialer.servers.iter().map(|server| ask(dialer, server)).collect::<FuturesUnordered<_>>();
    let mut tick = None::<Tick>;
    let mut last = dialer.unreachable();
    let mut others = None;
    let mut answered = 0;
    loop {
        let answer = match others {
            None => asked.next().await,
            Some(until) => timeout_at(until, asked.next()).await.ok().flatten(),
        };
        match answer {
            Some(Ok(another)) => {
                tick = Some(tick.map_or(another, |tick| tick.with(another)));
                others.get_or_insert_with(|| Instant::now() + GRACE);
            }
            Some(Err(Error::Timeout | Error::NoHosts | Error::ConnectionLoss)) => continue,
            Some(Err(error)) => {
                last = dialer.failure(error);
                *dialer.refusal.lock() = Some(last.clone());
            }
            None => break,
        }
        answered += 1;
    }
    let unanimous = answered == dialer.servers.iter().count();
    match tick.ok_or(Refused { error: last, unanimous })? {
        Tick::Known(tick) => Ok(tick),
        Tick::Between { shorter, longer } => {
            Lengths::new(dialer.timeout, &Reckoning { tick: longer, ..dialer.reckoning() })
                .map_err(|_| Refused { error: ConnectError::TickUnknown { shorter, longer }, unanimous })?;
            warn!(?shorter, ?longer, "the servers' limits fit two ticks; zklock takes the longer one");
            Ok(longer)
        }
    }
}

async fn ask(dialer: &Dialer, server: &Server) -> Result<Tick, Error> {
    let told = async { Some(Tick::Known(settings(dialer, server).await?.tick)) };
    let probed = async {
        let (short, long) = try_join(dialer.probe(server, SHORT), dialer.probe(server, LONG)).await?;
        Ok(infer(short, long))
    };
    hedge(told, probed).await
}

/// Returns what a server says, or what probes find. The probes begin once the server says nothing, or has not answered within
/// [`HEDGE`]. The first answer counts; if the probes fail, an answer that comes later counts, too.
async fn hedge<T>(
    told: impl Future<Output = Option<T>>,
    probed: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let mut told = pin!(told);
    match timeout(HEDGE, told.as_mut()).await {
        Ok(Some(answer)) => return Ok(answer),
        Ok(None) => return probed.await,
        Err(_) => {}
    }
    match select(told, pin!(probed)).await {
        Either::Left((Some(answer), _)) | Either::Right((Ok(answer), _)) => Ok(answer),
        Either::Left((None, probed)) => probed.await,
        Either::Right((Err(error), told)) => told.await.ok_or(error),
    }
}

/// Infers the tick from what a server granted when it was asked for [`SHORT`] and for [`LONG`].
fn infer(short: Duration, long: Duration) -> Tick {
    let by_short = short / LEAST_TICKS;
    let by_long = long / MOST_TICKS;
    if by_short == by_long {
        return Tick::Known(by_long);
    }
    // If two ticks are less than `SHORT`, the server granted `SHORT` itself. Then half of `SHORT` is the longest tick
    // that the server can have, if its lower limit is the default.
    Tick::Between { shorter: by_short.min(by_long), longer: by_short.max(by_long) }
}

/// Learns which session timeout each server grants, so that the session can go there at once. zklock asks a server that
/// does not answer now before the session goes there ([`Dialer::least_grant`]).
pub(crate) async fn grants(dialer: &Dialer) {
    let ask = async |server: &Server| {
        server.resolve().await;
        let told = async {
            let settings = settings(dialer, server).await?;
            let reckoned = dialer.reckoning().tick;
            if settings.tick > reckoned {
                warn!(tick = ?settings.tick, ?reckoned, "a server has a longer tick than zklock computes leases with; set `tick`");
            }
            Some(dialer.timeout.clamp(settings.shortest, settings.longest.max(settings.shortest)))
        };
        match hedge(told, dialer.probe(server, dialer.timeout)).await {
            Ok(granted) => server.learn(granted),
            Err(error) => debug!(%error, "a server does not say which session timeout it grants"),
        }
    };
    join_all(dialer.servers.iter().map(ask)).await;
}

async fn settings(dialer: &Dialer, server: &Server) -> Option<ServerSettings> {
    timeout(dialer.silence(), server.settings()).await.ok().flatten()
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio::time::sleep;

    use super::*;

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    fn known(tick: u64) -> Tick {
        Tick::Known(ms(tick))
    }

    fn between(shorter: u64, longer: u64) -> Tick {
        Tick::Between { shorter: ms(shorter), longer: ms(longer) }
    }

    #[test]
    fn default_limits_tell_the_tick() {
        for tick in [500, 501, 2_000, 5_000, 180_000] {
            assert_eq!(infer(ms(2 * tick).max(SHORT), ms(20 * tick)), known(tick));
        }
    }

    #[test]
    fn other_limits_leave_two_ticks() {
        for (short, long, tick) in [
            // What is granted as it was asked for: ticks of 100 ms, or of half a second and a longest session timeout of two.
            (SHORT, ms(2_000), between(100, 500)),
            // A tick of 2 s, and a longest session timeout of ten minutes.
            (ms(4_000), ms(600_000), between(2_000, 30_000)),
            // A tick of 2 s, and a shortest session timeout below a second.
            (SHORT, ms(40_000), between(500, 2_000)),
            // As long as what was asked for, or longer.
            (ms(4_000), LONG, between(2_000, 180_000)),
        ] {
            assert_eq!(infer(short, long), tick, "{short:?} {long:?}");
        }
    }

    #[tokio::test]
    async fn the_first_answer_counts_and_probes_begin_if_words_are_not_answered_soon() {
        async fn late<T>(answer: T) -> T {
            sleep(2 * HEDGE).await;
            answer
        }
        let told = Some(1);
        let silent = None::<u32>;
        let found = Ok(2);
        let failed = Err(Error::Timeout);
        assert_eq!(hedge(ready(told), pending()).await, Ok(1));
        assert_eq!(hedge(late(told), pending()).await, Ok(1));
        assert_eq!(hedge(late(told), ready(failed.clone())).await, Ok(1));
        assert_eq!(hedge(ready(silent), ready(found.clone())).await, found);
        assert_eq!(hedge(pending(), ready(found.clone())).await, found);
        assert_eq!(hedge(late(silent), late(found.clone())).await, found);
        assert_eq!(hedge(late(silent), ready(failed.clone())).await, failed);
    }

    #[test]
    fn servers_that_differ_have_the_longest_tick() {
        for (one, another, both) in [
            (known(2_000), known(2_000), known(2_000)),
            (known(2_000), known(3_000), known(3_000)),
            // One of them has a limit that was set by hand.
            (known(2_000), between(2_000, 30_000), known(2_000)),
            (known(2_000), between(500, 2_000), known(2_000)),
            (known(2_000), between(500, 1_000), known(2_000)),
            (known(2_000), between(1_000, 3_000), between(2_000, 3_000)),
            (between(500, 2_000), between(1_000, 3_000), between(1_000, 3_000)),
        ] {
            assert_eq!((one.with(another), another.with(one)), (both, both), "{one:?} {another:?}");
        }
    }
}
