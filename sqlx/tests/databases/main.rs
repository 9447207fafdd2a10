//! Fences in real databases.

mod lock;
mod place;
mod postgres;
mod rows;
mod schedule;
