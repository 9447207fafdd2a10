//! The history as a picture: time to the right; the lock, the servers and each contender in a row of its own.
//!
//! Colours mean the same for servers and clients: orange is cut off, violet is stopped, dark is dead.

use std::path::Path;

use anyhow::anyhow;
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::args::{Mode, Recipe};
use super::history::{End, Fault, History, Hold, Outcome};
use super::record::Who;
use super::report::{Report, Times};
use super::schedule::Kind;
use super::servers::SERVERS;
use super::taken::Taken;
use crate::harness::Instant;

/// A longer history is shown in part.
const LONGEST: f64 = 90.0;
/// By so much the part that is shown is moved in search of the one with the most losses.
const STEP: f64 = 10.0;

const WIDTH: u32 = 1800;
const ROW: u32 = 30;
const HEAD: u32 = 78;
const AXIS: u32 = 46;
const FOOT: u32 = 64;
const LABELS: u32 = 130;
const FONT: &str = "sans-serif";

const HELD: RGBColor = RGBColor(46, 125, 50);
const WAITING: RGBColor = RGBColor(144, 190, 230);
const LOST: RGBColor = RGBColor(211, 47, 47);
const CUT_OFF: RGBColor = RGBColor(245, 140, 0);
const STOPPED: RGBColor = RGBColor(142, 68, 173);
const DEAD: RGBColor = RGBColor(70, 80, 88);
const NO_QUORUM: RGBColor = RGBColor(255, 232, 230);
const INK: RGBColor = RGBColor(33, 37, 41);
const FAINT: RGBColor = RGBColor(120, 126, 132);
const STRIPE: RGBColor = RGBColor(246, 247, 248);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// Draws the history, or the most eventful part of a long one, into this file.
pub(super) fn draw(path: &Path, history: &History, report: &Report, times: Times) -> anyhow::Result<()> {
    let picture = Picture::new(history, report.mode, times);
    let size = (WIDTH, HEAD + picture.rows() as u32 * ROW + AXIS + FOOT);
    let area = SVGBackend::new(path, size).into_drawing_area();
    picture.draw(&area, report).map_err(|error| anyhow!("cannot draw {}: {error}", path.display()))
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
        let mut picture = Self { history, times, locks, one, first, contenders, from: 0.0, to: 0.0 };
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

    fn draw(&self, area: &Area<'_>, report: &Report) -> Drawn {
        area.fill(&WHITE)?;
        let (head, rest) = area.split_vertically(HEAD);
        let (body, foot) = rest.split_vertically(self.rows() as u32 * ROW + AXIS);
        self.title(&head, report)?;
        legend(&foot)?;
        let mut chart = ChartBuilder::on(&body)
            .margin_right(30)
            .set_label_area_size(LabelAreaPosition::Left, LABELS)
            .set_label_area_size(LabelAreaPosition::Bottom, AXIS)
            .build_cartesian_2d(self.from..self.to, self.rows() as f64..0.0)?;
        self.background(&mut chart)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .light_line_style(TRANSPARENT)
            .bold_line_style(INK.mix(0.12))
            .axis_style(INK.mix(0.6))
            .x_labels(((self.to - self.from) / 5.0) as usize + 1)
            .x_label_formatter(&|seconds| format!("{seconds:.0} s"))
            .x_label_style((FONT, 15).into_font().color(&INK))
            .draw()?;
        self.labels(&body, &chart)?;
        self.servers(&mut chart)?;
        self.clients(&mut chart)?;
        (0..self.locks).try_for_each(|lock| self.lock(&mut chart, lock))
    }

    fn title(&self, area: &Area<'_>, report: &Report) -> Drawn {
        let lock = match (report.lock, report.mode) {
            (Recipe::Zklock, Mode::Lock) => "zklock",
            (Recipe::Zklock, Mode::Rw) => "zklock's read-write lock",
            (Recipe::Zklock, Mode::Multi) => "several locks of zklock at once",
            (Recipe::Zklock, Mode::Election) => "zklock's election",
            (Recipe::Zklock, Mode::Registry) => "zklock's locks by key",
            (Recipe::Zklock, Mode::Semaphore) => "zklock's semaphore",
            (Recipe::Zklock, Mode::Slots) => "zklock's slots",
            (Recipe::Zklock, Mode::Once) => "zklock's slots that run once",
            (Recipe::ZookeeperClient, _) => "zookeeper-client's lock",
        };
        let verdict = &report.verdict;
        let broken = match verdict.broken {
            0 => String::new(),
            broken => format!(", {broken} more broken promises"),
        };
        let title = format!(
            "{lock} under torture: {} overlap{} of valid guards, {} lost updates{broken}",
            verdict.overlaps,
            if verdict.overlaps == 1 { "" } else { "s" },
            verdict.lost_updates
        );
        let colour = if report.passed { INK } else { LOST };
        area.draw(&Text::new(title, (20, 16), (FONT, 26).into_font().style(FontStyle::Bold).color(&colour)))?;
        let whole = self.seconds(self.times.ended);
        let part = match self.from > 0.0 || self.to < whole {
            true => format!("; shown are {:.0} of {whole:.0} s, those with most losses", self.to - self.from),
            false => String::new(),
        };
        let text = format!(
            "seed {}, {} client processes, three servers, session timeout 4 s: {} holds, {} of them lost or killed; {} faults{part}",
            report.seed,
            report.clients,
            report.holds,
            report.ends.get("lost").unwrap_or(&0) + report.ends.get("killed").unwrap_or(&0),
            report.faults.values().sum::<u64>()
        );
        area.draw(&Text::new(text, (20, 48), (FONT, 17).into_font().color(&FAINT)))
    }

    /// Stripes for the rows, and where there was no quorum.
    fn background(&self, chart: &mut Chart<'_, '_>) -> Drawn {
        for row in (self.locks..self.rows()).filter(|row| (row - self.locks).is_multiple_of(2)) {
            self.bar(chart, self.from, self.to, row, (0.0, 1.0), STRIPE.filled())?;
        }
        for (from, to) in self.without_quorum() {
            self.span(chart, from, to, 0.0, self.rows() as f64, NO_QUORUM.mix(0.8).filled())?;
        }
        // Where the lock, the servers and the clients part.
        for row in [self.locks, self.locks + SERVERS] {
            self.span(chart, self.from, self.to, row as f64, row as f64, INK.mix(0.5).stroke_width(1))?;
        }
        let healed = self.seconds(self.times.healed);
        if (self.from..self.to).contains(&healed) {
            let line = vec![(healed, 0.0), (healed, self.rows() as f64)];
            chart.draw_series([DashedPathElement::new(line, 6, 4, INK.mix(0.7).stroke_width(1))])?;
        }
        Ok(())
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

    fn labels(&self, body: &Area<'_>, chart: &Chart<'_, '_>) -> Drawn {
        let mut names: Vec<_> =
            (0..self.locks).map(|lock| (format!("{} {}", self.one, self.first + lock), true)).collect();
        if let [(name, _)] = names.as_mut_slice() {
            *name = format!("the {}", self.one);
        }
        names.extend((1..=SERVERS).map(|server| (format!("server {server}"), false)));
        names.extend(self.contenders.iter().map(|who| {
            let alone = !self.contenders.iter().any(|other| other.client == who.client && other != who);
            let task = if alone { String::new() } else { format!(", task {}", who.task) };
            (format!("client {}{task}", who.client), false)
        }));
        let (left, top) = body.get_base_pixel();
        for (row, (name, bold)) in names.into_iter().enumerate() {
            let (x, y) = chart.plotting_area().map_coordinate(&(self.from, row as f64 + 0.5));
            let style = if bold { FontStyle::Bold } else { FontStyle::Normal };
            let style =
                (FONT, 16).into_font().style(style).color(&INK).pos(Pos::new(HPos::Right, VPos::Center));
            body.draw(&Text::new(name, (x - left - 10, y - top), style))?;
        }
        Ok(())
    }

    /// What was done to servers.
    fn servers(&self, chart: &mut Chart<'_, '_>) -> Drawn {
        for fault in self.history.faults.iter().filter(|fault| fault.kind.is_of_servers()) {
            let (colour, text) = match fault.kind {
                Kind::IsolateLeader => (CUT_OFF, "leader, cut off"),
                Kind::StallServer => (CUT_OFF, "half cut off"),
                Kind::PauseServer => (STOPPED, "paused"),
                Kind::KillServer => (DEAD, "killed"),
                _ => (CUT_OFF, "cut off"),
            };
            for server in &fault.servers {
                self.band(chart, fault, self.locks + server, colour)?;
                self.name(chart, fault, self.locks + server, text)?;
            }
        }
        Ok(())
    }

    /// A fault that lasts: a band.
    fn band(&self, chart: &mut Chart<'_, '_>, fault: &Fault, row: usize, colour: RGBColor) -> Drawn {
        let (from, to) = (self.seconds(fault.at), self.seconds(fault.until));
        self.bar(chart, from, to, row, (0.06, 0.94), colour.mix(0.45).filled())?;
        self.bar(chart, from, to, row, (0.06, 0.94), colour.mix(0.9).stroke_width(1))
    }

    /// What it is, if there is room.
    fn name(&self, chart: &mut Chart<'_, '_>, fault: &Fault, row: usize, text: &str) -> Drawn {
        let (from, to) = (self.seconds(fault.at), self.seconds(fault.until));
        let room =
            (to.min(self.to) - from.max(self.from)) / (self.to - self.from) * f64::from(WIDTH - LABELS);
        if room > text.len() as f64 * 7.2 + 8.0 {
            let style = (FONT, 13).into_font().color(&INK).pos(Pos::new(HPos::Center, VPos::Center));
            let middle = f64::midpoint(from.max(self.from), to.min(self.to));
            chart.draw_series([Text::new(text.to_owned(), (middle, row as f64 + 0.5), style)])?;
        }
        Ok(())
    }

    /// What contenders did, and what was done to them.
    fn clients(&self, chart: &mut Chart<'_, '_>) -> Drawn {
        let history = self.history;
        for fault in history.faults.iter().filter(|fault| !fault.kind.is_act()) {
            let colour = match fault.kind {
                Kind::BlackHole | Kind::MoveSession => CUT_OFF,
                Kind::StopShortly | Kind::StopLong => STOPPED,
                kind if kind.is_kill() => DEAD,
                _ => continue,
            };
            for who in self.contenders.iter().filter(|who| Some(who.client) == fault.client) {
                self.band(chart, fault, self.row_of(*who), colour)?;
            }
        }
        for attempt in history.attempts.iter().filter(|attempt| attempt.outcome != Outcome::Busy) {
            let (from, to) = (self.seconds(attempt.asked), self.seconds(attempt.ended));
            self.bar(chart, from, to, self.row_of(attempt.who), (0.42, 0.58), WAITING.filled())?;
        }
        for hold in &history.holds {
            let (from, to) = self.held(hold);
            self.bar(chart, from, to, self.row_of(hold.who), (0.22, 0.78), HELD.filled())?;
        }
        for fault in &history.faults {
            self.moment(chart, fault)?;
        }
        for hold in history.holds.iter().filter(|hold| matches!(hold.end, End::Lost(_) | End::Killed)) {
            self.cross(chart, self.seconds(hold.over), self.row_of(hold.who))?;
        }
        Ok(())
    }

    /// A guard in a process that was stopped counts until its lease was over, though nobody could ask it.
    fn held(&self, hold: &Hold) -> (f64, f64) {
        let until = match hold.end {
            End::Lost(_) | End::Killed => {
                hold.seen.promised.unwrap_or(hold.over).min(hold.over).max(hold.seen.valid)
            }
            _ => hold.over,
        };
        (self.seconds(hold.granted), self.seconds(until))
    }

    /// A fault of a moment: a mark on top of the row that it met.
    fn moment(&self, chart: &mut Chart<'_, '_>, fault: &Fault) -> Drawn {
        let colour = match fault.kind {
            Kind::CutConnections | Kind::LoseReply => CUT_OFF,
            kind if kind.may_take() => LOST,
            _ => return Ok(()),
        };
        let at = self.seconds(fault.at);
        // A waiter's client is told by the session, if that ever held the lock.
        let of_session = || self.history.holds.iter().find(|hold| Some(hold.session) == fault.session);
        let client = fault.client.or_else(|| of_session().map(|hold| hold.who.client));
        let met = |who: &&Who| Some(who.client) == client;
        for who in self.contenders.iter().filter(met) {
            if (self.from..self.to).contains(&at) {
                let place = (at, self.row_of(*who) as f64 + 0.12);
                let mark =
                    EmptyElement::at(place) + Polygon::new(vec![(0, 9), (-5, 0), (5, 0)], colour.filled());
                chart.draw_series([mark])?;
            }
        }
        Ok(())
    }

    fn cross(&self, chart: &mut Chart<'_, '_>, at: f64, row: usize) -> Drawn {
        if (self.from..self.to).contains(&at) {
            let style = LOST.stroke_width(3);
            chart.draw_series([EmptyElement::at((at, row as f64 + 0.5))
                + PathElement::new(vec![(-5, -7), (5, 7)], style)
                + PathElement::new(vec![(-5, 7), (5, -7)], style)])?;
        }
        Ok(())
    }

    /// A lock's own row: green while any client holds it, red while guards in conflict do by the checker's judgement.
    fn lock(&self, chart: &mut Chart<'_, '_>, lock: usize) -> Drawn {
        let taken = Taken::of(&self.history.faults);
        // The ends of the longest guards so far: of those that hold it alone, and of readers.
        let (mut alone, mut beside) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
        let holds = self.history.holds.iter();
        let of_lock = holds.filter_map(|hold| {
            let claim = hold.claims.iter().find(|claim| claim.lock == lock)?;
            Some((hold, claim.shared))
        });
        for (number, (hold, shared)) in of_lock.enumerate() {
            let (from, to) = self.held(hold);
            let colour = if number % 2 == 0 { HELD.mix(1.0) } else { HELD.mix(0.6) };
            let height = if shared { (0.36, 0.84) } else { (0.16, 0.84) };
            self.bar(chart, from, to, lock, height, colour.filled())?;
            let until = self.seconds(hold.valid_until(taken.has(hold)));
            let against = if shared { alone } else { alone.max(beside) };
            if from < against {
                self.bar(chart, from, until.min(against), lock, (0.0, 1.0), LOST.filled())?;
            }
            let longest = if shared { &mut beside } else { &mut alone };
            *longest = longest.max(until);
        }
        Ok(())
    }

    /// Part of a row, as far as it is shown.
    fn bar(
        &self,
        chart: &mut Chart<'_, '_>,
        from: f64,
        to: f64,
        row: usize,
        (top, bottom): (f64, f64),
        style: ShapeStyle,
    ) -> Drawn {
        self.span(chart, from, to, row as f64 + top, row as f64 + bottom, style)
    }

    fn span(
        &self,
        chart: &mut Chart<'_, '_>,
        from: f64,
        to: f64,
        top: f64,
        bottom: f64,
        style: ShapeStyle,
    ) -> Drawn {
        if to < self.from || from > self.to {
            return Ok(());
        }
        // What is shorter than a pixel is to be seen all the same.
        let pixel = (self.to - self.from) / f64::from(WIDTH - LABELS);
        let (from, to) = (from.max(self.from), to.max(from + pixel).min(self.to));
        chart.draw_series([Rectangle::new([(from, top), (to, bottom)], style)])?;
        Ok(())
    }
}

/// What is what.
fn legend(area: &Area<'_>) -> Drawn {
    let text = (FONT, 15).into_font().color(&INK).pos(Pos::new(HPos::Left, VPos::Center));
    let mut x = LABELS as i32;
    let (y, second) = (14, 44);
    let mut place = |name: &str, y: i32, wide: i32| {
        let start = x;
        x += wide;
        area.draw(&Text::new(name.to_owned(), (start + 34, y), text.clone())).map(|()| start)
    };
    let swatch = |at: i32, y: i32, half: i32, style: ShapeStyle| {
        area.draw(&Rectangle::new([(at, y - half), (at + 26, y + half)], style))
    };
    let at = place("holds a lock", y, 170)?;
    swatch(at, y, 9, HELD.filled())?;
    let at = place("waits for it", y, 150)?;
    swatch(at, y, 3, WAITING.filled())?;
    let at = place("lost it, or died holding it", y, 240)?;
    for ends in [[(-5, -7), (5, 7)], [(-5, 7), (5, -7)]] {
        let path = ends.map(|(dx, dy)| (at + 13 + dx, y + dy)).to_vec();
        area.draw(&PathElement::new(path, LOST.stroke_width(3)))?;
    }
    let at = place("two valid guards", y, 190)?;
    swatch(at, y, 9, LOST.filled())?;
    let at = place("no quorum", y, 150)?;
    swatch(at, y, 11, NO_QUORUM.filled())?;
    let at = place("all faults undone", y, 190)?;
    for from in [-11, -3, 5] {
        area.draw(&PathElement::new(
            vec![(at + 13, y + from), (at + 13, y + from + 5)],
            INK.stroke_width(1),
        ))?;
    }
    x = LABELS as i32;
    let mut place = |name: &str, wide: i32| {
        let start = x;
        x += wide;
        area.draw(&Text::new(name.to_owned(), (start + 34, second), text.clone())).map(|()| start)
    };
    for (name, wide, colour) in
        [("cut off, or half", 190, CUT_OFF), ("stopped", 150, STOPPED), ("dead", 240, DEAD)]
    {
        let at = place(name, wide)?;
        swatch(at, second, 10, colour.mix(0.45).filled())?;
        swatch(at, second, 10, colour.stroke_width(1))?;
    }
    for (name, wide, colour) in [
        ("connection reset, or a reply lost", 340, CUT_OFF),
        ("an operator touches a node, or closes a session", 400, LOST),
    ] {
        let at = place(name, wide)?;
        let corners = [(13, 5), (8, -4), (18, -4)].map(|(dx, dy)| (at + dx, second + dy));
        area.draw(&Polygon::new(corners.to_vec(), colour.filled()))?;
    }
    Ok(())
}
