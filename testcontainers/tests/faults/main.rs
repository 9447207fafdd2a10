//! Servers, ensembles and links, and the faults that they have.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod common;
mod data_file;
mod ensemble;
mod gone;
mod image;
mod in_process;
mod link;
mod server;
