//! Every transition of an admission, and the commands that follow from it.

use alloc::string::ToString;

use super::*;
use crate::contender::{QueuePlace, Sequence};
use crate::lease::SessionEnd;

const STOCK: Stock = Stock::Permits(2);
const KIND: Kind = Kind::Permit(1);

/// A pool of two with so many permits that are held.
fn seen(held: i32) -> SeenPool {
    let name = |number| QueuePlace { sequence: Sequence(number), kind: KIND }.name();
    SeenPool {
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

fn looked(held: i32) -> AdmissionEvent {
    AdmissionEvent::Looked(TurnstileStanding::Held, Some((seen(held), stated(STOCK))))
}

fn watched(held: i32) -> AdmissionEvent {
    AdmissionEvent::Watched(Some((seen(held), stated(STOCK))))
}

fn permit() -> Own {
    Own { place: QueuePlace { sequence: Sequence(9), kind: KIND }, czxid: 40 }
}

fn settled(standing: TurnstileStanding) -> AdmissionEvent {
    AdmissionEvent::Recovered(AttemptFate::Not(standing))
}

fn refusal() -> Refusal {
    Refusal::NotAuthorized
}

fn attempt() -> AdmissionCommand {
    AdmissionCommand::Attempt(KIND, seen(1))
}

fn tell(outcome: AdmissionOutcome) -> AdmissionCommand {
    AdmissionCommand::Tell(outcome)
}

/// An acquisition of a permit of weight 1, after these events.
fn after(takeover: Takeover, patience: Patience, events: &[AdmissionEvent]) -> Admission {
    let mut admission = Admission::new(Wish::Permit(1), patience, takeover, Arrival::New);
    assert_eq!(admission.handle(AdmissionEvent::Begin), [AdmissionCommand::Look]);
    for event in events {
        admission.handle(event.clone());
    }
    admission
}

fn waiting(events: &[AdmissionEvent]) -> Admission {
    after(Takeover::AtOnce, Patience::Wait, events)
}

/// One that has lost the reply to an attempt, and then had its turnstile shown as held: it looks again, in doubt.
fn doubtful() -> Vec<AdmissionEvent> {
    vec![looked(1), AdmissionEvent::Unanswered, settled(TurnstileStanding::Held)]
}

impl Admission {
    fn check<const N: usize>(&self, rows: [(AdmissionEvent, Vec<AdmissionCommand>); N]) {
        for (event, commands) in rows {
            let mut admission = self.clone();
            assert_eq!(admission.handle(event.clone()), commands, "{self:?}, {event:?}");
        }
    }
}

fn assert_ended(admission: &Admission, event: AdmissionEvent) {
    let mut admission = admission.clone();
    admission.handle(event);
    assert!(admission.is_ended(), "{admission:?}");
    assert_eq!(admission.handle(AdmissionEvent::SessionOver(SessionEnd::Expired)), []);
}

#[test]
fn looking() {
    waiting(&[]).check([
        (AdmissionEvent::Looked(TurnstileStanding::Held, None), vec![AdmissionCommand::Create]),
        (looked(1), vec![attempt()]),
        (looked(2), vec![AdmissionCommand::Watch(seen(2))]),
        (
            AdmissionEvent::Looked(TurnstileStanding::Touched, None),
            vec![AdmissionCommand::Forfeit, tell(AdmissionOutcome::Displaced)],
        ),
        (
            AdmissionEvent::Looked(TurnstileStanding::Gone, None),
            vec![AdmissionCommand::Spend, tell(AdmissionOutcome::Displaced)],
        ),
        (AdmissionEvent::Unanswered, vec![AdmissionCommand::Look]),
        (
            AdmissionEvent::Refused(refusal()),
            vec![tell(AdmissionOutcome::Refused(refusal())), AdmissionCommand::Depart],
        ),
        (
            AdmissionEvent::SessionOver(SessionEnd::Expired),
            vec![AdmissionCommand::Depart, tell(AdmissionOutcome::Displaced)],
        ),
        (AdmissionEvent::GiveUp, vec![AdmissionCommand::Depart]),
        // No replies to a look.
        (AdmissionEvent::Delayed, vec![]),
        (AdmissionEvent::Admitted(permit()), vec![]),
    ]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let looked =
        |seen: SeenPool, stated| AdmissionEvent::Looked(TurnstileStanding::Held, Some((seen, stated)));
    let three = Stock::Permits(3);
    let unfit = |misfit, stated| tell(AdmissionOutcome::Unfit(misfit, STOCK, stated));
    let foreign = SeenPool { stock: None, ..seen(0) };
    let mut mixed = seen(0);
    mixed.children.push("slot-0-0000000000".to_string());
    waiting(&[]).check([
        (looked(foreign, stated(STOCK)), vec![tell(AdmissionOutcome::Foreign), AdmissionCommand::Depart]),
        (looked(seen(0), stated(three)), vec![unfit(Misfit::Stock(STOCK), three), AdmissionCommand::Depart]),
        // What was seen may be older than what is stated.
        (looked(seen(0), Stated { stock: three, changed: true }), vec![AdmissionCommand::Look]),
        (looked(mixed, stated(STOCK)), vec![unfit(Misfit::Mixed, STOCK), AdmissionCommand::Depart]),
    ]);
    let at_its_end = SeenPool { version: -1, ..seen(0) };
    let mut admission = waiting(&[]);
    let told = admission.handle(looked(at_its_end, stated(STOCK)));
    assert!(
        matches!(
            told[..],
            [AdmissionCommand::Tell(AdmissionOutcome::Refused(Refusal::Other(_))), AdmissionCommand::Depart]
        ),
        "{told:?}"
    );
}

#[test]
fn waiting_for_room() {
    waiting(&[AdmissionEvent::Looked(TurnstileStanding::Held, None)])
        .check([(AdmissionEvent::Created, vec![AdmissionCommand::Look])]);
    waiting(&[looked(2)]).check([
        (watched(2), vec![AdmissionCommand::Wait]),
        (watched(1), vec![attempt()]),
        (AdmissionEvent::Watched(None), vec![AdmissionCommand::Look]),
        (AdmissionEvent::Unanswered, vec![AdmissionCommand::Look]),
    ]);
    waiting(&[looked(2), watched(2)]).check([
        (AdmissionEvent::Changed, vec![AdmissionCommand::Look]),
        (AdmissionEvent::Touched, vec![AdmissionCommand::Forfeit, tell(AdmissionOutcome::Displaced)]),
        (AdmissionEvent::GiveUp, vec![AdmissionCommand::Depart]),
    ]);
}

#[test]
fn attempting() {
    let admission = waiting(&[looked(1)]);
    admission.check([
        (
            AdmissionEvent::Admitted(permit()),
            vec![AdmissionCommand::Spend, tell(AdmissionOutcome::Admitted(permit(), Some(3)))],
        ),
        (
            AdmissionEvent::OtherPool(permit()),
            vec![
                AdmissionCommand::Spend,
                AdmissionCommand::GiveBack(permit(), Some(3)),
                tell(AdmissionOutcome::Displaced),
            ],
        ),
        (AdmissionEvent::PoolChanged, vec![AdmissionCommand::Look]),
        (AdmissionEvent::NotHeld, vec![AdmissionCommand::Forfeit, tell(AdmissionOutcome::Displaced)]),
        (AdmissionEvent::Unanswered, vec![AdmissionCommand::Recover]),
        (
            AdmissionEvent::Refused(refusal()),
            vec![tell(AdmissionOutcome::Refused(refusal())), AdmissionCommand::Depart],
        ),
        (
            AdmissionEvent::SessionOver(SessionEnd::Expired),
            vec![AdmissionCommand::Depart, tell(AdmissionOutcome::Displaced)],
        ),
        // It goes on without its caller.
        (AdmissionEvent::GiveUp, vec![]),
    ]);
    assert_ended(&admission, AdmissionEvent::Admitted(permit()));
    assert_ended(&admission, AdmissionEvent::OtherPool(permit()));
    waiting(&[looked(1), AdmissionEvent::GiveUp]).check([
        (
            AdmissionEvent::Admitted(permit()),
            vec![AdmissionCommand::Spend, AdmissionCommand::GiveBack(permit(), Some(3))],
        ),
        (
            AdmissionEvent::OtherPool(permit()),
            vec![AdmissionCommand::Spend, AdmissionCommand::GiveBack(permit(), Some(3))],
        ),
        (AdmissionEvent::PoolChanged, vec![AdmissionCommand::Depart]),
        (AdmissionEvent::Unanswered, vec![AdmissionCommand::Recover]),
        (AdmissionEvent::Refused(refusal()), vec![AdmissionCommand::Depart]),
        (AdmissionEvent::SessionOver(SessionEnd::Expired), vec![AdmissionCommand::Depart]),
    ]);
}

#[test]
fn settling() {
    let admission = waiting(&[looked(1), AdmissionEvent::Unanswered]);
    let unclear = || AdmissionEvent::Recovered(AttemptFate::Unclear(refusal()));
    admission.check([
        (
            AdmissionEvent::Recovered(AttemptFate::Admitted(permit())),
            vec![AdmissionCommand::Spend, tell(AdmissionOutcome::Admitted(permit(), None))],
        ),
        (settled(TurnstileStanding::Held), vec![AdmissionCommand::Look]),
        (
            settled(TurnstileStanding::Touched),
            vec![AdmissionCommand::ExpectLate, AdmissionCommand::Forfeit, tell(AdmissionOutcome::Displaced)],
        ),
        (
            settled(TurnstileStanding::Gone),
            vec![AdmissionCommand::ExpectLate, AdmissionCommand::Spend, tell(AdmissionOutcome::Displaced)],
        ),
        (
            unclear(),
            vec![
                AdmissionCommand::EndSession(refusal()),
                AdmissionCommand::Depart,
                tell(AdmissionOutcome::Displaced),
            ],
        ),
        (AdmissionEvent::Unanswered, vec![AdmissionCommand::Recover]),
        (AdmissionEvent::Refused(refusal()), vec![AdmissionCommand::Recover]),
        (AdmissionEvent::GiveUp, vec![]),
    ]);
    for event in [
        settled(TurnstileStanding::Touched),
        settled(TurnstileStanding::Gone),
        unclear(),
        AdmissionEvent::SessionOver(SessionEnd::Expired),
    ] {
        assert_ended(&admission, event);
    }
}

/// A server that still shows our node as held is behind, or may not tell us more.
#[test]
fn an_attempt_in_doubt_is_settled_when_the_turnstile_is_lost() {
    let displaced =
        vec![AdmissionCommand::ExpectLate, AdmissionCommand::Forfeit, tell(AdmissionOutcome::Displaced)];
    let lost = [
        vec![AdmissionEvent::Looked(TurnstileStanding::Gone, None)],
        vec![looked(2), watched(2), AdmissionEvent::Touched],
        vec![looked(1), AdmissionEvent::NotHeld],
    ];
    for lost in lost {
        let admission = waiting(&[doubtful(), lost].concat());
        admission.check([
            (settled(TurnstileStanding::Held), displaced.clone()),
            (settled(TurnstileStanding::Touched), displaced.clone()),
            (AdmissionEvent::Unanswered, vec![AdmissionCommand::Recover]),
            (
                AdmissionEvent::Recovered(AttemptFate::Admitted(permit())),
                vec![AdmissionCommand::Spend, tell(AdmissionOutcome::Admitted(permit(), None))],
            ),
        ]);
        let mut admission = admission;
        admission.handle(AdmissionEvent::Unanswered);
        admission.check([(settled(TurnstileStanding::Held), displaced.clone())]);
    }
}

#[test]
fn an_attempt_in_doubt_is_looked_after_when_the_caller_has_gone() {
    let gone = [doubtful(), vec![AdmissionEvent::GiveUp]].concat();
    let mut admission = waiting(&doubtful());
    assert_eq!(
        admission.handle(AdmissionEvent::GiveUp),
        [AdmissionCommand::Depart, AdmissionCommand::Recover]
    );
    waiting(&gone).check([
        (settled(TurnstileStanding::Held), vec![AdmissionCommand::Recover]),
        (AdmissionEvent::Unanswered, vec![AdmissionCommand::Recover]),
        (AdmissionEvent::Refused(refusal()), vec![AdmissionCommand::Recover]),
        (settled(TurnstileStanding::Gone), vec![AdmissionCommand::ExpectLate]),
        (settled(TurnstileStanding::Touched), vec![AdmissionCommand::ExpectLate]),
        (
            AdmissionEvent::Recovered(AttemptFate::Admitted(permit())),
            vec![AdmissionCommand::Spend, AdmissionCommand::GiveBack(permit(), None)],
        ),
    ]);
    // One that is told fails in the same way.
    waiting(&doubtful()).check([
        (
            AdmissionEvent::Refused(refusal()),
            vec![
                tell(AdmissionOutcome::Refused(refusal())),
                AdmissionCommand::Depart,
                AdmissionCommand::Recover,
            ],
        ),
        (
            AdmissionEvent::Looked(TurnstileStanding::Touched, None),
            vec![AdmissionCommand::ExpectLate, AdmissionCommand::Forfeit, tell(AdmissionOutcome::Displaced)],
        ),
    ]);
}

#[test]
fn one_that_tries_does_not_wait() {
    let tries = |takeover, events: &[AdmissionEvent]| after(takeover, Patience::Try, events);
    tries(Takeover::AtOnce, &[])
        .check([(looked(1), vec![attempt()]), (looked(2), vec![AdmissionCommand::Leave])]);
    let leaving = tries(Takeover::AtOnce, &[looked(2)]);
    leaving.check([
        (AdmissionEvent::Left, vec![tell(AdmissionOutcome::Busy)]),
        (
            AdmissionEvent::SessionOver(SessionEnd::Expired),
            vec![AdmissionCommand::Depart, tell(AdmissionOutcome::Displaced)],
        ),
        (AdmissionEvent::GiveUp, vec![]),
    ]);
    assert_ended(&leaving, AdmissionEvent::Left);
    assert_ended(&leaving, AdmissionEvent::GiveUp);
    // A delay is a wait, too.
    tries(Takeover::Delayed, &[AdmissionEvent::Unanswered])
        .check([(looked(1), vec![AdmissionCommand::Leave])]);
    tries(Takeover::AtOnce, &doubtful()).check([(
        looked(2),
        vec![tell(AdmissionOutcome::Busy), AdmissionCommand::Depart, AdmissionCommand::Recover],
    )]);
}

#[test]
fn the_takeover_delay_comes_between_the_look_and_the_attempt() {
    let delayed = |events: &[AdmissionEvent]| after(Takeover::Delayed, Patience::Wait, events);
    delayed(&[]).check([(looked(1), vec![attempt()])]);
    for reason in [
        vec![looked(2), AdmissionEvent::Watched(None)],
        vec![AdmissionEvent::Unanswered],
        vec![looked(1), AdmissionEvent::PoolChanged],
        doubtful(),
    ] {
        delayed(&reason).check([(looked(1), vec![AdmissionCommand::Delay])]);
    }
    let mut queued = Admission::new(Wish::Permit(1), Patience::Wait, Takeover::Delayed, Arrival::Queued);
    assert_eq!(queued.handle(AdmissionEvent::Begin), [AdmissionCommand::Look]);
    queued.check([(looked(1), vec![AdmissionCommand::Delay])]);
    queued.handle(looked(1));
    queued.check([
        (AdmissionEvent::Delayed, vec![attempt()]),
        (
            AdmissionEvent::SessionOver(SessionEnd::Expired),
            vec![AdmissionCommand::Depart, tell(AdmissionOutcome::Displaced)],
        ),
        (AdmissionEvent::GiveUp, vec![AdmissionCommand::Depart]),
    ]);
}

#[test]
fn repetitions_pause_after_what_brings_nothing_on() {
    for event in
        [AdmissionEvent::Unanswered, AdmissionEvent::Refused(refusal()), settled(TurnstileStanding::Held)]
    {
        assert!(!event.is_news(), "{event:?}");
    }
    for event in [
        AdmissionEvent::PoolChanged,
        AdmissionEvent::OtherPool(permit()),
        AdmissionEvent::NotHeld,
        looked(2),
        settled(TurnstileStanding::Gone),
    ] {
        assert!(event.is_news(), "{event:?}");
    }
}

#[test]
fn an_attempt_takes_effect_only_in_the_turnstile_and_in_the_pool_as_it_was_seen() {
    let expected = [
        Operation::Set(AdmissionTarget::Turnstile, Some(UNTOUCHED)),
        Operation::Create(AdmissionTarget::Permit(KIND)),
        Operation::Set(AdmissionTarget::Pool, Some(5)),
        Operation::Delete(AdmissionTarget::Turnstile, None),
    ];
    assert_eq!(super::attempt(KIND, 5), expected);
    for (target, problem, event) in [
        (AdmissionTarget::Turnstile, Problem::NoNode, AdmissionEvent::NotHeld),
        (AdmissionTarget::Turnstile, Problem::BadVersion, AdmissionEvent::NotHeld),
        (AdmissionTarget::Permit(KIND), Problem::NoNode, AdmissionEvent::PoolChanged),
        (AdmissionTarget::Pool, Problem::BadVersion, AdmissionEvent::PoolChanged),
    ] {
        assert_eq!(attempt_failed(target, problem), event);
    }
    let taken = attempt_failed(AdmissionTarget::Permit(KIND), Problem::NodeExists);
    assert!(matches!(taken, AdmissionEvent::Refused(Refusal::Other(_))));
}
