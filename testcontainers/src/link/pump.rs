//! The threads that serve a link's connections: each reads one side, judges what passes, and sends it down a lane.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use super::connection::{Connection, Pending, Toward};
use super::frame::{Piece, int};
use super::kind::RequestKind;
use super::lane::{Item, Outlet};
use super::rule::{Action, Rule, Stage};
use super::shared::Shared;
use crate::listener::spawn;

/// The transaction id of watch events, which answer no request.
const XID_EVENT: i32 = -1;

/// Serves a client's connection on threads of its own, unless the link refuses it or is a black hole. `reach` connects to the
/// server.
pub(super) fn admit(
    link: &Arc<Shared>,
    client: TcpStream,
    reach: impl FnOnce(&Shared, &Connection) -> io::Result<TcpStream> + Send + 'static,
) {
    let Some(connection) = link.admit(client) else { return };
    let started = spawn("zk-link-request", {
        let (link, connection) = (link.clone(), connection.clone());
        move || serve(&link, &connection, reach(&link, &connection))
    });
    if started.is_err() {
        link.close(&connection);
    }
}

/// Serves a connection until both sides are done with it.
fn serve(link: &Arc<Shared>, connection: &Arc<Connection>, server: io::Result<TcpStream>) {
    if let Ok(server) = server {
        let _ = server.set_nodelay(true);
        connection.set_server(server);
        // `close` may have come between, and not have seen the new socket.
        if !connection.is_closed() {
            let way = |toward| Way { link: link.clone(), connection: connection.clone(), toward };
            let back = way(Toward::Client);
            if let Ok(back) = spawn("zk-link-reply", move || Arc::new(back).pump()) {
                Arc::new(way(Toward::Server)).pump();
                let _ = back.join();
            }
        }
    }
    link.close(connection);
}

struct Way {
    link: Arc<Shared>,
    connection: Arc<Connection>,
    toward: Toward,
}

/// What is to become of a frame.
enum Verdict {
    Forward,
    Hold(Arc<Rule>),
    Lose(Arc<Rule>),
}

impl Way {
    /// Reads one side until it ends, and passes everything to the other.
    fn pump(self: &Arc<Self>) {
        let Some(mut source) = self.connection.source(self.toward) else { return };
        let mut framer = self.link.framer.clone();
        let mut greeted = false;
        let mut chunk = vec![0; 64 * 1024];
        loop {
            let length = match source.read(&mut chunk) {
                Ok(0) => break,
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => {
                    // A black hole keeps this back, too.
                    let _closed = self.wait_open();
                    return self.link.close(&self.connection);
                }
            };
            if !self.wait_open() {
                return;
            }
            framer.push(chunk.get(..length).unwrap_or_default());
            let mut passing = Vec::with_capacity(length);
            while let Some(piece) = framer.next() {
                let mut frame = match piece {
                    Piece::Unframed(bytes) => {
                        passing.extend(bytes);
                        continue;
                    }
                    Piece::Frame(frame) => frame,
                };
                // The first frame each way is the handshake.
                let verdict = match (self.toward, std::mem::replace(&mut greeted, true)) {
                    (Toward::Server, true) => self.judge_request(&frame),
                    (Toward::Client, true) => self.judge_reply(&frame),
                    (Toward::Client, false) => Verdict::Forward,
                    (Toward::Server, false) => {
                        if self.link.lock().renew_sessions {
                            ask_for_another_session(&mut frame);
                        }
                        Verdict::Forward
                    }
                };
                match verdict {
                    Verdict::Forward => {}
                    Verdict::Hold(rule) => {
                        self.pass(std::mem::take(&mut passing));
                        rule.advance(Stage::Reached);
                        if !self.link.wait_released(&self.connection, &rule) || !self.wait_open() {
                            return;
                        }
                    }
                    Verdict::Lose(rule) => {
                        self.pass(std::mem::take(&mut passing));
                        self.send(Item::Cut(rule));
                        return;
                    }
                }
                passing.extend(frame);
            }
            self.pass(passing);
        }
        if self.wait_open() {
            self.send(Item::End);
        }
    }

    fn pass(self: &Arc<Self>, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.send(Item::Bytes(bytes));
        }
    }

    fn send(self: &Arc<Self>, item: Item) {
        let delay = self.link.lock().one_way;
        self.connection.lane(self.toward).send(self, item, delay);
    }

    fn judge_request(&self, frame: &[u8]) -> Verdict {
        let (Some(xid), Some(opcode)) = (int(frame, 4), int(frame, 8)) else { return Verdict::Forward };
        let kind = RequestKind::of_opcode(opcode);
        let (hold, rule) = self.link.note_request(kind, frame.len());
        self.connection.expect_reply(xid, Pending { kind, rule });
        hold.map_or(Verdict::Forward, Verdict::Hold)
    }

    fn judge_reply(&self, frame: &[u8]) -> Verdict {
        let Some(xid) = int(frame, 4) else { return Verdict::Forward };
        if xid == XID_EVENT {
            self.link.lock().tally.event(frame.len());
            return Verdict::Forward;
        }
        let Some(Pending { kind, rule }) = self.connection.take_request(xid) else { return Verdict::Forward };
        self.link.lock().tally.reply(kind, frame.len());
        match rule {
            Some(rule) if rule.stage() == Stage::Armed => match rule.action {
                Action::LoseReply => Verdict::Lose(rule),
                Action::HoldReply | Action::HoldRequest => Verdict::Hold(rule),
            },
            _ => Verdict::Forward,
        }
    }
}

/// Makes a request to resume a session one for a new session. Its id stands behind the lengths of the frame, the version, the last
/// zxid and the timeout (`ConnectRequest`).
fn ask_for_another_session(handshake: &mut [u8]) {
    if let Some(id) = handshake.get_mut(4 + 4 + 8 + 4..4 + 4 + 8 + 4 + 8) {
        id.fill(0);
    }
}

impl Outlet for Way {
    fn wait_open(&self) -> bool {
        self.link.wait_open(&self.connection, self.toward)
    }

    fn deliver(&self, item: Item) {
        let Some(mut target) = self.connection.target(self.toward) else { return };
        match item {
            Item::Bytes(bytes) => {
                let mut rest = bytes.as_slice();
                while let (Toward::Client, Some((byte, others))) = (self.toward, rest.split_first())
                    && self.link.wait_drip(&self.connection)
                {
                    if target.write_all(&[*byte]).is_err() {
                        return self.link.close(&self.connection);
                    }
                    rest = others;
                }
                if target.write_all(rest).is_err() {
                    self.link.close(&self.connection);
                }
            }
            Item::End => {
                let _ = target.shutdown(Shutdown::Write);
            }
            Item::Cut(rule) => {
                rule.advance(Stage::Swallowed);
                self.link.close(&self.connection);
                rule.advance(Stage::Reached);
            }
        }
    }
}
