//! What the programs have in common: the clock, the processes and what they say, and the table.

mod clock;
mod process;
mod speech;
pub(crate) mod table;

pub(crate) use clock::{Instant, now, shown};
pub(crate) use process::{Process, Voice, part};
pub(crate) use speech::{listen, orders, say, to_line};
pub(crate) use table::Row;
