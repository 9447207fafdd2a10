//! What machines do over several events.

use super::exclusive::{alone, behind, events, paths};
use super::*;

#[test]
fn the_end_of_the_session_is_told_as_it_was() {
    for end in [SessionEnd::Expired, SessionEnd::Closed, SessionEnd::AuthFailed] {
        let (_, command) = run(Patience::Wait, &[E::Begin(Look::List), E::SessionOver(end)]);
        assert_eq!(command, Some(C::End(End::SessionOver(end))));
    }
}

#[test]
fn trying_takes_a_free_lock_as_waiting_does() {
    for patience in [Patience::Wait, Patience::Try] {
        for sight in [Sight::Count(1), Sight::Children(alone())] {
            let events = [
                E::Begin(Look::List),
                entered(sight),
                E::Confirmed(Term::FIRST),
                E::Release,
                E::Released(true),
            ];
            assert_eq!(
                commands(patience, &events),
                [
                    C::Together(T::Enter(Look::List)),
                    C::Together(T::Confirm),
                    C::Grant(OWN, Term::FIRST),
                    C::Alone(A::Release(OWN)),
                    C::End(End::Released)
                ],
            );
        }
    }
}

#[test]
fn trying_leaves_a_queue_with_others_in_it() {
    let left = [C::Alone(A::Delete(OWN)), C::End(End::Busy)];
    let seen = [E::Begin(Look::List), entered(Sight::Children(behind())), E::Deleted];
    assert_eq!(commands(Patience::Try, &seen)[1..], left);
    let listed = [E::Begin(Look::Count), entered(Sight::Count(3)), E::Listed(behind()), E::Deleted];
    assert_eq!(commands(Patience::Try, &listed)[1..], [&[C::Alone(A::List)], &left[..]].concat());
    let recovered =
        [E::Begin(Look::Count), E::Unanswered, E::Recovered(Some(OWN)), E::Listed(behind()), E::Deleted];
    assert_eq!(commands(Patience::Try, &recovered)[2..], [&[C::Alone(A::List)], &left[..]].concat());
}

#[test]
fn trying_lists_where_waiting_would_watch_the_number_before() {
    let counted = [E::Begin(Look::Count), entered(Sight::Count(3))];
    assert_eq!(run(Patience::Wait, &counted).1, Some(C::Alone(A::WatchPredecessor(NEXT_LOWER, OWN))));
    assert_eq!(run(Patience::Try, &counted).1, Some(C::Alone(A::List)));
}

/// The other one holds the lock, and its node is often gone before a watch arrives.
#[test]
fn the_second_of_two_lists() {
    for patience in [Patience::Wait, Patience::Try] {
        let counted = [E::Begin(Look::Count), entered(Sight::Count(2))];
        assert_eq!(run(patience, &counted).1, Some(C::Alone(A::List)));
    }
}

/// Thousands of waiters of one session lose their watches at once. Each asks for one node, and none for the queue.
#[test]
fn a_lost_watch_is_set_again_without_a_listing() {
    let waiting = [E::Begin(Look::Count), entered(Sight::Count(3)), E::PredecessorWatched(true)];
    let again = [E::WatchLost, E::Unanswered, E::PredecessorWatched(true), E::WatchLost];
    let watch = C::Alone(A::WatchPredecessor(NEXT_LOWER, OWN));
    assert_eq!(
        commands(Patience::Wait, &[&waiting[..], &again].concat())[1..],
        [watch.clone(), watch.clone(), watch.clone(), watch]
    );
    let gone = [&waiting[..], &[E::WatchLost, E::PredecessorWatched(false)]].concat();
    assert_eq!(run(Patience::Wait, &gone).1, Some(C::Alone(A::List)));
    // It may have vanished while nobody watched it.
    assert_eq!(run(Patience::Wait, &[&gone[..], &[E::Listed(alone())]].concat()).1, Some(C::Alone(A::Delay)));
}

#[test]
fn a_holder_sets_a_lost_watch_again() {
    let guarded = [
        E::Begin(Look::List),
        entered(Sight::Count(1)),
        E::Confirmed(Term::FIRST),
        E::Settled,
        E::OwnWatched(true),
    ];
    let deleted = [&guarded[..], &[E::WatchLost, E::Unanswered, E::OwnWatched(false)]].concat();
    let watch = C::Alone(A::WatchOwn(OWN));
    assert_eq!(commands(Patience::Wait, &deleted)[3..], [watch.clone(), watch.clone(), watch, C::Lose]);
}

#[test]
fn a_try_that_was_counted_third_can_still_be_first() {
    let events = [E::Begin(Look::Count), entered(Sight::Count(3)), E::Listed(writers(&[7, 8, 9]))];
    assert_eq!(run(Patience::Try, &events).1, Some(C::Together(T::Confirm)));
}

#[test]
fn nobody_comes_before_number_zero() {
    let own = Own { place: Place::exclusive(0), czxid: 1 };
    let counted = [E::Begin(Look::Count), E::Entered { own, sight: Sight::Count(3) }];
    assert_eq!(run(Patience::Wait, &counted).1, Some(C::Alone(A::List)));
}

#[test]
fn the_last_numbers_are_not_used() {
    for patience in [Patience::Wait, Patience::Try] {
        for (number, refused) in [
            (LAST_SEQUENCE, false),
            (LAST_SEQUENCE + 1, true),
            (i32::MAX, true),
            (-1, true),
            (i32::MIN, true),
        ] {
            let own = Own { place: Place::exclusive(number), czxid: 1 };
            let alone = Sight::Children(vec![own.place.name()]);
            for events in [
                vec![E::Begin(Look::List), E::Entered { own, sight: alone }, E::Deleted],
                vec![E::Begin(Look::List), E::Unanswered, E::Recovered(Some(own)), E::Deleted],
            ] {
                let commands = commands(patience, &events);
                let left = [C::Alone(A::Delete(own)), C::End(End::Exhausted(own.place.sequence))];
                assert_eq!(commands.ends_with(&left), refused, "{number}: {commands:?}");
            }
        }
    }
}

#[test]
fn children_that_are_no_contenders_are_passed_over() {
    let mut foreign = ["a", "lock-", "lock-1", "lock-+000000001", "read-0000000001", "lock-٠٠٠٠٠٠٠٠٠١"]
        .map(str::to_owned)
        .to_vec();
    foreign.extend(alone());
    let seen = [E::Begin(Look::List), entered(Sight::Children(foreign.clone()))];
    assert_eq!(run(Patience::Wait, &seen).1, Some(C::Together(T::Confirm)));
    foreign.push(LOWEST.name());
    let listed = [E::Begin(Look::List), entered(Sight::Nothing), E::Listed(foreign)];
    assert_eq!(run(Patience::Wait, &listed).1, Some(C::Alone(A::WatchPredecessor(LOWEST, OWN))));
}

#[test]
fn a_directory_that_is_reaped_again_is_created_again() {
    let events = [
        E::Begin(Look::Count),
        E::NoDirectory,
        E::DirectoryReady,
        E::NoDirectory,
        E::DirectoryReady,
        entered(Sight::Count(1)),
    ];
    let (mkdir, enter) = (C::Together(T::CreateDirectory), C::Together(T::Enter(Look::Count)));
    assert_eq!(
        commands(Patience::Wait, &events),
        [enter.clone(), mkdir.clone(), enter.clone(), mkdir, enter, C::Together(T::Confirm)],
    );
}

#[test]
fn a_lost_lock_is_left_by_whoever_finds_the_node_still_there() {
    let lost = [E::Begin(Look::List), entered(Sight::Count(1)), E::Confirmed(Term::FIRST), E::Settled];
    let lost = [&lost[..], &[E::OwnWatched(true), E::OwnTouched, E::GiveUp]].concat();
    let written = [&lost[..], &[E::Recovered(Some(OWN)), E::Deleted]].concat();
    assert_eq!(
        commands(Patience::Wait, &written)[4..],
        [C::Lose, C::Alone(A::Recover(OWN)), C::Alone(A::Delete(OWN)), C::End(End::NodeDeleted)],
    );
    let deleted = [&lost[..], &[E::Recovered(None)]].concat();
    assert_eq!(
        commands(Patience::Wait, &deleted)[4..],
        [C::Lose, C::Alone(A::Recover(OWN)), C::End(End::NodeDeleted)]
    );
}

#[test]
fn a_refusal_in_the_queue_is_told_once_the_node_is_gone() {
    let events = [
        E::Begin(Look::List),
        entered(Sight::Nothing),
        E::Refused(REFUSAL),
        E::Unanswered,
        E::Recovered(Some(OWN)),
        E::Deleted,
    ];
    assert_eq!(
        commands(Patience::Wait, &events)[2..],
        [
            C::Alone(A::Delete(OWN)),
            C::Alone(A::Recover(OWN)),
            C::Alone(A::Delete(OWN)),
            C::End(End::Refused(REFUSAL))
        ],
    );
}

/// Wherever one that waits with a takeover delay is delayed, a machine without one takes the lock. One that only tries
/// finds the lock busy.
#[test]
fn only_who_waits_with_a_delay_is_delayed() {
    let confirms = (Confirming(OWN), Some(C::Together(T::Confirm)));
    let is_busy = (Leaving(OWN, End::Busy), Some(C::Alone(A::Delete(OWN))));
    for (patience, takeover, expected) in [
        (Patience::Wait, Takeover::AtOnce, &confirms),
        (Patience::Try, Takeover::AtOnce, &confirms),
        (Patience::Try, Takeover::Delayed, &is_busy),
    ] {
        let mut delays = 0;
        for (state, path) in paths() {
            for event in events() {
                let (mut delayed, _) = run(Patience::Wait, &path);
                let mut machine = Machine::new(patience, takeover, New);
                machine.state = state.clone();
                if delayed.handle(event.clone()) == Some(C::Alone(A::Delay)) {
                    delays += 1;
                    let command = machine.handle(event.clone());
                    assert_eq!(&(machine.state, command), expected, "{state:?} on {event:?}");
                }
            }
        }
        assert_eq!(delays, 2);
    }
}

/// Nobody has seen how a holder went, and those behind it may have waited for it. If it took the lock, its release would
/// grant them at once.
#[test]
fn trying_does_not_take_a_lock_from_which_a_holder_may_have_vanished() {
    let busy = [C::Alone(A::Delete(OWN)), C::End(End::Busy)];
    let begin = || E::Begin(Look::Count);
    for before in [
        vec![begin(), E::Unanswered, E::Recovered(Some(OWN))],
        vec![begin(), entered(Sight::Nothing)],
        vec![begin(), entered(Sight::Count(3)), E::Unanswered],
    ] {
        let free = after(&before, &[E::Listed(alone()), E::Deleted]);
        assert_eq!(commands(Patience::Try, &free)[before.len()..], busy, "{before:?}");
        let confirmed = commands_with(Takeover::AtOnce, Patience::Try, &free);
        assert_eq!(confirmed[before.len()..], [C::Together(T::Confirm)], "{before:?}");
    }
    // It had its place in the session that ended.
    let mut machine = Machine::new(Patience::Try, Takeover::Delayed, Queued);
    machine.handle(begin());
    assert_eq!(machine.handle(entered(Sight::Count(1))), Some(busy[0].clone()));
    assert_eq!(machine.handle(E::Deleted), Some(busy[1].clone()));
}

#[test]
fn a_release_is_no_reason_for_a_delay_whoever_vanished_before() {
    let queued = [E::Begin(Look::List), entered(Sight::Children(behind())), E::PredecessorWatched(true)];
    let skipped = [E::PredecessorDeleted, E::Listed(behind()), E::PredecessorWatched(true)];
    let released = [&queued[..], &skipped, &[E::PredecessorReleased]].concat();
    assert_eq!(run(Patience::Wait, &released).1, Some(C::Together(T::Confirm)));
}

#[test]
fn whoever_vanished_before_we_had_anybody_to_wait_for_is_no_reason_for_a_delay() {
    let gone = [E::Begin(Look::Count), entered(Sight::Count(3)), E::PredecessorWatched(false)];
    assert_eq!(
        run(Patience::Wait, &[&gone[..], &[E::Listed(alone())]].concat()).1,
        Some(C::Together(T::Confirm))
    );
    let unseen = [&gone[..2], &[E::Unanswered, E::PredecessorWatched(false)]].concat();
    assert_eq!(
        run(Patience::Wait, &[&unseen[..], &[E::Listed(alone())]].concat()).1,
        Some(C::Alone(A::Delay))
    );
}

/// It had its place in the session that ended, and somebody may have vanished since.
#[test]
fn whoever_comes_again_is_delayed_though_it_finds_nobody() {
    for sight in [Sight::Count(1), Sight::Children(alone())] {
        let mut machine = Machine::new(Patience::Wait, Takeover::Delayed, Queued);
        machine.handle(E::Begin(Look::Count));
        assert_eq!(machine.handle(entered(sight)), Some(C::Alone(A::Delay)));
    }
    let mut machine = Machine::new(Patience::Wait, Takeover::Delayed, Queued);
    for event in [E::Begin(Look::Count), entered(Sight::Count(3)), E::PredecessorWatched(true)] {
        machine.handle(event);
    }
    assert_eq!(machine.handle(E::PredecessorReleased), Some(C::Together(T::Confirm)));
}

/// A reader (0) holds the lock. A writer (1), a reader (2) and a writer (3) wait, and the first of these writers gives up.
/// So the second reader holds the lock beside the first one.
fn a_writer_between_readers_has_given_up() -> [Machine; 4] {
    let places = [Place::shared(0), Place::exclusive(1), Place::shared(2), Place::exclusive(3)];
    let mut machines = places.map(|_| Machine::new(Patience::Wait, Takeover::Delayed, New));
    let mut command = None;
    let mut tell = |index: usize, events: &[Event]| {
        let handle = |_, event: &Event| machines[index].handle(event.clone());
        command = events.iter().fold(None, handle);
        command.clone()
    };
    for index in 0..places.len() {
        let own = Own { place: places[index], czxid: 70 };
        let sight = Sight::Children(names(&places[..=index]));
        let behind = index.checked_sub(1).map(|before| C::Alone(A::WatchPredecessor(places[before], own)));
        let entered = tell(index, &[E::Begin(Look::List), E::Entered { own, sight }]);
        assert_eq!(entered, behind.or(Some(C::Together(T::Confirm))));
        if index > 0 {
            assert_eq!(tell(index, &[E::PredecessorWatched(true)]), None);
        }
    }
    let own = |index: usize| Own { place: places[index], czxid: 70 };
    assert_eq!(tell(0, &[E::Confirmed(Term::FIRST)]), Some(C::Grant(own(0), Term::FIRST)));
    assert_eq!(tell(1, &[E::GiveUp]), Some(C::Alone(A::Delete(own(1)))));
    assert_eq!(tell(2, &[E::PredecessorDeleted]), Some(C::Alone(A::Delay)));
    assert_eq!(tell(2, &[E::Delayed, E::Confirmed(Term::FIRST)]), Some(C::Grant(own(2), Term::FIRST)));
    machines
}

/// The first reader vanishes, and nobody watches it. The second one is released.
#[test]
fn a_reader_that_vanished_in_front_of_a_writer_that_gave_up_delays_the_next_writer() {
    let [.., mut writer] = a_writer_between_readers_has_given_up();
    assert_eq!(writer.handle(E::PredecessorReleased), Some(C::Alone(A::List)));
    assert_eq!(writer.handle(E::Listed(names(&[Place::exclusive(3)]))), Some(C::Alone(A::Delay)));
    assert_eq!(writer.handle(E::Delayed), Some(C::Together(T::Confirm)));
}

/// The writer has watched both readers release the lock, so nothing is in flight.
#[test]
fn readers_on_both_sides_of_a_writer_that_gave_up_delay_nobody_if_they_release() {
    let [.., mut writer] = a_writer_between_readers_has_given_up();
    let (first, own) = (Place::shared(0), Place::exclusive(3));
    assert_eq!(writer.handle(E::PredecessorReleased), Some(C::Alone(A::List)));
    let own_node = Own { place: own, czxid: 70 };
    assert_eq!(writer.handle(E::Listed(names(&[first, own]))), watched_by(own_node, first));
    assert_eq!(writer.handle(E::PredecessorWatched(true)), None);
    assert_eq!(writer.handle(E::PredecessorReleased), Some(C::Together(T::Confirm)));
}
