//! This program, started again under another name.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The name that `ps` shows for the warden.
pub(super) const WARDEN: &str = "zklock-warden";

/// The name that `ps` shows for the launcher.
pub(super) const LAUNCHER: &str = "zklock-launch";

/// The first argument of the warden and of the launcher.
///
/// `/proc/self/exe` is another program if a dynamic loader was told to run this one. The loader takes this argument for an
/// option that it does not have, and fails. Without it, the loader would run the command with no warden.
pub(super) const MARK: &str = "--zklock-part";

/// This very program under another name, even if its file was replaced since the start.
pub(super) fn this_program(name: &str) -> Command {
    let mut program = Command::new("/proc/self/exe");
    program.arg0(name).arg(MARK);
    program
}

/// The warden of this command. It has a process group of its own, so that no key of the terminal reaches it.
pub(crate) fn warden_of(command: &[OsString]) -> Command {
    let mut warden = this_program(WARDEN);
    warden.args(command).process_group(0);
    warden
}
