//! What several callers follow in one session, so that one of them asks the servers for all.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

use crate::mutex::Mutex;

/// What is followed in a session at present, by its path.
#[derive(Default)]
pub(crate) struct Feeds(Mutex<HashMap<String, Weak<dyn Any + Send + Sync>>>);

impl Feeds {
    /// Returns the feed of this path. If nobody has it, `start` begins it.
    pub(crate) fn join<T: Send + Sync + 'static>(&self, path: &str, start: impl FnOnce() -> T) -> Arc<T> {
        let mut feeds = self.0.lock();
        let present = feeds.get(path).and_then(Weak::upgrade).and_then(|feed| feed.downcast().ok());
        present.unwrap_or_else(|| {
            if feeds.len() == feeds.capacity() {
                feeds.retain(|_, feed| feed.strong_count() > 0);
                let live = feeds.len();
                feeds.reserve(live + 1);
            }
            let feed = Arc::new(start());
            let weak: Weak<T> = Arc::downgrade(&feed);
            feeds.insert(path.to_owned(), weak);
            feed
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feed_is_shared_and_ends_with_its_last_user() {
        let feeds = Feeds::default();
        let one = feeds.join("/a", || 1);
        assert!(Arc::ptr_eq(&one, &feeds.join("/a", || 2)));
        drop(one);
        assert_eq!(*feeds.join("/a", || 3), 3);
        for number in 0..1000 {
            drop(feeds.join(&format!("/{number}"), || number));
        }
        assert!(feeds.0.lock().len() < 100, "those that nobody uses are forgotten");
    }
}
