//! A night as a picture, in SVG: time to the right, and a row for each path and each process that held it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::report::{Audit, HoldAudit, Verdict};

const WIDTH: f64 = 1800.0;
const LABELS: f64 = 360.0;
const ROW: f64 = 24.0;
const HEAD: f64 = 60.0;
/// How many marks the axis has.
const MARKS: u32 = 8;

const EXCLUSIVE: &str = "#2e7d32";
const SHARED: &str = "#90bee6";
const LOST: &str = "#f58c00";
const OVERLAP: &str = "#d32f2f";
const INK: &str = "#212529";
const STRIPE: &str = "#f1f3f5";

/// Draws the holds of all paths. `label` writes an instant, in milliseconds since the Unix epoch.
pub fn picture(audit: &Audit, label: impl Fn(f64) -> String) -> String {
    let holds = || audit.paths.iter().flat_map(|path| &path.holds);
    let from = holds().map(|hold| hold.granted_ms).fold(f64::INFINITY, f64::min);
    let to = holds().map(end).fold(from + 1.0, f64::max);
    let x = |ms: f64| LABELS + (ms - from) / (to - from) * (WIDTH - LABELS - 20.0);
    let (mut rows, mut bars) = (String::new(), String::new());
    let mut row = 0_u32;
    for path in &audit.paths {
        let overlaps = path.overlaps.iter().flat_map(|pair| [pair.first, pair.second]).collect::<Vec<_>>();
        let mut own = BTreeMap::<&str, u32>::new();
        for hold in &path.holds {
            own.entry(&hold.who).or_default();
        }
        for (who, place) in &mut own {
            *place = row;
            let y = HEAD + f64::from(row) * ROW;
            if row.is_multiple_of(2) {
                block(&mut rows, (0.0, WIDTH), (y, ROW), STRIPE, "");
            }
            text(&mut rows, (8.0, y + 16.0), &format!("{} {who}", path.path));
            row += 1;
        }
        for (index, hold) in path.holds.iter().enumerate() {
            let y = HEAD + f64::from(own[hold.who.as_str()]) * ROW + 4.0;
            let (begin, end) = (x(hold.granted_ms), x(end(hold)));
            let colour = match hold.kind.as_str() {
                _ if overlaps.contains(&index) => OVERLAP,
                _ if hold.is_lost => LOST,
                "exclusive" => EXCLUSIVE,
                _ => SHARED,
            };
            let held = hold.held_ms.map_or("for an unknown time".to_owned(), |ms| format!("for {ms:.1} ms"));
            let title = format!(
                "{who}, {kind}, token {token}, from {at}, {held}: {ended}",
                who = hold.who,
                kind = hold.kind,
                token = hold.token,
                at = label(hold.granted_ms),
                ended = hold.ended
            );
            // A short hold is to be seen as well.
            block(&mut bars, (begin, (end - begin).max(1.5)), (y, ROW - 8.0), colour, &title);
        }
    }
    let height = HEAD + f64::from(row) * ROW + 40.0;
    let mut svg = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="13" fill="{INK}">"#
    );
    block(&mut svg, (0.0, WIDTH), (0.0, height), "white", "");
    let found = match audit.verdict {
        Verdict::Proven => "proven: no two guards on record that exclude each other were valid at once",
        Verdict::Unproven => "unproven: the records show no overlap, and do not show that there was none",
        Verdict::Overlap => "OVERLAP: two guards were valid at once",
    };
    text(&mut svg, (8.0, 22.0), found);
    for (place, (colour, what)) in
        [(EXCLUSIVE, "held alone"), (SHARED, "held with others"), (LOST, "lost"), (OVERLAP, "overlap")]
            .into_iter()
            .enumerate()
    {
        let left = LABELS + 190.0 * place as f64;
        block(&mut svg, (left, 12.0), (36.0, 12.0), colour, "");
        text(&mut svg, (left + 18.0, 47.0), what);
    }
    svg.push_str(&rows);
    svg.push_str(&bars);
    for mark in 0..=MARKS {
        let ms = from + (to - from) / f64::from(MARKS) * f64::from(mark);
        block(&mut svg, (x(ms), 0.5), (HEAD, height - HEAD - 30.0), INK, "");
        text(&mut svg, (x(ms) - 60.0, height - 12.0), &label(ms));
    }
    svg.push_str("</svg>\n");
    svg
}

/// When a hold ended at the latest, or at least began.
fn end(hold: &HoldAudit) -> f64 {
    hold.granted_ms + hold.held_ms.unwrap_or(0.0)
}

fn block(svg: &mut String, (x, width): (f64, f64), (y, height): (f64, f64), colour: &str, title: &str) {
    let title = escaped(title);
    let _infallible = write!(
        svg,
        r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" fill="{colour}"><title>{title}</title></rect>"#
    );
}

fn text(svg: &mut String, (x, y): (f64, f64), text: &str) {
    let _infallible = write!(svg, r#"<text x="{x:.1}" y="{y:.1}">{}</text>"#, escaped(text));
}

/// Any client may have written an owner.
fn escaped(text: &str) -> String {
    let fit = |character: char| if character.is_control() { ' ' } else { character };
    let text = text.chars().map(fit).collect::<String>();
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
