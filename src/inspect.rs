//! What operators and dashboards ask: who holds, who waits, and what is below a node.

pub use crate::contender::{Place, places};
pub use crate::lock::contender::{Contender, ForeignContender};
pub use crate::observe::{Latest, Observer, WentBack};
pub use crate::session::locks::{Cut, HeldLock, HeldPool, LocksBelow};
pub use zklock_recipe::{ForeignClient, Kind, PathKind};
