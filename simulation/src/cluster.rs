//! Simulated servers on the world's heap: what reaches them, what they send, and when they want to be woken.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use world::{Clock, Clocks, Direction, Happening, Host, ProcessId, Random, SECOND, World};
use zklock_ensemble::{Config, ConnectionId, Effect, Event, Now, Server, ServerId, Standing, elect};

use crate::peers::Peers;
use crate::trace::note;

/// The longest pause between two looks whether a leader can be elected, in nanoseconds.
const ELECTION: u64 = SECOND;

/// A clock that chrony slews says that a timeout is over after 12/13 of it (`recipe/src/lease/lengths.rs`), in parts per million.
pub(crate) const SLEWED: u32 = 76_924;

/// How far an oscillator may be off (`Cluster::clocks`), likewise.
pub(crate) const OSCILLATOR: u32 = 100;

pub(crate) struct Cluster {
    /// The world, with the network and the processes. The cluster takes what the world says of servers.
    pub world: World,
    /// Whether somebody replaces a server's machine though the others lack what it has acknowledged.
    pub forgets: bool,
    /// The run's own randomness.
    pub random: Random,
    machines: BTreeMap<Host, Machine>,
    peers: Peers,
    looks: Looks,
    /// How many cuts there are between two hosts, and since when.
    cuts: BTreeMap<(Host, Host), (u32, u64)>,
    /// The last server that began to lead, and its epoch. An older leader decides in vain.
    leader: Option<(u32, Host)>,
    /// Connections on which a client has said nothing yet.
    silent: BTreeSet<world::ConnectionId>,
    /// Calls by their numbers, and what each waits for.
    awaited: Vec<(Moment, u64)>,
}

/// What judges look at.
pub(crate) struct Looks {
    /// A server that serves has applied a transaction.
    pub(crate) applied: fn(&World, &Server),
    /// A process has read.
    pub(crate) read: fn(&Cluster, ProcessId),
    /// A session lasts only until this instant: the leader has expired it in this epoch, or had a touch with a shorter timeout.
    pub(crate) ends: fn(i64, u64, Option<u32>),
}

/// What somebody may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// A client sends or receives something, after it has done so a number of times.
    Bytes(Host, Direction, u32),
    /// A server has the first request of a client's new connection: the session may move to it now.
    Moves(Host),
    /// The client receives the answer to that.
    Resumed(Host),
    /// A contender of the client asks for something, so the client sends a create.
    Asks(Host),
    /// A contender of the client is granted what it has asked for.
    Granted(Host),
    /// An election is over: a majority has joined its leader.
    Elected,
    /// The leader has created a node.
    Created,
}

struct Machine {
    server: Server,
    clocks: Clocks,
    state: State,
    /// Which of its wakes counts.
    wakes: u64,
    /// The last transaction that the checks have seen applied.
    applied: i64,
}

enum State {
    Running,
    /// Stopped by a signal. Its kernel keeps what arrives.
    Paused(Vec<Event>),
    Down,
}

/// What is to happen at an instant.
type Call = Box<dyn FnOnce(&mut Cluster)>;

thread_local! {
    static CALLS: RefCell<(u64, BTreeMap<u64, Call>)> = RefCell::default();
}

/// Calls the function at this instant. A process may call this, too.
pub(crate) fn later(instant: u64, call: impl FnOnce(&mut Cluster) + 'static) {
    world::at(instant, numbered(Box::new(call)));
}

fn numbered(call: Call) -> u64 {
    CALLS.with_borrow_mut(|(numbered, calls)| {
        *numbered += 1;
        calls.insert(*numbered, call);
        *numbered
    })
}

pub(crate) fn server(number: u8) -> Host {
    Host(number.into())
}

pub(crate) fn host(process: u32) -> Host {
    Host(100 + process as u16)
}

/// The host of a client: clients are counted from one, and processes from zero.
pub(crate) fn host_of(client: u16) -> Host {
    host(u32::from(client) - 1)
}

impl Cluster {
    /// Starts these servers.
    pub(crate) fn new(seed: u64, servers: Vec<Config>, looks: Looks) -> Self {
        let mut random = Random::new(seed);
        // It reads a clock the first time.
        fastrand::seed(random.bits());
        let world = World::new(random.bits());
        drop(CALLS.take());
        let (machines, peers, cuts) = (BTreeMap::new(), Peers::default(), BTreeMap::new());
        let mut cluster = Self {
            world,
            forgets: false,
            random,
            machines,
            peers,
            looks,
            cuts,
            leader: None,
            silent: BTreeSet::new(),
            awaited: Vec::new(),
        };
        if servers.len() > 1 {
            later(0, Self::elect);
        }
        for config in servers {
            let host = server(config.id.0);
            let clocks = cluster.clocks();
            let machine =
                Machine { server: Server::new(config), clocks, state: State::Running, wakes: 0, applied: 0 };
            cluster.machines.insert(host, machine);
            cluster.world.listen(host, true);
            cluster.happens(host, Event::Wake);
        }
        cluster
    }

    /// Clocks of a machine that has been up for a while. Its oscillator is within 100 parts in a million.
    pub(crate) fn clocks(&mut self) -> Clocks {
        let uptime = self.random.between(100 * SECOND, 1_000_000 * SECOND);
        let unix = 1_800_000_000 * SECOND + self.random.below(SECOND);
        Clocks::new(uptime, unix, SECOND - SECOND / 10_000 + self.random.below(SECOND / 5_000))
    }

    pub(crate) fn after(&mut self, time: Duration, call: impl FnOnce(&mut Self) + 'static) {
        later(self.world.now() + nanoseconds(time), call);
    }

    /// Calls the function at this moment, or after this time at the latest.
    pub(crate) fn amid(&mut self, moment: Moment, latest: Duration, call: impl FnOnce(&mut Self) + 'static) {
        let first = Rc::new(Cell::new(Some(Box::new(call) as Call)));
        let second = first.clone();
        let number =
            numbered(Box::new(move |cluster| first.take().into_iter().for_each(|call| call(cluster))));
        self.when(moment, number);
        self.after(latest, move |cluster| second.take().into_iter().for_each(|call| call(cluster)));
    }

    fn when(&mut self, moment: Moment, number: u64) {
        match moment {
            Moment::Bytes(client, direction, skipped) => {
                self.world.await_bytes(client, direction, skipped, number);
            }
            moment => self.awaited.push((moment, number)),
        }
    }

    /// The numbers of the calls that wait for this. They do not wait any more.
    fn waiting_for(&mut self, moment: Moment) -> Vec<u64> {
        self.awaited.extract_if(.., |(awaited, _)| *awaited == moment).map(|(_, number)| number).collect()
    }

    pub(crate) fn reached(&mut self, moment: Moment) {
        let now = self.world.now();
        for number in self.waiting_for(moment) {
            world::at(now, number);
        }
    }

    /// A server has the first request of a connection.
    fn moves(&mut self, client: Host) {
        self.reached(Moment::Moves(client));
        for number in self.waiting_for(Moment::Resumed(client)) {
            self.world.await_bytes(client, Direction::ToClient, 0, number);
        }
    }

    pub(crate) fn run(&mut self, until: Duration) {
        let until = nanoseconds(until);
        later(until, |_| ());
        while self.world.now() < until {
            let Some(happening) = self.world.advance() else { return };
            match happening {
                Happening::Accepted(host, connection) => {
                    self.silent.insert(connection);
                    self.happens(host, Event::Accepted(ConnectionId(connection.0)));
                }
                Happening::Received(host, connection, bytes) => {
                    self.happens(host, Event::Received(ConnectionId(connection.0), bytes));
                    if self.silent.remove(&connection)
                        && let Some(client) = self.world.client(connection)
                    {
                        self.moves(client);
                    }
                }
                Happening::Closed(host, connection) => {
                    self.silent.remove(&connection);
                    self.happens(host, Event::Closed(ConnectionId(connection.0)));
                }
                Happening::Read(process) => (self.looks.read)(self, process),
                Happening::Custom(number) => {
                    let call = CALLS.with_borrow_mut(|(_, calls)| calls.remove(&number));
                    call.into_iter().for_each(|call| call(self));
                }
            }
        }
    }

    /// Messages may have come from one server to another.
    fn receive(&mut self, from: Host, to: Host) {
        for message in self.peers.arrived(&self.world, from, to) {
            self.happens(to, Event::FromPeer(number_of(from), message));
        }
    }

    /// Cuts the way from one host to another, or ends one of its cuts.
    pub(crate) fn cut(&mut self, from: Host, to: Host, begins: bool) {
        let now = self.world.now();
        let (cuts, since) = self.cuts.entry((from, to)).or_insert((0, now));
        *cuts = if begins { *cuts + 1 } else { *cuts - 1 };
        if begins && *cuts == 1 {
            *since = now;
            self.world.cut(from, to, true);
        }
        if *cuts == 0 {
            self.world.cut(from, to, false);
            for again in self.peers.mend(&self.world, from, to, *since, &mut self.random) {
                later(again, move |cluster| cluster.receive(from, to));
            }
        }
    }

    pub(crate) fn reset(&mut self, one: Host, other: Host) {
        self.world.reset(one, other);
        if self.machines.contains_key(&one) && self.machines.contains_key(&other) {
            self.peers.reset(one, other);
            self.happens(one, Event::PeerGone(number_of(other)));
            self.happens(other, Event::PeerGone(number_of(one)));
        }
    }

    /// Ends a server at once. Its clients' connections are reset.
    pub(crate) fn crash(&mut self, host: Host) {
        if matches!(self.machine(host).state, State::Down) {
            return;
        }
        note(name(host), "crashes");
        self.machine(host).state = State::Down;
        self.world.listen(host, false);
        self.peers.lose(host);
        for other in self.machines.keys().copied().collect::<Vec<_>>() {
            // A server that is cut off hears of it by silence.
            if other != host && !self.world.is_cut(host, other) {
                self.happens(other, Event::PeerGone(number_of(host)));
            }
        }
    }

    /// Empties the disk of a server that is down, as somebody does who replaces its machine. ZooKeeper forgets what was
    /// acknowledged if another server has less, or has promised less to leaders, so nobody replaces the machine then. Servers
    /// that forget lose transactions, and no promise: otherwise tokens would go back.
    pub(crate) fn empty_disk(&mut self, host: Host) {
        let lost = self.machines[&host].server.standing();
        let mut others = self.machines.values().map(|machine| machine.server.standing());
        let has_all = |other: Standing| {
            (self.forgets || other.logged >= lost.logged)
                && other.current >= lost.current
                && other.accepted >= lost.accepted
        };
        if self.machines.len() == 1 || !others.all(has_all) {
            return;
        }
        note(name(host), "loses its disk");
        self.replace(host, Server::lose_disk);
    }

    pub(crate) fn restart(&mut self, host: Host) {
        if !matches!(self.machine(host).state, State::Down) {
            return;
        }
        note(name(host), "starts again");
        self.replace(host, Server::restart);
        self.machine(host).state = State::Running;
        self.world.listen(host, true);
        self.happens(host, Event::Wake);
    }

    fn replace(&mut self, host: Host, with: fn(Server) -> Server) {
        let machine = self.machines.remove(&host).expect("a server");
        self.machines.insert(host, Machine { server: with(machine.server), ..machine });
    }

    /// Stops a server, as SIGSTOP does.
    pub(crate) fn pause(&mut self, host: Host) {
        if !matches!(self.machine(host).state, State::Running) {
            return;
        }
        note(name(host), "is paused");
        self.machine(host).state = State::Paused(Vec::new());
    }

    pub(crate) fn go_on(&mut self, host: Host) {
        let State::Paused(events) = &mut self.machine(host).state else { return };
        let mut events = std::mem::take(events);
        self.machine(host).state = State::Running;
        note(name(host), "goes on");
        // It has threads: only what came on one connection stays in order.
        if self.random.once_in(2) {
            let mut order = BTreeMap::new();
            events.sort_by_cached_key(|event| {
                *order.entry(source(event)).or_insert_with(|| self.random.bits())
            });
        }
        let expiry = self.random.below(events.len() as u64 + 1);
        events.insert(expiry as usize, Event::Expiry);
        for event in events {
            self.happens(host, event);
        }
        self.happens(host, Event::Wake);
    }

    /// Ends a session at its leader, as somebody does who connects with its password and closes it.
    pub(crate) fn end_session(&mut self, session: i64) {
        for host in self.machines.keys().copied().collect::<Vec<_>>() {
            self.happens(host, Event::Expire(session));
        }
    }

    /// Deletes these nodes in one transaction, as a client of the leader's whose request takes no time.
    pub(crate) fn delete(&mut self, paths: &[String]) {
        for host in self.machines.keys().copied().collect::<Vec<_>>() {
            self.happens(host, Event::Delete(paths.to_vec()));
        }
    }

    /// The server that leads and serves, and has applied the most.
    pub(crate) fn leader(&self) -> Option<&Server> {
        self.running().filter(|server| server.leads()).max_by_key(|server| server.zxid())
    }

    /// The server that a majority has joined last.
    pub(crate) fn elected(&self) -> Option<Host> {
        self.leader.map(|(_, host)| host)
    }

    /// Whether a server that serves has a node that was created by this transaction.
    pub(crate) fn has_node(&self, czxid: i64) -> bool {
        self.running().any(|server| server.serves() && server.has_node(czxid))
    }

    /// Whether the leader serves, and has nodes of this session.
    pub(crate) fn has_nodes_of(&self, session: i64) -> bool {
        let leader = self.elected().and_then(|host| self.machines.get(&host));
        let leader = leader.filter(|it| matches!(it.state, State::Running) && it.server.serves());
        leader.is_some_and(|it| it.server.ephemerals().any(|node| node.owner == session))
    }

    fn running(&self) -> impl Iterator<Item = &Server> {
        let running = self.machines.values().filter(|machine| matches!(machine.state, State::Running));
        running.map(|machine| &machine.server)
    }

    /// Has a server refuse what it is asked for, or serve again.
    pub(crate) fn throttle(&mut self, host: Host, throttles: bool) {
        self.happens(host, Event::Throttle(throttles));
    }

    /// Has a server's clocks run at this rate, in parts of [`SECOND`].
    pub(crate) fn slew(&mut self, host: Host, rate: u64) {
        let now = self.world.now();
        self.machine(host).clocks.slew(now, rate);
        // Its next wake is at another instant now.
        self.happens(host, Event::Wake);
    }

    /// Has the servers that look for a leader elect one, if enough of them reach each other.
    fn elect(&mut self) {
        let standings = self.running().map(Server::standing).collect::<Vec<_>>();
        let reaches = |from: ServerId, to: ServerId| !self.world.is_cut(server(from.0), server(to.0));
        for (id, appointment) in elect(&standings, self.machines.len() as u8, reaches) {
            note(name(server(id.0)), format_args!("elected: {appointment:?}"));
            self.happens(server(id.0), Event::Elected(appointment));
        }
        later(self.world.now() + self.random.below(ELECTION), Self::elect);
    }

    fn machine(&mut self, host: Host) -> &mut Machine {
        self.machines.get_mut(&host).expect("a server")
    }

    fn happens(&mut self, host: Host, event: Event) {
        let now = self.world.now();
        let machine = self.machine(host);
        match &mut machine.state {
            State::Running => {}
            State::Paused(events) => return events.push(event),
            State::Down => return,
        }
        let shown = |clock| Duration::from_nanos(machine.clocks.read(clock, now));
        let shown = Now { monotonic: shown(Clock::Monotonic), wall: shown(Clock::Realtime) };
        let mut effects = Vec::new();
        machine.server.handle(shown, event, &mut effects);
        machine.wakes += 1;
        let number = machine.wakes;
        let wake = machine.server.next_wake();
        let wake = wake.and_then(|wake| machine.clocks.when_monotonic(nanoseconds(wake)));
        if let Some(at) = wake {
            later(at, move |cluster| {
                if cluster.machines[&host].wakes == number {
                    cluster.happens(host, Event::Wake);
                }
            });
        }
        for effect in effects {
            self.carry_out(host, effect);
        }
        self.follow_sessions(host);
        let machine = self.machine(host);
        let applied = machine.server.zxid();
        // A server that does not serve may have what was never committed.
        if machine.server.serves() && std::mem::replace(&mut machine.applied, applied) != applied {
            (self.looks.applied)(&self.world, &self.machines[&host].server);
            if self.leader.is_some_and(|(_, leader)| leader == host)
                && self.machines[&host].server.has_node(applied)
            {
                self.reached(Moment::Created);
            }
        }
    }

    /// Something has happened at a server. If it leads, sessions may end sooner by that.
    fn follow_sessions(&mut self, host: Host) {
        let Machine { server, clocks, .. } = self.machine(host);
        let standing = server.standing();
        let sooner = server.sooner();
        let epoch = (server.serves() && standing.leader == Some(standing.id)).then_some(standing.current);
        let sooner = sooner.into_iter().filter_map(|(session, at)| {
            let has_expired = server.lasts(session).is_none();
            Some((session, true_time(clocks, at)?, has_expired))
        });
        let sooner = sooner.collect::<Vec<_>>();
        let Some(epoch) = epoch else { return };
        if self.leader.is_none_or(|(before, _)| before < epoch) {
            self.leader = Some((epoch, host));
            self.reached(Moment::Elected);
        }
        if self.leader == Some((epoch, host)) {
            for (session, end, has_expired) in sooner {
                (self.looks.ends)(session, end, has_expired.then_some(epoch));
            }
        }
    }

    /// The epoch of the last leader, and until when a session lasts there, in global time, if nobody touches it.
    pub(crate) fn lasts(&self, session: i64) -> Option<(u32, Option<u64>)> {
        let (epoch, host) = self.leader?;
        let Machine { server, clocks, .. } = &self.machines[&host];
        Some((epoch, server.lasts(session).and_then(|at| true_time(clocks, at))))
    }

    fn carry_out(&mut self, host: Host, effect: Effect) {
        match effect {
            Effect::Send(connection, bytes) => self.world.send(world::ConnectionId(connection.0), bytes),
            Effect::Close(connection) => self.world.close(world::ConnectionId(connection.0)),
            Effect::ToPeer(ServerId(to), message) => {
                let to = server(to);
                let at = self.peers.send(&mut self.world, host, to, message);
                later(at, move |cluster| cluster.receive(host, to));
            }
        }
    }
}

/// On which connection an event has come: a client's, or another server's.
fn source(event: &Event) -> (Option<ConnectionId>, Option<ServerId>) {
    match event {
        Event::Accepted(client) | Event::Received(client, _) | Event::Closed(client) => (Some(*client), None),
        Event::FromPeer(peer, _) | Event::PeerGone(peer) => (None, Some(*peer)),
        Event::Elected(_)
        | Event::Expire(_)
        | Event::Delete(_)
        | Event::Throttle(_)
        | Event::Expiry
        | Event::Wake => (None, None),
    }
}

fn true_time(clocks: &Clocks, monotonic: Duration) -> Option<u64> {
    clocks.when_monotonic(nanoseconds(monotonic))
}

fn number_of(host: Host) -> ServerId {
    ServerId(host.0 as u8)
}

pub(crate) fn name(host: Host) -> String {
    format!("h{}", host.0)
}

pub(crate) fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos().try_into().expect("less than 500 years")
}
