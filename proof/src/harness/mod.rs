//! What the subcommands have in common: the clock, the processes and what they say, the table, and the ruling.

mod clock;
mod process;
mod ruling;
mod speech;
pub(crate) mod table;

pub(crate) use clock::{Instant, now, shown};
pub(crate) use process::{Ear, Process, Voice, part, this_program};
pub(crate) use ruling::Ruling;
pub(crate) use speech::{listen, say, to_line};
pub(crate) use table::Row;
