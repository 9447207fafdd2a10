//! What a caller may choose of a lock.

use std::time::Duration;

use zklock_recipe::Lengths;

use super::error::InvalidLock;
use crate::acl::Acl;
use crate::path::LockPath;
use crate::settings::{Hints, Settings};

/// The longest owner text, in bytes.
const LONGEST_OWNER: usize = 256;

/// The longest extra data, in bytes.
const LONGEST_DATA: usize = 16 * 1024;

/// Options of a lock; see [`Session::lock_with`](crate::Session::lock_with).
///
/// ```
/// use zklock::{Acl, LockOptions};
///
/// let options = LockOptions::new().owner("billing@eu-1").data("build 4711").acl(Acl::creator_only());
/// # drop(options);
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "options do nothing until they are given to `Session::lock_with`"]
pub struct LockOptions {
    owner: Option<String>,
    data: Option<String>,
    acl: Acl,
    ancestors_acl: Acl,
    stop_margin: Duration,
    takeover_delay: Duration,
}

impl LockOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Who contends, in free text of up to 256 bytes, for operators. The default is `host:pid`.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Extra data for each contender's node, up to 16 KiB. The default is none.
    pub fn data(mut self, data: impl Into<String>) -> Self {
        self.data = Some(data.into());
        self
    }

    /// The ACL of the contenders' nodes, and of the lock's directory if it is created. The default is
    /// [`Acl::open`].
    pub fn acl(mut self, acl: Acl) -> Self {
        self.acl = acl;
        self
    }

    /// The ACL of the directory's ancestors if they are created. The default is [`Acl::open`].
    pub fn ancestors_acl(mut self, acl: Acl) -> Self {
        self.ancestors_acl = acl;
        self
    }

    /// How long before the guard's end [`Guard::lost`](crate::Guard::lost) and [`Guard::run`](crate::Guard::run) tell of it: time to wind down while the lock
    /// is still held. The default is zero.
    ///
    /// The guard's end is fixed from then on, even if ZooKeeper is heard of again. A loss that nobody foresees (an
    /// operator's deletion, the end of the ZooKeeper session) leaves no such time.
    ///
    /// A lease lasts a session timeout, less what it takes for the ensemble to confirm it, so there is a longest stop
    /// margin: 2.2 seconds with the default session timeout of 10 seconds and tick of 2 seconds, 6 seconds with a session
    /// timeout of 24. [`Session::lock_with`](crate::Session::lock_with) refuses a longer one. Should the servers grant a
    /// shorter session timeout later on, the margin is cut to what that allows.
    pub fn stop_margin(mut self, margin: Duration) -> Self {
        self.stop_margin = margin;
        self
    }

    /// How long a waiter whose predecessor vanished, rather than released the lock, waits before it is granted:
    /// Chubby's and Consul's lock-delay. The default is zero. Set it for every contender: each observes its own.
    ///
    /// It covers, for waiters that are in the queue already:
    ///
    /// * what the last holder has in flight when it dies or loses the lock (a request on its way to a store that
    ///   knows no fencing tokens), if that has arrived by then;
    /// * an operator who deletes the holder's node, or closes its session: the holder is told within a round trip, and
    ///   40 ms if it has just been granted. With a delay of the session timeout or more this holds for a holder that
    ///   is cut off at that moment, too;
    /// * an operator who deletes a waiter's node: a waiter that has a delay asks a quorum for its node before it takes a
    ///   release for its own grant. That costs it a round trip.
    ///
    /// It does not cover a contender that comes to the queue after the holder vanished, or a few round trips before, and
    /// finds nobody there; nor a process that is paused for longer; nor an operator who writes to the holder's node and deletes
    /// it in one transaction, as a holder does, or who has forbidden the holder to read it.
    ///
    /// Closing a session whose guards are not released counts as vanishing, and so does dropping a guard that was lost.
    /// So does what may have gone unseen while the connection was lost, or until the next ZooKeeper session was there.
    /// [`try_acquire`](crate::Lock::try_acquire) never waits.
    pub fn takeover_delay(mut self, delay: Duration) -> Self {
        self.takeover_delay = delay;
        self
    }

    /// The settings of the lock at `path`, if these options can be in a session with these lengths.
    pub(super) fn settings(self, path: LockPath, lengths: Lengths) -> Result<Settings, InvalidLock> {
        let (stop_margin, longest) = (self.stop_margin, lengths.longest_stop_margin());
        if stop_margin > longest {
            let (path, timeout) = (path.to_string(), lengths.timeout);
            return Err(InvalidLock::StopMargin { path, stop_margin, longest, timeout });
        }
        let checked = |option: &'static str, text: &str, longest: usize| {
            (text.len() <= longest).then_some(()).ok_or_else(|| InvalidLock::TooLong {
                path: path.to_string(),
                option,
                length: text.len(),
                longest,
            })
        };
        let owner = self.owner.unwrap_or_else(default_owner);
        checked("owner", &owner, LONGEST_OWNER)?;
        checked("data", self.data.as_deref().unwrap_or_default(), LONGEST_DATA)?;
        Ok(Settings {
            path,
            owner,
            data: self.data,
            acl: self.acl,
            ancestors_acl: self.ancestors_acl,
            stop_margin: self.stop_margin,
            takeover_delay: self.takeover_delay,
            hints: Hints::default(),
        })
    }
}

/// `host:pid`, by which an operator finds the process.
fn default_owner() -> String {
    let host = rustix::system::uname();
    format!("{}:{}", host.nodename().to_string_lossy(), std::process::id())
}
