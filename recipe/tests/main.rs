//! Models: every order in which a few clients, their servers and an operator can act, with the production machines of this crate
//! in the middle. Each stands on the ensemble of `world/`, the stage's on a queue of its own.

mod election;
mod model;
mod once;
mod permits;
mod stage;
mod world;
