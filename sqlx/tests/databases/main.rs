//! Fences in real databases.

mod examples;
mod lock;
mod place;
mod postgres;
mod rows;
mod schedule;
