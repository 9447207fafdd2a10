//! Groups that end before their grant, or by parts.

use super::*;

#[test]
fn a_caller_that_goes_early_leaves_nothing_behind() {
    assert_eq!(pair().handle(All(E::GiveUp)), [ended(0, End::GivenUp)]);

    // The create is under way, and only its reply shows what to delete.
    let mut group = entering();
    assert_eq!(group.handle(All(E::GiveUp)), []);
    assert_eq!(
        group.handle(Entered(vec![alone(FIRST), behind(SECOND)])),
        [delete(0, FIRST), delete(1, SECOND)]
    );
    assert_eq!(group.handle(One(1, E::Deleted)), []);
    assert_eq!(group.handle(One(0, E::Deleted)), [ended(0, End::GivenUp)]);

    for [first, then] in [
        [All(E::GiveUp), All(E::NoDirectory)],
        [All(E::GiveUp), Failed(1, E::Refused(REFUSAL))],
        [All(E::NoDirectory), All(E::GiveUp)],
    ] {
        assert_eq!(after(entering(), vec![first]).handle(then), [ended(0, End::GivenUp)]);
    }
}

#[test]
fn a_caller_that_goes_as_all_are_first_has_all_released_at_once() {
    for mut group in [confirming(), held()] {
        assert_eq!(group.handle(All(E::GiveUp)), [O::All(T::Release)]);
        assert!(group.nodes().eq([FIRST, SECOND]));
        assert_eq!(group.handle(All(E::Released(true))), [ended(0, End::Released)]);
    }
}

/// One transaction creates all nodes or none.
#[test]
fn a_lost_create_is_found_by_each() {
    let lost = || after(entering(), vec![All(E::Unanswered)]);
    assert_eq!(entering().handle(All(E::Unanswered)), [find(0), find(1)]);

    let mut found = lost();
    assert_eq!(found.handle(One(1, E::Recovered(Some(SECOND)))), [O::One(1, A::List)]);
    assert_eq!(found.handle(One(0, E::Unanswered)), [find(0)]);
    assert_eq!(found.handle(One(0, E::Recovered(Some(FIRST)))), [O::One(0, A::List)]);

    let mut in_vain = lost();
    assert_eq!(in_vain.handle(One(1, E::Recovered(None))), []);
    assert_eq!(in_vain.handle(One(0, E::Recovered(None))), [enter()]);
}

/// Somebody has deleted the node that is missing. The one that is there must not stay.
#[test]
fn a_create_of_which_a_part_is_missing_is_left() {
    let found = || One(1, E::Recovered(Some(SECOND)));
    let missing = || One(0, E::Recovered(None));
    let end = || ended(0, End::NodeDeleted);

    // However the searches end: each time the member has searched again since the other one's node was found.
    for found_first in [true, false] {
        let searches = if found_first { [found(), missing()] } else { [missing(), found()] };
        let mut group = after(entering(), [vec![All(E::Unanswered)], searches.to_vec()].concat());
        assert_eq!(group.handle(missing()), [delete(1, SECOND)]);
        assert_eq!(group.handle(One(1, E::Deleted)), [end()]);
    }

    // A member that is first already has asked for its own watch.
    let mut parked = after(entering(), vec![All(E::Unanswered), found()]);
    let listed = One(1, E::Listed(vec![SECOND.place.name()]));
    assert_eq!(parked.handle(listed), [watch_own(1, SECOND)]);
    assert_eq!(parked.handle(missing()), [find(0)]);
    assert_eq!(parked.handle(missing()), [release(1, SECOND)]);
    assert_eq!(parked.handle(One(1, E::Released(true))), [end()]);
}

#[test]
fn a_caller_that_goes_while_a_create_is_searched_for_leaves_what_is_found() {
    let mut group = after(entering(), vec![All(E::Unanswered), One(0, E::Recovered(None))]);
    // The create that the first member would repeat is not sent.
    assert_eq!(group.handle(All(E::GiveUp)), []);
    assert_eq!(group.handle(One(1, E::Recovered(Some(SECOND)))), [delete(1, SECOND)]);
    assert_eq!(group.handle(One(1, E::Deleted)), [ended(0, End::GivenUp)]);
}

#[test]
fn a_create_that_is_refused_to_one_ends_all() {
    for (member, creating) in [(0, false), (1, false), (1, true)] {
        let before = if creating { vec![All(E::NoDirectory)] } else { vec![] };
        let mut group = after(entering(), before);
        assert_eq!(group.handle(Failed(member, E::Refused(REFUSAL))), [ended(member, End::Refused(REFUSAL))]);
    }
}

#[test]
fn a_look_that_ends_one_has_the_others_leave() {
    let entered = Entered(vec![alone(FIRST), (SECOND, Sight::Count(3))]);
    for (event, end) in
        [(E::Refused(REFUSAL), End::Refused(REFUSAL)), (E::Foreign(stranger()), End::Foreign(stranger()))]
    {
        let mut group = after(entering(), vec![entered.clone()]);
        assert_eq!(group.handle(One(1, event)), [delete(1, SECOND), release(0, FIRST)]);
        assert_eq!(group.handle(One(1, E::Deleted)), []);
        assert_eq!(group.handle(One(0, E::Released(true))), [ended(1, end)]);
    }
}

#[test]
fn a_number_that_is_too_high_ends_all() {
    let last = Own { place: QueuePlace::exclusive(i32::MAX), czxid: CZXID };
    let mut group = entering();
    assert_eq!(group.handle(Entered(vec![behind(FIRST), alone(last)])), [delete(1, last), delete(0, FIRST)]);
    assert_eq!(group.handle(One(1, E::Deleted)), []);
    let end = End::Exhausted(Sequence(i32::MAX));
    assert_eq!(group.handle(One(0, E::Deleted)), [ended(1, end)]);
}

#[test]
fn trying_ends_as_soon_as_one_queue_is_taken() {
    let mut taken = after(group([Patience::Try; 2]), vec![begin()]);
    let entered = Entered(vec![alone(FIRST), behind(SECOND)]);
    assert_eq!(taken.handle(entered), [delete(1, SECOND), release(0, FIRST)]);
    assert_eq!(taken.handle(One(0, E::Released(true))), []);
    assert_eq!(taken.handle(One(1, E::Deleted)), [ended(1, End::Busy)]);
}

/// An operator deletes the node of the member that is first, while the other one waits.
#[test]
fn a_member_whose_node_is_deleted_takes_the_others_with_it() {
    let mut group = half();
    assert_eq!(group.handle(One(0, E::OwnTouched)), [watch_own(0, FIRST)]);
    assert_eq!(group.handle(One(0, E::OwnWatched(false))), [delete(1, SECOND)]);
    assert_eq!(group.handle(One(1, E::Deleted)), [ended(0, End::NodeDeleted)]);
}

#[test]
fn a_confirmation_that_finds_a_node_gone_has_the_others_released() {
    let mut group = confirming();
    assert_eq!(group.handle(Failed(1, E::OwnTouched)), [release(0, FIRST)]);
    assert_eq!(group.handle(One(0, E::Released(true))), [ended(1, End::NodeDeleted)]);
}

/// No grant comes of it: what follows is another confirmation of all, or none.
#[test]
fn a_confirmation_that_fails_is_asked_for_again() {
    for reply in [All(E::Unanswered), Failed(0, E::Unanswered), Failed(1, E::Withheld)] {
        assert_eq!(confirming().handle(reply), [O::All(T::Confirm)]);
    }
}

#[test]
fn a_confirmation_that_is_refused_has_all_leave() {
    let mut group = confirming();
    assert_eq!(group.handle(Failed(0, E::Refused(REFUSAL))), [delete(0, FIRST), release(1, SECOND)]);
    assert_eq!(group.handle(One(1, E::Released(true))), []);
    assert_eq!(group.handle(One(0, E::Deleted)), [ended(0, End::Refused(REFUSAL))]);
}

#[test]
fn a_release_that_is_lost_is_looked_for_by_each() {
    let mut done = releasing();
    assert_eq!(done.handle(All(E::Unanswered)), [recover(0, FIRST), recover(1, SECOND)]);
    assert_eq!(done.handle(One(1, E::Recovered(None))), []);
    assert_eq!(done.handle(One(0, E::Recovered(None))), [ended(0, End::Released)]);

    let mut undone = after(releasing(), vec![All(E::Unanswered)]);
    assert_eq!(undone.handle(One(0, E::Recovered(Some(FIRST)))), [release(0, FIRST)]);
}

#[test]
fn a_release_that_is_refused_to_one_deletes_its_node() {
    let mut group = releasing();
    assert_eq!(group.handle(Failed(1, E::Refused(REFUSAL))), [release(0, FIRST), delete(1, SECOND)]);
    assert_eq!(group.handle(One(0, E::Released(true))), []);
    assert_eq!(group.handle(One(1, E::Deleted)), [ended(0, End::Released)]);
}

/// The node stays for as long as the session, so the caller must learn of it, whatever the cause of the end.
#[test]
fn a_deletion_that_is_refused_is_told_instead_of_the_cause() {
    let refused = |member| [ended(member, End::Refused(REFUSAL))];

    let mut group = after(half(), vec![All(E::GiveUp), One(0, E::Released(true))]);
    assert_eq!(group.handle(One(1, E::Refused(REFUSAL))), refused(1));

    // Somebody has deleted the first member's node.
    let mut group = after(half(), vec![One(0, E::OwnWatched(false))]);
    assert_eq!(group.handle(One(1, E::Refused(REFUSAL))), refused(1));

    // Another client was in the second queue.
    let entered = Entered(vec![alone(FIRST), (SECOND, Sight::Foreign(stranger()))]);
    let mut group = after(entering(), vec![entered, One(0, E::Refused(REFUSAL))]);
    assert_eq!(group.handle(One(0, E::Refused(REFUSAL))), []);
    assert_eq!(group.handle(One(1, E::Deleted)), refused(0));

    // A holder's node was deleted, and the other one cannot be.
    let mut group = after(releasing(), vec![Failed(0, E::Released(false)), One(1, E::Refused(REFUSAL))]);
    assert_eq!(group.handle(One(1, E::Refused(REFUSAL))), refused(1));
}

/// A refusal before the end is a cause like any other, and does not take the place of an earlier one.
#[test]
fn a_request_that_is_refused_is_told_only_if_it_is_the_cause() {
    let sights = [(FIRST, Sight::Foreign(stranger())), (SECOND, Sight::Count(3))];
    let mut group = after(entering(), vec![Entered(sights.to_vec()), One(1, E::Deleted)]);
    assert_eq!(group.handle(One(0, E::Deleted)), [ended(0, End::Foreign(stranger()))]);
}
