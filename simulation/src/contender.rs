//! A process of the simulated system: the contenders of [`zklock_contest`], in a world whose time and register are the simulation's.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;
use world::{ProcessId, Random};
use zklock::session::SessionBuilder;
use zklock::{Guard, Session};
use zklock_contest::clock::Instant;
use zklock_contest::contender::{self, Held, Order, Orderer, Process, World};
use zklock_contest::member::Member;
use zklock_contest::record::{Event, Record, Who};
use zklock_contest::register::{Answer, Call};

use crate::history::{self, Closing, Stage};
use crate::interventions;
use crate::part::Part;
use crate::slack;

/// The world of one process.
#[derive(Clone)]
struct Simulated {
    process: ProcessId,
    part: Part,
    /// Whether its tasks have been dropped. Those that are about to end say no more.
    is_closing: Arc<AtomicBool>,
    beside: Arc<Mutex<Option<Beside>>>,
}

/// The guard that a session has beside those of its contenders, who says so, and since when.
#[derive(Clone)]
struct Beside {
    who: Who,
    since: Instant,
    guard: Weak<Guard>,
}

impl Simulated {
    /// Says whether the session has its guards at this instant, and for another tenth of its timeout, if that is known.
    fn is_ample(&self, valid: Instant) -> bool {
        let beside = self.beside.lock().expect("no panic").clone();
        let Some(Beside { who, since, guard }) = beside else { return false };
        let is_ample = guard.upgrade().is_some_and(|guard| guard.remaining() > self.part.timeout / 10);
        if is_ample {
            self.say(Record {
                at: valid,
                member: self.part.member,
                who,
                event: Event::Witnesses { since, valid },
            });
        }
        is_ample
    }
}

impl World for Simulated {
    fn now(&self) -> Instant {
        Instant(world::now())
    }

    fn say(&self, record: Record) {
        if !self.is_closing.load(Ordering::Relaxed) {
            history::hear(self.process, &self.part, &record);
        }
    }

    async fn call(&self, _: Member, lock: usize, call: Call) -> Answer {
        history::call(lock, call)
    }

    fn session(&self) -> SessionBuilder {
        let Part { servers, timeout, is_exact, tick, drift, .. } = &self.part;
        let builder = Session::builder(servers).tick(*tick);
        let builder = if *is_exact { builder.session_timeout(*timeout) } else { builder };
        drift.iter().fold(builder, |builder, drift| builder.clock_drift(*drift))
    }

    fn holds(&self, who: Who, guard: &Arc<Held>) {
        history::holds(who, guard);
        slack::holds(self.process, guard);
    }

    fn witnesses(&self, who: Who, since: Instant, guard: &Arc<Guard>) {
        *self.beside.lock().expect("no panic") = Some(Beside { who, since, guard: Arc::downgrade(guard) });
    }

    fn capacity(&self, _: Member) -> u32 {
        interventions::capacity()
    }
}

/// Runs until every task has finished, or until it is to close its session. The number is the same for each process that is started
/// in this one's place.
pub(crate) async fn run(
    process: ProcessId,
    number: u32,
    part: Part,
    mut random: Random,
    closing: Arc<Notify>,
) {
    let client = number as u16 + 1;
    history::started(process, client);
    let orderer = Orderer::default();
    let contest = contender::Part {
        member: part.member,
        client,
        tasks: part.tasks,
        seed: random.bits(),
        pace: part.pace,
        servers: part.servers.clone(),
        delay: part.delay.unwrap_or_default(),
    };
    let orders = orderer.orders();
    let world = Simulated { process, part: part.clone(), is_closing: Arc::default(), beside: Arc::default() };
    tokio::spawn(follow(orderer, part.timeout));
    let mut contest = Process::begin(world.clone(), contest, orders).await;
    tokio::select! {
        biased;
        () = closing.notified() => {
            let now = world.now();
            let closing = history::closes(process, client, now.0, world.is_ample(now));
            slack::closes(process);
            world.is_closing.store(true, Ordering::Relaxed);
            return close(closing, contest, &part).await;
        }
        () = contest.finish() => {}
    }
    while history::stage() < Stage::Eviction {
        sleep(part.timeout / 10).await;
    }
    let who = Who { client, task: part.tasks + 1 };
    if !part.is_foreign(client) && history::is_evicted(who) {
        while !history::was_evicted() {
            contest.turn(who).await;
        }
    }
    // An operator looks at the tree while this session lives.
    contest.end().await;
}

/// Drops what is under way, and closes the session. The process stays until it is ended.
async fn close(closing: Closing, contest: Process<Simulated>, part: &Part) {
    if let Some((session, timeout)) = contest.leave().await {
        history::closed(session, timeout, &closing, part);
    }
    std::future::pending().await
}

/// Orders what each stage is about.
async fn follow(orderer: Orderer, timeout: Duration) {
    let orders = [
        (Stage::Last, Order::Finish),
        (Stage::Eviction, Order::LookAway),
        // The one that holds once more holds until it is lost.
        (Stage::Eviction, Order::Stay(timeout * 1_000)),
        (Stage::Close, Order::End),
    ];
    for (stage, order) in orders {
        while history::stage() < stage {
            sleep(timeout / 10).await;
        }
        orderer.give(order);
    }
}
