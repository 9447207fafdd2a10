//! The file that keeps everything that is heard and done, one JSON object a line.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Serialize;

/// A journal. It is kept only if something was wrong: other runs with the same seed may not show that again.
pub(crate) struct Journal {
    file: File,
    path: PathBuf,
}

impl Journal {
    pub(crate) fn open() -> anyhow::Result<Self> {
        let file = tempfile::Builder::new().prefix("torture-").suffix(".jsonl").tempfile();
        let opened = file.and_then(|file| Ok(file.keep()?));
        let (file, path) = opened.context("cannot create the journal")?;
        Ok(Self { file, path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn write(&mut self, entry: &impl Serialize) {
        if let Ok(line) = serde_json::to_string(entry) {
            // The verdict does not need the file.
            let _ = writeln!(self.file, "{line}");
        }
    }

    /// Ends a journal of a run in which nothing was wrong.
    pub(crate) fn discard(self) {
        let _ = std::fs::remove_file(self.path);
    }
}
