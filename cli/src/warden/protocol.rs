//! What the holder and the warden tell each other, one JSON object a line, over a pair of sockets. Instants are since boot,
//! by the clock they share.

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

/// How long one may take to take the last messages, where there is room for thousands.
const PATIENCE: Duration = Duration::from_secs(1);

/// From the holder to the warden.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// The first one: start the command.
    Begin {
        /// Whether it is to have the terminal from the start.
        foreground: bool,
        /// How long what the command leaves behind has from SIGTERM to SIGKILL.
        grace: Duration,
        /// The end of the lease; `None` if the command may outlive it.
        end: Option<Duration>,
    },
    /// The lease lasts until then.
    Extend { end: Duration },
    /// SIGTERM, and SIGKILL after a while, or when the lease ends if it has not yet; without any delay if that is zero.
    Stop { grace: Duration, end: Option<Duration> },
    /// Pass this signal on.
    Signal(i32),
}

/// From the warden to the holder. The end of the stream says that everything is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The command runs, in this process group.
    Started { group: i32 },
    /// The command was stopped by this signal.
    Stopped { signal: i32 },
    /// It goes on after that, whoever had it do so.
    Continued,
    /// SIGCONT was passed on. What stopped the command before has been reported before, and is over.
    Delivered,
    /// SIGKILL has been sent, and something is left for so long that it may not help.
    Stuck,
    /// The command has ended; what it left behind may run yet.
    Ended {
        /// Its exit status, or 128 and the signal that ended it.
        status: u8,
        /// When it was found to have.
        at: Duration,
        /// Whether it did so before the warden began to end it.
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
    /// In a runtime.
    pub(crate) fn new(stream: std::os::unix::net::UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let (reader, mut writer) = UnixStream::from_std(stream)?.into_split();
        let (outgoing, mut messages) = mpsc::unbounded_channel::<Vec<u8>>();
        let writing = tokio::spawn(async move {
            while let Some(message) = messages.recv().await {
                // That the other one is gone is learned by receiving.
                let _gone = writer.write_all(&message).await;
            }
        });
        Ok(Self { lines: BufReader::new(reader).lines(), outgoing, writing, incoming: PhantomData })
    }

    /// What the other one says next; `None` once it is gone. Cancel-safe.
    pub(crate) async fn receive(&mut self) -> Option<In> {
        let line = self.lines.next_line().await.ok().flatten()?;
        serde_json::from_str(&line).ok()
    }

    /// Tells the other one, in the order of the calls and without waiting: it may be stopped.
    pub(crate) fn send(&self, message: &impl Serialize) {
        if let Ok(mut line) = serde_json::to_vec(message) {
            line.push(b'\n');
            let _gone = self.outgoing.send(line);
        }
    }

    /// Waits until everything is told, but not for one that is stopped.
    pub(crate) async fn finish(self) {
        drop(self.outgoing);
        let _stopped = timeout(PATIENCE, self.writing).await;
    }
}

/// Hands a file over to the other one, before anything is said.
pub(crate) fn send_file(socket: impl AsFd, file: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [file];
    control.push(SendAncillaryMessage::ScmRights(&files));
    sendmsg(socket, &[IoSlice::new(&[0])], &mut control, SendFlags::empty())?;
    Ok(())
}

/// Takes the file that the other one hands over first.
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
