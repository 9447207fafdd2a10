//! The launcher: it becomes the command, after it has made sure that it dies with its warden.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
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

/// What the kernel's error does not say of a program.
fn hint_of(program: &OsStr, error: &io::Error) -> &'static str {
    let path = Path::new(program);
    // The directories of PATH are searched for a name without a directory.
    let is_path = path.components().count() > 1;
    match error.kind() {
        io::ErrorKind::NotFound if program.as_encoded_bytes().contains(&b' ') && !path.exists() => {
            "; CMD and each of its arguments are words of their own, so do not quote all of them as one; for a line of a \
             shell write sh -c 'LINE'"
        }
        io::ErrorKind::NotFound if is_path && path.exists() || !is_path && is_in_path(path) => {
            "; the interpreter that its first line names is missing"
        }
        io::ErrorKind::NotFound if !is_path => "; no directory of PATH has it",
        io::ErrorKind::PermissionDenied if is_path && path.is_dir() => "; it is a directory; name a program",
        io::ErrorKind::PermissionDenied if is_path && path.is_file() => {
            "; it may lack the permission to be executed: chmod +x"
        }
        _ => "",
    }
}

/// Whether a directory of PATH has a file of this name.
fn is_in_path(name: &Path) -> bool {
    let paths = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&paths).any(|directory| directory.join(name).is_file())
}

pub(super) fn launch_command(arguments: Vec<OsString>) -> ExitCode {
    let console = Console::Normal;
    let mut arguments = arguments.into_iter();
    let (Some(warden), Some(ground), Some(program)) = (arguments.next(), arguments.next(), arguments.next())
    else {
        return Code::Internal.into();
    };
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        console.error(format_args!(
            "zklock cannot arrange that CMD ends if its warden ends, so CMD was not started: {error}"
        ));
        return Code::Internal.into();
    }
    // The kernel says nothing of a warden that died before.
    if getppid().map(|parent| OsString::from(parent.as_raw_pid().to_string())) != Some(warden) {
        return Code::Internal.into();
    }
    if ground == FOREGROUND
        && let Some(terminal) = Terminal::open()
    {
        terminal.take_for_us();
    }
    // The command starts with nothing blocked.
    let _as_it_is = SigSet::empty().thread_set_mask();
    let error = Command::new(&program).args(arguments).exec();
    let _or_it_may_be_stopped = signals::unblock_signals();
    console.error(format_args!("{}: {error}{}", program.display(), hint_of(&program, &error)));
    match error.kind() {
        io::ErrorKind::NotFound => Code::NotFound.into(),
        _ => Code::NotExecutable.into(),
    }
}
