//! Observes the holder of a lock.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use zklock_recipe::{Event, Footing};
use zookeeper_client::Client;

use super::contender::Contender;
use crate::observe::subject::Subject;
use crate::requests::{self, Node, Sighting};
use crate::settings::Settings;

/// The holders of one lock.
pub(super) struct Holders(pub(super) Arc<Settings>);

impl Subject for Holders {
    type Who = Contender;

    fn path(&self) -> &str {
        self.0.path.as_str()
    }

    /// The watch fires once, and each look sets another one.
    fn look(
        self: Arc<Self>,
        client: Arc<Client>,
        _footing: Footing,
    ) -> BoxFuture<'static, Result<Sighting<Contender>, Event>> {
        async move {
            let Sighting { found, changes } = requests::watch_holder(client, self.0.clone()).await?;
            let contender = |node: Node| Contender::new(0, true, self.0.path.contender(node.place), node);
            let found = found.map(|found| found.map(|(stamp, node)| (stamp, contender(node))));
            Ok(Sighting { found, changes })
        }
        .boxed()
    }
}
