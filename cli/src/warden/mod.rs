//! The warden: a process between `zklock run` and the command, which ends the command in time whatever becomes of the
//! process that holds the lock.
//!
//! ```text
//!   zklock run ---orders---> zklock-warden ---signals---> the command, and all it started
//!      ^                        |   ^                              |
//!      +--------reports---------+   +----------SIGCHLD-------------+
//! ```
//!
//! The holder tells the warden until when the lease lasts, and when to stop. The warden keeps to the following:
//!
//! 1. *No later than a [`RESERVE`] before the end of the lease that it knows of, everything gets SIGKILL*, by
//!    the clock since boot: also if the holder is stopped, or busy, or the machine was suspended.
//! 2. *If the holder is gone, everything gets SIGKILL at once.* The kernel would do that for the command alone, and not for
//!    what the command started.
//! 3. *It ends after everything is gone*, and that is what the holder waits for before it gives the lock away. It is the
//!    [subreaper](https://man7.org/linux/man-pages/man2/PR_SET_CHILD_SUBREAPER.2const.html) of all that the command starts, so
//!    that no process gets away by leaving the process group.
//!
//! If the warden itself is killed, the kernel kills the command (`PR_SET_PDEATHSIG`), and the holder whatever is left.

mod descendants;
mod family;
mod keeper;
mod ladder;
mod launcher;
mod part;
pub(crate) mod protocol;

use std::process::ExitCode;

use rustix::thread::set_name;

use crate::signals;

pub(crate) use descendants::{Descendants, STUCK};
pub(crate) use ladder::RESERVE;
pub(crate) use part::warden_of;
use part::{LAUNCHER, MARK, WARDEN};

/// A part of this program other than the one its users start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Keeps the command.
    Warden,
    /// Becomes the command.
    Launcher,
}

/// The part this process was started for, if it is not the one that users start.
pub(crate) fn role() -> Option<Role> {
    let mut arguments = std::env::args_os();
    let (name, mark) = (arguments.next()?, arguments.next()?);
    [(WARDEN, Role::Warden), (LAUNCHER, Role::Launcher)]
        .into_iter()
        .find_map(|(known, role)| (name == known && mark == MARK).then_some(role))
}

impl Role {
    pub(crate) fn play(self) -> ExitCode {
        // As `top` has it. `pkill -9 zklock` is not to end the holder and the warden of its command in the same instant.
        let _as_it_is = set_name(c"zk-warden");
        let _or_it_may_be_stopped = signals::unblock();
        let arguments = std::env::args_os().skip(2).collect::<Vec<_>>();
        match self {
            Self::Warden => keeper::keep(&arguments),
            Self::Launcher => launcher::launch(arguments),
        }
    }
}
