//! What the acquisitions of a queue last saw of its directory.

use std::collections::HashMap;

use zklock_recipe::QueuePlace;
use zookeeper_client::Stat;

use crate::mutex::Mutex;

/// The longest queue that a contender lists as it enters. A longer queue is counted.
const SHORT_QUEUE: usize = 32;

/// What the acquisitions of a lock last saw of its directory. A wrong hint costs a request.
#[derive(Debug, Default)]
pub(crate) struct Hints(Mutex<SeenDirectory>);

#[derive(Debug, Default)]
struct SeenDirectory {
    /// How many children the directory had, if anybody has looked.
    children: Option<usize>,
    data: DirectoryData,
    /// The version in which the directory of a queue that is shared last had no data. Other clients, and the service itself, may
    /// write there at any time.
    blank: i32,
    /// Whether the path above was seen to be of no other kind, while a contender of ours was in the directory.
    fits: bool,
    /// The names of the contenders in a queue that is shared: the other client's are not given by their places.
    names: HashMap<QueuePlace, String>,
}

/// What is known of a directory's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum DirectoryData {
    #[default]
    Unknown,
    /// The directory has no data, so that writing none to it changes nothing.
    None,
    /// The directory has somebody's data, or its ACL forbids writing.
    Somebodys,
}

impl Hints {
    /// Remembers the names that a listing shows in a queue that is shared.
    pub(super) fn saw_names(&self, queue: &[(QueuePlace, &str)]) {
        self.0.lock().names = queue.iter().map(|(place, name)| (*place, (*name).to_owned())).collect();
    }

    /// The name of a contender in a queue that is shared, if the last listing showed it.
    pub(super) fn name_of(&self, place: QueuePlace) -> Option<String> {
        self.0.lock().names.get(&place).cloned()
    }

    /// Remembers what the directory of a queue that is shared shows of its data.
    pub(crate) fn saw_shared_directory(&self, stat: &Stat) {
        let is_blank = stat.data_length == 0;
        if is_blank {
            self.0.lock().blank = stat.version;
        }
        self.saw_directory(is_blank);
    }

    pub(crate) fn saw_children(&self, count: usize) {
        self.0.lock().children = Some(count);
    }

    /// Remembers whether the directory had no data. A directory that had somebody's data once keeps that hint.
    pub(crate) fn saw_directory(&self, blank: bool) {
        let mut seen = self.0.lock();
        if !blank {
            seen.data = DirectoryData::Somebodys;
        } else if seen.data == DirectoryData::Unknown {
            seen.data = DirectoryData::None;
        }
    }

    /// Whether the directory's data is not known yet.
    pub(crate) fn is_unknown(&self) -> bool {
        self.0.lock().data == DirectoryData::Unknown
    }

    /// Whether writing nothing to the directory certainly changes nothing.
    pub(crate) fn may_write_directory(&self) -> bool {
        self.0.lock().data == DirectoryData::None
    }

    /// The version in which the directory of a queue that is shared has no data, as far as this is known: writing none to that one
    /// changes nothing.
    pub(crate) fn blank_version(&self) -> Option<i32> {
        let seen = self.0.lock();
        (seen.data == DirectoryData::None).then_some(seen.blank)
    }

    /// Remembers that the directory's data is somebody's, or that its ACL forbids writing.
    pub(crate) fn must_not_write_directory(&self) {
        self.saw_directory(false);
    }

    /// Whether the path above is of no other kind, as far as this is known.
    pub(crate) fn fits(&self) -> bool {
        self.0.lock().fits
    }

    /// Remembers whether the path above was seen to be of no other kind.
    pub(crate) fn saw_fit(&self, fits: bool) {
        self.0.lock().fits = fits;
    }

    /// Whether the queue was short. A queue that was never seen counts as long.
    pub(crate) fn is_short(&self) -> bool {
        self.0.lock().children.is_some_and(|count| count <= SHORT_QUEUE)
    }
}
