//! The drawing of a path that is watched.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::Timestamp;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph, Row, Table};
use zklock::{SessionState, inspect::Kind};

use super::history::{Handoff, History, Length};
use super::log::Log;
use super::sight::Sight;
use crate::queue::{self, Entry};
use crate::table::Column;
use crate::text;

/// A look that is older than this is stale. Looks come every half a second.
const STALE: Duration = Duration::from_secs(2);

/// How many changes of a pool are kept.
const LONGEST: usize = 256;

/// The last look, its history, and the part of it that is drawn.
pub(super) struct View {
    colours: bool,
    sight: Sight,
    /// The time of the last look.
    seen: Timestamp,
    /// The time of the first look.
    begun: Option<Timestamp>,
    /// Why the last look failed.
    trouble: Option<String>,
    /// The holders of the lock.
    history: History,
    /// The changes of a pool, as lines, the latest first.
    changes: VecDeque<String>,
    log: Log,
    /// How many waiting contenders are above the window.
    above: usize,
    /// How many waiting contenders the window has room for.
    room: usize,
}

/// Where to move the window.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scroll {
    Up,
    Down,
    PageUp,
    PageDown,
    Start,
    End,
}

impl View {
    pub(super) fn new(colours: bool) -> Self {
        Self {
            colours,
            sight: Sight::default(),
            seen: Timestamp::UNIX_EPOCH,
            begun: None,
            trouble: None,
            history: History::default(),
            changes: VecDeque::new(),
            log: Log::default(),
            above: 0,
            room: 1,
        }
    }

    /// Takes in a look.
    pub(super) fn look(&mut self, at: Timestamp, sight: Sight) {
        if sight.path != self.sight.path || sight.pool.is_some() != self.sight.pool.is_some() {
            // Something else is there. Its history begins here.
            (self.history, self.log, self.begun, self.above) = Default::default();
            self.changes.clear();
        }
        if sight.pool.is_none() {
            self.history.look(at, &sight.queue);
        } else {
            let last = self.begun.map(|_| &self.sight);
            for line in self.log.changes(last, &sight) {
                self.changes.push_front(format!(" {}  {line}", time(at)));
            }
            self.changes.truncate(LONGEST);
        }
        self.sight = sight;
        self.seen = at;
        self.begun.get_or_insert(at);
        self.trouble = None;
    }

    /// A look failed. The last queue stays.
    pub(super) fn failed(&mut self, trouble: String) {
        self.trouble = Some(trouble);
    }

    /// Moves the window.
    pub(super) fn scroll(&mut self, by: Scroll) {
        let page = self.room.max(1);
        let above = match by {
            Scroll::Up => self.above.saturating_sub(1),
            Scroll::Down => self.above.saturating_add(1),
            Scroll::PageUp => self.above.saturating_sub(page),
            Scroll::PageDown => self.above.saturating_add(page),
            Scroll::Start => 0,
            Scroll::End => usize::MAX,
        };
        self.above = above.min(self.furthest());
    }

    /// How many are above the window when it shows the end of the queue.
    fn furthest(&self) -> usize {
        let rows = match &self.sight.pool {
            Some(pool) => pool.holders.len() + pool.waiting.len(),
            // The first holder stands above.
            None => self.sight.queue.len().saturating_sub(1),
        };
        rows.saturating_sub(self.room)
    }

    /// The title of the window, which shows so many of these rows.
    fn window(&self, counted: &str, shown: usize, rows: usize) -> String {
        match shown {
            shown if shown == 0 || shown == rows => format!(" {counted} "),
            shown => format!(" {counted}, {} to {} ", self.above + 1, self.above + shown),
        }
    }

    /// Draws as much as the screen has room for.
    pub(super) fn draw(&mut self, frame: &mut Frame<'_>, state: SessionState, now: Timestamp) {
        let holder = if self.sight.pool.is_some() { 0 } else { 4 };
        let [title, holder, waiting, handoffs, keys] = Layout::vertical([
            Constraint::Length(2),
            Constraint::Length(holder),
            Constraint::Fill(2),
            Constraint::Fill(1),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        self.draw_title(frame, title, state, now);
        // Without the line above, and the header.
        self.room = usize::from(waiting.height.saturating_sub(2));
        self.above = self.above.min(self.furthest());
        match &self.sight.pool {
            Some(pool) => self.draw_pool(frame, waiting, &pool.lines(now)),
            None => {
                self.draw_holder(frame, holder, now);
                self.draw_waiting(frame, waiting, now);
            }
        }
        self.draw_handoffs(frame, handoffs);
        frame.render_widget(Line::from(" q quits   arrows, page up and page down scroll").dim(), keys);
    }

    fn draw_title(&self, frame: &mut Frame<'_>, area: Rect, state: SessionState, now: Timestamp) {
        let colour = if state == SessionState::Connected { Color::Green } else { Color::Yellow };
        let title = Line::from(vec![
            Span::raw(" "),
            Span::styled(text::harmless(&self.sight.path), Style::new().bold()),
            Span::raw("   "),
            Span::styled(state.to_string(), self.colour(colour)),
        ]);
        let unseen = Duration::try_from(now.duration_since(self.seen)).unwrap_or_default();
        let status = match &self.trouble {
            None if unseen <= STALE => match self.sight.foreign.as_slice() {
                [] => Line::default(),
                [first, ..] => {
                    let (count, name, client) = (self.sight.foreign.len(), first.name_text(), &first.client);
                    let line =
                        format!(" contenders of other clients ({count}) keep zklock out: {name} ({client})");
                    Line::styled(line, self.colour(Color::Yellow))
                }
            },
            trouble => {
                let why = trouble.as_deref().unwrap_or("no answer");
                let (since, age) = (time(self.seen), text::age(unseen));
                let stale = format!(" stale since {since} ({age}): {}", text::harmless(why));
                Line::styled(stale, self.colour(Color::Yellow))
            }
        };
        frame.render_widget(Paragraph::new(vec![title, status]), area);
    }

    fn draw_holder(&self, frame: &mut Frame<'_>, area: Rect, now: Timestamp) {
        let lines = match self.sight.queue.first() {
            None => vec![Line::from(" nobody holds the lock").dim()],
            Some(holder) => {
                let held = self.history.holding(now).map(length).unwrap_or_default();
                let owner = Span::styled(holder.owner_text(), self.colour(Color::Green).bold());
                let others = match queue::holders(&self.sight.queue).len() {
                    1 if holder.kind == Kind::Shared => Some("   a reader".to_owned()),
                    0 | 1 => None,
                    several => Some(format!("   a reader, and {} more", several - 1)),
                };
                let data = holder.data.is_some().then(|| format!("   {}", holder.data_text()));
                let times = format!(" held for {held}   in the queue since {}", holder.since_text(now));
                let (session, token) = (holder.session_text(), holder.token_text());
                let numbers =
                    format!(" session {session}   token {token}   sequence {}", holder.sequence_text());
                let aside = [others, data].into_iter().flatten().map(|text| Span::raw(text).dim());
                let first = [Span::raw(" "), owner].into_iter().chain(aside).collect::<Vec<_>>();
                vec![Line::from(first), Line::from(times), Line::from(numbers)]
            }
        };
        frame.render_widget(Paragraph::new(lines).block(block(" Holder ".to_owned())), area);
    }

    /// Draws the lines of a pool: how much is held, the header, and a row for each holder and each that waits.
    fn draw_pool(&self, frame: &mut Frame<'_>, area: Rect, lines: &str) {
        let lines = anstream::adapter::strip_str(lines).to_string();
        let mut lines = lines.lines().map(|line| format!(" {line}"));
        let (counted, header) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
        let rows = lines.collect::<Vec<_>>();
        let shown = rows.iter().skip(self.above).take(self.room).map(|row| Line::from(row.as_str()));
        let title = self.window(counted.trim_start(), shown.len(), rows.len());
        let drawn = [Line::from(header).dim()].into_iter().chain(shown).collect::<Vec<_>>();
        frame.render_widget(Paragraph::new(drawn).block(block(title)), area);
    }

    fn draw_waiting(&self, frame: &mut Frame<'_>, area: Rect, now: Timestamp) {
        let queue = &self.sight.queue;
        // The first holder stands above. Other readers that hold the lock stand here.
        let rest = queue.get(1..).unwrap_or_default();
        let (has_readers, holders) = (queue::has_readers(queue), queue::holders(queue).len());
        let waiting = queue.len() - holders;
        let shown = rest.iter().skip(self.above).take(self.room);
        // A lock without readers needs no kinds, and there everybody waits for everybody in front.
        let columns: [(Constraint, Column<'_, Entry>); 8] = [
            (Constraint::Length(6), ("     #", true, &Entry::position_text)),
            (Constraint::Length(6), ("KIND", has_readers, &|entry| entry.kind_text().to_owned())),
            (Constraint::Fill(1), ("OWNER", true, &Entry::owner_text)),
            (
                Constraint::Length(8),
                ("WAITS", true, &|entry| entry.age(now).map(text::age).unwrap_or_default()),
            ),
            (Constraint::Length(12), ("FOR", has_readers, &|entry| entry.waits_for_text(holders))),
            (Constraint::Length(18), ("SESSION", true, &Entry::session_text)),
            (Constraint::Length(12), ("TOKEN", true, &Entry::token_text)),
            (Constraint::Length(8), ("SEQUENCE", true, &Entry::sequence_text)),
        ];
        let columns = columns.iter().filter(|(_, (_, shown, _))| *shown);
        let row = |entry| Row::new(columns.clone().map(|(_, (.., text))| text(entry)));
        let header = Row::new(columns.clone().map(|(_, (name, ..))| *name)).dim();
        let widths = columns.clone().map(|(width, _)| *width);
        let counted = match (holders.saturating_sub(1), waiting) {
            (0, 0) => "Nobody waits".to_owned(),
            (0, waiting) => format!("{waiting} waiting"),
            (1, 0) => "1 more reader holds it, nobody waits".to_owned(),
            (1, waiting) => format!("1 more reader holds it, {waiting} waiting"),
            (others, 0) => format!("{others} more readers hold it, nobody waits"),
            (others, waiting) => format!("{others} more readers hold it, {waiting} waiting"),
        };
        let title = self.window(&counted, shown.len(), rest.len());
        let header = if rest.is_empty() { Row::default() } else { header };
        let table = Table::new(shown.map(row), widths).header(header).block(block(title));
        frame.render_widget(table, area);
    }

    fn draw_handoffs(&self, frame: &mut Frame<'_>, area: Rect) {
        let room = usize::from(area.height);
        let ([none, some], lines) = match self.sight.pool {
            None => (
                [" No handoff", " Handoffs"],
                self.history.handoffs().take(room).map(handoff).collect::<Vec<_>>(),
            ),
            Some(_) => (
                [" No change", " Changes"],
                self.changes.iter().take(room).map(|line| Line::from(line.as_str())).collect(),
            ),
        };
        let since = self.begun.map(time).unwrap_or_default();
        let title = if lines.is_empty() { none } else { some };
        frame.render_widget(Paragraph::new(lines).block(block(format!("{title} since {since} "))), area);
    }

    fn colour(&self, colour: Color) -> Style {
        if self.colours { Style::new().fg(colour) } else { Style::new() }
    }
}

/// A line above, with a title in it. It has no lines at the sides, so that columns stay where they are.
fn block(title: String) -> Block<'static> {
    Block::new().borders(Borders::TOP).border_style(Style::new().dim()).title(Span::raw(title).bold())
}

fn handoff(handoff: &Handoff) -> Line<'static> {
    let name = |owner: &Option<String>| owner.clone().unwrap_or_else(|| "nobody".to_owned());
    let others = if handoff.others { " → …" } else { "" };
    let line = format!(" {}  {}{others} → {}", time(handoff.at), name(&handoff.from), name(&handoff.to));
    match handoff.held {
        Some(held) => {
            Line::from(vec![Span::raw(line), Span::raw(format!("   held for {}", length(held))).dim()])
        }
        None => Line::from(line),
    }
}

fn length(length: Length) -> String {
    format!("{}{}", if length.at_least { "≥ " } else { "" }, text::age(length.seen))
}

/// To the second.
fn time(at: Timestamp) -> String {
    format!("{at:.0}")
}

#[cfg(test)]
mod tests;
