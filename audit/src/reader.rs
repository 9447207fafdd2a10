//! Reads the record of one process, line by line. It runs the lines through the machines that decided then.

use std::collections::{BTreeMap, HashMap};

use zklock_recipe::acquisition::{self, Acquisition, Command, Single};
use zklock_recipe::flight::{
    Begun, Evidence, Header, Heard, Held, Line, Located, Outcome, Over, Session, Stamp,
};
use zklock_recipe::{Lease, Moment, SessionEnd};

use crate::clocks::raw;
use crate::read::{Entry, Process};
use crate::tale::{Attempt, Divergence, Ending, Hold, Named, Tale, Watch};

/// By how much the two clocks of a machine may part while it is not suspended: chrony slews one of them by 1/12.
const SLEWED: i64 = 10;
/// And by how much in any case.
const PARTED: i64 = 50_000_000;

/// One step of a replay.
pub(crate) enum Step<'a> {
    Line(&'a Line),
    Commands(&'a Heard, &'a [Command]),
    /// The lease of this session, after it took in evidence.
    Lease(i64, &'a Lease, &'a Evidence),
    Diverged(&'a Divergence),
    Gap,
}

/// Reads what the lines of a process tell.
pub(crate) struct Reader<'a> {
    tale: Tale,
    sessions: HashMap<u32, Open>,
    /// The places of all holds in the tale, by their acquisitions.
    held: HashMap<u64, usize>,
    /// The places of those that are open.
    open: BTreeMap<u64, usize>,
    /// Whether one may have ended before its lease.
    has_cuts: bool,
    /// When the present file begins.
    file: i64,
    tell: &'a mut dyn FnMut(Step<'_>),
}

struct Open {
    id: i64,
    lease: Lease,
    /// The connections that were lost, and when the lease was to end by then.
    lost: HashMap<u64, Moment>,
    /// When the lease last took in evidence.
    at: Moment,
}

/// Reads the record of a process, and tells of each step.
pub(crate) fn read(process: &Process, tell: &mut dyn FnMut(Step<'_>)) -> Tale {
    let (tale, sessions, held, open) = <_>::default();
    let mut reader = Reader { tale, sessions, held, open, has_cuts: false, file: 0, tell };
    for entry in &process.entries {
        match entry {
            Entry::Line(line) => {
                (reader.tell)(Step::Line(line));
                reader.line(line);
            }
            Entry::Gap => reader.gap(),
        }
    }
    reader.finish()
}

impl Reader<'_> {
    fn line(&mut self, line: &Line) {
        self.at(line.at());
        match line {
            Line::Header(Header { wall, at, deleted, .. }) => {
                self.tale.deleted = self.tale.deleted.max(deleted.map(raw));
                self.tale.wall.get_or_insert((*wall, raw(*at)));
                self.file = raw(*at);
                self.tale.gaps.iter_mut().for_each(|(_, end)| *end = end.or(Some(raw(*at))));
                for index in self.open.values() {
                    let watch = self.tale.holds[*index].open.as_mut();
                    watch.filter(|watch| watch.is_blind).into_iter().for_each(|it| it.unlisted = Some(*at));
                }
            }
            Line::Session(session) => {
                let Session { number, id, lease, at, servers, .. } = &**session;
                self.tale.servers.insert(*number, servers.clone());
                let timeout = i64::try_from(lease.lengths().timeout.as_nanos()).unwrap_or(i64::MAX);
                self.tale.longest = self.tale.longest.max(timeout);
                let lost = self.sessions.remove(number).map_or_else(HashMap::new, |open| open.lost);
                self.sessions.insert(*number, Open { id: *id, lease: lease.clone(), lost, at: *at });
            }
            Line::Lease(session, evidence) => self.lease(*session, evidence),
            Line::Begun(begun) => {
                // At the beginning of a file it began before: the inputs that it has had are in files before this one.
                let machine = (raw(begun.at) >= self.file).then(|| begun.machine());
                let attempt = || Attempt::new(begun.clone(), machine);
                self.tale.acquisitions.entry(begun.acquisition).or_insert_with(attempt);
                self.located(begun);
            }
            Line::Located(acquisition, located, _) => {
                if let Some(attempt) = self.tale.acquisitions.get_mut(acquisition) {
                    attempt.shown.push(located.index);
                    self.tale.directories.extend(attempt.begun.directory(located));
                }
                self.locate(*acquisition, located);
            }
            Line::Heard(heard) => self.heard(heard),
            Line::Held(held) => self.held(held),
            Line::Saw(acquisition, connection, _) => {
                if let Some(machine) = self.machine(*acquisition) {
                    machine.saw(*connection);
                }
                self.saw(*acquisition, *connection);
            }
            Line::Touched(acquisition, _) => {
                self.machine(*acquisition).into_iter().for_each(Acquisition::touched)
            }
            Line::Turn(acquisition, turn, _) => {
                if let Some(hold) = self.hold(*acquisition) {
                    hold.turns = *turn + 1;
                }
            }
            Line::Over(over) => self.over(over),
            Line::Asked(asked) => self.tale.asked.push(asked.clone()),
            Line::Continues(..) | Line::Closed(_) => {}
            Line::Stamp(stamp) => {
                self.tale.stamps.push(stamp.clone());
                self.released(stamp);
            }
        }
    }

    /// The clocks show this.
    fn at(&mut self, at: Moment) {
        let last = self.tale.last;
        let (begin, end) = (raw(last), raw(at));
        // Lines of several threads may be written in another order than their instants have.
        if end < begin {
            return;
        }
        let parted = boot(at) - boot(last) - (end - begin);
        if last != Moment::default() && parted > PARTED + (end - begin) / SLEWED {
            self.tale.suspended.push((begin, end));
        }
        self.tale.last = at;
    }

    /// When this open hold ends, if nothing more happens; `None` if lines are missing.
    fn bound(&self, index: usize) -> Option<Moment> {
        let watch = self.tale.holds[index].open.as_ref()?;
        let lease = &self.sessions.get(&watch.session).filter(|_| !watch.is_blind)?.lease;
        let cut = if watch.seen.is_some() && lease.connection() == watch.seen { None } else { watch.cut };
        Some([cut, watch.told].into_iter().flatten().fold(lease.deadline(), earlier))
    }

    /// Closes a hold whose guard was over at this instant for this reason, unless its lease had ended before.
    fn close(&mut self, acquisition: u64, at: Moment, sure: Moment, ending: Ending) {
        let Some(index) = self.open.remove(&acquisition) else { return };
        let bound = self.bound(index);
        let hold = &mut self.tale.holds[index];
        let watch = hold.open.take();
        let session = watch.as_ref().and_then(|watch| self.sessions.get(&watch.session));
        let (end, sure, ending) = match bound.filter(|bound| at.until(*bound).is_zero()) {
            // Nobody may have asked the guard since, so that nobody has written so. One of the clocks may be slewed.
            Some(bound) => {
                let since = session.map_or(hold.granted, |session| session.at);
                let left = i64::try_from(since.until(bound).as_nanos()).unwrap_or(0);
                let end = raw(bound).min(raw(at));
                (end, raw(since) + left - left / SLEWED - PARTED, Ending::Lost("its lease ended".to_owned()))
            }
            // The line of its end may be missing. A file that begins behind it does not list it.
            None => {
                let unlisted = watch.as_ref().and_then(|watch| watch.unlisted);
                (raw(at).min(unlisted.map_or(i64::MAX, raw)), raw(sure), ending)
            }
        };
        (hold.end, hold.ending) = (Some(end), ending);
        if watch.is_some_and(|watch| !watch.is_blind && !watch.hides_cut) {
            hold.sure = awake(&self.tale.suspended, hold.granted, sure.min(end));
        }
    }

    fn lease(&mut self, number: u32, evidence: &Evidence) {
        let Some(Open { id, lease, .. }) = self.sessions.get(&number) else { return };
        let (id, at, lost, deadline) = (*id, evidence.at(), lease.connection(), lease.deadline());
        let of_session = |hold: &Hold| hold.open.as_ref().is_some_and(|watch| watch.session == number);
        if self.has_cuts || lease.remaining(at).is_zero() {
            self.has_cuts = false;
            // Another term revives no guard.
            for (acquisition, index) in self.open.clone() {
                let is_over = self.bound(index).is_some_and(|bound| at.until(bound).is_zero());
                let watch = self.tale.holds[index].open.as_ref();
                self.has_cuts |= watch.is_some_and(|watch| watch.cut.is_some() || watch.told.is_some());
                if is_over && of_session(&self.tale.holds[index]) {
                    self.close(acquisition, at, at, Ending::Unseen);
                }
            }
        }
        let Some(Open { lease, at: since, lost: losses, .. }) = self.sessions.get_mut(&number) else {
            return;
        };
        let _refused = evidence.apply(lease);
        *since = at;
        (self.tell)(Step::Lease(id, lease, evidence));
        let (present, end) = (lease.connection(), lease.end());
        if let Some(gone) = lost.filter(|_| present != lost) {
            losses.insert(gone, deadline);
            for index in self.open.values() {
                let hold = &mut self.tale.holds[*index];
                if of_session(hold)
                    && let Some(watch) = hold.open.as_mut().filter(|watch| watch.seen == lost)
                {
                    (watch.cut, self.has_cuts) = (Some(deadline), true);
                }
            }
        }
        if let Some(end) = end {
            for (acquisition, index) in self.open.clone() {
                if of_session(&self.tale.holds[index]) {
                    self.close(acquisition, at, at, Ending::Lost(reason(end).to_owned()));
                }
            }
            self.sessions.remove(&number);
        }
    }

    /// Takes in which nodes of an acquisition were known, and where they are.
    fn located(&mut self, begun: &Begun) {
        for located in &begun.located {
            self.tale.directories.extend(begun.directory(located));
            self.locate(begun.acquisition, located);
        }
    }

    fn locate(&mut self, acquisition: u64, Located { index, own, directory }: &Located) {
        self.tale.located.insert((acquisition, *index, own.czxid), *directory);
        if let Some(attempt) = self.tale.acquisitions.get_mut(&acquisition) {
            attempt.has(*index, *own);
        }
    }

    fn heard(&mut self, heard: &Heard) {
        let Some(attempt) = self.tale.acquisitions.get_mut(&heard.acquisition) else {
            // Its begin is missing, and so is what it holds.
            if let Some(Outcome::Granted(..)) = heard.outcome {
                self.tale.gaps.push((raw(heard.at), None));
            }
            return;
        };
        attempt.see(&heard.input, heard.at);
        attempt.shown.clear();
        let mut is_replayed = false;
        if let Some(machine) = &mut attempt.machine {
            let commands = machine.handle(heard.input.clone(), heard.present);
            for command in &commands {
                if let Command::One(index, Single::WatchPredecessor(place, _), _) = command
                    && let Some(watching) = attempt.watching.get_mut(*index)
                {
                    *watching = Some(*place);
                }
            }
            let replayed = Outcome::of(&commands, machine);
            (self.tell)(Step::Commands(heard, &commands));
            is_replayed = replayed == heard.outcome;
            if !is_replayed {
                let path = attempt.begun.paths();
                let text = |outcome: &Option<Outcome>| {
                    outcome.as_ref().map_or("nothing".to_owned(), |it| format!("{it:?}"))
                };
                let (recorded, replayed) = (text(&heard.outcome), text(&replayed));
                let at = raw(heard.at);
                let divergence = Divergence { acquisition: heard.acquisition, path, recorded, replayed, at };
                (self.tell)(Step::Diverged(&divergence));
                self.tale.diverged.push(divergence);
                attempt.machine = None;
            }
        }
        match &heard.outcome {
            Some(Outcome::Granted(nodes, term, seen)) => {
                nodes.iter().enumerate().for_each(|(index, own)| attempt.has(index, *own));
                attempt.granted = Some(heard.at);
                let begun = attempt.begun.clone();
                let held =
                    Held { begun, nodes: nodes.clone(), term: *term, seen: *seen, turn: 0, at: heard.at };
                self.begin(held, is_replayed, false);
            }
            Some(Outcome::Ended(_, end)) => {
                attempt.ended = Some((heard.at, end.clone()));
                attempt.machine = None;
                self.close(heard.acquisition, heard.at, heard.at, Ending::LetGo);
            }
            Some(Outcome::Lost) | None => {}
        }
        // The caller has gone before it got the guard: nobody holds it.
        if let acquisition::Input::GiveUp | acquisition::Input::Release | acquisition::Input::Forfeit =
            heard.input
        {
            self.close(heard.acquisition, heard.at, heard.at, Ending::LetGo);
        }
    }

    /// Takes in which nodes a release removed. Another one of the same name has another creation.
    fn released(&mut self, stamp: &Stamp) {
        let Some(index) = stamp.releases.and_then(|acquisition| self.held.get(&acquisition)) else { return };
        let hold = &mut self.tale.holds[*index];
        // The guard was over before the release was sent.
        if hold.open.is_none() && hold.end.is_some_and(|end| end <= raw(stamp.sent)) {
            for (own, is_ours) in hold.nodes.iter().zip(&mut hold.released) {
                // One transaction may have created several of its nodes. Then nobody can tell these apart.
                let created = hold.nodes.iter().filter(|it| it.czxid == own.czxid).count();
                let removed = stamp.written.iter().filter(|it| **it == (own.czxid, 1)).count();
                *is_ours |= removed >= created;
            }
        }
    }

    fn begin(&mut self, held: Held, is_replayed: bool, hides_cut: bool) {
        let Held { begun, nodes, seen, turn, at, .. } = held;
        let session = self.sessions.get(&begun.session).map_or(0, |open| open.id);
        let open = self.sessions.get(&begun.session);
        let cut = seen.and_then(|seen| open?.lost.get(&seen).copied());
        self.has_cuts |= cut.is_some();
        let (session_number, told, unlisted) = (begun.session, None, None);
        let watch = Watch { session: session_number, seen, cut, told, hides_cut, is_blind: false, unlisted };
        self.open.insert(begun.acquisition, self.tale.holds.len());
        self.held.insert(begun.acquisition, self.tale.holds.len());
        self.tale.holds.push(Hold {
            begun,
            session,
            turns: turn + 1,
            granted: at,
            sure: raw(at),
            end: None,
            ending: Ending::Unseen,
            released: vec![false; nodes.len()],
            nodes,
            is_replayed,
            open: Some(watch),
        });
    }

    /// A hold that is open at the beginning of a file. After missing lines, it is known again.
    fn held(&mut self, held: &Held) {
        self.located(&held.begun);
        let hides_cut = self.hides_cut(held);
        match self.open.get(&held.begun.acquisition) {
            Some(index) => {
                let hold = &mut self.tale.holds[*index];
                if let Some(watch) = hold.open.as_mut().filter(|watch| watch.is_blind) {
                    (watch.is_blind, watch.unlisted, watch.seen, watch.cut) = (false, None, held.seen, None);
                    watch.hides_cut |= hides_cut;
                }
            }
            // Nobody has asked the guard since it was over.
            None if self.held.contains_key(&held.begun.acquisition) => {}
            None => self.begin(held.clone(), false, hides_cut),
        }
    }

    /// Whether the lease has ended, or the connection was lost on which the nodes were last seen, in lines that are not there. Then the
    /// guard may be over, and nobody has asked it.
    fn hides_cut(&self, held: &Held) -> bool {
        let Some(Open { lease, at, .. }) = self.sessions.get(&held.begun.session) else { return false };
        lease.check(held.term, *at).is_err() || held.seen.is_some() && held.seen != lease.connection()
    }

    fn saw(&mut self, acquisition: u64, connection: u64) {
        let Some(index) = self.open.get(&acquisition).copied() else { return };
        let Some(watch) = self.tale.holds[index].open.as_mut() else { return };
        if watch.seen < Some(connection) {
            // That connection may be lost by now.
            let lost = self.sessions.get(&watch.session).and_then(|open| open.lost.get(&connection));
            (watch.seen, watch.cut) = (Some(connection), lost.copied());
            self.has_cuts |= lost.is_some();
        }
    }

    fn over(&mut self, over: &Over) {
        let Some(index) = self.open.get(&over.acquisition).copied() else { return };
        let hold = &mut self.tale.holds[index];
        let is_ahead = !over.at.until(over.from).is_zero();
        if let Some(watch) = hold.open.as_mut().filter(|_| is_ahead && !over.lets_go) {
            (watch.told, self.has_cuts) = (Some(over.from), true);
            return;
        }
        let ending = if over.lets_go { Ending::LetGo } else { Ending::Lost(over.reason.clone()) };
        // The guard may have said so a moment before the line was written.
        self.close(over.acquisition, over.at, over.from, ending);
    }

    fn gap(&mut self) {
        (self.tell)(Step::Gap);
        self.tale.gaps.push((raw(self.tale.last), None));
        self.tale.acquisitions.values_mut().for_each(|attempt| attempt.machine = None);
        for index in self.open.values() {
            let watch = self.tale.holds[*index].open.as_mut();
            watch.into_iter().for_each(|watch| watch.is_blind = true);
        }
    }

    fn finish(mut self) -> Tale {
        for index in std::mem::take(&mut self.open).into_values() {
            let (end, last) = (self.bound(index), raw(self.tale.last));
            let hold = &mut self.tale.holds[index];
            let watch = hold.open.take();
            hold.end = end.or_else(|| watch.as_ref()?.unlisted).map(raw);
            if watch.is_some_and(|watch| !watch.is_blind && !watch.hides_cut) {
                let sure = hold.end.map_or(last, |end| end.min(last));
                hold.sure = awake(&self.tale.suspended, hold.granted, sure);
            }
        }
        self.tale
    }

    fn hold(&mut self, acquisition: u64) -> Option<&mut Hold> {
        self.tale.holds.get_mut(*self.open.get(&acquisition)?)
    }

    fn machine(&mut self, acquisition: u64) -> Option<&mut Acquisition> {
        self.tale.acquisitions.get_mut(&acquisition)?.machine.as_mut()
    }
}

/// The last instant until this one at which a guard certainly said that it was held. While the machine was suspended, one of its clocks
/// may have reached the guard's end, and the other one stood still.
fn awake(suspended: &[(i64, i64)], granted: Moment, sure: i64) -> i64 {
    let parted = suspended.iter().find(|(begin, end)| *end > raw(granted) && *begin < sure);
    parted.map_or(sure, |(begin, _)| sure.min(*begin).max(raw(granted)))
}

fn boot(moment: Moment) -> i64 {
    let (boot, _) = moment.into();
    boot.cast_signed()
}

/// The earlier of two instants, by each clock.
fn earlier(one: Moment, other: Moment) -> Moment {
    let ((boot, raw), (other_boot, other_raw)) = (<(u64, u64)>::from(one), <(u64, u64)>::from(other));
    (boot.min(other_boot), raw.min(other_raw)).into()
}

fn reason(end: SessionEnd) -> &'static str {
    match end {
        SessionEnd::Expired => "ZooKeeper expired the session",
        SessionEnd::Closed => "the session was closed",
        SessionEnd::AuthFailed => "ZooKeeper rejected the session's credentials",
    }
}
