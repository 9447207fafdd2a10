//! What the answer to a request says of the session, besides what was asked.
//!
//! Each type of answer says so itself. The link (`wire::link`) credits each answer once. A resumption credits the write that it waits
//! for, because that goes out while there is no link.

use zklock_recipe::admission::AdmissionEvent;
use zklock_recipe::companion::CompanionEvent;
use zklock_recipe::{Event, Proof, Refusal, Report, SessionEnd};

/// An answer to a request. By default it says nothing of the session.
pub(crate) trait Evidence {
    /// What the answer proves. An error proves nothing: the server may have failed, throttled or not known the request before it
    /// asked anybody.
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

impl<T> Evidence for Acknowledged<T> {
    fn proof(&self) -> Proof {
        Proof::Quorum
    }
}

/// The leader has answered a sync.
pub(crate) struct Synced;

impl Evidence for Synced {
    fn proof(&self) -> Proof {
        Proof::Leader
    }
}

impl Evidence for Report {
    /// To create a contender is to write.
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

impl Evidence for AdmissionEvent {
    /// The transaction that moves a contender from the turnstile to the pool is a write.
    fn proof(&self) -> Proof {
        if let Self::Admitted(_) = self { Proof::Quorum } else { Proof::Nothing }
    }

    fn session_end(&self) -> Option<SessionEnd> {
        if let Self::SessionOver(end) = self { Some(*end) } else { None }
    }
}

impl Evidence for Event {
    fn session_end(&self) -> Option<SessionEnd> {
        if let Self::SessionOver(end) = self { Some(*end) } else { None }
    }
}

/// An event about one of several nodes.
impl Evidence for (usize, Event) {
    fn session_end(&self) -> Option<SessionEnd> {
        self.1.session_end()
    }
}

/// An event, and the watch that the request has set.
impl<W> Evidence for (Event, Option<W>) {
    fn session_end(&self) -> Option<SessionEnd> {
        self.0.session_end()
    }
}

impl<T: Evidence, E: Evidence> Evidence for Result<T, E> {
    fn proof(&self) -> Proof {
        self.as_ref().map_or(Proof::Nothing, Evidence::proof)
    }

    fn session_end(&self) -> Option<SessionEnd> {
        self.as_ref().map_or_else(Evidence::session_end, Evidence::session_end)
    }
}

impl<T> Evidence for Option<T> {}

impl<T> Evidence for Vec<T> {}

impl Evidence for () {}

impl Evidence for bool {}

impl Evidence for CompanionEvent {}

/// A node that may not be deleted.
impl Evidence for (String, Refusal) {}

#[cfg(test)]
mod tests {
    use zklock_recipe::{Kind, Own, QueuePlace, Sequence};

    use super::*;

    const END: SessionEnd = SessionEnd::Expired;

    fn says(answer: &impl Evidence) -> (Proof, Option<SessionEnd>) {
        (answer.proof(), answer.session_end())
    }

    #[test]
    fn only_what_a_quorum_or_the_leader_has_answered_proves_something() {
        let nothing = (Proof::Nothing, None);
        let over = (Proof::Nothing, Some(END));
        let own = Own { place: QueuePlace { sequence: Sequence(1), kind: Kind::Exclusive }, czxid: 7 };
        assert_eq!(says(&Acknowledged(())), (Proof::Quorum, None));
        assert_eq!(says(&Synced), (Proof::Leader, None));
        assert_eq!(says(&Ok::<_, Event>(Synced)), (Proof::Leader, None));
        assert_eq!(says(&Err::<Synced, _>(Event::Unanswered)), nothing);
        assert_eq!(says(&Err::<Acknowledged, _>(Event::OwnTouched)), nothing);
        assert_eq!(says(&Err::<bool, _>(Acknowledged(()))), nothing, "an error, whatever it holds");
        assert_eq!(says(&Some(Acknowledged(()))), nothing);
        assert_eq!(says(&Report::Entered(Vec::new())), (Proof::Quorum, None));
        for event in
            [Event::Unanswered, Event::Released(true), Event::OwnTouched, Event::Recovered(Some(own))]
        {
            assert_eq!(says(&event), nothing);
            for report in
                [Report::All(event.clone()), Report::One(0, event.clone()), Report::Failed(0, event)]
            {
                assert_eq!(says(&report), nothing, "{report:?}");
            }
        }
        let event = || Event::SessionOver(END);
        for report in [Report::All(event()), Report::One(0, event()), Report::Failed(0, event())] {
            assert_eq!(says(&report), over, "{report:?}");
        }
        assert_eq!(
            [says(&(event(), None::<()>)), says(&(3, event())), says(&Err::<(), _>(event()))],
            [over; 3]
        );
        for (event, says_so) in [
            (AdmissionEvent::Admitted(own), (Proof::Quorum, None)),
            (AdmissionEvent::OtherPool(own), nothing),
            (AdmissionEvent::Unanswered, nothing),
            (AdmissionEvent::SessionOver(END), over),
        ] {
            assert_eq!(says(&event), says_so, "{event:?}");
        }
    }
}
