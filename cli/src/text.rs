//! Text that any client may have written, made fit for a terminal.

use std::time::Duration;

use crate::duration;

/// The text with each harmful character written out, as in `\u{1b}`. Such a character could drive a terminal, break a
/// line or a table, or show other characters in another order. Owners, extra data and the names of nodes may hold some.
pub(crate) fn harmless(text: &str) -> String {
    let mut fit = String::with_capacity(text.len());
    for character in text.chars() {
        if is_harmful(character) {
            fit.extend(character.escape_default());
        } else {
            fit.push(character);
        }
    }
    fit
}

/// Whether it is a control character or a separator of lines or paragraphs, is invisible, or turns the direction of
/// writing.
pub(crate) fn is_harmful(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// How long ago something was, or how long it took. Seconds are exact enough for a queue.
pub(crate) fn age(length: Duration) -> String {
    match length.as_secs() {
        0 => "<1s".to_owned(),
        seconds => duration::text(Duration::from_secs(seconds)),
    }
}

/// A number of things. `one` names a single one of them: `1 slot`, `2 slots`.
pub(crate) fn counted(number: impl TryInto<u64>, one: &str) -> String {
    match number.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {one}"),
        number => format!("{number} {one}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_drive_a_terminal_is_written_out() {
        assert_eq!(harmless("\u{1b}[2J\u{7}\r\n\t"), r"\u{1b}[2J\u{7}\r\n\t");
        // To some terminals this one character is the same as ESC [.
        assert_eq!(harmless("\u{9b}31m\u{7f}"), r"\u{9b}31m\u{7f}");
        assert_eq!(harmless("pay\u{202e}lla\u{2028}"), r"pay\u{202e}lla\u{2028}");
    }

    #[test]
    fn what_people_write_stays() {
        for text in ["", "host:7", "o'brien \"the\" C:\\", "mu\u{308}ller \u{8def} \u{1f512}"] {
            assert_eq!(harmless(text), text);
        }
    }

    #[test]
    fn one_thing_is_one() {
        assert_eq!([1_u32, 2].map(|number| counted(number, "slot")), ["1 slot", "2 slots"]);
    }

    #[test]
    fn an_age_has_no_fractions() {
        let of = |millis| age(Duration::from_millis(millis));
        assert_eq!([of(0), of(999), of(1999), of(200_000)], ["<1s", "<1s", "1s", "3m 20s"]);
    }
}
