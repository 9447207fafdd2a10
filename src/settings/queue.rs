//! A queue: its path, and what it is for.

use zklock_recipe::{PathKind, QueueLayout, QueuePlace};

use crate::path::{LockPath, PathProblem};

/// A directory of contenders.
#[derive(Clone)]
pub(crate) struct Queue {
    pub(crate) path: LockPath,
    role: Role,
    /// The path that the caller has given: the directory, or its parent if that has other nodes of the kind as well.
    given: LockPath,
}

/// What a queue is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Lock,
    /// Its first contender leads.
    Election,
    /// Its contenders pass one by one, to a pool of this kind.
    Turnstile(PathKind),
    /// Its contenders have a part of a pool each.
    Permits,
}

impl Queue {
    pub(crate) fn of_lock(path: LockPath) -> Self {
        Self { role: Role::Lock, given: path.clone(), path }
    }

    pub(crate) fn of_election(given: &LockPath, chroot: &str) -> Result<Self, PathProblem> {
        Self::inner(given, PathKind::QUEUE, Role::Election, chroot)
    }

    pub(crate) fn of_turnstile(given: &LockPath, kind: PathKind, chroot: &str) -> Result<Self, PathProblem> {
        Self::inner(given, PathKind::QUEUE, Role::Turnstile(kind), chroot)
    }

    pub(crate) fn of_permits(given: &LockPath, chroot: &str) -> Result<Self, PathProblem> {
        Self::inner(given, PathKind::PERMITS, Role::Permits, chroot)
    }

    fn inner(given: &LockPath, name: &str, role: Role, chroot: &str) -> Result<Self, PathProblem> {
        let path = LockPath::parse(&given.of_child(name), chroot)?;
        Ok(Self { path, role, given: given.clone() })
    }

    pub(crate) fn layout(&self) -> QueueLayout {
        self.path.layout()
    }

    /// What its contenders contend for, by their data.
    pub(crate) fn kind(&self) -> PathKind {
        match self.role {
            Role::Lock | Role::Permits => PathKind::Lock,
            Role::Election => PathKind::Election,
            Role::Turnstile(kind) => kind,
        }
    }

    /// The path that has this kind: the directory, or its parent if that has other nodes of the kind as well.
    pub(crate) fn subject(&self) -> &LockPath {
        if self.role == Role::Permits { &self.path } else { &self.given }
    }

    /// The path by which messages name it.
    pub(crate) fn name(&self) -> &LockPath {
        if self.role == Role::Permits { &self.given } else { &self.path }
    }

    /// The path by which everybody knows what is held: the one that an ask names.
    pub(crate) fn held(&self) -> &LockPath {
        if let Role::Turnstile(_) = self.role { &self.path } else { &self.given }
    }

    /// Whether it is the turnstile of a pool. It protects nothing by itself: transactions of its holder fail without its node.
    pub(crate) fn is_turnstile(&self) -> bool {
        matches!(self.role, Role::Turnstile(_))
    }

    /// Whether its holder leads an election.
    pub(crate) fn is_led(&self) -> bool {
        self.role == Role::Election
    }

    /// The place of a node of ours in the directory, by the node's name.
    pub(crate) fn own_place(&self, name: &str) -> Option<QueuePlace> {
        if self.role == Role::Permits { QueuePlace::parse_permit(name) } else { self.layout().own(name) }
    }

    /// Whether transactions of its holder may only check this node: the announcement of the leader, which it keeps up itself.
    pub(crate) fn is_off_limits(&self, path: &str) -> bool {
        self.is_led() && self.given.child(path) == Some(PathKind::LEADER)
    }
}
