//! Clients of one world, and what they see: the same on a real server as on a simulated one.

use std::fmt::Write;

use crate::frame::{Fields, Frame};
use crate::step::Step;
use crate::world::World;

const PING: i32 = 11;
const SYNC: i32 = 9;
/// The number of the syncs that wait for everything.
const SETTLES: i32 = 999_999;
const CLOSE: i32 = -11;

pub(crate) struct Play<W> {
    pub(crate) world: W,
    /// With several servers, each client begins at another one.
    servers: usize,
    clients: Vec<Client>,
    /// The sessions in the order in which they came: their ids differ from server to server.
    sessions: Vec<i64>,
    /// The highest zxid that a reply had.
    pub(crate) zxid: i64,
}

#[derive(Default)]
struct Client {
    server: usize,
    connection: u64,
    session: i64,
    password: Vec<u8>,
    xid: i32,
}

impl<W: World> Play<W> {
    pub(crate) fn new(world: W, servers: usize) -> Self {
        Self { world, servers, clients: Vec::new(), sessions: Vec::new(), zxid: 0 }
    }

    pub(crate) fn has_session(&self, client: usize) -> bool {
        self.clients.get(client).is_some_and(|client| client.session != 0)
    }

    pub(crate) fn connection(&self, client: usize) -> u64 {
        self.clients[client].connection
    }

    /// Has a client do this, and then every other one exchange a ping; a sync, if there are several servers. Returns what they got, in words.
    pub(crate) fn step(&mut self, client: usize, step: &Step) -> String {
        let mut seen = self.step_alone(client, step);
        for other in 0..self.clients.len() {
            if other != client && self.clients[other].session != 0 {
                let _ = write!(seen, "client {other}: ");
                self.settle(other, &mut seen);
            }
        }
        seen
    }

    /// Has a client do this, while the others read nothing: what they are told stays to be received.
    pub(crate) fn step_alone(&mut self, client: usize, step: &Step) -> String {
        while self.clients.len() <= client {
            self.clients.push(Client::default());
        }
        let mut seen = String::new();
        match step {
            Step::Connect { timeout } => {
                self.clients[client] = Client { server: client % self.servers, ..Client::default() };
                self.connect(client, *timeout, 0, &mut seen);
            }
            Step::Resume { .. } if self.servers > 1 => self.move_on(client, &mut seen),
            Step::Resume { password, ahead } => self.resume(client, *password, *ahead, &mut seen),
            Step::Ask { code, body, .. } => self.ask(client, *code, body, &mut seen),
        }
        seen
    }

    /// Has a client hear of everything that has happened. With several servers it syncs until its server has applied it: the
    /// leader answers a sync of its own client before it applies what it has told its followers to commit.
    fn settle(&mut self, client: usize, seen: &mut String) {
        if self.servers == 1 {
            return self.ask(client, PING, &[], seen);
        }
        let connection = self.clients[client].connection;
        let sync = Frame::default().int(SETTLES).int(SYNC).string("/").finish();
        self.world.send(connection, &sync);
        while let Some(frame) = self.world.receive(connection) {
            let mut fields = Fields::new(&frame, 0);
            let (xid, zxid) = (fields.int(), fields.long());
            if xid == SETTLES && zxid < self.zxid {
                self.world.send(connection, &sync);
                continue;
            }
            let _ = writeln!(seen, "xid {xid} zxid {zxid:#x} {:?}", &frame[12..]);
            if xid == SETTLES {
                return;
            }
        }
        seen.push_str("closed\n");
        self.connect(client, 5_000, 0, seen);
    }

    /// The client goes to another server with its session. Then its former connection asks for more.
    fn move_on(&mut self, client: usize, seen: &mut String) {
        let former = self.clients[client].connection;
        self.clients[client].server = (self.clients[client].server + 1) % self.servers;
        self.connect(client, 5_000, 0, seen);
        self.settle(client, seen);
        let delete = Frame::default().string("/nothing").int(-1);
        let requests = [Frame::default().int(-2).int(PING), Frame::default().int(1_000).int(2).with(delete)];
        for request in requests {
            let xid = Fields::new(&request.0, 0).int();
            self.world.send(former, &request.finish());
            loop {
                let Some(frame) = self.world.receive(former) else {
                    seen.push_str("the former connection: closed\n");
                    return self.world.close(former);
                };
                let _ = writeln!(seen, "the former connection: {frame:?}");
                if Fields::new(&frame, 0).int() == xid {
                    break;
                }
            }
        }
    }

    fn resume(&mut self, client: usize, password: bool, ahead: bool, seen: &mut String) {
        let former = self.clients[client].connection;
        if ahead {
            self.connect(client, 5_000, 1 << 60, seen);
        }
        if !password {
            let true_one = std::mem::replace(&mut self.clients[client].password, vec![7; 16]);
            let session = self.clients[client].session;
            self.connect(client, 5_000, 0, seen);
            let _ = writeln!(seen, "the former connection: {:?}", self.world.receive(former));
            self.clients[client].password = true_one;
            self.clients[client].session = session;
        }
        self.connect(client, 5_000, self.zxid, seen);
        let _ = writeln!(seen, "the former connection: {:?}", self.world.receive(former));
        self.world.close(former);
    }

    /// Opens a connection for the session that the client has, or for a new one.
    fn connect(&mut self, index: usize, timeout: i32, zxid: i64, seen: &mut String) {
        let connection = self.world.open(self.clients[index].server);
        let client = &mut self.clients[index];
        let request = Frame::default().int(0).long(zxid).int(timeout).long(client.session);
        self.world.send(connection, &request.bytes(&client.password).bool(false).finish());
        let Some(reply) = self.world.receive(connection) else {
            seen.push_str("closed\n");
            return;
        };
        let mut fields = Fields::new(&reply, 0);
        let (protocol, timeout, session) = (fields.int(), fields.int(), fields.long());
        let password = fields.buffer().to_vec();
        let read_only = fields.bool();
        let (client, index) = (index, self.session(session));
        let _ = writeln!(seen, "{protocol} {timeout} session {index} {read_only} {}", password.len());
        if session == 0 {
            let _ = writeln!(seen, "{password:?} {:?}", self.world.receive(connection));
        } else {
            let Client { server, xid, .. } = self.clients[client];
            self.clients[client] = Client { server, connection, session, password, xid };
        }
    }

    fn ask(&mut self, index: usize, code: i32, body: &[u8], seen: &mut String) {
        let client = &mut self.clients[index];
        let connection = client.connection;
        let xid = match code {
            PING => -2,
            100 => -4,
            101 | 105 => -8,
            _ => {
                client.xid += 1;
                client.xid
            }
        };
        let request = Frame::default().int(xid).int(code).with(Frame(body.to_vec()));
        self.world.send(connection, &request.finish());
        loop {
            let Some(mut frame) = self.world.receive(connection) else {
                seen.push_str("closed\n");
                if code == CLOSE {
                    self.clients[index] = Client::default();
                } else {
                    // A session that nobody comes back to would expire some time.
                    let zxid = if self.servers == 1 { self.zxid } else { 0 };
                    self.connect(index, 5_000, zxid, seen);
                }
                return;
            };
            let mut fields = Fields::new(&frame, 0);
            let (replied, zxid, error) = (fields.int(), fields.long(), fields.int());
            self.zxid = self.zxid.max(zxid);
            if replied == xid && error == 0 {
                self.normalise(code, &mut frame);
            }
            let rest: String = frame[16..].iter().map(|byte| byte.escape_ascii().to_string()).collect();
            let _ = writeln!(seen, "xid {replied} zxid {zxid:#x} error {error} {rest}");
            let closes = matches!(code, CLOSE | 77) || code == 100 && error != 0;
            if replied == xid && !closes {
                return;
            }
        }
    }

    /// Makes equal in a reply what differs from server to server: times, and sessions' ids.
    fn normalise(&mut self, code: i32, frame: &mut [u8]) {
        let mut stats = Vec::new();
        let copy = frame.to_vec();
        let mut fields = Fields::new(&copy, 16);
        let mut stat = |fields: &mut Fields<'_>| {
            stats.push(fields.at());
            fields.skip(68);
        };
        match code {
            3 | 5 | 7 => stat(&mut fields),
            4 | 15 | 19 | 21 => {
                fields.buffer();
                stat(&mut fields);
            }
            6 | 12 => {
                for _ in 0..fields.int() {
                    if code == 6 {
                        fields.int();
                        fields.buffer();
                    }
                    fields.buffer();
                }
                stat(&mut fields);
            }
            14 | 22 => {
                while !fields.is_over() {
                    let (code, done, error) = (fields.int(), fields.bool(), fields.int());
                    match code {
                        -1 if !done => assert_eq!(fields.int(), error),
                        1 => {
                            fields.buffer();
                        }
                        4 | 15 => {
                            fields.buffer();
                            stat(&mut fields);
                        }
                        5 => stat(&mut fields),
                        8 => {
                            for _ in 0..fields.int() {
                                fields.buffer();
                            }
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
        for at in stats {
            frame[at + 16..at + 32].fill(0);
            let owner = i64::from_be_bytes(*frame[at + 44..].first_chunk().expect("a stat has 68 bytes"));
            let session = self.session(owner);
            frame[at + 44..at + 52].copy_from_slice(&session.to_be_bytes());
        }
    }

    /// The number of a session; 0 stands for none.
    fn session(&mut self, id: i64) -> u64 {
        if id == 0 {
            return 0;
        }
        let known = self.sessions.iter().position(|session| *session == id);
        1 + known.unwrap_or_else(|| {
            self.sessions.push(id);
            self.sessions.len() - 1
        }) as u64
    }
}
