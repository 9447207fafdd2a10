//! Who is told first: the holder that it has lost the lock, or the next contender that it has got it.
//!
//! Each test lets servers, connections or processes fail under a holder, on a real ensemble of three, and fails if ever
//! two guards are valid. It repeats its scenario `ZKLOCK_STRICT_REPETITIONS` times (once unless set) and prints the
//! margins as a row of a table; `make strict` assembles `docs/STRICTNESS.md`'s.

#[path = "../support/mod.rs"]
mod support;

mod contest;
mod cut_off_client;
mod cut_off_server;
mod differing_servers;
mod holder;
mod late_create;
mod leader_death;
mod operator;
mod paused_server;
mod peer;
mod report;
mod rolling_restart;
mod stalled_server;
mod stopped_process;
