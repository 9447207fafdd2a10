//! What all acquisitions of a lock share: its queue, its options, and what they have seen of its directory.

mod hints;
mod options;
mod place;
mod queue;

use std::sync::Arc;

use zklock_recipe::{Kind, QueuePlace, Takeover};

pub(crate) use hints::Hints;
pub(crate) use options::CheckedOptions;
pub use place::Place;
pub(crate) use place::Places;
pub(crate) use queue::Queue;

use crate::path::LockPath;

/// What all acquisitions of a lock share.
pub(crate) struct Settings {
    pub(crate) queue: Queue,
    pub(crate) options: CheckedOptions,
    pub(crate) hints: Hints,
}

impl Settings {
    /// Makes the settings of a queue that nobody has looked at yet.
    pub(crate) fn new(queue: Queue, options: CheckedOptions) -> Self {
        Self { queue, options, hints: Hints::default() }
    }

    /// What a waiter does whose predecessor did not release the lock.
    pub(crate) fn takeover(&self) -> Takeover {
        self.queue.layout().takeover(!self.options.takeover_delay.is_zero())
    }

    /// The names of the children as they would be in a queue of zklock's own: the machine knows no others.
    pub(crate) fn translated(&self, children: Vec<String>) -> Vec<String> {
        let layout = self.queue.layout();
        if !layout.is_shared() {
            return children;
        }
        let queue = layout.queue(&children);
        self.hints.saw_names(&queue);
        queue.iter().map(|(place, _)| place.name()).collect()
    }

    /// The path of a contender's node; `None` if the last listing showed no such contender.
    pub(crate) fn contender(&self, place: QueuePlace) -> Option<String> {
        let path = &self.queue.path;
        if !self.queue.layout().is_shared() {
            return Some(path.contender(place));
        }
        self.hints.name_of(place).map(|name| path.of_child(&name))
    }

    /// Writes to the caller's channel, if there is one, how many are in front. The caller's work may be locked then: the wakers of
    /// the channel schedule its readers, and do no more.
    pub(crate) fn tell_place(&self, ahead: usize, is_listed: bool) {
        if let Some(places) = &self.options.places {
            // An election and a pool are known by their own paths, and their queues are below.
            let place = Some(Place { path: self.queue.subject().to_string(), ahead, is_listed });
            places.send_if_modified(|last| {
                let is_news = *last != place;
                *last = place;
                is_news
            });
        }
    }

    /// Writes to the caller's channel, if there is one, that nobody is in front, as far as this is known.
    pub(crate) fn clear_place(&self) {
        if let Some(places) = &self.options.places {
            places.send_if_modified(|last| last.take().is_some());
        }
    }

    /// The same options for the lock of a key. The tasks that wait for it have one contender together, so no place is theirs.
    pub(crate) fn of_key(&self, path: LockPath) -> Self {
        Self::new(Queue::of_lock(path), CheckedOptions { places: None, ..self.options.clone() })
    }
}

/// A queue that an acquisition joins, and the kind of its contender there.
#[derive(Clone)]
pub(crate) struct QueueEntry {
    pub(crate) lock: Arc<Settings>,
    pub(crate) kind: Kind,
}

/// The paths of these locks, for messages.
pub(crate) fn paths<'a>(locks: impl Iterator<Item = &'a Arc<Settings>>) -> String {
    locks.map(|lock| lock.queue.name().as_str()).collect::<Vec<_>>().join(", ")
}
