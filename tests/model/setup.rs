//! What a model consists of, what may go wrong in it, and which rule of the world or of the machine is broken on purpose.

use zklock::recipe::{Look, Patience, Takeover};

use crate::mutant::Mutant;

/// What a model consists of, and how much may go wrong in it.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// Each contender's session, and whether it waits.
    pub(crate) contenders: Vec<(usize, Patience)>,
    pub(crate) takeover: Takeover,
    pub(crate) looks: Vec<Look>,
    /// Whether the directory is there from the beginning.
    pub(crate) directory: bool,
    pub(crate) settling: bool,
    pub(crate) giving_up: bool,
    pub(crate) faults: Faults,
    pub(crate) flaw: Option<Flaw>,
    pub(crate) mutant: Option<Mutant>,
}

/// How often each may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Faults {
    pub(crate) breaks: u8,
    /// Lapses of a lease.
    pub(crate) lapses: u8,
    pub(crate) expiries: u8,
    pub(crate) closings: u8,
    /// Removals of the empty directory.
    pub(crate) reaps: u8,
    /// Nodes that an operator deletes or writes to.
    pub(crate) meddlings: u8,
}

/// A rule of the world that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// The server expires a session whose lease is still valid.
    LeaseIsTooLong,
    /// Watches are not set again after a reconnection.
    WatchesAreForgotten,
    /// What was sent on a broken connection can be applied after the session has moved to another one.
    OldConnectionLingers,
    /// The read that goes out with a create is answered from before it.
    ReadOvertakesCreate,
}
