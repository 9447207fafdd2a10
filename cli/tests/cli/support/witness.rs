//! Whether any process of a command is alive, as the kernel knows it.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;
use tokio::sync::oneshot;

use zklock_test_support::within;

/// A named pipe. The command opens it, and every process that the command starts keeps it open. It ends with the last
/// process.
pub(crate) struct Witness {
    directory: TempDir,
    opened: Option<oneshot::Receiver<Instant>>,
    closed: Option<oneshot::Receiver<Instant>>,
}

impl Witness {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("witness");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a named pipe");
        let ((open, opened), (close, closed)) = (oneshot::channel(), oneshot::channel());
        std::thread::spawn(move || {
            let mut pipe = File::open(&path).expect("a writer");
            let _nobody = open.send(Instant::now());
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

    /// When the command began.
    pub(crate) async fn began(&mut self) -> Instant {
        within("the command's begin", self.opened.take().expect("asked once")).await.expect("an instant")
    }

    /// When the last process was gone.
    pub(crate) async fn gone(&mut self) -> Instant {
        within("the last process's end", self.closed.take().expect("asked once")).await.expect("an instant")
    }

    /// Whether every process is gone by now.
    pub(crate) fn is_gone(&mut self) -> bool {
        self.closed.as_mut().expect("not asked before").try_recv().is_ok()
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }
}
