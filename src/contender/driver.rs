//! Runs one [`Group`]: turns its outputs into requests, and their replies into its inputs.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tracing::{debug, warn};
use uuid::Uuid;
use zklock_recipe::{
    Arrival, Command, End, Event, Group, Input, Machine, Output, Own, Patience, SessionEnd, Sight, Takeover,
    Term,
};
use zookeeper_client::Client;

use super::companion::take_back;
use super::member::{Heard, Member, count};
use crate::backoff::Tries;
use crate::node::NodeData;
use crate::requests::{self, Certainty, Companion, OwnNode, Reply, Search};
use crate::settings::{Entry, Settings, paths};
use crate::zk::{Answer, Sent, Ticket, Wire, ZkSession};

/// The contenders of one acquisition under way. They have no task of their own: their owner polls them. An owner that
/// drops them early gives them to the session's background task with [`Driver::abandon`].
pub(crate) struct Driver {
    group: Group,
    session: Arc<ZkSession>,
    members: Vec<Member>,
    /// The `id` in the data of the last create.
    id: Uuid,
    /// The reply to a request for all members.
    joint: Option<BoxFuture<'static, JointHeard>>,
    /// Whether the last entry was sent, if there was one.
    ticket: Option<Arc<Ticket>>,
    tries: Tries,
    /// The lease's term at the last `Confirmed`.
    term: Option<Term>,
}

/// The result of the last request for all members.
enum JointHeard {
    Reply(Input, Sent),
    /// A quorum has confirmed the lease.
    LeaseConfirmed,
    /// The connection was lost before the reply.
    Nothing,
    /// The session is over.
    Over(SessionEnd),
}

/// The outcome of a driver.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Every lock is granted, in this term of the lease.
    Granted(Vec<Own>, Term),
    /// The locks were held, and the guard is lost while the session lives. The driver's owner then gives up.
    Lost,
    /// The contenders have ended. The number is that of the queue in which this happened first.
    Ended(usize, End),
}

impl Driver {
    /// Makes the contenders for these queues, of which there is at least one. They have not begun.
    pub(crate) fn new(
        session: Arc<ZkSession>,
        entries: &[Entry],
        patience: Patience,
        arrival: Arrival,
    ) -> Self {
        let machine = |entry: &Entry| {
            let takeover =
                if entry.lock.takeover_delay.is_zero() { Takeover::AtOnce } else { Takeover::Delayed };
            Machine::new(patience, takeover, arrival)
        };
        Self {
            group: Group::new(entries.iter().map(machine)),
            session,
            members: entries.iter().cloned().map(Member::new).collect(),
            id: Uuid::nil(),
            joint: None,
            ticket: None,
            tries: Tries::default(),
            term: None,
        }
    }

    /// Makes a contender that needs no queue: a transaction on this connection has created its node, and that alone has
    /// granted it. It asks for confirmation once it begins.
    pub(crate) fn admitted(session: Arc<ZkSession>, entry: Entry, own: Own, connection: Option<u64>) -> Self {
        let mut member = Member::new(entry);
        member.admitted(&session, own, connection);
        Self {
            group: Group::new([Machine::of_admitted(own)]),
            session,
            members: vec![member],
            id: Uuid::nil(),
            joint: None,
            ticket: None,
            tries: Tries::default(),
            term: None,
        }
    }

    /// Whether a predecessor may have vanished since the contenders came: one had a predecessor, or was without an
    /// answer.
    pub(crate) fn has_waited(&self) -> bool {
        self.members.iter().any(|member| member.waited)
    }

    /// The session in which these contenders live.
    pub(crate) fn session(&self) -> &Arc<ZkSession> {
        &self.session
    }

    /// The locks for which they contend.
    pub(crate) fn locks(&self) -> impl Iterator<Item = &Arc<Settings>> {
        self.members.iter().map(|member| &member.entry.lock)
    }

    /// The paths of these locks, for messages.
    pub(crate) fn paths(&self) -> String {
        paths(self.locks())
    }

    /// How long before the end of the lease the holder is told. It is no longer than this session allows, because a
    /// session may have been granted a shorter timeout than the one before.
    pub(crate) fn stop_margin(&self) -> Duration {
        let margin = self.locks().map(|lock| lock.stop_margin).max().unwrap_or_default();
        margin.min(self.session.lengths().longest_stop_margin())
    }

    /// Returns true once the nodes are old enough for their holder to watch them.
    pub(crate) fn is_settled(&self) -> bool {
        self.members.iter().all(Member::is_settled)
    }

    /// Goes on as far as possible. It resolves once when the locks are granted, once if the guard is lost, and once when
    /// the contenders have ended.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        loop {
            let input = std::task::ready!(self.poll_input(cx));
            if let Some(outcome) = self.take_in(input) {
                return Poll::Ready(outcome);
            }
        }
    }

    fn poll_input(&mut self, cx: &mut Context<'_>) -> Poll<Input> {
        if let Some(joint) = &mut self.joint
            && let Poll::Ready(heard) = joint.poll_unpin(cx)
        {
            self.joint = None;
            return Poll::Ready(self.heard(heard));
        }
        for (index, member) in self.members.iter_mut().enumerate() {
            if let Poll::Ready(event) = member.poll(cx) {
                return Poll::Ready(Input::One(index, event));
            }
        }
        Poll::Pending
    }

    /// Makes the next poll look again at the nodes that the contenders watch, as if the watches were lost.
    pub(crate) fn doubt(&mut self) {
        self.members.iter_mut().for_each(Member::doubt);
    }

    /// Takes in an event from the caller. The requests that follow from it, if any, are sent at the next poll.
    pub(crate) fn handle(&mut self, event: Event) -> Option<Outcome> {
        self.take_in(Input::All(event))
    }

    fn take_in(&mut self, input: Input) -> Option<Outcome> {
        let input = match (input, self.session.lease().end()) {
            (Input::One(index, Event::Refused(refusal)), end) if self.members[index].recovering => {
                // A node that nobody can identify would keep the lock from everybody for as long as the session lives. Another
                // contender may have given the session up by now.
                let end = end.unwrap_or_else(|| {
                    warn!(
                        path = %self.members[index].entry.lock.path, %refusal,
                        "a contender cannot tell which node is its own; zklock gives up the ZooKeeper session, so that the node goes with it"
                    );
                    self.session.close();
                    SessionEnd::Closed
                });
                Input::All(Event::SessionOver(end))
            }
            // No answer comes any more in this session, however often the contenders ask.
            (
                Input::All(Event::Unanswered) | Input::One(_, Event::Unanswered | Event::WatchLost),
                Some(end),
            ) => Input::All(Event::SessionOver(end)),
            // A session ends for all.
            (Input::One(_, Event::SessionOver(end)), _) => Input::All(Event::SessionOver(end)),
            (input, _) => input,
        };
        self.observe(&input);
        let removed = matches!(
            input,
            Input::All(Event::Released(true) | Event::SessionOver(_))
                | Input::One(_, Event::Released(true) | Event::Deleted)
        );
        // If another member finds its node, this one may have been deleted.
        let missing = matches!(input, Input::One(_, Event::Recovered(None)));
        let before = self.known();
        let outputs = self.group.handle(input);
        // Somebody else has deleted one of our nodes, or has written to it. If a common ancestor of the queues was
        // removed, other contenders may have the names of the other nodes by now.
        if missing || outputs.contains(&Output::Lose) || (self.known() < before && !removed) {
            self.forget();
        }
        let mut outcome = None;
        for output in outputs {
            debug!(paths = %self.paths(), ?output);
            outcome = self.execute(output).or(outcome);
        }
        outcome
    }

    fn observe(&mut self, input: &Input) {
        match input {
            // The reply may say so before the connection's client knows.
            Input::All(Event::SessionOver(end)) => self.session.lease().ended(*end),
            Input::All(event) => {
                count(&mut self.tries, event);
                let unanswered = *event == Event::Unanswered;
                self.members.iter_mut().for_each(|member| member.waited |= unanswered);
            }
            Input::Failed(_, event) => count(&mut self.tries, event),
            Input::Entered(nodes) => {
                self.tries = Tries::default();
                for (member, (own, sight)) in self.members.iter_mut().zip(nodes) {
                    member.know(&self.session, *own);
                    member.observe(&Event::Entered { own: *own, sight: sight.clone() });
                }
            }
            Input::One(index, event) => {
                let member = &mut self.members[*index];
                if let Event::Recovered(found) = event {
                    member.may_come_late = found.is_none() && self.group.own(*index).is_none();
                    found.iter().for_each(|own| member.know(&self.session, *own));
                }
                member.observe(event);
            }
        }
    }

    /// Resolves when the contenders have ended.
    pub(crate) async fn ended(mut self) -> End {
        loop {
            match std::future::poll_fn(|cx| self.poll(cx)).await {
                Outcome::Ended(_, end) => return end,
                // The caller no longer wants the locks.
                Outcome::Granted(..) | Outcome::Lost => drop(self.handle(Event::GiveUp)),
            }
        }
    }

    /// Leaves the queues, or releases the locks, in the background.
    pub(crate) fn abandon(self) {
        self.finish_by(Event::GiveUp);
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
            self.handle(Event::Withheld);
        }
        if !self.group.is_ended() {
            let (session, paths) = (self.session.clone(), self.paths());
            let finish = self.ended().map(move |end| match end {
                End::Refused(refusal) => {
                    warn!(%paths, ?refusal, "the server refuses to delete a contender's node; the node stays until its session ends");
                }
                end => debug!(%paths, ?end, "an acquisition without a caller has ended"),
            });
            session.finish(finish.boxed());
        }
    }

    /// Takes in what a reply for all says about the lease and about our nodes. If it returns `Confirmed`, the lease is
    /// valid at this instant.
    fn heard(&mut self, heard: JointHeard) -> Input {
        let lease = self.session.lease();
        let lost = matches!(heard, JointHeard::Nothing);
        self.members.iter_mut().for_each(|member| member.lost = lost);
        match heard {
            JointHeard::Reply(input @ (Input::Entered(_) | Input::All(Event::Confirmed)), sent) => {
                lease.confirmed(sent);
                self.members.iter_mut().for_each(|member| member.seen = Some(sent.connection));
                match input {
                    // The reply has waited for its caller, and the connection is lost. A predecessor may have vanished since.
                    Input::Entered(nodes) if lease.connection() != Some(sent.connection) => {
                        Input::Entered(nodes.into_iter().map(|(own, _)| (own, Sight::Nothing)).collect())
                    }
                    Input::Entered(_) => input,
                    _ => self.confirmed(),
                }
            }
            JointHeard::Reply(input, _) => input,
            // Meanwhile another connection may have come, on which our nodes were not seen.
            JointHeard::LeaseConfirmed if self.certainty() == Certainty::Unsure => {
                Input::All(Event::Unanswered)
            }
            JointHeard::LeaseConfirmed => self.confirmed(),
            JointHeard::Nothing => Input::All(Event::Unanswered),
            JointHeard::Over(end) => Input::All(Event::SessionOver(end)),
        }
    }

    /// Returns `Confirmed` if the lease is valid at this instant.
    fn confirmed(&mut self) -> Input {
        match self.session.lease().term() {
            Ok(term) => {
                self.term = Some(term);
                Input::All(Event::Confirmed)
            }
            Err(_) => {
                self.tries.steady();
                Input::All(Event::Unanswered)
            }
        }
    }

    /// The connection on which each of our nodes was last seen, if that is known.
    pub(crate) fn seen(&self) -> Option<u64> {
        self.members.iter().map(|member| member.seen).min().flatten()
    }

    /// Records that our nodes were seen on this connection. The news may come late, so an earlier connection changes
    /// nothing.
    pub(crate) fn saw(&mut self, connection: u64) {
        self.members.iter_mut().for_each(|member| member.seen = member.seen.max(Some(connection)));
    }

    /// Forgets where our nodes were seen: the nodes of their names may be other ones.
    pub(crate) fn forget(&mut self) {
        self.members.iter_mut().for_each(|member| member.seen = None);
    }

    /// Whether the nodes of our nodes' names are certainly our nodes.
    pub(crate) fn certainty(&self) -> Certainty {
        certainty(self.seen(), self.session.lease().connection())
    }

    fn execute(&mut self, output: Output) -> Option<Outcome> {
        match output {
            Output::All(command) => {
                self.members.iter_mut().for_each(|member| member.pending = None);
                self.execute_for_all(command)
            }
            Output::One(index, command) => {
                self.joint = None;
                self.execute_for_one(index, command);
                None
            }
            Output::Grant(nodes) => self.term.map(|term| Outcome::Granted(nodes, term)),
            Output::Lose => {
                self.take_back();
                Some(Outcome::Lost)
            }
            Output::End(member, end) => {
                self.joint = None;
                for member in &mut self.members {
                    (member.pending, member.watch) = (None, None);
                }
                self.expect_late();
                self.take_back();
                Some(Outcome::Ended(member, end))
            }
        }
    }

    /// Gives up the nodes that were searched for in vain. Their creates may still take effect.
    fn expect_late(&mut self) {
        for member in &mut self.members {
            if std::mem::take(&mut member.may_come_late) {
                self.session.expect_late(member.entry.lock.clone(), self.id);
            }
        }
    }

    /// From here on the node at this path goes with our one. Only a single contender has such a companion.
    pub(crate) fn accompany(&mut self, path: String) {
        if let ([member], Some(own)) = (&mut *self.members, self.group.own(0)) {
            member.companion = Some(Arc::new(Companion::new(path, self.session.id(), own.czxid)));
        }
    }

    /// Our nodes have gone without their companions, or are not ours alone any more.
    pub(crate) fn take_back(&self) {
        let companions = self.members.iter().filter_map(|member| member.companion.clone());
        companions.for_each(|companion| take_back(&self.session, companion));
    }

    fn execute_for_all(&mut self, command: Command) -> Option<Outcome> {
        match command {
            Command::Enter(look) => {
                // Each create gets another id, because an earlier one may still take effect.
                self.expect_late();
                self.id = Uuid::new_v4();
                let lock = self.locks().next()?;
                let data = NodeData::new(self.id, &lock.owner, lock.data.as_deref());
                let data = data.contending_for(lock.kind).encode();
                let entries = self.entries();
                self.request_entry(move |client| requests::enter(client, entries, data, look));
            }
            Command::CreateDirectory => {
                let entries = self.entries();
                self.request_entry(|client| requests::create_directories(client, entries));
            }
            // The lock is granted at once if the lease is valid for some time and our nodes are certain. Otherwise a
            // quorum is asked first: about the lease, or about our nodes, too.
            Command::Confirm => match (self.session.lease().term(), self.certainty()) {
                (Ok(term), Certainty::Seen(_)) if self.session.lease().is_ample(self.stop_margin()) => {
                    self.term = Some(term);
                    return self.handle(Event::Confirmed);
                }
                (_, Certainty::Seen(_)) => {
                    let (pause, asked) = (self.session.pause_after(self.tries), self.session.confirmation());
                    let heard = async move {
                        pause.await;
                        if asked.await { JointHeard::LeaseConfirmed } else { JointHeard::Nothing }
                    };
                    self.joint = Some(heard.boxed());
                }
                _ => {
                    let nodes = self.nodes();
                    self.request(None, |client| requests::confirm(client, nodes));
                }
            },
            // The watches on our own nodes stay until the reply. The release fires them, which costs no request;
            // dropping them would cost some.
            Command::Release(_) => {
                let (nodes, certainty) = (self.nodes(), self.certainty());
                let companion = self.members.first().and_then(|member| member.companion.clone());
                self.request(certainty.connection(), move |client| {
                    requests::release(client, nodes, companion, certainty)
                });
            }
            _ => {}
        }
        None
    }

    fn execute_for_one(&mut self, index: usize, command: Command) {
        let own = self.group.own(index);
        let member = &mut self.members[index];
        let (lock, companion) = (member.entry.lock.clone(), member.companion.clone());
        match (command, own) {
            (Command::Recover, Some(own)) => {
                self.request_of(index, None, move |client| requests::recover(client, lock, own));
                self.members[index].recovering = true;
            }
            (Command::Recover, None) => {
                let (id, searches) = (self.id, self.session.searches().clone());
                let search = if member.lost { Search::Present } else { Search::After };
                self.request_of(index, None, move |client| {
                    requests::find(client, lock, id, searches, search)
                });
                self.members[index].recovering = true;
            }
            (Command::List, _) => self.request_of(index, None, |client| requests::list(client, lock)),
            (Command::WatchPredecessor(predecessor), Some(own)) => {
                self.request_of(index, None, move |client| {
                    requests::watch_predecessor(client, lock, predecessor, own)
                });
            }
            (Command::Delay, _) => self.delay(index),
            (Command::WatchOwn(_), Some(own)) => {
                self.request_of(index, None, move |client| requests::watch_own(client, lock, own));
            }
            (Command::Release(_), Some(own)) => {
                let certainty = self.certainty_of(index);
                self.request_of(index, certainty.connection(), move |client| async move {
                    match requests::release(client, vec![(lock, own)], companion, certainty).await {
                        Input::All(event) | Input::Failed(_, event) => event.into(),
                        Input::Entered(_) | Input::One(..) => Event::Unanswered.into(),
                    }
                });
            }
            (Command::Delete(_), Some(own)) => {
                member.watch = None;
                let certainty = self.certainty_of(index);
                self.request_of(index, certainty.connection(), move |client| {
                    requests::delete(client, lock, own, companion, certainty)
                });
            }
            _ => {}
        }
    }

    /// The queues that the members join.
    fn entries(&self) -> Vec<Entry> {
        self.members.iter().map(|member| member.entry.clone()).collect()
    }

    /// How many of the members' nodes are known to exist.
    fn known(&self) -> usize {
        (0..self.members.len()).filter(|index| self.group.own(*index).is_some()).count()
    }

    /// The members' nodes, of which each is known.
    fn nodes(&self) -> Vec<OwnNode> {
        let nodes = self.members.iter().enumerate();
        nodes
            .filter_map(|(index, member)| Some((member.entry.lock.clone(), self.group.own(index)?)))
            .collect()
    }

    /// As [`certainty`](Self::certainty), for one node.
    fn certainty_of(&self, index: usize) -> Certainty {
        certainty(self.members[index].seen, self.session.lease().connection())
    }

    /// Waits for the takeover delay to pass, or for the session to end. After the delay, an earlier look at our node is too
    /// old.
    fn delay(&mut self, index: usize) {
        let member = &mut self.members[index];
        member.seen = None;
        let delay = self.session.pause(member.entry.lock.takeover_delay);
        member.pending = Some(delay.map(|over| over.map_or(Heard::Delayed, Heard::Over)).boxed());
    }

    /// Sends a request for all members. If a connection is given, the request goes out on that connection only.
    /// Otherwise it goes out on the present one or on the next one.
    fn request<F>(&mut self, connection: Option<u64>, request: impl FnOnce(Arc<Client>) -> F + Send + 'static)
    where
        F: Future<Output = Input> + Send + 'static,
    {
        let request = |wire: Wire| request(wire.client);
        let answer = self.session.requester().request_where(connection, request);
        self.await_answer(answer);
    }

    /// As [`request`](Self::request), for a request that passes the session's entrance.
    fn request_entry<F>(&mut self, request: impl FnOnce(Arc<Client>) -> F + Send + 'static)
    where
        F: Future<Output = Input> + Send + 'static,
    {
        let answer = self.session.requester().request(|wire: Wire| request(wire.client));
        let ticket = Arc::<Ticket>::default();
        self.ticket = Some(ticket.clone());
        self.await_answer(self.session.entrance().clone().pass(ticket, answer));
    }

    fn await_answer(&mut self, answer: impl Future<Output = Answer<Input>> + Send + 'static) {
        let pause = self.session.pause_after(self.tries);
        let heard = async move {
            pause.await;
            match answer.await {
                Answer::Given(input, sent) => JointHeard::Reply(input, sent),
                Answer::Lost => JointHeard::Nothing,
                Answer::Over(end) => JointHeard::Over(end),
            }
        };
        self.joint = Some(heard.boxed());
    }

    /// As [`request`](Self::request), for one member.
    fn request_of<F>(
        &mut self,
        index: usize,
        connection: Option<u64>,
        request: impl FnOnce(Arc<Client>) -> F + Send + 'static,
    ) where
        F: Future<Output = Reply> + Send + 'static,
    {
        let request = |wire: Wire| {
            let reply = request(wire.client.clone());
            async move {
                let Reply { event, watch } = reply.await;
                (event, watch.map(|watch| wire.keep(watch)))
            }
        };
        let answer = self.session.requester().request_where(connection, request);
        let member = &mut self.members[index];
        let pause = self.session.pause_after(member.tries);
        let heard = async move {
            pause.await;
            match answer.await {
                Answer::Given((event, watch), sent) => Heard::Reply { event, watch, sent },
                Answer::Lost => Heard::Nothing,
                Answer::Over(end) => Heard::Over(end),
            }
        };
        (member.pending, member.recovering) = (Some(heard.boxed()), false);
    }
}

fn certainty(seen: Option<u64>, present: Option<u64>) -> Certainty {
    match present {
        Some(connection) if seen == present => Certainty::Seen(connection),
        _ => Certainty::Unsure,
    }
}
