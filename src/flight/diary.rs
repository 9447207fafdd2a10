//! What one session writes to its process's records.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use zklock_recipe::flight::{Asked, Begun, Evidence, Heard, Line, Located, Over, Session, Stamp};
use zklock_recipe::{Lease, Moment, Own};
use zookeeper_client as zk;
use zookeeper_client::MultiWriteResult;

use super::Recorder;
use crate::clock;
use crate::mutex::Mutex;

/// How far apart the leader's stamps may be while a session has a guard. A clock that is wrong by 500 parts per million is off by 8 ms
/// by then.
const STAMPS: Duration = Duration::from_secs(15);

/// The part of one ZooKeeper session in its process's records.
pub(crate) struct Diary {
    recorder: Recorder,
    session: u32,
    /// When the last stamp was taken.
    stamped: Mutex<Moment>,
}

impl Diary {
    /// Begins with a session that was established on these servers.
    pub(crate) fn begin(
        recorder: &Recorder,
        id: i64,
        servers: String,
        chroot: &str,
        lease: &Lease,
    ) -> Arc<Self> {
        let number = recorder.0.sessions.fetch_add(1, Ordering::Relaxed);
        let diary = Self { recorder: recorder.clone(), session: number, stamped: Mutex::default() };
        let (chroot, lease, at) = (chroot.to_owned(), lease.clone(), clock::now());
        diary.write(Line::Session(Session { number, id, servers, chroot, lease, at }.into()));
        Arc::new(diary)
    }

    fn write(&self, line: Line) {
        self.recorder.0.write(line);
        self.tell();
    }

    /// Writes evidence for the lease. Call it before the lease takes the evidence in, and [`tell`](Self::tell) once the lease's lock
    /// is released.
    pub(crate) fn evidence(&self, evidence: Evidence) {
        self.recorder.0.write(Line::Lease(self.session, evidence));
    }

    /// Warns if the record cannot be written.
    pub(crate) fn tell(&self) {
        self.recorder.0.tell();
    }

    /// Writes that an acquisition begins, and returns its number.
    pub(crate) fn begun(&self, begun: Begun) -> u64 {
        let acquisition = self.recorder.0.acquisitions.fetch_add(1, Ordering::Relaxed);
        self.write(Line::Begun(Begun { acquisition, session: self.session, at: clock::now(), ..begun }));
        acquisition
    }

    /// Writes an input, and what came of it. Call it before the caller hears of that.
    pub(crate) fn heard(&self, heard: Heard) {
        self.write(Line::Heard(heard));
    }

    /// Writes that the nodes of a guard were seen on this connection. Call it before the guard relies on that.
    pub(crate) fn saw(&self, acquisition: u64, connection: u64) {
        self.write(Line::Saw(acquisition, connection, clock::now()));
    }

    /// Writes that somebody else has touched the nodes of a guard.
    pub(crate) fn touched(&self, acquisition: u64) {
        self.write(Line::Touched(acquisition, clock::now()));
    }

    /// Writes that a hold has passed to this turn.
    pub(crate) fn turn(&self, acquisition: u64, turn: u32) {
        self.write(Line::Turn(acquisition, turn, clock::now()));
    }

    /// Writes that a guard is over. Call it once the guard says so, and before a release is sent.
    pub(crate) fn over(&self, acquisition: u64, reason: String, from: Moment, lets_go: bool) {
        self.write(Line::Over(Over { acquisition, reason, from, lets_go, at: clock::now() }));
    }

    /// Writes that an ask is at this path, which has the chroot; this transaction created its node.
    pub(crate) fn asked(&self, path: String, czxid: i64) {
        self.write(Line::Asked(Asked { session: self.session, path, czxid, at: clock::now() }));
    }

    /// Whether the last stamp is so old that another one is due.
    pub(crate) fn is_stamp_due(&self) -> bool {
        clock::now().most_since(*self.stamped.lock()) >= STAMPS
    }
}

/// Takes from the replies to one request the leader's clock, and the directories of nodes.
#[derive(Clone)]
pub(crate) struct Stamps(Option<Request>);

#[derive(Clone)]
struct Request {
    diary: Arc<Diary>,
    sent: Moment,
    /// Whose request it is.
    acquisition: Option<u64>,
    is_release: bool,
}

impl Stamps {
    /// Begins before the request is sent, which may be one of this acquisition.
    pub(crate) fn before(diary: Option<&Arc<Diary>>, acquisition: Option<u64>) -> Self {
        let request = |diary: &Arc<Diary>| Request {
            diary: diary.clone(),
            sent: clock::now(),
            acquisition,
            is_release: false,
        };
        Self(diary.map(request))
    }

    /// Begins before the release of this acquisition is sent.
    pub(crate) fn before_release(diary: Option<&Arc<Diary>>, acquisition: Option<u64>) -> Self {
        let Self(request) = Self::before(diary, acquisition);
        Self(request.map(|request| Request { is_release: true, ..request }))
    }

    /// For a request that nobody records.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// Takes in the results of a transaction, if one of them is the stat of a node that it has written to.
    pub(crate) fn take_any(&self, results: &[MultiWriteResult]) {
        let written = results.iter().filter_map(|result| match result {
            MultiWriteResult::SetData { stat } => Some(stat),
            _ => None,
        });
        let written = written.collect::<Vec<_>>();
        let nodes = written.iter().map(|stat| (stat.czxid, stat.version));
        written
            .first()
            .into_iter()
            .for_each(|stat| self.write(stat.mtime, stat.mzxid, nodes.clone().collect()));
    }

    /// Takes in a stat that the request has changed: the leader's time, and the transaction.
    pub(crate) fn take(&self, time: i64, zxid: i64) {
        self.write(time, zxid, Vec::new());
    }

    /// Takes in a stat of the directory of this queue of the acquisition, which may have our node. The stat may be that of another
    /// directory, which was there before or is there by now.
    pub(crate) fn take_directory(&self, index: usize, own: Own, stat: &zk::Stat) {
        let Some(Request { diary, acquisition: Some(acquisition), .. }) = &self.0 else { return };
        // The last change of its children is no earlier than the node: so it was there when the node was created.
        if stat.czxid < own.czxid && own.czxid <= stat.pzxid {
            let located = Located { index, own, directory: stat.czxid };
            diary.write(Line::Located(*acquisition, located, clock::now()));
        }
    }

    fn write(&self, time: i64, zxid: i64, mut written: Vec<(i64, i32)>) {
        let Some(Request { diary, sent, acquisition, is_release }) = &self.0 else { return };
        let (session, answered) = (diary.session, clock::now());
        *diary.stamped.lock() = answered;
        let (sent, releases) = (*sent, acquisition.filter(|_| *is_release));
        if releases.is_none() {
            written.clear();
        }
        diary.write(Line::Stamp(Stamp { session, sent, answered, time, zxid, releases, written }));
    }
}
