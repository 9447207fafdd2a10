//! Torture: client processes contend for locks on three real servers, while a seeded schedule takes both apart.
//!
//! ```text
//!              coordinator: schedule, faults, registers, history, checker
//!                 | orders, answers, signals   ^ records, calls (lines of JSON)
//!                 v                        |
//!   client process --- link ---+--> server 1 --+
//!   client process --- link ---+--> server 2 --+-- the mesh between the servers
//!   client process --- link ---+--> server 3 --+
//! ```
//!
//! They contend for every member of the family at once: [`zklock_contest`] has the contenders, what they ask for, and the checker. A client
//! has a session for each member, and a link to each server. A holder reads a shared [`register`], sleeps and
//! writes with its fencing token. It says what it sees of its guard, by a clock that nobody slews. The [`schedule`] plans the faults, and
//! [`faults`] injects them.
//!
//! One server grants shorter session timeouts than the others. A session that was on it expires earlier.
//!
//! No operator acts here: no lease foresees that. The margins, `tests/servers/matrix.rs` and the simulation have operators.
//!
//! # In the end
//!
//! All faults are undone, and each contender has to be granted once more, or as often as the member asks for. Then all
//! contenders have finished, and their sessions stay open. A node or watch that is left now has no owner.
//!
//! Each server is asked by itself what is left. A node that only some of them have is no orphan: these servers have lost
//! committed writes, and what such a run shows says nothing about a lock. ZooKeeper 3.9.3 does that (ZOOKEEPER-4925).

mod args;
mod client;
mod clients;
mod faults;
mod journal;
mod part;
mod program;
mod register;
mod report;
mod schedule;
mod servers;
mod slew;
mod state;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::ValueEnum;
use tokio::sync::mpsc;
use tokio::time::{Instant as Timer, sleep, timeout};
use zklock_contest::collector::Collector;
use zklock_contest::contender::Order;
use zklock_contest::history::{Fault, Remains};
use zklock_contest::member::Member;
use zklock_contest::members::{DELAY, rules};
use zklock_contest::nodes::{logs, make_logs, records};
use zklock_contest::record::Who;

pub(crate) use args::Torture;
pub(crate) use client::run as run_client;
use clients::{Client, Heard};
use faults::Injector;
use journal::Journal;
pub(crate) use part::Part;
use part::Setup;
pub(crate) use program::{Errand, run_command};
use register::Registers;
use report::Report;
use servers::{Servers, left};
use state::State;

use crate::harness::Ruling;

/// How long it may take until every contender was granted its last times, when all servers serve again: some session timeouts.
const FINISH_BOUND: Duration = Duration::from_secs(60);
/// How much longer for each time that somebody is granted: slewed clients take seconds to become certain of a lease.
const TURN_BOUND: Duration = Duration::from_secs(2);
/// How long it may take until the sessions of dead clients have expired and their nodes and watches are gone.
const CLEAN_BOUND: Duration = Duration::from_secs(20);
/// How long a client may take to close its session and end.
const END_BOUND: Duration = Duration::from_secs(20);
/// A run with faults for so long has to show what each member is about; one of all members, for as long as the second.
const PROVES: (u64, u64) = (120, 180);

pub(crate) async fn run(torture: &Torture) -> anyhow::Result<Ruling> {
    let mut members = match &torture.member[..] {
        [] => Member::value_variants().to_vec(),
        some => some.to_vec(),
    };
    members.sort();
    members.dedup();
    let for_programs = members.contains(&Member::Program);
    ensure!(!for_programs || members.len() == 1, "the program is contended for alone");
    let seed = torture.seed.unwrap_or_else(|| fastrand::u64(..1_000_000_000));
    let journal = Journal::open()?;
    eprintln!(
        "torture: {members:?}, seed {seed}, {} clients, {} s of faults, journal {}",
        torture.clients,
        torture.seconds,
        journal.path().display()
    );
    let length = Duration::from_secs(torture.seconds);
    let plan = match torture.only {
        Some(kind) => schedule::only(kind, seed, length),
        None if for_programs => schedule::plan_of_programs(seed, length),
        None => schedule::plan(seed, length),
    };

    let shim = slew::Shim::build().await?;
    let servers = Servers::start(for_programs).await?;
    for member in members.iter().filter(|member| rules(**member).keeps_logs) {
        make_logs(&servers.operator().await?, *member, rules(*member).locks).await?;
    }
    let registers = Registers::default();
    let state = Arc::new(State::of(&members));
    let (heard, hearing) = mpsc::unbounded_channel();
    let (done, doing) = mpsc::unbounded_channel();
    let listener = tokio::spawn(listen(hearing, doing, state.clone(), journal));
    let setup = Setup {
        members: members.clone(),
        delay: torture.takeover_delay.map_or(DELAY, Duration::from_millis),
        shim: shim.path(),
    };
    let mut clients = Vec::new();
    for number in 1..=torture.clients {
        let ensemble = &servers.ensemble;
        let heard = heard.clone();
        let client = Client::new(number, ensemble, seed, setup.clone(), registers.clone(), heard).await?;
        let client = Arc::new(client);
        client.start(0).await?;
        clients.push(client);
    }
    drop(heard);

    // The other client's holders have no lease, and few of them are met where all members contend.
    let mut aims = members.clone();
    aims.extend(members.iter().filter(|member| **member == Member::Queue).cycle().take(2));
    let injector = Arc::new(Injector {
        servers: servers.clone(),
        clients: clients.clone(),
        state: state.clone(),
        members: aims,
        done,
        lives: AtomicU64::new(1),
    });
    let start = Timer::now();
    let omitted = injector.perform(plan, start).await?;
    tokio::time::sleep_until(start + length).await;
    drop(injector);
    let (starved, remains) = aftermath(&servers, &clients, &state, &members).await?;

    drop(clients);
    let mut journal = timeout(END_BOUND, listener).await.context("somebody still speaks")??;
    let (mut histories, faults, crashes) = state.finish();
    let proves =
        torture.only.is_none() && torture.seconds >= if members.len() == 1 { PROVES.0 } else { PROVES.1 };
    // The clients are gone, so nothing is added any more.
    let operator = servers.operator().await?;
    for ((member, history), remains) in histories.iter_mut().zip(remains) {
        history.scope.proves = proves;
        history.ledgers = registers.ledgers(*member);
        history.starved = starved.iter().filter(|(of, _)| of == member).map(|(_, who)| *who).collect();
        history.remains = remains;
        if rules(*member).keeps_logs {
            history.logs = logs(&operator, *member, rules(*member).locks).await?;
        }
        (history.runs.records, history.runs.ranges) = records(&operator, *member).await?;
    }
    let report = Report::of(torture, seed, &histories, &faults, &omitted, &crashes);
    println!("{}", serde_json::to_string_pretty(&report)?);
    journal.write(&report);
    if report.ruling != Ruling::Fail {
        journal.discard();
    }
    Ok(report.ruling)
}

/// Follows what the clients say and what is done to them, until all of them have ended.
async fn listen(
    mut hearing: mpsc::UnboundedReceiver<Heard>,
    mut doing: mpsc::UnboundedReceiver<Fault>,
    state: Arc<State>,
    mut journal: Journal,
) -> Journal {
    loop {
        tokio::select! {
            Some(heard) = hearing.recv() => {
                state.hear(&heard);
                journal.write(&heard);
            }
            Some(fault) = doing.recv() => {
                journal.write(&fault);
                state.add(fault);
            }
            else => return journal,
        }
    }
}

/// Undoes all faults, and has every contender finish and every client end. Returns the contenders that have not finished, and what is left of
/// each member. The first member also has what belongs to no member.
async fn aftermath(
    servers: &Servers,
    clients: &[Arc<Client>],
    state: &State,
    members: &[Member],
) -> anyhow::Result<(Vec<(Member, Who)>, Vec<Remains>)> {
    servers.recover().await?;
    for client in clients {
        client.order(Order::Finish).await?;
    }
    let all: Vec<_> = clients.iter().flat_map(|client| client.contenders()).collect();
    let turns = members.iter().map(|member| {
        let contenders = all.iter().filter(|(of, _)| of == member).count() as u32;
        contenders * rules(*member).last_turns
    });
    let turns = turns.max().unwrap_or_default();
    // Each of another client may cost a delay, and slewed clocks make it twice as long.
    let is_foreign =
        |client: &&Arc<Client>| members.iter().any(|member| (rules(*member).is_foreign)(client.number));
    let foreign = clients.iter().filter(is_foreign).count() as u32;
    let limit = FINISH_BOUND + TURN_BOUND * turns + DELAY * 2 * foreign;
    let starved = state.others_within(limit, &all, Collector::has_finished).await;
    for client in clients {
        client.order(Order::LookAway).await?;
    }
    // One may have ended since.
    servers.recover().await?;
    let operators = servers.operators().await?;
    let deadline = Timer::now() + CLEAN_BOUND;
    let mut remains = loop {
        let mut remains = Vec::new();
        for member in members {
            remains.push(Remains { nodes: left(&operators, *member).await?, ..Remains::default() });
        }
        remains[0].watches = servers.watches().await?;
        let is_clean = remains.iter().all(|remains| *remains == Remains::default());
        // If a contender is still in the queue, a node may be its own. That the contender starves is reported anyway.
        if is_clean || !starved.is_empty() || Timer::now() >= deadline {
            break remains;
        }
        sleep(Duration::from_millis(100)).await;
    };
    for client in clients {
        match starved.iter().any(|(_, who)| who.client == client.number) {
            true => drop(client.kill().await?),
            false => timeout(END_BOUND, client.end()).await.context("a client does not end")??,
        }
    }
    let deadline = Timer::now() + CLEAN_BOUND;
    loop {
        remains[0].ephemerals = servers.ephemerals().await?;
        if remains[0].ephemerals == 0 || Timer::now() >= deadline {
            return Ok((starved, remains));
        }
        sleep(Duration::from_millis(100)).await;
    }
}
