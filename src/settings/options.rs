//! Options of a lock that were checked.

use std::time::Duration;

use crate::acl::Acl;
use crate::telemetry::Name;

use super::Places;

/// Options of a lock that its session allows.
#[derive(Clone)]
pub(crate) struct CheckedOptions {
    /// The name by which metrics and spans know the lock.
    pub(crate) label: Name,
    pub(crate) owner: String,
    pub(crate) data: Option<String>,
    /// How many bytes a contender writes to its node at most.
    pub(crate) longest_node: usize,
    pub(crate) acl: Acl,
    pub(crate) ancestors_acl: Acl,
    /// Whether the chroot is created with the directory.
    pub(crate) creates_chroot: bool,
    pub(crate) stop_margin: Duration,
    pub(crate) takeover_delay: Duration,
    /// For how long a guard is valid at most.
    pub(crate) max_hold: Option<Duration>,
    /// Whether the process ends if a caller keeps a guard that is lost.
    pub(crate) fail_stop: bool,
    /// Where the caller reads the places of its waiters.
    pub(crate) places: Option<Places>,
}

impl CheckedOptions {
    /// The same options for the turnstile of a pool. The turnstile protects nothing: if a predecessor there has a transaction in flight,
    /// that transaction fails without the predecessor's node.
    pub(crate) fn of_turnstile(&self) -> Self {
        Self { takeover_delay: Duration::ZERO, stop_margin: Duration::ZERO, max_hold: None, ..self.clone() }
    }
}
