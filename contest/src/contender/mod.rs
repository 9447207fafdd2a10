//! What a process does for one member: one session, and a task or two that contend, hold, write, and lose; in some, one that observes, or
//! one that witnesses how long the session has its guards.

mod asker;
mod client;
mod guard;
mod held;
mod observer;
mod orders;
mod peer;
mod place;
mod turns;
mod witness;
mod world;
mod zklock;

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::record::Who;
use client::Client;
pub use guard::AnyGuard;
pub use held::Held;
pub use orders::{Order, Orderer, Orders};
pub use peer::{peer_lock, trouble};
pub use place::Part;
use place::Place;
use turns::Contender;
pub use world::{Pace, World};

/// A process's session for one member, and who contends in it.
pub struct Process<W> {
    place: Place<W>,
    client: Client<W>,
    tasks: JoinSet<()>,
    others: JoinSet<()>,
    /// Looks, which keep the session from being closed as idle.
    looks: JoinSet<()>,
    orders: Orders,
}

impl<W: World> Process<W> {
    pub async fn begin(world: W, part: Part, orders: Orders) -> Self {
        let place = Place { world, part: Arc::new(part) };
        let (rules, this) = (place.part.rules(), Who::process(place.part.client));
        let (mut tasks, mut others) = (JoinSet::new(), JoinSet::new());
        let client = if place.part.is_foreign() {
            let (directory, servers) = (place.part.member.path(0), place.part.servers.clone());
            let timeout = place.part.pace.timeout;
            Client::Foreign(Arc::new(peer::ZookeeperClient::new(directory, servers, timeout)))
        } else {
            let zklock = Arc::new(zklock::Zklock::open(place.clone()).await);
            if (rules.observes)(place.part.client) {
                let observed = observer::observe(this, place.clone(), zklock.clone());
                others.spawn(orders.clone().unless_looking_away(observed));
            }
            if rules.has_witnesses {
                let witnessed = witness::witness(this, place.clone(), zklock.clone());
                others.spawn(orders.clone().unless_looking_away(witnessed));
            }
            Client::Zklock(zklock)
        };
        for who in place.part.contenders() {
            tasks.spawn(
                Contender::new(who, place.clone(), client.clone(), orders.clone(), who.task.into()).run(),
            );
        }
        Self { place, client, tasks, others, looks: JoinSet::new(), orders }
    }

    /// Returns once every contender has finished, and observers look away. The session stays open. A panic of one of them is one here.
    pub async fn finish(&mut self) {
        while let Some(ended) = self.tasks.join_next().await {
            ended.expect("a contender goes on");
        }
        while let Some(ended) = self.others.join_next().await {
            ended.expect("an observer goes on");
        }
        let (client, pause) = (self.client.clone(), self.place.part.pace.timeout);
        self.looks.spawn(async move {
            loop {
                client.look().await;
                tokio::time::sleep(pause).await;
            }
        });
    }

    /// Has one more contender acquire once, and hold for as long as it is told to stay.
    pub async fn turn(&self, who: Who) {
        let (place, client, orders) = (self.place.clone(), self.client.clone(), self.orders.clone());
        let number = place.world.now().0;
        Contender::new(who, place, client, orders, number).turn(true).await;
    }

    /// Closes the session once that is ordered. Until then it stays open while the servers are asked what is left: its nodes would go
    /// with it.
    pub async fn end(mut self) {
        self.orders.end().await;
        self.client.close().await;
    }

    /// Drops whatever is under way, and closes the session. Returns which one that was, and its timeout, if it is confirmed.
    pub async fn leave(mut self) -> Option<(i64, Duration)> {
        self.tasks.shutdown().await;
        self.others.shutdown().await;
        self.client.close().await
    }
}
