//! What all acquisitions of a lock share: its options, and what they have seen of its directory.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use zklock_recipe::{Kind, PathKind, QueueLayout, QueuePlace, Takeover};
use zookeeper_client::Stat;

use crate::acl::Acl;
use crate::mutex::Mutex;
use crate::path::LockPath;
use crate::telemetry::Name;

/// The longest queue that a contender lists as it enters. A longer queue is counted.
const SHORT_QUEUE: usize = 32;

/// What all acquisitions of a lock share.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) path: LockPath,
    /// The name by which metrics and spans know it.
    pub(crate) label: Name,
    pub(crate) owner: String,
    pub(crate) data: Option<String>,
    /// How many bytes a contender writes to its node at most.
    pub(crate) longest_node: usize,
    pub(crate) acl: Acl,
    pub(crate) ancestors_acl: Acl,
    /// Whether the chroot is created with the directory.
    pub(crate) creates_chroot: bool,
    pub(crate) stop_margin: Duration,
    pub(crate) takeover_delay: Duration,
    pub(crate) max_hold: Option<Duration>,
    /// Whether the process ends if a caller keeps a guard that is lost.
    pub(crate) fail_stop: bool,
    pub(crate) hints: Arc<Hints>,
    pub(crate) kind: PathKind,
    /// The path that has this kind: the directory, or its parent if that has other nodes of the kind as well.
    pub(crate) subject: LockPath,
    /// The path by which the caller knows it.
    pub(crate) name: LockPath,
    /// Reads the place from the name of a node of ours in the directory.
    pub(crate) own_place: fn(QueueLayout, &str) -> Option<QueuePlace>,
    /// A node that transactions of the holder may only check, and what to do instead.
    pub(crate) off_limits: Option<(String, &'static str)>,
}

impl Settings {
    /// Whether the queue is the turnstile of a pool. It protects nothing by itself: transactions of its holder fail without its node.
    pub(crate) fn is_turnstile(&self) -> bool {
        matches!(self.kind, PathKind::Semaphore | PathKind::Slots)
    }

    /// The path by which everybody knows it: the one that an ask names.
    pub(crate) fn subject_path(&self) -> &LockPath {
        // The settings of a pool's permits name the pool, and those of an election's queue have it for a subject.
        if self.is_led() { &self.subject } else { &self.name }
    }

    /// Whether the lock's holder leads an election.
    pub(crate) fn is_led(&self) -> bool {
        self.kind == PathKind::Election
    }

    pub(crate) fn layout(&self) -> QueueLayout {
        self.path.layout()
    }

    /// What a waiter does whose predecessor did not release the lock.
    pub(crate) fn takeover(&self) -> Takeover {
        self.layout().takeover(!self.takeover_delay.is_zero())
    }

    /// The names of the children as they would be in a queue of zklock's own: the machine knows no others.
    pub(crate) fn translated(&self, children: Vec<String>) -> Vec<String> {
        if !self.layout().is_shared() {
            return children;
        }
        let queue = self.layout().queue(&children);
        self.hints.0.lock().names = queue.iter().map(|(place, name)| (*place, (*name).to_owned())).collect();
        queue.iter().map(|(place, _)| place.name()).collect()
    }

    /// The path of a contender's node; `None` if the last listing showed no such contender.
    pub(crate) fn contender(&self, place: QueuePlace) -> Option<String> {
        if !self.layout().is_shared() {
            return Some(self.path.contender(place));
        }
        self.hints.0.lock().names.get(&place).map(|name| self.path.of_child(name))
    }

    /// Remembers what the directory of a queue that is shared shows of its data.
    pub(crate) fn saw_shared_directory(&self, stat: &Stat) {
        let is_blank = stat.data_length == 0;
        if is_blank {
            self.hints.0.lock().blank = stat.version;
        }
        self.hints.saw_directory(is_blank);
    }

    /// The same options for a lock at another path, of which nothing is known yet.
    pub(crate) fn at(&self, path: LockPath) -> Self {
        Self {
            subject: path.clone(),
            name: path.clone(),
            path,
            hints: Arc::default(),
            off_limits: None,
            ..self.clone()
        }
    }
}

/// A queue that an acquisition joins, and the kind of its contender there.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) lock: Arc<Settings>,
    pub(crate) kind: Kind,
}

pub(crate) fn paths<'a>(locks: impl Iterator<Item = &'a Arc<Settings>>) -> String {
    locks.map(|lock| lock.name.as_str()).collect::<Vec<_>>().join(", ")
}

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
        self.0.lock().data = DirectoryData::Somebodys;
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
