//! All the processes that descend from this one.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, kill_process_group, set_child_subreaper, wait, waitpid,
};

/// How often SIGKILL is sent to what is still there: something may have been starting another one.
pub(super) const INSISTENCE: Duration = Duration::from_millis(5);

/// How often to look for new children in a row. However fast they are started, whoever looks has a clock to keep, too.
const STRIKES: usize = 50;

/// How long SIGKILL may take to be carried out before somebody should know.
pub(crate) const STUCK: Duration = Duration::from_secs(1);

/// Whatever descends from this process. It is our child, or becomes that when its parent ends.
#[derive(Debug)]
pub(crate) struct Descendants {
    /// Where the kernel lists the children of our main thread. All are: it is the one that starts processes, and the one to
    /// which orphans are given. Open all the time, so that neither what is mounted over `/proc` later nor a lack of file
    /// descriptors hides anybody.
    list: File,
}

impl Descendants {
    /// Has every descendant whose parent ends become a child of this process. An error if we could not find it then.
    pub(crate) fn adopt() -> io::Result<Self> {
        // By number: it is not there in the `/proc` of another pid namespace.
        let path = format!("/proc/self/task/{}/children", getpid().as_raw_pid());
        let needed = |error: io::Error| {
            io::Error::new(error.kind(), format!("this namespace's {path} is needed: {error}"))
        };
        let descendants = Self { list: File::open(&path).map_err(needed)? };
        descendants.children().map_err(needed)?;
        set_child_subreaper(Some(getpid()))?;
        Ok(descendants)
    }

    /// Our children, those included that have ended and were not waited for. After an error there may be any.
    pub(crate) fn children(&self) -> io::Result<Vec<Pid>> {
        let mut list = String::new();
        (&self.list).rewind()?;
        (&self.list).read_to_string(&mut list)?;
        Ok(list.split_ascii_whitespace().filter_map(|id| id.parse().ok()).filter_map(Pid::from_raw).collect())
    }

    /// Sends SIGKILL to a process group, and to everything that descends from us but these and what descends from them,
    /// until nothing else does.
    pub(crate) async fn kill_all(&self, group: Option<Pid>, but: &[Pid]) {
        if let Some(group) = group {
            let _gone = kill_process_group(group, Signal::KILL);
        }
        while self.strike(but) {
            tokio::time::sleep(INSISTENCE).await;
        }
    }

    /// Sends SIGKILL to our children but these; again and again while there are new ones, because one that starts another
    /// and ends is gone when its turn comes. Whether there may be any left.
    pub(super) fn strike(&self, but: &[Pid]) -> bool {
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
                    // Nobody else is given its id before we have waited for it.
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

/// Waits for all children that have ended. If there are none, nothing descends from us: whatever did would have become
/// our child.
pub(super) fn is_childless() -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return false,
            Err(_) => return true,
        }
    }
}
