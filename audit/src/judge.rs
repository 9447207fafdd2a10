//! Judges what the records tell: for each path, whether two guards that exclude each other were ever valid at once.
//! [`pairs`](crate::pairs) says what is proof of that.

use std::collections::{BTreeMap, BTreeSet};

use zklock_recipe::flight::{Queue, Stamp};
use zklock_recipe::{Kind, Layout, Stock};

use crate::clocks::{Clocks, Reading, raw};
use crate::ensembles::{self, Ensembles};
use crate::order::Order;
use crate::read::Records;
use crate::reader;
use crate::report::{Audit, Covered, EXAMPLES, HoldAudit, PathAudit, Seen, Verdict};
use crate::tale::{Divergence, Ending, Hold, Tale};
use crate::window::{LINGERS, Window};

/// Which records to judge, and what is known besides.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Only this path.
    pub path: Option<String>,
    /// Ask only about the time from this instant on, in milliseconds since the Unix epoch, by the leader's clock. Holds that ended
    /// before are left out, and may be missing.
    pub since: Option<i64>,
    /// Ask only about the time until this instant.
    pub until: Option<i64>,
    /// The machine that runs the audit was started once since it had this boot id.
    pub boot: Option<String>,
    /// Whether all servers are one ensemble, though the server lists share no server: they may be the addresses of proxies.
    pub is_one_ensemble: bool,
    /// How many pairs of a path are listed, of overlaps and of unproven ones; 20 if it is `None`. All are counted.
    pub pairs: Option<usize>,
}

/// A hold of one process, of one of its queues.
pub(crate) struct Held<'a> {
    pub(crate) process: usize,
    pub(crate) hold: &'a Hold,
    /// The queue's place among those of the hold.
    pub(crate) index: usize,
    pub(crate) kind: Kind,
    pub(crate) layout: Layout,
    pub(crate) stock: Option<Stock>,
    /// From here on nobody said that it was held, if that is known.
    pub(crate) end: Option<i64>,
    /// A transaction that came after that.
    pub(crate) over: Option<i64>,
    /// A transaction that came before the grant.
    pub(crate) begun: i64,
    /// Whether it was certainly held within the window. It may have been in any case.
    pub(crate) is_within: bool,
}

pub(crate) struct Judge<'a> {
    pub(crate) records: &'a Records,
    pub(crate) tales: Vec<Tale>,
    pub(crate) clocks: Clocks,
    ensembles: Ensembles,
    /// In each ensemble.
    pub(crate) views: Vec<View<'a>>,
    pub(crate) options: &'a Options,
}

/// The stamps of one ensemble.
pub(crate) struct View<'a> {
    pub(crate) window: Window<'a>,
    /// The transactions of each process.
    pub(crate) orders: Vec<Order>,
    /// Why it is not known that it is one ensemble.
    doubt: Option<String>,
}

/// The holds of a path in one ensemble.
struct Place<'a> {
    queue: &'a Queue,
    holds: Vec<(usize, &'a Hold, usize)>,
}

/// Audits these records.
pub fn audit(records: &Records, options: &Options) -> Audit {
    let tales =
        records.processes.iter().map(|process| reader::read(process, &mut |_| {})).collect::<Vec<_>>();
    let processes = || records.processes.iter().map(|process| process.header.boot.as_str()).zip(&tales);
    let lists = processes().flat_map(|(boot, tale)| tale.servers.values().map(move |it| (boot, it.as_str())));
    let ensembles = if options.is_one_ensemble { Ensembles::one() } else { Ensembles::new(lists) };
    let of_ensembles = processes().map(|(boot, tale)| {
        let of = |stamp: &Stamp| Some((ensembles.of(boot, tale.servers.get(&stamp.session)?), stamp.clone()));
        tale.stamps.iter().filter_map(of).collect::<Vec<_>>()
    });
    let stamps = of_ensembles.collect::<Vec<_>>();
    let readings = processes().zip(&stamps);
    let readings =
        readings.map(|((boot, tale), stamps)| Reading { boot, stamps, suspended: &tale.suspended });
    let clocks = Clocks::new(&readings.collect::<Vec<_>>());
    let views = (0..=ensembles.len()).map(|ensemble| {
        let of_it = |process: usize| {
            stamps[process].iter().filter(move |(of, _)| *of == ensemble).map(|(_, stamp)| stamp)
        };
        let all = || {
            let boots = records.processes.iter().map(|process| process.header.boot.as_str()).enumerate();
            boots.flat_map(|(process, boot)| of_it(process).map(move |stamp| (boot, stamp)))
        };
        View {
            window: Window::new(options.since, options.until, all()),
            orders: (0..tales.len()).map(|process| Order::of(of_it(process))).collect(),
            doubt: ensembles::doubt(all()),
        }
    });
    let views = views.collect();
    Judge { records, clocks, views, ensembles, options, tales }.all()
}

impl Judge<'_> {
    fn all(&self) -> Audit {
        let mut places = BTreeMap::<(&str, usize), Place<'_>>::new();
        let mut recorded = BTreeSet::new();
        for (process, tale) in self.tales.iter().enumerate() {
            let attempts = tale.acquisitions.values().map(|attempt| (&attempt.begun, None));
            for (begun, hold) in attempts.chain(tale.holds.iter().map(|hold| (&hold.begun, Some(hold)))) {
                let ensemble = self.ensemble(process, begun.session);
                for (index, queue) in begun.queues.iter().enumerate().filter(|(_, it)| !it.is_turnstile) {
                    recorded.insert(queue.name.clone());
                    if self.options.path.as_ref().is_none_or(|path| *path == queue.name) {
                        let place = places
                            .entry((&queue.path, ensemble))
                            .or_insert_with(|| Place { queue, holds: Vec::new() });
                        place.holds.extend(hold.map(|hold| (process, hold, index)));
                    }
                }
            }
        }
        let several = |path: &str| places.keys().filter(|(it, _)| *it == path).count() > 1;
        let paths = places.iter().map(|((path, ensemble), place)| self.path(place, *ensemble, several(path)));
        let paths = paths.collect::<Vec<_>>();
        let ensembles = places.keys().map(|(_, ensemble)| *ensemble).collect::<BTreeSet<_>>();
        let unseen = self.unseen(&ensembles);
        let is_read = self.records.unread.iter().all(|it| it.is_gap);
        let is_whole = unseen.is_empty() && is_read && !paths.is_empty();
        let least = if is_whole { Verdict::Proven } else { Verdict::Unproven };
        let verdict = paths.iter().map(|path| path.verdict).fold(least, Verdict::max);
        let processes = (0..self.tales.len()).map(|process| {
            let tale = &self.tales[process];
            let from = tale.wall.map_or(0, |(_, at)| at);
            let ms = |at| self.time(process, at) as i64;
            let name = self.records.processes[process].name();
            Seen { name, from_ms: ms(from), to_ms: ms(raw(tale.last)), stamps: tale.stamps.len() }
        });
        let unread = self.records.unread.clone();
        Audit {
            verdict,
            covered: self.covered(&ensembles),
            paths,
            processes: processes.collect(),
            unseen,
            unread,
            recorded: recorded.into_iter().collect(),
        }
    }

    /// The ensemble of a session of this process.
    pub(crate) fn ensemble(&self, process: usize, session: u32) -> usize {
        let servers = self.tales[process].servers.get(&session).map_or("", String::as_str);
        self.ensembles.of(self.boot(process), servers)
    }

    pub(crate) fn boot(&self, process: usize) -> &str {
        &self.records.processes[process].header.boot
    }

    /// Names the gaps of the records within the window, in any of these ensembles.
    fn unseen(&self, ensembles: &BTreeSet<usize>) -> Vec<String> {
        let mut unseen = Vec::new();
        for (boot, (until, process)) in self.deleted() {
            if !ensembles.iter().all(|it| self.views[*it].window.is_before(boot, until)) {
                let name = self.records.processes[process].name();
                unseen.push(format!(
                    "records of other processes in the directory of {name}: they were deleted to make room"
                ));
            }
        }
        for (process, record) in self.records.processes.iter().enumerate() {
            let (tale, name, boot) = (&self.tales[process], record.name(), &record.header.boot);
            let is_before = |at| ensembles.iter().all(|it| self.views[*it].window.is_before(boot, at));
            let is_behind = |at| ensembles.iter().all(|it| self.views[*it].window.is_behind(boot, at));
            if record.lacks_begin && !is_before(tale.begins()) {
                unseen.push(format!(
                    "the first files of {name}: they were deleted to make room, or are not here"
                ));
            }
            let is_missed =
                |(from, to): &&(i64, Option<i64>)| !to.is_some_and(is_before) && !is_behind(*from);
            let gaps = tale.gaps.iter().filter(is_missed).count();
            if gaps > 0 {
                unseen.push(format!("lines of {name} that are missing, in {gaps} places"));
            }
            let is_over = |it: &Divergence| tale.over(it.acquisition).is_some_and(is_before);
            let diverged = tale.diverged.iter().filter(|it| !is_behind(it.at) && !is_over(it));
            for it in diverged.take(EXAMPLES) {
                unseen.push(format!(
                    "why {name} decided as it did at {}: recorded {}, and replayed {} (`zklock replay` shows more)",
                    it.path, it.recorded, it.replayed
                ));
            }
            if !self.is_ended(process) && !is_behind(raw(tale.last)) {
                unseen.push(format!(
                    "the end of {name}: its record does not say that it is closed. The process still runs, or was killed, or its machine \
                     lost power. If it was killed, run the audit on its machine, on the files themselves and not on a copy"
                ));
            }
        }
        unseen
    }

    /// The longest window whose begin and end all records have.
    fn covered(&self, ensembles: &BTreeSet<usize>) -> Option<Covered> {
        let mut covered = Covered { from_ms: None, to_ms: None };
        for (boot, (until, _)) in self.deleted() {
            for ensemble in ensembles {
                let from = self.views[*ensemble].window.earliest(boot, until)?;
                covered.from_ms = covered.from_ms.max(Some(from));
            }
        }
        for (process, record) in self.records.processes.iter().enumerate() {
            let (tale, boot) = (&self.tales[process], &record.header.boot);
            for window in ensembles.iter().map(|ensemble| &self.views[*ensemble].window) {
                if record.lacks_begin {
                    covered.from_ms = covered.from_ms.max(Some(window.earliest(boot, tale.begins())?));
                }
                if !self.is_ended(process) {
                    let to = window.latest(boot, raw(tale.last))?;
                    covered.to_ms = Some(covered.to_ms.map_or(to, |least| least.min(to)));
                }
            }
        }
        let is_some = !matches!(covered, Covered { from_ms: Some(from), to_ms: Some(to) } if from >= to);
        is_some.then_some(covered)
    }

    /// Until when guards may have been valid on each machine whose records were deleted to make room for those of another process. The
    /// last line on record of a killed process is earlier than the end of its lease.
    fn deleted(&self) -> BTreeMap<&str, (i64, usize)> {
        let mut deleted = BTreeMap::new();
        for (process, tale) in self.tales.iter().enumerate() {
            if let Some(until) = tale.deleted {
                let last = deleted.entry(self.boot(process)).or_default();
                *last = (until.saturating_add(self.lingers()), process).max(*last);
            }
        }
        deleted
    }

    /// For how long a guard may say that it is held after its node is gone.
    pub(crate) fn lingers(&self) -> i64 {
        self.tales.iter().map(|tale| tale.longest).max().unwrap_or(0).max(LINGERS)
    }

    /// Whether nothing came behind the last line of this record.
    fn is_ended(&self, process: usize) -> bool {
        let record = &self.records.processes[process];
        record.is_closed || record.is_killed && self.options.boot.as_ref() == Some(&record.header.boot)
    }

    /// An instant in milliseconds since the Unix epoch, by the leader's clock if it is known. It is for people only.
    pub(crate) fn time(&self, process: usize, at: i64) -> f64 {
        let (wall, header) = self.tales[process].wall.unwrap_or_default();
        self.clocks.time(process, at).unwrap_or_else(|| wall as f64 + (at - header) as f64 / 1e6)
    }

    fn path(&self, place: &Place<'_>, ensemble: usize, is_one_of_several: bool) -> PathAudit {
        let (Place { queue, holds }, View { window, orders, doubt }) = (place, &self.views[ensemble]);
        let held = holds.iter().map(|&(process, hold, index)| {
            let Queue { layout, stock, kind, .. } = hold.begun.queues[index];
            let end = hold.end.filter(|_| hold.ending != Ending::Unseen || self.is_ended(process));
            let over = end.and_then(|end| orders[process].behind(end));
            let created = hold.nodes.get(index).map_or(0, |own| own.czxid);
            let begun = orders[process].before(raw(hold.granted)).unwrap_or(0).max(created);
            let is_within = window.has(self.boot(process), raw(hold.granted), hold.sure);
            Held { process, hold, index, kind, layout, stock, end, over, begun, is_within }
        });
        let is_out = |held: &Held<'_>| {
            let boot = self.boot(held.process);
            held.end.is_some_and(|end| window.is_before(boot, end))
                || window.is_behind(boot, raw(held.hold.granted))
                || window.has_passed(held.czxid())
        };
        let mut held = held.filter(|held| !is_out(held)).collect::<Vec<_>>();
        held.sort_by_key(Held::czxid);
        let mut unknown = self.unknown(queue, ensemble);
        unknown.extend(doubt.clone());
        if is_one_of_several {
            unknown.push(
                "whether the clients of this path use one ensemble: their server lists share no server. If they do, say so with \
                 `--one-ensemble`. Otherwise give `audit` the records of one ensemble at a time"
                    .to_owned(),
            );
        }
        let mut found = PathAudit {
            path: queue.name.clone(),
            used_for: queue.used_for.to_string(),
            verdict: Verdict::Proven,
            holds: held.iter().map(|held| self.hold(held)).collect(),
            overlaps: Vec::new(),
            overlap_count: 0,
            unproven: Vec::new(),
            unproven_count: 0,
            unknown,
            nearest: None,
            waits: self.waits(queue, ensemble, &held),
        };
        self.pairs(&held, &mut found);
        let is_unproven = found.unproven_count > 0 || !found.unknown.is_empty();
        found.verdict = match (found.overlap_count, is_unproven) {
            (0, false) => Verdict::Proven,
            (0, true) => Verdict::Unproven,
            (1.., _) => Verdict::Overlap,
        };
        found
    }

    fn hold(&self, held: &Held<'_>) -> HoldAudit {
        let Hold { session, turns, granted, ending, .. } = held.hold;
        HoldAudit {
            who: self.records.processes[held.process].name(),
            kind: match held.kind {
                Kind::Exclusive => "exclusive".to_owned(),
                Kind::Shared => "shared".to_owned(),
                Kind::Permit(weight) => format!("permit of {weight}"),
                Kind::Slot(index) => format!("slot {index}"),
            },
            token: held.czxid(),
            turns: *turns,
            session: *session,
            granted_ms: self.time(held.process, raw(*granted)),
            held_ms: held.end.map(|end| (end - raw(*granted)) as f64 / 1e6),
            ended: match ending {
                Ending::LetGo => "released".to_owned(),
                Ending::Lost(reason) => format!("lost: {reason}"),
                Ending::Unseen => "its record ends before; at the latest when its lease ended".to_owned(),
            },
            is_lost: matches!(ending, Ending::Lost(_)),
        }
    }
}

impl Held<'_> {
    pub(crate) fn czxid(&self) -> i64 {
        self.hold.nodes.get(self.index).map_or(0, |own| own.czxid)
    }
}
