//! Locks of other clients, as real programs that are told what to do: `tests/peers`. `scripts/have-peers.sh` builds them.

use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;

/// Which client's lock it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// Apache Curator, in Java.
    Curator,
    /// kazoo, in Python.
    Kazoo,
    /// go-zookeeper.
    Go,
    /// etcd's own client, in Go.
    Etcd,
}

impl Client {
    /// The program, which is killed when its process is dropped. Its arguments are missing still.
    pub fn program(self) -> Command {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let peers = root.join("target/peers");
        let mut command = match self {
            Self::Curator => {
                let jars = root.join("target/zookeeper-3.9.5");
                let jars = format!("{0}:{1}/lib/*:{1}/curator/*", peers.display(), jars.display());
                let mut java = Command::new("java");
                java.args(["-Dorg.apache.logging.log4j.level=OFF", "-cp", &jars, "Peer"]);
                java
            }
            Self::Kazoo => {
                let mut python = Command::new("python3");
                python.env("PYTHONPATH", peers.join("kazoo-2.11.0"));
                python.arg(root.join("tests/peers/peer.py"));
                python
            }
            Self::Go => Command::new(peers.join("peer")),
            Self::Etcd => Command::new(peers.join("etcd-peer")),
        };
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        command
    }
}
