//! A server as a process of this machine.
//!
//! A test process can end in ways that run no destructor. So each server has a keeper, a small shell that holds the read
//! end of a pipe from the test process. When the pipe closes, for whatever reason, the keeper kills the server and removes
//! its directory. The keeper has a process group of its own, or Ctrl-C would end it before it has done so.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tempfile::TempDir;

use super::log::tail;
use crate::Error;
use crate::config::{Layout, Member, Options};
use crate::ports::Port;

const CONFIG: &str = "zoo.cfg";

/// How long a process may take to stop.
const PATIENCE: Duration = Duration::from_secs(10);

const MAIN: &str = "org.apache.zookeeper.server.quorum.QuorumPeerMain";

/// Its arguments are the server's directory, then the server's command line. It prints the server's process id, and ends as
/// the server ends.
const KEEPER: &str = r#"
directory=$1; shift
exec 3<&0
"$@" </dev/null 3<&- >>"$directory/log" 2>&1 &
server=$!
( read -r _ <&3; kill -9 $server; rm -rf "$directory" ) >/dev/null 2>&1 &
guard=$!
exec 3<&-
echo $server
exec >/dev/null
wait $server
status=$?
kill $guard
exit $status
"#;

/// A ZooKeeper that this machine can run.
#[derive(Clone, Debug)]
pub(crate) struct Installation {
    java: PathBuf,
    class_path: String,
    /// The classes of a server, archived by a Java machine with this class path: a server then starts in little more than half the time.
    archive: Option<PathBuf>,
}

impl Installation {
    /// Looks for Java and ZooKeeper. The error says what is missing.
    pub(crate) fn find() -> Result<Self, String> {
        let java = match std::env::var_os("JAVA_HOME") {
            Some(home) => PathBuf::from(home).join("bin/java"),
            None => on_path("java").ok_or("no `java` on PATH; apt-get install zookeeper brings one")?,
        };
        if let Some(home) = std::env::var_os("ZOOKEEPER_HOME") {
            let home = PathBuf::from(home);
            let jars = home.join("lib");
            if !jars.is_dir() {
                return Err(format!("ZOOKEEPER_HOME has no directory {}", jars.display()));
            }
            let archive = Some(home.join("classes.jsa")).filter(|archive| archive.exists());
            return Ok(Self { java, class_path: format!("{}/*", jars.display()), archive });
        }
        let jars = Path::new("/usr/share/java");
        let jar = jars.join("zookeeper.jar");
        if !jar.exists() {
            return Err(format!(
                "no {}; apt-get install zookeeper, or unpack a release and set ZOOKEEPER_HOME",
                jar.display()
            ));
        }
        // The package logs nowhere by itself. This binding, if it is installed, sends warnings to standard error.
        let logger = jars.join("slf4j-simple.jar");
        // Netty needs this to speak TLS, and the package's own class path lacks it.
        let codec = jars.join("netty-codec.jar");
        let class_path = format!("{}:{}:{}", jar.display(), logger.display(), codec.display());
        Ok(Self { java, class_path, archive: None })
    }
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(program)).find(|file| file.is_file())
}

#[derive(Debug)]
pub(crate) struct Process {
    command: Vec<String>,
    layout: Layout,
    pub(super) client: Port,
    quorum: Port,
    election: Port,
    running: Mutex<Option<Running>>,
    directory: TempDir,
}

#[derive(Debug)]
struct Running {
    keeper: Child,
    server: Pid,
    /// Kept apart from the child, whose `wait` would close it. Closing it removes the server's data.
    _pipe: Option<ChildStdin>,
}

impl Process {
    pub(crate) fn new(
        installation: &Installation,
        index: usize,
        peers: &[Member],
        options: &Options,
    ) -> Result<Self, Error> {
        let (client, quorum, election) = (Port::reserve()?, Port::reserve()?, Port::reserve()?);
        let directory = tempfile::Builder::new()
            .prefix("zookeeper-")
            .tempdir()
            .map_err(Error::io("make a directory for ZooKeeper's data"))?;
        let data = directory.path().join("data");
        let own = Member {
            id: index + 1,
            host: "127.0.0.1".into(),
            quorum_port: quorum.number,
            election_port: election.number,
        };
        let layout = Layout {
            conf: directory.path().display().to_string(),
            data: data.display().to_string(),
            data_log: data.display().to_string(),
            client_host: "127.0.0.1".into(),
            client_port: client.number,
            members: own.among(peers),
        };
        let config = directory.path().join(CONFIG);
        let version = data.join("version-2");
        let write = |path: &Path, bytes: &[u8]| {
            fs::write(path, bytes).map_err(Error::io(format!("write {}", path.display())))
        };
        fs::create_dir_all(&version).map_err(Error::io(format!("create {}", version.display())))?;
        write(&config, options.zoo_cfg(&layout).as_bytes())?;
        write(&data.join("myid"), (index + 1).to_string().as_bytes())?;
        for (name, bytes) in options.conf_files() {
            write(&directory.path().join(name), bytes)?;
        }
        for (name, bytes) in &options.data_files {
            write(&version.join(name), bytes)?;
        }

        let mut command = vec![installation.java.display().to_string()];
        command.push("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn".into());
        command.push("-Dorg.apache.logging.log4j.level=warn".into());
        let archive = installation.archive.as_ref();
        command.extend(archive.map(|archive| format!("-XX:SharedArchiveFile={}", archive.display())));
        command.extend(options.jvm_flags());
        command.extend(["-cp".into(), installation.class_path.clone(), MAIN.into()]);
        command.push(config.display().to_string());
        Ok(Self { command, layout, client, quorum, election, running: Mutex::default(), directory })
    }

    pub(crate) async fn start(&self) -> Result<(), Error> {
        let failed = || Error::io("start ZooKeeper's process (needs sh and java)");
        let mut keeper = Command::new("sh")
            .args(["-c", KEEPER, "zookeeper-keeper"])
            .arg(self.directory.path())
            .args(&self.command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(failed())?;
        let pipe = keeper.stdin.take();
        let mut line = String::new();
        if let Some(output) = keeper.stdout.take() {
            BufReader::new(output).read_line(&mut line).map_err(failed())?;
        }
        let server = line.trim().parse().ok().and_then(Pid::from_raw);
        let server =
            server.ok_or_else(|| failed()(std::io::Error::other("the shell printed no process id")))?;
        *self.running() = Some(Running { keeper, server, _pipe: pipe });
        Ok(())
    }

    pub(crate) async fn configure(&self, options: &Options) -> Result<(), Error> {
        let config = self.directory.path().join(CONFIG);
        fs::write(&config, options.zoo_cfg(&self.layout))
            .map_err(Error::io(format!("write {}", config.display())))
    }

    pub(crate) async fn kill(&self) -> Result<(), Error> {
        if let Some(mut running) = self.running().take() {
            running.end().map_err(Error::io("wait for ZooKeeper's process to end"))?;
        }
        Ok(())
    }

    /// Returns once every thread has stopped. The signal reaches one after the other, and on a busy machine the rest go on
    /// answering for a while.
    pub(crate) async fn pause(&self) -> Result<(), Error> {
        self.signal(Signal::STOP)?;
        let Some(server) = self.running().as_ref().map(|running| running.server) else { return Ok(()) };
        let deadline = Instant::now() + PATIENCE;
        while has_a_thread_that_runs(server) {
            if Instant::now() > deadline {
                self.signal(Signal::CONT)?;
                return Err(Error::io("stop ZooKeeper's process")(std::io::ErrorKind::TimedOut.into()));
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    pub(crate) async fn unpause(&self) -> Result<(), Error> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<(), Error> {
        match &*self.running() {
            Some(running) => kill_process(running.server, signal)
                .map_err(|source| Error::io("signal ZooKeeper's process")(source.into())),
            None => Ok(()),
        }
    }

    pub(crate) async fn has_exited(&self) -> bool {
        match &mut *self.running() {
            Some(running) => {
                // The keeper ends right after the server.
                let is_gone = test_kill_process(running.server).is_err();
                let ended = if is_gone { running.keeper.wait().map(Some) } else { running.keeper.try_wait() };
                !matches!(ended, Ok(None))
            }
            None => true,
        }
    }

    pub(crate) async fn log(&self) -> String {
        let log = tail(&fs::read_to_string(self.directory.path().join("log")).unwrap_or_default());
        match self.running().as_mut().map(|running| running.keeper.try_wait()) {
            // A process that is killed has logged nothing of that.
            Some(Ok(Some(status))) => format!("{log}\nits process ended with {status}"),
            _ => log,
        }
    }

    pub(crate) fn peer_addresses(&self) -> Option<(String, String)> {
        Some((self.quorum.address(), self.election.address()))
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a thread of this process is in another state than stopped. A process that is gone has none, and neither has one
/// where there is no `/proc`.
fn has_a_thread_that_runs(process: Pid) -> bool {
    let threads = fs::read_dir(format!("/proc/{}/task", process.as_raw_nonzero()));
    let mut states = threads.into_iter().flatten().flatten().filter_map(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).ok()?;
        // The state comes behind the name, which is in parentheses and may contain any.
        stat.rsplit_once(") ")?.1.chars().next()
    });
    states.any(|state| !"TtZX".contains(state))
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(mut running) = self.running().take() {
            let _ = running.end();
        }
    }
}

impl Running {
    fn end(&mut self) -> std::io::Result<()> {
        // The keeper ends with the server. While the keeper runs, no other process has the server's id.
        if self.keeper.try_wait()?.is_none() {
            let _ = kill_process(self.server, Signal::KILL);
            self.keeper.wait()?;
        }
        Ok(())
    }
}
