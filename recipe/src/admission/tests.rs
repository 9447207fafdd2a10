//! Every transition of an admission, and the commands that follow from it.

use alloc::string::ToString;

use super::*;
use crate::contender::{Place, Sequence};
use crate::lease::SessionEnd;

const STOCK: Stock = Stock::Permits(2);
const KIND: Kind = Kind::Permit(1);

/// A pool of two with so many permits that are held.
fn seen(held: i32) -> Seen {
    let name = |number| Place { sequence: Sequence(number), kind: KIND }.name();
    Seen {
        data: vec![1],
        stock: Some(STOCK),
        version: 5,
        czxid: 7,
        children: (0..held).map(name).collect(),
        connection: 3,
    }
}

fn stated(stock: Stock) -> Stated {
    Stated { stock, changed: false }
}

fn looked(held: i32) -> Event {
    Event::Looked(Standing::Held, Some((seen(held), stated(STOCK))))
}

fn watched(held: i32) -> Event {
    Event::Watched(Some((seen(held), stated(STOCK))))
}

fn permit() -> Own {
    Own { place: Place { sequence: Sequence(9), kind: KIND }, czxid: 40 }
}

fn settled(standing: Standing) -> Event {
    Event::Settled(Settlement::Not(standing))
}

fn refusal() -> Refusal {
    Refusal::NotAuthorized
}

fn attempt() -> Command {
    Command::Attempt(KIND, seen(1))
}

fn tell(outcome: Outcome) -> Command {
    Command::Tell(outcome)
}

/// An acquisition of a permit of weight 1, after these events.
fn after(takeover: Takeover, patience: Patience, events: &[Event]) -> Admission {
    let mut admission = Admission::new(Wish::Permit(1), patience, takeover, Arrival::New);
    assert_eq!(admission.handle(Event::Begin), [Command::Look]);
    for event in events {
        admission.handle(event.clone());
    }
    admission
}

fn waiting(events: &[Event]) -> Admission {
    after(Takeover::AtOnce, Patience::Wait, events)
}

/// One that has lost the reply to an attempt, and then had its turnstile shown as held: it looks again, in doubt.
fn doubtful() -> Vec<Event> {
    vec![looked(1), Event::Unanswered, settled(Standing::Held)]
}

impl Admission {
    fn check<const N: usize>(&self, rows: [(Event, Vec<Command>); N]) {
        for (event, commands) in rows {
            let mut admission = self.clone();
            assert_eq!(admission.handle(event.clone()), commands, "{self:?}, {event:?}");
        }
    }
}

fn assert_ended(admission: &Admission, event: Event) {
    let mut admission = admission.clone();
    admission.handle(event);
    assert!(admission.is_ended(), "{admission:?}");
    assert_eq!(admission.handle(Event::SessionOver(SessionEnd::Expired)), []);
}

#[test]
fn looking() {
    waiting(&[]).check([
        (Event::Looked(Standing::Held, None), vec![Command::Create]),
        (looked(1), vec![attempt()]),
        (looked(2), vec![Command::Watch(seen(2))]),
        (Event::Looked(Standing::Touched, None), vec![Command::Forfeit, tell(Outcome::Displaced)]),
        (Event::Looked(Standing::Gone, None), vec![Command::Spend, tell(Outcome::Displaced)]),
        (Event::Unanswered, vec![Command::Look]),
        (Event::Refused(refusal()), vec![tell(Outcome::Refused(refusal())), Command::Depart]),
        (Event::SessionOver(SessionEnd::Expired), vec![Command::Depart, tell(Outcome::Displaced)]),
        (Event::GiveUp, vec![Command::Depart]),
        // No replies to a look.
        (Event::Delayed, vec![]),
        (Event::Admitted(permit()), vec![]),
    ]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let looked = |seen: Seen, stated| Event::Looked(Standing::Held, Some((seen, stated)));
    let three = Stock::Permits(3);
    let unfit = |misfit, stated| tell(Outcome::Unfit(misfit, STOCK, stated));
    let foreign = Seen { stock: None, ..seen(0) };
    let mut mixed = seen(0);
    mixed.children.push("slot-0-0000000000".to_string());
    waiting(&[]).check([
        (looked(foreign, stated(STOCK)), vec![tell(Outcome::Foreign), Command::Depart]),
        (looked(seen(0), stated(three)), vec![unfit(Misfit::Stock(STOCK), three), Command::Depart]),
        // What was seen may be older than what is stated.
        (looked(seen(0), Stated { stock: three, changed: true }), vec![Command::Look]),
        (looked(mixed, stated(STOCK)), vec![unfit(Misfit::Mixed, STOCK), Command::Depart]),
    ]);
    let at_its_end = Seen { version: -1, ..seen(0) };
    let mut admission = waiting(&[]);
    let told = admission.handle(looked(at_its_end, stated(STOCK)));
    assert!(
        matches!(told[..], [Command::Tell(Outcome::Refused(Refusal::Other(_))), Command::Depart]),
        "{told:?}"
    );
}

#[test]
fn waiting_for_room() {
    waiting(&[Event::Looked(Standing::Held, None)]).check([(Event::Created, vec![Command::Look])]);
    waiting(&[looked(2)]).check([
        (watched(2), vec![Command::Wait]),
        (watched(1), vec![attempt()]),
        (Event::Watched(None), vec![Command::Look]),
        (Event::Unanswered, vec![Command::Look]),
    ]);
    waiting(&[looked(2), watched(2)]).check([
        (Event::Changed, vec![Command::Look]),
        (Event::Touched, vec![Command::Forfeit, tell(Outcome::Displaced)]),
        (Event::GiveUp, vec![Command::Depart]),
    ]);
}

#[test]
fn attempting() {
    let admission = waiting(&[looked(1)]);
    admission.check([
        (Event::Admitted(permit()), vec![Command::Spend, tell(Outcome::Admitted(permit(), Some(3)))]),
        (
            Event::OtherPool(permit()),
            vec![Command::Spend, Command::GiveBack(permit(), Some(3)), tell(Outcome::Displaced)],
        ),
        (Event::PoolChanged, vec![Command::Look]),
        (Event::NotHeld, vec![Command::Forfeit, tell(Outcome::Displaced)]),
        (Event::Unanswered, vec![Command::Settle]),
        (Event::Refused(refusal()), vec![tell(Outcome::Refused(refusal())), Command::Depart]),
        (Event::SessionOver(SessionEnd::Expired), vec![Command::Depart, tell(Outcome::Displaced)]),
        // It goes on without its caller.
        (Event::GiveUp, vec![]),
    ]);
    assert_ended(&admission, Event::Admitted(permit()));
    assert_ended(&admission, Event::OtherPool(permit()));
    waiting(&[looked(1), Event::GiveUp]).check([
        (Event::Admitted(permit()), vec![Command::Spend, Command::GiveBack(permit(), Some(3))]),
        (Event::OtherPool(permit()), vec![Command::Spend, Command::GiveBack(permit(), Some(3))]),
        (Event::PoolChanged, vec![Command::Depart]),
        (Event::Unanswered, vec![Command::Settle]),
        (Event::Refused(refusal()), vec![Command::Depart]),
        (Event::SessionOver(SessionEnd::Expired), vec![Command::Depart]),
    ]);
}

#[test]
fn settling() {
    let admission = waiting(&[looked(1), Event::Unanswered]);
    let unclear = || Event::Settled(Settlement::Unclear(refusal()));
    admission.check([
        (
            Event::Settled(Settlement::Admitted(permit())),
            vec![Command::Spend, tell(Outcome::Admitted(permit(), None))],
        ),
        (settled(Standing::Held), vec![Command::Look]),
        (settled(Standing::Touched), vec![Command::ExpectLate, Command::Forfeit, tell(Outcome::Displaced)]),
        (settled(Standing::Gone), vec![Command::ExpectLate, Command::Spend, tell(Outcome::Displaced)]),
        (unclear(), vec![Command::EndSession(refusal()), Command::Depart, tell(Outcome::Displaced)]),
        (Event::Unanswered, vec![Command::Settle]),
        (Event::Refused(refusal()), vec![Command::Settle]),
        (Event::GiveUp, vec![]),
    ]);
    for event in [
        settled(Standing::Touched),
        settled(Standing::Gone),
        unclear(),
        Event::SessionOver(SessionEnd::Expired),
    ] {
        assert_ended(&admission, event);
    }
}

/// A server that still shows our node as held is behind, or may not tell us more.
#[test]
fn an_attempt_in_doubt_is_settled_when_the_turnstile_is_lost() {
    let displaced = vec![Command::ExpectLate, Command::Forfeit, tell(Outcome::Displaced)];
    let lost = [
        vec![Event::Looked(Standing::Gone, None)],
        vec![looked(2), watched(2), Event::Touched],
        vec![looked(1), Event::NotHeld],
    ];
    for lost in lost {
        let admission = waiting(&[doubtful(), lost].concat());
        admission.check([
            (settled(Standing::Held), displaced.clone()),
            (settled(Standing::Touched), displaced.clone()),
            (Event::Unanswered, vec![Command::Settle]),
            (
                Event::Settled(Settlement::Admitted(permit())),
                vec![Command::Spend, tell(Outcome::Admitted(permit(), None))],
            ),
        ]);
        let mut admission = admission;
        admission.handle(Event::Unanswered);
        admission.check([(settled(Standing::Held), displaced.clone())]);
    }
}

#[test]
fn an_attempt_in_doubt_is_looked_after_when_the_caller_has_gone() {
    let gone = [doubtful(), vec![Event::GiveUp]].concat();
    let mut admission = waiting(&doubtful());
    assert_eq!(admission.handle(Event::GiveUp), [Command::Depart, Command::Settle]);
    waiting(&gone).check([
        (settled(Standing::Held), vec![Command::Settle]),
        (Event::Unanswered, vec![Command::Settle]),
        (Event::Refused(refusal()), vec![Command::Settle]),
        (settled(Standing::Gone), vec![Command::ExpectLate]),
        (settled(Standing::Touched), vec![Command::ExpectLate]),
        (
            Event::Settled(Settlement::Admitted(permit())),
            vec![Command::Spend, Command::GiveBack(permit(), None)],
        ),
    ]);
    // One that is told fails in the same way.
    waiting(&doubtful()).check([
        (
            Event::Refused(refusal()),
            vec![tell(Outcome::Refused(refusal())), Command::Depart, Command::Settle],
        ),
        (
            Event::Looked(Standing::Touched, None),
            vec![Command::ExpectLate, Command::Forfeit, tell(Outcome::Displaced)],
        ),
    ]);
}

#[test]
fn one_that_tries_does_not_wait() {
    let tries = |takeover, events: &[Event]| after(takeover, Patience::Try, events);
    tries(Takeover::AtOnce, &[]).check([(looked(1), vec![attempt()]), (looked(2), vec![Command::Leave])]);
    let leaving = tries(Takeover::AtOnce, &[looked(2)]);
    leaving.check([
        (Event::Left, vec![tell(Outcome::Busy)]),
        (Event::SessionOver(SessionEnd::Expired), vec![Command::Depart, tell(Outcome::Displaced)]),
        (Event::GiveUp, vec![]),
    ]);
    assert_ended(&leaving, Event::Left);
    assert_ended(&leaving, Event::GiveUp);
    // A delay is a wait, too.
    tries(Takeover::Delayed, &[Event::Unanswered]).check([(looked(1), vec![Command::Leave])]);
    tries(Takeover::AtOnce, &doubtful())
        .check([(looked(2), vec![tell(Outcome::Busy), Command::Depart, Command::Settle])]);
}

#[test]
fn the_takeover_delay_comes_between_the_look_and_the_attempt() {
    let delayed = |events: &[Event]| after(Takeover::Delayed, Patience::Wait, events);
    delayed(&[]).check([(looked(1), vec![attempt()])]);
    for reason in [
        vec![looked(2), Event::Watched(None)],
        vec![Event::Unanswered],
        vec![looked(1), Event::PoolChanged],
        doubtful(),
    ] {
        delayed(&reason).check([(looked(1), vec![Command::Delay])]);
    }
    let mut queued = Admission::new(Wish::Permit(1), Patience::Wait, Takeover::Delayed, Arrival::Queued);
    assert_eq!(queued.handle(Event::Begin), [Command::Look]);
    queued.check([(looked(1), vec![Command::Delay])]);
    queued.handle(looked(1));
    queued.check([
        (Event::Delayed, vec![attempt()]),
        (Event::SessionOver(SessionEnd::Expired), vec![Command::Depart, tell(Outcome::Displaced)]),
        (Event::GiveUp, vec![Command::Depart]),
    ]);
}

#[test]
fn repetitions_pause_after_what_brings_nothing_on() {
    for event in [Event::Unanswered, Event::Refused(refusal()), settled(Standing::Held)] {
        assert!(!event.is_news(), "{event:?}");
    }
    for event in
        [Event::PoolChanged, Event::OtherPool(permit()), Event::NotHeld, looked(2), settled(Standing::Gone)]
    {
        assert!(event.is_news(), "{event:?}");
    }
}

#[test]
fn an_attempt_takes_effect_only_in_the_turnstile_and_in_the_pool_as_it_was_seen() {
    let expected = [
        Operation::Set(Target::Turnstile, Some(UNTOUCHED)),
        Operation::Create(Target::Permit(KIND)),
        Operation::Set(Target::Pool, Some(5)),
        Operation::Delete(Target::Turnstile, None),
    ];
    assert_eq!(super::attempt(KIND, 5), expected);
    for (target, problem, event) in [
        (Target::Turnstile, Problem::NoNode, Event::NotHeld),
        (Target::Turnstile, Problem::BadVersion, Event::NotHeld),
        (Target::Permit(KIND), Problem::NoNode, Event::PoolChanged),
        (Target::Pool, Problem::BadVersion, Event::PoolChanged),
    ] {
        assert_eq!(attempt_failed(target, problem), event);
    }
    let taken = attempt_failed(Target::Permit(KIND), Problem::NodeExists);
    assert!(matches!(taken, Event::Refused(Refusal::Other(_))));
}
