//! The options of a [`Once`](crate::Once).

use crate::acquire::options::LockOptions;

/// How many records are kept by default.
const DEFAULT_KEEP: u16 = 100;

/// The most records that can be kept. A claim that drops a record reads all of them.
pub(super) const MOST_KEPT: u16 = 1_000;

/// Options of a [`Once`](crate::Once); give them to [`Once::with_options`](crate::Once::with_options).
///
/// ```
/// use zklock::{LockOptions, OnceOptions};
///
/// let options = OnceOptions::new().lock(LockOptions::new().owner("report@eu-1")).keep(400).retry(true);
/// # drop(options);
/// ```
#[derive(Clone, Debug)]
#[must_use = "options do nothing until they are given to `with_options`"]
pub struct OnceOptions {
    pub(super) lock: LockOptions,
    pub(super) keep: u16,
    pub(super) retry: bool,
}

impl OnceOptions {
    /// Makes the default options.
    pub fn new() -> Self {
        Self { lock: LockOptions::new(), keep: DEFAULT_KEEP, retry: false }
    }

    /// Sets the options of the lock. Its ACL is also that of the records and of their directory.
    pub fn lock(self, options: LockOptions) -> Self {
        Self { lock: options, ..self }
    }

    /// Sets how many records are kept: between 1 and 1,000. The default is 100. The claim that adds one record too many
    /// drops the one that began first. A run whose record was dropped can no longer be claimed; see
    /// [`ClaimError::Forgotten`](crate::once::ClaimError::Forgotten).
    ///
    /// Once more than 32 records were dropped, zklock remembers their names as 32 ranges of text: it joins those that
    /// are closest, but not around the run that begins. Of those that are equally close, it joins two without a record
    /// between them. A name between dropped ones may be in a range, although its run has not begun. A name that is
    /// greater than all others never is. Runs that a wrong clock ran far in the future are a range of their own:
    /// present runs may begin.
    ///
    /// Another run's begin may join the ranges around a run whose begin was taken back, because its claim was dropped.
    /// Then that run is refused as forgotten, although it has not begun.
    ///
    /// Give every contender the same number: each one drops the records that are too many for itself. One with a smaller number
    /// may drop the record of a run that has begun and has not ended. That run is refused as forgotten, too.
    pub fn keep(self, records: u16) -> Self {
        Self { keep: records, ..self }
    }

    /// Sets whether a run that has not succeeded may begin again: it failed, or began and never ended because its
    /// holder vanished. The default is false: then a run begins at most once. A run that has succeeded never begins again.
    ///
    /// A run that began and never ended may have done all of its work, or a part. So let the work bear a repetition, or
    /// let the store compare fencing tokens.
    pub fn retry(self, retry: bool) -> Self {
        Self { retry, ..self }
    }
}

impl Default for OnceOptions {
    fn default() -> Self {
        Self::new()
    }
}
