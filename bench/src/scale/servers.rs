//! The servers that are measured, and what they have done so far.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use zklock_test_support::number;
use zklock_testcontainers::{Backend, Ensemble};

/// How many servers there are.
const SERVERS: usize = 3;

/// How long sessions may take to come, or to end.
const PATIENCE: Duration = Duration::from_secs(120);

/// How often to look whether they have.
const LOOK: Duration = Duration::from_secs(1);

pub(super) struct Servers {
    ensemble: Ensemble,
    leader: usize,
    /// The process of each server.
    processes: Vec<String>,
}

/// What was done in each second.
pub(super) struct Rates {
    /// What all servers received.
    pub(super) requests: f64,
    /// Seconds of the processor that the leader took, and each other server on average.
    pub(super) leader: f64,
    pub(super) follower: f64,
}

/// What was done until an instant.
struct Done {
    at: Instant,
    requests: u64,
    /// The processor time of each server.
    spent: Vec<Duration>,
}

impl Servers {
    /// Starts them as processes of this machine. They do not wait for the disk.
    pub(super) async fn start() -> anyhow::Result<Self> {
        let ensemble = Ensemble::builder(SERVERS).backend(Backend::Local).start().await;
        let ensemble = ensemble.context("cannot start the servers")?;
        let leader = ensemble.leader().await?;
        let mut processes = Vec::new();
        for index in 0..SERVERS {
            processes.push(process(&ensemble.admin(index, "conf").await?)?);
        }
        Ok(Self { ensemble, leader, processes })
    }

    pub(super) fn connect_string(&self) -> String {
        self.ensemble.connect_string()
    }

    /// Returns once there are so many sessions.
    pub(super) async fn wait_for_sessions(&self, count: usize) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let sessions = number(&self.ensemble.admin(self.leader, "mntr").await?, "zk_global_sessions");
            if usize::try_from(sessions)? == count {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "there are {sessions} sessions instead of {count}");
            tokio::time::sleep(LOOK).await;
        }
    }

    /// What the servers do within this time.
    pub(super) async fn rates(&self, window: Duration) -> anyhow::Result<Rates> {
        let before = self.done().await?;
        tokio::time::sleep(window).await;
        let after = self.done().await?;
        let seconds = (after.at - before.at).as_secs_f64();
        let spent = |index: usize| (after.spent[index] - before.spent[index]).as_secs_f64() / seconds;
        let followers = (0..SERVERS).filter(|index| *index != self.leader);
        Ok(Rates {
            requests: (after.requests - before.requests) as f64 / seconds,
            leader: spent(self.leader),
            follower: followers.map(spent).sum::<f64>() / (SERVERS - 1) as f64,
        })
    }

    async fn done(&self) -> anyhow::Result<Done> {
        let mut done = Done { at: Instant::now(), requests: 0, spent: Vec::new() };
        for (index, process) in self.processes.iter().enumerate() {
            done.requests += number(&self.ensemble.admin(index, "mntr").await?, "zk_packets_received");
            done.spent.push(spent(process)?);
        }
        Ok(done)
    }
}

/// The processor time of a process so far, in all its threads, also those that have ended.
fn spent(process: &str) -> anyhow::Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).context("needs Linux's /proc")?;
    // The name of the program stands in brackets, and may have blanks. Of what follows, the 12th and the 13th are the times in user
    // and kernel mode, in ticks.
    let (_, fields) = stat.rsplit_once(')').context("no name in stat")?;
    let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<u64>).sum::<Result<u64, _>>()?;
    Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

/// The process of a server, by what it says of its configuration: its command line names its directory.
fn process(conf: &str) -> anyhow::Result<String> {
    let data = conf.lines().find_map(|line| line.strip_prefix("dataDir=")).context("no dataDir in `conf`")?;
    let directory = data.split("/data").next().context("no directory")?;
    for process in std::fs::read_dir("/proc").context("needs Linux's /proc")? {
        let process = process?;
        let line = std::fs::read_to_string(process.path().join("cmdline")).unwrap_or_default();
        let mut words = line.split('\0');
        // Its keeper, a shell, has the same words behind other ones.
        if words.next().is_some_and(|program| program.ends_with("java")) && line.contains(directory) {
            return Ok(process.file_name().to_string_lossy().into_owned());
        }
    }
    anyhow::bail!("no process has the directory {directory}")
}
