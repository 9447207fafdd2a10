//! What the programs have in common: the clock, the processes and what they say, the register, and the table.

mod clock;
mod process;
pub(crate) mod register;
mod speech;
pub(crate) mod table;

pub(crate) use clock::{Instant, now, shown};
pub(crate) use process::{Process, Voice, part};
pub(crate) use speech::{listen, orders, say};
pub(crate) use table::Row;
