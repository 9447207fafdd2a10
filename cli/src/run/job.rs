//! The command, seen from the process that holds the lock: orders to its warden, and the warden's reports.

use std::ffi::OsString;
use std::io::{self, stdin};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::process::Stdio;

use rustix::process::Pid;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::warden::protocol::{Order, Report, Wire, send_file};
use crate::warden::{Descendants, STUCK, warden_of};

/// A command that runs, or whatever is left of it.
pub(super) struct Job<'a> {
    descendants: &'a Descendants,
    warden: Child,
    wire: Wire<Report>,
    group: Option<Pid>,
    /// Children that this process had before, as one has that a shell turned into: they are none of our business.
    others: Vec<Pid>,
}

impl<'a> Job<'a> {
    /// Has a warden start the command, with more variables in its environment, as the first order says. Should that be
    /// killed, what is left falls to us.
    pub(super) async fn start(
        descendants: &'a Descendants,
        command: &[OsString],
        variables: Vec<(&'static str, String)>,
        begin: Order,
    ) -> io::Result<Self> {
        let others = descendants.children()?;
        let (ours, theirs) = UnixStream::pair()?;
        let mut warden = Command::from(warden_of(command));
        // Its standard input is our line to it; the command's comes over that.
        let warden = warden.stdin(Stdio::from(OwnedFd::from(theirs))).envs(variables).spawn()?;
        send_file(&ours, stdin().as_fd())?;
        let wire = Wire::new(ours)?;
        wire.send(&begin);
        Ok(Self { descendants, warden, wire, group: None, others })
    }

    pub(super) fn order(&self, order: Order) {
        self.wire.send(&order);
    }

    /// The next report; `None` once the warden is gone. Cancel-safe.
    pub(super) async fn report(&mut self) -> Option<Report> {
        let report = self.wire.receive().await;
        if let Some(Report::Started { group }) = report {
            self.group = Pid::from_raw(group);
        }
        report
    }

    /// Ends a warden that does not do what it should, and so the command.
    pub(super) fn kill(&mut self) {
        let _gone = self.warden.start_kill();
    }

    /// The command's process group, once it has started.
    pub(super) fn group(&self) -> Option<Pid> {
        self.group
    }

    /// Makes sure that everything is gone. True if the warden has done that. `complain` is called if something stays.
    pub(super) async fn finish(mut self, complain: impl FnOnce()) -> bool {
        let kept = self.warden.wait().await.is_ok_and(|status| status.success());
        if !kept {
            let mut killing = pin!(self.descendants.kill_all(self.group, &self.others));
            if timeout(STUCK, &mut killing).await.is_err() {
                complain();
                killing.await;
            }
        }
        kept
    }
}
