//! Locks, as their users have them, each in a program of its own that is told what to do.
//!
//! This program plays those that can be had in Rust ([`part`]). `tests/peers` has the others.

mod contestant;
mod contract;
mod part;
mod postgres;
mod program;
mod zklock;
mod zookeeper_client;

pub(crate) use contestant::{Contestant, Service};
pub(crate) use contract::Place;
pub(crate) use part::play;
pub(crate) use program::Program;
