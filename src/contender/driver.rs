//! Performs what one [`Acquisition`] asks for, and tells it what comes of that. It decides nothing; in the background, in the
//! place of a caller that has gone, it gives up what is granted.
//!
//! A [procedure](super::Procedure) awaits one thing at a time. A driver awaits a request and a watch of each member, and
//! passes from owner to owner while they are under way. So the two share how a request is sent
//! ([`ZkSession::request_after`](crate::zk::ZkSession::request_after)), and no more.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use tracing::{debug, warn};
use uuid::Uuid;
use zklock_recipe::acquisition::{Acquisition, Certainty, Effect, Ground, Input};
use zklock_recipe::{
    Alone, Arrival, End, Event, Outcome, Own, Patience, Report, SessionEnd, Together, Tries,
};

use super::attended::Work;
use super::companion::take_back;
use super::member::{Member, MemberNews, Pending, await_answer};
use super::place::QueuesAhead;
use super::punctuality::Punctuality;
use crate::clock;
use crate::node::{NodeData, encode};
use crate::requests::{self, OwnNode, Reply, SharedCompanion};
use crate::settings::{QueueEntry, Settings, paths};
use crate::wire::Wire;
use crate::zk::{EntryTicket, ZkSession};

/// The contenders of one acquisition under way. They have no task of their own: their owner polls them. An owner that
/// drops them early gives them to the session's background task with [`Driver::abandon`].
pub(crate) struct Driver {
    machine: Acquisition,
    /// The session in which these contenders live.
    pub(crate) session: Arc<ZkSession>,
    members: Vec<Member>,
    /// The `id` in the data of the last create.
    id: Uuid,
    /// The request for all members that is under way.
    joint: Option<Pending>,
    /// Whether the last entry was sent, if there was one.
    ticket: Option<Arc<EntryTicket>>,
    punctuality: Punctuality,
    /// The contenders' places, if the caller wants to read them.
    places: Option<QueuesAhead>,
}

impl Driver {
    /// Makes the contenders for these queues, of which there is at least one. They have not begun.
    pub(crate) fn new(
        session: Arc<ZkSession>,
        entries: &[QueueEntry],
        patience: Patience,
        arrival: Arrival,
    ) -> Self {
        let takeovers = entries.iter().map(|entry| entry.lock.takeover());
        let machine = Acquisition::new(patience, arrival, takeovers);
        let members = entries.iter().cloned().map(Member::new).collect();
        Self::of(machine, session, members, QueuesAhead::read_in(entries))
    }

    /// Makes a contender that needs no queue: a transaction on this connection has created its node, and that alone has
    /// granted it. It asks for confirmation once it begins.
    pub(crate) fn admitted(
        session: Arc<ZkSession>,
        entry: QueueEntry,
        own: Own,
        connection: Option<u64>,
    ) -> Self {
        let machine = Acquisition::of_admitted(own, connection);
        let members = vec![Member::new(entry)];
        let mut driver = Self::of(machine, session, members, None);
        driver.know_nodes();
        driver
    }

    fn of(
        machine: Acquisition,
        session: Arc<ZkSession>,
        members: Vec<Member>,
        places: Option<QueuesAhead>,
    ) -> Self {
        Self {
            machine,
            session,
            members,
            id: Uuid::nil(),
            joint: None,
            ticket: None,
            punctuality: Punctuality::default(),
            places,
        }
    }

    /// Whether a predecessor may have vanished since the contenders came.
    pub(crate) fn arrival(&self) -> Arrival {
        self.machine.arrival()
    }

    /// The locks for which they contend.
    pub(crate) fn locks(&self) -> impl Iterator<Item = &Arc<Settings>> {
        self.members.iter().map(|member| &member.entry.lock)
    }

    /// How long before the end of the lease the holder is told. It is no longer than this session allows, because a
    /// session may have been granted a shorter timeout than the one before.
    pub(crate) fn stop_margin(&self) -> Duration {
        let margin = self.locks().map(|lock| lock.options.stop_margin).max().unwrap_or_default();
        margin.min(self.session.lease.lengths().longest_stop_margin())
    }

    /// For how long they may be held at most.
    pub(crate) fn max_hold(&self) -> Option<Duration> {
        self.locks().filter_map(|lock| lock.options.max_hold).min()
    }

    /// Returns true once the nodes are so old that somebody may have deleted one.
    pub(crate) fn is_aged(&self) -> bool {
        self.members.iter().all(Member::is_aged)
    }

    /// The connection on which each of our nodes was last seen, if that is known.
    pub(crate) fn seen(&self) -> Option<u64> {
        self.machine.seen()
    }

    /// Records that our nodes were seen on this connection.
    pub(crate) fn saw(&mut self, connection: u64) {
        self.machine.saw(connection);
    }

    /// Whether the nodes of our nodes' names are certainly our nodes.
    pub(crate) fn certainty(&self) -> Certainty {
        self.machine.certainty(self.session.lease.connection())
    }

    fn poll_news(&mut self, cx: &mut Context<'_>) -> Poll<MemberNews> {
        if let Some(joint) = &mut self.joint
            && let Poll::Ready(news) = joint.poll_unpin(cx)
        {
            self.joint = None;
            return Poll::Ready(news);
        }
        for (index, member) in self.members.iter_mut().enumerate() {
            if let Poll::Ready(news) = member.poll(index, cx) {
                return Poll::Ready(news);
            }
        }
        Poll::Pending
    }

    /// Takes in an input. The requests that follow from it, if any, are sent at the next poll.
    pub(crate) fn handle(&mut self, input: impl Into<Input>) -> Option<Outcome> {
        let input = input.into();
        let present = self.session.lease.present(self.stop_margin());
        if let Input::LeaseConfirmed | Input::NodesConfirmed(_) = input
            && self.punctuality.hear(present.term.is_ok(), self.session.lease.doubted_for(), clock::now())
        {
            warn!(
                paths = %self.paths(), lease = ?self.session.lease.lengths().validity(),
                "each answer of ZooKeeper takes longer than the lease that it proves, so nothing is granted; choose a longer \
                 session timeout, or servers that are nearer"
            );
        }
        let commands = self.machine.handle(input, present);
        self.know_nodes();
        let mut outcome = None;
        for command in commands {
            debug!(paths = %self.paths(), ?command);
            outcome = self.perform(command).or(outcome);
        }
        outcome
    }

    /// Resolves when the contenders have ended.
    pub(crate) async fn ended(mut self) -> End {
        loop {
            match std::future::poll_fn(|cx| self.poll(cx)).await {
                Outcome::Ended(_, end) => return end,
                // The caller no longer wants the locks.
                Outcome::Granted(..) | Outcome::Lost(_) => drop(self.handle(Event::GiveUp)),
            }
        }
    }

    /// Leaves locks whose guard was lost, in the background. The successors observe their takeover delays.
    pub(crate) fn forfeit(self) {
        self.finish_by(Event::Forfeit);
    }

    fn finish_by(mut self, event: Event) {
        if let Some(Outcome::Ended(..)) = self.handle(event) {
            return;
        }
        if self.ticket.take().is_some_and(|ticket| ticket.withdraw()) {
            debug!("an acquisition is given up before its create is sent");
            self.handle(Event::Withheld);
        }
        if !self.machine.is_ended() {
            let session = self.session.clone();
            let paths = self.paths();
            debug!(paths, "a contender without a caller leaves in the background");
            let finish = self.ended().map(move |end| match end {
                End::Refused(refusal) => {
                    warn!(%paths, ?refusal, "the server refuses to delete a contender's node; the node stays until its session ends");
                }
                end => debug!(%paths, ?end, "an acquisition without a caller has ended"),
            });
            session.finish_leaving(finish.boxed());
        }
    }

    /// Tells the searches of the session which nodes are ours.
    fn know_nodes(&mut self) {
        let searches = &self.session.searches;
        let machine = &self.machine;
        for (index, member) in self.members.iter_mut().enumerate() {
            member.know(searches, || machine.own(index));
        }
    }

    fn perform(&mut self, command: Effect) -> Option<Outcome> {
        match command {
            Effect::All(together, certainty, tries) => {
                self.drop_requests();
                self.joint = Some(self.send(together, certainty, tries));
            }
            Effect::One(index, alone, ground, tries) => {
                self.joint = None;
                let pending = self.send_for(index, alone, ground, tries);
                self.members[index].pending = Some(pending);
            }
            Effect::ExpectLate(index) => {
                debug!("zklock goes on looking for the node of a create that was not answered");
                self.session.expect_late(self.members[index].entry.lock.clone(), self.id);
            }
            Effect::EndSession(index, refusal) => {
                warn!(
                    path = %self.members[index].entry.lock.queue.path, %refusal,
                    "a contender cannot tell which node is its own; zklock closes the ZooKeeper session, so that \
                     ZooKeeper deletes the node"
                );
                self.session.lease.ended_quietly(SessionEnd::Closed);
            }
            Effect::Tell(outcome) => {
                match outcome {
                    Outcome::Granted(..) => {
                        self.drop_requests();
                        self.places = None;
                    }
                    Outcome::Lost(_) => self.take_back(),
                    Outcome::Ended(..) => {
                        self.drop_requests();
                        self.members.iter_mut().for_each(|member| member.watch = None);
                        self.take_back();
                    }
                }
                return Some(outcome);
            }
        }
        None
    }

    fn drop_requests(&mut self) {
        self.joint = None;
        self.members.iter_mut().for_each(|member| member.pending = None);
    }

    /// From here on the node at this path goes with our one. Only a single contender has such a companion.
    pub(crate) fn accompany(&mut self, path: String) {
        if let ([member], Some(own)) = (&mut *self.members, self.machine.own(0)) {
            member.companion = Some(Arc::new(SharedCompanion::new(path, self.session.id, own.czxid)));
        }
    }

    /// Our nodes have gone without their companions, or are not ours alone any more.
    fn take_back(&self) {
        let companions = self.members.iter().filter_map(|member| member.companion.clone());
        companions.for_each(|companion| take_back(&self.session, companion));
    }

    fn send(&mut self, together: Together, certainty: Certainty, tries: Tries) -> Pending {
        match (together, certainty) {
            (Together::Enter, _) => {
                // Each create gets another id, because an earlier one may still take effect. There is at least one member.
                self.id = Uuid::new_v4();
                let entries = self.entries();
                let lock = &self.members[0].entry.lock;
                let data = NodeData::new(self.id, &lock.options.owner, lock.options.data.as_deref());
                let data = encode(&data.contending_for(lock.queue.kind()));
                let searches = self.session.searches.clone();
                self.send_entry(tries, move |wire| requests::enter(wire.client, entries, data, searches))
            }
            (Together::CreateDirectory, _) => {
                let entries = self.entries();
                self.send_entry(tries, |wire| requests::create_directories(wire.client, entries))
            }
            (Together::Confirm, Certainty::Seen(_)) => {
                let pause = self.session.pause_after(tries);
                let asked = self.session.confirmation();
                let asked = pause.then(|_| asked);
                asked
                    .map(|heard| if heard { Input::LeaseConfirmed } else { Input::Lost(None) }.into())
                    .boxed()
            }
            (Together::Confirm, Certainty::Unsure) => {
                debug!("a grant waits until a quorum has shown the nodes on this connection");
                let nodes = self.nodes();
                let answer = self
                    .session
                    .request_after(tries, None, move |wire: Wire| requests::confirm(wire.client, nodes));
                let given = |reply, connection| match reply {
                    Ok(_) => Input::NodesConfirmed(connection),
                    Err(reply) => Input::Reply(reply, connection),
                };
                await_answer(None, answer, given)
            }
            // The watches on our own nodes stay until the reply. The release fires them, which costs no request;
            // dropping them would cost some.
            (Together::Release, _) => {
                let nodes = self.nodes();
                let companion = self.members.first().and_then(|member| member.companion.clone());
                let request = move |wire: Wire| requests::release(wire.client, nodes, companion, certainty);
                let answer = self.session.request_after(tries, certainty.connection(), request);
                await_answer(None, answer, Input::Reply)
            }
        }
    }

    /// Sends a request that passes the session's entrance.
    fn send_entry<F: Future<Output = Report> + Send + 'static>(
        &mut self,
        tries: Tries,
        request: impl FnOnce(Wire) -> F + Send + 'static,
    ) -> Pending {
        let ticket = self.ticket.insert(Arc::default()).clone();
        let pause = self.session.pause_after(tries);
        let answer = self.session.entrance.clone().pass(ticket, self.session.requester.request(request));
        await_answer(None, pause.then(|_| answer), Input::Reply)
    }

    fn send_for(&mut self, index: usize, alone: Alone, ground: Ground, tries: Tries) -> Pending {
        let Member { entry, companion, .. } = &self.members[index];
        let lock = entry.lock.clone();
        let companion = companion.clone();
        let Ground { certainty, search } = ground;
        match alone {
            Alone::Find => {
                debug!("a create was not answered, so zklock looks for its node");
                let id = self.id;
                let searches = self.session.searches.clone();
                self.ask_for(index, tries, None, move |wire| {
                    requests::find(wire.client.clone(), lock, id, searches, search)
                })
            }
            Alone::Recover(own) => {
                debug!(
                    "zklock looks whether the contender's node is still there before it deletes the node by name"
                );
                self.ask_for(index, tries, None, move |wire| {
                    requests::recover(wire.client.clone(), lock, own)
                })
            }
            Alone::List => {
                let own = self.machine.own(index);
                self.ask_for(index, tries, None, move |wire| requests::list(wire.client.clone(), lock, own))
            }
            Alone::WatchPredecessor(predecessor, own) => {
                if let Some(places) = &self.places {
                    places.tell_place(index, &lock, predecessor, own);
                }
                self.ask_for(index, tries, None, move |wire| {
                    requests::watch_predecessor(wire.watching(), lock, predecessor, own)
                })
            }
            Alone::Delay => {
                debug!("somebody may have vanished without a release, so the takeover delay begins");
                let delay = self.session.pause(lock.options.takeover_delay);
                let ended = |end| Report::All(Event::SessionOver(end));
                let heard = move |over: Option<_>| over.map_or(Report::One(index, Event::Delayed), ended);
                delay.map(move |over| Input::Heard(heard(over)).into()).boxed()
            }
            Alone::WatchOwn(own) => {
                self.ask_for(index, tries, None, move |wire| requests::watch_own(wire.watching(), lock, own))
            }
            Alone::Review => {
                debug!("a holder lists its queue, because only a release has shown that nobody blocks it");
                self.ask_for(index, tries, None, |wire| requests::review(wire.client.clone(), lock))
            }
            Alone::Release(own) => self.ask_for(index, tries, certainty.connection(), move |wire| {
                requests::release_one(wire.client.clone(), (lock, own), certainty)
            }),
            Alone::Delete(own) => {
                self.members[index].watch = None;
                self.ask_for(index, tries, certainty.connection(), move |wire| {
                    requests::delete(wire.client.clone(), lock, own, companion, certainty)
                })
            }
        }
    }

    /// Sends a request for one member; on this connection, if one is given.
    fn ask_for<F: Future<Output = Reply> + Send + 'static>(
        &self,
        index: usize,
        tries: Tries,
        connection: Option<u64>,
        request: impl FnOnce(&Wire) -> F + Send + 'static,
    ) -> Pending {
        let answer = self.session.request_after(tries, connection, |wire: Wire| {
            let reply = request(&wire);
            reply.map(move |Reply { event, watch }| (event, watch.map(|watch| wire.keep(watch))))
        });
        let given = move |(event, watch): (_, Option<_>), connection| MemberNews {
            watch: watch.map(|watch| (index, watch)),
            ..Input::Reply(Report::One(index, event), connection).into()
        };
        await_answer(Some(index), answer, given)
    }

    /// The queues that the members join.
    fn entries(&self) -> Vec<QueueEntry> {
        self.members.iter().map(|member| member.entry.clone()).collect()
    }

    /// The members' nodes, with their locks.
    fn nodes(&self) -> Vec<OwnNode> {
        let locks = self.locks().cloned().enumerate();
        locks.filter_map(|(index, lock)| Some((lock, self.machine.own(index)?))).collect()
    }
}

impl Work for Driver {
    type Output = Outcome;

    /// Goes on as far as possible. It resolves once when the locks are granted, once if the guard is lost, and once when
    /// the contenders have ended.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        loop {
            let MemberNews { input, watch } = std::task::ready!(self.poll_news(cx));
            if let Some((index, watch)) = watch {
                self.members[index].watch = Some(watch);
            }
            if let Some(places) = &mut self.places {
                places.see(&input);
            }
            if let Some(outcome) = self.handle(input) {
                return Poll::Ready(outcome);
            }
        }
    }

    /// Leaves the queues, or releases the locks, in the background.
    fn abandon(self) {
        self.finish_by(Event::GiveUp);
    }

    /// Makes the next poll look again at the nodes that the contenders watch, as if the watches were lost.
    fn doubt(&mut self) {
        debug!("a waiter has heard nothing for long, so it looks again");
        self.members.iter_mut().for_each(Member::doubt);
    }

    /// The paths of these locks, for messages.
    fn paths(&self) -> String {
        paths(self.locks())
    }
}
