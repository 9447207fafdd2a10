//! The servers of each service: three of ZooKeeper, three of etcd, one of PostgreSQL. All write to disk as a default installation
//! does.

mod etcd;
mod kept;
mod reach;
mod rivals;

use std::any::Any;

use tokio_postgres::NoTls;
use zklock_test_support::{Postgres, eventually};
use zklock_testcontainers::{Ensemble, Link};
use zookeeper_client::{Acls, Client, CreateMode};

use crate::peers::Service;
use etcd::Etcd;
use reach::free_port;
pub(crate) use rivals::{Rivals, granted};

pub(crate) struct Servers {
    pub(crate) service: Service,
    /// A follower comes first.
    addresses: Vec<String>,
    pub(crate) links: Vec<Link>,
    kind: Kind,
}

enum Kind {
    ZooKeeper(Ensemble),
    Etcd(Etcd),
    One { _server: Box<dyn Any> },
}

impl Servers {
    pub(crate) async fn start(service: Service) -> anyhow::Result<Self> {
        match service {
            // As ZooKeeper's own defaults are.
            Service::ZooKeeper => {
                let builder = Ensemble::builder(3).java_property("zookeeper.forceSync", "yes");
                let ensemble = builder.java_property("zookeeper.preAllocSize", "65536").start().await?;
                let addresses = (0..ensemble.len()).map(|server| ensemble.address(server)).collect();
                Self::of(service, Kind::ZooKeeper(ensemble), addresses).await
            }
            Service::Etcd => {
                let etcd = Etcd::start().await?;
                let addresses = etcd.addresses();
                Self::of(service, Kind::Etcd(etcd), addresses).await
            }
            Service::Postgres => postgres().await,
        }
    }

    async fn of(service: Service, kind: Kind, addresses: Vec<String>) -> anyhow::Result<Self> {
        let mut servers = Self { service, addresses, links: Vec::new(), kind };
        let follower = servers.follower().await?.unwrap_or_default();
        servers.addresses.rotate_left(follower);
        for address in &servers.addresses {
            servers.links.push(servers.link(address).await?);
        }
        Ok(servers)
    }

    pub(crate) async fn link(&self, address: &str) -> anyhow::Result<Link> {
        Ok(match self.service {
            Service::ZooKeeper => Link::start(address).await?,
            _ => Link::start_unframed(address).await?,
        })
    }

    /// Makes a place for a lock, where its client does not.
    pub(crate) async fn prepare(&self, path: &str) -> anyhow::Result<()> {
        if let Kind::ZooKeeper(ensemble) = &self.kind {
            // A session that is kept could be at a server that is cut off meanwhile.
            let client = Client::connect(&ensemble.connect_string()).await?;
            client.mkdir(path, &CreateMode::Persistent.with_acls(Acls::anyone_all())).await?;
        }
        Ok(())
    }

    /// How many requests clients have sent: through the links, or by the servers' own count. PostgreSQL counts none.
    pub(crate) async fn requests(&self) -> anyhow::Result<Option<u64>> {
        Ok(match &self.kind {
            Kind::ZooKeeper(..) => Some(self.links.iter().map(|link| link.counts().requests).sum()),
            Kind::Etcd(etcd) => Some(etcd.requests().await?),
            Kind::One { .. } => None,
        })
    }

    /// A server that follows, by its place among the servers as they were started; `None` where one server is all.
    pub(crate) async fn follower(&self) -> anyhow::Result<Option<usize>> {
        Ok(match &self.kind {
            Kind::ZooKeeper(ensemble) => ensemble.followers().await?.first().copied(),
            Kind::Etcd(etcd) => Some(etcd.follower().await?),
            Kind::One { .. } => None,
        })
    }

    /// The address of a server by its place as it was started, or of the one that it comes round to.
    fn address(&self, server: usize) -> String {
        match &self.kind {
            Kind::ZooKeeper(ensemble) => ensemble.address(server % ensemble.len()),
            Kind::Etcd(etcd) => etcd.addresses().swap_remove(server % self.addresses.len()),
            Kind::One { .. } => self.addresses.concat(),
        }
    }

    /// Drops every byte between a server and the others. Clients still reach it.
    pub(crate) async fn isolate(&self, server: usize) -> anyhow::Result<()> {
        match &self.kind {
            Kind::ZooKeeper(ensemble) => ensemble.isolate(server).await?,
            Kind::Etcd(etcd) => etcd.isolate(server),
            Kind::One { .. } => {}
        }
        Ok(())
    }

    /// Connects all servers again, and waits until they serve.
    pub(crate) async fn heal(&self) -> anyhow::Result<()> {
        match &self.kind {
            Kind::ZooKeeper(ensemble) => {
                ensemble.heal().await?;
                ensemble.wait_until_serving().await?;
            }
            Kind::Etcd(etcd) => etcd.heal().await,
            Kind::One { .. } => {}
        }
        Ok(())
    }
}

async fn postgres() -> anyhow::Result<Servers> {
    let port = free_port().await?;
    let server = Postgres::start(&["-h", "127.0.0.1", "-p", &port.to_string()]);
    let url = format!("postgres://postgres@127.0.0.1:{port}/postgres");
    // It listens before it has started.
    let serves = async || tokio_postgres::connect(&url, NoTls).await.is_ok();
    eventually("PostgreSQL, of `scripts/have-peers.sh all`", serves).await;
    let addresses = vec![format!("127.0.0.1:{port}")];
    Servers::of(Service::Postgres, Kind::One { _server: Box::new(server) }, addresses).await
}
