//! Audits flight records: were two guards of a lock ever valid at once?

mod clocks;
mod ensembles;
mod judge;
mod numbers;
mod order;
mod pairs;
mod picture;
mod read;
mod reader;
mod replay;
mod report;
mod tale;
#[cfg(test)]
mod tests;
mod waits;
mod window;

pub use judge::{Options, audit};
pub use picture::picture;
pub use read::{Process, Records, Unread};
pub use replay::{Filter, Replayed, replay};
pub use report::{Audit, Covered, HoldAudit, Margin, Pair, PathAudit, Seen, Verdict, Wait};
