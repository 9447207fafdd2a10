//! Errors of pools: why one cannot be made, and why nothing of it was acquired.

use zklock_recipe::{OtherKind, Stock, Wish};

use crate::error::{AcquireError, InvalidLock};

/// Why a [`Semaphore`](crate::Semaphore) or [`Slots`](crate::Slots) cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidPool {
    /// The path or an option is wrong, as for any lock.
    #[error(transparent)]
    Lock(#[from] InvalidLock),
    /// The capacity of the semaphore, or the number of slots, is 0.
    #[error("the capacity, or the number of slots, of {path} is 0; state 1 or more")]
    Nothing {
        /// The path that the caller gave.
        path: String,
    },
    /// The number of slots is larger than zklock allows at one path. Each acquisition lists all slots that are held.
    #[error("{count} slots at {path} are too many; state {largest} at most, or use several paths")]
    TooManySlots {
        /// The path that the caller gave.
        path: String,
        /// The number of slots that the caller stated.
        count: u32,
        /// The largest number of slots.
        largest: u32,
    },
}

/// Why no permit or slot was acquired, or why the capacity or the number of slots was not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// Nothing was acquired or changed, for a reason that every acquisition can meet.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// The semaphore has another capacity than this process states. The very first acquisition sets the capacity, and
    /// [`Semaphore::set_capacity`](crate::Semaphore::set_capacity) changes it.
    #[error(
        "the semaphore at {path} has a capacity of {found}, but this process states {stated}; state the same capacity \
         in all processes, or change it with `set_capacity`"
    )]
    Capacity {
        /// The semaphore's path.
        path: String,
        /// The capacity that this process states.
        stated: u32,
        /// The capacity that the semaphore has.
        found: u32,
    },
    /// The path has another number of slots than this process states. The very first acquisition sets the number, and
    /// [`Slots::set_count`](crate::Slots::set_count) changes it.
    #[error(
        "{path} has {found} slot{}, but this process states {stated}; state the same number in all processes, or change \
         it with `set_count`",
        plural(*found)
    )]
    Count {
        /// The path of the slots.
        path: String,
        /// The number of slots that this process states.
        stated: u32,
        /// The number of slots that the path has.
        found: u32,
    },
    /// The weight is zero, or larger than the capacity of the semaphore. Such a permit would never be granted.
    #[error(
        "no permit of {path} can have the weight {weight}, because the capacity is {capacity}; ask for a weight from 1 \
         to {capacity}"
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
    #[error("{path} has no slot {index}, because it has {count} slot{}; prefer an index below {count}", plural(*count))]
    Index {
        /// The path of the slots.
        path: String,
        /// The index that the caller preferred.
        index: u32,
        /// The number of slots.
        count: u32,
    },
    /// A semaphore cannot have this capacity, or slots cannot have this number.
    #[error(
        "{path} cannot have a capacity, or a number of slots, of {asked}; state a number from 1 to {largest}"
    )]
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
        "{directory} has permits and slots at the same time, because somebody changed its data by hand; change the \
         data back, or wait until all holders of the other kind have released"
    )]
    Mixed {
        /// The path of the directory.
        directory: String,
    },
}

/// The end of the noun behind this number.
fn plural(number: u32) -> &'static str {
    if number == 1 { "" } else { "s" }
}

impl PoolError {
    pub(super) fn other_stock(path: String, found: Stock, stated: Stock) -> Self {
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

    /// Returns true if only a new session can help, because this one is over.
    pub fn needs_new_session(&self) -> bool {
        matches!(self, Self::Acquire(error) if error.needs_new_session())
    }
}
