//! Errors of semaphores and slots: why no permit, and no slot, was acquired.

use zklock_recipe::{OtherKind, Stock, Wish};

use crate::lock::error::AcquireError;

/// Why a permit of a [`Semaphore`](crate::Semaphore), or one of several [`Slots`](crate::Slots), was not acquired. zklock
/// removes the acquisition's nodes in the background, unless the server refuses that.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SemaphoreError {
    /// The acquisition could not queue, or a request was refused. The path in this error is that of the turnstile, the
    /// lock at `PATH/queue`, or the path itself.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// The semaphore has another capacity than this process states. The first acquisition of all sets the capacity, and
    /// [`Semaphore::set_capacity`](crate::Semaphore::set_capacity) changes it.
    #[error(
        "the semaphore at {path} has a capacity of {found}, and this process states {stated}; let all processes state the \
         same capacity, or change it with `set_capacity`"
    )]
    Capacity {
        /// The semaphore's path.
        path: String,
        /// The capacity that this process states.
        stated: u32,
        /// The capacity that the semaphore has.
        found: u32,
    },
    /// Another number of slots is there than this process states. The first claim of all sets the number, and
    /// [`Slots::set_count`](crate::Slots::set_count) changes it.
    #[error(
        "{found} slots are at {path}, and this process states {stated}; let all processes state the same number, or \
         change it with `set_count`"
    )]
    Count {
        /// The path of the slots.
        path: String,
        /// The number of slots that this process states.
        stated: u32,
        /// The number of slots that are there.
        found: u32,
    },
    /// The weight is zero, or more than the semaphore has. It would never be granted.
    #[error(
        "a permit of weight {weight} cannot be had at {path}, which has a capacity of {capacity}; ask for a weight from 1 to \
         that"
    )]
    Weight {
        /// The semaphore's path.
        path: String,
        /// The weight that the caller asked for.
        weight: u32,
        /// The capacity of the semaphore.
        capacity: u32,
    },
    /// The preferred index does not exist.
    #[error("there is no slot {index} at {path}, which has {count}; prefer an index below that")]
    Index {
        /// The path of the slots.
        path: String,
        /// The index that the caller preferred.
        index: u32,
        /// The number of slots.
        count: u32,
    },
    /// The number is not one that a semaphore or slots can have.
    #[error("{path} cannot have {asked} of them; state a number from 1 to {largest}")]
    Number {
        /// The path of the semaphore or the slots.
        path: String,
        /// The number that the caller asked for.
        asked: u32,
        /// The largest number.
        largest: u32,
    },
    /// The directory of permits has data that this version of zklock does not know.
    #[error(
        "{directory} has data that this version of zklock does not know; use another path, or delete that node while \
         nobody holds a permit"
    )]
    UnknownData {
        /// The path of the directory.
        directory: String,
    },
    /// The directory has permits and slots at the same time: somebody has changed its data by hand.
    #[error(
        "{directory} has permits and slots at the same time, because somebody changed its data by hand; change it back, or \
         wait until those of the other kind are gone"
    )]
    Mixed {
        /// The path of the directory.
        directory: String,
    },
}

impl SemaphoreError {
    /// A pool has something else than this process states.
    pub(super) fn other(path: String, found: Stock, stated: Stock) -> Self {
        match (found, stated) {
            (Stock::Permits(found), Stock::Permits(stated)) => Self::Capacity { path, stated, found },
            (Stock::Slots(found), Stock::Slots(stated)) => Self::Count { path, stated, found },
            (Stock::Permits(_), Stock::Slots(_)) | (Stock::Slots(_), Stock::Permits(_)) => {
                let other = OtherKind { found: found.into(), at: path.clone() };
                AcquireError::other_kind(path, stated.into(), other).into()
            }
        }
    }

    /// A wish is for more than the pool has.
    pub(super) fn too_large(path: String, wish: Wish, found: Stock) -> Self {
        let (Stock::Permits(stock) | Stock::Slots(stock)) = found;
        match wish {
            Wish::Permit(weight) => Self::Weight { path, weight, capacity: stock },
            Wish::Slot(index) => Self::Index { path, index: index.unwrap_or_default(), count: stock },
        }
    }

    /// Returns true if the same call may succeed later with nothing changed by hand; see [`AcquireError::is_retryable`].
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Acquire(error) if error.is_retryable())
    }

    /// Returns true if the session is over, so that only a new session can help.
    pub fn is_session_over(&self) -> bool {
        matches!(self, Self::Acquire(error) if error.is_session_over())
    }
}
