//! The standard library's keys of hashing, in the place of ahash's. Ahash makes its keys of addresses; the standard
//! library asks `getrandom`, which the simulation seeds.

pub use std::hash::RandomState;
