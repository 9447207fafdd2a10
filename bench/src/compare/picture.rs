//! The comparison as a picture: how often eight contenders hand the lock over in a second.

use std::fmt::Write;
use std::path::Path;

use anyhow::Context;

use super::report::Row;
use super::speed::{Cell, ROUND_TRIPS};

const WIDTH: f64 = 900.0;
const LABELS: f64 = 150.0;
/// The right end of the longest bar. Its figure follows.
const RIGHT: f64 = WIDTH - 70.0;
const BAR: f64 = 16.0;
const HEAD: f64 = 34.0;
/// From the least to the most that is drawn, per second; by powers of ten.
const DECADES: (i32, i32) = (0, 5);

const OURS: &str = "#2e7d32";
const THEIRS: &str = "#90bee6";
const INK: &str = "#212529";
const FAINT: &str = "#ced4da";

pub(super) fn draw(path: &Path, rows: &[Row]) -> anyhow::Result<()> {
    let group = HEAD + rows.len() as f64 * (BAR + 6.0) + 24.0;
    let height = group * ROUND_TRIPS.len() as f64;
    let mut svg = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="13" fill="{INK}">
<rect width="{WIDTH}" height="{height}" fill="white"/>
"#
    );
    for (index, round_trip) in ROUND_TRIPS.iter().enumerate() {
        let top = group * index as f64;
        let bottom = top + group - 20.0;
        let added = round_trip.as_millis();
        writeln!(
            svg,
            r#"<text x="10" y="{}" font-weight="bold">Handovers a second, 8 contenders, {added} ms added to each round trip (logarithmic)</text>"#,
            top + 20.0
        )?;
        for decade in DECADES.0..=DECADES.1 {
            let (x, mark) = (place(10_f64.powi(decade)), 10_i32.pow(decade.unsigned_abs()));
            writeln!(
                svg,
                r#"<line x1="{x:.1}" x2="{x:.1}" y1="{}" y2="{bottom}" stroke="{FAINT}"/><text x="{x:.1}" y="{}" font-size="10" text-anchor="middle">{mark}</text>"#,
                top + HEAD - 6.0,
                bottom + 12.0
            )?;
        }
        for (row, y) in rows.iter().zip((0..).map(|place| top + HEAD + f64::from(place) * (BAR + 6.0))) {
            let (name, rate) = (row.contestant.name(), row.cell(8, *round_trip).map_or(0.0, Cell::rate));
            let colour = if name == "zklock" { OURS } else { THEIRS };
            let (end, text) = (place(rate), y + BAR - 3.0);
            writeln!(
                svg,
                r#"<text x="{}" y="{text}" text-anchor="end">{name}</text><rect x="{LABELS}" y="{y}" width="{:.1}" height="{BAR}" fill="{colour}"/><text x="{:.1}" y="{text}">{rate:.0}</text>"#,
                LABELS - 8.0,
                end - LABELS,
                end + 6.0
            )?;
        }
    }
    svg.push_str("</svg>\n");
    std::fs::write(path, svg).with_context(|| format!("cannot draw {}", path.display()))
}

/// Where so many a second are.
fn place(per_second: f64) -> f64 {
    let (least, most) = (f64::from(DECADES.0), f64::from(DECADES.1));
    LABELS + (per_second.max(1.0).log10() - least) / (most - least) * (RIGHT - LABELS)
}
