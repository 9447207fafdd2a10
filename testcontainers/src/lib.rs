#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), warn(clippy::expect_used, clippy::panic, clippy::unreachable, clippy::unwrap_used))]

mod backend;
mod builder;
mod config;
mod ensemble;
mod error;
mod image;
mod in_process;
mod link;
mod listener;
mod mesh;
mod node;
mod platform;
mod ports;
mod server;
mod session;
mod snapshot;
mod zookeeper;

/// The crate that runs [`ZooKeeperImage`], in the version for which that is an image.
pub use testcontainers;

pub use backend::Backend;
pub use builder::{EnsembleBuilder, ZooKeeperBuilder};
pub use ensemble::Ensemble;
pub use error::Error;
pub use image::ZooKeeperImage;
pub use in_process::InProcess;
pub use link::{Counts, Held, Link, LostReply, RequestKind};
pub use snapshot::Snapshot;
pub use zookeeper::ZooKeeper;
