//! What can be observed.

use std::sync::Arc;

use futures::future::BoxFuture;
use zklock_recipe::{Event, Footing};
use zookeeper_client::Client;

use crate::requests::Sighting;

/// What is observed.
pub(crate) trait Subject: Send + Sync + 'static {
    /// What an observer is told of it.
    type Who: Clone + PartialEq + Send + Sync + 'static;

    /// The path of what is observed.
    fn path(&self) -> &str;

    /// Looks at it, and watches it.
    fn look(
        self: Arc<Self>,
        client: Arc<Client>,
        footing: Footing,
    ) -> BoxFuture<'static, Result<Sighting<Self::Who>, Event>>;
}
