//! The contenders' processes.

use std::io::{BufRead, BufReader, PipeReader, pipe};
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use anyhow::Context;
use tokio::process::{Child, Command};
use tokio::sync::mpsc::UnboundedSender;

use crate::args::Show;
use crate::record::Record;

/// All contenders' processes. When this value is dropped, the processes that still run are killed.
pub(crate) struct Processes {
    children: Vec<Child>,
}

impl Processes {
    /// Starts the contenders, and sends what they say to `heard`. The sender is dropped once all of them have ended.
    ///
    /// They share one pipe, so the conductor hears them in the order in which they spoke.
    pub(crate) fn start(
        show: &Show,
        servers: &str,
        lock: &str,
        counter: &Path,
        journal: &Path,
        heard: UnboundedSender<Record>,
    ) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("cannot find this program to start contenders")?;
        let (reader, writer) = pipe().context("cannot make a pipe")?;
        let mut children = Vec::new();
        for number in 1..=show.contenders {
            let child = Command::new(&program)
                .arg("contender")
                .args(["--number", &number.to_string()])
                .args(["--servers", servers])
                .args(["--lock", lock])
                .args(["--rounds", &show.rounds.to_string()])
                .args(["--hold", &show.hold.as_millis().to_string()])
                .args(["--session-timeout", &show.session_timeout.as_millis().to_string()])
                .arg("--counter")
                .arg(counter)
                .arg("--journal")
                .arg(journal)
                .stdin(Stdio::piped())
                .stdout(writer.try_clone().context("cannot share the pipe")?)
                .kill_on_drop(true)
                .spawn()
                .context("cannot start a contender")?;
            children.push(child);
        }
        // This is a thread, because a pipe of the standard library blocks. It ends with the last contender.
        std::thread::spawn(move || listen(reader, &heard));
        Ok(Self { children })
    }

    /// Kills one contender with SIGKILL, and returns once it is dead.
    pub(crate) async fn kill(&mut self, contender: u16) -> anyhow::Result<()> {
        let child = self.children.get_mut(usize::from(contender) - 1).context("no such contender")?;
        child.kill().await.with_context(|| format!("cannot kill contender {contender}"))
    }

    /// Returns how each contender ended. Contenders that still run are killed.
    pub(crate) async fn ends(mut self, still_running: bool) -> anyhow::Result<Vec<ExitStatus>> {
        let mut ends = Vec::new();
        for child in &mut self.children {
            if still_running {
                // This fails if the contender has just ended by itself. Then nothing is left to kill.
                let _ = child.start_kill();
            }
            // `wait` closes a contender's standard input, which ends the contender. By now all have ended.
            ends.push(child.wait().await.context("cannot wait for a contender")?);
        }
        Ok(ends)
    }
}

fn listen(reader: PipeReader, heard: &UnboundedSender<Record>) {
    for line in BufReader::new(reader).lines().map_while(Result::ok) {
        match serde_json::from_str(&line) {
            Ok(record) => {
                if heard.send(record).is_err() {
                    return;
                }
            }
            Err(_) => eprintln!("a contender said: {line}"),
        }
    }
}
