//! Real ZooKeeper servers for tests.

mod backend;
mod builder;
mod config;
mod ensemble;
mod error;
mod link;
mod listener;
mod mesh;
mod ports;
mod server;
mod zookeeper;

pub use backend::Backend;
pub use builder::{EnsembleBuilder, ZooKeeperBuilder};
pub use ensemble::Ensemble;
pub use error::Error;
pub use link::{Counts, HeldReply, HeldRequest, Link, LostReply, RequestKind};
pub use zookeeper::ZooKeeper;
