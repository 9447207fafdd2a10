//! Sessions as the leader tracks them, and the buckets in which they expire.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::{id::ServerId, operation::error};

/// Things that expire in buckets of an interval.
#[derive(Debug)]
pub(crate) struct Buckets<T> {
    interval: u64,
    due: BTreeMap<T, u64>,
    buckets: BTreeMap<u64, BTreeSet<T>>,
}

impl<T: Copy + Ord> Buckets<T> {
    pub(crate) fn new(interval: Duration) -> Self {
        Self { interval: milliseconds(interval), due: BTreeMap::new(), buckets: BTreeMap::new() }
    }

    /// (a) Everything expires at the end of an interval: the first end that is later than `now` plus the timeout.
    pub(crate) fn touch(&mut self, item: T, now: Duration, timeout: u64) {
        let due = ((milliseconds(now) + timeout) / self.interval + 1) * self.interval;
        self.remove(item);
        self.due.insert(item, due);
        self.buckets.entry(due).or_default().insert(item);
    }

    pub(crate) fn remove(&mut self, item: T) {
        let Some(due) = self.due.remove(&item) else { return };
        if let Some(bucket) = self.buckets.get_mut(&due) {
            bucket.remove(&item);
            if bucket.is_empty() {
                self.buckets.remove(&due);
            }
        }
    }

    pub(crate) fn next(&self) -> Option<Duration> {
        self.buckets.keys().next().copied().map(Duration::from_millis)
    }

    /// One thing whose interval has ended, if one has.
    pub(crate) fn expire(&mut self, now: Duration) -> Option<T> {
        let (due, bucket) = self.buckets.first_key_value()?;
        let item = *bucket.first()?;
        (*due <= milliseconds(now)).then(|| {
            self.remove(item);
            item
        })
    }
}

/// Whole milliseconds: servers know no shorter time.
pub(crate) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).expect("a clock does not show 500 million years")
}

#[derive(Debug)]
pub(crate) struct Tracker {
    sessions: BTreeMap<i64, Tracked>,
    expiry: Buckets<i64>,
    /// How long sessions that have expired wait to be closed, and those that do.
    delay: Duration,
    expired: VecDeque<(Duration, i64)>,
    /// Sessions that have expired since somebody asked, or that expire sooner than they would have, with their [`Tracked::lasts`].
    sooner: Vec<(i64, Duration)>,
}

#[derive(Debug)]
struct Tracked {
    closing: bool,
    owner: Option<Owner>,
    /// One timeout after the last touch.
    lasts: Duration,
}

/// (c) By whom a session's requests come: a server, as long as it has one connection to the leader. The leader itself has
/// the number 0 for it. Two connections of a client's at one server may both write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) server: ServerId,
    pub(crate) link: u64,
}

impl Tracker {
    /// (a) A new leader gives every session its whole timeout anew.
    pub(crate) fn new(tick: Duration, delay: Duration, now: Duration, sessions: &BTreeMap<i64, i32>) -> Self {
        let (expiry, expired) = (Buckets::new(tick), VecDeque::new());
        let mut tracker = Self { sessions: BTreeMap::new(), expiry, delay, expired, sooner: Vec::new() };
        sessions.iter().for_each(|(session, timeout)| tracker.track(*session, *timeout, now));
        tracker
    }

    pub(crate) fn track(&mut self, session: i64, timeout: i32, now: Duration) {
        let lasts = Duration::ZERO;
        self.sessions.entry(session).or_insert(Tracked { closing: false, owner: None, lasts });
        self.put_off(session, timeout, now);
    }

    fn put_off(&mut self, session: i64, timeout: i32, now: Duration) {
        let timeout = timeout.unsigned_abs().into();
        self.expiry.touch(session, now, timeout);
        let lasts = now + Duration::from_millis(timeout);
        if self.lasts(session).is_some_and(|before| before > lasts) {
            self.sooner.push((session, lasts));
        }
        if let Some(tracked) = self.sessions.get_mut(&session) {
            tracked.lasts = lasts;
        }
    }

    /// A sign of life. (b) It asks nobody who the owner is, so a stale connection keeps a moved session alive.
    pub(crate) fn touch(&mut self, session: i64, timeout: i32, now: Duration) -> bool {
        let lives = self.sessions.get(&session).is_some_and(|tracked| !tracked.closing);
        if lives {
            self.put_off(session, timeout, now);
        }
        lives
    }

    /// Until when a session lasts if nobody touches it. Once it has expired, touches are in vain.
    pub(crate) fn lasts(&self, session: i64) -> Option<Duration> {
        let tracked = self.sessions.get(&session).filter(|tracked| !tracked.closing)?;
        let has_expired = self.expired.iter().any(|(_, expired)| *expired == session);
        (!has_expired).then_some(tracked.lasts)
    }

    pub(crate) fn sooner(&mut self) -> Vec<(i64, Duration)> {
        std::mem::take(&mut self.sooner)
    }

    /// A client has come back by this server. It owns the session from now on, if the session lives.
    pub(crate) fn revive(&mut self, session: i64, timeout: i32, by: Owner, now: Duration) -> bool {
        let lives = self.touch(session, timeout, now);
        self.own(session, by);
        lives
    }

    pub(crate) fn own(&mut self, session: i64, owner: Owner) {
        if let Some(tracked) = self.sessions.get_mut(&session).filter(|tracked| !tracked.closing) {
            tracked.owner = Some(owner);
        }
    }

    /// Whether a request may come this way. The first one whose request comes becomes the owner.
    pub(crate) fn check(&mut self, session: i64, by: Owner) -> Result<(), i32> {
        let tracked = self.sessions.get_mut(&session).ok_or(error::SESSION_EXPIRED)?;
        match tracked.owner {
            _ if tracked.closing => Err(error::SESSION_EXPIRED),
            Some(owner) if owner != by => Err(error::SESSION_MOVED),
            _ => {
                tracked.owner = Some(by);
                Ok(())
            }
        }
    }

    pub(crate) fn close(&mut self, session: i64) {
        if let Some(tracked) = self.sessions.get_mut(&session) {
            tracked.closing = true;
        }
    }

    /// Has a session close from now on, whatever its timeout. Returns whether it lived.
    pub(crate) fn end(&mut self, session: i64) -> bool {
        let lives = self.sessions.get(&session).is_some_and(|tracked| !tracked.closing);
        self.expiry.remove(session);
        self.close(session);
        lives
    }

    pub(crate) fn remove(&mut self, session: i64) {
        self.sessions.remove(&session);
        self.expiry.remove(session);
    }

    pub(crate) fn next(&self) -> Option<Duration> {
        let expired = self.expired.front().map(|(due, _)| *due);
        [self.expiry.next(), expired].into_iter().flatten().min()
    }

    /// One session that has expired and is to be closed now, if one is. It closes from now on. A touch since it has expired
    /// has it expire again, unless it is over by then.
    pub(crate) fn expire(&mut self, now: Duration) -> Option<i64> {
        while let Some(session) = self.expiry.expire(now) {
            self.sooner.extend(self.lasts(session).map(|lasts| (session, lasts)));
            self.expired.push_back((now + self.delay, session));
        }
        let (_, session) = *self.expired.front().filter(|(due, _)| *due <= now)?;
        self.expired.pop_front();
        self.close(session);
        Some(session)
    }
}
