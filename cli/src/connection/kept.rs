//! What was read from files that somebody may renew while the program runs.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use crate::failure::Failure;

/// What was read last. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept<T>(Arc<Mutex<Option<T>>>);

impl<T: Clone> Kept<T> {
    /// Reads these files again. While they cannot be used, what was read before counts: a certificate may be renewed before its
    /// key is. A pipe can be read only once.
    pub(super) fn read_again<const N: usize>(
        &self,
        files: [&Option<PathBuf>; N],
        read: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(former) = &*kept
            && !files.into_iter().flatten().all(|file| file.is_file())
        {
            return Ok(former.clone());
        }
        match read() {
            Ok(present) => Ok(kept.insert(present).clone()),
            Err(failure) => kept.clone().ok_or(failure),
        }
    }
}
