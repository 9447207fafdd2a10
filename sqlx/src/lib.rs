#![doc = include_str!("../README.md")]

mod database;
mod error;
mod fence;
mod holder;
mod marks;
mod transaction;

pub use database::{FenceDatabase, migrate};
pub use error::FenceError;
pub use fence::Fence;
pub use holder::{Holder, OneLock};
pub use transaction::FencedTransaction;
