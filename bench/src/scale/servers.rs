//! The servers that are measured, and what they and this process have done so far.

use std::collections::HashMap;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use zklock_testcontainers::{Backend, Ensemble};

use crate::processor;

/// How long the servers may take to come to rest.
const PATIENCE: Duration = Duration::from_secs(120);

/// Servers that show the same twice, so far apart, are at rest.
const REST: Duration = Duration::from_secs(2);

pub(super) struct Servers {
    ensemble: Ensemble,
    /// Their processes. The first one leads.
    processes: Vec<(usize, String)>,
}

/// What has been done until an instant.
pub(super) struct Figures {
    at: Instant,
    /// One for each server, the leader's first.
    servers: Vec<Done>,
    /// How many transactions there were.
    transactions: u64,
    own: Duration,
}

struct Done {
    processor: HashMap<String, Duration>,
    requests: u64,
    flushes: u64,
}

/// What was done between two instants, a second.
pub(super) struct Rates {
    /// Of all servers.
    pub(super) requests: f64,
    pub(super) transactions: f64,
    /// How often the leader flushed its log.
    pub(super) flushes: f64,
    /// The processor time of the leader, of the other servers on average, and of this process, in seconds a second.
    pub(super) leader: f64,
    pub(super) follower: f64,
    pub(super) own: f64,
    /// The leader's threads that took most, with their names.
    pub(super) busiest: Vec<(String, f64)>,
}

impl Servers {
    /// Starts so many servers, as processes of this machine. If they `force`, they wait for the disk at each flush.
    pub(super) async fn start(count: usize, force: bool) -> anyhow::Result<Self> {
        let force = if force { "yes" } else { "no" };
        let ensemble = Ensemble::builder(count)
            .backend(Backend::Local)
            .java_property("zookeeper.forceSync", force)
            // The leader would delete the directories of the last locks while it is measured beside the next ones.
            .java_property("znode.container.checkIntervalMs", "86400000")
            .start()
            .await
            .context("cannot start the servers")?;
        let leader = if count == 1 { 0 } else { ensemble.leader().await? };
        let mut processes = Vec::new();
        for index in (0..count).map(|offset| (leader + offset) % count) {
            processes.push((index, process(&ensemble.admin(index, "conf").await?)?));
        }
        Ok(Self { ensemble, processes })
    }

    pub(super) fn connect_string(&self) -> String {
        self.ensemble.connect_string()
    }

    /// The address of one of the servers, of each in turn.
    pub(super) fn address(&self, number: usize) -> String {
        self.ensemble.address(number % self.ensemble.len())
    }

    /// What has been done so far.
    pub(super) async fn figures(&self) -> anyhow::Result<Figures> {
        let mut servers = Vec::new();
        for (index, process) in &self.processes {
            let told = self.ensemble.admin(*index, "mntr").await?;
            servers.push(Done {
                processor: processor::threads(process)?,
                requests: value(&told, "zk_packets_received")?,
                flushes: value(&told, "zk_cnt_fsynctime")?,
            });
        }
        let leader = self.processes.first().context("no server")?.0;
        let told = self.ensemble.admin(leader, "srvr").await?;
        let zxid = told.lines().find_map(|line| line.strip_prefix("Zxid: 0x")).context("no zxid")?;
        // Its lower half counts the transactions of this leader.
        let transactions = u64::from_str_radix(zxid, 16)? & u64::from(u32::MAX);
        Ok(Figures { at: Instant::now(), servers, transactions, own: processor::spent("self")? })
    }

    /// How many watches and how many nodes there are: watches of all servers, nodes of one.
    pub(super) async fn contents(&self) -> anyhow::Result<(u64, u64)> {
        let (mut watches, mut nodes) = (0, 0);
        for (index, _) in &self.processes {
            let told = self.ensemble.admin(*index, "mntr").await?;
            watches += value(&told, "zk_watch_count")?;
            nodes = value(&told, "zk_znode_count")?;
        }
        Ok((watches, nodes))
    }

    /// Returns once watches and nodes do not change any more.
    pub(super) async fn rest(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let mut last = self.contents().await?;
        loop {
            tokio::time::sleep(REST).await;
            let contents = self.contents().await?;
            if std::mem::replace(&mut last, contents) == contents {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "the servers do not come to rest: {contents:?}");
        }
    }

    /// The memory that live objects take, in bytes, in all servers together. Each collects its garbage first.
    pub(super) fn memory(&self) -> anyhow::Result<u64> {
        let mut sum = 0;
        for (_, process) in &self.processes {
            let output = Command::new("jcmd").args([process, "GC.class_histogram"]).output();
            let output = output.context("cannot run jcmd, which comes with a JDK")?;
            let text = String::from_utf8_lossy(&output.stdout);
            let total =
                text.lines().find_map(|line| line.strip_prefix("Total")).context("jcmd tells no total")?;
            sum += total.split_whitespace().nth(1).context("no bytes")?.parse::<u64>()?;
        }
        Ok(sum)
    }
}

impl Figures {
    pub(super) fn since(&self, before: &Self) -> Rates {
        let seconds = (self.at - before.at).as_secs_f64();
        let per_second = |after: u64, before: u64| after.saturating_sub(before) as f64 / seconds;
        let both = || self.servers.iter().zip(&before.servers);
        let spent = |after: &Done, before: &Done| {
            let sum = |done: &Done| done.processor.values().sum::<Duration>();
            sum(after).saturating_sub(sum(before)).as_secs_f64() / seconds
        };
        let processor: Vec<f64> = both().map(|(after, before)| spent(after, before)).collect();
        let (leader, followers) =
            processor.split_first().map_or((0.0, &[][..]), |(first, rest)| (*first, rest));
        let mut busiest = Vec::new();
        if let Some((after, before)) = both().next() {
            busiest.extend(after.processor.iter().map(|(name, spent)| {
                let before = before.processor.get(name).copied().unwrap_or_default();
                (name.clone(), spent.saturating_sub(before).as_secs_f64() / seconds)
            }));
        }
        busiest.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        busiest.truncate(6);
        Rates {
            requests: both().map(|(after, before)| per_second(after.requests, before.requests)).sum(),
            transactions: per_second(self.transactions, before.transactions),
            flushes: both().next().map_or(0.0, |(after, before)| per_second(after.flushes, before.flushes)),
            leader,
            follower: followers.iter().sum::<f64>() / followers.len().max(1) as f64,
            own: self.own.saturating_sub(before.own).as_secs_f64() / seconds,
            busiest,
        }
    }
}

/// A figure of `mntr`.
fn value(told: &str, name: &str) -> anyhow::Result<u64> {
    let line = told.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('\t'));
    Ok(line.with_context(|| format!("no {name} in {told:?}"))?.trim().parse()?)
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
