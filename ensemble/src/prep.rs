//! The leader's decision about a request: a transaction, or why not.
//!
//! (h) Requests are checked against the tree with every change that is proposed and not yet applied. A request that
//! fails, and one that only checks, takes a zxid and a commit like any other.

use std::collections::{BTreeMap, VecDeque};

use crate::auth::{ADMIN, CREATE, DELETE, Grant, Identity, READ, WRITE, allows, settle};
use crate::config::Config;
use crate::id::Now;
use crate::operation::{Create, Write, code, error};
use crate::sessions::{Owner, Tracker, milliseconds};
use crate::transaction::{Change, Transaction};
use crate::tree::{CONFIG, Kind, Record, Tree, parent, path_of};

/// What the leader has proposed, and has not applied yet.
#[derive(Debug)]
pub(crate) struct Preparation {
    /// The zxid that was given last.
    pub(crate) zxid: i64,
    pub(crate) sessions: Tracker,
    /// The nodes as they will be, by path, after one change after the other.
    pending: BTreeMap<String, VecDeque<Option<Prospect>>>,
    /// The paths of all pending changes, in their order.
    order: VecDeque<(i64, String)>,
}

/// A node as it will be.
#[derive(Clone, Debug)]
struct Prospect {
    record: Record,
    children: usize,
    list: Vec<Grant>,
}

/// Who asks, and by whom.
#[derive(Clone, Debug)]
pub(crate) struct Asker {
    pub(crate) session: i64,
    pub(crate) xid: i32,
    pub(crate) by: Owner,
    pub(crate) identities: Vec<Identity>,
}

struct Context<'a> {
    tree: &'a Tree,
    now: Now,
    asker: &'a Asker,
    zxid: i64,
}

impl Preparation {
    pub(crate) fn new(zxid: i64, config: &Config, now: Now, tree: &Tree) -> Self {
        let Config { tick, expiry_delay, .. } = *config;
        let sessions = Tracker::new(tick, expiry_delay, now.monotonic, &tree.sessions);
        Self { zxid, sessions, pending: BTreeMap::new(), order: VecDeque::new() }
    }

    /// Makes a transaction of a request. It fails inside if the request does.
    pub(crate) fn transact(&mut self, tree: &Tree, now: Now, asker: &Asker, write: &Write) -> Transaction {
        self.zxid += 1;
        let context = Context { tree, now, asker, zxid: self.zxid };
        let change = match write {
            Write::Multi(writes) => self.multi(&context, writes),
            write => self.change(&context, write).unwrap_or_else(Change::Failed),
        };
        context.transaction(change)
    }

    /// What becomes of a write that cannot be read.
    pub(crate) fn fail(&mut self, tree: &Tree, now: Now, asker: &Asker) -> Transaction {
        self.zxid += 1;
        let context = Context { tree, now, asker, zxid: self.zxid };
        context.transaction(Change::Failed(error::MARSHALLING))
    }

    /// The tree has all changes up to this zxid now.
    pub(crate) fn applied(&mut self, zxid: i64) {
        while self.order.front().is_some_and(|(pending, _)| *pending <= zxid) {
            let Some((_, path)) = self.order.pop_front() else { break };
            self.forget(&path, VecDeque::pop_front);
        }
    }

    fn forget(&mut self, path: &str, pop: fn(&mut VecDeque<Option<Prospect>>) -> Option<Option<Prospect>>) {
        if let Some(changes) = self.pending.get_mut(path) {
            pop(changes);
            if changes.is_empty() {
                self.pending.remove(path);
            }
        }
    }

    fn add(&mut self, context: &Context<'_>, path: &str, node: Option<Prospect>) {
        self.pending.entry(path.into()).or_default().push_back(node);
        self.order.push_back((context.zxid, path.into()));
    }

    /// Takes the changes of a transaction back, because a later part of it fails.
    fn take_back(&mut self, zxid: i64) {
        while self.order.back().is_some_and(|(pending, _)| *pending == zxid) {
            let Some((_, path)) = self.order.pop_back() else { break };
            self.forget(&path, VecDeque::pop_back);
        }
    }

    /// The node as it will be once everything that is proposed has been applied.
    fn node(&self, context: &Context<'_>, path: &str) -> Result<Prospect, i32> {
        let path = if path == "/" { "" } else { path };
        let prospect = match self.pending.get(path).and_then(VecDeque::back) {
            Some(prospect) => prospect.clone(),
            None => context.tree.node(path).map(|node| Prospect {
                record: node.record,
                children: node.children.len(),
                list: node.list.clone(),
            }),
        };
        prospect.ok_or(error::NO_NODE)
    }

    fn multi(&mut self, context: &Context<'_>, writes: &[Write]) -> Change {
        let mut failed = false;
        let mut changes = Vec::with_capacity(writes.len());
        for write in writes {
            changes.push(if failed {
                Change::Failed(error::RUNTIME_INCONSISTENCY)
            } else {
                self.change(context, write).unwrap_or_else(|code| {
                    failed = true;
                    self.take_back(context.zxid);
                    Change::Failed(code)
                })
            });
        }
        Change::Multi(changes)
    }

    fn change(&mut self, context: &Context<'_>, write: &Write) -> Result<Change, i32> {
        match write {
            Write::Create(create) => self.create(context, create),
            Write::Delete { path, version } => {
                self.check_session(context)?;
                let above = deletable(path)?;
                let parent = self.node(context, above)?;
                context.allowed(&parent, DELETE)?;
                let node = self.node(context, path)?;
                next_version(node.record.version, *version)?;
                self.delete(context, path, &node, above, parent)
            }
            Write::DeleteContainer(path) => {
                let above = deletable(path)?;
                let node = self.node(context, path)?;
                if node.record.kind() == Kind::Ephemeral {
                    return Err(error::BAD_VERSION);
                }
                let parent = self.node(context, above)?;
                self.delete(context, path, &node, above, parent)
            }
            Write::SetData { path, data, version } => {
                self.check_session(context)?;
                valid(path)?;
                let mut node = self.node(context, path)?;
                context.allowed(&node, WRITE)?;
                let version = next_version(node.record.version, *version)?;
                node.record.version = version;
                self.add(context, path_of(path), Some(node));
                Ok(Change::SetData { path: path.clone(), data: data.clone(), version })
            }
            Write::SetAcl { path, list, version } => {
                self.check_session(context)?;
                valid(path)?;
                let list = settle(list, &context.asker.identities).ok_or(error::INVALID_ACL)?;
                let mut node = self.node(context, path)?;
                context.allowed(&node, ADMIN)?;
                let version = next_version(node.record.aversion, *version)?;
                node.record.aversion = version;
                // ZooKeeper keeps the former list here until the new one is applied.
                self.add(context, path_of(path), Some(node));
                Ok(Change::SetAcl { path: path.clone(), list, version })
            }
            Write::Check { path, version } => {
                self.check_session(context)?;
                valid(path)?;
                let node = self.node(context, path)?;
                context.allowed(&node, READ)?;
                next_version(node.record.version, *version)?;
                Ok(Change::Check)
            }
            Write::Reconfigure => Err(error::RECONFIG_DISABLED),
            Write::CreateSession { timeout } => {
                self.sessions.track(context.asker.session, *timeout, context.now.monotonic);
                self.sessions.own(context.asker.session, context.asker.by);
                Ok(Change::CreateSession { timeout: *timeout })
            }
            Write::CloseSession => Ok(self.close(context)),
            // No client can send a multi in a multi.
            Write::Multi(_) => Err(error::MARSHALLING),
        }
    }

    fn create(&mut self, context: &Context<'_>, create: &Create) -> Result<Change, i32> {
        let (kind, sequential) = mode(create.flags)?;
        if create.ttl >= 0 {
            return Err(error::BAD_ARGUMENTS);
        }
        self.check_session(context)?;
        let above =
            parent(&create.path).filter(|_| !create.path.contains('\0')).ok_or(error::BAD_ARGUMENTS)?;
        let list = settle(&create.list, &context.asker.identities).ok_or(error::INVALID_ACL)?;
        let mut parent = self.node(context, above)?;
        context.allowed(&parent, CREATE)?;
        // (i) The number of a sequential name is the raw count of creations, signed.
        let number = parent.record.creations;
        let path =
            if sequential { format!("{}{}", create.path, sequence(number)) } else { create.path.clone() };
        valid(&path)?;
        if self.node(context, &path).is_ok() {
            return Err(error::NODE_EXISTS);
        }
        if parent.record.kind() == Kind::Ephemeral {
            return Err(error::NO_CHILDREN_FOR_EPHEMERALS);
        }
        // The operation decides about containers, the flags about everything else.
        let kind = match (create.code, kind) {
            (code::CREATE_CONTAINER, _) => Kind::Container,
            (code::CREATE_TTL, kind) => kind,
            (_, Kind::Ephemeral) => Kind::Ephemeral,
            _ => Kind::Persistent,
        };
        let owner = kind.owner(context.asker.session);
        parent.children += 1;
        parent.record.creations = number.wrapping_add(1);
        let record = Record::new(context.zxid, context.time(), owner);
        self.add(context, path_of(above), Some(parent));
        self.add(context, &path, Some(Prospect { record, children: 0, list: list.clone() }));
        Ok(Change::Create {
            code: create.code,
            path,
            data: create.data.clone(),
            list,
            owner,
            parent_cversion: number.wrapping_add(1),
        })
    }

    fn delete(
        &mut self,
        context: &Context<'_>,
        path: &str,
        node: &Prospect,
        above: &str,
        mut parent: Prospect,
    ) -> Result<Change, i32> {
        if node.children > 0 {
            return Err(error::NOT_EMPTY);
        }
        parent.children -= 1;
        self.add(context, above, Some(parent));
        self.add(context, path, None);
        Ok(Change::Delete { path: path.into() })
    }

    /// (k) The ephemeral nodes of the session, with those of pending changes, in the order of a hash set.
    fn close(&mut self, context: &Context<'_>) -> Change {
        let session = context.asker.session;
        let mut ephemerals = context.tree.ephemerals(session);
        let mut seen = BTreeMap::<&str, usize>::new();
        for (_, path) in &self.order {
            let index = seen.entry(path).or_default();
            match self.pending.get(path).and_then(|changes| changes.get(*index)) {
                Some(None) => ephemerals.remove(path),
                Some(Some(node)) if node.record.owner == session => ephemerals.insert(path),
                _ => {}
            }
            *index += 1;
        }
        let ephemerals: Vec<String> = ephemerals.names().into_iter().map(str::to_owned).collect();
        for path in &ephemerals {
            // Like ZooKeeper, this leaves the parent's number of children as it is until the session's end is applied.
            if let Some((above, parent)) =
                parent(path).and_then(|above| Some((above, self.node(context, above).ok()?)))
            {
                self.add(context, above, Some(parent));
            }
            self.add(context, path, None);
        }
        self.sessions.close(session);
        Change::CloseSession { ephemerals }
    }

    fn check_session(&mut self, context: &Context<'_>) -> Result<(), i32> {
        match context.asker.session {
            // The server itself asks.
            0 => Ok(()),
            session => self.sessions.check(session, context.asker.by),
        }
    }
}

impl Context<'_> {
    fn allowed(&self, node: &Prospect, permission: i32) -> Result<(), i32> {
        allows(&node.list, permission, &self.asker.identities).then_some(()).ok_or(error::NO_AUTH)
    }

    fn time(&self) -> i64 {
        milliseconds(self.now.wall).try_into().expect("a clock does not show 250 million years")
    }

    fn transaction(&self, change: Change) -> Transaction {
        let Asker { session, xid, .. } = *self.asker;
        Transaction { zxid: self.zxid, time: self.time(), session, xid, change }
    }
}

/// The kind of node that these flags ask for, and whether its name gets a number.
fn mode(flags: i32) -> Result<(Kind, bool), i32> {
    Ok(match flags {
        0 => (Kind::Persistent, false),
        1 => (Kind::Ephemeral, false),
        2 => (Kind::Persistent, true),
        3 => (Kind::Ephemeral, true),
        4 => (Kind::Container, false),
        // A time to live.
        5 | 6 => return Err(error::UNIMPLEMENTED),
        _ => return Err(error::BAD_ARGUMENTS),
    })
}

/// Java's `%010d`.
fn sequence(number: i32) -> String {
    format!("{number:010}")
}

fn next_version(current: i32, expected: i32) -> Result<i32, i32> {
    if expected == -1 || expected == current { Ok(current.wrapping_add(1)) } else { Err(error::BAD_VERSION) }
}

/// The parent of a node that may be deleted.
fn deletable(path: &str) -> Result<&str, i32> {
    let special = ["/", "/zookeeper", "/zookeeper/quota", CONFIG].contains(&path) || path.contains('\0');
    parent(path).filter(|_| !special).ok_or(error::BAD_ARGUMENTS)
}

fn valid(path: &str) -> Result<(), i32> {
    let bad = |letter: char| matches!(u32::from(letter), 0..=0x1F | 0x7F..=0x9F | 0xE000..=0xF8FF | 0xFFF0..=0xFFFF | 0x1_0000..);
    let part = |part: &str| !matches!(part, "" | "." | "..");
    let valid = path == "/" || path.strip_prefix('/').is_some_and(|rest| rest.split('/').all(part));
    if valid && !path.contains(bad) { Ok(()) } else { Err(error::BAD_ARGUMENTS) }
}
