//! The things that both the wait for the lock and the run of the command need.

use std::cell::Cell;
use std::fmt::Display;

use tokio::sync::watch;
use zklock::Session;
use zklock::inspect::Place;

use super::kin::Kin;
use crate::args::{OnLost, Terms};
use crate::connection::Connection;
use crate::console::Console;
use crate::systemd::Systemd;
use crate::warden::Descendants;

pub(super) struct Context<'a> {
    pub(super) terms: &'a Terms,
    pub(super) descendants: &'a Descendants,
    pub(super) session: &'a Session,
    pub(super) connection: &'a Connection,
    pub(super) kin: &'a Kin,
    pub(super) systemd: &'a Systemd,
    pub(super) console: Console,
    pub(super) says_that_it_waits: Cell<bool>,
    /// The place of the contender in its queue, as far as it is known.
    pub(super) place: watch::Sender<Option<Place>>,
}

impl Context<'_> {
    pub(super) fn say_that_it_waits(&self, message: impl Display) {
        self.console.note(message);
        self.says_that_it_waits.set(true);
    }

    pub(super) fn warn_that_it_waits(&self, problem: impl Display) {
        self.console.warn(problem);
        self.says_that_it_waits.set(true);
    }

    /// Whether the contender has entered its queue, behind others.
    pub(super) fn has_place(&self) -> bool {
        self.place.borrow().is_some()
    }

    /// Says that the lock is lost. A loss is an error of the program, unless it restarts the command.
    pub(super) fn tell_loss(&self, message: impl Display) {
        if self.terms.restart { self.console.warn(message) } else { self.console.error(message) }
    }

    pub(super) fn may_outlive_lock(&self) -> bool {
        self.terms.on_lost == OnLost::IgnoreAndWarn
    }
}
