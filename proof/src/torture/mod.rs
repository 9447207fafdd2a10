//! Torture: client processes contend for locks on three real servers, while a seeded schedule takes both apart.
//!
//! ```text
//!              coordinator: schedule, faults, register, history, checker
//!                 | orders, signals        ^ records (lines of JSON)
//!                 v                        |
//!   client process --- link ---+--> server 1 --+
//!   client process --- link ---+--> server 2 --+-- the mesh between the servers
//!   client process --- link ---+--> server 3 --+
//! ```
//!
//! What they contend for is the [`mode`]'s affair: a lock, a read-write lock, several locks at once, locks by key, a
//! semaphore, slots, slots that run once, an election, which some of the clients observe, or a lock in a queue in which some of the
//! clients contend by another recipe.
//!
//! Each client has a link to each server. A holder reads a shared [register](crate::harness::register), sleeps and writes
//! with its fencing token. It says what it sees of its guard, by a clock that nobody slews. The [`schedule`] plans the faults,
//! [`faults`] injects them, the [`history`] collects what happened, and the [`checker`] judges it.
//!
//! One server grants shorter session timeouts than the others. A session that was on it expires earlier.
//!
//! # What an operator takes
//!
//! An operator who deletes the holder's node, or closes its session, takes the lock at once. No lease foresees that; the
//! takeover delay of the waiters covers it. So such an act is not combined with other faults. It comes only on an
//! [`occasion`]: somebody has waited for a while, and every waiter has a [takeover delay](faults::TAKEOVER_DELAY). At all
//! other times no contender has one: the lease alone keeps guards apart.
//!
//! # In the end
//!
//! All faults are undone, and each contender has to be granted once more, or as often as the mode asks for. Then all
//! contenders are idle with open sessions. A node or watch that is left now has no owner. Where clients observe, one more
//! leader comes and goes before that, and every observer has to be told of both.
//!
//! Each server is asked by itself what is left. A node that only some of them have is no orphan: these servers have lost
//! committed writes, and what such a run shows says nothing about a lock. ZooKeeper 3.9.3 does that (ZOOKEEPER-4925).

mod announcements;
mod args;
mod asks;
mod checker;
mod client;
mod clients;
mod faults;
mod finale;
mod history;
mod journal;
mod mode;
mod occasion;
mod part;
mod picture;
mod record;
mod report;
mod runs;
mod scene;
mod schedule;
mod servers;
mod slew;
mod stalls;
mod taken;
mod wish;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use anyhow::{Context, ensure};
use futures::future::try_join_all;
use tokio::sync::{RwLock, mpsc};
use tokio::time::{Instant as Timer, sleep, timeout};

use crate::harness::Instant;
use crate::harness::register::Register;
use announcements::Announcements;
pub(crate) use args::Torture;
use args::{Mode, Recipe};
use checker::Verdict;
use client::Order;
pub(crate) use client::run as run_client;
use clients::{Client, Heard};
use faults::Injector;
use history::{Fault, History, Remains};
use journal::Journal;
use mode::{Rules, rules};
pub(crate) use part::Part;
use part::Setup;
use record::Who;
use report::Report;
use runs::Runs;
use scene::Scene;
use servers::{Servers, left, logs, make_logs, records};
use stalls::Stalls;

/// How long it may take until every contender was granted its last times, when all servers serve again: some session
/// timeouts, and a takeover delay each.
const FINISH_BOUND: Duration = Duration::from_secs(60);
/// How much longer for each further time: slewed clients take seconds to become certain of a lease.
const TURN_BOUND: Duration = Duration::from_secs(10);
/// How long it may take until the sessions of dead clients have expired and their nodes and watches are gone.
const CLEAN_BOUND: Duration = Duration::from_secs(20);
/// How long a client may take to close its session and end.
const END_BOUND: Duration = Duration::from_secs(20);

/// True if nothing was wrong.
pub(crate) async fn run(torture: &Torture) -> anyhow::Result<bool> {
    ensure!(
        torture.lock == Recipe::Zklock || torture.mode == Mode::Lock,
        "zookeeper-client has no recipe for this mode; use --mode lock"
    );
    let rules = rules(torture.mode);
    let locks = rules.locks;
    let seed = torture.seed.unwrap_or_else(|| fastrand::u64(..1_000_000_000));
    let journal = Journal::open()?;
    eprintln!(
        "torture: mode {:?}, seed {seed}, {} clients, {} s of faults, journal {}",
        torture.mode,
        torture.clients,
        torture.seconds,
        journal.path().display()
    );
    let length = Duration::from_secs(torture.seconds);
    // Acts of operators would make overlaps where no takeover delay covers them.
    let has_operators = rules.has_operators && torture.lock == Recipe::Zklock;
    let plan = match torture.only {
        Some(kind) => schedule::only(kind, seed, length),
        None => schedule::plan(seed, length, has_operators),
    };

    let shim = slew::Shim::build().await?;
    let servers = Servers::start(rules.sync_limit).await?;
    if rules.keeps_logs {
        make_logs(&servers.operator().await?, locks).await?;
    }
    let registers = try_join_all((0..locks).map(|_| Register::open())).await?;
    let scene = Arc::<Scene>::default();
    let (heard, hearing) = mpsc::unbounded_channel();
    let (done, doing) = mpsc::unbounded_channel();
    let listener = tokio::spawn(listen(hearing, doing, scene.clone(), journal));
    let setup = Setup {
        lock: torture.lock,
        mode: torture.mode,
        delay: torture.takeover_delay.map_or(mode::DELAY, Duration::from_millis),
        registers: registers.iter().map(|register| register.address().to_owned()).collect(),
        shim: shim.path(),
        breaks_leases: torture.break_leases,
    };
    let mut clients = Vec::new();
    for number in 1..=torture.clients {
        let client = Client::new(number, &servers.ensemble, seed, setup.clone(), heard.clone()).await?;
        client.start(0).await?;
        clients.push(Arc::new(client));
    }
    drop(heard);

    let begun = Instant::now();
    let stalls = Stalls::watch();
    let injector = Arc::new(Injector {
        servers: servers.clone(),
        clients: clients.clone(),
        scene: scene.clone(),
        rules,
        breaks_nodes: torture.break_nodes,
        done,
        lives: AtomicU64::new(1),
        peace: RwLock::default(),
    });
    let start = Timer::now();
    let omitted = injector.perform(plan, start).await?;
    tokio::time::sleep_until(start + length).await;
    drop(injector);
    let healed = Instant::now();
    let end = aftermath(&servers, &clients, &scene, rules).await?;

    drop(clients);
    let mut journal = timeout(END_BOUND, listener).await.context("somebody still speaks")??;
    let ledgers = registers.iter().map(Register::ledger).collect();
    let History { starved, announcements, remains, logs, runs, .. } = end;
    let mut history = History { ledgers, starved, remains, logs, ..scene.finish(Instant::now()) };
    (history.runs.records, history.runs.ranges) = (runs.records, runs.ranges);
    history.announcements.values.extend(announcements.values);
    history.announcements.uninformed = announcements.uninformed;
    let verdict = Verdict::of(torture.mode, &history);
    let times = picture::Times { begun, healed, ended: Instant::now() };
    let report = Report::of(torture, seed, &history, &omitted, verdict, stalls.longest());
    report.print(torture.json)?;
    if let Some(path) = &torture.report {
        picture::draw(path, &history, &report, times)?;
    }
    let passed = report.verdict.passed();
    journal.write(&report);
    if passed {
        journal.discard();
    }
    Ok(passed)
}

/// Follows what the clients say and what is done to them, until all of them have ended.
async fn listen(
    mut hearing: mpsc::UnboundedReceiver<Heard>,
    mut doing: mpsc::UnboundedReceiver<Fault>,
    scene: Arc<Scene>,
    mut journal: Journal,
) -> Journal {
    loop {
        tokio::select! {
            Some(heard) = hearing.recv() => {
                scene.hear(&heard);
                journal.write(&heard);
            }
            Some(fault) = doing.recv() => {
                journal.write(&fault);
                scene.add(fault);
            }
            else => return journal,
        }
    }
}

/// Undoes all faults, has every contender finish, and every observer be told of the last leader. Returns how the run ended.
async fn aftermath(
    servers: &Servers,
    clients: &[Arc<Client>],
    scene: &Scene,
    rules: &Rules,
) -> anyhow::Result<History> {
    servers.recover().await?;
    for client in clients {
        client.order(Order::Finish).await?;
    }
    let all: Vec<_> = clients.iter().flat_map(|client| client.contenders()).collect();
    let turns = TURN_BOUND * (rules.last_turns - 1);
    // Each of another client may cost a delay, and slewed clocks make it twice as long.
    let foreign = clients.iter().filter(|client| (rules.is_foreign)(client.number)).count() as u32;
    let starved = scene.unfinished_within(FINISH_BOUND + turns + mode::DELAY * 2 * foreign, &all).await;
    let observing = clients.iter().filter(|client| (rules.observes)(client.number));
    let observers: Vec<_> = observing.map(|client| Who::process(client.number)).collect();
    // A contender that is still in the queue would keep the last leader out.
    let announcements = match observers.is_empty() || !starved.is_empty() {
        true => Announcements::default(),
        false => finale::play(servers, scene, &observers).await?,
    };
    for client in clients {
        client.order(Order::LookAway).await?;
    }
    // One may have ended since.
    servers.recover().await?;
    let operators = servers.operators().await?;
    let deadline = Timer::now() + CLEAN_BOUND;
    let mut remains = loop {
        let nodes = left(&operators, rules.locks).await?;
        let remains = Remains { nodes, watches: servers.watches().await?, ephemerals: 0 };
        // If a contender is still in the queue, a node may be its own. That the contender starves is reported anyway.
        if remains == Remains::default() || !starved.is_empty() || Timer::now() >= deadline {
            break remains;
        }
        sleep(Duration::from_millis(100)).await;
    };
    for client in clients {
        match starved.iter().any(|who| who.client == client.number) {
            true => drop(client.kill().await?),
            false => timeout(END_BOUND, client.end()).await.context("a client does not end")??,
        }
    }
    let deadline = Timer::now() + CLEAN_BOUND;
    loop {
        remains.ephemerals = servers.ephemerals().await?;
        if remains.ephemerals == 0 || Timer::now() >= deadline {
            // The clients are gone, so nothing is added any more.
            let operator = servers.operator().await?;
            let logs = match rules.keeps_logs {
                true => logs(&operator, rules.locks).await?,
                false => Vec::new(),
            };
            let (records, ranges) = records(&operator).await?;
            let runs = Runs { records, ranges, ..Runs::default() };
            return Ok(History { starved, announcements, remains, logs, runs, ..History::default() });
        }
        sleep(Duration::from_millis(100)).await;
    }
}
