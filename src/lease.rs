//! How long this session's nodes certainly exist: what a guard's validity rests on.
//!
//! For now the lease is as coarse as the connection: it is valid while the client is connected, and lapses when
//! the client notices that it is not. A server that is cut off from its ensemble goes on answering its clients,
//! so in that case it lapses too late; see the crate's documentation.

use crate::recipe::SessionEnd;

/// Why a lease is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lapse {
    /// The connection was lost; the session may come back.
    Disconnected,
    /// The session is over.
    Ended(SessionEnd),
}

/// One uninterrupted stretch of validity. A guard belongs to the term it was granted in, so that a lease
/// which becomes valid again revives no guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Term(u64);

/// The lease of one ZooKeeper session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    term: Term,
    lapse: Option<Lapse>,
}

impl Lease {
    /// The lease of a session that was just established.
    pub(crate) fn new() -> Self {
        Self { term: Term(0), lapse: None }
    }

    /// The connection was lost.
    pub(crate) fn disconnected(&mut self) {
        self.lapse.get_or_insert(Lapse::Disconnected);
    }

    /// The session was resumed on a new connection, which its leader has validated.
    pub(crate) fn reconnected(&mut self) {
        if self.lapse == Some(Lapse::Disconnected) {
            self.lapse = None;
            self.term.0 += 1;
        }
    }

    /// The session is over, for good.
    pub(crate) fn ended(&mut self, end: SessionEnd) {
        if !matches!(self.lapse, Some(Lapse::Ended(_))) {
            self.lapse = Some(Lapse::Ended(end));
        }
    }

    /// The present term, or why there is none.
    pub(crate) fn term(&self) -> Result<Term, Lapse> {
        self.lapse.map_or(Ok(self.term), Err)
    }

    /// Whether `term` still lasts, or why it does not.
    pub(crate) fn check(&self, term: Term) -> Result<(), Lapse> {
        match self.term() {
            Ok(present) if present == term => Ok(()),
            Ok(_) => Err(Lapse::Disconnected),
            Err(lapse) => Err(lapse),
        }
    }

    /// How the session ended, if it has.
    pub(crate) fn end(&self) -> Option<SessionEnd> {
        match self.lapse {
            Some(Lapse::Ended(end)) => Some(end),
            Some(Lapse::Disconnected) | None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_lease_is_valid() {
        let lease = Lease::new();
        assert_eq!(lease.check(lease.term().unwrap()), Ok(()));
        assert_eq!(lease.end(), None);
    }

    #[test]
    fn a_lapse_ends_the_term_and_a_reconnection_starts_another() {
        let mut lease = Lease::new();
        let first = lease.term().unwrap();
        lease.disconnected();
        assert_eq!(lease.term(), Err(Lapse::Disconnected));
        assert_eq!(lease.check(first), Err(Lapse::Disconnected));
        lease.reconnected();
        assert_eq!(lease.check(first), Err(Lapse::Disconnected), "loss is final");
        assert_eq!(lease.check(lease.term().unwrap()), Ok(()));
    }

    #[test]
    fn a_reconnection_without_a_lapse_changes_nothing() {
        let mut lease = Lease::new();
        let before = lease.clone();
        lease.reconnected();
        assert_eq!(lease, before);
    }

    #[test]
    fn an_ended_session_stays_ended_in_its_first_way() {
        let mut lease = Lease::new();
        lease.ended(SessionEnd::Closed);
        lease.ended(SessionEnd::Expired);
        lease.reconnected();
        lease.disconnected();
        assert_eq!(lease.term(), Err(Lapse::Ended(SessionEnd::Closed)));
        assert_eq!(lease.end(), Some(SessionEnd::Closed));
    }
}
