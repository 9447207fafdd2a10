//! Clients, their sessions, the network and the server; and every step they can take.
//!
//! Contenders run the production [`Machine`]; what surrounds it follows the rules of the driver: a reply belongs to
//! the last request, a new request drops the reply to an earlier one, a deletion drops the watch.

use zklock::recipe::{Command, End, Event, Look, Machine, Own, Patience, Sequence, SessionEnd, Sight};

use crate::server::{Kind, Party, Server, Watch};

/// What a model consists of, and how much may go wrong in it.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// Each contender's session, and whether it waits.
    pub(crate) contenders: Vec<(usize, Patience)>,
    pub(crate) looks: Vec<Look>,
    /// Whether the directory is there from the beginning.
    pub(crate) directory: bool,
    pub(crate) settling: bool,
    pub(crate) giving_up: bool,
    pub(crate) faults: Faults,
    pub(crate) flaw: Option<Flaw>,
}

/// How often each may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Faults {
    pub(crate) breaks: u8,
    /// Lapses of a lease.
    pub(crate) lapses: u8,
    pub(crate) expiries: u8,
    pub(crate) closings: u8,
    /// Removals of the empty directory.
    pub(crate) reaps: u8,
    /// Nodes that an operator deletes or writes to.
    pub(crate) meddlings: u8,
}

/// A rule of the world that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// The watcher of a contender that leaves is told that it released.
    LeavingLooksLikeRelease,
    /// A create with a lost reply is taken to have failed.
    CreateIsNotLookedFor,
    /// A release or deletion with a lost reply is repeated without a look whether the node is still there.
    RemovalIsRepeatedBlindly,
    /// The lease is reported valid though it has lapsed.
    LeaseIsNotChecked,
    /// The server expires a session whose lease is still valid.
    LeaseIsTooLong,
    /// Watches are not set again after a reconnection.
    WatchesAreForgotten,
    /// What was sent on a broken connection can be applied after the session has moved to another one.
    OldConnectionLingers,
    /// The read that goes out with a create is answered from before it.
    ReadOvertakesCreate,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) sessions: Vec<Session>,
    pub(crate) contenders: Vec<Contender>,
    pub(crate) faults: Faults,
    /// The highest token granted so far.
    pub(crate) last_token: i64,
    /// The first rule that a step has broken.
    pub(crate) breach: Option<Breach>,
}

/// What no step may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Breach {
    GrantToNobody,
    TokenNotHigher,
    ReleasedWithoutRemoval,
    ReleaseBehindOthers,
    RemovalOfAnothersNode,
    SupersededWrite,
    UnexpectedEnd,
    UnfoundedLoss,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Session {
    /// On the server.
    pub(crate) alive: bool,
    /// The client knows, and has told its contenders.
    pub(crate) over: bool,
    pub(crate) lease: bool,
    connected: bool,
    /// Requests under way, in order.
    up: Vec<Sent>,
    /// Writes under way on the connection before, which the client knows nothing of any more.
    strays: Vec<Sent>,
    /// Replies and changes under way, in order.
    down: Vec<(Party, Message)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Sent {
    party: Party,
    request: Request,
    /// False once another request has taken its place.
    awaited: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Request {
    Create(Look),
    /// The read behind a create.
    Look(Look),
    CreateDirectory,
    Recover,
    List,
    Watch(Kind, Sequence),
    Release(Sequence),
    Delete(Sequence),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Message {
    /// To the first half of an `Enter`.
    Created(Own),
    /// To the second half.
    Saw(Sight),
    Reply(Event),
    Watched(Kind, Sequence),
    /// The request's connection was lost.
    Failed,
    Changed(Kind, Sequence, Change),
}

/// A node's first change since it is watched. A release writes and deletes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Change {
    Written,
    Deleted,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Contender {
    pub(crate) session: usize,
    pub(crate) machine: Machine,
    pub(crate) patience: Patience,
    pub(crate) caller: Caller,
    pub(crate) settled: bool,
    pending: Option<Pending>,
    watch: Option<(Kind, Sequence)>,
    /// Its own transaction has removed its own node.
    removed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Caller {
    /// Has not begun.
    Idle,
    Waiting,
    Holding {
        valid: bool,
    },
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Pending {
    Request,
    /// An `Enter` whose create is answered already.
    Created(Own),
    Lease,
}

/// One step; most name a contender or a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Begin(Party, Look),
    GiveUp(Party),
    /// The holder is done, or drops a guard that it has lost.
    LetGo(Party),
    Settle(Party),
    /// The server applies the session's next request.
    Apply(usize),
    /// The server applies what it had received before the connection broke.
    ApplyStray(usize),
    /// The contender takes in what the network brings it next.
    Deliver(Party),
    /// The connection breaks; so much of what was under way had reached the client.
    Break {
        session: usize,
        kept: usize,
    },
    Reconnect(usize),
    Lapse(usize),
    Renew(usize),
    /// The server ends the session.
    Expire(usize),
    /// The client learns it.
    Told(usize),
    Close(usize),
    Reap,
    OperatorDeletes(Sequence),
    OperatorWrites(Sequence),
}

/// What has happened in some state of a model: so that a rule which holds also had occasion to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Witness {
    GrantByRelease,
    GrantByListing,
    GrantByCount,
    GrantAfterLapse,
    Busy,
    DirectoryCreated,
    DirectoryReset,
    RecoveryFindsNode,
    RecoveryFindsNone,
    RemovalFoundDone,
    RemovalFoundUndone,
    GiveUpWhileEntering,
    GiveUpWhileWaiting,
    GiveUpOnceGranted,
    PredecessorVanishedWhileDisconnected,
    StrayCreate,
    GuardLost,
    HolderTold,
    ToldByMissingNode,
}

impl Step {
    /// Nobody need ever do this. All other steps happen sooner or later.
    pub(crate) fn is_voluntary(self, world: &World) -> bool {
        match self {
            Self::Begin(..)
            | Self::GiveUp(_)
            | Self::Settle(_)
            | Self::ApplyStray(_)
            | Self::Break { .. }
            | Self::Lapse(_)
            | Self::Close(_)
            | Self::Reap
            | Self::OperatorDeletes(_)
            | Self::OperatorWrites(_) => true,
            Self::Expire(session) => !world.sessions[session].over,
            Self::LetGo(_)
            | Self::Apply(_)
            | Self::Deliver(_)
            | Self::Reconnect(_)
            | Self::Renew(_)
            | Self::Told(_) => false,
        }
    }
}

impl World {
    pub(crate) fn new(setup: &Setup) -> Self {
        let sessions = setup.contenders.iter().map(|(session, _)| session + 1).max().unwrap_or(0);
        let session = Session {
            alive: true,
            over: false,
            lease: true,
            connected: true,
            up: Vec::new(),
            strays: Vec::new(),
            down: Vec::new(),
        };
        let contender = |&(session, patience)| Contender {
            session,
            machine: Machine::new(patience),
            patience,
            caller: Caller::Idle,
            settled: false,
            pending: None,
            watch: None,
            removed: false,
        };
        Self {
            server: Server::new(setup.directory),
            sessions: vec![session; sessions],
            contenders: setup.contenders.iter().map(contender).collect(),
            faults: setup.faults,
            last_token: 0,
            breach: None,
        }
    }

    /// Every step that can be taken now.
    pub(crate) fn steps(&self, setup: &Setup, steps: &mut Vec<Step>) {
        for (party, contender) in self.contenders.iter().enumerate() {
            let session = &self.sessions[contender.session];
            match contender.caller {
                Caller::Idle if !session.over && !self.has_idle_twin_before(party) => {
                    steps.extend(setup.looks.iter().map(|look| Step::Begin(party, *look)));
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
            if session.down.iter().any(|(to, _)| *to == party) {
                steps.push(Step::Deliver(party));
            }
        }
        for (index, session) in self.sessions.iter().enumerate() {
            self.session_steps(index, session, setup, steps);
        }
        if self.faults.reaps > 0 && self.server.nodes.is_empty() && self.server.directory > Some(0) {
            steps.push(Step::Reap);
        }
        if self.faults.meddlings > 0 {
            steps.extend(self.server.nodes.iter().map(|node| Step::OperatorDeletes(node.own.sequence)));
            // What a client learns of a write that it missed is not modelled.
            if self.sessions.iter().all(|session| session.connected || session.over) {
                steps.extend(self.server.nodes.iter().map(|node| Step::OperatorWrites(node.own.sequence)));
            }
        }
    }

    fn session_steps(&self, index: usize, session: &Session, setup: &Setup, steps: &mut Vec<Step>) {
        let lingers = setup.flaw == Some(Flaw::OldConnectionLingers);
        if session.alive && !session.strays.is_empty() && (!session.connected || lingers) {
            steps.push(Step::ApplyStray(index));
        }
        if session.alive && session.over {
            steps.push(Step::Expire(index));
        }
        if session.over {
            return;
        }
        if !session.alive {
            steps.push(Step::Told(index));
            return;
        }
        // What happens to a session that nobody uses is of no interest.
        let busy = self.members(index).any(|party| {
            self.contenders[party].caller != Caller::Idle && !self.contenders[party].machine.is_ended()
        });
        if session.connected {
            if !session.up.is_empty() {
                steps.push(Step::Apply(index));
            }
            if self.faults.breaks > 0 && busy {
                steps.extend((0..=session.down.len()).map(|kept| Step::Break { session: index, kept }));
            }
        } else {
            steps.push(Step::Reconnect(index));
        }
        if !session.lease && session.connected {
            steps.push(Step::Renew(index));
        }
        if session.lease && self.faults.lapses > 0 && busy {
            steps.push(Step::Lapse(index));
        }
        let expirable = !session.lease || setup.flaw == Some(Flaw::LeaseIsTooLong);
        if expirable && self.faults.expiries > 0 && busy {
            steps.push(Step::Expire(index));
        }
        if self.faults.closings > 0 && busy {
            steps.push(Step::Close(index));
        }
    }

    /// True if there is no step left that must happen.
    pub(crate) fn is_quiet(&self, setup: &Setup) -> bool {
        let mut steps = Vec::new();
        self.steps(setup, &mut steps);
        steps.iter().all(|step| step.is_voluntary(self))
    }

    /// Takes one step.
    pub(crate) fn take(&mut self, step: Step, setup: &Setup, witness: &impl Fn(Witness)) {
        let mut run = Run { world: self, setup, witness };
        run.take(step);
    }

    pub(crate) fn members(&self, session: usize) -> impl Iterator<Item = Party> + use<> {
        let members =
            self.contenders.iter().enumerate().filter(move |(_, contender)| contender.session == session);
        members.map(|(party, _)| party).collect::<Vec<_>>().into_iter()
    }

    /// Contenders that cannot be told apart begin in their order, so that the same is not looked at twice.
    fn has_idle_twin_before(&self, party: Party) -> bool {
        let Some(before) = party.checked_sub(1) else { return false };
        let (one, other) = (&self.contenders[before], &self.contenders[party]);
        let alone = |contender: &Contender| self.members(contender.session).count() == 1;
        one.caller == Caller::Idle
            && one.patience == other.patience
            && (one.session == other.session || (alone(one) && alone(other)))
    }
}

/// One step under way.
struct Run<'a, W> {
    world: &'a mut World,
    setup: &'a Setup,
    witness: &'a W,
}

impl<W: Fn(Witness)> Run<'_, W> {
    fn take(&mut self, step: Step) {
        match step {
            Step::Begin(party, look) => {
                self.world.contenders[party].caller = Caller::Waiting;
                self.handle(party, Event::Begin(look));
            }
            Step::GiveUp(party) => self.give_up(party),
            Step::LetGo(party) => self.let_go(party),
            Step::Settle(party) => {
                self.world.contenders[party].settled = true;
                self.handle(party, Event::Settled);
            }
            Step::Apply(session) => self.apply(session),
            Step::ApplyStray(session) => {
                let stray = self.world.sessions[session].strays.remove(0);
                if matches!(stray.request, Request::Create(_)) {
                    (self.witness)(Witness::StrayCreate);
                }
                self.serve(session, stray);
            }
            Step::Deliver(party) => self.deliver(party),
            Step::Break { session, kept } => self.break_connection(session, kept),
            Step::Reconnect(session) => self.reconnect(session),
            Step::Lapse(session) => {
                self.world.faults.lapses -= 1;
                self.lapse(session);
            }
            Step::Renew(session) => {
                self.world.sessions[session].lease = true;
                for party in self.world.members(session) {
                    if self.world.contenders[party].pending == Some(Pending::Lease) {
                        (self.witness)(Witness::GrantAfterLapse);
                        self.handle(party, Event::Unanswered);
                    }
                }
            }
            Step::Expire(session) => self.expire(session),
            Step::Told(session) => self.over(session, SessionEnd::Expired),
            Step::Close(session) => {
                self.world.faults.closings -= 1;
                self.lapse(session);
                self.disconnect(session);
                self.over(session, SessionEnd::Closed);
            }
            Step::Reap => {
                self.world.faults.reaps -= 1;
                self.world.server.directory = None;
            }
            Step::OperatorDeletes(sequence) => {
                self.world.faults.meddlings -= 1;
                self.remove(sequence, Change::Deleted);
            }
            Step::OperatorWrites(sequence) => {
                self.world.faults.meddlings -= 1;
                let watches = self.world.server.fire(sequence);
                self.notify(watches, sequence, Change::Written);
            }
        }
    }

    // The caller.

    fn give_up(&mut self, party: Party) {
        let contender = &mut self.world.contenders[party];
        contender.caller = Caller::Gone;
        (self.witness)(match (&contender.pending, &contender.watch) {
            (Some(Pending::Lease), _) => Witness::GiveUpOnceGranted,
            (_, Some(_)) => Witness::GiveUpWhileWaiting,
            _ => Witness::GiveUpWhileEntering,
        });
        self.handle(party, Event::GiveUp);
    }

    fn let_go(&mut self, party: Party) {
        let contender = &mut self.world.contenders[party];
        let valid = contender.caller == Caller::Holding { valid: true };
        contender.caller = Caller::Gone;
        self.handle(party, if valid { Event::Release } else { Event::GiveUp });
    }

    // The driver.

    fn handle(&mut self, party: Party, event: Event) {
        let mut next = Some(event);
        while let Some(event) = next.take() {
            let cause = event.clone();
            let Some(command) = self.world.contenders[party].machine.handle(event) else { return };
            match command {
                Command::Enter(look) => self.request(party, Request::Create(look)),
                Command::CreateDirectory => self.request(party, Request::CreateDirectory),
                Command::Recover => self.request(party, Request::Recover),
                Command::List => self.request(party, Request::List),
                Command::WatchPredecessor(sequence) => {
                    self.request(party, Request::Watch(Kind::Predecessor, sequence));
                }
                Command::WatchOwn(sequence) => self.request(party, Request::Watch(Kind::Own, sequence)),
                Command::Release(sequence) => self.request(party, Request::Release(sequence)),
                Command::Delete(sequence) => {
                    self.world.contenders[party].watch = None;
                    self.request(party, Request::Delete(sequence));
                }
                Command::Confirm => {
                    self.witness_confirm(&cause);
                    let lease = self.world.sessions[self.world.contenders[party].session].lease;
                    if lease || self.setup.flaw == Some(Flaw::LeaseIsNotChecked) {
                        next = Some(Event::Confirmed);
                    } else {
                        self.supersede(party);
                        self.world.contenders[party].pending = Some(Pending::Lease);
                    }
                }
                Command::Grant(own) => self.grant(party, own),
                Command::Lose => self.lose(party),
                Command::End(end) => self.end(party, end),
            }
        }
    }

    fn witness_confirm(&self, cause: &Event) {
        match cause {
            Event::PredecessorReleased => (self.witness)(Witness::GrantByRelease),
            Event::Entered { sight: Sight::Count(_), .. } => (self.witness)(Witness::GrantByCount),
            Event::Entered { .. } | Event::Listed(_) => (self.witness)(Witness::GrantByListing),
            _ => {}
        }
    }

    fn request(&mut self, party: Party, request: Request) {
        self.supersede(party);
        let contender = &mut self.world.contenders[party];
        contender.pending = Some(Pending::Request);
        self.world.sessions[contender.session].up.push(Sent { party, request, awaited: true });
    }

    /// Drops the reply to whatever was asked before.
    fn supersede(&mut self, party: Party) {
        let contender = &mut self.world.contenders[party];
        contender.pending = None;
        let session = &mut self.world.sessions[contender.session];
        session.down.retain(|(to, message)| *to != party || matches!(message, Message::Changed(..)));
        for sent in session.up.iter_mut().filter(|sent| sent.party == party && sent.awaited) {
            sent.awaited = false;
            if matches!(
                sent.request,
                Request::Create(_) | Request::Look(_) | Request::Recover | Request::Release(_)
            ) {
                self.world.breach.get_or_insert(Breach::SupersededWrite);
            }
        }
    }

    fn grant(&mut self, party: Party, own: Own) {
        let contender = &mut self.world.contenders[party];
        if contender.caller != Caller::Waiting {
            self.world.breach.get_or_insert(Breach::GrantToNobody);
        }
        if own.czxid <= self.world.last_token {
            self.world.breach.get_or_insert(Breach::TokenNotHigher);
        }
        self.world.last_token = self.world.last_token.max(own.czxid);
        contender.caller = Caller::Holding { valid: true };
    }

    fn lose(&mut self, party: Party) {
        (self.witness)(Witness::HolderTold);
        let contender = &mut self.world.contenders[party];
        if self.setup.faults.meddlings == 0 || !matches!(contender.caller, Caller::Holding { .. }) {
            self.world.breach.get_or_insert(Breach::UnfoundedLoss);
        }
        contender.caller = Caller::Holding { valid: false };
    }

    fn end(&mut self, party: Party, end: End) {
        self.supersede(party);
        let contender = &mut self.world.contenders[party];
        let breach = match end {
            End::Released => (!contender.removed).then_some(Breach::ReleasedWithoutRemoval),
            End::GivenUp => (contender.caller != Caller::Gone).then_some(Breach::UnexpectedEnd),
            End::Busy => {
                (self.witness)(Witness::Busy);
                (contender.patience != Patience::Try).then_some(Breach::UnexpectedEnd)
            }
            End::NodeDeleted => {
                (self.witness)(Witness::ToldByMissingNode);
                (self.setup.faults.meddlings == 0).then_some(Breach::UnexpectedEnd)
            }
            End::SessionOver(_) => None,
            End::Refused(_) | End::Exhausted(_) => Some(Breach::UnexpectedEnd),
        };
        if let Some(breach) = breach {
            self.world.breach.get_or_insert(breach);
        }
        contender.caller = Caller::Gone;
        contender.watch = None;
        contender.settled = false;
        contender.removed = false;
        let session = &mut self.world.sessions[contender.session];
        session.down.retain(|(to, _)| *to != party);
    }

    fn deliver(&mut self, party: Party) {
        let contender = &mut self.world.contenders[party];
        let session = &mut self.world.sessions[contender.session];
        let Some(index) = session.down.iter().position(|(to, _)| *to == party) else { return };
        let (_, message) = session.down.remove(index);
        let event = match message {
            Message::Created(own) => {
                contender.pending = Some(Pending::Created(own));
                return;
            }
            Message::Saw(sight) => match contender.pending.take() {
                Some(Pending::Created(own)) => Event::Entered { own, sight },
                _ => return,
            },
            Message::Failed => match contender.pending.take() {
                Some(Pending::Created(own)) => Event::Entered { own, sight: Sight::Nothing },
                _ => Event::Unanswered,
            },
            Message::Reply(event) => {
                contender.pending = None;
                event
            }
            Message::Watched(kind, sequence) => {
                contender.pending = None;
                contender.watch = Some((kind, sequence));
                match kind {
                    Kind::Predecessor => Event::PredecessorWatched(true),
                    Kind::Own => Event::OwnWatched(true),
                }
            }
            Message::Changed(kind, sequence, change) => {
                // The watch may have been dropped while this was under way.
                if contender.watch != Some((kind, sequence)) {
                    return;
                }
                contender.watch = None;
                match (kind, change) {
                    (Kind::Own, _) => Event::OwnTouched,
                    (Kind::Predecessor, Change::Written) => Event::PredecessorReleased,
                    (Kind::Predecessor, Change::Deleted) => Event::PredecessorDeleted,
                }
            }
        };
        self.handle(party, event);
    }

    // The session.

    fn break_connection(&mut self, session: usize, kept: usize) {
        self.world.faults.breaks -= 1;
        self.world.sessions[session].down.truncate(kept);
        self.disconnect(session);
        for party in self.world.members(session) {
            let contender = &self.world.contenders[party];
            let asked = matches!(contender.pending, Some(Pending::Request | Pending::Created(_)));
            let down = &mut self.world.sessions[session].down;
            let answered = down.iter().any(|(to, message)| {
                *to == party && !matches!(message, Message::Created(_) | Message::Changed(..))
            });
            if asked && !answered {
                down.push((party, Message::Failed));
            }
        }
    }

    fn disconnect(&mut self, session: usize) {
        for party in self.world.members(session) {
            self.world.server.forget_watches(party);
        }
        let session = &mut self.world.sessions[session];
        session.connected = false;
        session.strays = std::mem::take(&mut session.up);
        session.strays.retain(|sent| {
            matches!(
                sent.request,
                Request::Create(_) | Request::CreateDirectory | Request::Release(_) | Request::Delete(_)
            )
        });
        session.strays.iter_mut().for_each(|stray| stray.awaited = false);
    }

    /// The server has no ear any more for the connection before; the client sets its watches again.
    fn reconnect(&mut self, index: usize) {
        let session = &mut self.world.sessions[index];
        session.connected = true;
        if self.setup.flaw != Some(Flaw::OldConnectionLingers) {
            session.strays.clear();
        }
        if self.setup.flaw == Some(Flaw::WatchesAreForgotten) {
            return;
        }
        for party in self.world.members(index) {
            let down = &mut self.world.sessions[index].down;
            let set = |message: &Message| match message {
                Message::Watched(kind, sequence) => Some((*kind, *sequence)),
                _ => None,
            };
            let fresh = down.iter().filter(|(to, _)| *to == party).find_map(|(_, message)| set(message));
            let fired =
                down.iter().any(|(to, message)| *to == party && matches!(message, Message::Changed(..)));
            let Some((kind, sequence)) = self.world.contenders[party].watch.or(fresh).filter(|_| !fired)
            else {
                continue;
            };
            // A node of that name may be another one by now: to the server it has changed since.
            let same = kind == Kind::Predecessor
                || self.world.server.node(sequence).is_some_and(|node| node.creator == party);
            if !(same && self.world.server.watch(sequence, Watch { party, kind })) {
                if kind == Kind::Predecessor {
                    (self.witness)(Witness::PredecessorVanishedWhileDisconnected);
                }
                down.push((party, Message::Changed(kind, sequence, Change::Deleted)));
            }
        }
    }

    /// Loss is final: a guard that is lost here stays lost when the lease comes back.
    fn lapse(&mut self, session: usize) {
        self.world.sessions[session].lease = false;
        for party in self.world.members(session) {
            let contender = &mut self.world.contenders[party];
            if contender.caller == (Caller::Holding { valid: true }) {
                (self.witness)(Witness::GuardLost);
                contender.caller = Caller::Holding { valid: false };
            }
        }
    }

    fn expire(&mut self, session: usize) {
        if !self.world.sessions[session].over {
            self.world.faults.expiries -= 1;
        }
        self.disconnect(session);
        self.world.sessions[session].alive = false;
        self.world.sessions[session].strays.clear();
        for party in self.world.members(session) {
            while let Some(node) = self.world.server.node_of(party) {
                let sequence = node.own.sequence;
                self.remove(sequence, Change::Deleted);
            }
        }
    }

    fn over(&mut self, index: usize, end: SessionEnd) {
        let session = &mut self.world.sessions[index];
        session.over = true;
        session.down.clear();
        session.up.clear();
        for party in self.world.members(index) {
            if self.world.contenders[party].caller != Caller::Idle {
                self.handle(party, Event::SessionOver(end));
            }
        }
    }

    // The server.

    fn apply(&mut self, session: usize) {
        let sent = self.world.sessions[session].up.remove(0);
        self.serve(session, sent);
    }

    fn serve(&mut self, session: usize, sent: Sent) {
        let Sent { party, request, awaited } = sent;
        let server = &mut self.world.server;
        let message = match request {
            Request::Create(look) => {
                let before = self.sight(look);
                let created = self.world.server.create(party);
                if created.is_some_and(|own| own.sequence == Sequence(0) && own.czxid > 1) {
                    (self.witness)(Witness::DirectoryReset);
                }
                match created {
                    None => Message::Reply(Event::NoDirectory),
                    Some(own) if awaited => {
                        self.answer(session, party, Message::Created(own));
                        if self.setup.flaw == Some(Flaw::ReadOvertakesCreate) {
                            self.answer(session, party, Message::Saw(before));
                        } else {
                            let look = Sent { party, request: Request::Look(look), awaited };
                            self.world.sessions[session].up.insert(0, look);
                        }
                        return;
                    }
                    Some(_) => return,
                }
            }
            Request::Look(look) => Message::Saw(self.sight(look)),
            Request::CreateDirectory => {
                (self.witness)(Witness::DirectoryCreated);
                server.directory.get_or_insert(0);
                Message::Reply(Event::DirectoryReady)
            }
            Request::Recover => Message::Reply(Event::Recovered(self.recover(party))),
            Request::List if server.directory.is_none() => Message::Reply(Event::NoDirectory),
            Request::List => Message::Reply(Event::Listed(server.children())),
            Request::Watch(kind, sequence) => {
                // A watch nobody awaits is removed again; that it was there for a while changes nothing.
                if awaited && server.watch(sequence, Watch { party, kind }) {
                    Message::Watched(kind, sequence)
                } else {
                    Message::Reply(match kind {
                        Kind::Predecessor => Event::PredecessorWatched(false),
                        Kind::Own => Event::OwnWatched(false),
                    })
                }
            }
            Request::Release(sequence) => {
                if server.nodes.iter().any(|node| node.own.sequence < sequence) {
                    self.world.breach.get_or_insert(Breach::ReleaseBehindOthers);
                }
                Message::Reply(Event::Released(self.remove_for(party, sequence, Change::Written)))
            }
            Request::Delete(sequence) => {
                let change = match self.setup.flaw {
                    Some(Flaw::LeavingLooksLikeRelease) => Change::Written,
                    _ => Change::Deleted,
                };
                self.remove_for(party, sequence, change);
                Message::Reply(Event::Deleted)
            }
        };
        if awaited {
            self.answer(session, party, message);
        }
    }

    fn sight(&self, look: Look) -> Sight {
        let server = &self.world.server;
        match look {
            _ if server.directory.is_none() => Sight::Nothing,
            Look::List => Sight::Children(server.children()),
            Look::Count => Sight::Count(server.nodes.len()),
        }
    }

    fn recover(&self, party: Party) -> Option<Own> {
        let removing = self.world.contenders[party].machine.own();
        let found = self.world.server.node_of(party).map(|node| node.own);
        match (self.setup.flaw, removing) {
            (Some(Flaw::CreateIsNotLookedFor), None) => return None,
            (Some(Flaw::RemovalIsRepeatedBlindly), Some(own)) => return Some(own),
            _ => {}
        }
        (self.witness)(match (removing, found) {
            (None, Some(_)) => Witness::RecoveryFindsNode,
            (None, None) => Witness::RecoveryFindsNone,
            (Some(_), Some(_)) => Witness::RemovalFoundUndone,
            (Some(_), None) => Witness::RemovalFoundDone,
        });
        found
    }

    /// Removes a node on behalf of a contender; false if it was not there.
    fn remove_for(&mut self, party: Party, sequence: Sequence, change: Change) -> bool {
        match self.world.server.node(sequence).map(|node| node.creator) {
            None => return false,
            Some(creator) if creator == party => self.world.contenders[party].removed = true,
            Some(_) => {
                self.world.breach.get_or_insert(Breach::RemovalOfAnothersNode);
            }
        }
        self.remove(sequence, change);
        true
    }

    fn remove(&mut self, sequence: Sequence, change: Change) {
        let watches = self.world.server.fire(sequence);
        self.world.server.nodes.retain(|node| node.own.sequence != sequence);
        self.notify(watches, sequence, change);
    }

    fn notify(&mut self, watches: Vec<Watch>, sequence: Sequence, change: Change) {
        for Watch { party, kind } in watches {
            let session = self.world.contenders[party].session;
            self.answer(session, party, Message::Changed(kind, sequence, change));
        }
    }

    fn answer(&mut self, session: usize, party: Party, message: Message) {
        self.world.sessions[session].down.push((party, message));
    }
}
