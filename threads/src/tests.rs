//! Orders of steps that shuttle chooses, for the library as it ships, and for one that is broken on purpose.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use shuttle::future::block_on;
use shuttle::scheduler::PctScheduler;
use shuttle::sync::{Arc, Mutex};
use shuttle::{Config, FailurePersistence, Runner, thread};
use zklock_recipe::{Event, Kind, Lease, Outcome, Own, QueuePlace};

use crate::clock;
use crate::contender::Driver;
use crate::guard::hold::fail_stop;
use crate::guard::hold::turn::Ended;
use crate::settings::QueueEntry;
use crate::telemetry::FamilyMember;
use crate::wire::SharedLease;
use crate::wire::link::Link;
use crate::world::process::ABORTED;
use crate::world::{pass, watch};
use crate::zk::session::background::{self, Background};
use crate::zk::{SessionHold, ZkSession};
use crate::{Guard, LockOptions, Session};

/// How many orders of steps each test tries.
const ORDERS: usize = 200;

pub(crate) const KEPT_BEFORE_LOSS: &str = "whether the guard is kept is read before its loss";
pub(crate) const PASSED_OUTSIDE: &str = "a turn is passed on after the driver's mutex";
pub(crate) const LOOK_BEFORE_TOLD: &str = "a caller looks for a loss before others can tell of it";
pub(crate) const SUBSCRIBED_LATE: &str = "a waiter subscribes after its look";

thread_local! {
    static BROKEN: Cell<&'static str> = const { Cell::new("") };
    /// How many orders were tried.
    static TRIED: Cell<usize> = const { Cell::new(0) };
    /// How many ends of turns were told.
    static ENDS: Cell<usize> = const { Cell::new(0) };
}

/// Whether this order of steps is broken on purpose.
pub(crate) fn breaks(broken: &str) -> bool {
    BROKEN.get() == broken
}

/// The end of a turn is told: to subscribers, and to the metrics.
pub(crate) fn end_is_told() {
    ENDS.set(ENDS.get() + 1);
}

/// Tries orders of the scenario's steps until one fails.
fn try_orders(broken: &'static str, scenario: fn()) -> std::thread::Result<usize> {
    BROKEN.set(broken);
    TRIED.set(0);
    let mut config = Config::new();
    config.failure_persistence =
        if broken.is_empty() { FailurePersistence::Print } else { FailurePersistence::None };
    let runner = Runner::new(PctScheduler::new_from_seed(7, 4, ORDERS), config);
    let run = move || {
        TRIED.set(TRIED.get() + 1);
        ENDS.set(0);
        scenario();
    };
    catch_unwind(AssertUnwindSafe(|| runner.run(run)))
}

#[track_caller]
fn check(scenario: fn(), breaks: &[&'static str]) {
    try_orders("", scenario).unwrap();
    for broken in breaks {
        assert!(try_orders(broken, scenario).is_err(), "not found in {ORDERS} orders: {broken}");
        println!("found in order {}: {broken}", TRIED.get());
    }
}

/// A session without a connection, so that its requests wait.
fn session() -> Arc<ZkSession> {
    let (dialer, runtime) = Session::builder("localhost").dialer().unwrap();
    let now = clock::now();
    let lease = Lease::established(dialer.reckoning(), dialer.timeout, now).unwrap();
    let lease = Arc::new(SharedLease::new(lease, now, runtime.clone()));
    let (background, queue) = Background::new();
    runtime.spawn(background::run(queue, lease.clone()));
    let (_, link) = watch::channel(Link::Down);
    let (_, over) = watch::channel(None);
    Arc::new(ZkSession::new(7, &dialer, runtime, link, lease, over, background))
}

fn guard(session: &Arc<ZkSession>) -> Guard {
    let lock = Arc::new(LockOptions::new().settings("/lock", session).unwrap());
    let own = Own { place: QueuePlace::exclusive(0), czxid: 5 };
    let mut driver =
        Driver::admitted(session.clone(), QueueEntry { lock, kind: Kind::Exclusive }, own, Some(0));
    // The lease is ample, so nobody is asked.
    let Some(Outcome::Granted(nodes, term)) = driver.handle(Event::Begin) else { panic!("not granted") };
    Guard::new(driver, nodes, term)
}

#[test]
fn the_process_ends_soon_after_the_loss_of_a_guard_that_is_kept() {
    let kept = || {
        fail_stop::start().unwrap();
        let session = session();
        let [first, second] = [guard(&session), guard(&session)];
        first.turn.fail_stop();
        second.turn.fail_stop();
        // Few looks are left until the lease ends.
        pass(session.lease.remaining() - Duration::from_millis(250));
        let released = thread::spawn(move || drop(first));
        block_on(ABORTED.subscribe().wait_for(|has_ended| *has_ended)).unwrap();
        assert!(!second.is_held(), "the process ends under a guard that is held");
        assert!(clock::now().least_since(session.lease.lapsed()) <= Duration::from_millis(200), "late");
        released.join().unwrap();
    };
    check(kept, &[]);
}

#[test]
fn the_process_lives_after_the_loss_of_a_guard_that_was_let_go() {
    let let_go = || {
        fail_stop::start().unwrap();
        let guard = guard(&session());
        guard.turn.fail_stop();
        guard.turn.let_go();
        let in_time = guard.is_held();
        pass(Duration::from_secs(60));
        (0..40).for_each(|_| thread::yield_now());
        assert!(!in_time || !*ABORTED.borrow(), "the process ends for a guard that was let go");
    };
    check(let_go, &[KEPT_BEFORE_LOSS]);
}

#[test]
fn a_hold_is_passed_on_or_let_go_or_tied_to_its_turn() {
    let turns = || {
        let turn = guard(&session()).into_turn();
        let passed = Arc::new(Mutex::new(None));
        let relay = (Arc::downgrade(&turn), passed.clone());
        turn.pass_to(Arc::new(move |next| {
            assert!(relay.0.upgrade().is_some_and(|turn| turn.check().is_err()), "two turns at once");
            assert!(next.check().is_ok(), "a hold is passed on that is over");
            *relay.1.lock().unwrap() = Some(next);
            None
        }));
        let [ends, states, loses] = [turn.clone(), turn.clone(), turn];
        let ends = thread::spawn(move || matches!(ends.end(), Ended::Passed));
        let states = thread::spawn(move || states.sequencer(0).is_ok());
        let loses = thread::spawn(move || loses.forfeit());
        let is_passed = ends.join().unwrap();
        let is_tied = states.join().unwrap();
        loses.join().unwrap();
        let next = passed.lock().unwrap().take();
        assert_eq!(is_passed, next.is_some_and(|next| next.check().is_ok()), "a turn of a hold that is over");
        assert!(!(is_passed && is_tied), "the node of a sequencer is passed on");
    };
    check(turns, &[PASSED_OUTSIDE]);
}

#[test]
fn an_end_is_told_once_and_each_waiter_hears_of_it() {
    let end = || {
        let session = session();
        let guard = guard(&session);
        let turn = guard.turn.clone();
        let [has, notes, waits, looks] = [turn.clone(), turn.clone(), turn.clone(), turn.clone()];
        let tasks = [
            thread::spawn(move || has.granted(FamilyMember::Lock, Duration::ZERO)),
            thread::spawn(move || {
                session.close();
                notes.held.note_end();
            }),
            thread::spawn(move || drop(block_on(waits.lost(Duration::ZERO)))),
            thread::spawn(move || {
                let first = looks.check();
                let second = looks.check();
                assert!(first.is_ok() || first == second, "a loss is taken back, or has another reason");
                assert!(second.is_ok() || looks.remaining().is_zero());
            }),
            thread::spawn(move || drop(guard)),
        ];
        tasks.into_iter().for_each(|task| task.join().unwrap());
        assert_eq!(ENDS.get(), 1, "ends that were told");
    };
    check(end, &[LOOK_BEFORE_TOLD, SUBSCRIBED_LATE]);
}
