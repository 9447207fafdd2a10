//! What a holder observes in its own session.

use std::sync::Arc;

use futures::FutureExt;
use tokio::sync::watch;
use zklock_recipe::{Event, Footing, ObserverMachine};

use super::follow::{Observed, View, follow_in};
use crate::requests::{Sighting, Watching};
use crate::zk::ZkSession;

/// Each change of what is at a path, as one ZooKeeper session sees it. All who follow a path in one session share one watch and its
/// reads.
pub(crate) struct News<T> {
    view: watch::Receiver<View<T>>,
    told: u64,
    /// The path is followed until the last one is dropped.
    _feed: Arc<watch::Receiver<View<T>>>,
}

impl<T: Clone + PartialEq + Send + Sync + 'static> News<T> {
    /// Begins to follow, in the session's background: callers may await the news outside a runtime.
    pub(crate) fn start<F>(
        session: &ZkSession,
        path: String,
        look: impl Fn(Watching, Footing) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Sighting<T>, Event>> + Send + 'static,
    {
        let feed = session.feeds.join(&path.clone(), || {
            let (sender, view) = watch::channel(View::unseen());
            let look = Box::new(move |watching, footing| look(watching, footing).boxed());
            let observed = Arc::new(Observed { path, look, is_dated: false });
            let session_view = session.view();
            let following = async move {
                follow_in(session_view, &observed, &sender, &mut ObserverMachine::default()).await;
            };
            session.finish(following.boxed());
            view
        });
        Self { view: watch::Receiver::clone(&feed), told: 0, _feed: feed }
    }

    /// Waits for the next thing that is there; `None` once the session is over. If it is dropped, nothing is lost.
    pub(crate) async fn next(&mut self) -> Option<T> {
        loop {
            let told = self.told;
            let (who, told) = {
                let view = self.view.wait_for(|view| view.told > told).await.ok()?;
                (view.who.clone(), view.told)
            };
            self.told = told;
            if who.is_some() {
                return who;
            }
        }
    }
}
