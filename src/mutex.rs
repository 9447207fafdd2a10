//! A mutex without poison.

use std::sync::{MutexGuard, PoisonError};

/// A mutex that can be locked after a panic under it. Only what zklock polls under a mutex may panic there: a request or a
/// caller's future.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
