//! Flight records: what a process writes of its sessions and locks, so that others can say later who held what, and when.
//!
//! A [`Recorder`] writes lines to files in a directory, and `zklock audit` reads the directories of many machines. `zklock_recipe::flight`
//! says what the lines are.

mod diary;
#[cfg(test)]
mod tests;
mod writer;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use tracing::warn;
use zklock_recipe::flight::Line;

pub(crate) use diary::{Diary, Stamps};
use writer::{LEAST_BOUND, Writer};

use crate::mutex::Mutex;

/// By default a directory has so many bytes of records at most.
const DEFAULT_BOUND: u64 = 64 << 20;

/// Writes flight records to a directory: what the sessions of this process rely on, and the locks that it acquires, holds and loses.
/// `zklock audit` reads the records of many machines, and says whether two ever held a lock at once. Give it to
/// [`SessionBuilder::record`](crate::SessionBuilder::record). Clones write to the same files.
///
/// A line is written before zklock relies on what it says: a grant before the caller gets its guard, and what extends the lease of a
/// guard before it does. Other lines wait for the next one of these, for a heartbeat at the latest. So the record of a process that is
/// killed lacks no guard. The price is a write to a file for each line on which zklock relies, in the task that relies on it. A disk
/// that stalls delays heartbeats, so leases and guards end earlier. It never makes a guard say
/// for longer that it is held. But until the disk goes on, `is_held`, `check`, `explain` and `run` of the session's guards wait as
/// well, `lost` resolves late, and `run` cannot drop a future. So write records to a local disk.
///
/// If a file cannot be written, zklock logs a warning, and goes on without a record. The next file says how many lines are missing.
///
/// When the last clone is dropped, those of sessions included, the file says that the record is whole. Before the process ends, close
/// the sessions, and drop the runtime: otherwise the end of the record is that of a process that was killed. A process that was forked
/// off writes nothing.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use zklock::Session;
/// use zklock::flight::Recorder;
///
/// let recorder = Recorder::options("/var/lib/feed/zklock").owner("feed").open()?;
/// let session = Session::builder("zk1:2181,zk2:2181,zk3:2181").record(recorder).connect().await?;
/// # drop(session);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Recorder(Arc<Shared>);

struct Shared {
    /// The process that opened it.
    pid: u32,
    writer: Mutex<Writer>,
    /// Whether the writer has what nobody was told of yet.
    is_untold: AtomicBool,
    sessions: AtomicU32,
    acquisitions: AtomicU64,
}

/// The options of a [`Recorder`]. [`Recorder::options`] makes them.
#[derive(Clone, Debug)]
#[must_use = "nothing is recorded until a recorder is opened and given to a session"]
pub struct RecorderOptions {
    directory: PathBuf,
    bound: u64,
    owner: String,
}

impl Recorder {
    /// Returns the default options of a recorder that writes to this directory. Several processes may write to it, all of one machine.
    pub fn options(directory: impl Into<PathBuf>) -> RecorderOptions {
        RecorderOptions { directory: directory.into(), bound: DEFAULT_BOUND, owner: String::new() }
    }
}

impl RecorderOptions {
    /// How many bytes the records in the directory may have together, about. The default is 64 MiB, and the least is 64 KiB. A file
    /// has an eighth of that. For another file, zklock deletes the oldest ones that nobody writes to, and the file says until when
    /// other processes had lines in these. It deletes 500 at a time at most, and then the file has no more than they had. Each file
    /// begins with what is open, so that it can be read without those before it. Each process that lives keeps its last file, of up to
    /// an eighth, so more than eight processes exceed the bound.
    ///
    /// A grant with its release takes 3 to 5 kB, an idle session 4 MB a day, and a session that holds 8 MB a day.
    ///
    /// The processes that write to one directory should have one bound.
    pub fn bound(mut self, bytes: u64) -> Self {
        self.bound = bytes.max(LEAST_BOUND);
        self
    }

    /// What the process says of itself, for those who read the records. The default is nothing: a record has the names of the machine
    /// and of the process in any case.
    pub fn owner(mut self, text: impl Into<String>) -> Self {
        self.owner = text.into();
        self
    }

    /// Creates the directory, if it does not exist, and begins the first file. Only this user can read them.
    ///
    /// # Errors
    ///
    /// The file system's error.
    pub fn open(self) -> io::Result<Recorder> {
        let writer = Writer::open(self.directory, self.bound, self.owner)?;
        let (sessions, acquisitions) = (AtomicU32::new(0), AtomicU64::new(0));
        let (pid, writer) = (std::process::id(), Mutex::new(writer));
        let is_untold = AtomicBool::new(false);
        Ok(Recorder(Arc::new(Shared { pid, writer, is_untold, sessions, acquisitions })))
    }
}

impl Shared {
    /// Writes a line. [`tell`](Self::tell) afterwards, once no lock is held.
    fn write(&self, line: Line) {
        if self.is_ours() && self.writer.lock().write(line) {
            self.is_untold.store(true, Ordering::Relaxed);
        }
    }

    /// Warns if the record cannot be written. A subscriber is foreign code, which may use this session.
    fn tell(&self) {
        let is_untold = self.is_untold.swap(false, Ordering::Relaxed) && self.is_ours();
        let untold = if is_untold { self.writer.lock().take_untold() } else { None };
        if let Some((error, directory)) = untold {
            let directory = directory.display();
            warn!(%error, %directory, "the flight record cannot be written; zklock goes on without it");
        }
    }

    /// Whether this is the process that opened the recorder. One that was forked off has the same files, and perhaps a mutex that
    /// nobody unlocks.
    fn is_ours(&self) -> bool {
        std::process::id() == self.pid
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.is_ours() {
            self.writer.lock().close();
        }
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}
