//! What differs for a contender that only tries, that has no takeover delay or that comes again, and at the ends of the
//! numbers.

use super::exclusive::{behind, scene};
use super::*;

fn alone() -> Vec<String> {
    names(&[OWN.place])
}

#[test]
fn trying_takes_a_free_lock_and_leaves_another() {
    let counted = entered(Sight::Count(3));
    let confirms = || vec![C::Together(T::Confirm)];
    let left = || vec![C::Alone(A::Delete(OWN)), C::End(End::Busy)];
    for (events, listed, last) in [
        (vec![E::Begin, entered(Sight::Count(1))], false, confirms()),
        (vec![E::Begin, entered(Sight::Children(alone()))], false, confirms()),
        (vec![E::Begin, entered(Sight::Children(behind())), E::Deleted], false, left()),
        // It does not watch the number before, as one does that waits.
        (vec![E::Begin, counted.clone(), E::Listed(behind()), E::Deleted], true, left()),
        (vec![E::Begin, counted, E::Listed(names(&[OWN.place, QueuePlace::exclusive(8)]))], true, confirms()),
    ] {
        let expected = [vec![C::Alone(A::List); usize::from(listed)], last].concat();
        assert_eq!(commands(Takeover::Delayed, Patience::Try, &events)[1..], expected, "{events:?}");
    }
}

#[test]
fn nobody_comes_before_number_zero() {
    let own = Own { place: QueuePlace::exclusive(0), czxid: 1 };
    let counted = [E::Begin, E::Entered { own, sight: Sight::Count(3) }];
    assert_eq!(run(Patience::Wait, &counted).1, Some(C::Alone(A::List)));
}

#[test]
fn the_last_numbers_are_not_used() {
    for (number, refused) in [(LAST_SEQUENCE, false), (LAST_SEQUENCE + 1, true), (i32::MAX, true), (-1, true)]
    {
        let own = Own { place: QueuePlace::exclusive(number), czxid: 1 };
        let sight = Sight::Children(vec![own.place.name()]);
        for found in [vec![E::Entered { own, sight }], vec![E::Unanswered, E::Recovered(Some(own))]] {
            let events = [vec![E::Begin], found, vec![E::Deleted]].concat();
            let commands = commands(Takeover::Delayed, Patience::Wait, &events);
            let left = [C::Alone(A::Delete(own)), C::End(End::Exhausted(own.place.sequence))];
            assert_eq!(commands.ends_with(&left), refused, "{number}: {commands:?}");
        }
    }
}

/// Wherever one that waits with a takeover delay is delayed, a machine without one takes the lock. One that only tries
/// finds the lock busy: those behind a holder that vanished may have waited for it, and a release would grant them at
/// once.
#[test]
fn only_who_waits_with_a_delay_is_delayed() {
    let confirms = (Confirming(OWN, Seen), Some(C::Together(T::Confirm)));
    let is_busy = (Leaving(OWN, End::Busy), Some(C::Alone(A::Delete(OWN))));
    for (patience, takeover, expected) in [
        (Patience::Wait, Takeover::AtOnce, &confirms),
        (Patience::Try, Takeover::AtOnce, &confirms),
        (Patience::Try, Takeover::Delayed, &is_busy),
    ] {
        let mut delays = 0;
        for (state, path) in scene().paths() {
            for event in scene().events() {
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

/// It had its place in the session that ended, and somebody may have vanished since.
#[test]
fn whoever_comes_again_is_delayed_though_it_finds_nobody() {
    for (patience, command) in
        [(Patience::Wait, C::Alone(A::Delay)), (Patience::Try, C::Alone(A::Delete(OWN)))]
    {
        for sight in [Sight::Count(1), Sight::Children(alone())] {
            let mut machine = Machine::new(patience, Takeover::Delayed, Queued);
            machine.handle(E::Begin);
            assert_eq!(machine.handle(entered(sight)), Some(command.clone()));
        }
    }
}
