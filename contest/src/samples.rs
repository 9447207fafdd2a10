//! What tests of the checker build histories of.

pub use zklock::FencingToken;

pub use crate::checker::Verdict;
pub use crate::checker::Wrong::{self, *};
pub use crate::clock::Instant;
pub use crate::history::{Asks, Attempt, Effect, End, Entries, Fault, History, Hold, MAX_HOLD};
pub use crate::member::Member;
pub use crate::record::{How, Seen, Who};
pub use crate::register::{Ledger, Look, Write};
pub use crate::request::Claim;

pub const ONE: Who = Who { client: 1, task: 1 };
pub const TWO: Who = Who { client: 2, task: 1 };
pub const THREE: Who = Who { client: 3, task: 1 };
