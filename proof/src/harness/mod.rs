//! What the programs have in common: the clock, the processes and what they say, the judge, the other recipe, and the table.

mod clock;
mod judge;
mod peer;
mod process;
pub(crate) mod register;
mod speech;
pub(crate) mod table;

pub(crate) use clock::Instant;
pub(crate) use judge::overlaps;
pub(crate) use peer::peer_lock;
pub(crate) use process::{Process, Voice, part};
pub(crate) use speech::{listen, orders, say};
pub(crate) use table::Row;
