//! A client process: one session, and a task or two that contend, hold, write, and lose; in some, one that observes, or one that
//! witnesses how long the session has its guards.

mod asker;
mod contender;
mod contest;
mod guard;
mod held;
mod observer;
mod orders;
mod patience;
mod peer;
mod witness;
mod zklock;

use std::sync::Arc;

use tokio::task::JoinSet;

use super::args::Recipe;
use super::mode::rules;
use super::part::Part;
use super::record::Who;
use super::slew;
use contender::Contender;
use contest::Contest;
pub(super) use orders::Order;

/// Contends until it is told to finish, then waits to be told to end.
pub(crate) async fn run(part: Part) -> anyhow::Result<()> {
    let mut orders = orders::follow()?;
    slew::confirm(part.slew, part.setup.breaks_leases).await?;
    let mut others = JoinSet::new();
    let is_foreign = (rules(part.setup.mode).is_foreign)(part.number);
    let contest = match part.setup.lock {
        Recipe::Zklock if !is_foreign => {
            let zklock = Arc::new(zklock::Zklock::open(&part).await?);
            if (rules(part.setup.mode).observes)(part.number) {
                let observed = observer::observe(Who::process(part.number), zklock.clone());
                others.spawn(orders.clone().unless_looking_away(observed));
            }
            if rules(part.setup.mode).has_witnesses {
                let witnessed = witness::witness(Who::process(part.number), zklock.clone());
                others.spawn(orders.clone().unless_looking_away(witnessed));
            }
            Contest::Zklock(zklock)
        }
        _ => Contest::ZookeeperClient(Arc::new(peer::ZookeeperClient::new(&part))),
    };
    let mut tasks = JoinSet::new();
    for task in 1..=part.tasks {
        let who = Who { client: part.number, task };
        let contender = Contender::new(who, &part, contest.clone(), orders.clone()).await?;
        tasks.spawn(contender.run());
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    while let Some(ended) = others.join_next().await {
        ended??;
    }
    // Its session is to be there, and idle, while the servers are asked what is left.
    orders.end().await;
    contest.close().await;
    Ok(())
}
