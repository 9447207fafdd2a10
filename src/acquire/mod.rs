//! What each member of the family is acquired by, and asked about: options, the acquisition up to its guard, questions to ZooKeeper,
//! and contenders as the answers show them.

pub(crate) mod acquirer;
pub(crate) mod contender;
pub(crate) mod options;
pub(crate) mod query;
