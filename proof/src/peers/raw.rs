//! A bare create and a bare delete: no lock, but what one cannot be faster than.

use anyhow::Context;
use zookeeper_client::{Acls, Client, CreateMode};

use super::contract::{DATA, Lock, Place};

pub(super) struct Raw {
    session: Client,
    prefix: String,
    node: Option<String>,
}

impl Lock for Raw {
    async fn connect(place: &Place) -> anyhow::Result<Self> {
        let session = Client::connector().with_session_timeout(place.timeout).connect(&place.server).await?;
        Ok(Self { session, prefix: format!("{}/lock-", place.path), node: None })
    }

    async fn acquire(&mut self) -> anyhow::Result<()> {
        let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
        let (_, sequence) = self.session.create(&self.prefix, DATA, &options).await?;
        self.node = Some(format!("{}{sequence}", self.prefix));
        Ok(())
    }

    async fn release(&mut self) -> anyhow::Result<()> {
        let node = self.node.take().context("there is no node")?;
        Ok(self.session.delete(&node, None).await?)
    }
}
