//! What all acquisitions of a lock share: its options, and what they have seen of its directory.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

use zklock_recipe::Look;

use crate::acl::Acl;
use crate::path::LockPath;

/// The longest queue that a contender lists as it enters. A longer queue is counted.
const SHORT_QUEUE: usize = 32;

/// What all acquisitions of a lock share.
pub(crate) struct Settings {
    pub(crate) path: LockPath,
    pub(crate) owner: String,
    pub(crate) data: Option<String>,
    pub(crate) acl: Acl,
    pub(crate) ancestors_acl: Acl,
    pub(crate) stop_margin: Duration,
    pub(crate) takeover_delay: Duration,
    pub(crate) hints: Hints,
}

/// What the acquisitions of a lock last saw of its directory.
#[derive(Debug)]
pub(crate) struct Hints {
    /// How many children the directory had.
    queue: AtomicUsize,
    /// Whether zklock may write to the directory: one of [`UNKNOWN`], [`OURS`], [`FOREIGN`].
    directory: AtomicU8,
}

impl Default for Hints {
    fn default() -> Self {
        Self { queue: AtomicUsize::new(usize::MAX), directory: AtomicU8::new(UNKNOWN) }
    }
}

/// Nothing is known about the directory's data.
const UNKNOWN: u8 = 0;
/// The directory has no data, so that writing none to it changes nothing.
const OURS: u8 = 1;
/// The directory has somebody's data, or its ACL forbids writing.
const FOREIGN: u8 = 2;

impl Hints {
    /// Remembers how long the queue was. This is only a hint: a wrong one costs one request.
    pub(crate) fn saw_queue(&self, length: usize) {
        self.queue.store(length, Ordering::Relaxed);
    }

    /// Remembers whether the directory had no data. A directory that was foreign once stays foreign.
    pub(crate) fn saw_directory(&self, blank: bool) {
        if blank {
            let _known = self.directory.compare_exchange(UNKNOWN, OURS, Ordering::Relaxed, Ordering::Relaxed);
        } else {
            self.must_not_write_directory();
        }
    }

    /// Whether writing nothing to the directory certainly changes nothing.
    pub(crate) fn may_write_directory(&self) -> bool {
        self.directory.load(Ordering::Relaxed) == OURS
    }

    /// Remembers that the directory's data is somebody's, or that its ACL forbids writing.
    pub(crate) fn must_not_write_directory(&self) {
        self.directory.store(FOREIGN, Ordering::Relaxed);
    }

    /// Chooses how to look at the queue. Where zklock may write to the directory, counting takes one request, and a
    /// listing takes a second one.
    pub(crate) fn look(&self) -> Look {
        let short = self.queue.load(Ordering::Relaxed) <= SHORT_QUEUE;
        if short && !self.may_write_directory() { Look::List } else { Look::Count }
    }
}
