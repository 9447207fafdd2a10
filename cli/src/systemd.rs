//! What the service manager hears of this process: systemd, or another one that speaks its protocol
//! ([sd_notify](https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html)). The crate `sd-notify` 0.5 blocks
//! while systemd's queue is full, and the loop that would wait is the one that extends the lease.

use std::cell::Cell;
use std::convert::Infallible;
use std::env;
use std::ffi::OsStr;
use std::fmt::Display;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::args::Notify;
use crate::console::Console;

const SOCKET: &str = "NOTIFY_SOCKET";
/// The microseconds after which the manager ends a process that has not pinged.
const WATCHDOG: &str = "WATCHDOG_USEC";
/// The process whose pings count. The manager may have set it for a process that has become another one since.
const WATCHED: &str = "WATCHDOG_PID";

/// How long the manager may take to accept the last messages.
const PATIENCE: Duration = Duration::from_secs(1);

/// The manager of this process, if there is one that wants to hear of it.
///
/// Messages go out in a task of their own, in order. A manager that hangs delays neither the lease nor the command.
pub(crate) struct Systemd {
    line: Option<Outbox>,
    /// The time between two pings. The manager expects one in four times as long.
    pause: Option<Duration>,
    pinged: Cell<Option<Instant>>,
    was_ready: Cell<bool>,
}

struct Outbox {
    outgoing: mpsc::UnboundedSender<String>,
    writing: JoinHandle<()>,
}

impl Systemd {
    /// The manager that the environment names, if zklock is the one to tell it. Call it inside a runtime.
    pub(crate) fn find(notify: Notify, console: Console) -> Self {
        let address = env::var_os(SOCKET).filter(|address| notify == Notify::Zklock && !address.is_empty());
        let line = address.and_then(|address| match Outbox::to_address(&address) {
            Ok(line) => Some(line),
            Err(error) => {
                console.warn(format_args!("zklock cannot reach ${SOCKET} ({}): {error}", address.display()));
                None
            }
        });
        let number = |name| env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
        let is_watched = number(WATCHED).is_none_or(|process| process == u64::from(std::process::id()));
        let watchdog = number(WATCHDOG).filter(|usec| is_watched && *usec > 0).map(Duration::from_micros);
        let pause = watchdog.map(|watchdog| watchdog / 4);
        Self { line, pause, pinged: Cell::default(), was_ready: Cell::default() }
    }

    pub(crate) fn send_status(&self, status: impl Display) {
        self.send(format!("STATUS={status}"));
    }

    /// Says that the service is up, the first time. After that it is one more status.
    pub(crate) fn send_ready(&self, status: impl Display) {
        let ready = if self.was_ready.replace(true) { "" } else { "READY=1\n" };
        self.send(format!("{ready}STATUS={status}"));
    }

    /// Says that this process is about to end.
    pub(crate) fn send_stopping(&self, status: impl Display) {
        self.send(format!("STOPPING=1\nSTATUS={status}"));
    }

    /// Says that this process does what it should, if that is due.
    pub(crate) fn ping_if_due(&self) {
        if let Some(pause) = self.pause
            && self.pinged.get().is_none_or(|last| last.elapsed() >= pause)
        {
            self.pinged.set(Some(Instant::now()));
            self.send("WATCHDOG=1".to_owned());
        }
    }

    pub(crate) async fn keep_pinging(&self) -> Infallible {
        let Some(pause) = self.pause else { return std::future::pending().await };
        loop {
            self.ping_if_due();
            sleep(pause).await;
        }
    }

    /// Waits until every message is sent, but not for a manager that hangs.
    pub(crate) async fn send_rest(self) {
        if let Some(Outbox { outgoing, writing }) = self.line {
            drop(outgoing);
            let _hangs = timeout(PATIENCE, writing).await;
        }
    }

    fn send(&self, message: String) {
        if let Some(line) = &self.line {
            let _gone = line.outgoing.send(message);
        }
    }
}

impl Outbox {
    fn to_address(address: &OsStr) -> io::Result<Self> {
        let address = match address.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            [b'/', ..] => SocketAddr::from_pathname(address)?,
            _ => return Err(io::Error::new(io::ErrorKind::Unsupported, "it begins with neither / nor @")),
        };
        let socket = UnixDatagram::unbound()?;
        socket.connect_addr(&address)?;
        socket.set_nonblocking(true)?;
        let socket = tokio::net::UnixDatagram::from_std(socket)?;
        let (outgoing, mut messages) = mpsc::unbounded_channel::<String>();
        let writing = tokio::spawn(async move {
            while let Some(message) = messages.recv().await {
                let _gone = socket.send(message.as_bytes()).await;
            }
        });
        Ok(Self { outgoing, writing })
    }
}

/// The variables that the command does not inherit. If zklock tells the manager, the command must not: to the manager, both
/// are one service.
pub(crate) fn kept_back(notify: Notify) -> &'static [&'static str] {
    match notify {
        Notify::Zklock => &[SOCKET, WATCHDOG, WATCHED],
        // It names the process that became zklock.
        Notify::Cmd => &[WATCHED],
    }
}
