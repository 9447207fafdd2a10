//! One ensemble for all models: ZooKeeper, as far as they need it, and how every way through it is explored.

pub(crate) mod ensemble;
pub(crate) mod exploration;
pub(crate) mod present;
pub(crate) mod tree;
