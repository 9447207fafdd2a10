//! The locks that a command waits for: one, or several at once.

use std::fmt::{self, Display, Write as _};
use std::time::Duration;

use futures::future::try_join_all;
use jiff::Timestamp;
use zklock::{
    Access, AcquireError, Election, Lock, LockOptions, MultiGuard, MultiLock, QueryError, Session,
    inspect::{Contender, Kind},
};

use super::kin::Kin;
use crate::args::Wanted;
use crate::failure::Failure;
use crate::queue::{entries, holders};

/// The locks that a command waits for. One lock is the shortest list of locks: it is acquired as a plain lock is.
pub(super) struct Locks {
    all: MultiLock,
    /// Each lock, to look at its queue, and how it is to be held.
    each: Vec<(Lock, Kind)>,
    /// The paths that the user gave.
    given: Vec<String>,
    session: Session,
}

/// How long to wait for other contenders; `None` not at all. The library waits without an end for a time that no clock reaches.
pub(super) type Patience = Option<Duration>;

/// A lock that is not free, and who has it.
pub(super) struct Blocked {
    /// The lock, as messages name it.
    pub(super) name: String,
    /// Who holds the lock and how many wait. The text stands behind the name.
    pub(super) holder: String,
}

impl Locks {
    /// The locks that the user named. It sends nothing.
    pub(super) fn of(wanted: &Wanted, session: &Session, options: LockOptions) -> Result<Self, Failure> {
        let path_kind = if wanted.shared { Kind::Shared } else { Kind::Exclusive };
        let path = wanted.path.iter().map(|path| (path, path_kind));
        let exclusive = wanted.lock.iter().map(|path| (path, Kind::Exclusive));
        let shared = wanted.shared_lock.iter().map(|path| (path, Kind::Shared));
        let named = path.chain(exclusive).chain(shared).map(|(path, kind)| (path.clone(), kind));
        Self::new(named.collect(), session, options)
    }

    pub(super) fn of_election(
        election: &Election,
        session: &Session,
        options: LockOptions,
    ) -> Result<Self, Failure> {
        let locks = Self::new(vec![(election.queue(), Kind::Exclusive)], session, options)?;
        Ok(Self { given: vec![election.path().to_owned()], ..locks })
    }

    fn new(named: Vec<(String, Kind)>, session: &Session, options: LockOptions) -> Result<Self, Failure> {
        let access = |(path, kind): &(String, Kind)| match kind {
            Kind::Shared => Access::shared(path.as_str()),
            _ => Access::exclusive(path.as_str()),
        };
        let all = session.lock_all(named.iter().map(access))?.with_options(options.clone())?;
        let lock = |path: &str| session.lock(path)?.with_options(options.clone());
        let each = named.iter().map(|(path, kind)| Ok::<_, Failure>((lock(path)?, *kind)));
        let each = each.collect::<Result<_, _>>()?;
        let given = named.into_iter().map(|(path, _)| path).collect();
        Ok(Self { all, each, given, session: session.clone() })
    }

    pub(super) fn names(&self) -> Names {
        Names::of(self.given.iter().map(String::as_str))
    }

    pub(super) fn is_one(&self) -> bool {
        self.each.len() == 1
    }

    /// Acquires all of them. `None` if they were not acquired in time.
    pub(super) async fn acquire_all(&self, patience: Patience) -> Result<Option<MultiGuard>, AcquireError> {
        match patience {
            None => self.all.try_acquire().await,
            Some(timeout) => self.all.acquire_timeout(timeout).await,
        }
    }

    /// The locks that others keep from this session now.
    pub(super) async fn find_blocked(&self, kin: &Kin) -> Result<Vec<Blocked>, QueryError> {
        let queues = try_join_all(self.each.iter().map(|(lock, _)| lock.contenders())).await?;
        let own = self.session.id();
        let locks = self.each.iter().zip(&self.given).zip(queues);
        let blocked = locks.filter_map(|(((_, kind), path), queue)| {
            let holder = holder_text(&queue, own, *kind, kin)?;
            Some(Blocked { name: path.clone(), holder })
        });
        Ok(blocked.collect())
    }
}

/// Who keeps the contender of this session from the lock. `None` if nobody does: it is first, and ZooKeeper is slow or a
/// takeover delay runs; or it is not in the queue, and nobody there would keep it out.
fn holder_text(queue: &[Contender], own: i64, kind: Kind, kin: &Kin) -> Option<String> {
    let entries = entries(queue);
    let position = queue.iter().rposition(|contender| contender.session == Some(own));
    let is_kept_out = match position {
        Some(position) => !queue[position].holds,
        None => kind == Kind::Exclusive || queue.iter().any(|contender| contender.kind == Kind::Exclusive),
    };
    let holding = holders(&entries);
    let first = holding.first().filter(|_| is_kept_out)?;
    let owner = first.owner_text();
    let mut about = match (first.kind, holding.len()) {
        (Kind::Shared, 1) => format!(", held by the reader {owner}"),
        (Kind::Shared, several) => format!(", held by {several} readers, of whom the first is {owner}"),
        _ => format!(", held by {owner}"),
    };
    about += &first.came_text(Timestamp::now());
    let waiting = entries.len() - holding.len();
    if waiting > 0 {
        let _infallible = write!(about, "; {waiting} waiting");
    }
    // Readers do not keep a reader out. The writer that waits for them does.
    let in_front = &entries[..position.unwrap_or(entries.len())];
    let writer = in_front.iter().rfind(|entry| entry.kind == Kind::Exclusive);
    if let (Kind::Shared, Kind::Shared, Some(writer)) = (kind, first.kind, writer) {
        let _infallible = write!(about, "; the writer {} is in front of this reader", writer.owner_text());
    }
    // Each of them has to go before it is this one's turn.
    if let Some(kinship) = holding.iter().find_map(|holder| kin.kinship_of(holder, own)) {
        about.push_str(kinship.text());
    }
    Some(about)
}

/// Some locks, or a slot or permits, as messages name them.
#[derive(Clone)]
pub(super) struct Names {
    text: String,
    are_several: bool,
}

impl Names {
    pub(super) fn of<'a>(paths: impl IntoIterator<Item = &'a str>) -> Self {
        let paths = paths.into_iter().collect::<Vec<_>>();
        let text = match paths[..] {
            [] => String::new(),
            [one] => one.to_owned(),
            [one, other] => format!("{one} and {other}"),
            [first, ..] => format!("{first} and {} others", paths.len() - 1),
        };
        Self { text, are_several: paths.len() > 1 }
    }

    pub(super) fn new(text: String, are_several: bool) -> Self {
        Self { text, are_several }
    }

    pub(super) fn slot(path: &str, index: u32) -> Self {
        Self::new(format!("slot {index} of {path}"), false)
    }

    pub(super) fn permits(path: &str, weight: u32) -> Self {
        match weight {
            1 => Self::new(format!("a permit of {path}"), false),
            _ => Self::new(format!("{weight} permits of {path}"), true),
        }
    }

    pub(super) fn is(&self) -> &'static str {
        if self.are_several { "are" } else { "is" }
    }

    pub(super) fn them(&self) -> &'static str {
        if self.are_several { "them" } else { "it" }
    }

    pub(super) fn was(&self) -> &'static str {
        if self.are_several { "were" } else { "was" }
    }
}

impl Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_names_stay_short() {
        let names = |paths: &[&str]| Names::of(paths.iter().copied());
        assert_eq!(names(&["/a"]).to_string(), "/a");
        assert_eq!(names(&["/a", "/b"]).to_string(), "/a and /b");
        assert_eq!(names(&["/a", "/b", "/c"]).to_string(), "/a and 2 others");
        assert_eq!((names(&["/a"]).is(), names(&["/a", "/b"]).was()), ("is", "were"));
    }
}
