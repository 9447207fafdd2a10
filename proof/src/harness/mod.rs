//! What the programs have in common: the clock, the processes and what they say, the table, and the ruling.

mod clock;
mod process;
mod ruling;
mod speech;
pub(crate) mod table;

pub(crate) use clock::{Instant, now, shown};
pub(crate) use process::{Process, Voice, part};
pub(crate) use ruling::Ruling;
pub(crate) use speech::{listen, orders, say, to_line};
pub(crate) use table::Row;
