//! Ports for servers: free now, and kept from other tests for as long as the server may be restarted.
//!
//! A port from `bind(0)` would not do. It lies in the range from which the kernel takes ports for outgoing connections. So
//! while a killed server waits for its restart, any connection may get it. The ports of this file lie below that range,
//! and a lock file for each keeps other tests, in this process and in others, from choosing it, too.

use std::fs::{File, OpenOptions};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{FlockOperation, flock};

use crate::Error;

const FIRST: u32 = 10_240;
const COUNT: u32 = 20_000;

/// A port that nothing else of this crate uses until it is dropped.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) number: u16,
    _lock: File,
}

impl Port {
    /// The address on loopback.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.number)
    }

    pub(crate) fn reserve() -> Result<Self, Error> {
        let directory = directory()?;
        for _ in 0..2_000 {
            let number = candidate();
            if let Some(port) = Self::take(&directory, number) {
                return Ok(port);
            }
        }
        Err(Error::InvalidOption("no free TCP port was found between 10240 and 30240 on loopback".into()))
    }

    fn take(directory: &std::path::Path, number: u16) -> Option<Self> {
        let path = directory.join(number.to_string());
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(path).ok()?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).ok()?;
        // A stranger may have it. All addresses are tried, because a container engine may publish on any of them.
        TcpListener::bind(("0.0.0.0", number)).ok()?;
        Some(Self { number, _lock: lock })
    }
}

fn directory() -> Result<PathBuf, Error> {
    let user = rustix::process::getuid().as_raw();
    let path = std::env::temp_dir().join(format!("zklock-testcontainers-ports-{user}"));
    std::fs::create_dir_all(&path).map_err(Error::io(format!("create {}", path.display())))?;
    Ok(path)
}

/// Processes begin at different places, so that they seldom try the same ports.
fn candidate() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let step = NEXT.fetch_add(1, Ordering::Relaxed);
    let start = std::process::id().wrapping_mul(2_654_435_761);
    let offset = start.wrapping_add(step.wrapping_mul(7)) % COUNT;
    u16::try_from(FIRST + offset).unwrap_or(u16::MAX)
}
