//! How long each guard of a session is valid: the session's [`Lease`], and what became of its connections.
//!
//! It lies beside the lease, and not in it: the model of the lock has the lease in its states, and no guard asks there.

use alloc::collections::VecDeque;
use core::time::Duration;

use super::{Lapse, Lease, Lengths, Moment, SessionEnd, Term};

/// When and where a request was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The number of the connection on which the request was sent.
    pub connection: u64,
    /// The instant at which the request was sent, or shortly before.
    pub at: Moment,
}

impl Sent {
    /// Whether this request was sent after the other one, on its connection or on a later one.
    pub fn is_after(&self, other: &Self) -> bool {
        let follows = self.connection == other.connection && other.at.until(self.at) > Duration::ZERO;
        self.connection > other.connection || follows
    }
}

/// What the answer to a request proves of the session in which the request was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// Nothing. A server may answer a read, or refuse a request, without having asked anybody.
    Nothing,
    /// The leader has answered, as it must for a sync.
    Leader,
    /// A quorum has acknowledged a write.
    Quorum,
}

/// The lease of one session, and the connections that it has lost.
#[derive(Clone, Debug)]
pub struct SessionLease {
    lease: Lease,
    /// The connections that were lost, and the instant at which the lease was to end when each was lost. An entry is forgotten some
    /// time after that instant.
    lost: VecDeque<(u64, Moment)>,
}

impl SessionLease {
    /// Makes the lease of a session that has lost no connection yet.
    pub fn new(lease: Lease) -> Self {
        Self { lease, lost: VecDeque::new() }
    }

    /// Returns the lease.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Takes in what the answer to a request, which has come by `now`, proves. Returns whether those who wait for an end have to look
    /// again: the lease had lapsed; or the leader has answered a heartbeat, and a guard may have ended before the lease does.
    pub fn credit(&mut self, proof: Proof, Sent { connection, at }: Sent, now: Moment) -> bool {
        let has_lapsed = self.lease.remaining(now).is_zero();
        match proof {
            Proof::Nothing => false,
            Proof::Leader => {
                let is_unsettled = self.is_unsettled(now);
                self.lease.synced(connection, at, now);
                is_unsettled || has_lapsed
            }
            Proof::Quorum => {
                self.lease.confirmed(connection, at, now);
                has_lapsed
            }
        }
    }

    /// Whether a guard may have ended, since the last call, before the lease does.
    fn is_unsettled(&mut self, now: Moment) -> bool {
        let is_unsettled = !self.lost.is_empty();
        self.forget_lost(now);
        is_unsettled
    }

    /// Forgets the lost connections whose instant is over.
    fn forget_lost(&mut self, now: Moment) {
        self.lost.retain(|(_, end)| !now.until(*end).is_zero());
    }

    /// The present connection, if there is one, and when the lease would end without another.
    fn losing(&self) -> Option<(u64, Moment)> {
        Some((self.lease.connection()?, self.lease.deadline()))
    }

    /// Takes in that a request to resume the session is about to be sent, as [`Lease::attempting`] does. The previous connection, if it
    /// still exists, is lost by that.
    #[must_use]
    pub fn attempting(&mut self, now: Moment, floor: Duration) -> bool {
        let losing = self.losing();
        let may_be_sent = self.lease.attempting(now, floor);
        if may_be_sent {
            self.lost.extend(losing);
        }
        may_be_sent
    }

    /// Takes in that the request to resume the session was not answered, as [`Lease::attempt_failed`] does.
    pub fn attempt_failed(&mut self) {
        self.lease.attempt_failed();
    }

    /// Takes in that a server resumed the session, as [`Lease::resumed`] does.
    pub fn resumed(&mut self, granted: Duration) -> Result<u64, Lengths> {
        self.lease.resumed(granted)
    }

    /// Takes in that the present connection is lost.
    pub fn disconnected(&mut self, now: Moment) {
        self.forget_lost(now);
        self.lost.extend(self.losing());
        self.lease.disconnected();
    }

    /// Takes in that the session is over for good. The first end counts.
    pub fn ended(&mut self, end: SessionEnd) {
        self.lease.ended(end);
    }

    /// Returns how long a guard of this term still lasts if nothing more is confirmed, or why it has ended. `seen` is the
    /// connection on which the guard's node was last seen. A confirmation on a later connection says nothing of that
    /// node: an operator may have deleted it in between.
    pub fn remaining_of(&self, term: Term, seen: Option<u64>, now: Moment) -> Result<Duration, Lapse> {
        self.lease.check(term, now)?;
        let remaining = self.lease.remaining(now);
        if seen.is_some() && self.lease.connection() == seen {
            return Ok(remaining);
        }
        let lost = self.lost.iter().find(|(number, _)| Some(*number) == seen);
        let remaining = remaining.min(lost.map(|(_, end)| now.until(*end)).unwrap_or_default());
        if remaining.is_zero() { Err(Lapse::Unconfirmed) } else { Ok(remaining) }
    }

    /// Returns how long the heartbeats certainly do not fail; zero if they fail now: without a connection, if a heartbeat is overdue,
    /// or if less is left of the lease than the longest stop margin. `beaten` is the latest heartbeat that was answered in full.
    pub fn calm(&self, beaten: Sent, now: Moment) -> Duration {
        if self.lease.connection() != Some(beaten.connection) {
            return Duration::ZERO;
        }
        let lengths = self.lease.lengths();
        // The next heartbeat is sent a heartbeat after this one. A half is for its reply, twice what the longest margin allows.
        let overdue = (lengths.heartbeat * 3 / 2).saturating_sub(now.most_since(beaten.at));
        overdue.min(self.lease.remaining(now).saturating_sub(lengths.longest_stop_margin()))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::super::Reckoning;
    use super::*;

    /// A validity of 9 s, heartbeats of 2,137.5 ms, a longest stop margin of 2,206.25 ms.
    const RECKONING: Reckoning = Reckoning { tick: Duration::from_millis(1_800), drift_ppm: 100_000 };
    const T: Duration = Duration::from_secs(10);

    fn milliseconds(number: u64) -> Duration {
        Duration::from_millis(number)
    }

    fn by(boot: u64, raw: u64) -> Moment {
        Moment::new(milliseconds(100_000 + boot), milliseconds(50_000 + raw), Duration::ZERO)
    }

    /// An instant that all clocks agree on.
    fn at(number: u64) -> Moment {
        by(number, number)
    }

    fn sent(connection: u64, number: u64) -> Sent {
        Sent { connection, at: at(number) }
    }

    fn established() -> SessionLease {
        SessionLease::new(Lease::established(RECKONING, T, at(0)).unwrap())
    }

    /// Lost at that instant, and resumed by a request of the same one, which a quorum has confirmed 10 ms later.
    fn reconnected(mut lease: SessionLease, number: u64) -> SessionLease {
        lease.disconnected(at(number));
        assert!(lease.attempting(at(number), T));
        let connection = lease.resumed(T).unwrap();
        lease.credit(Proof::Quorum, sent(connection, number + 5), at(number + 10));
        lease
    }

    /// What is left of a guard of the first term.
    type Remaining = fn(&SessionLease, Term, Option<u64>, Moment) -> Result<Duration, Lapse>;

    /// The rows in which a function is wrong: the session, the connection on which the node was seen, the instant, and what is left.
    fn wrong_remaining(remaining: Remaining) -> Vec<&'static str> {
        let once = reconnected(established(), 1_000);
        let twice = reconnected(once.clone(), 3_000);
        let mut down = once.clone();
        down.disconnected(at(2_000));
        let mut over = once.clone();
        over.ended(SessionEnd::Closed);
        let mut lapsed = once.clone();
        for beat in [3_000, 5_000, 7_000, 9_000] {
            lapsed.credit(Proof::Leader, sent(1, beat), at(beat));
        }
        assert!(lapsed.credit(Proof::Quorum, sent(1, 10_040), at(10_050)));
        let mut shortened = established();
        shortened.disconnected(at(1_000));
        assert!(shortened.attempting(at(1_000), T));
        shortened.resumed(milliseconds(8_000)).unwrap();
        let left = |number| Ok(milliseconds(number));
        let unconfirmed = Err(Lapse::Unconfirmed);
        let rows = [
            ("seen on the present connection", &once, Some(1), at(2_000), left(8_000)),
            ("seen on the one before", &once, Some(0), at(2_000), left(7_000)),
            ("the end of that one is over", &once, Some(0), at(9_000), unconfirmed),
            ("seen nowhere", &once, None, at(2_000), unconfirmed),
            ("seen on the one before that", &twice, Some(0), at(4_000), left(5_000)),
            ("seen on a later one than that", &twice, Some(1), at(4_000), left(6_000)),
            ("without a connection, seen on the last one", &down, Some(1), at(2_500), left(7_500)),
            ("without a connection, seen on the one before", &down, Some(0), at(2_500), left(6_500)),
            ("without a connection, seen nowhere", &down, None, at(2_500), unconfirmed),
            ("the session is over", &over, Some(1), at(2_000), Err(Lapse::Ended(SessionEnd::Closed))),
            ("another term has begun", &lapsed, Some(1), at(10_060), unconfirmed),
            ("the server grants less than the one before", &shortened, Some(0), at(2_000), left(5_200)),
            ("one clock has gone on faster", &once, Some(0), by(4_000, 2_000), left(5_000)),
        ];
        let term = established().lease.term(at(0)).unwrap();
        let wrong = rows
            .into_iter()
            .filter(|(_, lease, seen, now, expected)| remaining(lease, term, *seen, *now) != *expected);
        wrong.map(|row| row.0).collect()
    }

    #[test]
    fn a_guard_lasts_as_long_as_the_lease_of_the_connection_that_showed_its_node() {
        assert_eq!(wrong_remaining(SessionLease::remaining_of), [""; 0]);
        let mutants: [Remaining; 5] = [
            // Break 09 of the simulation: two guards, if an operator deletes the node of a holder that is cut off.
            |it, term, _, now| it.lease.check(term, now).map(|()| it.lease.remaining(now)),
            // It forgets what it had on a connection as soon as another one comes.
            |it, term, seen, now| match it.remaining_of(term, seen, now) {
                Ok(_) if it.lease.connection() != seen => Err(Lapse::Unconfirmed),
                remaining => remaining,
            },
            // It takes the end of a lost connection for the guard's, though the lease ends sooner.
            |it, term, seen, now| match it.lost.iter().find(|(number, _)| Some(*number) == seen) {
                Some((_, end)) => Ok(now.until(*end)),
                None => it.remaining_of(term, seen, now),
            },
            // A lease that is valid again revives the guard.
            |it, _, seen, now| it.lease.term(now).and_then(|term| it.remaining_of(term, seen, now)),
            // It takes any lost connection for the one that showed the node.
            |it, term, seen, now| match it.lost.back() {
                Some((_, end)) => Ok(it.lease.remaining(now).min(now.until(*end))),
                None => it.remaining_of(term, seen, now),
            },
        ];
        for (number, mutant) in mutants.into_iter().enumerate() {
            assert!(!wrong_remaining(mutant).is_empty(), "mutant {number} is not caught");
        }
    }

    #[test]
    fn a_request_to_resume_loses_the_connection_that_still_stands() {
        let mut lease = established();
        let term = lease.lease.term(at(0)).unwrap();
        assert!(!lease.attempting(at(1_000), milliseconds(6_000)), "that would bring the end nearer");
        assert_eq!(lease.remaining_of(term, Some(0), at(1_000)), Ok(milliseconds(8_000)));
        assert!(lease.attempting(at(1_000), T));
        lease.resumed(T).unwrap();
        lease.credit(Proof::Quorum, sent(1, 1_005), at(1_010));
        assert_eq!(
            lease.remaining_of(term, Some(0), at(2_000)),
            Ok(milliseconds(7_000)),
            "as when it was lost"
        );
        assert_eq!(lease.remaining_of(term, Some(1), at(2_000)), Ok(milliseconds(8_000)));
    }

    #[test]
    fn a_request_to_resume_that_must_not_be_sent_loses_nothing() {
        let mut lease = established();
        assert!(!lease.attempting(at(1_000), milliseconds(6_000)));
        for beat in [2_000, 4_000] {
            lease.credit(Proof::Leader, sent(0, beat), at(beat));
        }
        lease.credit(Proof::Quorum, sent(0, 4_010), at(4_020));
        let term = lease.lease.term(at(5_000)).unwrap();
        lease.disconnected(at(5_000));
        assert_eq!(lease.remaining_of(term, Some(0), at(5_000)), Ok(milliseconds(6_000)));
    }

    #[test]
    fn an_answer_counts_for_the_connection_and_from_the_instant_of_its_request() {
        let mut lease = established();
        for (sent_at, answered) in [(0, 10), (2_000, 2_010), (4_000, 4_010)] {
            lease.credit(Proof::Leader, sent(0, sent_at), at(answered));
        }
        lease.credit(Proof::Quorum, sent(0, 4_005), at(4_020));
        lease.credit(Proof::Quorum, sent(7, 4_015), at(4_020));
        assert_eq!(lease.lease.remaining(at(5_000)), milliseconds(4_000));
    }

    #[test]
    fn only_an_answer_that_may_end_a_guard_or_begin_a_term_wakes_all() {
        let mut lease = established();
        assert!(!lease.credit(Proof::Quorum, sent(0, 1_000), at(1_010)));
        assert!(!lease.credit(Proof::Leader, sent(0, 1_020), at(1_030)), "the lease grows");
        let mut lease = reconnected(lease, 2_000);
        assert!(!lease.credit(Proof::Quorum, sent(1, 2_100), at(2_110)));
        assert!(
            lease.credit(Proof::Leader, sent(1, 2_200), at(2_210)),
            "a guard may end that this connection has not shown"
        );
        assert!(
            lease.credit(Proof::Leader, sent(1, 9_900), at(9_910)),
            "and one that has ended since the last look"
        );
        assert!(!lease.credit(Proof::Leader, sent(1, 9_920), at(9_930)));
        let lapsed = |proof| established().credit(proof, sent(0, 9_000), at(9_010));
        assert_eq!([Proof::Nothing, Proof::Leader, Proof::Quorum].map(lapsed), [false, true, true]);
    }

    #[test]
    fn an_answer_that_proves_nothing_changes_nothing() {
        let mut lease = established();
        let before = lease.lease.clone();
        lease.credit(Proof::Nothing, sent(0, 5_000), at(5_010));
        assert_eq!(lease.lease, before);
        lease.credit(Proof::Leader, sent(0, 5_000), at(5_010));
        assert_ne!(lease.lease, before);
    }

    /// How long the heartbeats do not fail.
    type Calm = fn(&SessionLease, Sent, Moment) -> Duration;

    fn wrong_calm(calm: Calm) -> Vec<&'static str> {
        let new = established();
        let mut down = established();
        down.disconnected(at(100));
        let again = reconnected(established(), 1_000);
        let mut over = established();
        over.ended(SessionEnd::Closed);
        let rows = [
            ("at the heartbeat", &new, sent(0, 0), at(0), 3_206_250),
            ("half a heartbeat later", &new, sent(0, 0), at(1_000), 2_206_250),
            ("the next one is overdue", &new, sent(0, 0), at(3_207), 0),
            ("little is left of the lease", &new, sent(0, 6_000), at(6_500), 293_750),
            ("less than the longest margin is left", &new, sent(0, 6_700), at(6_800), 0),
            ("without a connection", &down, sent(0, 0), at(200), 0),
            ("no heartbeat on this connection yet", &again, sent(0, 0), at(1_100), 0),
            ("the first one on this connection", &again, sent(1, 1_050), at(1_100), 3_156_250),
            ("one clock has gone on faster", &new, sent(0, 0), by(1_000, 3_000), 206_250),
            ("the session is over", &over, sent(0, 0), at(0), 0),
        ];
        let wrong = rows.into_iter().filter(|(_, lease, beaten, now, expected)| {
            calm(lease, *beaten, *now) != Duration::from_micros(*expected)
        });
        wrong.map(|row| row.0).collect()
    }

    #[test]
    fn heartbeats_fail_without_a_connection_when_overdue_and_when_little_is_left() {
        assert_eq!(wrong_calm(SessionLease::calm), [""; 0]);
        let mutants: [Calm; 3] = [
            |it, beaten, now| {
                it.calm(Sent { connection: it.lease.connection().unwrap_or_default(), ..beaten }, now)
            },
            |it, beaten, now| it.calm(Sent { at: now, ..beaten }, now),
            |it, beaten, now| {
                let overdue = it.lease.lengths().heartbeat * 3 / 2;
                match it.calm(beaten, now) {
                    Duration::ZERO => Duration::ZERO,
                    _ => overdue.saturating_sub(now.most_since(beaten.at)),
                }
            },
        ];
        for (number, mutant) in mutants.into_iter().enumerate() {
            assert!(!wrong_calm(mutant).is_empty(), "mutant {number} is not caught");
        }
    }

    #[test]
    fn a_later_request_is_one_of_a_later_connection_or_of_a_later_instant() {
        assert!(sent(1, 0).is_after(&sent(0, 100)));
        assert!(sent(0, 101).is_after(&sent(0, 100)));
        assert!(!sent(0, 100).is_after(&sent(0, 100)));
        assert!(!sent(0, 100).is_after(&sent(1, 0)));
    }
}
