//! Torture: client processes contend for one lock on three real servers, while a seeded schedule takes both apart.
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
//! Each client has a link to each server. A holder reads a shared [register](crate::harness::register), sleeps and writes
//! with its fencing token. It says what it sees of its guard, by a clock that nobody slews. The [`schedule`] plans the faults,
//! [`faults`] injects them, the [`history`] collects what happened, and the [`checker`] judges it.
//!
//! One server grants shorter session timeouts than the others. A session that was on it expires earlier.
//!
//! # What an operator takes
//!
//! An operator who deletes the holder's node, or closes its session, takes the lock at once. No lease foresees that; the
//! takeover delay of the waiters covers it. So such an act is not combined with other faults. It comes only when a
//! contender has waited for a while and every waiter has a [takeover delay](faults::TAKEOVER_DELAY). At all other times no
//! contender has one: the lease alone keeps guards apart.
//!
//! # In the end
//!
//! All faults are undone, and each contender has to be granted once more. Then all contenders are idle with open sessions.
//! A node or watch that is left now has no owner.

mod args;
mod checker;
mod client;
mod clients;
mod faults;
mod history;
mod part;
mod picture;
mod record;
mod report;
mod scene;
mod schedule;
mod servers;
mod slew;
mod stalls;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use anyhow::Context;
use tokio::sync::{RwLock, mpsc};
use tokio::time::{Instant as Timer, sleep, timeout};

use crate::harness::Instant;
use crate::harness::register::Register;
use args::Recipe;
pub(crate) use args::Torture;
use checker::Verdict;
use client::Order;
pub(crate) use client::run as run_client;
use clients::{Client, Heard, Journal};
use faults::Injector;
use history::{Builder, Fault, History, Remains};
pub(crate) use part::Part;
use part::Setup;
use report::Report;
use scene::Scene;
use servers::{Servers, queue};
use stalls::Stalls;

const TICK: Duration = Duration::from_secs(1);
const SESSION_TIMEOUT: Duration = Duration::from_secs(4);
/// The lock's directory.
const PATH: &str = "/lock/torture";

/// How long it may take until every contender was granted once more, when all servers serve again: some session timeouts,
/// and a takeover delay each.
const FINISH_BOUND: Duration = Duration::from_secs(60);
/// How long it may take until the sessions of dead clients have expired and their nodes and watches are gone.
const CLEAN_BOUND: Duration = Duration::from_secs(20);
/// How long a client may take to close its session and end.
const END_BOUND: Duration = Duration::from_secs(20);

/// True if nothing was wrong.
pub(crate) async fn run(torture: &Torture) -> anyhow::Result<bool> {
    let seed = torture.seed.unwrap_or_else(|| fastrand::u64(..1_000_000_000));
    eprintln!("torture: seed {seed}, {} clients, {} s of faults", torture.clients, torture.seconds);
    let journal = Journal::open(torture.journal.as_deref())?;
    let length = Duration::from_secs(torture.seconds);
    let mut plan = schedule::plan(seed, length);
    if torture.lock == Recipe::ZookeeperClient {
        // It has no takeover delay, so these acts would make overlaps.
        plan.retain(|fault| !fault.kind.is_act());
    }
    let started = Instant::now();

    let shim = slew::Shim::build().await?;
    let servers = Servers::start(TICK).await?;
    let register = Register::open().await?;
    let scene = Arc::new(Scene::new());
    let (heard, hearing) = mpsc::unbounded_channel();
    let (done, doing) = mpsc::unbounded_channel();
    let listener = tokio::spawn(listen(hearing, doing, scene.clone(), journal));
    let setup = Setup {
        lock: torture.lock,
        path: PATH.to_owned(),
        register: register.address().to_owned(),
        session_timeout: SESSION_TIMEOUT,
        tick: TICK,
        shim: shim.path(),
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
        path: PATH.to_owned(),
        done,
        lives: AtomicU64::new(1),
        peace: RwLock::default(),
    });
    let start = Timer::now();
    let omitted = injector.perform(plan, start).await?;
    tokio::time::sleep_until(start + length).await;
    drop(injector);
    let healed = Instant::now();
    let (starved, remains) = aftermath(&servers, &clients, &scene).await?;

    drop(clients);
    let builder = timeout(END_BOUND, listener).await.context("somebody still speaks")??;
    let ledger = register.ledger();
    let history = History { ledger, starved, remains, ..builder.finish(Instant::now()) };
    let verdict = Verdict::of(&history);
    let times = report::Times { started, begun, healed, ended: Instant::now() };
    let report = Report::of(torture, seed, &history, &omitted, verdict, times, stalls.longest())?;
    report.print(torture.json)?;
    if let Some(path) = &torture.report {
        picture::draw(path, &history, &report, times)?;
    }
    Ok(report.verdict.passed())
}

/// Follows what the clients say and what is done to them, until all of them have ended.
async fn listen(
    mut hearing: mpsc::UnboundedReceiver<Heard>,
    mut doing: mpsc::UnboundedReceiver<Fault>,
    scene: Arc<Scene>,
    journal: Journal,
) -> Builder {
    let mut builder = Builder::default();
    loop {
        tokio::select! {
            Some(heard) = hearing.recv() => {
                scene.hear(&heard);
                builder.hear(&heard);
                journal.write(&heard);
            }
            Some(fault) = doing.recv() => {
                journal.write(&fault);
                builder.add(fault);
            }
            else => return builder,
        }
    }
}

/// Undoes all faults and has every contender finish. Returns the contenders that were not granted once more, and what is
/// left on the servers.
async fn aftermath(
    servers: &Servers,
    clients: &[Arc<Client>],
    scene: &Scene,
) -> anyhow::Result<(Vec<record::Who>, Remains)> {
    servers.recover().await?;
    for client in clients {
        client.order(Order::Finish).await?;
    }
    let all: Vec<_> = clients.iter().flat_map(|client| client.contenders()).collect();
    let starved = scene.unfinished_within(FINISH_BOUND, &all).await;
    let operator = servers.operator().await?;
    let deadline = Timer::now() + CLEAN_BOUND;
    let mut remains = loop {
        let nodes = queue(&operator, PATH).await?.into_iter().map(|node| node.name).collect();
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
            return Ok((starved, remains));
        }
        sleep(Duration::from_millis(100)).await;
    }
}
