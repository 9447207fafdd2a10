//! A number in a plain file, without any protection of its own.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;

pub(crate) struct Counter {
    path: PathBuf,
}

impl Counter {
    pub(crate) fn open(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    pub(crate) fn read(&self) -> anyhow::Result<u64> {
        let mut text = String::new();
        File::open(&self.path)
            .and_then(|mut file| file.read_to_string(&mut text))
            .with_context(|| format!("cannot read the counter {}", self.path.display()))?;
        text.trim().parse().with_context(|| format!("no number in {}: {text:?}", self.path.display()))
    }

    /// Overwrites the number in place, in one write that always has the same length. So a process that is killed has
    /// written all of it or nothing.
    pub(crate) fn write(&self, value: u64) -> anyhow::Result<()> {
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&self.path)
            .and_then(|mut file| file.write_all(format!("{value:020}\n").as_bytes()))
            .with_context(|| format!("cannot write the counter {}", self.path.display()))
    }
}
