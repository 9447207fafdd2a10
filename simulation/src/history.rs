//! What contenders held and when, in global time, and what was wrong with it.
//!
//! The checks of overlaps are exact. A guard is valid from its grant until its holder gives it up or its lease ends, and two guards
//! overlap if and only if the earlier one is valid at the instant at which the later one is granted. So each grant asks
//! every other guard whether it is valid at that instant, by the clocks of the other guard's process. All else is judged in the end, by
//! what contenders said.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use world::{ProcessId, World};
use zklock::FencingToken;
use zklock_contest::checker::Verdict;
use zklock_contest::clock::Instant;
use zklock_contest::collector::Collector;
use zklock_contest::contender::Held;
use zklock_contest::history::{Effect, Fault, Scope};
use zklock_contest::member::Member;
use zklock_contest::nodes::Records;
use zklock_contest::record::{Entry, Event, LOST_BEFORE, Leaving, Record, Who};
use zklock_contest::register::{Answer, Call, Store};
use zklock_contest::request::{Claim, Request, conflict};
use zklock_ensemble::Server;

use crate::cluster::{self, Cluster, Moment, nanoseconds};
use crate::interventions::{self, Orphan, Taken};
use crate::part::{Part, is_given_at_once};
use crate::quiet::{Outside, Quiet};
use crate::seen::{Seen, shown};
use crate::takeover;
use crate::trace::note;

/// What must not be either where servers forget.
const UNFORGOTTEN: [&str; 3] = ["Orphans", "Overstayed", "Unfinished"];

/// One guard, from its grant on.
#[derive(Clone)]
struct Hold {
    who: Who,
    process: ProcessId,
    claims: Vec<Claim>,
    /// What it takes of a pool, and the capacity that its holder has stated.
    permit: Option<(u32, u32)>,
    /// Nothing in a hold of another client.
    token: Option<i64>,
    session: i64,
    asked: u64,
    granted: u64,
    /// Its holder has it, and it ends with the holder's process.
    guard: Weak<Held>,
    /// When the holder gave the guard up, and whether it was valid then.
    given_up: Option<(u64, bool)>,
    /// Whether the guard has said that it is lost.
    is_lost: bool,
}

impl Hold {
    /// What an operator may have taken from the hold.
    fn taken(&self) -> Taken {
        let Self { who, token, session, granted, process, .. } = *self;
        let gone = token.and_then(interventions::gone_since);
        HISTORY.with_borrow(|history| {
            let in_quiet = history.is_quiet(process) && gone.is_some_and(|gone| gone > history.quiet_from);
            let is_late = history.quiet.is_late(who);
            Taken { token, session, granted, in_quiet, is_late }
        })
    }
}

/// What a run has seen, and what was wrong.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// What it has seen.
    pub seen: Seen,
    /// The events of the library that it has reached.
    pub reached: BTreeSet<String>,
    /// What must not be.
    pub violations: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Contenders contend, and faults happen.
    #[default]
    Storm,
    /// Faults stay outside a core, and contenders go on.
    Core,
    /// The faults are over, and contenders go on.
    Calm,
    /// Contenders are to hold what they contend for once more.
    Last,
    /// One contender holds once more, until an operator has deleted its node.
    Eviction,
    /// An operator looks whether anything is left.
    Audit,
    /// Nothing was left. Contenders close their sessions.
    Close,
}

#[derive(Default)]
struct History {
    /// What was said, once it is known which member is contended for.
    collector: Option<Collector>,
    /// The number of each process. A process that is started in another one's place has the same number.
    clients: BTreeMap<ProcessId, u16>,
    /// Everybody who contends.
    contenders: Vec<Who>,
    /// The holds, by their numbers, and the present one of each contender.
    holds: BTreeMap<u64, Hold>,
    numbered: u64,
    present: BTreeMap<Who, u64>,
    asked: BTreeMap<Who, (u64, Request)>,
    /// The holds that are being released.
    releasing: BTreeMap<Who, Hold>,
    /// When each process was stopped last.
    stops: BTreeMap<ProcessId, u64>,
    /// The processes that a scheduler may keep from running for as long as a signal would.
    stopped_anyhow: BTreeSet<ProcessId>,
    /// How many faults last, and when the consequences of the others are over.
    faults: u32,
    quiet_from: u64,
    registers: BTreeMap<usize, Store>,
    /// Whether servers forget what they have acknowledged. No lock is safe then.
    forgets: bool,
    /// What an operator has found in the end.
    found: (Vec<Vec<Entry>>, Records),
    /// Who holds once more in the end, and whether that is over.
    evicted: Option<(Who, bool)>,
    /// How far the end has come.
    stage: Stage,
    quiet: Quiet,
    /// The holds that an operator has ended, by their numbers.
    taken: BTreeSet<u64>,
    /// The announcements that were found wrong, by the transactions that created them.
    orphans: BTreeSet<i64>,
    outcome: Outcome,
}

impl History {
    /// Whether nothing is wrong now, with this process or elsewhere.
    fn is_quiet(&self, process: ProcessId) -> bool {
        let is_stopped = self.stage < Stage::Calm && self.stopped_anyhow.contains(&process);
        self.faults == 0 && self.stage != Stage::Core && !is_stopped
    }
}

thread_local! {
    static HISTORY: RefCell<History> = RefCell::default();
}

/// Starts the history of this many processes.
pub(crate) fn begin(part: &Part, processes: u32) {
    interventions::begin(part);
    let contenders =
        (1..=processes as u16).flat_map(|client| (1..=part.tasks).map(move |task| Who { client, task }));
    let collector = Some(Collector::new(part.member));
    let (contenders, quiet, forgets) = (contenders.collect(), Quiet::of(part), part.forgets);
    let history = History { collector, contenders, quiet, forgets, ..History::default() };
    drop(HISTORY.replace(history));
}

/// Ends the history, judges it, and returns what was seen.
pub(crate) fn end(member: Member, timeout: Duration) -> Outcome {
    let History {
        collector, registers, forgets, found: (logs, (records, ranges)), mut outcome, quiet, ..
    } = HISTORY.take();
    let Some(collector) = collector else { return outcome };
    let mut history = collector.finish(Instant(u64::MAX));
    // Without a majority for the whole of the faults, servers show what was committed before. So do those outside a core.
    let stale = timeout * 80 + quiet.bounds.settling();
    history.scope = Scope { sampled: false, proves: false, stale, drift: 500 };
    history.ledgers = registers.into_values().map(|store| store.ledger).collect();
    (history.logs, history.runs.records, history.runs.ranges) = (logs, records, ranges);
    outcome.seen.grants = history.holds.len() as u64;
    outcome.seen.shown = shown(member, &history);
    outcome.seen.losses = history.holds.iter().filter(|hold| hold.is_lost()).count() as u64;
    outcome.violations.extend(quiet.end());
    let counts = |example: &String| !forgets || UNFORGOTTEN.iter().any(|wrong| example.starts_with(wrong));
    outcome.violations.extend(Verdict::of(member, &history).examples.into_iter().filter(counts));
    outcome
}

pub(crate) fn started(process: ProcessId, client: u16) {
    HISTORY.with_borrow_mut(|history| history.clients.insert(process, client));
}

pub(crate) fn hear(process: ProcessId, part: &Part, record: &Record) {
    let Record { at: Instant(at), who, event, .. } = record;
    if !matches!(event, Event::Holds { .. } | Event::Witnesses { .. }) {
        note(who, format_args!("{event:?}"));
    }
    takeover::hear(record, wrong, move |since| {
        HISTORY.with_borrow(|history| history.is_quiet(process) && since > history.quiet_from)
    });
    let (led, late) = HISTORY.with_borrow_mut(|history| {
        let is_judged = !history.quiet.is_outside(who.client);
        let led = history.quiet.leads(*who, event);
        let led = led.filter(|_| part.member == Member::Election && is_judged);
        (led, history.quiet.hear(*who, *at, event))
    });
    if !part.is_foreign(who.client) {
        late.into_iter().for_each(wrong);
    }
    match event {
        Event::LeftWithout { why: Leaving::Failed(why) }
            if why.starts_with(LOST_BEFORE)
                && is_given_at_once(part.member)
                && !part.is_foreign(who.client) =>
        {
            wrong(format!("{who} has got a guard that was lost before: {why}"));
        }
        Event::Asks { .. } => {
            let client = cluster::host_of(who.client);
            cluster::later(*at, move |cluster| cluster.reached(Moment::Asks(client)));
        }
        Event::Granted { token, .. } => {
            let client = cluster::host_of(who.client);
            cluster::later(*at, move |cluster| cluster.reached(Moment::Granted(client)));
            // As long as that, an acquisition may wait for its caller.
            let before = at.saturating_sub((part.timeout * 4).as_nanos() as u64);
            let was_written =
                token.is_some_and(|token| interventions::was_written_before(token.zxid(), before));
            if part.member == Member::Queue && was_written && !part.forgets {
                wrong(format!("{who} was granted by a node that was written to: it was asked to leave"));
            }
        }
        Event::Lost { .. } | Event::Releases { .. } | Event::Drops { .. } => give_up(*who),
        _ => {}
    }
    if let Some((token, leads)) = led {
        announced(who.client, token, *at, leads);
    }
    HISTORY.with_borrow_mut(|history| {
        match event {
            Event::Asks { request, .. } => drop(history.asked.insert(*who, (*at, request.clone()))),
            Event::Granted { session, claims, token, .. } => {
                if let Some((_, Request::Lead(value))) = history.asked.get(who) {
                    let who = *who;
                    let value = value.clone();
                    cluster::later(*at, move |_| {
                        if !interventions::was_announced(&value) {
                            wrong(format!("{who} leads with {value}, which was never announced"));
                        }
                    });
                }
                let (asked, permit) = match history.asked.get(who) {
                    Some((asked, request)) => (*asked, request.part_of_pool()),
                    None => (*at, None),
                };
                history.numbered += 1;
                history.present.insert(*who, history.numbered);
                let hold = Hold {
                    who: *who,
                    process,
                    claims: claims.clone(),
                    permit,
                    token: token.map(FencingToken::zxid),
                    session: *session,
                    asked,
                    // It was valid then. It may have been preempted since.
                    granted: *at,
                    guard: Weak::new(),
                    given_up: None,
                    is_lost: false,
                };
                history.holds.insert(history.numbered, hold);
                let number = history.numbered;
                // What other processes did before this instant may not have been simulated yet.
                cluster::later(*at, move |cluster: &mut Cluster| check(&cluster.world, number));
            }
            Event::Releases { .. } => {
                let held = history.holds.values().rfind(|hold| hold.who == *who);
                history.releasing.extend(held.map(|hold| (*who, hold.clone())));
            }
            Event::Released { .. } => drop(history.releasing.remove(who)),
            Event::Lost { .. } => {
                let evicted = history.evicted.iter_mut().filter(|(evicted, _)| evicted == who);
                evicted.for_each(|(_, is_over)| *is_over = true);
            }
            _ => {}
        }
        if let Some(collector) = &mut history.collector {
            collector.hear(record);
        }
    });
}

/// Observers are to know soon that somebody leads, or leads no more.
fn announced(client: u16, token: FencingToken, at: u64, leads: bool) {
    let bound = HISTORY.with_borrow(|history| history.quiet.counts(at).then(|| history.quiet.bounds.tale()));
    let Some(bound) = bound else { return };
    cluster::later(at + bound.as_nanos() as u64, move |_| {
        // Faults outside a core may have ended meanwhile.
        let told = HISTORY.with_borrow(|history| {
            let quiet = &history.quiet;
            let is_judged =
                history.stage < Stage::Eviction && quiet.counts(at) && !quiet.is_apart(client, at);
            if is_judged { quiet.told(token, at, leads) } else { Vec::new() }
        });
        told.into_iter().for_each(wrong);
    });
}

/// A scheduler may keep this process from running for as long as a signal would.
pub(crate) fn stops_anyhow(process: ProcessId) {
    HISTORY.with_borrow_mut(|history| history.stopped_anyhow.insert(process));
}

/// A fault begins, or it is over and so are its consequences from this instant on.
pub(crate) fn disturbed(begins: bool, quiet_from: u64) {
    HISTORY.with_borrow_mut(|history| {
        history.faults = if begins { history.faults + 1 } else { history.faults - 1 };
        history.quiet_from = history.quiet_from.max(quiet_from);
    });
}

/// A signal stops a process, or its machine is suspended.
pub(crate) fn stopped(process: ProcessId) {
    let now = world::now();
    HISTORY.with_borrow_mut(|history| history.stops.insert(process, now));
}

/// A contender has this guard of its hold now.
pub(crate) fn holds(who: Who, guard: &Arc<Held>) {
    HISTORY.with_borrow_mut(|history| {
        let hold = history.present.get(&who).and_then(|number| history.holds.get_mut(number));
        hold.into_iter().for_each(|hold| hold.guard = Arc::downgrade(guard));
    });
}

fn give_up(who: Who) {
    let hold = HISTORY.with_borrow_mut(|history| {
        let number = history.present.remove(&who)?;
        Some((number, history.holds.get(&number)?.clone()))
    });
    let Some((number, hold)) = hold else { return };
    let given_up = Some((world::now(), asked(number, &hold)));
    HISTORY.with_borrow_mut(|history| {
        history.holds.get_mut(&number).into_iter().for_each(|hold| hold.given_up = given_up);
    });
}

pub(crate) fn call(lock: usize, call: Call) -> Answer {
    let at = Instant(world::now());
    HISTORY.with_borrow_mut(|history| history.registers.entry(lock).or_default().take(call, at))
}

pub(crate) fn add(fault: &Fault) {
    HISTORY.with_borrow_mut(|history| {
        history.quiet.acts(world::now());
        history.collector.iter_mut().for_each(|collector| collector.add(fault));
    });
}

/// An operator has written another capacity. The pool had these zxids before, and with it.
pub(crate) fn resized(capacity: u32, zxids: (i64, i64)) {
    HISTORY.with_borrow_mut(|history| history.quiet.resizes(world::now()));
    interventions::resized(capacity, zxids);
}

/// Something happened that must not.
pub(crate) fn wrong(what: String) {
    note("VIOLATION", &what);
    HISTORY.with_borrow_mut(|history| history.outcome.violations.push(what));
}

/// A process is gone, and nothing of it is held or waited for any more.
pub(crate) fn gone(process: ProcessId) {
    let now = world::now();
    HISTORY.with_borrow_mut(|history| {
        for hold in history.holds.values_mut().filter(|hold| hold.process == process) {
            hold.given_up.get_or_insert((now, false));
        }
        let History { holds, present, .. } = history;
        present.retain(|_, number| holds.get(number).is_some_and(|hold| hold.process != process));
        if let (Some(client), Some(collector)) = (history.clients.get(&process), &mut history.collector) {
            history.quiet.gone(*client);
            collector.gone(*client, Instant(now));
        }
    });
}

/// What a client is about as it closes its session.
pub(crate) struct Closing {
    client: u16,
    at: u64,
    /// Whether nothing ends its lease before what it has to write is written.
    is_ample: bool,
    /// The holds that it releases.
    releasing: Vec<Hold>,
}

/// The process of this client drops what it is about, and closes its session.
pub(crate) fn closes(process: ProcessId, client: u16, at: u64, is_ample: bool) -> Closing {
    let closing = HISTORY.with_borrow(|history| {
        let releasing = history.releasing.values().filter(|hold| hold.process == process);
        let releasing = releasing.cloned().collect();
        Closing { client, at, is_ample, releasing }
    });
    gone(process);
    takeover::closes(client);
    closing
}

/// A server has confirmed that a session with this timeout is closed. Its nodes are gone then, and what its runs and claims had to write is
/// written. The call waits for that for a tenth of the session timeout (`Session::close`).
pub(crate) fn closed(session: i64, timeout: Duration, closing: &Closing, part: &Part) {
    let Closing { client, at: began, is_ample, releasing } = closing;
    let at = world::now();
    if part.forgets {
        return;
    }
    // The leader may answer before it has applied what it says.
    cluster::later(at + part.told.as_nanos() as u64, move |cluster| {
        if cluster.has_nodes_of(session) {
            wrong(format!("session {session:#x} is closed, and has nodes"));
        }
    });
    // Its clock may be faster.
    let in_time = *is_ample && Duration::from_nanos(at - began) < timeout / 12;
    let is_ended = |token| interventions::is_ended(session, token);
    let its = |hold: &&Hold| hold.session == session && !hold.token.is_some_and(is_ended);
    note("closed", format_args!("client {client}, in time: {in_time}, releasing {}", releasing.len()));
    HISTORY.with_borrow_mut(|history| {
        let collector = history.collector.iter_mut().filter(|_| in_time && part.member == Member::Once);
        for collector in collector {
            releasing.iter().filter(its).for_each(|hold| collector.recorded(hold.who, Instant(at)));
            collector.taken_back(*client, Instant(*began));
        }
    });
}

pub(crate) fn enter(stage: Stage) {
    note("stage", format_args!("{stage:?}"));
    HISTORY.with_borrow_mut(|history| {
        history.stage = stage;
        if stage == Stage::Calm {
            // What stayed broken around a core is over.
            let settled = history.quiet.begin(world::now(), None);
            history.quiet_from = history.quiet_from.max(settled);
        }
    });
}

/// From now on faults stay, and these clients are outside the core. Returns what those hold whose sessions are going to expire.
pub(crate) fn enter_core(outside: Outside) -> Vec<(Who, i64)> {
    enter(Stage::Core);
    HISTORY.with_borrow_mut(|history| {
        let theirs = history.present.iter().filter(|(who, _)| outside.gone.contains(&who.client));
        let held = theirs.filter_map(|(who, number)| Some((*who, history.holds.get(number)?.token?)));
        let held = held.collect();
        history.quiet.begin(world::now(), Some(outside));
        held
    })
}

/// What contenders of the core should have by now, and have not.
pub(crate) fn unmet(is_foreign: impl Fn(u16) -> bool) -> Vec<String> {
    HISTORY.with_borrow_mut(|it| it.quiet.unmet(world::now(), &it.contenders, is_foreign))
}

/// Whether this is the contender that holds once more: the first one that asks.
pub(crate) fn is_evicted(who: Who) -> bool {
    HISTORY.with_borrow_mut(|history| history.evicted.get_or_insert((who, false)).0 == who)
}

/// Whether that one has lost what it held.
pub(crate) fn was_evicted() -> bool {
    HISTORY.with_borrow(|history| history.evicted.is_some_and(|(_, is_over)| is_over))
}

pub(crate) fn stage() -> Stage {
    HISTORY.with_borrow(|history| history.stage)
}

/// An operator has looked at the tree, and has found these orphans, and what was written.
pub(crate) fn audited(orphans: Vec<String>, found: (Vec<Vec<Entry>>, Records)) {
    orphans.iter().for_each(|orphan| wrong(format!("nobody contends any more, and this is left: {orphan}")));
    HISTORY.with_borrow_mut(|history| history.found = found);
    enter(Stage::Close);
}

/// Who has not finished.
pub(crate) fn unfinished() -> Vec<String> {
    HISTORY.with_borrow(|history| {
        let Some(collector) = &history.collector else { return Vec::new() };
        let contenders = history.contenders.iter().filter(|who| !collector.has_finished(**who));
        let doing = contenders.map(|who| format!("{who} has not finished: {}", collector.doing(*who)));
        let evicted = match history.evicted {
            Some((who, false)) => Some(format!("{who} has not finished: it is to hold once more")),
            None if history.stage == Stage::Eviction => Some("nobody holds once more".to_owned()),
            _ => None,
        };
        doing.chain(evicted).collect()
    })
}

/// A server that serves has applied transactions just now. No guard is valid whose node is gone, except for a while if an operator has
/// deleted the node.
pub(crate) fn applied(world: &World, server: &Server) {
    for (node, session) in interventions::look(server) {
        let fault =
            Fault::begins("a name is given again".to_owned(), Effect::TakesHold, Instant(world.now()));
        add(&Fault { session: Some(session), node: Some(node), ..fault });
    }
    takeover::look(server);
    look_at_announcement(world.now(), server);
    if interventions::sees_another_announcement(server) {
        announces(world.now());
    }
    if HISTORY.with_borrow(|history| history.forgets) {
        return;
    }
    let now = world.now();
    let gone = HISTORY.with_borrow(|history| {
        let holds = history.holds.iter().filter(|(_, hold)| {
            hold.granted <= now && hold.given_up.is_none_or(|(at, was_valid)| at > now && was_valid)
        });
        let gone = holds.filter(|(_, hold)| hold.token.and_then(interventions::gone_since).is_some());
        gone.map(|(number, hold)| (*number, hold.clone())).collect::<Vec<_>>()
    });
    for (number, hold) in gone {
        if interventions::may_be_valid(hold.taken()) {
            taken(number, now);
        } else if hold.given_up.is_some() || is_valid(world, number, &hold) {
            wrong(format!("the guard of {}, {:?}, is valid, and its node is gone", hold.who, hold.token));
        }
    }
}

/// Observers learn of an announcement, or of its end, soon after it, even if their connections break.
fn announces(now: u64) {
    let bound = HISTORY.with_borrow(|history| history.quiet.counts(now).then(|| history.quiet.bounds.news()));
    let Some(bound) = bound else { return };
    cluster::later(now + nanoseconds(bound), move |_| {
        let Some(token) = interventions::announced_since(now).map(|token| token.map(FencingToken::new))
        else {
            return;
        };
        // Faults outside a core may have ended meanwhile.
        let misled = HISTORY.with_borrow(|history| {
            let is_judged = history.stage < Stage::Eviction && history.quiet.counts(now);
            if is_judged { history.quiet.misled(token, now) } else { Vec::new() }
        });
        misled.into_iter().for_each(wrong);
    });
}

/// A connection of this client is about to break, and nothing else is wrong.
pub(crate) fn breaks(client: u16, now: u64) {
    HISTORY.with_borrow_mut(|history| history.quiet.breaks(client, now));
}

/// Nobody announces itself whose node is gone. A leader whose node goes takes its announcement back soon, if nothing is wrong.
fn look_at_announcement(now: u64, server: &Server) {
    let Some(Orphan { czxid, since, is_late }) = interventions::look_at_announcement(server) else { return };
    let is_wrong = HISTORY.with_borrow_mut(|history| {
        let is_quiet = history.faults == 0 && history.stage != Stage::Core;
        let bound = nanoseconds(history.quiet.bounds.takes_back());
        let is_overdue = is_quiet && now > since.max(history.quiet_from) + bound;
        (is_overdue || is_late && !history.forgets) && history.orphans.insert(czxid)
    });
    if is_wrong {
        let when = if is_late { "made behind that" } else { "still there" };
        wrong(format!("a leader's node is gone since {since}, and its announcement is {when}, zxid {czxid}"));
    }
}

/// An operator has deleted the node of a hold. The guard is to be lost soon.
fn taken(number: u64, now: u64) {
    let bound = HISTORY.with_borrow_mut(|history| {
        let counts = history.quiet.is_settled(now) && history.taken.insert(number);
        counts.then(|| history.quiet.bounds.loss())
    });
    let Some(bound) = bound else { return };
    cluster::later(now + bound.as_nanos() as u64, move |cluster: &mut Cluster| {
        let hold = HISTORY.with_borrow(|history| history.holds.get(&number).cloned());
        let Some(hold) = hold.filter(|hold| hold.given_up.is_none()) else { return };
        if is_valid(&cluster.world, number, &hold) {
            let Hold { who, token, .. } = hold;
            wrong(format!("the guard of {who}, {token:?}, is valid {bound:?} after its node was deleted"));
        }
    });
}

fn is_valid(world: &World, number: u64, hold: &Hold) -> bool {
    world.within(hold.process, || asked(number, hold)).unwrap_or(false)
}

/// Compares a guard with all others at the instant of its grant, which is now.
fn check(world: &World, number: u64) {
    let now = world.now();
    let (hold, others) = HISTORY.with_borrow_mut(|history| {
        // Nobody asks again about a hold that was over before this instant.
        history.holds.retain(|other, hold| *other == number || hold.given_up.is_none_or(|(at, _)| at > now));
        // A holder of another client that was stopped goes on for a moment, however long that was. Nobody promises anything.
        let counts = |hold: &&Hold| {
            hold.token.is_some() || history.stops.get(&hold.process).is_none_or(|stop| *stop < hold.asked)
        };
        let hold = history.holds.get(&number).filter(counts).cloned();
        let others = history.holds.iter().filter(|(other, hold)| **other != number && hold.granted <= now);
        let others = others.filter(|(_, hold)| counts(hold));
        (hold, others.map(|(other, hold)| (*other, hold.clone())).collect::<Vec<_>>())
    });
    let Some(hold) = hold.filter(|_| !HISTORY.with_borrow(|history| history.forgets)) else { return };
    let valid = others.into_iter().filter(|(other, hold)| match hold.given_up {
        // Its holder gave it up later than now, in a step that is ahead of others.
        Some((_, was_valid)) => was_valid,
        None => is_valid(world, *other, hold),
    });
    // What an operator does may leave two guards, if the later one has come to an empty place.
    let is_excused = |taken: &Hold, other: &Hold| {
        interventions::is_excused(taken.taken(), other.token, other.who, other.asked)
    };
    // The other one may be granted first, if an operator has deleted the node of one that waits for a confirmation.
    let valid = valid.filter(|(_, other)| !is_excused(other, &hold) && !is_excused(&hold, other));
    let valid = valid.map(|(_, hold)| hold).collect::<Vec<_>>();
    let who = hold.who;
    // Two holders of another client may overlap.
    let overlaps = |other: &&Hold| {
        conflict(&other.claims, &hold.claims) && (other.token.is_some() || hold.token.is_some())
    };
    for Hold { who: holder, claims, token, .. } in valid.iter().filter(overlaps) {
        wrong(format!(
            "{who}, {:?}, has {:?}, and {holder} has {claims:?}, {token:?}",
            hold.token, hold.claims
        ));
    }
    let (Some((weight, capacity)), Some(token)) = (hold.permit, hold.token) else { return };
    let held = valid.iter().filter_map(|other| Some(other.permit?.0)).sum::<u32>();
    if !interventions::may_be_admitted(token, capacity) {
        wrong(format!("{who}, token {token}: it has a part of {capacity}, and the capacity was another one"));
    }
    // A capacity that is lowered takes nothing from those who hold.
    let is_last = valid.iter().all(|other| other.token < Some(token));
    if is_last && held + weight > capacity {
        wrong(format!("{who}, token {token}: {held} of {capacity} are held"));
    }
}

/// Asks a guard whether it is held. Once it is lost, it must never be held again.
fn asked(number: u64, hold: &Hold) -> bool {
    let Some(guard) = hold.guard.upgrade() else { return false };
    let is_held = guard.check().is_ok();
    let was_lost = HISTORY.with_borrow_mut(|history| {
        let hold = history.holds.get_mut(&number);
        hold.is_some_and(|hold| std::mem::replace(&mut hold.is_lost, !is_held))
    });
    if is_held && was_lost {
        wrong(format!("the guard of {}, {:?}, was lost, and is held again", hold.who, hold.token));
    }
    is_held
}
