//! Servers that are processes of ours.

use std::ffi::OsStr;
use std::process::Stdio;

use anyhow::Context;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// Prints the server's process id. Ends the server when the shell's standard input is closed: when we end, however that comes about.
const KEEPER: &str = r#""$@" </dev/null >/dev/null & echo $!; read -r _; kill -9 $!"#;

/// A server in a process of its own, in the background. Dropping it ends the server.
pub(super) struct Kept {
    _keeper: Child,
    process: u32,
}

impl Kept {
    /// Starts a program with these arguments. Nobody sees what it prints. A program that is not there is a server that does not answer.
    pub(super) async fn start<A: AsRef<OsStr>>(
        program: impl AsRef<OsStr>,
        arguments: impl IntoIterator<Item = A>,
    ) -> anyhow::Result<Self> {
        let mut shell = Command::new("sh");
        shell.args(["-c", KEEPER, "keeper"]).arg(program).args(arguments);
        // Ctrl-C is for us: the server ends when we do.
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        let mut keeper = shell.spawn().context("cannot start a shell for a server")?;
        let mut line = String::new();
        BufReader::new(keeper.stdout.take().context("a pipe")?).read_line(&mut line).await?;
        Ok(Self { _keeper: keeper, process: line.trim().parse().context("the shell printed no process id")? })
    }

    /// The server's process id.
    pub(super) fn process(&self) -> u32 {
        self.process
    }
}
