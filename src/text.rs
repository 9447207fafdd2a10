//! Text that any client may have written, made fit for terminals, logs and errors.

/// How much of a text in a message or a log line is shown, in characters: an owner, a reason, the path of a node.
pub(crate) const LONGEST: usize = 256;

/// Returns a text that somebody else wrote, fit for a terminal or a log: with each [harmful](is_harmful) character written out, as in
/// `\u{1b}`, and with so many characters at most. A text that is cut ends with `…`. Owners, extra data, the names of nodes, the value of
/// an election and the reason of an ask are such texts.
pub fn harmless(text: &str, longest: usize) -> String {
    let mut fit = String::new();
    let mut length = 0;
    for character in text.chars() {
        let before = fit.len();
        if is_harmful(character) {
            fit.extend(character.escape_default());
        } else {
            fit.push(character);
        }
        length += fit[before..].chars().count();
        if length > longest {
            fit.truncate(before);
            fit.push('…');
            break;
        }
    }
    fit
}

/// Returns true for a control character, for a separator of lines or paragraphs, for a character that is invisible, and for one that turns
/// the direction of writing. Such a character could drive a terminal, break a line or a table, or make one text look like another.
pub fn is_harmful(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_hostile_text_is_written_out_and_short() {
        let long = "a".repeat(1_000_000);
        let cut = |start: &str, all: usize| format!("{start}{}…", "a".repeat(all));
        for (text, shown) in [
            ("\u{1b}[2J\u{7}\r\n\t\0", r"\u{1b}[2J\u{7}\r\n\t\u{0}"),
            // To some terminals this one character is the same as ESC [.
            ("\u{9b}31m\u{7f}", r"\u{9b}31m\u{7f}"),
            ("pay\u{202e}lla\u{2028}\u{2066}", r"pay\u{202e}lla\u{2028}\u{2066}"),
            ("/lock\u{200b}/a\u{feff}\u{2060}", r"/lock\u{200b}/a\u{feff}\u{2060}"),
            ("\u{3164}\u{ad}\u{e0041}", r"\u{3164}\u{ad}\u{e0041}"),
            (&long, &cut("", LONGEST)),
            (&format!("\u{1b}{long}"), &cut(r"\u{1b}", LONGEST - r"\u{1b}".len())),
            // What people write stays.
            ("", ""),
            ("o'brien \"the\" C:\\", "o'brien \"the\" C:\\"),
            ("mu\u{308}ller \u{8def} \u{1f512}", "mu\u{308}ller \u{8def} \u{1f512}"),
        ] {
            assert_eq!(harmless(text, LONGEST), shown, "{text:.20?}");
        }
        // An escape is shown whole or not at all.
        assert_eq!(harmless("ab\u{1b}", 7), "ab…");
        assert_eq!(harmless(&"\u{1f512}".repeat(9), 9), "\u{1f512}".repeat(9));
    }
}
