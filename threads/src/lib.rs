//! The library as it ships, with the mutexes, atomics and threads of shuttle.
#![cfg(test)]
#![allow(warnings, clippy::all)] // of the library's text, which its own crate checks

mod tests;
mod world;

include!(concat!(env!("OUT_DIR"), "/lib.rs"));
