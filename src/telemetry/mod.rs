//! What the library counts, the span of an acquisition, and the events of a hold. Without the feature `metrics`, counting is
//! nothing, and the compiler removes it.

#[cfg_attr(feature = "metrics", path = "recorded.rs")]
#[cfg_attr(not(feature = "metrics"), path = "silent.rs")]
mod counts;
mod events;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::field::Empty;
use tracing::{Instrument, info_span};

pub(crate) use counts::{Hold, describe, lease_remaining};
pub(crate) use events::{CallersTurn, HeldPath, tells_of_holds};

/// The name that the user gives to what is acquired. Metrics have no other label for it.
pub(crate) type Name = Option<Arc<str>>;

#[derive(Clone, Copy)]
pub(crate) enum FamilyMember {
    Lock,
    Reader,
    Several,
    Key,
    Election,
    Semaphore,
    Slots,
    Once,
}

impl FamilyMember {
    pub(crate) fn text(self) -> &'static str {
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

/// What an acquisition gets.
pub(crate) trait Acquired {
    /// Tells that the caller has it, as this member, after it has waited for so long.
    fn granted(&self, member: FamilyMember, waited: Duration);

    /// From here on, the process ends if what the caller has is lost before the caller lets go of it.
    fn fail_stop(&self);
}

/// Awaits one acquisition of what has this path, in its span, counts it, and tells of the hold that it gets. The fields of the
/// span are public: the documentation of `inspect` lists them. The acquisition is pinned: each future around it would have its size twice.
/// If it `waits`, finding nothing is a timeout.
pub(crate) async fn acquisition<T: Acquired, E>(
    member: FamilyMember,
    name: &Name,
    path: impl fmt::Display,
    wait: impl fmt::Display,
    waits: bool,
    acquisition: Pin<&mut impl Future<Output = Result<Option<T>, E>>>,
) -> Result<Option<T>, E> {
    let span = info_span!(
        "zklock.acquire",
        member = member.text(),
        path = %path,
        name = name.as_deref(),
        wait = %wait,
        outcome = Empty
    );
    let told = span.clone();
    let waiter = counts::Waiter::new(name, matches!(member, FamilyMember::Election));
    let began = tells_of_holds().then(Instant::now);
    async {
        let acquired = acquisition.await;
        let outcome = match (&acquired, waits) {
            (Ok(Some(acquired)), _) => {
                waiter.granted();
                if let Some(began) = began {
                    acquired.granted(member, began.elapsed());
                }
                "granted"
            }
            (Ok(None), false) => "busy",
            (Ok(None), true) => {
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
