//! What belongs to a key, for as long as somebody uses it.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use crate::mutex::Mutex;

/// The values of the keys that are in use. A value tells when it goes, by [`forget`](Self::forget).
pub(super) struct InUse<T>(Mutex<HashMap<String, Weak<T>>>);

impl<T> InUse<T> {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::default()))
    }

    /// The value of a key. If nobody uses one, it is made.
    pub(super) fn of(&self, key: &str, make: impl FnOnce() -> Arc<T>) -> Arc<T> {
        let mut values = self.0.lock();
        if let Some(value) = values.get(key).and_then(Weak::upgrade) {
            return value;
        }
        let value = make();
        values.insert(key.to_owned(), Arc::downgrade(&value));
        value
    }

    /// Forgets the value of a key that nobody uses any more, unless there is another one by now.
    pub(super) fn forget(&self, key: &str) {
        let mut values = self.0.lock();
        if values.get(key).is_some_and(|value| value.strong_count() == 0) {
            values.remove(key);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }
}
