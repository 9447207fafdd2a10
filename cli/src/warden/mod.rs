//! The warden: a process between `zklock run` and the command. It ends the command in time, whatever becomes of the process
//! that holds the lock (the holder).
//!
//! ```text
//!   zklock run ---orders---> zklock-warden ---signals---> the command, and all it started
//!      ^                        |   ^                              |
//!      +--------reports---------+   +----------SIGCHLD-------------+
//! ```
//!
//! The holder tells the warden when the lease ends, and when to stop the command. The warden keeps three rules:
//!
//! 1. *Every process gets SIGKILL no later than a [`RESERVE`] before the end of the lease, as far as the warden knows the
//!    end.* The warden goes by a clock that nobody slews and no suspension stops, so it does this even if the holder is stopped or
//!    busy, or the machine was suspended.
//! 2. *If the holder is gone, every process gets SIGKILL at once.* The kernel alone would kill the command, but not the
//!    processes that the command started.
//! 3. *The warden ends after every process is gone.* The holder waits for that before it releases the lock. The warden is the
//!    [subreaper](https://man7.org/linux/man-pages/man2/PR_SET_CHILD_SUBREAPER.2const.html) of every process that descends from
//!    the command, so no process gets away by leaving the process group.
//!
//! If the warden itself is killed, the kernel kills the command (`PR_SET_PDEATHSIG`), and the holder kills the rest.

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

/// Plays the part this process was started for, if it is not the one that users start: it keeps the command, or becomes it.
pub(crate) fn play_part() -> Option<ExitCode> {
    let mut arguments = std::env::args_os();
    let name = arguments.next()?;
    let mark = arguments.next()?;
    let parts: [(_, fn(_) -> _); 2] = [(WARDEN, keeper::keep_command), (LAUNCHER, launcher::launch_command)];
    let (_, part) = parts.into_iter().find(|(known, _)| name == *known && mark == MARK)?;
    // The name that `top` shows. `pkill -9 zklock` must not end the holder and the warden in the same instant.
    let _as_it_is = set_name(c"zk-warden");
    let _or_it_may_be_stopped = signals::unblock_signals();
    Some(part(arguments.collect::<Vec<_>>()))
}
