//! Aligned columns.

use anstyle::Style;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::text::harmless;

/// The widest cell. A wider one is cut; the JSON has all of it.
const WIDEST: usize = 80;

const GAP: usize = 2;

/// The lines of a table. Its cells may be texts of other clients. Each row has as many cells as the header.
pub(crate) fn aligned<'a>(
    header: impl AsRef<[&'a str]>,
    rows: impl IntoIterator<Item = impl AsRef<[String]>>,
) -> String {
    let fit = |row: &[String]| row.iter().map(|cell| cut_to(&harmless(cell), WIDEST)).collect::<Vec<_>>();
    let rows = rows.into_iter().map(|row| fit(row.as_ref())).collect::<Vec<_>>();
    let header = header.as_ref();
    let mut widths = header.iter().map(|name| name.width()).collect::<Vec<_>>();
    for row in &rows {
        for (widest, cell) in widths.iter_mut().zip(row) {
            *widest = cell.width().max(*widest);
        }
    }
    let bold = Style::new().bold();
    let mut text = format!("{bold}{}{bold:#}\n", row_text(header, &widths));
    for row in &rows {
        text.push_str(&row_text(row, &widths));
        text.push('\n');
    }
    text
}

/// A column: its name, whether it is shown, and the text of an item.
pub(crate) type Column<'a, T> = (&'static str, bool, &'a dyn Fn(&T) -> String);

pub(crate) fn of_columns<T>(columns: &[Column<'_, T>], items: &[T]) -> String {
    let shown = columns.iter().filter(|(_, shown, _)| *shown);
    let header = shown.clone().map(|(name, ..)| *name).collect::<Vec<_>>();
    let row = |item| shown.clone().map(|(.., text)| text(item)).collect::<Vec<_>>();
    aligned(header, items.iter().map(row))
}

fn row_text(cells: &[impl AsRef<str>], widths: &[usize]) -> String {
    let mut text = String::new();
    for (cell, widest) in cells.iter().zip(widths) {
        let cell = cell.as_ref();
        text.push_str(cell);
        text.extend(std::iter::repeat_n(' ', widest + GAP - cell.width()));
    }
    text.truncate(text.trim_end().len());
    text
}

fn cut_to(cell: &str, widest: usize) -> String {
    if cell.width() <= widest {
        return cell.to_owned();
    }
    let mut width = 0;
    let fits = |character: &char| {
        width += character.width().unwrap_or_default();
        width < widest
    };
    let start = cell.chars().take_while(fits).collect::<String>();
    format!("{start}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_on_a_terminal() {
        let rows = [["\u{8def}\u{8def}", "1"], ["a", "22"]].map(|row| row.map(str::to_owned));
        assert_eq!(plain(&aligned(["ID", "N"], rows)), "ID    N\n\u{8def}\u{8def}  1\na     22\n");
    }

    #[test]
    fn a_cell_that_is_too_wide_is_cut() {
        assert_eq!(cut_to("abcd", 4), "abcd");
        assert_eq!(cut_to("abcde", 4), "abc…");
        assert_eq!(cut_to("\u{8def}\u{8def}\u{8def}", 4), "\u{8def}…");
    }
}
