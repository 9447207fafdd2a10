//! What the library counts, and the span of an acquisition. Without the feature `metrics`, counting is nothing, and the compiler
//! removes it.

#[cfg_attr(feature = "metrics", path = "recorded.rs")]
#[cfg_attr(not(feature = "metrics"), path = "silent.rs")]
mod counts;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tracing::field::Empty;
use tracing::{Instrument, info_span};

pub(crate) use counts::{Hold, describe, lease_remaining};

/// The name that the user gives to what is acquired. Metrics have no other label for it.
pub(crate) type Name = Option<Arc<str>>;

/// What is acquired.
#[derive(Clone, Copy)]
pub(crate) enum Member {
    Lock,
    Reader,
    Several,
    Key,
    Election,
    Semaphore,
    Slots,
    Once,
}

impl Member {
    fn text(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Reader => "reader",
            Self::Several => "several",
            Self::Key => "key",
            Self::Election => "election",
            Self::Semaphore => "semaphore",
            Self::Slots => "slots",
            Self::Once => "once",
        }
    }
}

/// How long an acquisition waits for others.
#[derive(Clone, Copy)]
pub(crate) enum Waits {
    ForEver,
    For(Duration),
    Never,
}

impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ForEver => f.write_str("forever"),
            Self::For(time) => write!(f, "{time:.1?}"),
            Self::Never => f.write_str("never"),
        }
    }
}

/// Awaits one acquisition of what has this path, in its span, and counts it. The fields of the span are public: the crate's
/// documentation lists them. The acquisition is pinned: each future around it would have its size twice.
pub(crate) async fn acquisition<T, E>(
    member: Member,
    name: &Name,
    path: impl fmt::Display,
    waits: Waits,
    acquisition: Pin<&mut impl Future<Output = Result<Option<T>, E>>>,
) -> Result<Option<T>, E> {
    let span = info_span!(
        "zklock.acquire",
        member = member.text(),
        path = %path,
        name = name.as_deref(),
        wait = %waits,
        outcome = Empty
    );
    let told = span.clone();
    let waiter = counts::Waiter::new(name, matches!(member, Member::Election));
    async {
        let acquired = acquisition.await;
        let outcome = match (&acquired, waits) {
            (Ok(Some(_)), _) => {
                waiter.granted();
                "granted"
            }
            (Ok(None), Waits::Never) => "busy",
            (Ok(None), Waits::For(_) | Waits::ForEver) => {
                waiter.timed_out();
                "timeout"
            }
            (Err(_), _) => "error",
        };
        told.record("outcome", outcome);
        acquired
    }
    .instrument(span)
    .await
}
