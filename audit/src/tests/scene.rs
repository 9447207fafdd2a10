//! A record that is written by hand. Instants are in milliseconds. Each machine's clock begins at 0, and the leader's clock shows
//! [`LEADER`] then. A transaction has the number of its time by the machines' clocks.

use std::collections::BTreeMap;
use std::time::Duration;

use zklock_recipe::acquisition::{Acquisition, Input};
use zklock_recipe::flight::{
    Begun, Evidence, FORMAT, Header, Heard, Held, Line, Located, Outcome, Over, Queue, Session, Stamp,
};
use zklock_recipe::{
    Arrival, DEFAULT_DRIFT_PPM, Event, Input as Reply, Kind, Layout, Lease, Look, Moment, Own, PathKind,
    Patience, Place, Present, Reckoning, Sequence, Sight, Takeover, Term,
};

use crate::read::{Entry, Process, Records};
use crate::{Audit, Options, Verdict, audit};

pub(super) const LEADER: i64 = 1_000_000_000;

pub(super) fn moment(ms: i64) -> Moment {
    at(ms, ms)
}

/// An instant at which the clock that NTP may slew shows the first time.
pub(super) fn at(boot: i64, raw: i64) -> Moment {
    let nanoseconds = |ms: i64| ms.unsigned_abs() * 1_000_000;
    (nanoseconds(boot), nanoseconds(raw)).into()
}

pub(super) fn zxid(time: i64) -> i64 {
    1 << 32 | time
}

/// The exclusive node with this number, created at this instant.
pub(super) fn node(number: i32, created: i64) -> Own {
    Own { place: Place { sequence: Sequence(number), kind: Kind::Exclusive }, czxid: zxid(created) }
}

pub(super) fn queue(path: &str, kind: Kind) -> Queue {
    Queue {
        path: path.to_owned(),
        name: path.to_owned(),
        used_for: PathKind::Lock,
        is_turnstile: false,
        kind,
        takeover: Takeover::AtOnce,
        layout: Layout::Own,
        stock: None,
        owner: String::new(),
    }
}

/// The record of one process, which has a machine and a session of its own.
pub(super) struct Writer {
    header: Header,
    entries: Vec<Entry>,
    lease: Lease,
    machines: BTreeMap<u64, Acquisition>,
    /// When the directory was created that the replies show, if they show it.
    pub(super) directory: Option<i64>,
    /// The term of the holds that are listed, if it is not the present one.
    pub(super) term: Option<Term>,
}

impl Writer {
    /// Its session is established at 0, for 1,000 s.
    pub(super) fn new(name: &str) -> Self {
        Self::with_timeout(name, 1_000)
    }

    pub(super) fn with_timeout(name: &str, seconds: u64) -> Self {
        let reckoning = Reckoning { tick: Duration::from_secs(2), drift_ppm: DEFAULT_DRIFT_PPM };
        let lease = Lease::established(reckoning, Duration::from_secs(seconds), moment(0)).unwrap();
        let header = Header {
            failed: 0,
            format: FORMAT,
            zklock: String::new(),
            process: name.to_owned(),
            file: 0,
            gap: None,
            deleted: None,
            host: name.to_owned(),
            pid: 1,
            boot: name.to_owned(),
            owner: String::new(),
            inode: (0, 0),
            wall: 0,
            at: moment(0),
        };
        let (entries, machines) = <_>::default();
        let mut writer = Self { header, entries, lease, machines, directory: Some(0), term: None };
        writer.file(0);
        writer
    }

    pub(super) fn write(&mut self, line: Line) {
        self.entries.push(Entry::Line(Box::new(line)));
    }

    /// Begins a file, with the open session.
    pub(super) fn file(&mut self, at: i64) {
        self.write(Line::Header(Header { at: moment(at), ..self.header.clone() }));
        let (lease, at) = (self.lease.clone(), moment(at));
        let (servers, chroot) = ("zk:2181".to_owned(), String::new());
        self.write(Line::Session(Session { number: 0, id: 7, servers, chroot, lease, at }.into()));
    }

    /// Begins a file here. Others' records were deleted until the first instant.
    pub(super) fn deletes(&mut self, until: i64, at: i64) {
        self.header.deleted = Some(moment(until));
        self.file(at);
    }

    /// All lines until now are missing, and a file begins here.
    pub(super) fn rotate(&mut self, at: i64) {
        self.entries.clear();
        self.file(at);
    }

    /// The wall clock of all headers shows this.
    pub(super) fn set_wall(&mut self, wall: u64) {
        for entry in &mut self.entries {
            if let Entry::Line(line) = entry
                && let Line::Header(header) = &mut **line
            {
                header.wall = wall;
            }
        }
    }

    pub(super) fn gap(&mut self) {
        self.entries.push(Entry::Gap);
    }

    /// Lists an acquisition that waits at the begin of a file, with its node.
    pub(super) fn lists_waiting(&mut self, acquisition: u64, own: Own, begun: i64) {
        let begun = self.begun(acquisition, vec![queue("/a", own.place.kind)], begun);
        self.write(Line::Begun(Begun { located: self.located(0, own).into_iter().collect(), ..begun }));
    }

    /// The lease has ended, and another one has begun on the same connection. Holds that are listed are of the one before.
    pub(super) fn lapses(&mut self, at: i64) {
        self.term = self.lease.term(moment(at)).ok();
        // What the first one touches, the next ones report.
        for later in (0..6).map(|step| moment(at + 10_000_000 + step * 100_000)) {
            self.evidence(Evidence::Synced(0, later, later));
            self.evidence(Evidence::Confirmed(0, later, later));
        }
        assert_ne!(self.lease.term(moment(at + 10_500_000)).ok(), self.term);
    }

    /// Lists a hold at the begin of a file.
    pub(super) fn lists(&mut self, acquisition: u64, own: Own, granted: i64, seen: u64) {
        let term = self.term.unwrap_or_else(|| self.lease.term(moment(granted)).unwrap());
        let begun = self.begun(acquisition, vec![queue("/a", own.place.kind)], granted);
        let begun = Begun { located: self.located(0, own).into_iter().collect(), ..begun };
        let (nodes, at) = (vec![own], moment(granted));
        self.write(Line::Held(Held { begun, nodes, term, seen: Some(seen), turn: 0, at }));
    }

    pub(super) fn begun(&self, acquisition: u64, queues: Vec<Queue>, at: i64) -> Begun {
        let (patience, arrival, admitted, located) = (Patience::Wait, Arrival::New, None, Vec::new());
        Begun { acquisition, session: 0, queues, patience, arrival, admitted, located, at: moment(at) }
    }

    fn located(&self, index: usize, own: Own) -> Option<Located> {
        Some(Located { index, own, directory: zxid(self.directory?) })
    }

    pub(super) fn begins(&mut self, acquisition: u64, queues: Vec<Queue>, at: i64) {
        let begun = self.begun(acquisition, queues, at);
        self.machines.insert(acquisition, begun.machine());
        self.write(Line::Begun(begun));
        self.hears(acquisition, Input::Begin(Look::List), at);
    }

    /// Takes in an input, as the machine does.
    pub(super) fn hears(&mut self, acquisition: u64, input: Input, at: i64) -> Option<Outcome> {
        let heard = self.heard(acquisition, input, at);
        let outcome = heard.outcome.clone();
        self.write(Line::Heard(heard));
        outcome
    }

    fn heard(&mut self, acquisition: u64, input: Input, at: i64) -> Heard {
        let term = self.lease.term(moment(at));
        let present = Present { connection: self.lease.connection(), term, is_ample: true };
        let machine = self.machines.get_mut(&acquisition).unwrap();
        let commands = machine.handle(input.clone(), present);
        let outcome = Outcome::of(&commands, machine);
        Heard { acquisition, input, present, outcome, at: moment(at) }
    }

    /// Joins queues with these nodes, behind these others.
    pub(super) fn enters(&mut self, acquisition: u64, nodes: &[(Own, &[Place])], at: i64) -> Option<Outcome> {
        let sight = |(own, others): &(Own, &[Place])| {
            (*own, Sight::Children(others.iter().chain([&own.place]).map(|it| it.name()).collect()))
        };
        nodes.iter().enumerate().for_each(|(index, (own, _))| self.locate(acquisition, index, *own, at));
        let reply = Reply::Entered(nodes.iter().map(sight).collect());
        self.hears(acquisition, Input::Reply(reply, 0), at)
    }

    fn locate(&mut self, acquisition: u64, index: usize, own: Own, at: i64) {
        let located = self.located(index, own);
        located.into_iter().for_each(|it| self.write(Line::Located(acquisition, it, moment(at))));
    }

    /// Its next listing of `/a` is of the directory of its node.
    pub(super) fn shows(&mut self, acquisition: u64, own: Own, at: i64) {
        self.locate(acquisition, 0, own, at);
    }

    /// Holds `/a` at once.
    pub(super) fn holds(&mut self, acquisition: u64, own: Own, at: i64) {
        self.begins(acquisition, vec![queue("/a", own.place.kind)], at);
        assert!(matches!(self.enters(acquisition, &[(own, &[])], at), Some(Outcome::Granted(..))));
    }

    /// Waits for `/a` behind this node.
    pub(super) fn waits(&mut self, acquisition: u64, own: Own, behind: Own, at: i64) {
        self.begins(acquisition, vec![queue("/a", own.place.kind)], at);
        assert_eq!(self.enters(acquisition, &[(own, &[behind.place])], at), None);
        self.watches(acquisition, at);
    }

    /// Watches its predecessor.
    pub(super) fn watches(&mut self, acquisition: u64, at: i64) {
        let watched = Reply::One(0, Event::PredecessorWatched(true));
        assert_eq!(self.hears(acquisition, Input::Reply(watched, 0), at), None);
    }

    /// Is granted what it waits for, because its predecessor released.
    pub(super) fn takes_over(&mut self, acquisition: u64, at: i64) {
        let outcome = self.hears(acquisition, Input::Watch(0, Event::PredecessorReleased), at);
        assert!(matches!(outcome, Some(Outcome::Granted(..))), "{outcome:?}");
    }

    /// Is granted its node, by an input that makes no machine grant it.
    pub(super) fn is_granted(&mut self, acquisition: u64, own: Own, at: i64) {
        let heard = self.heard(acquisition, Input::Settled, at);
        let outcome = Some(Outcome::Granted(vec![own], heard.present.term.unwrap(), Some(0)));
        self.write(Line::Heard(Heard { outcome, ..heard }));
    }

    pub(super) fn lets_go(&mut self, acquisition: u64, at: i64) {
        let (reason, from, at) = ("it was released".to_owned(), moment(at), moment(at));
        self.write(Line::Over(Over { acquisition, reason, from, lets_go: true, at }));
    }

    /// Releases by a request that is sent now: these are the nodes that it wrote to, by their creations and versions.
    pub(super) fn releases(&mut self, acquisition: u64, written: &[(Own, i32)], at: i64) {
        let written = written.iter().map(|(own, version)| (own.czxid, *version)).collect();
        self.write(Line::Stamp(Stamp { releases: Some(acquisition), written, ..stamp(at) }));
    }

    pub(super) fn stamps(&mut self, times: &[i64]) {
        times.iter().for_each(|at| self.write(Line::Stamp(stamp(*at))));
    }

    pub(super) fn evidence(&mut self, evidence: Evidence) {
        evidence.apply(&mut self.lease).unwrap();
        self.write(Line::Lease(0, evidence));
    }

    /// The process has ended, and says so.
    pub(super) fn closed(self) -> Process {
        Process { is_closed: true, ..self.running() }
    }

    /// The process was killed, on the machine where the audit runs.
    pub(super) fn killed(self) -> Process {
        Process { is_killed: true, ..self.running() }
    }

    pub(super) fn running(self) -> Process {
        let Self { header, entries, .. } = self;
        Process { header, entries, lacks_begin: false, is_closed: false, is_killed: false }
    }
}

/// A request that is sent at this instant, and answered a millisecond later.
pub(super) fn stamp(sent: i64) -> Stamp {
    let (time, releases, written) = (LEADER + sent, None, Vec::new());
    let (sent, answered, zxid) = (moment(sent), moment(sent + 1), zxid(sent));
    Stamp { session: 0, sent, answered, time, zxid, releases, written }
}

/// The record begins with a later file.
pub(super) fn rotated(process: Process) -> Process {
    Process { lacks_begin: true, ..process }
}

pub(super) fn audited(processes: Vec<Process>) -> Audit {
    audit(
        &Records { processes, unread: Vec::new() },
        &Options { boot: Some("a".to_owned()), ..Options::default() },
    )
}

/// The verdict on a window, in milliseconds by the machines' clocks.
pub(super) fn within(processes: Vec<Process>, since: Option<i64>, until: Option<i64>) -> Audit {
    let [since, until] = [since, until].map(|edge| edge.map(|edge| LEADER + edge));
    let options = Options { since, until, boot: Some("a".to_owned()), ..Options::default() };
    audit(&Records { processes, unread: Vec::new() }, &options)
}

pub(super) use Verdict::{Overlap, Proven, Unproven};
