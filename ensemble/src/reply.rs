//! Replies: the outcomes of transactions and of reads, as clients get them.

use crate::auth::{ADMIN, Grant, Identity, READ, allows};
use crate::config::Version;
use crate::id::ConnectionId;
use crate::operation::{Read, code, error};
use crate::tree::{Node, Outcome, Tree, What};
use crate::watches::Watches;
use crate::wire::Frame;

const EVENT: i32 = -1;
/// A client's state in an event: it is connected.
const CONNECTED: i32 = 3;

/// The reply to a write, without the header of its length.
pub(crate) fn outcome(xid: i32, zxid: i64, outcome: &Outcome) -> Frame {
    let error = match outcome {
        Outcome::Failed(code) => *code,
        _ => 0,
    };
    let mut frame = Frame::reply(xid, zxid, error);
    match outcome {
        Outcome::Created { code, path, stat } => {
            frame.string(path);
            if *code != code::CREATE {
                stat.write(&mut frame);
            }
        }
        Outcome::Set(stat) | Outcome::ListSet(stat) => stat.write(&mut frame),
        Outcome::Multi(outcomes) => {
            outcomes.iter().for_each(|outcome| part(&mut frame, outcome));
            header(&mut frame, code::ERROR, true, -1);
        }
        Outcome::Deleted | Outcome::Checked | Outcome::Failed(_) | Outcome::Session => {}
    }
    frame
}

/// The header of a part of a multi's reply.
fn header(frame: &mut Frame, code: i32, done: bool, error: i32) {
    frame.int(code).bool(done).int(error);
}

fn part(frame: &mut Frame, outcome: &Outcome) {
    match outcome {
        Outcome::Created { code: code::CREATE, path, .. } => {
            header(frame, code::CREATE, false, 0);
            frame.string(path);
        }
        Outcome::Created { path, stat, .. } => {
            header(frame, code::CREATE2, false, 0);
            stat.write(frame.string(path));
        }
        Outcome::Deleted => header(frame, code::DELETE, false, 0),
        Outcome::Set(stat) => {
            header(frame, code::SET_DATA, false, 0);
            stat.write(frame);
        }
        Outcome::Checked => header(frame, code::CHECK, false, 0),
        Outcome::Failed(error) => failure(frame, *error),
        // No part of a multi can be one of these.
        Outcome::ListSet(_) | Outcome::Multi(_) | Outcome::Session => failure(frame, error::MARSHALLING),
    }
}

fn failure(frame: &mut Frame, error: i32) {
    header(frame, code::ERROR, false, error);
    frame.int(error);
}

pub(crate) fn event(what: What, path: &str, zxid: i64) -> Vec<u8> {
    let mut frame = Frame::reply(EVENT, zxid, 0);
    frame.int(what as i32).int(CONNECTED).string(path);
    frame.finish()
}

/// A client that reads from this server.
pub(crate) struct Reading<'a> {
    pub(crate) tree: &'a Tree,
    pub(crate) watches: &'a mut Watches,
    pub(crate) connection: ConnectionId,
    pub(crate) session: i64,
    pub(crate) identities: &'a [Identity],
    pub(crate) version: Version,
    /// What a client has missed that sets its former watches again: it hears of it before the reply.
    pub(crate) missed: Vec<(What, String)>,
}

impl<'a> Reading<'a> {
    /// Reads, and writes the answer behind the reply's header.
    pub(crate) fn answer(&mut self, read: &Read, frame: &mut Frame) -> Result<(), i32> {
        match read {
            Read::Exists { path, watch } => {
                if path.contains('\0') {
                    return Err(error::BAD_ARGUMENTS);
                }
                // A node that the client may not read gets no watch. A node that is not there gets one. (o) Version 3.8.0 does
                // not ask who may read.
                let node = match self.version {
                    Version::V3_8_0 => self.tree.node(path).ok_or(error::NO_NODE),
                    _ => self.readable(path, READ),
                };
                if *watch && matches!(node, Ok(_) | Err(error::NO_NODE)) {
                    self.watches.watch_data(path, self.connection);
                }
                node?.stat().write(frame);
            }
            Read::Data { path, watch } => {
                let node = self.readable(path, READ)?;
                if *watch {
                    self.watches.watch_data(path, self.connection);
                }
                node.stat().write(frame.buffer(&node.data));
            }
            Read::Children { path, watch, stat } => {
                let node = self.readable(path, READ)?;
                if *watch {
                    self.watches.watch_children(path, self.connection);
                }
                strings(frame, &node.children.names());
                if *stat {
                    node.stat().write(frame);
                }
            }
            Read::Acl(path) => {
                let node = self.readable(path, READ | ADMIN)?;
                let hidden = !allows(&node.list, ADMIN, self.identities);
                frame.length(node.list.len());
                for Grant { permissions, to } in &node.list {
                    // Only an administrator sees the digests of passwords.
                    let user = to.id.split(':').next().filter(|_| hidden && to.scheme == "digest");
                    let shown = user
                        .map_or_else(|| to.clone(), |user| Identity::new(&to.scheme, &format!("{user}:x")));
                    shown.write(frame.int(*permissions));
                }
                node.stat().write(frame);
            }
            Read::AllChildrenNumber(path) => {
                self.readable(path, READ)?;
                frame.length(self.tree.descendants(path));
            }
            Read::Ephemerals(prefix) => {
                let ephemerals = self.tree.ephemerals(self.session);
                // Java's `trim` takes every control character for a blank.
                let all = ["", "/"].contains(&prefix.trim_matches(|letter| letter <= ' '));
                let mut names = ephemerals.names();
                names.retain(|name| all || name.starts_with(prefix.as_str()));
                strings(frame, &names);
            }
            Read::Multi(reads) => {
                for read in reads {
                    let code =
                        if matches!(read, Read::Data { .. }) { code::GET_DATA } else { code::GET_CHILDREN };
                    let mut part = frame.clone();
                    header(&mut part, code, false, 0);
                    match self.answer(read, &mut part) {
                        Ok(()) => *frame = part,
                        Err(error) => failure(frame, error),
                    }
                }
                header(frame, code::ERROR, true, -1);
            }
            Read::SetWatches(former) => {
                self.missed = self.watches.restore(former, self.connection, self.tree)
            }
            Read::AddWatch { path, mode } => {
                self.watches.add(path, self.connection, *mode).ok_or(error::MARSHALLING)?;
                frame.int(0);
            }
            Read::RemoveWatches { path, kind } => {
                let removed = self.watches.remove(path, self.connection, *kind).ok_or(error::MARSHALLING)?;
                removed.then_some(()).ok_or(error::NO_WATCHER)?;
            }
            Read::WhoAmI => {
                frame.length(self.identities.len());
                for Identity { scheme, id } in self.identities {
                    let user = if scheme == "digest" { id.split(':').next().unwrap_or_default() } else { id };
                    frame.string(scheme).string(user);
                }
            }
        }
        Ok(())
    }

    fn readable(&self, path: &str, permission: i32) -> Result<&'a Node, i32> {
        let node = self.tree.node(path).ok_or(error::NO_NODE)?;
        if allows(&node.list, permission, self.identities) { Ok(node) } else { Err(error::NO_AUTH) }
    }
}

fn strings(frame: &mut Frame, strings: &[&str]) {
    frame.length(strings.len());
    for string in strings {
        frame.string(string);
    }
}
