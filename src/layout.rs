//! The [`Layout`] of a lock's queue: which client's contenders are in it.

use std::fmt;

use zklock_recipe as recipe;

/// Whose contenders are in a lock's queue, and so whose names zklock's have there. See
/// [`LockOptions::layout`](crate::LockOptions::layout).
///
/// With a layout other than [`Zklock`](Self::Zklock), a [`Lock`](crate::Lock) contends with another client's mutexes at the same path:
/// all are served in the order in which they came. Every contender of the other client waits for zklock's, and zklock's wait for theirs.
/// Read-write locks, elections, semaphores, slots and runs share no queue, nor do several locks at once.
///
/// # Who is protected from whom
///
/// * *The others from zklock:* a zklock guard is lost before its node is gone. So no contender of the other client that comes to
///   its turn is granted the lock beside it.
/// * *zklock from the others:* by the [takeover delay](crate::LockOptions::takeover_delay). The other clients have no lease. If a
///   holder of theirs is cut off from ZooKeeper, its node goes, and it learns of that some time later. zklock waits for the
///   delay after a node of theirs is gone. You choose how long: as long as a holder of theirs may go on after its node is gone.
///   Give the delay to every zklock contender at the path: each waits for its own, and after one with a shorter delay the next one
///   takes over at once. On servers with the default `syncLimit` and tick, this is 10 s if the holder stops at `SUSPENDED`. If
///   it stops at `LOST`, it is a session timeout more with Curator, and without a limit with kazoo, which reports `LOST`
///   only once a server says so.
///
/// # What it costs
///
/// ZooKeeper does not tell a release of theirs from a session that expired. So zklock waits for the delay after each contender of
/// theirs in front of it, and also if it finds nobody and nothing shows that a zklock holder released the lock last. A handover
/// between two contenders of zklock's mostly takes no delay. It takes the delay if another contender came or left in the
/// moment between the release and the look, and if the directory has other children. With `Duration::ZERO` there is no delay: then a
/// holder of theirs that is cut off may act beside a zklock guard.
///
/// [`try_acquire`](crate::Lock::try_acquire) does not wait for the delay: it returns `None` then, and leaves no trace of a release.
/// So calls that only try may return `None` for as long as nobody waits out the delay by [`acquire`](crate::Lock::acquire). The same
/// holds for a timeout that is shorter than the delay. zklock does not remember since when it has seen a queue free. Each contender
/// that comes and goes changes what the directory shows of its last holder, and so does each call that tries. Let one caller wait for
/// longer than the delay.
///
/// An acquisition lists the queue, and a release takes one write more than in zklock's own queue. If zklock makes the directory, it
/// is a persistent node, which ZooKeeper does not remove. Curator makes a container.
///
/// The directory may have data of yours, such as a service's path has. zklock's releases leave no trace there then, so the next
/// contender waits for the delay.
///
/// # Limits
///
/// * A revocation, as Curator's `Revoker` sends it, takes the lock from a zklock guard at once: the guard is lost. A waiter that
///   was asked learns of it when it would be granted, or when it next looks at the queue. Then it joins the queue again, at the end. A
///   write in the moment of the grant takes the lock from the guard a round trip later.
/// * The others create, read and delete nodes in the directory, and read zklock's nodes. So the
///   [ACL](crate::LockOptions::acl) must let them: otherwise their acquisitions fail, or their nodes stay until their sessions end.
///   If theirs hide their nodes, zklock's acquisitions fail.
/// * Curator's clients since 5.8 that are built with `enableCompression()` decompress all that they read
///   ([CURATOR-725](https://issues.apache.org/jira/browse/CURATOR-725)). zklock's nodes are not compressed, so reading them throws: the
///   mutex cannot wait behind zklock. Turn compression off for these clients.
/// * zklock refuses a queue in which a contender of another recipe is: of Curator's read-write lock or `LeaderLatch`, or a `ReadLock` of
///   kazoo's. kazoo's `WriteLock` has the names of its `Lock`, so zklock honours it, and it waits for zklock.
/// * zklock refuses numbers near the end (2³¹), where the clients disagree about the order.
/// * All zklock contenders at a path have one layout. Contenders with another one refuse each other
///   ([`AcquireError::ForeignContender`](crate::AcquireError::ForeignContender)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Layout {
    /// zklock's own contenders alone.
    #[default]
    Zklock,
    /// Curator's `InterProcessMutex`, also that of a `LeaderSelector`.
    Curator,
    /// go-zookeeper's `Lock`. It is the same queue as that of Curator's mutex.
    Go,
    /// kazoo's `Lock`, also that of an `Election`.
    Kazoo,
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Zklock => "zklock",
            Self::Curator => "Curator's mutex",
            Self::Go => "go-zookeeper",
            Self::Kazoo => "kazoo",
        })
    }
}

impl Layout {
    /// The layout by which a caller contends in such a queue. Curator's mutex and go-zookeeper's have one queue.
    pub(crate) fn of(layout: recipe::QueueLayout) -> Self {
        match layout {
            recipe::QueueLayout::Own => Self::Zklock,
            recipe::QueueLayout::CuratorMutex => Self::Curator,
            recipe::QueueLayout::Kazoo => Self::Kazoo,
        }
    }

    /// The layout of the queue.
    pub(crate) fn queue(self) -> recipe::QueueLayout {
        match self {
            Self::Zklock => recipe::QueueLayout::Own,
            Self::Curator | Self::Go => recipe::QueueLayout::CuratorMutex,
            Self::Kazoo => recipe::QueueLayout::Kazoo,
        }
    }
}
