//! One client's connection through a link: two readers that judge what passes, two lanes that deliver it.

use std::{
    collections::{HashMap, VecDeque},
    io::Read,
    net::TcpStream,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{
    Action, RequestKind, Rule, Shared, Stage,
    frame::{Framer, Piece, int},
    lane::{Item, Lane, Toward},
};
use crate::listener::{abort, spawn};

/// Transaction ids that name no single request.
const XID_EVENT: i32 = -1;

#[derive(Debug)]
pub(crate) struct Connection {
    pub(super) id: u64,
    client: TcpStream,
    server: OnceLock<TcpStream>,
    to_server: Lane,
    to_client: Lane,
    closed: AtomicBool,
    /// Requests whose replies are still to come, by transaction id.
    pending: Mutex<HashMap<i32, VecDeque<Pending>>>,
}

#[derive(Debug)]
struct Pending {
    kind: RequestKind,
    rule: Option<Arc<Rule>>,
}

/// What is to become of a frame.
enum Verdict {
    Forward,
    Hold(Arc<Rule>),
    Lose(Arc<Rule>),
}

impl Connection {
    pub(super) fn new(id: u64, client: TcpStream) -> Arc<Self> {
        Arc::new(Self {
            id,
            client,
            server: OnceLock::new(),
            to_server: Lane::default(),
            to_client: Lane::default(),
            closed: AtomicBool::new(false),
            pending: Mutex::default(),
        })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Closes both sockets and wakes every thread of this connection but those that wait on the link's state.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.to_server.close();
        self.to_client.close();
        abort(&self.client);
        if let Some(server) = self.server.get() {
            abort(server);
        }
    }

    pub(super) fn lane(&self, toward: Toward) -> &Lane {
        match toward {
            Toward::Server => &self.to_server,
            Toward::Client => &self.to_client,
        }
    }

    pub(super) fn stream(&self, toward: Toward) -> Option<&TcpStream> {
        match toward {
            Toward::Server => self.server.get(),
            Toward::Client => Some(&self.client),
        }
    }

    /// Rules that waited for a reply which this connection will not see any more.
    pub(super) fn take_unmet_rules(&self) -> Vec<Arc<Rule>> {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let rules = pending.drain().flat_map(|(_, queue)| queue).filter_map(|entry| entry.rule);
        rules.filter(|rule| rule.stage() == Stage::Armed).collect()
    }

    /// Runs the connection; returns when both sides are done with it.
    pub(super) fn run(self: &Arc<Self>, link: &Arc<Shared>) {
        let upstream = link.lock().upstream.clone();
        if let Ok(server) = TcpStream::connect(upstream) {
            let _ = server.set_nodelay(true);
            let _ = self.server.set(server);
            // `close` may have come between and not have seen the new socket.
            if !self.is_closed() {
                let back = spawn("zk-link-reply", {
                    let (link, connection) = (link.clone(), self.clone());
                    move || connection.pump(&link, Toward::Client)
                });
                if let Ok(back) = back {
                    self.pump(link, Toward::Server);
                    let _ = back.join();
                }
            }
        }
        link.close(self);
    }

    /// Reads one side until it ends and passes everything to the other.
    fn pump(self: &Arc<Self>, link: &Arc<Shared>, toward: Toward) {
        let source = match toward {
            Toward::Server => Some(&self.client),
            Toward::Client => self.server.get(),
        };
        let Some(mut source) = source else { return };
        let mut framer = Framer::default();
        let mut greeted = false;
        let mut chunk = vec![0; 64 * 1024];
        loop {
            let length = match source.read(&mut chunk) {
                Ok(0) => break,
                Ok(length) => length,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(_) => return link.close(self),
            };
            if !link.wait_open(self) {
                return;
            }
            framer.push(chunk.get(..length).unwrap_or_default());
            let mut passing = Vec::with_capacity(length);
            while let Some(piece) = framer.next() {
                let frame = match piece {
                    Piece::Unframed(bytes) => {
                        passing.extend(bytes);
                        continue;
                    }
                    Piece::Frame(frame) => frame,
                };
                let verdict = match toward {
                    // The first frame each way is the handshake.
                    _ if !std::mem::replace(&mut greeted, true) => {
                        if matches!(toward, Toward::Client) && link.lock().lose_handshakes {
                            return link.close(self);
                        }
                        Verdict::Forward
                    }
                    Toward::Server => self.judge_request(link, &frame),
                    Toward::Client => self.judge_reply(link, &frame),
                };
                match verdict {
                    Verdict::Forward => {}
                    Verdict::Hold(rule) => {
                        self.pass(link, toward, std::mem::take(&mut passing));
                        rule.advance(Stage::Reached);
                        if !link.wait_released(self, &rule) || !link.wait_open(self) {
                            return;
                        }
                    }
                    Verdict::Lose(rule) => {
                        self.pass(link, toward, std::mem::take(&mut passing));
                        self.lane(toward).send(link, self, toward, Item::Cut(rule), link.one_way());
                        return;
                    }
                }
                passing.extend(frame);
            }
            self.pass(link, toward, passing);
        }
        if link.wait_open(self) {
            self.lane(toward).send(link, self, toward, Item::End, link.one_way());
        }
    }

    fn pass(self: &Arc<Self>, link: &Arc<Shared>, toward: Toward, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.lane(toward).send(link, self, toward, Item::Bytes(bytes), link.one_way());
        }
    }

    fn judge_request(&self, link: &Shared, frame: &[u8]) -> Verdict {
        let (Some(xid), Some(opcode)) = (int(frame, 4), int(frame, 8)) else { return Verdict::Forward };
        let kind = RequestKind::of_opcode(opcode);
        let (hold, rule) = link.note_request(kind, frame.len());
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.entry(xid).or_default().push_back(Pending { kind, rule });
        hold.map_or(Verdict::Forward, Verdict::Hold)
    }

    fn judge_reply(&self, link: &Shared, frame: &[u8]) -> Verdict {
        let Some(xid) = int(frame, 4) else { return Verdict::Forward };
        if xid == XID_EVENT {
            link.note_event(frame.len());
            return Verdict::Forward;
        }
        let entry = {
            let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
            let entry = pending.get_mut(&xid).and_then(VecDeque::pop_front);
            if pending.get(&xid).is_some_and(VecDeque::is_empty) {
                pending.remove(&xid);
            }
            entry
        };
        let Some(Pending { kind, rule }) = entry else { return Verdict::Forward };
        link.note_reply(kind, frame.len());
        match rule {
            Some(rule) if rule.stage() == Stage::Armed => match rule.action {
                Action::LoseReply => Verdict::Lose(rule),
                Action::HoldReply | Action::HoldRequest => Verdict::Hold(rule),
            },
            _ => Verdict::Forward,
        }
    }
}
