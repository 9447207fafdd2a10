//! Whether any process of a command is alive, as the kernel knows it.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use tempfile::TempDir;
use tokio::sync::oneshot;

use zklock_test_support::within;

/// The status of a command that began too early.
pub(crate) const EARLY: i32 = 42;

/// A named pipe. The command opens it, and every process that the command starts keeps it open. It ends with the last
/// process.
pub(crate) struct Witness {
    directory: TempDir,
    opened: Option<oneshot::Receiver<()>>,
    closed: Option<oneshot::Receiver<Instant>>,
}

impl Witness {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("witness");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a named pipe");
        let (open, opened) = oneshot::channel();
        let (close, closed) = oneshot::channel();
        std::thread::spawn(move || {
            let mut pipe = File::open(&path).expect("a writer");
            let _nobody = open.send(());
            pipe.read_to_end(&mut Vec::new()).expect("the end");
            let _nobody = close.send(Instant::now());
        });
        Self { directory, opened: Some(opened), closed: Some(closed) }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("witness")
    }

    /// The script, with every process that it starts under witness.
    pub(crate) fn of(&self, script: &str) -> String {
        format!("exec 9>'{}'; {script}", self.path().display())
    }

    /// As [`of`](Self::of). It ends with [`EARLY`] if a process of the command `before` is alive when this one begins.
    pub(crate) fn after(&self, before: &Self, script: &str) -> String {
        // A pipe that is open for writing and empty has nothing yet; one that nobody can write to any more is at its end.
        format!(
            "dd if='{}' of=/dev/null iflag=nonblock count=1 status=none 2>/dev/null; early=$?; {}; exit $((early * {EARLY}))",
            before.path().display(),
            self.of(script)
        )
    }

    /// Waits until the command has begun.
    pub(crate) async fn began(&mut self) {
        within("the command's begin", self.opened.take().expect("asked once")).await.expect("a witness");
    }

    /// When the last process was gone.
    pub(crate) async fn gone(&mut self) -> Instant {
        within("the last process's end", self.closed.take().expect("asked once")).await.expect("an instant")
    }

    /// Whether every process is gone by now, of a command that has begun.
    pub(crate) fn is_gone(&self) -> bool {
        let nonblock = OFlags::NONBLOCK.bits().cast_signed();
        let mut pipe =
            OpenOptions::new().read(true).custom_flags(nonblock).open(self.path()).expect("a pipe");
        matches!(pipe.read(&mut [0]), Ok(0))
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }
}
