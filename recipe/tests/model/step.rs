//! Every step that the world can take, and which of them it can take now.

use zklock_recipe::Kind;

use super::contender::{Caller, Contender, Pending, Seated};
use super::contest::replay;
use super::exploration::State;
use super::follower::{Down, Streams, Up};
use super::nodes::Party;
use super::queues::World;
use super::requests::{Request, Sent};
use super::session::{Assurance, Session};
use super::setup::{Clock, Fault, Flaw, Look, Setup};
use super::tree::Path;

/// One step; most name a contender or a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Begin(Party),
    GiveUp(Party),
    /// The caller does not poll its acquisition any more.
    Neglect(Party),
    /// It does again.
    Poll(Party),
    /// An acquisition that has asked to be polled, and was not for long, gives its place up.
    Overdue(Party),
    /// The holder is done, or drops a guard that it has lost.
    LetGo(Party),
    Settle(Party),
    /// The takeover delay of this member is over.
    DelayOver(Party, usize),
    /// The server applies the session's next request.
    Apply(usize),
    /// As `Apply` with the read behind a create, which looks at the queue in this way.
    See(usize, Look),
    /// As `Apply` with a create, whose answer says nothing.
    Doubt(usize),
    /// The server applies what it had received before the connection broke.
    ApplyStray(usize),
    /// The contender takes in what the network brings it next.
    Deliver(Party),
    /// The session deletes a node of a create that came late.
    Sweep(usize),
    /// The connection breaks; so much of what was under way had reached the client.
    Break {
        session: usize,
        kept: usize,
    },
    Reconnect(usize),
    ReconnectToFollower(usize),
    /// The leader takes in what the follower sent next.
    HearFollower,
    /// The follower takes in what the leader sent next.
    HearLeader,
    /// One of the streams between the two stands still from now on, both or none.
    Stall(Streams),
    Ping,
    /// Time passes.
    Tick,
    /// Time passes by the leader's clock alone.
    Gain,
    /// The client asks the leader to resume its session, and gives that up.
    ResumeByHalf(usize),
    /// The leader hears of that.
    HearHalf(usize),
    /// The leader takes a session from its queue, and has yet to expire it.
    Take(usize),
    Beat(usize),
    Lapse(usize),
    Renew(usize),
    /// The server ends the session.
    Expire(usize),
    /// An operator ends the session.
    Evict(usize),
    /// The client learns it.
    Told(usize),
    Close(usize),
    /// A contender of another client, by its number.
    ForeignerEnters(usize),
    ForeignerHolds(usize),
    ForeignerLeaves(usize),
    /// The directory of a queue is removed.
    Reap(usize),
    /// An operator deletes a node in a queue.
    OperatorDeletes(Path),
    /// An operator removes all directories, with what is in them.
    Uproot,
    /// Somebody writes to a node.
    Write(Path),
}

impl Setup {
    pub(crate) fn first(&self) -> State {
        let setup = Self { giving_up: true, ..self.clone() };
        replay(&setup, &setup.opening)
    }

    /// Everything that can happen next, if whatever goes wrong in it may.
    pub(crate) fn steps(&self, world: &State, steps: &mut Vec<Step>) {
        // With a clock, whatever is under way arrives before time passes, unless it is held back.
        if self.clock.is_some()
            && let Some(step) = world.arrival(self)
        {
            return steps.push(step);
        }
        for party in 0..world.contenders.len() {
            world.contender_steps(party, self, steps);
        }
        world.foreigner_steps(steps);
        for (index, session) in world.sessions.iter().enumerate() {
            world.session_steps(index, session, self, steps);
        }
        if let Some(follower) = world.follower.as_ref().filter(|_| self.clock.is_none()) {
            steps.extend((!follower.up.is_empty()).then_some(Step::HearFollower));
            steps.extend((!follower.down.is_empty()).then_some(Step::HearLeader));
        }
        if let Some(clock) = self.clock {
            world.clock_steps(clock, steps);
        }
        steps.extend(world.leader.tree.nodes().next().map(|_| Step::Uproot));
        for (path, _) in world.leader.tree.nodes() {
            steps.extend([Step::OperatorDeletes(path), Step::Write(path)]);
        }
        for (index, directory) in world.leader.tree.directories.iter().enumerate() {
            let reapable = directory.as_ref().is_some_and(|it| it.children.is_empty() && it.next > 0);
            steps.extend(reapable.then_some(Step::Reap(index)));
        }
    }
}

impl Step {
    /// What goes wrong in it.
    pub(crate) fn fault(self, world: &State) -> Option<Fault> {
        let fault = match self {
            Step::Neglect(_) => Fault::Neglect,
            Step::Poll(_) => Fault::Return,
            Step::Doubt(_) => Fault::Doubt,
            Step::Break { .. } => Fault::Break,
            Step::Stall(_) => Fault::Stall,
            Step::Gain => Fault::Gain,
            Step::ResumeByHalf(_) => Fault::Half,
            Step::Take(_) => Fault::Race,
            Step::Beat(_) => Fault::Beat,
            Step::Lapse(_) => Fault::Lapse,
            Step::Expire(session) if world.sessions[session].expires_by_chance() => Fault::Expiry,
            Step::Evict(_) => Fault::Eviction,
            Step::Close(_) => Fault::Closing,
            Step::Reap(_) => Fault::Reap,
            Step::OperatorDeletes(_) => Fault::Deletion,
            Step::Uproot => Fault::Uprooting,
            Step::Write(_) => Fault::Write,
            _ => return None,
        };
        Some(fault)
    }

    /// Nobody need ever do this. All other steps happen sooner or later.
    pub(crate) fn is_voluntary(self, world: &State) -> bool {
        match self {
            Step::Begin(_)
            | Step::GiveUp(_)
            | Step::Settle(_)
            | Step::ApplyStray(_)
            | Step::HearHalf(_)
            | Step::ForeignerEnters(_) => true,
            Step::Expire(session) => !world.sessions[session].over,
            Step::ForeignerLeaves(index) => world.foreigners[index].may_stay(),
            _ => false,
        }
    }
}

impl World {
    fn contender_steps(&self, party: Party, setup: &Setup, steps: &mut Vec<Step>) {
        let contender = &self.contenders[party];
        let session = &self.sessions[contender.session];
        match contender.caller {
            Caller::Idle if !session.over && !self.has_idle_twin_before(party, setup) => {
                steps.push(Step::Begin(party));
            }
            Caller::Waiting if setup.giving_up => steps.push(Step::GiveUp(party)),
            Caller::Holding { .. } => {
                steps.push(Step::LetGo(party));
                if setup.settling && !contender.settled {
                    steps.push(Step::Settle(party));
                }
            }
            Caller::Idle | Caller::Waiting | Caller::Gone => {}
        }
        let mut offer = |step, when: bool| steps.extend(when.then_some(step));
        let mut delayed = self.delays_over(contender, setup);
        let hears = session.brings(party);
        if contender.neglected {
            let asks = hears || self.is_assured(party) || delayed.next().is_some();
            offer(Step::Poll(party), true);
            offer(Step::Overdue(party), asks && setup.flaw != Some(Flaw::NobodyIsEvicted));
        } else {
            offer(Step::Neglect(party), contender.caller == Caller::Waiting);
            offer(Step::Deliver(party), hears);
            steps.extend(delayed.map(|seat| Step::DelayOver(party, seat)));
        }
    }

    /// Whether everybody in other sessions waits in the queue, reads already, comes behind somebody who waits, or has left
    /// the queue to such: a takeover delay covers nobody else. With more than two contenders, only guards count whose lease is kept by the
    /// clock: nothing else ends before the delay.
    fn others_wait(&self, index: usize) -> bool {
        let others = || self.contenders.iter().filter(|contender| contender.session != index);
        let kept = matches!(self.sessions[index].assurance, Assurance::Kept(_));
        let reads = |contender: &Contender| {
            contender.holds() && contender.seats.iter().all(|seated| seated.seat.kind == Kind::Shared)
        };
        let outside =
            |contender: &Contender| contender.caller == Caller::Idle || contender.acquisition.is_ended();
        let leaves_it = |contender: &Contender| outside(contender) && others().any(Contender::watches);
        let covered =
            |contender: &Contender| contender.watches() || kept && (reads(contender) || leaves_it(contender));
        (kept || others().count() == 1) && others().all(covered)
    }

    /// The members whose delay is over. With a clock, it is a session timeout; without, it may take any time.
    fn delays_over(&self, contender: &Contender, setup: &Setup) -> impl Iterator<Item = usize> {
        let is_over = move |seated: &Seated| {
            setup.clock.is_none_or(|clock| {
                let shorter = if setup.flaw == Some(Flaw::DelayIsTooShort) { 1 } else { 0 };
                self.now >= seated.asked + clock.timeout - shorter
            })
        };
        let seats = contender.seats.iter().enumerate();
        let over = seats.filter(move |(_, seated)| seated.pending == Some(Pending::Delay) && is_over(seated));
        over.map(|(seat, _)| seat)
    }

    fn session_steps(&self, index: usize, session: &Session, setup: &Setup, steps: &mut Vec<Step>) {
        let mut offer = |step, when: bool| steps.extend(when.then_some(step));
        offer(Step::Sweep(index), session.alive && session.connected && self.late_node(index).is_some());
        offer(Step::ApplyStray(index), session.alive && !session.strays.is_empty());
        offer(Step::Expire(index), session.alive && session.over);
        if session.over {
            return;
        }
        // A follower that has not heard of the end yet goes on.
        let goes_on = session.connected && session.follows;
        if !session.alive && !goes_on {
            return offer(Step::Told(index), true);
        }
        // What happens to a session that nobody uses is of no interest, unless its lease has a past for those who come.
        let idle = |party: Party| self.contenders[party].caller == Caller::Idle;
        let busy = self
            .contenders_of(index)
            .any(|party| !idle(party) && !self.contenders[party].acquisition.is_ended());
        let is_kept = matches!(session.assurance, Assurance::Kept(_));
        let lives = busy || is_kept && self.contenders_of(index).any(idle);
        if session.connected {
            let creates = |sent: &Sent| sent.awaited && matches!(sent.request, Request::Create(..));
            let next = session.up.first().filter(|_| !self.waits(index));
            let looks = |sent: &Sent| matches!(sent.request, Request::Look(_));
            offer(Step::Apply(index), next.is_some_and(|sent| !looks(sent)));
            for look in &setup.looks {
                offer(Step::See(index, *look), next.is_some_and(looks));
            }
            offer(Step::Doubt(index), next.is_some_and(creates));
            for kept in 0..=session.down.len() {
                offer(Step::Break { session: index, kept }, lives);
            }
        } else if !session.resuming {
            offer(Step::ResumeByHalf(index), session.alive && !session.half);
            offer(Step::Reconnect(index), true);
            offer(Step::ReconnectToFollower(index), self.follower.is_some());
        }
        if !session.alive {
            return;
        }
        match session.assurance {
            Assurance::Given(valid) => {
                let expirable = !valid || setup.flaw == Some(Flaw::LeaseIsTooLong);
                offer(Step::Renew(index), !valid && session.connected);
                offer(Step::Lapse(index), valid && busy);
                offer(Step::Expire(index), expirable && busy);
            }
            Assurance::Kept(_) => {
                let due = self.leader_time() >= session.expiry;
                offer(Step::HearHalf(index), session.half);
                offer(Step::Expire(index), lives && (due || session.taken.is_some()));
                offer(Step::Take(index), lives && due && session.taken.is_none());
                offer(Step::Beat(index), session.connected && !self.is_beating(index));
            }
        }
        offer(Step::Evict(index), busy && (setup.clock.is_none() || self.others_wait(index)));
        offer(Step::Close(index), busy);
    }

    /// What arrives next.
    pub(crate) fn arrival(&self, setup: &Setup) -> Option<Step> {
        if let Some(follower) = &self.follower {
            if !follower.up.is_empty() && !follower.stalled.up {
                return Some(Step::HearFollower);
            }
            if !follower.down.is_empty() && !follower.stalled.down {
                return Some(Step::HearLeader);
            }
        }
        let reaches = |index: &usize| {
            let session = &self.sessions[*index];
            session.connected && !session.up.is_empty() && !self.waits(*index)
        };
        let arrives = |party: &usize| self.sessions[self.contenders[*party].session].brings(*party);
        let applied =
            (0..self.sessions.len()).find(reaches).map(|index| match self.sessions[index].up[0].request {
                Request::Look(_) => Step::See(index, setup.looks[0]),
                _ => Step::Apply(index),
            });
        applied.or_else(|| (0..self.contenders.len()).find(arrives).map(Step::Deliver))
    }

    /// What a follower answers behind a write waits for that.
    fn waits(&self, index: usize) -> bool {
        self.sessions[index].follows
            && self.follower.as_ref().is_some_and(|follower| follower.is_asking(index))
    }

    /// The leader pings every half tick, and is late by a quarter at most.
    fn clock_steps(&self, clock: Clock, steps: &mut Vec<Step>) {
        let now = self.leader_time();
        let silence = now - self.pinged;
        let mut overdue = false;
        if let Some(follower) = &self.follower {
            if silence >= Clock::TICK / 2 {
                steps.push(Step::Ping);
            }
            overdue = silence + 1 > Clock::TICK / 2 + Clock::TICK / 4;
            let all = [(false, false), (false, true), (true, false), (true, true)];
            let all = all.map(|(up, down)| Streams { up, down });
            steps.extend(all.into_iter().filter(|it| *it != follower.stalled).map(Step::Stall));
        }
        // The leader marks what it took from its queue within a lag.
        let marking = |session: &Session| session.taken.is_some_and(|taken| now > taken);
        if now < clock.end && !overdue && !self.sessions.iter().any(marking) {
            steps.extend([Step::Tick, Step::Gain]);
        }
    }

    /// A heartbeat is under way.
    fn is_beating(&self, index: usize) -> bool {
        let session = &self.sessions[index];
        let forwarded =
            |up: &Up| matches!(up, Up::Forward(of, sent) if *of == index && sent.request.is_heartbeat());
        let answered = |down: &Down| matches!(down, Down::Answer(of, Some((_, message))) if *of == index && message.is_heartbeat());
        session.up.iter().any(|sent| sent.request.is_heartbeat())
            || session.down.iter().any(|(_, message, _)| message.is_heartbeat())
            || self.follower.as_ref().is_some_and(|follower| {
                follower.up.iter().any(forwarded) || follower.down.iter().any(answered)
            })
    }

    /// Contenders that cannot be told apart begin in their order, so that the same is not looked at twice.
    fn has_idle_twin_before(&self, party: Party, setup: &Setup) -> bool {
        let Some(before) = party.checked_sub(1) else { return false };
        let (one, other) = (&self.contenders[before], &self.contenders[party]);
        let alone = |contender: &Contender| self.contenders_of(contender.session).count() == 1;
        let follows = |contender: &Contender| setup.following.contains(&contender.session);
        let is_kept =
            |contender: &Contender| matches!(self.sessions[contender.session].assurance, Assurance::Kept(_));
        let alike = alone(one) && alone(other) && follows(one) == follows(other) && !is_kept(one);
        one.caller == Caller::Idle
            && one.patience == other.patience
            && one.seats == other.seats
            && (one.session == other.session || alike)
    }
}
