//! Records that are written by hand, and what an audit makes of them.

mod ensembles;
mod holds;
mod numbers;
mod scene;
mod window;
