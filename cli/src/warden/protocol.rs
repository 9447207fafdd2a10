//! The messages between the holder and the warden: one JSON object a line, over a pair of sockets. An instant is one of
//! `clock::now`, which both share.

use std::io::{self, IoSlice, IoSliceMut};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::Deserialize;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How long the other side may take to accept the last messages. The socket has room for thousands.
const PATIENCE: Duration = Duration::from_secs(1);

/// From the holder to the warden.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// The first order: start the command.
    Begin {
        /// Whether the command has the terminal from the start.
        foreground: bool,
        /// The time from SIGTERM to SIGKILL for processes that the command leaves behind.
        grace: Duration,
        /// The end of the lease; `None` if the command may outlive it.
        end: Option<Duration>,
    },
    /// The lease lasts until `end`.
    Extend { end: Duration },
    /// Send SIGTERM, and SIGKILL after the grace, or a reserve before `end` if that is earlier. Send SIGKILL at once if
    /// the grace is zero.
    Stop { grace: Duration, end: Option<Duration> },
    /// Pass this signal on to the command.
    Signal(i32),
}

/// From the warden to the holder. The end of the stream says that every process is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The command runs, in this process group.
    Started { group: i32 },
    /// The command was stopped by this signal.
    Stopped { signal: i32 },
    /// The command continues after a stop, by any process's SIGCONT.
    Continued,
    /// SIGCONT was passed on. Every stop from before that was reported before this, and is over.
    Delivered,
    /// SIGKILL was sent, and a process has been left for so long that it may not help.
    Stuck,
    /// The command has ended. Processes that it left behind may still run.
    Ended {
        /// Its exit status, or 128 and the number of the signal that ended it.
        status: u8,
        /// When the warden saw the end.
        at: Duration,
        /// Whether the command ended before the warden began to end it.
        by_itself: bool,
    },
}

/// One end of the pair.
pub(crate) struct Wire<In> {
    lines: Lines<BufReader<OwnedReadHalf>>,
    outgoing: mpsc::UnboundedSender<Vec<u8>>,
    writing: JoinHandle<()>,
    incoming: PhantomData<In>,
}

impl<In: DeserializeOwned> Wire<In> {
    /// Call it inside a runtime.
    pub(crate) fn new(stream: std::os::unix::net::UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let (reader, mut writer) = UnixStream::from_std(stream)?.into_split();
        let (outgoing, mut messages) = mpsc::unbounded_channel::<Vec<u8>>();
        let writing = tokio::spawn(async move {
            while let Some(message) = messages.recv().await {
                // The receiving side notices that the other process is gone.
                let _gone = writer.write_all(&message).await;
            }
        });
        Ok(Self { lines: BufReader::new(reader).lines(), outgoing, writing, incoming: PhantomData })
    }

    /// The next message; `None` once the other process is gone. Cancel-safe: no message is lost.
    pub(crate) async fn receive(&mut self) -> Option<In> {
        let line = self.lines.next_line().await.ok().flatten()?;
        serde_json::from_str(&line).ok()
    }

    /// Sends a message, in the order of the calls. It does not wait, because the other process may be stopped.
    pub(crate) fn send(&self, message: &impl Serialize) {
        if let Ok(mut line) = serde_json::to_vec(message) {
            line.push(b'\n');
            let _gone = self.outgoing.send(line);
        }
    }

    /// Waits until every message is sent, but not for a process that is stopped.
    pub(crate) async fn send_rest(self) {
        drop(self.outgoing);
        let _stopped = timeout(PATIENCE, self.writing).await;
    }
}

/// Hands a file over to the other process, before the first message.
pub(crate) fn send_file(socket: impl AsFd, file: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [file];
    control.push(SendAncillaryMessage::ScmRights(&files));
    sendmsg(socket, &[IoSlice::new(&[0])], &mut control, SendFlags::empty())?;
    Ok(())
}

/// Takes the file that the other process hands over first.
pub(crate) fn receive_file(socket: impl AsFd) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    control
        .drain()
        .find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut files) => files.next(),
            _ => None,
        })
        .ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))
}
