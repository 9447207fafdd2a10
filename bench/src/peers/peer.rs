//! Who is measured.

const SEVERAL: usize = 3;

pub(super) const PERMITS: u32 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    Zklock,
    /// zklock's `Session::lock_all`, with [`SEVERAL`] locks.
    ZklockSeveral,
    ZklockReaders,
    ZklockKeys,
    ZklockPermits,
    /// Permits of Curator's `InterProcessSemaphoreV2`, in a program of its own.
    CuratorPermits,
    /// zookeeper-client's own recipe, `Client::lock`.
    ZookeeperClient,
    /// A bare create and a bare delete: no lock, but what one cannot be faster than.
    Raw,
    /// Bare watches of the first node: no lock, but what readers cannot be faster than.
    Watchers,
    RedisPolling,
    Redisson,
    Postgres,
}

impl Peer {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Zklock => "zklock",
            Self::ZklockSeveral => "zklock/3-locks",
            Self::ZklockReaders => "zklock/readers",
            Self::ZklockKeys => "zklock-keys",
            Self::ZklockPermits => "zklock-permits",
            Self::CuratorPermits => "curator-permits",
            Self::ZookeeperClient => "zookeeper-client",
            Self::Raw => "raw",
            Self::Watchers => "raw/watchers",
            Self::RedisPolling => "redis-polling",
            Self::Redisson => "redisson",
            Self::Postgres => "postgres",
        }
    }

    /// The directories of its locks, if its first one is in `directory`.
    pub(crate) fn directories(self, directory: &str) -> Vec<String> {
        match self {
            Self::ZklockPermits => ["queue", "permits"].map(|name| format!("{directory}/{name}")).into(),
            Self::CuratorPermits => ["locks", "leases"].map(|name| format!("{directory}/{name}")).into(),
            Self::ZklockSeveral => {
                let others = (1..SEVERAL).map(|number| format!("{directory}-{number}"));
                std::iter::once(directory.to_owned()).chain(others).collect()
            }
            _ => vec![directory.to_owned()],
        }
    }
}
