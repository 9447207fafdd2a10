//! A Postgres server of the test's own.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;

use rustix::process::{Pid, Signal, geteuid, kill_process};
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tempfile::TempDir;
use zklock_test_support::eventually;

/// Debian's user `nobody`: Postgres refuses to run as root.
const NOBODY: u32 = 65534;

/// A server that has nothing but what the test puts there. It goes when it is dropped.
pub(crate) struct Server {
    process: Child,
    directory: TempDir,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let directory = TempDir::with_prefix("zklock-postgres-").expect("a directory");
        if geteuid().is_root() {
            chown(directory.path(), Some(NOBODY), Some(NOBODY)).expect("the directory is theirs");
        }
        let programs = programs();
        let data = directory.path().join("data");
        let made = program(&programs.join("initdb"))
            .args([
                "--username=postgres",
                "--auth=trust",
                "--no-sync",
                "--encoding=UTF8",
                "--locale=C",
                "--pgdata",
            ])
            .arg(&data)
            .output()
            .expect("initdb");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut server = program(&programs.join("postgres"));
        server.args(["-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=40", "-k"]);
        server.arg(directory.path()).arg("-D").arg(&data);
        let process = server.stderr(Stdio::null()).spawn().expect("postgres");
        let server = Self { process, directory };
        eventually("Postgres answers", async || PgPool::connect_with(server.options()).await.is_ok()).await;
        server
    }

    /// How to connect to it.
    pub(crate) fn options(&self) -> PgConnectOptions {
        PgConnectOptions::new().socket(self.directory.path()).username("postgres").database("postgres")
    }

    /// Opens so many connections at most, with these settings of the server.
    pub(crate) fn pool(&self, connections: u32, settings: &[(&str, &str)]) -> PgPool {
        let options = self.options().options(settings.iter().copied());
        PgPoolOptions::new().max_connections(connections).connect_lazy_with(options)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let id = Pid::from_raw(self.process.id().cast_signed()).expect("a process id");
        // An immediate shutdown. Killed, it would leave its shared memory.
        kill_process(id, Signal::QUIT).expect("a signal");
        self.process.wait().expect("its end");
    }
}

fn program(path: &Path) -> Command {
    let mut command = Command::new(path);
    command.stdin(Stdio::null()).stdout(Stdio::null()).current_dir("/");
    if geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

/// Where the server's programs are. It installs them if they are not there.
fn programs() -> PathBuf {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/have-postgres.sh");
    let found = Command::new(script).stderr(Stdio::inherit()).output().expect("the script");
    assert!(found.status.success());
    PathBuf::from_str(String::from_utf8(found.stdout).expect("a path").trim_end()).expect("a path")
}
