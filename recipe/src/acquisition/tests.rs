//! Exact commands: what an acquisition makes of what it hears, of connections and of the lease.

use alloc::vec;

use super::{Alone as A, Together as T, *};
use crate::command::{Breach, End};
use crate::event::Event as E;
use crate::group::tests::{FIRST, REFUSAL, SECOND, alone, behind};
use crate::lease::{Lapse, Term};

const TERM: Term = Term::FIRST;
/// The present connection.
const NOW: u64 = 3;
/// The connection before.
const BEFORE: u64 = 2;
const SEEN: Certainty = Certainty::Seen(NOW);
const UNSURE: Certainty = Certainty::Unsure;
const END: SessionEnd = SessionEnd::Expired;

const PRESENT: Present = Present { connection: Some(NOW), term: Ok(TERM), is_ample: true };
/// The lease lapses soon, and no quorum has confirmed it.
const SHORT: Present = Present { is_ample: false, ..PRESENT };
const LAPSED: Present = Present { term: Err(Lapse::Unconfirmed), ..SHORT };
const DOWN: Present = Present { connection: None, ..PRESENT };
const OVER: Present = Present { connection: None, term: Err(Lapse::Ended(END)), is_ample: false };

impl Acquisition {
    fn hears(&mut self, input: Input) -> Vec<Effect> {
        self.handle(input, PRESENT)
    }

    /// What follows, and the nodes that a request for all names.
    fn names(&mut self, input: Input, present: Present) -> (Vec<Effect>, Vec<Own>) {
        (self.handle(input, present), self.group.nodes().collect())
    }
}

fn acquisition<const N: usize>(takeovers: [Takeover; N]) -> Acquisition {
    Acquisition::new(Patience::Wait, Arrival::New, takeovers)
}

fn one() -> Acquisition {
    acquisition([Takeover::AtOnce])
}

fn two() -> Acquisition {
    acquisition([Takeover::AtOnce; 2])
}

/// The acquisition after these inputs, while the session stands like this.
fn after_at(present: Present, mut acquisition: Acquisition, inputs: Vec<Input>) -> Acquisition {
    inputs.into_iter().for_each(|input| drop(acquisition.handle(input, present)));
    acquisition
}

fn after(acquisition: Acquisition, inputs: Vec<Input>) -> Acquisition {
    after_at(PRESENT, acquisition, inputs)
}

fn begin() -> Input {
    E::Begin.into()
}

fn shown(member: usize, event: Event) -> Input {
    Input::Heard(Report::One(member, event))
}

fn reply(heard: Report) -> Input {
    Input::Reply(heard, NOW)
}

fn reply_to(member: usize, event: Event) -> Input {
    reply(Report::One(member, event))
}

fn entered(nodes: &[(Own, Sight)]) -> Input {
    reply(Report::Entered(nodes.to_vec()))
}

fn all(together: T, certainty: Certainty) -> Effect {
    Effect::All(together, certainty, Tries::default())
}

/// A request of a member whose node was seen on the present connection.
fn single(member: usize, alone: A) -> Effect {
    single_on(member, alone, SEEN)
}

fn single_on(member: usize, alone: A, certainty: Certainty) -> Effect {
    let ground = Ground { certainty, search: Search::After };
    Effect::One(member, alone, ground, Tries::default())
}

fn find(member: usize, search: Search, tries: Tries) -> Effect {
    Effect::One(member, A::Find, Ground { certainty: UNSURE, search }, tries)
}

/// A request of a member whose node was not seen on the present connection, and that was sent before.
fn again(member: usize, alone: A) -> Effect {
    Effect::One(member, alone, Ground { certainty: UNSURE, search: Search::After }, tries(1))
}

/// A request for all that names these nodes.
fn naming(nodes: &[Own], together: T, certainty: Certainty, tries: Tries) -> (Vec<Effect>, Vec<Own>) {
    (vec![Effect::All(together, certainty, tries)], nodes.to_vec())
}

/// It asks a quorum for these nodes.
fn asks_for(nodes: &[Own]) -> (Vec<Effect>, Vec<Own>) {
    naming(nodes, T::Confirm, UNSURE, Tries::default())
}

/// These tries after so many requests that were not answered.
fn tries(failed: u32) -> Tries {
    let mut tries = Tries::default();
    (0..failed).for_each(|_| tries.failed());
    tries
}

fn grant(nodes: &[Own]) -> Effect {
    Effect::Tell(Outcome::Granted(nodes.to_vec(), TERM))
}

fn ended(member: usize, end: End) -> Effect {
    Effect::Tell(Outcome::Ended(member, end))
}

/// `Enter` is out.
fn entering() -> Acquisition {
    after(one(), vec![begin()])
}

/// It watches its predecessor.
fn waiting(takeover: Takeover) -> Acquisition {
    let watched = reply_to(0, E::PredecessorWatched(true));
    after(acquisition([takeover]), vec![begin(), entered(&[behind(SECOND)]), watched])
}

fn released() -> Input {
    shown(0, E::PredecessorReleased)
}

/// It has been granted by its first look.
fn held() -> Acquisition {
    after(entering(), vec![entered(&[alone(FIRST)])])
}

/// As `held`, for two locks.
fn both_held() -> Acquisition {
    after(two(), vec![begin(), entered(&[alone(FIRST), alone(SECOND)])])
}

/// As `both_held`, and both watch their nodes.
fn both_guarded() -> Acquisition {
    let watched = |member| reply_to(member, E::OwnWatched(true));
    after(both_held(), vec![E::Settled.into(), watched(0), watched(1)])
}

/// The first member is first in its queue and watches its own node, the second one waits.
fn half() -> Acquisition {
    let entered = entered(&[alone(FIRST), behind(SECOND)]);
    let watched = [reply_to(0, E::OwnWatched(true)), reply_to(1, E::PredecessorWatched(true))];
    after(two(), [begin(), entered].into_iter().chain(watched).collect())
}

/// `Confirm` is out for all.
fn confirming(present: Present) -> Acquisition {
    after_at(present, entering(), vec![entered(&[alone(FIRST)])])
}

/// `Find` is out: the create was lost with its connection.
fn searching(acquisition: Acquisition) -> Acquisition {
    after(acquisition, vec![begin(), Input::Lost(None)])
}

#[test]
fn nodes_that_were_just_created_under_an_ample_lease_are_granted_without_a_request() {
    assert_eq!(one().hears(begin()), [all(T::Enter, UNSURE)]);
    assert_eq!(entering().hears(entered(&[alone(FIRST)])), [grant(&[FIRST])]);
    assert_eq!(waiting(Takeover::AtOnce).hears(released()), [grant(&[SECOND])]);
}

#[test]
fn a_lease_that_is_short_or_over_is_confirmed_first() {
    for present in [SHORT, LAPSED] {
        let mut acquisition = entering();
        assert_eq!(acquisition.handle(entered(&[alone(FIRST)]), present), [all(T::Confirm, SEEN)]);
        assert_eq!(acquisition.handle(Input::LeaseConfirmed, SHORT), [grant(&[FIRST])]);
    }
}

/// A quorum has answered, and the lease is over all the same.
#[test]
fn a_lease_that_stays_over_is_asked_for_again_at_once_and_then_steadily() {
    let mut acquisition = confirming(LAPSED);
    let mut steady = Tries::default();
    for _ in 0..4 {
        steady.steady();
        steady.failed();
        let asks = [Effect::All(T::Confirm, SEEN, steady)];
        assert_eq!(acquisition.handle(Input::LeaseConfirmed, LAPSED), asks);
    }
    assert_eq!(
        acquisition.handle(Input::NodesConfirmed(NOW), LAPSED),
        [Effect::All(T::Confirm, SEEN, steady)]
    );
    assert_eq!(acquisition.handle(Input::LeaseConfirmed, SHORT), [grant(&[FIRST])]);
}

#[test]
fn nodes_that_were_not_seen_on_the_present_connection_are_asked_for() {
    let later = Present { connection: Some(NOW + 1), ..PRESENT };
    for present in [later, DOWN] {
        let mut acquisition = waiting(Takeover::AtOnce);
        assert_eq!(acquisition.names(released(), present), asks_for(&[SECOND]));
        // Nobody answers.
        let again = naming(&[SECOND], T::Confirm, UNSURE, tries(1));
        assert_eq!(acquisition.names(Input::Lost(None), present), again);
        assert_eq!(acquisition.seen(), Some(NOW));
        assert_eq!(acquisition.handle(Input::NodesConfirmed(NOW + 1), present), [grant(&[SECOND])]);
        assert_eq!(acquisition.seen(), Some(NOW + 1));
    }
}

/// The answer has waited for its caller.
#[test]
fn a_lease_that_was_confirmed_on_an_earlier_connection_does_not_confirm_the_nodes() {
    let later = Present { connection: Some(NOW + 1), ..PRESENT };
    let asks = naming(&[FIRST], T::Confirm, UNSURE, tries(1));
    assert_eq!(confirming(SHORT).names(Input::LeaseConfirmed, later), asks);
}

#[test]
fn a_look_that_has_waited_for_its_caller_shows_nothing() {
    let mut acquisition = entering();
    let entered = Input::Reply(Report::Entered(vec![alone(FIRST)]), BEFORE);
    assert_eq!(acquisition.hears(entered), [single_on(0, A::List, UNSURE)]);
    assert_eq!(acquisition.seen(), Some(BEFORE));
    let first = reply_to(0, E::Listed(vec![FIRST.place.name()]));
    assert_eq!(acquisition.names(first, PRESENT), asks_for(&[FIRST]));
}

#[test]
fn a_node_is_named_without_a_look_only_on_the_connection_on_which_it_was_seen() {
    let release = |certainty| naming(&[FIRST], T::Release, certainty, Tries::default());
    assert_eq!(held().names(E::Release.into(), PRESENT), release(SEEN));
    assert_eq!(held().names(E::Release.into(), DOWN), release(UNSURE));
    let later = Present { connection: Some(NOW + 1), ..PRESENT };
    assert_eq!(held().names(E::Release.into(), later), release(UNSURE));
    // A holder that has set its watch again has seen its node again.
    let mut guarded = after(held(), vec![E::Settled.into(), reply_to(0, E::OwnWatched(true))]);
    assert_eq!(guarded.handle(shown(0, E::WatchLost), later), [single_on(0, A::WatchOwn(FIRST), UNSURE)]);
    let watched = Input::Reply(Report::One(0, E::OwnWatched(true)), NOW + 1);
    assert_eq!(guarded.handle(watched, later), []);
    assert_eq!(guarded.names(E::Release.into(), later), release(Certainty::Seen(NOW + 1)));

    let deletes = |own| [single_on(0, A::Delete(own), UNSURE)];
    assert_eq!(waiting(Takeover::AtOnce).handle(E::GiveUp.into(), DOWN), deletes(SECOND));
    // These callers may not have heard yet what the connection has to say.
    assert_eq!(waiting(Takeover::AtOnce).hears(E::GiveUp.into()), deletes(SECOND));
    assert_eq!(held().hears(E::Forfeit.into()), deletes(FIRST));
    // It has waited, and a listing shows no more than a name.
    let mut refused = after(waiting(Takeover::AtOnce), vec![shown(0, E::PredecessorDeleted)]);
    assert_eq!(refused.hears(reply_to(0, E::Refused(REFUSAL))), deletes(SECOND));
    assert_eq!(held().names(E::GiveUp.into(), PRESENT), release(SEEN));
}

/// A late answer says nothing that a newer one has not said.
#[test]
fn an_earlier_sight_does_not_take_the_place_of_a_later_one() {
    let mut acquisition = held();
    acquisition.saw(BEFORE);
    assert_eq!(acquisition.certainty(Some(NOW)), SEEN);
    acquisition.saw(NOW + 1);
    assert_eq!(acquisition.certainty(Some(NOW)), UNSURE);
}

/// A sight from before the news may come after them: from another task, or of another member's node.
#[test]
fn a_holder_whose_node_was_touched_believes_no_sight() {
    let lost = || [Effect::Tell(Outcome::Lost(Breach::Touched))];
    let watching = after(held(), vec![E::Settled.into()]);
    for mut acquisition in [held(), watching] {
        assert_eq!(acquisition.hears(E::OwnTouched.into()), lost());
        acquisition.saw(NOW);
        assert_eq!((acquisition.seen(), acquisition.certainty(Some(NOW))), (None, UNSURE));
        assert_eq!(acquisition.hears(E::OwnTouched.into()), []);
        assert_eq!(acquisition.hears(E::GiveUp.into()), [single_on(0, A::Recover(FIRST), UNSURE)]);
    }
    for mut several in [both_held(), both_guarded()] {
        assert_eq!(several.hears(E::OwnTouched.into()), lost());
        let recovers =
            [(0, FIRST), (1, SECOND)].map(|(member, own)| single_on(member, A::Recover(own), UNSURE));
        assert_eq!(several.hears(E::Forfeit.into()), recovers);
    }
    let watched = |member| reply_to(member, E::OwnWatched(true));
    let news = vec![E::Settled.into(), watched(0), shown(0, E::OwnTouched), watched(1)];
    let mut lost = after(both_held(), news);
    lost.saw(NOW);
    assert_eq!(lost.seen(), None);
    let commands = lost.hears(E::Forfeit.into());
    assert!(commands.contains(&single_on(1, A::Delete(SECOND), UNSURE)), "{commands:?}");
}

#[test]
fn several_nodes_are_certain_if_each_is() {
    let mut acquisition = both_guarded();
    assert_eq!(acquisition.certainty(Some(NOW)), SEEN);
    let later = NOW + 1;
    for member in 0..2 {
        assert_eq!(acquisition.certainty(Some(later)), UNSURE);
        let watched = Input::Reply(Report::One(member, E::OwnWatched(true)), later);
        acquisition.handle(watched, Present { connection: Some(later), ..PRESENT });
    }
    assert_eq!(acquisition.certainty(Some(later)), Certainty::Seen(later));
}

/// If an operator has deleted a waiter's node, the release that the waiter hears of grants its successor, too.
#[test]
fn a_waiter_with_a_takeover_delay_asks_for_its_node_at_the_release() {
    assert_eq!(waiting(Takeover::Delayed).names(released(), PRESENT), asks_for(&[SECOND]));
    let mut mixed = waiting(Takeover::Mixed);
    assert_eq!(mixed.hears(released()), [single_on(0, A::List, UNSURE)]);
    let first = reply_to(0, E::Listed(vec![SECOND.place.name()]));
    assert_eq!(mixed.names(first, PRESENT), asks_for(&[SECOND]));
}

/// Its listing shows only the name of its node. Another contender may have that in a directory that was made again.
#[test]
fn a_waiter_with_a_takeover_delay_asks_for_its_node_after_a_listing_that_shows_a_release() {
    let mut acquisition = waiting(Takeover::Mixed);
    let first = reply_to(0, E::ListedAfterRelease(vec![SECOND.place.name()]));
    assert_eq!(acquisition.hears(shown(0, E::PredecessorDeleted)), [single(0, A::List)]);
    assert_eq!(acquisition.names(first, PRESENT), asks_for(&[SECOND]));
    assert_eq!(acquisition.hears(reply(Report::Failed(0, E::OwnTouched))), [ended(0, End::NodeDeleted)]);
}

#[test]
fn a_takeover_delay_outlasts_what_was_seen_before() {
    let mut acquisition = waiting(Takeover::Delayed);
    let first = reply_to(0, E::Listed(vec![SECOND.place.name()]));
    assert_eq!(acquisition.hears(shown(0, E::PredecessorDeleted)), [single(0, A::List)]);
    assert_eq!(acquisition.hears(first), [single_on(0, A::Delay, UNSURE)]);
    assert_eq!(acquisition.names(shown(0, E::Delayed), PRESENT), asks_for(&[SECOND]));
}

/// A common ancestor of the queues may be gone, and other contenders may have the names of all nodes.
#[test]
fn a_node_that_is_touched_makes_all_doubtful() {
    let mut lost = both_guarded();
    assert_eq!(lost.hears(shown(1, E::OwnTouched)), [Effect::Tell(Outcome::Lost(Breach::Touched))]);
    assert_eq!(
        lost.hears(E::Forfeit.into()),
        [single_on(0, A::Delete(FIRST), UNSURE), single_on(1, A::Recover(SECOND), UNSURE)]
    );

    // A member that is first in its queue has not looked again yet.
    let mut first = half();
    let watch = single_on(0, A::WatchOwn(FIRST), UNSURE);
    assert_eq!(first.hears(shown(0, E::OwnTouched)), [watch]);
    assert_eq!(first.names(shown(1, E::PredecessorReleased), PRESENT), asks_for(&[FIRST, SECOND]));

    // A release that finds one node gone: the other one is looked at.
    let mut releasing = after(both_held(), vec![E::Release.into()]);
    assert_eq!(
        releasing.hears(reply(Report::Failed(0, E::Released(false)))),
        [single_on(1, A::Release(SECOND), UNSURE)]
    );
}

/// One member has been seen since its search, and another one is missing.
#[test]
fn a_node_that_is_not_found_makes_the_others_doubtful() {
    let found = reply_to(1, E::Recovered(Some(SECOND)));
    let first = reply_to(1, E::Listed(vec![SECOND.place.name()]));
    let watched = reply_to(1, E::OwnWatched(true));
    let mut acquisition = after(searching(two()), vec![found, first, watched]);
    let missing = || reply_to(0, E::Recovered(None));
    assert_eq!(acquisition.hears(missing()), [find(0, Search::After, Tries::default())]);
    assert_eq!(acquisition.hears(missing()), [single_on(1, A::Release(SECOND), UNSURE)]);
}

/// What our own requests remove is no news.
#[test]
fn our_own_removals_leave_the_rest_certain() {
    let mut leaving = Acquisition::new(Patience::Try, Arrival::New, [Takeover::AtOnce; 2]);
    leaving.hears(begin());
    let leaves = [single(1, A::Delete(SECOND)), single(0, A::Release(FIRST))];
    assert_eq!(leaving.hears(entered(&[alone(FIRST), behind(SECOND)])), leaves);
    assert_eq!(leaving.hears(reply_to(0, E::Released(true))), []);
    assert_eq!(leaving.certainty(Some(NOW)), SEEN);
    assert_eq!(leaving.hears(reply_to(1, E::Deleted)), [ended(1, End::Busy)]);
}

#[test]
fn a_create_that_was_lost_with_its_connection_is_in_any_search_on_the_next_one() {
    let found = |search| [find(0, search, Tries::default())];
    assert_eq!(entering().handle(Input::Lost(None), DOWN), found(Search::Present));
    // A server has answered, and its answer does not say whether there is a node.
    assert_eq!(entering().hears(reply(Report::All(E::Unanswered))), found(Search::After));

    let again = |search| [find(0, search, tries(1))];
    assert_eq!(searching(one()).handle(Input::Lost(Some(0)), DOWN), again(Search::Present));
    assert_eq!(searching(one()).hears(reply_to(0, E::Unanswered)), again(Search::After));
}

#[test]
fn a_create_whose_node_is_not_found_is_expected_late() {
    let late = Effect::ExpectLate(0);
    let missing = || reply_to(0, E::Recovered(None));
    let mut again = searching(one());
    let enter = Effect::All(T::Enter, UNSURE, tries(1));
    assert_eq!(again.hears(missing()), [late.clone(), enter]);
    // Once is enough.
    assert_eq!(again.hears(entered(&[alone(FIRST)])), [grant(&[FIRST])]);
    again.hears(E::Release.into());
    let done = reply(Report::All(E::Released(true)));
    assert_eq!(again.hears(done), [ended(0, End::Released)]);

    let mut in_vain = after(searching(one()), vec![E::GiveUp.into()]);
    assert_eq!(in_vain.hears(missing()), [late.clone(), ended(0, End::GivenUp)]);

    // Another search has found it, so nothing comes any more.
    let mut found = after(searching(two()), vec![missing(), reply_to(1, E::Recovered(Some(SECOND)))]);
    found.hears(reply_to(0, E::Recovered(Some(FIRST))));
    assert_eq!(found.hears(E::SessionOver(END).into()), [ended(0, End::SessionOver(END))]);
    // No other search has.
    let mut missed = after(searching(two()), vec![missing()]);
    assert_eq!(missed.hears(E::SessionOver(END).into()), [late, ended(0, End::SessionOver(END))]);
}

/// A node that was found gone after a release is no create that comes late.
#[test]
fn a_removal_that_was_done_leaves_nothing_to_expect() {
    let mut unknown = after(held(), vec![E::Release.into(), Input::Lost(None)]);
    assert_eq!(unknown.hears(reply_to(0, E::Recovered(None))), [ended(0, End::Released)]);
}

#[test]
fn a_node_that_nobody_can_identify_takes_the_session_with_it() {
    let refused = || reply_to(0, E::Refused(REFUSAL));
    let given_up = [Effect::EndSession(0, REFUSAL), ended(0, End::SessionOver(SessionEnd::Closed))];
    let removing = after(held(), vec![E::Release.into(), Input::Lost(None)]);
    let leaving = after(waiting(Takeover::AtOnce), vec![E::GiveUp.into(), Input::Lost(Some(0))]);
    for acquisition in [searching(one()), removing, leaving] {
        assert_eq!(acquisition.clone().hears(refused()), given_up);
        // Somebody else has given it up before.
        let over = [ended(0, End::SessionOver(END))];
        assert_eq!(acquisition.clone().handle(refused(), OVER), over);
    }
    // The others of the acquisition end with it.
    let mut several = searching(two());
    several.hears(reply_to(1, E::Recovered(Some(SECOND))));
    assert_eq!(several.hears(refused()), given_up);
    assert!(several.is_ended());
}

/// However the news of the end come, and although some say only that nobody answers.
#[test]
fn nothing_is_asked_in_a_session_that_is_over() {
    let end = || [ended(0, End::SessionOver(END))];
    for (acquisition, input, present) in [
        (entering(), E::SessionOver(END).into(), PRESENT),
        (entering(), reply(Report::All(E::SessionOver(END))), PRESENT),
        (waiting(Takeover::AtOnce), reply_to(0, E::SessionOver(END)), PRESENT),
        (waiting(Takeover::AtOnce), shown(0, E::SessionOver(END)), PRESENT),
        (entering(), Input::Lost(None), OVER),
        (entering(), reply(Report::All(E::Unanswered)), OVER),
        (searching(one()), Input::Lost(Some(0)), OVER),
        (searching(one()), reply_to(0, E::Unanswered), OVER),
        (waiting(Takeover::AtOnce), shown(0, E::WatchLost), OVER),
        (half(), reply_to(1, E::SessionOver(END)), PRESENT),
        (half(), shown(1, E::SessionOver(END)), PRESENT),
        (confirming(SHORT), Input::LeaseConfirmed, OVER),
        (confirming(SHORT), Input::NodesConfirmed(NOW), OVER),
    ] {
        assert_eq!(acquisition.clone().handle(input.clone(), present), end(), "{input:?}");
        assert_eq!(input.session_end(), (present == PRESENT).then_some(END), "{input:?}");
    }
    // A server has answered before the end.
    let mut released = after(held(), vec![E::Release.into()]);
    let done = reply(Report::All(E::Released(true)));
    assert_eq!(released.handle(done, OVER), [ended(0, End::Released)]);
}

#[test]
fn an_acquisition_that_has_waited_or_was_without_an_answer_has_queued() {
    assert_eq!(held().arrival(), Arrival::New);
    for acquisition in [
        waiting(Takeover::AtOnce),
        searching(one()),
        after(entering(), vec![entered(&[behind(SECOND)]), reply_to(0, E::PredecessorWatched(false))]),
        after(held(), vec![E::Settled.into(), reply_to(0, E::OwnWatched(true)), shown(0, E::WatchLost)]),
    ] {
        assert_eq!(acquisition.arrival(), Arrival::Queued, "{acquisition:?}");
    }
    let again = Acquisition::new(Patience::Wait, Arrival::Queued, [Takeover::AtOnce]);
    assert_eq!(again.arrival(), Arrival::Queued);
}

#[test]
fn requests_count_their_tries_for_all_and_for_each_member() {
    let lost = || Input::Lost(None);
    let mut creating = after(entering(), vec![reply(Report::All(E::NoDirectory))]);
    for failed in 1..4 {
        assert_eq!(creating.hears(lost()), [Effect::All(T::CreateDirectory, UNSURE, tries(failed))]);
    }
    let ready = reply(Report::All(E::DirectoryReady));
    assert_eq!(creating.hears(ready), [all(T::Enter, UNSURE)]);

    // A search that finds nothing has been answered, and a request was lost all the same.
    let mut member = after(searching(two()), vec![Input::Lost(Some(1)), Input::Lost(Some(1))]);
    assert_eq!(member.hears(Input::Lost(Some(1))), [find(1, Search::Present, tries(3))]);
    member.hears(reply_to(0, E::Recovered(None)));
    let enter = Effect::All(T::Enter, UNSURE, tries(1));
    let late = |member| Effect::ExpectLate(member);
    assert_eq!(member.hears(reply_to(1, E::Recovered(None))), [late(0), late(1), enter]);
    assert_eq!(
        member.hears(entered(&[alone(FIRST), (SECOND, Sight::Nothing)])),
        [single(1, A::List), single(0, A::WatchOwn(FIRST))]
    );

    let mut found = after(searching(one()), vec![Input::Lost(Some(0))]);
    assert_eq!(found.hears(reply_to(0, E::Recovered(Some(FIRST)))), [again(0, A::List)]);
    let mut again = after(searching(one()), vec![reply_to(0, E::Recovered(None))]);
    assert_eq!(again.handle(entered(&[alone(FIRST)]), SHORT), [all(T::Confirm, SEEN)]);

    // The caller's going is no answer, but a release begins anew.
    let mut leaving = after_at(LAPSED, confirming(LAPSED), vec![lost(), lost()]);
    let release = |certainty, failed| naming(&[FIRST], T::Release, certainty, tries(failed));
    assert_eq!(leaving.clone().names(E::GiveUp.into(), PRESENT), release(UNSURE, 2));
    leaving.hears(Input::LeaseConfirmed);
    assert_eq!(leaving.names(E::Release.into(), PRESENT), release(SEEN, 0));
}

#[test]
fn an_admitted_contender_asks_for_confirmation_unless_it_was_just_seen() {
    let begin = |connection| Acquisition::of_admitted(FIRST, connection).names(begin(), PRESENT);
    assert_eq!(begin(Some(NOW)).0, [grant(&[FIRST])]);
    for connection in [Some(BEFORE), None] {
        assert_eq!(begin(connection), asks_for(&[FIRST]));
    }
    let mut unwanted = Acquisition::of_admitted(FIRST, Some(NOW));
    assert_eq!(
        unwanted.names(E::GiveUp.into(), PRESENT),
        naming(&[FIRST], T::Release, UNSURE, Tries::default())
    );
}

#[test]
fn an_entry_that_is_not_sent_any_more_ends_the_acquisition() {
    let mut acquisition = after(entering(), vec![E::GiveUp.into()]);
    assert_eq!(acquisition.hears(E::Withheld.into()), [ended(0, End::GivenUp)]);
    assert!(acquisition.is_ended());
    assert_eq!(acquisition.hears(entered(&[alone(FIRST)])), []);
}
