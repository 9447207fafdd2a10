//! Results, on standard output.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, ErrorKind, Write as _};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::process::ExitCode;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use serde::Serialize;
use tokio::time::sleep;
use zklock::inspect::is_harmful;

use crate::exit;
use crate::failure::{Failure, Outcome};

const PAUSE: Duration = Duration::from_millis(500);

/// Writes the text as it is. A closed pipe is no error: the reader has read enough.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    write(text).map(drop)
}

/// The same. Returns whether somebody still reads. A pipe that nobody reads keeps another thread, so this can be dropped: the
/// thread ends with the process.
pub(crate) async fn print_to_reader(text: String) -> Result<bool, Failure> {
    tokio::task::spawn_blocking(move || write(&text)).await.map_err(Failure::internal)?
}

/// The outcome of work that prints now and then. It ends with the reader or with the terminal, also while it has nothing to print.
/// The kernel sends SIGHUP only to the session that a terminal controls.
pub(crate) async fn while_read(work: impl Future<Output = Outcome>) -> Outcome {
    let unread = async {
        loop {
            sleep(PAUSE).await;
            if is_unread(&io::stdout()) {
                break;
            }
        }
    };
    tokio::select! {
        biased;
        outcome = work => outcome,
        () = unread => {
            let is_stream = is_stream(&io::stdout());
            Ok(if is_stream { ExitCode::SUCCESS } else { exit::after_signal(Signal::HUP.as_raw()) })
        }
    }
}

/// Whether this is a pipe or a socket whose reader is gone, or a terminal that has hung up. A file has no reader.
fn is_unread(output: &impl AsFd) -> bool {
    let mut polled = [PollFd::new(output, PollFlags::empty())];
    poll(&mut polled, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

fn is_stream(output: &impl AsFd) -> bool {
    let metadata = output.as_fd().try_clone_to_owned().and_then(|output| File::from(output).metadata());
    metadata.map(|it| it.file_type()).is_ok_and(|kind| kind.is_fifo() || kind.is_socket())
}

fn write(text: &str) -> Result<bool, Failure> {
    let mut output = anstream::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => {
            Err(Failure::internal(format_args!("zklock cannot write the result to standard output: {error}")))
        }
    }
}

pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let json = serde_json::to_string_pretty(value).map_err(Failure::internal)?;
    print(&escaped(&json))
}

pub(crate) fn json_line(value: &impl Serialize) -> Result<String, Failure> {
    Ok(escaped(&serde_json::to_string(value).map_err(Failure::internal)?))
}

/// JSON with every harmful character escaped. JSON itself allows some of them: DEL, and some beyond ASCII. They can stand
/// only in strings, where an escape changes no value.
fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len() + 1);
    for character in json.chars() {
        if character >= '\u{7f}' && is_harmful(character) {
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
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn pipes_and_sockets_show_that_their_reader_is_gone() {
        let (reader, pipe) = io::pipe().unwrap();
        let (peer, socket) = UnixStream::pair().unwrap();
        assert!(!is_unread(&pipe) && !is_unread(&socket));
        drop((reader, peer));
        assert!(is_unread(&pipe) && is_unread(&socket));
        assert!(!is_unread(&File::open("/dev/null").unwrap()));
        assert!(!is_unread(&tempfile::tempfile().unwrap()));
    }

    #[test]
    fn escaping_changes_no_value() {
        let value = ["\u{1b}[0m\n", "\u{9b}31m\u{7f}", "\u{202e}\u{e0001}", "mu\u{308}ller"];
        let json = escaped(&serde_json::to_string_pretty(&value).unwrap());
        assert!(json.lines().all(|line| !line.chars().any(is_harmful)), "{json}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&json).unwrap(), value);
    }
}
