//! A client process: one session, and a task or two that contend, hold, write, and lose.

mod contender;
mod orders;
mod peer;
mod zklock;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::task::JoinSet;

use super::args::{Part, Recipe};
use super::record::{Leaving, Recorder, Who};
use super::slew;
use contender::Contender;
pub(super) use orders::{DELAY, END, FINISH, NEGLECT, STAY};

/// A session, by which tasks contend for the lock.
trait Contest: Send + Sync {
    /// Waits for as long as it takes, or for as long as is given; with this takeover delay.
    fn acquire(
        &self,
        who: Who,
        delay: Duration,
        limit: Option<Duration>,
    ) -> BoxFuture<'_, Result<Box<dyn Hold>, Leaving>>;

    /// Waits for nobody.
    fn try_acquire(&self, who: Who) -> BoxFuture<'_, Result<Box<dyn Hold>, Leaving>>;

    /// How often the session's acquisitions have queued again.
    fn requeued(&self) -> u64;

    /// Ends the session.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// The lock, held or lost.
trait Hold: Send + Sync {
    fn session(&self) -> i64;

    /// The fencing token, if the recipe has such.
    fn token(&self) -> Option<i64>;

    /// The holder's node.
    fn node(&self) -> String;

    /// Whether it is held; otherwise why not.
    fn check(&self) -> Result<(), String>;

    /// For how long it is held at the least, if the recipe says so.
    fn remaining(&self) -> Option<Duration>;

    /// Says why, if it is not confirmed.
    fn release(self: Box<Self>) -> BoxFuture<'static, Result<(), String>>;
}

/// Contends until it is told to finish, then waits to be told to end.
pub(crate) async fn run(part: Part) -> anyhow::Result<()> {
    let mut orders = orders::listen()?;
    slew::confirm(part.slew).await?;
    let contest: Arc<dyn Contest> = match part.lock {
        Recipe::Zklock => Arc::new(zklock::Zklock::open(&part).await?),
        Recipe::ZookeeperClient => Arc::new(peer::ZookeeperClient::new(&part)),
    };
    let recorder = Arc::new(Recorder::default());
    let mut tasks = JoinSet::new();
    for task in 1..=part.tasks {
        let who = Who { client: part.number, task };
        let contender = Contender::new(who, &part, contest.clone(), recorder.clone(), orders.clone()).await?;
        tasks.spawn(contender.run());
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    // Its session is to be there, and idle, while the servers are asked what is left.
    orders.end().await;
    contest.close().await;
    Ok(())
}
