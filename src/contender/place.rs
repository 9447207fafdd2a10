//! Finds the place of each waiter of an acquisition, as far as its own requests show it.

use zklock_recipe::acquisition::Input;
use zklock_recipe::{Event, Kind, Own, QueuePlace, Report, Sight};

use crate::settings::{QueueEntry, Settings};

/// What the last look at each contender's queue showed.
pub(super) struct QueuesAhead(Vec<QueueAhead>);

#[derive(Clone)]
enum QueueAhead {
    Unknown,
    Counted(usize),
    Listed(Vec<QueuePlace>),
}

impl QueuesAhead {
    /// The places in these queues; `None` if nobody reads them.
    pub(super) fn read_in(entries: &[QueueEntry]) -> Option<Self> {
        let is_read = entries.iter().any(|entry| entry.lock.options.places.is_some());
        is_read.then(|| Self(vec![QueueAhead::Unknown; entries.len()]))
    }

    /// Remembers what an input shows of the queues.
    pub(super) fn see(&mut self, input: &Input) {
        let listed = |names: &[String]| {
            QueueAhead::Listed(names.iter().filter_map(|name| QueuePlace::parse(name)).collect())
        };
        match input {
            Input::Reply(Report::Entered(nodes), _) => {
                for (queue, (_, sight)) in self.0.iter_mut().zip(nodes) {
                    *queue = match sight {
                        Sight::Children(children) => listed(children),
                        Sight::Count(count) => QueueAhead::Counted(*count),
                        Sight::Free | Sight::Foreign(_) | Sight::Nothing => QueueAhead::Unknown,
                    };
                }
            }
            Input::Reply(
                Report::One(index, Event::Listed(children) | Event::ListedAfterRelease(children)),
                _,
            ) => self.0[*index] = listed(children),
            _ => {}
        }
    }

    /// Tells that our node waits for this predecessor. Numbers only grow, so nobody has come in front since the last look.
    pub(super) fn tell_place(&self, index: usize, lock: &Settings, predecessor: QueuePlace, own: Own) {
        let kind = own.place.kind;
        let waits_for = |it: &&QueuePlace| {
            it.sequence <= predecessor.sequence && (kind == Kind::Exclusive || it.kind == Kind::Exclusive)
        };
        match &self.0[index] {
            QueueAhead::Unknown => {}
            QueueAhead::Counted(count) => lock.tell_place(count.saturating_sub(1), false),
            QueueAhead::Listed(queue) => lock.tell_place(queue.iter().filter(waits_for).count(), true),
        }
    }
}
