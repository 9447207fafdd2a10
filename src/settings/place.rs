//! The place of a waiter in its queue, and where its caller reads it.

use tokio::sync::watch;

/// How many contenders are in front of a waiter; see [`LockOptions::places`](crate::LockOptions::places).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Place {
    /// The path of the lock, of the election, of the semaphore or of the slots.
    pub path: String,
    /// How many contenders, as of the last listing, must go before it is this one's turn. For a reader these are the writers in front.
    /// A waiter for a permit or a slot with none in front is the next, and waits for room.
    pub ahead: usize,
    /// Whether the contenders were listed. If not, they were counted: then something else in the lock's directory counts, too, so
    /// fewer may be ahead.
    pub is_listed: bool,
}

/// Where the caller of an acquisition reads its place.
pub(crate) type Places = watch::Sender<Option<Place>>;
