//! What acquiring the lock and running the command need.

use zklock::Session;

use crate::args::Run;
use crate::console::Console;
use crate::signals::Signals;
use crate::warden::Descendants;

/// What acquiring the lock and running the command need, from the start of the program to its end.
pub(super) struct Context<'a> {
    pub(super) run: &'a Run,
    pub(super) descendants: &'a Descendants,
    pub(super) session: &'a Session,
    pub(super) signals: &'a mut Signals,
    pub(super) console: Console,
}
