//! A node created and deleted, and nothing else.

use futures::FutureExt;
use futures::future::BoxFuture;
use zookeeper_client::{Acls, Client as Session, CreateMode};

use super::client::{Client, DATA, Held, SESSION_TIMEOUT};

pub(super) struct Raw {
    session: Session,
    prefix: String,
}

pub(super) struct Node<'a> {
    session: &'a Session,
    path: String,
}

impl Raw {
    pub(super) async fn connect(address: &str, directory: &str) -> anyhow::Result<Self> {
        let session = Session::connector().with_session_timeout(SESSION_TIMEOUT).connect(address).await?;
        Ok(Self { session, prefix: format!("{directory}/lock-") })
    }
}

impl Client for Raw {
    fn acquire(&self) -> BoxFuture<'_, anyhow::Result<Box<dyn Held + '_>>> {
        async { Ok(Box::new(create(&self.session, &self.prefix).await?) as Box<dyn Held>) }.boxed()
    }
}

/// Creates a node with this prefix, which is deleted by its release.
pub(super) async fn create<'a>(session: &'a Session, prefix: &str) -> anyhow::Result<Node<'a>> {
    let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let (_, sequence) = session.create(prefix, DATA, &options).await?;
    Ok(Node { session, path: format!("{prefix}{sequence}") })
}

impl Held for Node<'_> {
    fn release<'a>(self: Box<Self>) -> BoxFuture<'a, anyhow::Result<()>>
    where
        Self: 'a,
    {
        async move { Ok(self.session.delete(&self.path, None).await?) }.boxed()
    }
}
