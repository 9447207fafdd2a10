//! Three members of etcd, which reach each other only through links.
//!
//! etcd has one address of a member for all others. So a listener at that address finds out which member connects, by its process,
//! and leads it to the link of these two.

use std::path::Path;

use anyhow::Context;
use futures::future::join_all;
use tempfile::TempDir;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use zklock_test_support::eventually;
use zklock_testcontainers::Link;

use super::kept::Kept;
use super::reach::{free_port, get};

const MEMBERS: usize = 3;

pub(super) struct Etcd {
    members: Vec<Member>,
    /// From one member to another.
    links: Vec<(usize, usize, Link)>,
    _fronts: JoinSet<()>,
    _directory: TempDir,
}

struct Member {
    server: Kept,
    address: String,
}

impl Etcd {
    pub(super) async fn start() -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let (mut fronts, mut ports) = (Vec::new(), Vec::new());
        for _ in 0..MEMBERS {
            fronts.push(TcpListener::bind(("127.0.0.1", 0)).await?);
            ports.push((free_port().await?, free_port().await?));
        }
        let urls: Vec<_> = fronts
            .iter()
            .map(|front| Ok(format!("http://{}", front.local_addr()?)))
            .collect::<std::io::Result<_>>()?;
        let cluster: Vec<_> =
            urls.iter().enumerate().map(|(member, url)| format!("m{member}={url}")).collect();
        let mut members = Vec::new();
        for (member, ((client, peer), url)) in ports.iter().zip(&urls).enumerate() {
            let client = format!("http://127.0.0.1:{client}");
            let arguments = [
                format!("--name=m{member}"),
                format!("--data-dir={}/m{member}", directory.path().display()),
                format!("--listen-client-urls={client}"),
                format!("--advertise-client-urls={client}"),
                format!("--listen-peer-urls=http://127.0.0.1:{peer}"),
                format!("--initial-advertise-peer-urls={url}"),
                format!("--initial-cluster={}", cluster.join(",")),
            ];
            let server = Kept::start("etcd", arguments).await?;
            members.push(Member { server, address: client.replace("http://", "") });
        }
        let mut links = Vec::new();
        for (to, (_, peer)) in ports.iter().enumerate() {
            for from in (0..MEMBERS).filter(|from| *from != to) {
                links.push((from, to, Link::start_unframed(format!("127.0.0.1:{peer}")).await?));
            }
        }
        let mut tasks = JoinSet::new();
        for (to, front) in fronts.into_iter().enumerate() {
            let ways = members.iter().enumerate().filter_map(|(from, member)| {
                let (.., link) = links.iter().find(|(a, b, _)| (*a, *b) == (from, to))?;
                Some((member.server.process(), link.address()))
            });
            tasks.spawn(lead(front, ways.collect()));
        }
        let etcd = Self { members, links, _fronts: tasks, _directory: directory };
        etcd.until_healthy().await;
        Ok(etcd)
    }

    pub(super) fn addresses(&self) -> Vec<String> {
        self.members.iter().map(|member| member.address.clone()).collect()
    }

    async fn until_healthy(&self) {
        eventually("health of etcd, of `scripts/have-peers.sh all`", async || {
            let health = self.members.iter().map(|member| get(&member.address, "/health"));
            join_all(health)
                .await
                .into_iter()
                .all(|health| health.is_ok_and(|health| health.contains(r#""true""#)))
        })
        .await;
    }

    /// The sum of a counter or gauge over its labels, without the streams that keep leases alive.
    async fn metric(&self, member: &Member, name: &str) -> anyhow::Result<u64> {
        let metrics = get(&member.address, "/metrics").await?;
        let lines = metrics.lines().filter(|line| line.starts_with(name) && !line.contains("LeaseKeepAlive"));
        let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        Ok(values.sum::<f64>() as u64)
    }

    /// Requests, and messages of streams.
    pub(super) async fn requests(&self) -> anyhow::Result<u64> {
        let mut requests = 0;
        for member in &self.members {
            requests += self.metric(member, "grpc_server_msg_received_total{").await?;
        }
        Ok(requests)
    }

    pub(super) async fn follower(&self) -> anyhow::Result<usize> {
        for (index, member) in self.members.iter().enumerate() {
            if self.metric(member, "etcd_server_is_leader ").await? == 0 {
                return Ok(index);
            }
        }
        None.context("no follower")
    }

    fn links_of(&self, member: usize) -> impl Iterator<Item = &Link> {
        self.links.iter().filter(move |(from, to, _)| *from == member || *to == member).map(|(.., link)| link)
    }

    pub(super) fn isolate(&self, member: usize) {
        self.links_of(member).for_each(Link::black_hole);
    }

    pub(super) async fn heal(&self) {
        self.links.iter().for_each(|(.., link)| link.restore());
        self.until_healthy().await;
    }
}

/// Leads each member's connections to the link at its address.
async fn lead(front: TcpListener, ways: Vec<(u32, String)>) {
    let mut connections = JoinSet::new();
    while let Ok((mut from, peer)) = front.accept().await {
        let way =
            ways.iter().find(|(process, _)| has_connection_from(*process, peer.port()).unwrap_or_default());
        let Some((_, address)) = way.cloned() else { continue };
        connections.spawn(async move {
            let _ = from.set_nodelay(true);
            if let Ok(mut to) = TcpStream::connect(address).await {
                let _ = to.set_nodelay(true);
                let _ended = copy_bidirectional(&mut from, &mut to).await;
            }
        });
    }
}

/// Whether a process has a connection that comes from this port of loopback.
fn has_connection_from(process: u32, port: u16) -> std::io::Result<bool> {
    let end = format!("0100007F:{port:04X}");
    let connections = std::fs::read_to_string("/proc/net/tcp")?;
    let columns = connections.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let inode = columns.into_iter().find(|columns| columns.get(1) == Some(&end.as_str()));
    let Some(inode) = inode.and_then(|columns| columns.get(9).map(|inode| format!("socket:[{inode}]")))
    else {
        return Ok(false);
    };
    let files = Path::new("/proc").join(process.to_string()).join("fd").read_dir()?;
    Ok(files
        .flatten()
        .any(|file| std::fs::read_link(file.path()).is_ok_and(|path| path == Path::new(&inode))))
}
