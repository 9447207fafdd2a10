//! Slots that run once: what claims were told, how runs ended, and what the records say in the end.

use std::collections::BTreeMap;

use zklock::FencingToken;

use crate::clock::Instant;
use crate::record::{RunRecord, Who};
use crate::request::Period;

#[derive(Clone, Debug, Default)]
pub struct Runs {
    pub runs: Vec<Run>,
    /// All claims that have ended, or whose processes were killed.
    pub claims: Vec<Claimed>,
    /// What claims were told of periods that are done.
    pub told: Vec<Refusal>,
    /// The runs whose holders were told that somebody else has changed the record.
    pub blamed: Vec<Run>,
    /// The periods that claims were told are forgotten.
    pub forgotten: Vec<Period>,
    /// Since when, and until when, the session of a client certainly had its guards: the later instant by the client and the
    /// earlier one.
    pub witnessed: BTreeMap<(u16, Instant), Instant>,
    /// The records when all was over, by their periods.
    pub records: BTreeMap<String, RunRecord>,
    /// The ranges of names whose records were dropped by then.
    pub ranges: Vec<(String, String)>,
}

impl Runs {
    pub fn is_dropped(&self, name: &str) -> bool {
        self.ranges.iter().any(|(first, last)| (first.as_str()..=last.as_str()).contains(&name))
    }

    /// Whether the session of this client certainly had its guards all this time.
    pub fn had_guards(&self, client: u16, from: Instant, until: Instant) -> bool {
        let before = self.witnessed.range((client, Instant(0))..=(client, from));
        before.last().is_some_and(|(_, valid)| *valid >= until)
    }
}

/// A turn that a claim returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub who: Who,
    pub period: Period,
    pub token: Option<FencingToken>,
    pub granted: Instant,
    pub end: RunEnd,
}

/// How far a run has come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// Nobody was about to record an end.
    Open,
    /// Its holder was about to record that it has succeeded or failed, and is not known to have been told that it is done.
    Unsure,
    /// Its holder was told that it is recorded, by this instant.
    Recorded(Instant),
    /// Its holder was told that it is not recorded.
    Denied,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimed {
    pub who: Who,
    pub period: Period,
    pub asked: Instant,
    /// If its process was killed, it ended earlier.
    pub ended: Instant,
    /// It said itself that its record may say that it has begun, though nothing ran.
    pub is_unsure: bool,
    /// When its session was closed, if that waited until its begin was taken back.
    pub taken_back: Option<Instant>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub period: Period,
    pub kept: RunRecord,
    pub asked: Instant,
    pub at: Instant,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collector::Collector;
    use crate::record::{Event, LOST_BY_THEN, Leaving, Record, UNCONFIRMED};
    use crate::request::Request;
    use crate::samples::*;

    const WHO: Who = Who { client: 1, task: 1 };

    fn collected(events: impl IntoIterator<Item = Event>) -> Runs {
        let mut collector = Collector::new(Member::Once);
        for (event, at) in events.into_iter().zip((1..).map(Instant)) {
            // A contender that asks anew was killed before, if it asks still.
            if let Event::Asks { .. } = event {
                collector.gone(WHO.client, at);
            }
            collector.hear(&Record { at, member: Member::Once, who: WHO, event });
        }
        collector.finish(Instant(11)).runs
    }

    fn asks(number: u64) -> [Event; 1] {
        let request = Request::Run(Period { number, fails: false });
        [Event::Asks { request, how: How::Wait, patience: None, limit: None }]
    }

    fn leaves(why: Leaving) -> [Event; 1] {
        [Event::LeftWithout { why }]
    }

    #[test]
    fn each_claim_is_kept_with_what_it_was_told() {
        let lost = Leaving::Failed(format!("{LOST_BY_THEN}: a reason"));
        let (state, owner) = ("begun".to_owned(), "c2.1".to_owned());
        let done = Leaving::Done(RunRecord { state, owner, token: 7, attempt: 1 });
        let runs = collected(
            [asks(1), leaves(Leaving::Forgotten), asks(2), leaves(Leaving::Failed(UNCONFIRMED.to_owned()))]
                .into_iter()
                .chain([asks(3), leaves(lost), asks(4), leaves(done), asks(5), asks(6)])
                .flatten(),
        );
        assert_eq!(runs.forgotten, [Period { number: 1, fails: false }]);
        let claims = runs.claims.iter().map(|it| (it.period.number, it.asked.0, it.ended.0, it.is_unsure));
        let ends = [(1, 1, 2, false), (2, 3, 4, true), (3, 5, 6, true), (4, 7, 8, false)];
        // Its process was killed; the last one, too.
        let killed = [(5, 9, 1_000_000_010, false), (6, 10, 11, false)];
        assert_eq!(claims.collect::<Vec<_>>(), [&ends[..], &killed].concat());
        let [told] = &runs.told[..] else { panic!("{:?}", runs.told) };
        assert_eq!((told.period.number, told.kept.token, told.asked.0, told.at.0), (4, 7, 7, 8));
        assert_eq!(told.kept.owner, "c2.1");
    }

    #[test]
    fn a_session_has_its_guards_from_one_look_to_the_next_and_not_across_a_loss() {
        let look = |since, valid| Event::Witnesses { since: Instant(since), valid: Instant(valid) };
        let runs = collected([look(10, 10), look(10, 20), look(30, 30), look(30, 40)]);
        let had = |from, until| runs.had_guards(1, Instant(from), Instant(until));
        assert!(had(10, 20) && had(15, 16) && had(30, 40));
        assert!(!had(9, 20) && !had(10, 21) && !had(20, 30) && !had(15, 35));
        assert!(!runs.had_guards(2, Instant(15), Instant(16)));
    }
}
