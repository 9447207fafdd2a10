//! The servers: three of ZooKeeper, three of etcd, one of Redis, one of PostgreSQL. All write to disk as a default installation does.

use std::any::Any;

use anyhow::Context;
use zklock_proof::kept::Kept;
use zklock_test_support::Postgres;
use zklock_testcontainers::{Ensemble, Link};
use zookeeper_client::{Acls, Client, CreateMode};

use super::etcd::Etcd;
use super::reach::{free_port, until_it_listens};
use crate::contestant::Service;

pub(super) struct Servers {
    pub(super) service: Service,
    /// A follower comes first.
    pub(super) addresses: Vec<String>,
    pub(super) links: Vec<Link>,
    kind: Kind,
}

enum Kind {
    ZooKeeper(Ensemble),
    Etcd(Etcd),
    One { _server: Box<dyn Any> },
}

impl Servers {
    pub(super) async fn start(service: Service) -> anyhow::Result<Self> {
        let (kind, addresses) = match service {
            Service::ZooKeeper => {
                // As ZooKeeper's own defaults are.
                let builder = Ensemble::builder(3).java_property("zookeeper.forceSync", "yes");
                let ensemble = builder.java_property("zookeeper.preAllocSize", "65536").start().await?;
                let addresses = (0..ensemble.len()).map(|server| ensemble.address(server)).collect();
                (Kind::ZooKeeper(ensemble), addresses)
            }
            Service::Etcd => {
                let etcd = Etcd::start().await?;
                let addresses = etcd.addresses();
                (Kind::Etcd(etcd), addresses)
            }
            Service::Redis => redis().await?,
            Service::Postgres => postgres().await?,
        };
        let mut servers = Self { service, addresses, links: Vec::new(), kind };
        let follower = servers.follower().await?.unwrap_or_default();
        servers.addresses.rotate_left(follower);
        for address in &servers.addresses {
            servers.links.push(servers.link(address).await?);
        }
        Ok(servers)
    }

    pub(super) async fn link(&self, address: &str) -> anyhow::Result<Link> {
        Ok(match self.service {
            Service::ZooKeeper => Link::start(address).await?,
            _ => Link::start_unframed(address).await?,
        })
    }

    /// Makes a place for a lock, where its client does not.
    pub(super) async fn prepare(&self, path: &str) -> anyhow::Result<()> {
        if let Kind::ZooKeeper(ensemble) = &self.kind {
            // A session that is kept could be at a server that is cut off meanwhile.
            let client = Client::connect(&ensemble.connect_string()).await?;
            client.mkdir(path, &CreateMode::Persistent.with_acls(Acls::anyone_all())).await?;
        }
        Ok(())
    }

    /// How many requests clients have sent: through the links, or by the servers' own count. PostgreSQL counts none.
    pub(super) async fn requests(&self) -> anyhow::Result<Option<u64>> {
        Ok(match &self.kind {
            Kind::ZooKeeper(..) => Some(self.links.iter().map(|link| link.counts().requests).sum()),
            Kind::Etcd(etcd) => Some(etcd.requests().await?),
            Kind::One { .. } if self.service == Service::Redis => {
                // Commands that a script calls are not the client's.
                let own = ["cmdstat_set:", "cmdstat_eval:", "cmdstat_subscribe:", "cmdstat_unsubscribe:"];
                let client = redis::Client::open(format!("redis://{}", self.addresses.concat()))?;
                let mut connection = client.get_multiplexed_async_connection().await?;
                let stats: String =
                    redis::cmd("INFO").arg("commandstats").query_async(&mut connection).await?;
                let lines =
                    stats.lines().filter_map(|line| own.iter().find_map(|own| line.strip_prefix(own)));
                let calls = lines.filter_map(|line| line.strip_prefix("calls=")?.split(',').next());
                Some(calls.map(str::parse::<u64>).sum::<Result<_, _>>()?)
            }
            Kind::One { .. } => None,
        })
    }

    /// A server that follows, by its place among the servers as they were started; `None` where one server is all.
    pub(super) async fn follower(&self) -> anyhow::Result<Option<usize>> {
        Ok(match &self.kind {
            Kind::ZooKeeper(ensemble) => Some(*ensemble.followers().await?.first().context("no follower")?),
            Kind::Etcd(etcd) => Some(etcd.follower().await?),
            Kind::One { .. } => None,
        })
    }

    /// The address of a server by its place as it was started, and of another one.
    pub(super) fn sides(&self, server: usize) -> (String, String) {
        let address = |server: usize| match &self.kind {
            Kind::ZooKeeper(ensemble) => ensemble.address(server % ensemble.len()),
            Kind::Etcd(etcd) => etcd.addresses().swap_remove(server % self.addresses.len()),
            Kind::One { .. } => self.addresses.concat(),
        };
        (address(server), address(server + 1))
    }

    /// Drops every byte between a server and the others. Clients still reach it.
    pub(super) async fn isolate(&self, server: usize) -> anyhow::Result<()> {
        match &self.kind {
            Kind::ZooKeeper(ensemble) => ensemble.isolate(server).await?,
            Kind::Etcd(etcd) => etcd.isolate(server),
            Kind::One { .. } => {}
        }
        Ok(())
    }

    /// Connects all servers again, and waits until they serve.
    pub(super) async fn heal(&self) -> anyhow::Result<()> {
        match &self.kind {
            Kind::ZooKeeper(ensemble) => {
                ensemble.heal().await?;
                ensemble.wait_until_serving().await?;
            }
            Kind::Etcd(etcd) => etcd.heal().await?,
            Kind::One { .. } => {}
        }
        Ok(())
    }
}

async fn redis() -> anyhow::Result<(Kind, Vec<String>)> {
    let (directory, port) = (tempfile::tempdir()?, free_port().await?);
    let (port_text, path) = (port.to_string(), directory.path().display().to_string());
    let arguments = ["--bind", "127.0.0.1", "--port", &port_text, "--dir", &path];
    let server = Kept::start("redis-server", arguments).await?;
    until_it_listens("redis-server", port).await?;
    Ok((Kind::One { _server: Box::new((server, directory)) }, vec![format!("127.0.0.1:{port}")]))
}

async fn postgres() -> anyhow::Result<(Kind, Vec<String>)> {
    let port = free_port().await?;
    let server = Postgres::start(&["-h", "127.0.0.1", "-p", &port.to_string()]);
    until_it_listens("postgres", port).await?;
    Ok((Kind::One { _server: Box::new(server) }, vec![format!("127.0.0.1:{port}")]))
}
