//! The things that both the wait for the lock and the run of the command need.

use std::cell::Cell;
use std::fmt::Display;

use zklock::Session;

use super::kin::Kin;
use crate::args::Terms;
use crate::connection::Connection;
use crate::console::Console;
use crate::signals::Signals;
use crate::systemd::Systemd;
use crate::warden::Descendants;

pub(super) struct Context<'a> {
    pub(super) terms: &'a Terms,
    pub(super) descendants: &'a Descendants,
    pub(super) session: &'a Session,
    pub(super) connection: &'a Connection,
    pub(super) kin: &'a Kin,
    pub(super) signals: &'a mut Signals,
    pub(super) systemd: &'a Systemd,
    pub(super) console: Console,
    /// Whether a line has said that zklock waits.
    pub(super) says_that_it_waits: Cell<bool>,
}

impl Context<'_> {
    pub(super) fn say_that_it_waits(&self, message: impl Display) {
        self.console.note(message);
        self.says_that_it_waits.set(true);
    }
}
