//! The nodes, and what a transaction does to them. Every server that applies the same log has the same tree.

use std::collections::{BTreeMap, BTreeSet};

use crate::auth::{Grant, READ};
use crate::java::HashSet;
use crate::operation::error;
use crate::transaction::{Change, Transaction};
use crate::wire::Frame;

const CONTAINER: i64 = i64::MIN;
pub(crate) const CONFIG: &str = "/zookeeper/config";
/// Buckets of a `HashSet` that Java's programs say nothing about.
const BUCKETS: u32 = 16;

#[derive(Clone, Debug)]
pub(crate) struct Tree {
    /// By path. The root has the empty path, as children's paths without their last part have it.
    nodes: BTreeMap<String, Node>,
    ephemerals: BTreeMap<i64, HashSet>,
    containers: BTreeSet<String>,
    /// The timeout of each session, in milliseconds.
    pub(crate) sessions: BTreeMap<i64, i32>,
    /// The last transaction that was applied.
    pub(crate) zxid: i64,
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) data: Vec<u8>,
    pub(crate) list: Vec<Grant>,
    pub(crate) children: HashSet,
    pub(crate) record: Record,
}

/// What is stored of a node beside its data. A client sees [`Stat`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) czxid: i64,
    pub(crate) mzxid: i64,
    pub(crate) pzxid: i64,
    pub(crate) ctime: i64,
    pub(crate) mtime: i64,
    pub(crate) version: i32,
    /// How often children were created. Sequential names use this number.
    pub(crate) creations: i32,
    pub(crate) aversion: i32,
    pub(crate) owner: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Persistent,
    Ephemeral,
    Container,
}

/// A node's metadata as clients see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stat {
    record: Record,
    length: usize,
    children: usize,
}

/// A node that goes with its session.
#[derive(Clone, Copy, Debug)]
pub struct Ephemeral<'a> {
    /// Its path.
    pub path: &'a str,
    /// Its data.
    pub data: &'a [u8],
    /// The transaction that created it.
    pub czxid: i64,
    /// The session.
    pub owner: i64,
}

/// What a change came to. The reply is made of it.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    Created { code: i32, path: String, stat: Stat },
    Deleted,
    Set(Stat),
    ListSet(Stat),
    Checked,
    Failed(i32),
    Multi(Vec<Outcome>),
    Session,
}

/// Something happened to a path. Who may read the node may hear of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Happening {
    pub(crate) what: What,
    pub(crate) path: String,
    pub(crate) list: Vec<Grant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Created = 1,
    Deleted = 2,
    DataChanged = 3,
    ChildrenChanged = 4,
}

impl Record {
    /// What is stored of a node that this transaction creates.
    pub(crate) fn new(zxid: i64, time: i64, owner: i64) -> Self {
        Self { czxid: zxid, mzxid: zxid, pzxid: zxid, ctime: time, mtime: time, owner, ..Self::default() }
    }

    pub(crate) fn kind(&self) -> Kind {
        match self.owner {
            0 => Kind::Persistent,
            CONTAINER => Kind::Container,
            _ => Kind::Ephemeral,
        }
    }
}

impl Kind {
    /// The owner that is stored for a node of this kind, which this session creates.
    pub(crate) fn owner(self, session: i64) -> i64 {
        match self {
            Self::Persistent => 0,
            Self::Ephemeral => session,
            Self::Container => CONTAINER,
        }
    }
}

impl Stat {
    pub(crate) fn write(&self, frame: &mut Frame) {
        let record = &self.record;
        let children = self.children as i32;
        let owner = if record.kind() == Kind::Ephemeral { record.owner } else { 0 };
        frame.long(record.czxid).long(record.mzxid).long(record.ctime).long(record.mtime).int(record.version);
        // (i) Clients see the number of changes: for every creation a deletion, except for the children that are there.
        frame.int(record.creations.wrapping_mul(2).wrapping_sub(children)).int(record.aversion).long(owner);
        frame.length(self.length).int(children).long(record.pzxid);
    }
}

impl Node {
    fn new(data: Vec<u8>, list: Vec<Grant>, record: Record) -> Self {
        Self { data, list, record, children: HashSet::new(8) }
    }

    pub(crate) fn stat(&self) -> Stat {
        Stat { record: self.record, length: self.data.len(), children: self.children.len() }
    }
}

/// The path of the parent; `None` without a slash.
pub(crate) fn parent(path: &str) -> Option<&str> {
    path.rfind('/').map(|slash| &path[..slash])
}

/// The root's path, if this is the empty one.
fn shown(path: &str) -> String {
    if path.is_empty() { "/".into() } else { path.into() }
}

impl Tree {
    /// A tree that has these nodes besides those of each tree, each with its number of creations.
    pub(crate) fn new(former: &[(String, i32)]) -> Self {
        let mut nodes = BTreeMap::new();
        let always = ["", "/zookeeper", "/zookeeper/quota", CONFIG].map(|path| (path, 0));
        let former = former.iter().map(|(path, creations)| (path.as_str(), *creations));
        for (path, creations) in always.into_iter().chain(former) {
            let list = match path {
                CONFIG => vec![Grant::anyone(READ)],
                _ => Grant::everything(),
            };
            let mut node = Node::new(Vec::new(), list, Record { creations, ..Record::default() });
            if path == CONFIG {
                node.record.aversion = -1;
            }
            nodes.insert(path.to_owned(), node);
            if let Some((parent, name)) = path.rsplit_once('/') {
                nodes.get_mut(parent).expect("parents come first").children.insert(name);
            }
        }
        Self {
            nodes,
            ephemerals: BTreeMap::new(),
            containers: BTreeSet::new(),
            sessions: BTreeMap::new(),
            zxid: 0,
        }
    }

    pub(crate) fn node(&self, path: &str) -> Option<&Node> {
        self.nodes.get(path_of(path))
    }

    /// Whether a node is there that this transaction has created.
    pub(crate) fn was_created(&self, czxid: i64) -> bool {
        self.nodes.values().any(|node| node.record.czxid == czxid)
    }

    /// How many nodes are in the tree. The servers count the root twice.
    pub(crate) fn count(&self) -> usize {
        self.nodes.len() + 1
    }

    pub(crate) fn descendants(&self, path: &str) -> usize {
        match path {
            "/" => return self.nodes.len() - 1,
            // ZooKeeper has the root twice, as "" and as "/", and counts the second one below the first.
            "" => return self.nodes.len(),
            _ => {}
        }
        let below = format!("{path}/");
        self.nodes.range(below.clone()..).take_while(|(path, _)| path.starts_with(&below)).count()
    }

    pub(crate) fn ephemerals(&self, session: i64) -> HashSet {
        self.ephemerals.get(&session).map_or_else(|| HashSet::new(BUCKETS), HashSet::copy)
    }

    pub(crate) fn ephemeral_nodes(&self) -> impl Iterator<Item = Ephemeral<'_>> {
        let ephemerals = self.nodes.iter().filter(|(_, node)| node.record.kind() == Kind::Ephemeral);
        ephemerals.map(|(path, Node { data, record, .. })| Ephemeral {
            path,
            data,
            czxid: record.czxid,
            owner: record.owner,
        })
    }

    pub(crate) fn has_containers(&self) -> bool {
        !self.containers.is_empty()
    }

    /// The nodes that the leader's next check deletes: containers that had children.
    pub(crate) fn dying(&self) -> Vec<String> {
        // A container that never had a child stays: its creator may be about to create one.
        let dies = |node: &Node| node.children.is_empty() && node.record.creations > 0;
        self.containers.iter().filter(|path| self.nodes.get(*path).is_some_and(dies)).cloned().collect()
    }

    /// Gives `/zookeeper/config` its contents: each server of an ensemble writes them by itself, in no transaction.
    pub(crate) fn configure(&mut self, text: &str, time: i64) {
        let node = self.nodes.get_mut(CONFIG).expect("it is never deleted");
        node.data = text.as_bytes().to_vec();
        node.record.version = -1;
        node.record.mzxid = 0;
        node.record.mtime = time;
    }

    /// Applies a transaction, and tells in order what happened to which path.
    pub(crate) fn apply(&mut self, transaction: &Transaction, happenings: &mut Vec<Happening>) -> Outcome {
        self.zxid = self.zxid.max(transaction.zxid);
        self.change(transaction, &transaction.change, happenings)
    }

    fn change(
        &mut self,
        transaction: &Transaction,
        change: &Change,
        happenings: &mut Vec<Happening>,
    ) -> Outcome {
        let done = match change {
            Change::Create { .. } => self.create(transaction, change, happenings),
            Change::Delete { path } => {
                self.delete(path, transaction.zxid, happenings).map(|()| Outcome::Deleted)
            }
            Change::SetData { path, data, version } => self.nodes.get_mut(path_of(path)).map(|node| {
                node.data.clone_from(data);
                node.record.version = *version;
                node.record.mzxid = transaction.zxid;
                node.record.mtime = transaction.time;
                happenings.push(Happening {
                    what: What::DataChanged,
                    path: path.clone(),
                    list: node.list.clone(),
                });
                Outcome::Set(node.stat())
            }),
            Change::SetAcl { path, list, version } => self.nodes.get_mut(path_of(path)).map(|node| {
                node.list.clone_from(list);
                node.record.aversion = *version;
                Outcome::ListSet(node.stat())
            }),
            Change::Check => Some(Outcome::Checked),
            Change::Failed(code) => Some(Outcome::Failed(*code)),
            Change::Multi(changes) => Some(Outcome::Multi(self.multi(transaction, changes, happenings))),
            Change::CreateSession { timeout } => {
                self.sessions.insert(transaction.session, *timeout);
                Some(Outcome::Session)
            }
            Change::CloseSession { ephemerals } => {
                self.sessions.remove(&transaction.session);
                self.ephemerals.remove(&transaction.session);
                // (k) One transaction, and its nodes go in the order that the leader wrote: that of a hash set.
                for path in ephemerals {
                    self.delete(path, transaction.zxid, happenings);
                }
                Some(Outcome::Session)
            }
        };
        // The leader has checked everything against the changes before this one, so each node is there.
        done.unwrap_or(Outcome::Failed(error::NO_NODE))
    }

    /// (h) If one change fails, those before it answer 0, and those behind it -2.
    fn multi(
        &mut self,
        transaction: &Transaction,
        changes: &[Change],
        happenings: &mut Vec<Happening>,
    ) -> Vec<Outcome> {
        let Some(failure) = changes.iter().position(|change| matches!(change, Change::Failed(_))) else {
            return changes.iter().map(|change| self.change(transaction, change, happenings)).collect();
        };
        let outcome = |(index, change): (usize, &Change)| match change {
            Change::Failed(code) => Outcome::Failed(*code),
            _ => Outcome::Failed(if index < failure { 0 } else { error::RUNTIME_INCONSISTENCY }),
        };
        changes.iter().enumerate().map(outcome).collect()
    }

    fn create(
        &mut self,
        transaction: &Transaction,
        change: &Change,
        happenings: &mut Vec<Happening>,
    ) -> Option<Outcome> {
        let Change::Create { code, path, data, list, owner, parent_cversion } = change else { return None };
        let (above, name) = path.rsplit_once('/')?;
        let parent = self.nodes.get_mut(above)?;
        // At the end the number stays, and pending creates wrap (`DataTree.createNode`, 3.9.5:475; `PrepRequestProcessor`, 3.9.5:684).
        if *parent_cversion > parent.record.creations {
            parent.record.creations = *parent_cversion;
            parent.record.pzxid = transaction.zxid;
        }
        parent.children.insert(name);
        let parent_list = parent.list.clone();
        let node =
            Node::new(data.clone(), list.clone(), Record::new(transaction.zxid, transaction.time, *owner));
        let stat = node.stat();
        match node.record.kind() {
            Kind::Persistent => {}
            Kind::Ephemeral => {
                self.ephemerals.entry(*owner).or_insert_with(|| HashSet::new(BUCKETS)).insert(path);
            }
            Kind::Container => drop(self.containers.insert(path.clone())),
        }
        self.nodes.insert(path.clone(), node);
        happenings.push(Happening { what: What::Created, path: path.clone(), list: list.clone() });
        happenings.push(Happening { what: What::ChildrenChanged, path: shown(above), list: parent_list });
        Some(Outcome::Created { code: *code, path: path.clone(), stat })
    }

    fn delete(&mut self, path: &str, zxid: i64, happenings: &mut Vec<Happening>) -> Option<()> {
        let (above, name) = path.rsplit_once('/')?;
        let node = self.nodes.remove(path)?;
        let parent = self.nodes.get_mut(above)?;
        parent.children.remove(name);
        parent.record.pzxid = parent.record.pzxid.max(zxid);
        if let Some(ephemerals) = self.ephemerals.get_mut(&node.record.owner) {
            ephemerals.remove(path);
        }
        self.containers.remove(path);
        happenings.push(Happening { what: What::Deleted, path: path.into(), list: node.list });
        happenings.push(Happening {
            what: What::ChildrenChanged,
            path: shown(above),
            list: parent.list.clone(),
        });
        Some(())
    }
}

/// The path by which the tree has a node: the root's is empty.
pub(crate) fn path_of(path: &str) -> &str {
    if path == "/" { "" } else { path }
}
