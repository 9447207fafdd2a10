//! What a server knows: directories, and their children with numbers.

use zklock_recipe::transaction::{Operation, Problem};
use zklock_recipe::{Kind, Own, QueuePlace, Sequence};

use super::nodes::Data;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tree {
    /// The last transaction that has created a contender. No machine compares the others.
    pub(crate) zxid: i64,
    /// Each by its index; `None` while there is none.
    pub(crate) directories: Vec<Option<Directory>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Directory {
    node: Node,
    /// The number that the next child gets.
    pub(crate) next: i32,
    /// In the order of their numbers.
    pub(crate) children: Vec<(QueuePlace, Node)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    /// The session that it goes with; `None` if it is persistent.
    pub(crate) owner: Option<usize>,
    pub(crate) czxid: i64,
    pub(crate) version: i32,
    pub(crate) data: Data,
}

/// Where a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Path {
    Directory(usize),
    Child(usize, QueuePlace),
}

/// The node of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Named {
    pub(crate) name: Name,
    /// What is written.
    pub(crate) data: Data,
}

impl Named {
    /// For an operation that writes nothing.
    pub(crate) fn of(path: Path) -> Self {
        Self { name: Name::At(path), data: Data::default() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Name {
    At(Path),
    /// The next child of this directory. It goes with its session.
    Next(usize, Kind),
}

/// What a transaction has done.
pub(crate) struct Committed {
    /// The numbered nodes that it has created, in the order of its operations.
    pub(crate) created: Vec<Own>,
    pub(crate) changes: Vec<(Path, Change)>,
}

pub(crate) type Transaction = Vec<Operation<Named>>;

/// A transaction that deletes these nodes, whatever their versions.
pub(crate) fn deletion(paths: impl IntoIterator<Item = Path>) -> Transaction {
    paths.into_iter().map(|path| Operation::Delete(Named::of(path), None)).collect()
}

/// What a transaction has changed, for the watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Change {
    Created,
    Written,
    Deleted,
}

impl Tree {
    /// So many directories, which are there or not.
    pub(crate) fn new(directories: usize, are_there: bool) -> Self {
        let directory = are_there.then(|| Directory::new(0, Data::default()));
        Self { zxid: 0, directories: vec![directory; directories] }
    }

    pub(crate) fn children(&self, directory: usize) -> &[(QueuePlace, Node)] {
        self.directories[directory].as_ref().map_or(&[], |it| &it.children)
    }

    pub(crate) fn get(&self, path: Path) -> Option<&Node> {
        match path {
            Path::Directory(index) => self.directories[index].as_ref().map(|it| &it.node),
            Path::Child(index, place) => {
                let mut children = self.directories[index].as_ref()?.children.iter();
                children.find(|(other, _)| *other == place).map(|(_, node)| node)
            }
        }
    }

    /// Whether the node of this name is the one that was created then.
    pub(crate) fn has(&self, directory: usize, own: Own) -> bool {
        self.get(Path::Child(directory, own.place)).is_some_and(|node| node.czxid == own.czxid)
    }

    /// Every path to a node of this session.
    pub(crate) fn of(&self, session: usize) -> Vec<Path> {
        let owned = self.nodes().filter(|(_, node)| node.owner == Some(session));
        owned.map(|(path, _)| path).collect()
    }

    /// Carries a transaction out, or finds the first operation that fails, and why.
    pub(crate) fn commit(
        &mut self,
        session: usize,
        transaction: &[Operation<Named>],
    ) -> Result<Committed, (usize, Problem)> {
        let before = self.clone();
        let enters = |operation: &Operation<Named>| {
            matches!(operation, Operation::Create(Named { name: Name::Next(..), .. }))
        };
        self.zxid += i64::from(transaction.iter().any(enters));
        let (mut created, mut changes) = (Vec::new(), Vec::new());
        for (index, operation) in transaction.iter().enumerate() {
            match self.apply(session, operation, &mut created) {
                Ok(change) => changes.extend(change),
                Err(problem) => {
                    *self = before;
                    return Err((index, problem));
                }
            }
        }
        Ok(Committed { created, changes })
    }

    fn apply(
        &mut self,
        session: usize,
        operation: &Operation<Named>,
        created: &mut Vec<Own>,
    ) -> Result<Option<(Path, Change)>, Problem> {
        let path = match operation.node().name {
            Name::At(path) => path,
            Name::Next(index, kind) => {
                let directory = self.directories[index].as_ref().ok_or(Problem::NoNode)?;
                Path::Child(index, QueuePlace { sequence: Sequence(directory.next), kind })
            }
        };
        let change = match operation {
            Operation::Check(_, version) => {
                self.versioned(path, *version)?;
                return Ok(None);
            }
            Operation::Set(Named { data, .. }, version) => {
                let node = self.versioned(path, *version)?;
                (node.data, node.version) = (*data, node.version + 1);
                Change::Written
            }
            Operation::Create(Named { data, .. }) => {
                if self.get(path).is_some() {
                    return Err(Problem::NodeExists);
                }
                let czxid = self.zxid;
                let data = *data;
                match path {
                    Path::Directory(index) => self.directories[index] = Some(Directory::new(czxid, data)),
                    Path::Child(index, place) => {
                        let directory = self.directories[index].as_mut().ok_or(Problem::NoNode)?;
                        directory.next += 1;
                        let node = Node { owner: Some(session), czxid, version: 0, data };
                        directory.children.push((place, node));
                        created.push(Own { place, czxid });
                    }
                }
                Change::Created
            }
            Operation::Delete(_, version) => {
                self.versioned(path, *version)?;
                match path {
                    Path::Directory(index) if self.children(index).is_empty() => {
                        self.directories[index] = None
                    }
                    Path::Directory(_) => return Err(Problem::NotEmpty),
                    Path::Child(index, place) => {
                        let directory = self.directories[index].as_mut().ok_or(Problem::NoNode)?;
                        directory.children.retain(|(other, _)| *other != place);
                    }
                }
                Change::Deleted
            }
        };
        Ok(Some((path, change)))
    }

    fn versioned(&mut self, path: Path, version: Option<i32>) -> Result<&mut Node, Problem> {
        let node = match path {
            Path::Directory(index) => self.directories[index].as_mut().map(|it| &mut it.node),
            Path::Child(index, place) => {
                let mut children = self.directories[index].iter_mut().flat_map(|it| &mut it.children);
                children.find(|(other, _)| *other == place).map(|(_, node)| node)
            }
        };
        let node = node.ok_or(Problem::NoNode)?;
        if version.is_some_and(|version| version != node.version) {
            Err(Problem::BadVersion)
        } else {
            Ok(node)
        }
    }
}

impl Directory {
    fn new(czxid: i64, data: Data) -> Self {
        Self { node: Node { owner: None, czxid, version: 0, data }, next: 0, children: Vec::new() }
    }
}
