//! A Postgres server of a test's own.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;

/// Debian's user `nobody`: Postgres refuses to run as root.
const NOBODY: u32 = 65534;

/// A server with one user, `postgres`, and nothing but what the test puts there. It goes when it is dropped.
#[derive(Debug)]
pub struct Postgres {
    process: Child,
    directory: TempDir,
}

impl Postgres {
    /// Starts it with these arguments, at a socket in its directory. It does not answer at once.
    pub fn start(arguments: &[&str]) -> Self {
        let directory = TempDir::with_prefix("zklock-postgres-").expect("a directory");
        if geteuid().is_root() {
            chown(directory.path(), Some(NOBODY), Some(NOBODY)).expect("the directory is theirs");
        }
        let programs = programs();
        let data = directory.path().join("data");
        let mut initdb = program(&programs.join("initdb"));
        initdb.args(["--username=postgres", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C"]);
        let made = initdb.arg("--pgdata").arg(&data).output().expect("initdb");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut server = program(&programs.join("postgres"));
        server.args(arguments).arg("-k").arg(directory.path()).arg("-D").arg(&data);
        let process = server.stderr(Stdio::null()).spawn().expect("postgres");
        Self { process, directory }
    }

    /// The directory that has its socket.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for Postgres {
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
    String::from_utf8(found.stdout).expect("a path").trim_end().into()
}
