//! The history as a picture: time to the right; the lock, the servers and each contender in a row of its own.
//!
//! Colours mean the same for servers and clients: orange is cut off, violet is stopped, dark is dead.

use std::path::Path;

use anyhow::Context;

use super::args::Mode;
use super::checker::Wrong;
use super::history::{End, Fault, History, Hold, Outcome};
use super::record::Who;
use super::report::Report;
use super::schedule::Kind;
use super::servers::SERVERS;
use super::taken::Taken;
use crate::harness::Instant;

/// A longer history is shown in part.
const LONGEST: f64 = 90.0;
/// By so much the part that is shown is moved in search of the one with the most losses.
const STEP: f64 = 10.0;
/// The seconds from one mark of the axis to the next.
const TICK: usize = 5;

const WIDTH: f64 = 1800.0;
const ROW: f64 = 30.0;
const HEAD: f64 = 78.0;
const AXIS: f64 = 46.0;
const FOOT: f64 = 64.0;
const LABELS: f64 = 130.0;
/// The right end of the rows.
const RIGHT: f64 = WIDTH - 30.0;

const HELD: &str = "#2e7d32";
const WAITING: &str = "#90bee6";
const LOST: &str = "#d32f2f";
const CUT_OFF: &str = "#f58c00";
const STOPPED: &str = "#8e44ad";
const DEAD: &str = "#465058";
const NO_QUORUM: &str = "#ffe8e6";
const INK: &str = "#212529";
const FAINT: &str = "#787e84";
const STRIPE: &str = "#f6f7f8";

/// When what began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// The first clients were there.
    pub(crate) begun: Instant,
    /// No fault is injected any more.
    pub(crate) healed: Instant,
    pub(crate) ended: Instant,
}

/// Draws the history, or the most eventful part of a long one, into this file.
pub(super) fn draw(path: &Path, history: &History, report: &Report, times: Times) -> anyhow::Result<()> {
    let mut picture = Picture::new(history, report.mode, times);
    picture.draw(report);
    std::fs::write(path, picture.svg).with_context(|| format!("cannot draw {}", path.display()))
}

struct Picture<'a> {
    history: &'a History,
    times: Times,
    /// How many there are.
    locks: usize,
    /// What one of them is called.
    one: &'static str,
    /// The number of the first one.
    first: usize,
    contenders: Vec<Who>,
    /// The part that is shown, in seconds since the beginning.
    from: f64,
    to: f64,
    svg: String,
}

impl<'a> Picture<'a> {
    fn new(history: &'a History, mode: Mode, times: Times) -> Self {
        let mut contenders: Vec<_> = history.attempts.iter().map(|attempt| attempt.who).collect();
        contenders.sort_unstable();
        contenders.dedup();
        let locks = history.ledgers.len();
        let (one, first) = match mode {
            Mode::Semaphore => ("semaphore", 1),
            Mode::Slots => ("slot", 0),
            _ => ("lock", 1),
        };
        let (from, to, svg) = (0.0, 0.0, String::new());
        let mut picture = Self { history, times, locks, one, first, contenders, from, to, svg };
        let end = picture.seconds(times.ended);
        picture.from = picture.most_eventful(end);
        picture.to = end.min(picture.from + LONGEST);
        picture
    }

    /// Where the part begins in which the most guards were lost.
    fn most_eventful(&self, end: f64) -> f64 {
        let ended = self.history.holds.iter().filter(|hold| matches!(hold.end, End::Lost(_)));
        let ended: Vec<f64> = ended.map(|hold| self.seconds(hold.over)).collect();
        let within = |from: f64| ended.iter().filter(|at| (from..from + LONGEST).contains(*at)).count();
        let starts = (0..).map(|step| f64::from(step) * STEP).take_while(|from| from + LONGEST < end + STEP);
        // The first of those with as many.
        starts.fold(0.0, |best, from| if within(from) > within(best) { from } else { best })
    }

    fn rows(&self) -> usize {
        self.locks + SERVERS + self.contenders.len()
    }

    fn seconds(&self, at: Instant) -> f64 {
        at.seconds_after(self.times.begun)
    }

    fn row_of(&self, who: Who) -> usize {
        self.locks + SERVERS + self.contenders.partition_point(|other| *other < who)
    }

    /// Where a moment is in the picture.
    fn x(&self, seconds: f64) -> f64 {
        LABELS + (seconds - self.from) / (self.to - self.from) * (RIGHT - LABELS)
    }

    fn draw(&mut self, report: &Report) {
        let height = Self::y(self.rows() as f64) + AXIS + FOOT;
        self.svg = format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">"#
        );
        self.block((0.0, WIDTH), (0.0, height), &fill("white", 1.0));
        self.title(report);
        self.background();
        self.labels();
        self.servers();
        self.clients();
        (0..self.locks).for_each(|lock| self.lock(lock));
        self.legend();
        self.svg += "</svg>\n";
    }

    fn title(&mut self, report: &Report) {
        let wrong = |wrong| report.verdict.wrong.get(&wrong).copied().unwrap_or(0);
        let (overlaps, lost) = (wrong(Wrong::Overlaps), wrong(Wrong::LostUpdates));
        let broken = match wrong(Wrong::Broken) {
            0 => String::new(),
            broken => format!(", {broken} more broken promises"),
        };
        let s = if overlaps == 1 { "" } else { "s" };
        let colour = if report.passed { INK } else { LOST };
        let title = format!(
            "{:?}, mode {:?}, under torture: {overlaps} overlap{s} of valid guards, {lost} lost updates{broken}",
            report.lock, report.mode
        );
        self.text(
            (20.0, 28.0),
            &format!(r#"font-size="26" font-weight="bold" {}"#, fill(colour, 1.0)),
            &title,
        );
        let whole = self.seconds(self.times.ended);
        let part = match self.from > 0.0 || self.to < whole {
            true => format!("; shown are {:.0} of {whole:.0} s, those with most losses", self.to - self.from),
            false => String::new(),
        };
        let text = format!(
            "seed {}, {} client processes, three servers, session timeout 4 s: {} holds, {} of them lost or killed; {} faults{part}",
            report.seed,
            report.clients,
            self.history.holds.len(),
            report.ends.get("lost").unwrap_or(&0) + report.ends.get("killed").unwrap_or(&0),
            report.faults.values().sum::<u64>()
        );
        self.text((20.0, 56.0), &format!(r#"font-size="17" {}"#, fill(FAINT, 1.0)), &text);
    }

    /// Stripes for the rows, where there was no quorum, and the axis.
    fn background(&mut self) {
        let rows = self.rows();
        for row in (self.locks..rows).step_by(2) {
            self.bar((self.from, self.to), row, (0.0, 1.0), &fill(STRIPE, 1.0));
        }
        for span in self.without_quorum() {
            self.span(span, (0.0, rows as f64), &fill(NO_QUORUM, 0.8));
        }
        // Where the lock, the servers and the clients part.
        for row in [self.locks, self.locks + SERVERS] {
            self.line((LABELS, Self::y(row as f64)), (RIGHT, Self::y(row as f64)), &stroke(INK, 0.5, 1));
        }
        let (top, bottom) = (Self::y(0.0), Self::y(rows as f64));
        self.line((LABELS, bottom), (RIGHT, bottom), &stroke(INK, 0.6, 1));
        for second in (self.from.ceil() as usize..=self.to as usize).step_by(TICK) {
            let x = self.x(second as f64);
            self.line((x, top), (x, bottom + 5.0), &stroke(INK, 0.12, 1));
            let style = format!(r#"font-size="15" text-anchor="middle" {}"#, fill(INK, 1.0));
            self.text((x, bottom + 16.0), &style, &format!("{second} s"));
        }
        let healed = self.seconds(self.times.healed);
        if (self.from..self.to).contains(&healed) {
            let x = self.x(healed);
            self.line((x, top), (x, bottom), &(stroke(INK, 0.7, 1) + r#" stroke-dasharray="6 4""#));
        }
    }

    /// From when to when two servers were in trouble.
    fn without_quorum(&self) -> Vec<(f64, f64)> {
        let of_servers = self.history.faults.iter().filter(|fault| fault.kind.is_of_servers());
        let mut changes: Vec<(Instant, i32)> = of_servers
            .flat_map(|fault| fault.servers.iter().flat_map(|_| [(fault.at, 1), (fault.until, -1)]))
            .collect();
        changes.sort_unstable();
        let (mut troubled, mut since, mut spans) = (0, None, Vec::new());
        for (at, change) in changes {
            troubled += change;
            match (troubled >= 2, since) {
                (true, None) => since = Some(at),
                (false, Some(from)) => {
                    spans.push((self.seconds(from), self.seconds(at)));
                    since = None;
                }
                _ => {}
            }
        }
        spans
    }

    fn labels(&mut self) {
        let mut names: Vec<_> =
            (0..self.locks).map(|lock| (format!("{} {}", self.one, self.first + lock), "bold")).collect();
        if let [(name, _)] = names.as_mut_slice() {
            *name = format!("the {}", self.one);
        }
        names.extend((1..=SERVERS).map(|server| (format!("server {server}"), "normal")));
        names.extend(self.contenders.iter().map(|who| {
            let alone = !self.contenders.iter().any(|other| other.client == who.client && other != who);
            let task = if alone { String::new() } else { format!(", task {}", who.task) };
            (format!("client {}{task}", who.client), "normal")
        }));
        for (row, (name, weight)) in names.into_iter().enumerate() {
            let style =
                format!(r#"font-size="16" text-anchor="end" font-weight="{weight}" {}"#, fill(INK, 1.0));
            self.text((LABELS - 10.0, Self::y(row as f64 + 0.5)), &style, &name);
        }
    }

    /// What was done to servers.
    fn servers(&mut self) {
        for fault in self.history.faults.iter().filter(|fault| fault.kind.is_of_servers()) {
            let (colour, text) = match fault.kind {
                Kind::IsolateLeader => (CUT_OFF, "leader, cut off"),
                Kind::StallServer => (CUT_OFF, "half cut off"),
                Kind::PauseServer => (STOPPED, "paused"),
                Kind::KillServer => (DEAD, "killed"),
                _ => (CUT_OFF, "cut off"),
            };
            for server in &fault.servers {
                self.band(fault, self.locks + server, colour);
                self.name(fault, self.locks + server, text);
            }
        }
    }

    /// A fault that lasts: a band.
    fn band(&mut self, fault: &Fault, row: usize, colour: &str) {
        self.bar((self.seconds(fault.at), self.seconds(fault.until)), row, (0.06, 0.94), &outlined(colour));
    }

    /// What it is, if there is room.
    fn name(&mut self, fault: &Fault, row: usize, text: &str) {
        let from = self.x(self.seconds(fault.at).max(self.from));
        let to = self.x(self.seconds(fault.until).min(self.to));
        if to - from > text.len() as f64 * 7.2 + 8.0 {
            let style = format!(r#"font-size="13" text-anchor="middle" {}"#, fill(INK, 1.0));
            self.text((f64::midpoint(from, to), Self::y(row as f64 + 0.5)), &style, text);
        }
    }

    /// What contenders did, and what was done to them.
    fn clients(&mut self) {
        let history = self.history;
        for fault in history.faults.iter().filter(|fault| !fault.kind.is_act()) {
            let colour = match fault.kind {
                Kind::BlackHole | Kind::MoveSession => CUT_OFF,
                Kind::StopShortly | Kind::StopLong => STOPPED,
                kind if kind.is_kill() => DEAD,
                _ => continue,
            };
            self.rows_of(fault.client).for_each(|row| self.band(fault, row, colour));
        }
        for attempt in history.attempts.iter().filter(|attempt| attempt.outcome != Outcome::Busy) {
            let time = (self.seconds(attempt.asked), self.seconds(attempt.ended));
            self.bar(time, self.row_of(attempt.who), (0.42, 0.58), &fill(WAITING, 1.0));
        }
        for hold in &history.holds {
            self.bar(self.held(hold), self.row_of(hold.who), (0.22, 0.78), &fill(HELD, 1.0));
        }
        history.faults.iter().for_each(|fault| self.moment(fault));
        for hold in history.holds.iter().filter(|hold| hold.is_lost()) {
            let at = self.seconds(hold.over);
            if (self.from..self.to).contains(&at) {
                self.cross(self.x(at), Self::y(self.row_of(hold.who) as f64 + 0.5));
            }
        }
    }

    /// The rows of this client's contenders.
    fn rows_of(&self, client: Option<u16>) -> impl Iterator<Item = usize> + use<> {
        let its = self.contenders.iter().filter(|who| Some(who.client) == client);
        its.map(|who| self.row_of(*who)).collect::<Vec<_>>().into_iter()
    }

    /// A guard in a process that was stopped counts until its lease was over, though nobody could ask it.
    fn held(&self, hold: &Hold) -> (f64, f64) {
        let until = match hold.is_lost() {
            true => hold.seen.promised.unwrap_or(hold.over).min(hold.over).max(hold.seen.valid),
            false => hold.over,
        };
        (self.seconds(hold.granted), self.seconds(until))
    }

    /// A fault of a moment: a mark on top of the row that it met.
    fn moment(&mut self, fault: &Fault) {
        let colour = match fault.kind {
            Kind::CutConnections | Kind::LoseReply => CUT_OFF,
            kind if kind.may_take() => LOST,
            _ => return,
        };
        let at = self.seconds(fault.at);
        // A waiter's client is told by the session, if that ever held the lock.
        let of_session = || self.history.holds.iter().find(|hold| Some(hold.session) == fault.session);
        let client = fault.client.or_else(|| of_session().map(|hold| hold.who.client));
        if (self.from..self.to).contains(&at) {
            for row in self.rows_of(client) {
                self.mark(self.x(at), Self::y(row as f64 + 0.12), colour);
            }
        }
    }

    /// A lock's own row: green while any client holds it, red while guards in conflict do by the checker's judgement.
    fn lock(&mut self, lock: usize) {
        let history = self.history;
        let taken = Taken::of(&history.faults);
        // The ends of the longest guards so far: of those that hold it alone, and of readers.
        let (mut alone, mut beside) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
        let of_lock = history.holds.iter().filter_map(|hold| {
            let claim = hold.claims.iter().find(|claim| claim.lock == lock)?;
            Some((hold, claim.shared))
        });
        for (number, (hold, shared)) in of_lock.enumerate() {
            let (from, to) = self.held(hold);
            let opacity = if number % 2 == 0 { 1.0 } else { 0.6 };
            self.bar((from, to), lock, (if shared { 0.36 } else { 0.16 }, 0.84), &fill(HELD, opacity));
            let until = self.seconds(hold.valid_until(taken.has(hold)));
            let against = if shared { alone } else { alone.max(beside) };
            if from < against {
                self.bar((from, until.min(against)), lock, (0.0, 1.0), &fill(LOST, 1.0));
            }
            let longest = if shared { &mut beside } else { &mut alone };
            *longest = longest.max(until);
        }
    }

    /// What is what.
    fn legend(&mut self) {
        type Key<'a> = (&'a str, f64, fn(&mut Picture<'_>, f64, f64));
        let first: [Key<'_>; 6] = [
            ("holds a lock", 170.0, |it, x, y| it.swatch(x, y, 9.0, &fill(HELD, 1.0))),
            ("waits for it", 150.0, |it, x, y| it.swatch(x, y, 3.0, &fill(WAITING, 1.0))),
            ("lost it, or died holding it", 240.0, |it, x, y| it.cross(x + 13.0, y)),
            ("two valid guards", 190.0, |it, x, y| it.swatch(x, y, 9.0, &fill(LOST, 1.0))),
            ("no quorum", 150.0, |it, x, y| it.swatch(x, y, 11.0, &fill(NO_QUORUM, 1.0))),
            ("all faults undone", 190.0, |it, x, y| {
                let style = stroke(INK, 1.0, 1) + r#" stroke-dasharray="5 3""#;
                it.line((x + 13.0, y - 11.0), (x + 13.0, y + 11.0), &style);
            }),
        ];
        let second: [Key<'_>; 5] = [
            ("cut off, or half", 190.0, |it, x, y| it.swatch(x, y, 10.0, &outlined(CUT_OFF))),
            ("stopped", 150.0, |it, x, y| it.swatch(x, y, 10.0, &outlined(STOPPED))),
            ("dead", 240.0, |it, x, y| it.swatch(x, y, 10.0, &outlined(DEAD))),
            ("connection reset, or a reply lost", 340.0, |it, x, y| it.mark(x + 13.0, y - 4.0, CUT_OFF)),
            ("an operator touches a node, or closes a session", 400.0, |it, x, y| {
                it.mark(x + 13.0, y - 4.0, LOST);
            }),
        ];
        let mut y = Self::y(self.rows() as f64) + AXIS + 14.0;
        for keys in [&first[..], &second[..]] {
            let mut x = LABELS;
            for (name, wide, draw) in keys {
                draw(self, x, y);
                self.text((x + 34.0, y), &format!(r#"font-size="15" {}"#, fill(INK, 1.0)), name);
                x += wide;
            }
            y += 30.0;
        }
    }

    fn swatch(&mut self, x: f64, y: f64, half: f64, style: &str) {
        self.block((x, x + 26.0), (y - half, y + half), style);
    }

    /// Part of a row, as far as it is shown.
    fn bar(&mut self, time: (f64, f64), row: usize, (top, bottom): (f64, f64), style: &str) {
        self.span(time, (row as f64 + top, row as f64 + bottom), style);
    }

    fn span(&mut self, (from, to): (f64, f64), (top, bottom): (f64, f64), style: &str) {
        if to >= self.from && from <= self.to {
            let (left, right) = (self.x(from.max(self.from)), self.x(to.min(self.to)));
            // What is shorter than a pixel is to be seen all the same.
            self.block((left, right.max(left + 1.0)), (Self::y(top), Self::y(bottom)), style);
        }
    }

    /// The top of a row.
    fn y(row: f64) -> f64 {
        HEAD + row * ROW
    }

    fn block(&mut self, (left, right): (f64, f64), (top, bottom): (f64, f64), style: &str) {
        let (width, height) = (right - left, bottom - top);
        self.add(&format!(
            r#"<rect x="{left:.1}" y="{top:.1}" width="{width:.1}" height="{height:.1}" {style}/>"#
        ));
    }

    fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), style: &str) {
        self.add(&format!(r#"<path d="M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}" {style}/>"#));
    }

    fn cross(&mut self, x: f64, y: f64) {
        for up in [-7.0, 7.0] {
            self.line((x - 5.0, y + up), (x + 5.0, y - up), &stroke(LOST, 1.0, 3));
        }
    }

    /// A triangle, with its point nine pixels below this.
    fn mark(&mut self, x: f64, y: f64, colour: &str) {
        self.add(&format!(r#"<path d="M{x:.1} {y:.1}m0 9l-5 -9h10z" {}/>"#, fill(colour, 1.0)));
    }

    /// A text, whose middle is at this height.
    fn text(&mut self, (x, y): (f64, f64), style: &str, text: &str) {
        self.add(&format!(
            r#"<text x="{x:.1}" y="{y:.1}" dominant-baseline="central" {style}>{text}</text>"#
        ));
    }

    fn add(&mut self, element: &str) {
        self.svg.push_str(element);
        self.svg.push('\n');
    }
}

fn fill(colour: &str, opacity: f64) -> String {
    format!(r#"fill="{colour}" fill-opacity="{opacity}""#)
}

fn stroke(colour: &str, opacity: f64, width: u32) -> String {
    format!(r#"stroke="{colour}" stroke-opacity="{opacity}" stroke-width="{width}""#)
}

fn outlined(colour: &str) -> String {
    fill(colour, 0.45) + " " + &stroke(colour, 0.9, 1)
}
