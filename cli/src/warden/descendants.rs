//! All processes that descend from this one.

use std::collections::HashSet;
use std::convert::Infallible;
use std::fs::File;
use std::future::pending;
use std::io::{self, Read, Seek};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, kill_process, kill_process_group,
    set_child_subreaper, wait, waitid, waitpid,
};
use tokio::signal::unix::{SignalKind, signal};

/// The time between two SIGKILLs to the processes that are still there. A process may have been starting another one.
pub(super) const INSISTENCE: Duration = Duration::from_millis(5);

/// How often to look for new children in a row. New ones may come without end, and the caller has a clock to keep.
const STRIKES: usize = 50;

/// How long SIGKILL may take before the user should know.
pub(crate) const STUCK: Duration = Duration::from_secs(1);

/// The descendants of this process. Each is a child of this process, or becomes one when its parent ends.
#[derive(Debug)]
pub(crate) struct Descendants {
    /// The kernel's list of the children of the main thread. All children are in it: the main thread starts every
    /// process, and inherits the orphans. The file stays open, so that neither a mount over `/proc` nor a lack of file
    /// descriptors hides a child later.
    list: File,
}

impl Descendants {
    /// Makes this process the parent of every descendant whose own parent ends. An error if the kernel does not list
    /// children.
    pub(crate) fn adopt_orphans() -> io::Result<Self> {
        // By number: in the `/proc` of another pid namespace this file does not exist, which is the error then.
        let path = format!("/proc/self/task/{}/children", getpid().as_raw_pid());
        let needed = |error: io::Error| {
            io::Error::new(error.kind(), format!("zklock needs {path} of this pid namespace: {error}"))
        };
        let descendants = Self { list: File::open(&path).map_err(needed)? };
        descendants.children().map_err(needed)?;
        set_child_subreaper(Some(getpid()))?;
        Ok(descendants)
    }

    /// The children, with those that have ended and were not waited for. After an error, any number may exist.
    pub(crate) fn children(&self) -> io::Result<Vec<Pid>> {
        let mut list = String::new();
        (&self.list).rewind()?;
        (&self.list).read_to_string(&mut list)?;
        Ok(list.split_ascii_whitespace().filter_map(|id| id.parse().ok()).filter_map(Pid::from_raw).collect())
    }

    /// Waits for the children that have ended, but not for the warden. Returns their ids. It does nothing once the warden has
    /// ended: then a child may be of the command.
    ///
    /// While the warden lives, it is the parent of every orphan of the command. So all other children were left to this
    /// process by others: by the shell that became zklock, or, if this is the first process of a container, by anybody.
    pub(crate) fn reap_strangers(&self, warden: Option<Pid>) -> Vec<Pid> {
        // The children come first: those in the list are no command's if the warden lives after that.
        let children = self.children().unwrap_or_default();
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if warden.is_some_and(|warden| !matches!(waitid(WaitId::Pid(warden), look), Ok(None))) {
            return Vec::new();
        }
        let strangers = children.into_iter().filter(|child| Some(*child) != warden);
        strangers.filter(|child| matches!(waitpid(Some(*child), WaitOptions::NOHANG), Ok(Some(_)))).collect()
    }

    /// Waits for each child that ends, while there is no warden. Never returns.
    pub(crate) async fn keep_reaping(&self) -> Infallible {
        let Ok(mut changed) = signal(SignalKind::child()) else { return pending().await };
        loop {
            self.reap_strangers(None);
            changed.recv().await;
        }
    }

    /// Sends SIGKILL to a process group and to every descendant, until none is left. It spares the children `but`, and
    /// their descendants.
    pub(crate) async fn kill_all(&self, group: Option<Pid>, but: &[Pid]) {
        if let Some(group) = group {
            let _gone = kill_process_group(group, Signal::KILL);
        }
        while self.kill_children(but) {
            tokio::time::sleep(INSISTENCE).await;
        }
    }

    /// Sends SIGKILL to the children, but not to these. It repeats that while new children appear: a process may start
    /// another one and end before its turn comes. Returns whether any may be left.
    pub(super) fn kill_children(&self, but: &[Pid]) -> bool {
        let mut struck = HashSet::new();
        for _ in 0..STRIKES {
            let Ok(children) = self.children() else { return true };
            let left = children.into_iter().filter(|child| !but.contains(child)).collect::<Vec<_>>();
            if left.is_empty() {
                return but.is_empty() && !is_childless();
            }
            let mut is_any_new = false;
            for child in left {
                if let Ok(None) = waitpid(Some(child), WaitOptions::NOHANG) {
                    // The kernel gives its id to no other process before this one has waited for it.
                    let _gone = kill_process(child, Signal::KILL);
                    is_any_new |= struck.insert(child);
                }
            }
            if !is_any_new {
                return true;
            }
        }
        true
    }
}

/// Waits for all children that have ended. Returns whether no child is left. Then no descendant is left either: its parent
/// would be a child, or have ended and left it to this process.
pub(super) fn is_childless() -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return false,
            Err(_) => return true,
        }
    }
}
