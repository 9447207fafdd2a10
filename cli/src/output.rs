//! Results, on standard output.

use std::fmt::Write as _;
use std::io::{ErrorKind, Write as _};

use serde::Serialize;

use crate::failure::Failure;
use crate::text;

/// Writes the text as it is. A closed pipe is no error: the reader has read enough.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    write(text).map(drop)
}

/// The same. Returns whether somebody still reads. A pipe that nobody reads keeps another thread, so this can be dropped: the
/// thread ends with the process.
pub(crate) async fn print_to_reader(text: String) -> Result<bool, Failure> {
    tokio::task::spawn_blocking(move || write(&text)).await.map_err(Failure::internal)?
}

fn write(text: &str) -> Result<bool, Failure> {
    let mut output = anstream::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::output(&error)),
    }
}

/// Writes the value as JSON.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let json = serde_json::to_string_pretty(value).map_err(Failure::internal)?;
    print(&escaped(&json))
}

/// The value as JSON in one line.
pub(crate) fn json_line(value: &impl Serialize) -> Result<String, Failure> {
    Ok(escaped(&serde_json::to_string(value).map_err(Failure::internal)?))
}

/// JSON with every harmful character escaped. JSON itself allows some of them: DEL, and some beyond ASCII. They can stand
/// only in strings, where an escape changes no value.
fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len() + 1);
    for character in json.chars() {
        if character >= '\u{7f}' && text::is_harmful(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _infallible = write!(text, "\\u{unit:04x}");
            }
        } else {
            text.push(character);
        }
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaping_changes_no_value() {
        let value = ["\u{1b}[0m\n", "\u{9b}31m\u{7f}", "\u{202e}\u{e0001}", "mu\u{308}ller"];
        let json = escaped(&serde_json::to_string_pretty(&value).unwrap());
        assert!(json.lines().all(|line| !line.chars().any(text::is_harmful)), "{json}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&json).unwrap(), value);
    }
}
