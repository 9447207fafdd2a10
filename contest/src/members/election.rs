//! Candidates of one election, and observers.

use std::collections::{BTreeMap, BTreeSet};

use zklock::FencingToken;

use super::rules::{ONE_LOCK, Rules};
use crate::acts::OperatorActs;
use crate::announcements::{Announcement, Tale};
use crate::clock::Instant;
use crate::history::{History, Hold};
use crate::record::{Told, Who};
use crate::request::{Request, value};

pub const RULES: Rules = Rules {
    request: |rng, _| Request::Lead(value(rng)),
    last_turns: 3,
    // Two contend in each of the other processes.
    observes: |client| !client.is_multiple_of(3),
    misled: |history| {
        let mut judge = Judge::of(history);
        in_order(history).into_iter().flat_map(|tale| judge.judge(tale)).collect()
    },
    proofs,
    ..ONE_LOCK
};

fn proofs(history: &History) -> Vec<(bool, &'static str)> {
    let told = &history.announcements.told;
    let leaders = || told.iter().filter_map(|tale| tale.leader.as_ref());
    let announcement = |told: &Told| history.announcements.values.get(&told.value);
    let has_led = |told: &Told| history.holds.iter().any(|hold| hold.token == Some(told.token));
    let clients = leaders().filter_map(announcement).map(|announcement| announcement.who.client);
    let clients: BTreeSet<_> = clients.collect();
    vec![
        (leaders().any(has_led), "no observer was told of a leader"),
        (
            leaders().filter_map(announcement).any(|announcement| !announcement.is_campaign),
            "no observer was told of a value that a leader proclaimed",
        ),
        (told.iter().any(|tale| tale.leader.is_none()), "no observer was told that nobody leads"),
        (clients.len() > 1, "no observer was told of the leaders of two processes"),
    ]
}

fn in_order(history: &History) -> Vec<&Tale> {
    let mut told: Vec<_> = history.announcements.told.iter().collect();
    told.sort_by_key(|tale| tale.at);
    told
}

/// Judges what observers were told, in the order of time.
struct Judge<'a> {
    history: &'a History,
    /// The guards, each with the last instant at which it was valid, and whether an operator took it.
    guards: Vec<(&'a Hold, Instant, bool)>,
    /// How many of them have been granted by now.
    granted: usize,
    /// Those of them that may be valid now.
    valid: Vec<(&'a Hold, Instant, bool)>,
    by_token: BTreeMap<FencingToken, &'a Hold>,
    /// Whose the tokens are that no guard is known to have.
    unknown: BTreeMap<FencingToken, &'a str>,
    /// The highest token that each observer was told, and when its leader announced the value.
    highest: BTreeMap<(Who, u32), (FencingToken, Instant)>,
}

impl<'a> Judge<'a> {
    fn of(history: &'a History) -> Self {
        let acts = OperatorActs::of(&history.faults);
        let guards = history.holds.iter().map(|hold| {
            let is_taken = acts.met(hold);
            (hold, hold.valid_until(is_taken), is_taken)
        });
        Self {
            history,
            guards: guards.collect(),
            granted: 0,
            valid: Vec::new(),
            by_token: history.holds.iter().filter_map(|hold| Some((hold.token?, hold))).collect(),
            unknown: BTreeMap::new(),
            highest: BTreeMap::new(),
        }
    }

    /// What is wrong with this.
    fn judge(&mut self, tale: &'a Tale) -> Vec<String> {
        let Self { guards, granted, valid, .. } = self;
        valid.extend(guards.iter().skip(*granted).take_while(|(hold, ..)| hold.granted <= tale.at));
        *granted = guards.partition_point(|(hold, ..)| hold.granted <= tale.at);
        valid.retain(|(_, until, _)| *until > tale.at);
        let wrong = match &tale.leader {
            Some(told) => self.leader(tale, told),
            None => self.nobody(tale),
        };
        let (who, at) = (tale.who, tale.at.0);
        wrong.into_iter().map(|wrong| format!("{who} was told at {at}: {wrong}")).collect()
    }

    fn leader(&mut self, tale: &Tale, told: &'a Told) -> Vec<String> {
        let Told { value, token } = told;
        let mut wrong = Vec::new();
        let Some(announcement) = self.history.announcements.values.get(value) else {
            return vec![format!("{value}, which nobody announced")];
        };
        if tale.at < announcement.at {
            wrong.push(format!("{value}, which is announced later, at {}", announcement.at.0));
        }
        if let Some(problem) = self.is_not_its_leaders(told, announcement) {
            wrong.push(problem);
        }
        // Who leads has announced itself under the lock. So nobody may lead any more who came before it. Where operators act beside
        // candidates without a delay, the world asks the guards themselves.
        let before = self.valid.iter().filter(|(hold, _, is_taken)| hold.token < Some(*token) && !is_taken);
        for (hold, until, _) in before {
            let (who, lower, until) = (hold.who, hold.token, until.0);
            wrong.push(format!("{value}, with {token}, while {who} held with {lower:?} until {until}"));
        }
        let over =
            self.by_token.get(token).filter(|hold| tale.at.since(hold.over) > self.history.scope.stale);
        if let Some(hold) = over {
            wrong.push(format!(
                "{value}, which {} announced, whose leadership ended at {}",
                hold.who, hold.over.0
            ));
        }
        let now = (*token, announcement.at);
        let highest = self.highest.entry((tale.who, tale.observer)).or_insert(now);
        if now < *highest {
            wrong.push(format!("{value}, with {token}, after a later announcement with {}", highest.0));
        }
        *highest = now.max(*highest);
        wrong
    }

    /// Why this value is not one that the leader with this token announced.
    fn is_not_its_leaders(&mut self, told: &'a Told, announcement: &Announcement) -> Option<String> {
        let Told { value, token } = told;
        let Announcement { who, token: its, is_campaign, .. } = announcement;
        if let Some(hold) = self.by_token.get(token) {
            let is_its = hold.who == *who && *its == Some(*token);
            return (!is_its).then(|| format!("{value} of {who} with {token}, the token of {}", hold.who));
        }
        // A leadership that was lost before its candidate heard of it. The candidate may have led later, as another contender.
        let first = *self.unknown.entry(*token).or_insert(value);
        let may_be = *is_campaign && its.is_none_or(|its| *token <= its) && first == value;
        (!may_be).then(|| format!("{value} of {who} with {token}, which is not its token"))
    }

    /// An observer that was told of a leader is told that nobody leads only once that one's guard is over. An operator who
    /// takes a leader's node takes the announcement as well, and the leader may hear of it after the observer. Without a delay, that
    /// leader may delete the next one's announcement by name, between its look and its deletion.
    fn nobody(&self, tale: &Tale) -> Vec<String> {
        let Some((token, _)) = self.highest.get(&(tale.who, tale.observer)) else { return Vec::new() };
        let before = self.guards.iter().take(self.granted).filter(|(hold, ..)| hold.token < Some(*token));
        let before = before.max_by_key(|(hold, ..)| hold.token);
        let follows = before.is_some_and(|(.., is_taken)| *is_taken);
        let leads = |(hold, _, is_taken): &&(&Hold, Instant, bool)| {
            hold.token == Some(*token) && !is_taken && !follows
        };
        let valid = self.valid.iter().filter(leads);
        valid.map(|(hold, until, _)| format!("nobody, while {} led until {}", hold.who, until.0)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::*;

    const LOOKER: Who = Who { client: 4, task: 0 };

    fn tale(at: u64, leader: Option<(&str, i64)>) -> Tale {
        let leader =
            leader.map(|(value, token)| Told { value: value.to_owned(), token: FencingToken::new(token) });
        Tale { at: Instant(at), who: LOOKER, observer: 1, leader }
    }

    fn announcement(at: u64, who: Who, token: Option<i64>, is_campaign: bool) -> Announcement {
        Announcement { at: Instant(at), who, token: token.map(FencingToken::new), is_campaign }
    }

    /// One leads and proclaims another value, then two; the third campaign is lost before its candidate hears of it.
    fn history() -> History {
        let claim = [Claim::exclusive(0)];
        let mut history = History {
            holds: vec![Hold::sample(ONE, 5, 10, 20, &claim), Hold::sample(TWO, 7, 30, 40, &claim)],
            ..History::default()
        };
        let values = [
            ("a", announcement(5, ONE, Some(5), true)),
            ("b", announcement(15, ONE, Some(5), false)),
            ("c", announcement(8, TWO, Some(7), true)),
            ("d", announcement(45, THREE, None, true)),
        ];
        let announcements = &mut history.announcements;
        announcements.values = values.into_iter().map(|(value, it)| (value.to_owned(), it)).collect();
        announcements.told = vec![
            tale(2, None),
            tale(9, Some(("a", 5))),
            tale(16, Some(("b", 5))),
            tale(22, None),
            tale(29, Some(("c", 7))),
            tale(41, None),
            tale(50, Some(("d", 9))),
            tale(60, None),
        ];
        history
    }

    fn verdict(spoil: impl FnOnce(&mut History)) -> Vec<(Wrong, u64)> {
        Verdict::spoiled(Member::Election, history(), spoil)
    }

    /// Tells the observer this in place of what it was told as this one in the list.
    fn told(number: usize, at: u64, leader: Option<(&str, i64)>) -> Vec<(Wrong, u64)> {
        verdict(|it| it.announcements.told[number] = tale(at, leader))
    }

    #[test]
    fn observers_follow_the_leaders_in_a_good_history() {
        assert_eq!(verdict(|_| {}), []);
    }

    #[test]
    fn to_be_told_what_no_leader_with_that_token_announced_by_then_misleads() {
        for (number, at, leader, why) in [
            (1, 9, ("z", 5), "nobody announced it"),
            (2, 14, ("b", 5), "it is announced only later"),
            (4, 29, ("b", 7), "it has the token of another leader"),
            (1, 9, ("c", 5), "it has the token of another leader"),
            (6, 50, ("b", 9), "a proclaimed value has its leader's token and no other"),
        ] {
            assert_eq!(told(number, at, Some(leader)), [(Misled, 1)], "{why}");
        }
        // A plain holder of the lock announces nothing.
        let found = verdict(|it| {
            it.holds.push(Hold::sample(TWO, 8, 42, 44, &[Claim::exclusive(0)]));
            it.announcements.told[6] = tale(50, Some(("d", 8)));
        });
        assert_eq!(found, [(Misled, 1)]);
    }

    #[test]
    fn a_candidate_that_queued_again_leads_with_a_higher_token() {
        let lost_first = |token| {
            verdict(move |it| {
                it.announcements.told[3] = tale(22, Some(("c", token)));
                it.announcements.told.insert(4, tale(25, None));
            })
        };
        assert_eq!(lost_first(6), []);
        // It is behind the leader's own token, and so is what comes after it.
        assert_eq!(lost_first(8), [(Misled, 2)]);
    }

    #[test]
    fn two_values_with_one_unknown_token_mislead() {
        let found = verdict(|it| {
            it.announcements.values.insert("e".to_owned(), announcement(46, TWO, None, true));
            it.announcements.told[7] = tale(60, Some(("e", 9)));
        });
        assert_eq!(found, [(Misled, 1)]);
    }

    #[test]
    fn to_be_told_of_a_leader_while_the_last_one_leads_misleads() {
        let found = verdict(|it| {
            it.announcements.told.remove(3);
            it.holds[0].seen.valid = Instant(29);
        });
        assert_eq!(found, [], "it ends when the observer is told");
        let still_valid = |it: &mut History| {
            it.announcements.told.remove(3);
            it.holds[0].end = End::Lost("its session expired".into());
            it.holds[0].seen.promised = Some(Instant(30));
        };
        assert_eq!(verdict(still_valid), [(Misled, 1)]);
        let by_an_operator = |kind| {
            verdict(|it| {
                still_valid(it);
                it.faults.push(fault(kind));
            })
        };
        assert_eq!(by_an_operator(Effect::TakesHold), [], "what its lease promised was taken");
        assert_eq!(by_an_operator(Effect::Stops), [(Misled, 1)]);
    }

    fn fault(kind: Effect) -> Fault {
        Fault { session: Some(1), ..Fault::sample(kind, 15) }
    }

    #[test]
    fn to_be_told_that_nobody_leads_while_the_leader_leads_misleads() {
        assert_eq!(told(3, 19, None), [(Misled, 1)]);
        let found = verdict(|it| {
            it.announcements.told[3] = tale(19, None);
            it.holds[0].end = End::Lost("its node is gone".into());
            it.faults.push(fault(Effect::TakesHold));
        });
        assert_eq!(found, [], "the operator took the announcement, too");
        let found = verdict(|it| it.announcements.told.insert(4, Tale { observer: 2, ..tale(35, None) }));
        assert_eq!(found, [], "another observer, which was told of no leader, is behind");
    }

    #[test]
    fn a_token_or_a_value_that_goes_back_misleads() {
        assert_eq!(told(5, 42, Some(("b", 5))), [(Misled, 1)]);
        assert_eq!(told(3, 18, Some(("a", 5))), [(Misled, 1)]);
        let found = verdict(|it| {
            it.announcements.told[5] = Tale { observer: 2, ..tale(42, Some(("b", 5))) };
        });
        assert_eq!(found, [], "another observer knows of no other leader yet");
    }

    #[test]
    fn a_leadership_that_was_over_long_ago_misleads() {
        let later = 21 + u64::try_from(History::default().scope.stale.as_nanos()).unwrap();
        let late =
            |at| verdict(|it| it.announcements.told.push(Tale { observer: 2, ..tale(at, Some(("b", 5))) }));
        assert_eq!(late(later), []);
        assert_eq!(late(later + 1), [(Misled, 1)]);
    }

    #[test]
    fn observers_that_are_told_nothing_prove_nothing() {
        assert_eq!(verdict(|it| it.announcements.told.clear()), [(Unproven, 4)]);
        assert_eq!(verdict(|it| it.announcements.told.truncate(2)), [(Unproven, 2)]);
    }
}
