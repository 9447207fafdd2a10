//! Injects what is planned.
//!
//! An operator's act against a holder, or against a contender that may hold soon, waits until no other fault is going on,
//! and keeps others from beginning. It also waits until a contender that will stay has been in the queue for a while. No
//! lease foresees such an act; the takeover delay of the waiters covers it. A plan leaves room for that. If that moment
//! does not come in time, the act is left out, and counted as left out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::RwLock;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;
use tokio::time::{Instant as Timer, sleep, sleep_until, timeout};
use zklock_contest::collector::Collector;
use zklock_contest::contender::Order;
use zklock_contest::history::{Effect, Fault, Hold};
use zklock_contest::member::Member;
use zklock_contest::members::rules;
use zklock_contest::nodes::{Node, queue, queues};
use zklock_testcontainers::Error::Exited;
use zklock_testcontainers::RequestKind;
use zookeeper_client::{Client as Operator, Error};

use super::clients::Client;
use super::schedule::{Aim, Kind, Planned};
use super::servers::{LESSER, SERVERS, Servers, Trouble};
use super::slew;
use super::state::State;
use super::victims::{pool_victim, victim};
use crate::harness::now;
use crate::harness::table::word;

/// How long a fault waits for a holder to meet.
const CHANCE: Duration = Duration::from_secs(4);
/// How long an act of an operator waits for the right moment.
const MOMENT: Duration = Duration::from_millis(2_500);
/// How long the waiter that covers an act must have been in the queue, and the holder have held.
const SETTLED: Duration = Duration::from_millis(300);
/// How often to look where a client is connected.
const GLANCE: Duration = Duration::from_millis(20);
/// How long a holder takes to hear an order.
const HEARING: Duration = Duration::from_millis(5);
/// How long a follower hears the leader, and cannot answer.
const GLIMPSE: Duration = Duration::from_millis(300);
/// How long before an operator's first act contenders begin to come with a takeover delay.
const NOTICE: Duration = Duration::from_secs(3);
/// The takeover delay of the waiters while an operator acts: far more than a notification takes.
pub(super) const TAKEOVER_DELAY: Duration = Duration::from_secs(1);
/// Far longer than it takes to tell somebody what an operator did.
const TOLD: Duration = Duration::from_millis(500);
/// How long an operator waits for an answer.
const ANSWER: Duration = Duration::from_secs(2);

pub(crate) struct Injector {
    pub(crate) servers: Arc<Servers>,
    pub(crate) clients: Vec<Arc<Client>>,
    pub(crate) state: Arc<State>,
    /// What is contended for. Faults are aimed at the members in turn.
    pub(crate) members: Vec<Member>,
    /// Whether the nodes of a holder are deleted that is stopped shortly. The checker does not hear of that.
    pub(crate) breaks_nodes: bool,
    pub(crate) done: UnboundedSender<Fault>,
    /// Tells the lives of clients apart.
    pub(crate) lives: AtomicU64,
    /// Held by each fault while it lasts; by an operator's act alone.
    pub(crate) peace: RwLock<()>,
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
        let mut delayed = false;
        for planned in plan {
            if planned.kind.is_act() != delayed {
                delayed = planned.kind.is_act();
                // Contenders that came without a delay have left by the time of the act.
                sleep_until(start + planned.at.saturating_sub(if delayed { NOTICE } else { Duration::ZERO }))
                    .await;
                self.set_delay(if delayed { TAKEOVER_DELAY } else { Duration::ZERO }).await?;
            }
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
        // No operator acts any more.
        self.set_delay(Duration::ZERO).await?;
        Ok(omitted)
    }

    async fn set_delay(&self, delay: Duration) -> anyhow::Result<()> {
        for client in &self.clients {
            client.set_delay(delay).await?;
        }
        Ok(())
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
        if planned.kind.is_act() {
            let Ok(_alone) = timeout(MOMENT, self.peace.write()).await else { return Ok(None) };
            // An operator who gets no answer in time leaves it at that.
            let Ok(Ok(operator)) = timeout(ANSWER, self.servers.operator()).await else { return Ok(None) };
            let done = self.act(planned, &operator).await?;
            if done.is_some() {
                // Whom it concerns is told before anything else happens.
                sleep(TOLD).await;
            }
            return Ok(done);
        }
        let _among_others = self.peace.read().await;
        match planned.kind {
            kind if kind.is_of_servers() => self.trouble_servers(planned).await,
            Kind::WriteWaiter => self.write(planned).await,
            _ => self.trouble_client(planned).await,
        }
    }

    async fn trouble_servers(&self, planned: Planned) -> Done {
        let (troubles, holder) = self.servers_for(planned).await;
        let Some(server) = troubles.first().map(|trouble| trouble.server) else { return Ok(None) };
        let ensemble = &self.servers.ensemble;
        let servers: Vec<_> = troubles.iter().map(|trouble| trouble.server).collect();
        for server in &servers {
            self.servers.revive(*server).await?;
        }
        let fault = Fault { servers, ..self.begin(planned, holder.as_ref()) };
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

    /// The servers to meet, two for a quorum, and the holder that is connected to the one, if it was looked for.
    async fn servers_for(&self, planned: Planned) -> (Vec<Trouble>, Option<Hold>) {
        let leader = self.servers.leader().await;
        let will_do = |server: usize| match planned.kind {
            Kind::IsolateLeader => leader == Some(server),
            Kind::IsolateFollower | Kind::StallServer => leader.is_some_and(|leader| leader != server),
            _ => true,
        };
        if planned.aim == Aim::Holder && planned.kind != Kind::LoseQuorum {
            // One who has acquired since that look is not met.
            if let Some(holder) = self.meet(planned, |_| true).await
                && let servers = self.servers.of_sessions(std::slice::from_ref(&holder)).await
                && let Some(server) = servers.get(&holder.session).filter(|server| will_do(**server))
                && let Some(trouble) = self.servers.reserve(*server)
            {
                return (vec![trouble], Some(holder));
            }
        }
        let from = planned.pick as usize;
        let troubles = (from..from + SERVERS)
            .map(|number| number % SERVERS)
            .filter(|server| will_do(*server))
            .filter_map(|server| self.servers.reserve(server));
        (troubles.take(if planned.kind == Kind::LoseQuorum { 2 } else { 1 }).collect(), None)
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
        let Some(mut client) = met.or(anyone) else { return Ok(None) };
        if planned.kind == Kind::SlewClock
            && let Some(odd) = self.client((client.number - 1) | 1)
        {
            // The others' clocks stay true.
            client = odd;
        }
        let mut fault = self.begin(planned, holder.as_ref());
        fault.client = Some(client.number);
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
                if self.breaks_nodes
                    && planned.kind == Kind::StopShortly
                    && let Some(holder) = &holder
                    && let Ok(Ok(operator)) = timeout(ANSWER, self.servers.operator()).await
                {
                    for node in &holder.nodes {
                        let _ = timeout(ANSWER, operator.delete(node, None)).await;
                    }
                }
                sleep(planned.lasts).await;
                client.resume().await?;
            }
            Kind::MoveSession => {
                let (lesser, others): (Vec<_>, Vec<_>) =
                    client.links.iter().enumerate().partition(|(server, _)| *server == LESSER);
                for (_, link) in &others {
                    link.refuse();
                    link.cut();
                }
                let (end, mut moved) = (Timer::now() + planned.lasts, false);
                while Timer::now() < end {
                    moved |= client.server() == Some(LESSER);
                    sleep(GLANCE).await;
                }
                others.iter().for_each(|(_, link)| link.accept());
                lesser.iter().for_each(|(_, link)| link.cut());
                if !moved {
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
                if planned.kind == Kind::SlewClock {
                    client.slew.store(slew::rate(planned.pick), Ordering::SeqCst);
                }
                sleep(planned.lasts).await;
                client.start(self.lives.fetch_add(1, Ordering::SeqCst)).await?;
            }
        }
        Ok(Some(Fault { until: now(), ..fault }))
    }

    /// An operator writes to a waiter's node, whatever else is going on. That must cost no contender anything.
    async fn write(&self, planned: Planned) -> Done {
        let Ok(Ok(operator)) = timeout(ANSWER, self.servers.operator()).await else { return Ok(None) };
        let member = self.member(planned, 0, &self.members);
        let waiter = timeout(CHANCE, self.waiter(planned, member, &operator)).await;
        let Ok(Ok(victim)) = waiter else { return Ok(None) };
        let mut fault = Fault { member: Some(member), ..self.begin(planned, None) };
        (fault.session, fault.node) = (Some(victim.session), Some(victim.czxid));
        // Curator's `Revoker` writes this.
        let written = timeout(ANSWER, operator.set_data(&victim.path, b"__REVOKE__", None)).await;
        // One that was gone by then was not met.
        let met = !matches!(written, Ok(Err(Error::NoNode)));
        Ok(met.then_some(Fault { until: now(), ..fault }))
    }

    /// The node of one that waits, as soon as one does; rather of one that will give up, and delete it.
    async fn waiter(&self, planned: Planned, member: Member, operator: &Operator) -> Result<Node, Error> {
        loop {
            let queues = queues(operator, member, rules(member).locks).await?;
            let holders = self.state.holders();
            let behind = queues.iter().flat_map(|queue| queue.get(1..).unwrap_or_default());
            let waiting: Vec<_> =
                behind.filter(|node| !holders.iter().any(|holder| holder.has(&node.path))).collect();
            let leaving = waiting
                .iter()
                .find(|node| node.who.is_some_and(|who| self.state.is(member, |it| it.gives_up(who))));
            let anyone = waiting.get(planned.pick as usize % waiting.len().max(1));
            if let Some(victim) = leaving.or(anyone) {
                return Ok((*victim).clone());
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// An operator's act, once the moment is right.
    async fn act(&self, planned: Planned, operator: &Operator) -> Done {
        let deadline = Timer::now() + MOMENT;
        let mut members = self.members.clone();
        members.retain(|member| rules(*member).has_operators);
        for turn in (0..).take_while(|_| !members.is_empty()) {
            if Timer::now() >= deadline {
                break;
            }
            let member = self.member(planned, turn, &members);
            let covered = timeout(ANSWER, self.covered_holder(planned, member, operator)).await;
            if let Ok(Some((holder, victim))) = covered
                && Timer::now() < deadline
            {
                return self.strike(planned, operator, &holder, &victim).await.map(Some);
            }
            sleep(Duration::from_millis(20)).await;
        }
        Ok(None)
    }

    /// A holder and whom to strike, if all is calm, the holders' watches stand, and the takeover delay covers the act.
    async fn covered_holder(
        &self,
        planned: Planned,
        member: Member,
        operator: &Operator,
    ) -> Option<(Hold, Node)> {
        let rules = rules(member);
        if !self.servers.is_calm().await {
            return None;
        }
        // A waiter without a delay would never leave if the holder stayed.
        if !self.state.is(member, Collector::is_delayed) {
            return None;
        }
        let of_member = || self.state.holders().into_iter().filter(|hold| hold.member == member);
        let mut holders: Vec<_> = of_member().collect();
        for holder in &holders {
            self.client(holder.who.client)?.order(Order::Stay(planned.stay)).await.ok()?;
        }
        let first = holders.last()?;
        sleep(SETTLED.saturating_sub(now().since(first.granted))).await;
        holders.retain(|holder| now().since(holder.granted) >= SETTLED);
        let queues = queues(operator, member, rules.locks).await.ok()?;
        if !self.state.is(member, Collector::is_delayed) {
            return None;
        }
        let present: Vec<_> = of_member().collect();
        let same = |one: &Hold, other: &Hold| (one.who, one.granted) == (other.who, other.granted);
        holders.retain(|holder| present.iter().any(|other| same(holder, other)));
        let stays = |node: &Node| self.state.is(member, |it| it.stays(node, SETTLED, now()));
        if !rules.is_pool {
            return victim(planned, &holders, &queues, stays);
        }
        // One that has just become the first in the turnstile may find room at once, and then it observes no delay.
        let before = queue(operator, member.permits()).await.ok()?;
        sleep(SETTLED).await;
        let after = queue(operator, member.permits()).await.ok()?;
        let turnstile = queue(operator, member.path(0)).await.ok()?;
        let first = |queue: &[Node]| queue.first().map(|node| node.path.clone());
        let same = before.iter().map(|node| &node.path).eq(after.iter().map(|node| &node.path));
        if !same || first(&queues.concat()[..]) != first(&turnstile) {
            return None;
        }
        pool_victim(planned, &holders, &turnstile, &after, stays)
    }

    async fn strike(
        &self,
        planned: Planned,
        operator: &Operator,
        holder: &Hold,
        victim: &Node,
    ) -> anyhow::Result<Fault> {
        let mut fault = self.begin(planned, Some(holder));
        fault.session = Some(victim.session);
        fault.client = (planned.kind.effect() == Effect::TakesHold).then_some(holder.who.client);
        fault.member = Some(holder.member);
        // Whatever the answer is, it may have been done.
        match planned.kind {
            Kind::DeleteHolder | Kind::DeleteWaiter => {
                let _ = timeout(ANSWER, operator.delete(&victim.path, None)).await;
            }
            _ => drop(timeout(ANSWER, self.servers.ensemble.close_session(victim.session)).await),
        }
        Ok(Fault { until: now(), ..fault })
    }

    /// A holder that will do. One that is to stay is told so, which may come too late for this time; then it is met when it
    /// holds again.
    async fn meet(&self, planned: Planned, will_do: impl Fn(&Hold) -> bool) -> Option<Hold> {
        // Where another client contends, it is mostly met: it has no lease.
        let member = self.member(planned, 0, &self.members);
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

    /// What all faults have in common.
    fn begin(&self, planned: Planned, holder: Option<&Hold>) -> Fault {
        let holder =
            holder.map(|holder| holder.who).or(self.state.holders().first().map(|holder| holder.who));
        Fault { holder, ..Fault::begins(word(&planned.kind), planned.kind.effect(), now()) }
    }

    fn member(&self, planned: Planned, turn: usize, members: &[Member]) -> Member {
        members[(planned.pick as usize / 8 + turn) % members.len()]
    }

    fn client(&self, number: u16) -> Option<&Arc<Client>> {
        self.clients.iter().find(|client| client.number == number)
    }
}
