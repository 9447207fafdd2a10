//! Aligned columns.

use anstyle::Style;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::text::harmless;

/// The widest cell. A wider one is cut; the JSON has all of it.
const WIDEST: usize = 80;

const GAP: usize = 2;

/// A column: its name, whether it is shown, and the text of an item. That may be a text of another client.
pub(crate) type Column<'a, T> = (&'static str, bool, &'a dyn Fn(&T) -> String);

/// The lines of a table with a row for each item.
pub(crate) fn of_columns<T>(columns: &[Column<'_, T>], items: &[T]) -> String {
    let shown = columns.iter().filter(|(_, shown, _)| *shown);
    let header = shown.clone().map(|(name, ..)| *name).collect::<Vec<_>>();
    let cell = |item, text: &dyn Fn(&T) -> String| cut_to(&harmless(&text(item)), WIDEST);
    let row = |item| shown.clone().map(|(.., text)| cell(item, text)).collect::<Vec<_>>();
    let rows = items.iter().map(row).collect::<Vec<_>>();
    let mut widths = header.iter().map(|name| name.width()).collect::<Vec<_>>();
    for row in &rows {
        for (widest, cell) in widths.iter_mut().zip(row) {
            *widest = cell.width().max(*widest);
        }
    }
    let bold = Style::new().bold();
    let mut text = format!("{bold}{}{bold:#}\n", row_text(&header, &widths));
    for row in &rows {
        text.push_str(&row_text(row, &widths));
        text.push('\n');
    }
    text
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

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_on_a_terminal() {
        let columns: [Column<'_, [&str; 2]>; 2] =
            [("ID", true, &|row| row[0].to_owned()), ("N", true, &|row| row[1].to_owned())];
        let table = of_columns(&columns, &[["\u{8def}\u{8def}", "1"], ["a", "22"]]);
        let plain = anstream::adapter::strip_str(&table).to_string();
        assert_eq!(plain, "ID    N\n\u{8def}\u{8def}  1\na     22\n");
    }

    #[test]
    fn a_cell_that_is_too_wide_is_cut() {
        assert_eq!(cut_to("abcd", 4), "abcd");
        assert_eq!(cut_to("abcde", 4), "abc…");
        assert_eq!(cut_to("\u{8def}\u{8def}\u{8def}", 4), "\u{8def}…");
    }
}
