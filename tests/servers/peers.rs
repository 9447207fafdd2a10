//! Locks of other clients, as real programs that are told what to do: `tests/peers`. `scripts/have-peers.sh` builds them.

pub(crate) use support::peers::Client;
use support::{Server, within};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

/// A lock of another client, in a process of its own.
pub(crate) struct Peer {
    process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    pub(crate) session: i64,
}

impl Peer {
    /// Starts a `mutex`, or the side of kazoo's read-write lock: `read`, `write`. More words are patterns that kazoo honours.
    pub(crate) async fn start(client: Client, server: &Server, path: &str, what: &[&str]) -> Self {
        let mut command = client.program();
        let mut process = command
            .args([&server.connect_string(), path])
            .args(what)
            // These Java machines are short-lived.
            .env("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")
            .spawn()
            .unwrap_or_else(|error| panic!("{client:?}: {error}; run scripts/have-peers.sh"));
        let input = process.stdin.take().expect("a pipe");
        let output = BufReader::new(process.stdout.take().expect("a pipe")).lines();
        let mut peer = Self { process, input, output, session: 0 };
        let said = peer.said().await;
        let session = said.strip_prefix("session 0x").expect("a session");
        peer.session = i64::from_str_radix(session, 16).expect("a number");
        peer
    }

    pub(crate) async fn said(&mut self) -> String {
        within("the peer's answer", self.output.next_line()).await.expect("it speaks").expect("it still runs")
    }

    pub(crate) async fn ask(&mut self, line: &str) -> String {
        self.input.write_all(format!("{line}\n").as_bytes()).await.expect("it listens");
        self.said().await
    }

    pub(crate) async fn release(&mut self) {
        assert_eq!(self.ask("release").await, "released");
    }

    /// Ends it as a crash does. Its session lives until it expires.
    pub(crate) async fn kill(&mut self) {
        self.process.kill().await.expect("it runs");
    }
}
