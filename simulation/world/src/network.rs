//! Connections of clients with servers: bytes in order, with delays, cuts that hold what is sent, and resets.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::ErrorKind;
use std::task::Waker;

use crate::clocks::{MILLISECOND, SECOND};
use crate::heap::{Event, Heap};
use crate::ids::{ConnectionId, Direction, Happening, Host, ProcessId};
use crate::random::Random;

/// How long bytes are under way, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Latency {
    /// Never less.
    pub least: u64,
    /// Never more.
    pub most: u64,
}

impl Latency {
    pub(crate) fn draw(self, random: &mut Random) -> u64 {
        random.between(self.least, self.most)
    }
}

impl Default for Latency {
    fn default() -> Self {
        Self { least: MILLISECOND / 5, most: MILLISECOND }
    }
}

/// How many bytes a kernel keeps for a program that does not read.
const WINDOW: usize = 64 * 1024;

/// For so long Linux sends again what a closed connection has left (`tcp_orphan_retries`).
const GIVEN_UP: u64 = 102 * SECOND;

/// How long after the end of a cut a kernel sends again what it has sent in vain for so long. The first pause is 200 ms or somewhat
/// longer, and each further one is twice as long, up to two minutes.
pub fn retransmission(lasted: u64, random: &mut Random) -> u64 {
    let first = random.between(200 * MILLISECOND, 400 * MILLISECOND);
    let (mut at, mut pause) = (first, first);
    while at < lasted {
        pause = (2 * pause).min(120 * SECOND);
        at += pause;
    }
    at - lasted
}

#[derive(Debug)]
enum Segment {
    /// The request for a connection, or its confirmation.
    Open,
    Bytes(Vec<u8>),
    End,
    Reset,
}

#[derive(Default)]
struct Lane {
    segments: VecDeque<(u64, Segment)>,
    /// When the last segment arrives.
    latest: u64,
    /// The bytes under way.
    bytes: usize,
    /// Since when the first segments wait for the end of a cut, or for a program that reads.
    stalled: Option<u64>,
}

#[derive(Default)]
pub(crate) struct Near {
    pub(crate) is_open: bool,
    pub(crate) received: VecDeque<u8>,
    pub(crate) has_ended: bool,
    pub(crate) error: Option<ErrorKind>,
    pub(crate) reader: Option<Waker>,
    pub(crate) writer: Option<Waker>,
    is_closed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Far {
    Unopened,
    Open,
    Closed,
}

pub(crate) struct Connection {
    process: ProcessId,
    client: Host,
    server: Host,
    to_server: Lane,
    to_client: Lane,
    pub(crate) near: Near,
    far: Far,
}

impl Connection {
    fn way(&self, direction: Direction) -> (Host, Host) {
        match direction {
            Direction::ToServer => (self.client, self.server),
            Direction::ToClient => (self.server, self.client),
        }
    }

    fn lane(&mut self, direction: Direction) -> &mut Lane {
        match direction {
            Direction::ToServer => &mut self.to_server,
            Direction::ToClient => &mut self.to_client,
        }
    }

    pub(crate) fn has_room(&self) -> bool {
        self.to_server.bytes < WINDOW
    }

    fn fail(&mut self, error: ErrorKind) -> Vec<Waker> {
        self.near.error = Some(error);
        self.wakers()
    }

    fn wakers(&mut self) -> Vec<Waker> {
        self.near.reader.take().into_iter().chain(self.near.writer.take()).collect()
    }

    fn is_forgotten(&self) -> bool {
        self.near.is_closed && self.far == Far::Closed && self.to_server.segments.is_empty()
    }
}

/// Somebody waits until a client has sent or received bytes.
struct Awaited {
    client: Host,
    direction: Direction,
    /// How many more times it does so before.
    skipped: u32,
    /// The caller's number.
    number: u64,
}

#[derive(Default)]
pub(crate) struct Network {
    pub(crate) connections: BTreeMap<ConnectionId, Connection>,
    opened: u64,
    listening: BTreeSet<Host>,
    /// Clients, and the servers that a firewall keeps them from.
    refused: BTreeMap<(Host, Host), u32>,
    cuts: BTreeSet<(Host, Host)>,
    latencies: BTreeMap<(Host, Host), Latency>,
    awaited: Vec<Awaited>,
    /// What has happened at servers.
    pub(crate) happened: VecDeque<Happening>,
}

impl Network {
    pub(crate) fn is_cut(&self, from: Host, to: Host) -> bool {
        self.cuts.contains(&(from, to))
    }

    pub(crate) fn latency(&self, from: Host, to: Host) -> Latency {
        self.latencies.get(&(from, to)).copied().unwrap_or_default()
    }

    pub(crate) fn set_latency(&mut self, from: Host, to: Host, latency: Latency) {
        self.latencies.insert((from, to), latency);
    }

    pub(crate) fn open(
        &mut self,
        heap: &mut Heap,
        process: ProcessId,
        client: Host,
        server: Host,
    ) -> ConnectionId {
        self.opened += 1;
        let id = ConnectionId(self.opened);
        let (to_server, to_client) = (Lane::default(), Lane::default());
        let near = Near::default();
        let connection =
            Connection { process, client, server, to_server, to_client, near, far: Far::Unopened };
        self.connections.insert(id, connection);
        self.push(heap, id, Direction::ToServer, Segment::Open);
        id
    }

    pub(crate) fn write(&mut self, heap: &mut Heap, id: ConnectionId, bytes: &[u8]) {
        self.push(heap, id, Direction::ToServer, Segment::Bytes(bytes.to_vec()));
    }

    pub(crate) fn end(&mut self, heap: &mut Heap, id: ConnectionId) {
        self.push(heap, id, Direction::ToServer, Segment::End);
    }

    /// Closes the client's end. A kernel resets a connection that is closed before everything was read.
    pub(crate) fn drop_near(&mut self, heap: &mut Heap, id: ConnectionId) -> Vec<Waker> {
        let Some(connection) = self.connections.get_mut(&id) else { return Vec::new() };
        let near = std::mem::take(&mut connection.near);
        connection.near.is_closed = true;
        let last = if near.received.is_empty() { Segment::End } else { Segment::Reset };
        self.push(heap, id, Direction::ToServer, last);
        near.reader.into_iter().chain(near.writer).collect()
    }

    /// Closes every connection of a process that is gone. Returns its ends, which must not be dropped while the heap is in use.
    pub(crate) fn abandon(
        &mut self,
        heap: &mut Heap,
        process: ProcessId,
        with_its_machine: bool,
    ) -> Vec<Near> {
        let ids = self.connections.iter().filter(|(_, connection)| connection.process == process);
        let ids = ids.map(|(id, _)| *id).collect::<Vec<_>>();
        let abandoned = ids.into_iter().map(|id| {
            if !with_its_machine {
                self.push(heap, id, Direction::ToServer, Segment::End);
            }
            let connection = self.connections.get_mut(&id).expect("it was there");
            std::mem::replace(&mut connection.near, Near { is_closed: true, ..Near::default() })
        });
        abandoned.collect()
    }

    /// Writes bytes of the server.
    pub(crate) fn send(&mut self, heap: &mut Heap, id: ConnectionId, bytes: Vec<u8>) {
        if self.connections.get(&id).is_some_and(|connection| connection.far == Far::Open) {
            self.push(heap, id, Direction::ToClient, Segment::Bytes(bytes));
        }
    }

    pub(crate) fn close(&mut self, heap: &mut Heap, id: ConnectionId) {
        self.finish(heap, id, Segment::End);
    }

    pub(crate) fn listen(&mut self, heap: &mut Heap, host: Host, listens: bool) {
        if listens {
            self.listening.insert(host);
            return;
        }
        self.listening.remove(&host);
        let ids = self.connections.iter().filter(|(_, connection)| connection.server == host);
        for id in ids.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.finish(heap, id, Segment::Reset);
        }
    }

    pub(crate) fn refuse(&mut self, client: Host, server: Host, refuses: bool) {
        let refusals = self.refused.entry((client, server)).or_default();
        *refusals = if refuses { *refusals + 1 } else { *refusals - 1 };
    }

    fn finish(&mut self, heap: &mut Heap, id: ConnectionId, last: Segment) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.far == Far::Open {
            connection.far = Far::Closed;
            self.push(heap, id, Direction::ToClient, last);
        }
    }

    pub(crate) fn cut(&mut self, heap: &mut Heap, from: Host, to: Host, is_cut: bool) {
        if is_cut {
            self.cuts.insert((from, to));
            return;
        }
        self.cuts.remove(&(from, to));
        let (mut healed, now) = (Vec::new(), heap.now());
        for (id, connection) in &mut self.connections {
            for direction in [Direction::ToServer, Direction::ToClient] {
                if connection.way(direction) == (from, to)
                    && let Some(since) = connection.lane(direction).stalled.take()
                {
                    healed.push((*id, direction, now - since));
                }
            }
        }
        for (id, direction, lasted) in healed {
            let pause = retransmission(lasted, &mut heap.random);
            let connection = self.connections.get_mut(&id).expect("it is there");
            let is_given_up = connection.near.is_closed && lasted + pause > GIVEN_UP;
            let lane = connection.lane(direction);
            if is_given_up {
                lane.segments.clear();
            }
            // What is written later arrives behind that.
            lane.segments.iter_mut().for_each(|(at, _)| *at = (*at).max(now + pause));
            lane.latest = lane.latest.max(now + pause);
            heap.push(now + pause, Event::Arrive(id, direction));
        }
    }

    pub(crate) fn reset(&mut self, heap: &mut Heap, one: Host, other: Host) {
        let between =
            |it: &Connection| [(it.client, it.server), (it.server, it.client)].contains(&(one, other));
        let ids = self.connections.iter().filter(|(_, connection)| between(connection));
        for id in ids.map(|(id, _)| *id).collect::<Vec<_>>() {
            for direction in [Direction::ToServer, Direction::ToClient] {
                let lane = self.connections.get_mut(&id).expect("it is there").lane(direction);
                *lane = Lane { stalled: lane.stalled, ..Lane::default() };
                self.push(heap, id, direction, Segment::Reset);
            }
        }
    }

    pub(crate) fn client(&self, id: ConnectionId) -> Option<Host> {
        self.connections.get(&id).map(|connection| connection.client)
    }

    /// The server of a client's first connection that is open.
    pub(crate) fn server_of(&self, client: Host) -> Option<Host> {
        let open = |it: &&Connection| it.client == client && it.near.is_open && it.far == Far::Open;
        self.connections.values().find(open).map(|connection| connection.server)
    }

    /// Has the caller's event happen as this client sends bytes, or receives some, after it has done so a number of times.
    pub(crate) fn await_bytes(&mut self, client: Host, direction: Direction, skipped: u32, number: u64) {
        self.awaited.push(Awaited { client, direction, skipped, number });
    }

    fn pass(&mut self, heap: &mut Heap, client: Host, direction: Direction) {
        self.awaited.retain_mut(|it| {
            if (it.client, it.direction) != (client, direction) {
                return true;
            }
            let Some(skipped) = it.skipped.checked_sub(1) else {
                heap.push(heap.now(), Event::Custom(it.number));
                return false;
            };
            it.skipped = skipped;
            true
        });
    }

    /// Has the client's end receive again what waited for it to read.
    pub(crate) fn has_read(&mut self, heap: &mut Heap, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.to_client.stalled.is_some() && connection.near.received.len() < WINDOW {
            connection.to_client.stalled = None;
            let at = heap.now();
            heap.push(at, Event::Arrive(id, Direction::ToClient));
        }
    }

    fn push(&mut self, heap: &mut Heap, id: ConnectionId, direction: Direction, segment: Segment) {
        let now = heap.now();
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let (from, to) = connection.way(direction);
        let latency = self.latency(from, to).draw(&mut heap.random);
        let lane = self.connections.get_mut(&id).expect("it is there").lane(direction);
        lane.latest = lane.latest.max(now + latency);
        let mut print = id.0;
        if let Segment::Bytes(bytes) = &segment {
            lane.bytes += bytes.len();
            print = bytes
                .iter()
                .fold(print, |print, byte| print.wrapping_mul(0x100_0000_01b3) ^ u64::from(*byte));
        }
        lane.segments.push_back((lane.latest, segment));
        let (at, is_stalled) = (lane.latest, lane.stalled.is_some());
        heap.print(print);
        if !is_stalled {
            heap.push(at, Event::Arrive(id, direction));
        }
        if direction == Direction::ToServer {
            self.pass(heap, from, direction);
        }
    }

    /// Takes the segments that have reached their end. Returns wakers, and the process that has something to do.
    pub(crate) fn arrive(
        &mut self,
        heap: &mut Heap,
        id: ConnectionId,
        direction: Direction,
    ) -> (Vec<Waker>, Option<ProcessId>) {
        let mut wakers = Vec::new();
        let mut process = None;
        loop {
            let now = heap.now();
            let Some(connection) = self.connections.get_mut(&id) else { break };
            let (from, to) = connection.way(direction);
            let is_cut = self.cuts.contains(&(from, to));
            let is_full = direction == Direction::ToClient && connection.near.received.len() >= WINDOW;
            let lane = connection.lane(direction);
            if lane.stalled.is_some() || lane.segments.front().is_none_or(|(at, _)| *at > now) {
                break;
            }
            if is_cut || is_full {
                lane.stalled = Some(now);
                break;
            }
            let (_, segment) = lane.segments.pop_front().expect("there is a first one");
            if let Segment::Bytes(bytes) = &segment {
                lane.bytes -= bytes.len();
            }
            match direction {
                Direction::ToClient => {
                    wakers.extend(reach_client(connection, segment));
                    process = Some(connection.process);
                    self.pass(heap, to, direction);
                }
                Direction::ToServer => {
                    wakers.extend(connection.near.writer.take());
                    process = Some(connection.process).filter(|_| !wakers.is_empty());
                    self.reach_server(heap, id, segment);
                }
            }
        }
        if self.connections.get(&id).is_some_and(Connection::is_forgotten) {
            self.connections.remove(&id);
        }
        (wakers, process)
    }

    fn reach_server(&mut self, heap: &mut Heap, id: ConnectionId, segment: Segment) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let server = connection.server;
        match (connection.far, segment) {
            (Far::Unopened, Segment::Open)
                if self.listening.contains(&server)
                    && self
                        .refused
                        .get(&(connection.client, server))
                        .is_none_or(|refusals| *refusals == 0) =>
            {
                connection.far = Far::Open;
                self.push(heap, id, Direction::ToClient, Segment::Open);
                self.happened.push_back(Happening::Accepted(server, id));
            }
            (Far::Open, Segment::Bytes(bytes)) => {
                self.happened.push_back(Happening::Received(server, id, bytes));
            }
            (Far::Open, Segment::End | Segment::Reset) => {
                connection.far = Far::Closed;
                self.happened.push_back(Happening::Closed(server, id));
            }
            // Nobody listens, or the server has closed its end.
            (Far::Unopened | Far::Closed, Segment::Open | Segment::Bytes(_)) => {
                connection.far = Far::Closed;
                self.push(heap, id, Direction::ToClient, Segment::Reset);
            }
            (Far::Unopened | Far::Closed, Segment::End | Segment::Reset) => connection.far = Far::Closed,
            (Far::Open, Segment::Open) => {}
        }
    }
}

fn reach_client(connection: &mut Connection, segment: Segment) -> Vec<Waker> {
    if connection.near.is_closed {
        return Vec::new();
    }
    match segment {
        Segment::Open => connection.near.is_open = true,
        Segment::Bytes(bytes) => connection.near.received.extend(bytes),
        Segment::End => connection.near.has_ended = true,
        Segment::Reset if connection.near.is_open => return connection.fail(ErrorKind::ConnectionReset),
        Segment::Reset => return connection.fail(ErrorKind::ConnectionRefused),
    }
    connection.near.reader.take().into_iter().collect()
}
