//! The launcher: it becomes the command, after it has made sure that it dies with its warden.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use nix::sys::signal::SigSet;
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

use super::part::{LAUNCHER, this_program};
use crate::console::Console;
use crate::exit::Code;
use crate::signals;
use crate::terminal::Terminal;

/// The argument that says whether the command has the terminal.
const FOREGROUND: &str = "foreground";
const BACKGROUND: &str = "background";

/// The launcher of this command. The process that calls this is its warden.
pub(super) fn launcher_of(command: &[OsString], foreground: bool) -> Command {
    let mut launcher = this_program(LAUNCHER);
    launcher.arg(getpid().as_raw_pid().to_string());
    launcher.arg(if foreground { FOREGROUND } else { BACKGROUND });
    launcher.args(command).process_group(0);
    launcher
}

pub(super) fn launch(arguments: Vec<OsString>) -> ExitCode {
    let console = Console::Normal;
    let mut arguments = arguments.into_iter();
    let (Some(warden), Some(ground), Some(program)) = (arguments.next(), arguments.next(), arguments.next())
    else {
        return Code::Internal.into();
    };
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        console.error(format_args!("the command would not die with its warden: {error}"));
        return Code::Internal.into();
    }
    // The kernel says nothing of a warden that died before.
    if getppid().map(|parent| OsString::from(parent.as_raw_pid().to_string())) != Some(warden) {
        return Code::Internal.into();
    }
    if ground == FOREGROUND
        && let Some(terminal) = Terminal::open()
    {
        terminal.take();
    }
    // The command starts with nothing blocked.
    let _as_it_is = SigSet::empty().thread_set_mask();
    let error = Command::new(&program).args(arguments).exec();
    let _or_it_may_be_stopped = signals::unblock();
    console.error(format_args!("{}: {error}", program.display()));
    match error.kind() {
        io::ErrorKind::NotFound => Code::NotFound.into(),
        _ => Code::NotExecutable.into(),
    }
}
