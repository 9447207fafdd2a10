//! Injects what is planned. A fault for which the right moment does not come in time is left out, and counted as left out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;
use tokio::time::{Instant as Timer, sleep, sleep_until, timeout};
use zklock_contest::contender::Order;
use zklock_contest::history::{Fault, Hold};
use zklock_contest::member::Member;
use zklock_contest::members::rules;
use zklock_testcontainers::Error::Exited;
use zklock_testcontainers::RequestKind;

use super::clients::Client;
use super::schedule::{Aim, Kind, Planned};
use super::servers::{LESSER, SERVERS, Servers, Trouble};
use super::slew;
use super::state::State;
use crate::harness::now;

/// How long a fault waits for a holder to meet.
const CHANCE: Duration = Duration::from_secs(4);
/// How often to look where a client is connected.
const GLANCE: Duration = Duration::from_millis(20);
/// How long a holder takes to hear an order.
const HEARING: Duration = Duration::from_millis(5);
/// How long a session takes to be resumed where nothing keeps it from that.
const RESUMING: Duration = Duration::from_secs(1);
/// How long a follower hears the leader, and cannot answer.
const GLIMPSE: Duration = Duration::from_millis(300);

pub(crate) struct Injector {
    pub(crate) servers: Arc<Servers>,
    pub(crate) clients: Vec<Arc<Client>>,
    pub(crate) state: Arc<State>,
    /// What is contended for. Faults are aimed at the members in turn.
    pub(crate) members: Vec<Member>,
    pub(crate) done: UnboundedSender<Fault>,
    /// Tells the lives of clients apart.
    pub(crate) lives: AtomicU64,
}

/// Whether a fault came about.
type Done = anyhow::Result<Option<Fault>>;

impl Injector {
    /// Injects every fault of the plan when it is due; returns when all of them are over, with those that could not be.
    pub(crate) async fn perform(
        self: &Arc<Self>,
        plan: Vec<Planned>,
        start: Timer,
    ) -> anyhow::Result<Vec<Kind>> {
        let (mut under_way, mut omitted) = (JoinSet::new(), Vec::new());
        for planned in plan {
            sleep_until(start + planned.at).await;
            let injector = self.clone();
            under_way.spawn(async move { (planned.kind, injector.inject(planned).await) });
            while let Some(ended) = under_way.try_join_next() {
                omitted.extend(self.tell(ended?)?);
            }
        }
        while let Some(ended) = under_way.join_next().await {
            omitted.extend(self.tell(ended?)?);
        }
        Ok(omitted)
    }

    fn tell(&self, (kind, done): (Kind, Done)) -> anyhow::Result<Option<Kind>> {
        match done? {
            Some(fault) => {
                let _ = self.done.send(fault);
                Ok(None)
            }
            None => Ok(Some(kind)),
        }
    }

    async fn inject(&self, planned: Planned) -> Done {
        if planned.kind.is_of_servers() {
            self.trouble_servers(planned).await
        } else {
            self.trouble_client(planned).await
        }
    }

    async fn trouble_servers(&self, planned: Planned) -> Done {
        let troubles = self.servers_for(planned).await;
        let Some(server) = troubles.first().map(|trouble| trouble.server) else { return Ok(None) };
        let ensemble = &self.servers.ensemble;
        let servers: Vec<_> = troubles.iter().map(|trouble| trouble.server).collect();
        for server in &servers {
            self.servers.revive(*server).await?;
        }
        let fault = Fault { servers, ..planned.begins() };
        match planned.kind {
            Kind::StallServer => {
                if !self.stall(planned, server).await? {
                    return Ok(None);
                }
            }
            Kind::PauseServer => {
                if let Err(error) = ensemble.pause(server).await {
                    // If it has ended by itself, which it may at any moment, the end of its log is printed below.
                    if !matches!(error, Exited { .. }) {
                        eprintln!("torture: {error}");
                    }
                    self.servers.revive(server).await?;
                    return Ok(None);
                }
                sleep(planned.lasts).await;
                self.servers.revive(server).await?;
            }
            Kind::KillServer => {
                ensemble.kill(server).await?;
                sleep(planned.lasts).await;
                // With other servers in trouble it may wait for them in vain; it is up all the same.
                let _ = timeout(planned.lasts + Duration::from_secs(20), ensemble.restart(server)).await;
            }
            _ => {
                for server in &fault.servers {
                    ensemble.isolate(*server).await?;
                }
                sleep(planned.lasts).await;
                for server in &fault.servers {
                    ensemble.rejoin(*server).await?;
                }
            }
        }
        drop(troubles);
        Ok(Some(Fault { until: now(), ..fault }))
    }

    /// One direction between a follower and the leader stalls. In half of the cases the follower then hears the leader again,
    /// but cannot answer, and is cut off. False if there is no leader, or this server has become it.
    async fn stall(&self, planned: Planned, follower: usize) -> anyhow::Result<bool> {
        let Some(leader) = self.servers.leader().await.filter(|leader| *leader != follower) else {
            return Ok(false);
        };
        let ensemble = &self.servers.ensemble;
        let (from, to) = if planned.pick % 4 == 3 { (follower, leader) } else { (leader, follower) };
        ensemble.stall(from, to).await?;
        if planned.pick % 4 < 2 {
            sleep(planned.lasts.mul_f64(0.4)).await;
            ensemble.stall(to, from).await?;
            ensemble.flow(from, to).await?;
            sleep(GLIMPSE).await;
            ensemble.isolate(follower).await?;
            sleep(planned.lasts.mul_f64(0.6)).await;
            ensemble.rejoin(follower).await?;
            ensemble.flow(to, from).await?;
        } else {
            sleep(planned.lasts).await;
            ensemble.flow(from, to).await?;
        }
        Ok(true)
    }

    /// The servers to meet: two for a quorum, or the holder's, if that one is looked for.
    async fn servers_for(&self, planned: Planned) -> Vec<Trouble> {
        let leader = self.servers.leader().await;
        let will_do = |server: usize| match planned.kind {
            Kind::IsolateLeader => leader == Some(server),
            Kind::IsolateFollower | Kind::StallServer => leader.is_some_and(|leader| leader != server),
            _ => true,
        };
        if planned.aim == Aim::Holder && planned.kind != Kind::LoseQuorum {
            // One who has acquired since that look is not met.
            if let Some(holder) = self.meet(planned, |_| true).await
                && let Some(server) = self.servers.of_session(holder.session).await
                && will_do(server)
                && let Some(trouble) = self.servers.reserve(server)
            {
                return vec![trouble];
            }
        }
        let from = planned.pick as usize;
        let troubles = (from..from + SERVERS)
            .map(|number| number % SERVERS)
            .filter(|server| will_do(*server))
            .filter_map(|server| self.servers.reserve(server));
        troubles.take(if planned.kind == Kind::LoseQuorum { 2 } else { 1 }).collect()
    }

    async fn trouble_client(&self, planned: Planned) -> Done {
        let holder = match (planned.kind, planned.aim) {
            (Kind::StopClock, _) => {
                match self.meet(planned, |holder| slew::is_slewed(holder.who.client)).await {
                    Some(holder) => Some(holder),
                    None => return Ok(None),
                }
            }
            (_, Aim::Holder) => self.meet(planned, |_| true).await,
            (_, Aim::Anyone) => None,
        };
        let anyone = self.clients.get(planned.pick as usize % self.clients.len());
        let met = holder.as_ref().and_then(|holder| self.client(holder.who.client));
        let Some(client) = met.or(anyone) else { return Ok(None) };
        let mut fault = Fault { client: Some(client.number), ..planned.begins() };
        match planned.kind {
            Kind::BlackHole | Kind::StopClock => {
                client.links.iter().for_each(|link| link.black_hole());
                if planned.kind == Kind::StopClock {
                    client.brake.stop()?;
                }
                sleep(planned.lasts).await;
                client.brake.go()?;
                client.links.iter().for_each(|link| link.restore());
            }
            Kind::CutConnections => client.links.iter().for_each(|link| link.cut()),
            Kind::LoseReply => {
                let kind = match planned.pick % 8 {
                    0..4 => RequestKind::Multi,
                    4..6 => RequestKind::Any,
                    6 => RequestKind::GetData,
                    _ => RequestKind::Delete,
                };
                let losses: Vec<_> = client.links.iter().map(|link| link.lose_reply(kind)).collect();
                let happened = losses.iter().map(|loss| Box::pin(loss.happened()));
                if timeout(planned.lasts, futures::future::select_all(happened)).await.is_err() {
                    return Ok(None);
                }
            }
            Kind::StopShortly | Kind::StopLong => {
                client.stop().await?;
                sleep(planned.lasts).await;
                client.resume().await?;
            }
            Kind::MoveSession | Kind::StopMoved => {
                let (lesser, others): (Vec<_>, Vec<_>) =
                    client.links.iter().enumerate().partition(|(server, _)| *server == LESSER);
                let stops = planned.kind == Kind::StopMoved;
                if stops {
                    // The others resume the session, so that its lease is fresh as it moves.
                    lesser.iter().for_each(|(_, link)| link.refuse());
                    others.iter().for_each(|(_, link)| link.cut());
                    sleep(RESUMING).await;
                    lesser.iter().for_each(|(_, link)| link.accept());
                }
                for (_, link) in &others {
                    link.refuse();
                    link.cut();
                }
                let end = Timer::now() + if stops { RESUMING } else { planned.lasts };
                let mut moved = false;
                while Timer::now() < end && !(stops && moved) {
                    moved |= client.server() == Some(LESSER);
                    sleep(GLANCE).await;
                }
                if stops {
                    sleep(RESUMING.mul_f64(f64::from(planned.pick % 16) / 32.0)).await;
                    client.stop().await?;
                    sleep(planned.lasts).await;
                    client.resume().await?;
                }
                others.iter().for_each(|(_, link)| link.accept());
                lesser.iter().for_each(|(_, link)| link.cut());
                if !moved && !stops {
                    return Ok(None);
                }
            }
            Kind::Neglect => {
                client.order(Order::Neglect(planned.lasts)).await?;
                sleep(planned.lasts).await;
            }
            _ => {
                let Some(killed) = client.kill().await? else { return Ok(None) };
                fault.at = killed;
                sleep(planned.lasts).await;
                client.start(self.lives.fetch_add(1, Ordering::SeqCst)).await?;
            }
        }
        Ok(Some(Fault { until: now(), ..fault }))
    }

    /// A holder that will do. One that is to stay is told so, which may come too late for this time; then it is met when it
    /// holds again.
    async fn meet(&self, planned: Planned, will_do: impl Fn(&Hold) -> bool) -> Option<Hold> {
        // Where another client contends, it is mostly met: it has no lease.
        let member = self.members[planned.pick as usize / 8 % self.members.len()];
        let is_foreign = rules(member).is_foreign;
        let anyone =
            planned.pick.is_multiple_of(4) || !self.clients.iter().any(|client| is_foreign(client.number));
        let will_do = |holder: &Hold| {
            holder.member == member && (anyone || is_foreign(holder.who.client)) && will_do(holder)
        };
        let holder = self.state.holder_within(CHANCE, &will_do).await?;
        if planned.stay.is_zero() {
            return Some(holder);
        }
        let client = self.client(holder.who.client)?;
        client.order(Order::Stay(planned.stay + CHANCE / 4)).await.ok()?;
        // By then it has heard that, or has released.
        sleep(HEARING).await;
        let same = |seen: &Hold| seen.who.client == holder.who.client && will_do(seen);
        match self.state.holder_within(CHANCE, same).await {
            Some(holder) => Some(holder),
            None => self.state.holders().into_iter().find(will_do),
        }
    }

    fn client(&self, number: u16) -> Option<&Arc<Client>> {
        self.clients.iter().find(|client| client.number == number)
    }
}
