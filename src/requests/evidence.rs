//! What the answer to a request says of the session, besides what was asked.
//!
//! Each type that a request answers with says so itself. The link credits it once, whoever asked (`wire::link`); only
//! the write that a resumption waits for goes out while there is no link.

use zklock_recipe::admission::AdmissionEvent;
use zklock_recipe::companion::CompanionEvent;
use zklock_recipe::{Event, Proof, Refusal, Report, SessionEnd};

/// An answer to a request. By default it says nothing of the session.
pub(crate) trait Answer {
    /// What the answer proves. Only success proves something: the server may have failed, throttled or not known the request before
    /// it asked anybody.
    fn proof(&self) -> Proof {
        Proof::Nothing
    }

    /// How the session has ended, if the answer says so.
    fn session_end(&self) -> Option<SessionEnd> {
        None
    }
}

/// A quorum has acknowledged a write of the request, which came to this.
pub(crate) struct Acknowledged<T = ()>(pub(crate) T);

impl<T> Answer for Acknowledged<T> {
    fn proof(&self) -> Proof {
        Proof::Quorum
    }
}

/// The leader has answered a sync.
pub(crate) struct Synced;

impl Answer for Synced {
    fn proof(&self) -> Proof {
        Proof::Leader
    }
}

impl Answer for Report {
    /// The transaction that creates contenders is a write.
    fn proof(&self) -> Proof {
        match self {
            Self::Entered(_) => Proof::Quorum,
            Self::All(_) | Self::One(..) | Self::Failed(..) => Proof::Nothing,
        }
    }

    fn session_end(&self) -> Option<SessionEnd> {
        match self {
            Self::All(event) | Self::One(_, event) | Self::Failed(_, event) => event.session_end(),
            Self::Entered(_) => None,
        }
    }
}

impl Answer for AdmissionEvent {
    /// The transaction that moves a contender from the turnstile to the pool is a write.
    fn proof(&self) -> Proof {
        if let Self::Admitted(_) = self { Proof::Quorum } else { Proof::Nothing }
    }

    fn session_end(&self) -> Option<SessionEnd> {
        if let Self::SessionOver(end) = self { Some(*end) } else { None }
    }
}

impl Answer for Event {
    fn session_end(&self) -> Option<SessionEnd> {
        if let Self::SessionOver(end) = self { Some(*end) } else { None }
    }
}

/// An event about one of several nodes.
impl Answer for (usize, Event) {
    fn session_end(&self) -> Option<SessionEnd> {
        self.1.session_end()
    }
}

/// An event, and the watch that the request has set.
impl<W> Answer for (Event, Option<W>) {
    fn session_end(&self) -> Option<SessionEnd> {
        self.0.session_end()
    }
}

impl<T: Answer, E: Answer> Answer for Result<T, E> {
    fn proof(&self) -> Proof {
        self.as_ref().map_or(Proof::Nothing, Answer::proof)
    }

    fn session_end(&self) -> Option<SessionEnd> {
        self.as_ref().map_or_else(Answer::session_end, Answer::session_end)
    }
}

impl<T> Answer for Option<T> {}

impl<T> Answer for Vec<T> {}

impl Answer for () {}

impl Answer for bool {}

impl Answer for CompanionEvent {}

/// A node that may not be deleted.
impl Answer for (String, Refusal) {}
