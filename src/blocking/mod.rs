//! The family for programs that are not async: each call blocks its thread until it is done.
//!
//! ```no_run
//! # fn migrate(token: zklock::FencingToken) {}
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let session = zklock::blocking::Session::connect("zk1:2181,zk2:2181,zk3:2181")?;
//!     let guard = session.lock("/lock/migration")?.acquire()?;
//!     migrate(guard.token());
//!     Ok(guard.release()?) // a guard that is dropped is released as well, also by an early `?`
//! } // the session is closed here, so that the next contender has the lock at once
//! ```
//!
//! A session has a thread of its own, which sends its heartbeats. So a caller may sleep, compute and call other libraries for as
//! long as it likes, and keeps what it holds. Ask the guard between two steps: [`check`](crate::Guard::check) and
//! [`remaining`](crate::Guard::remaining) send nothing. [`Held::on_lost`] calls a function of yours once the guard is lost, and
//! [`LockOptions::fail_stop`](crate::LockOptions::fail_stop) ends the process then.
//!
//! Each type derefs to the one of the same name in the crate's root. The functions there that are not async are called as they are.
//! Async functions without a namesake here take [`wait`]: `wait(guard.verify())`, `wait(session.once("/lock/mail")?.claim("today"))`.
//!
//! The last handle of a session that is dropped closes the session, and waits for that as long as
//! [`Session::close`](crate::Session::close) does. A program that ends by [`exit`](std::process::exit) or by a signal drops nothing, and
//! leaves its locks for up to 13 s by default. In a task of an async runtime, each of these calls blocks the task's thread.

mod handles;
mod owner;

pub use handles::{
    Blocking, Election, Guard, Held, Leadership, Lock, Locks, MultiGuard, MultiLock, Permit, ReadGuard,
    RwLock, Semaphore, Session, Slot, Slots,
};
pub use owner::wait;
