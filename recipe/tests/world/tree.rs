//! What a server knows: directories, and their children with numbers.

use zklock_recipe::transaction::{Operation, Problem};
use zklock_recipe::{Kind, Own, QueuePlace, Sequence};

/// A session, by its index.
pub(crate) type Session = usize;

/// `D` is what the models have for data.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tree<D> {
    /// The last transaction that is numbered. No machine compares the others.
    pub(crate) zxid: i64,
    numbered: Vec<Numbered>,
    /// Each by its index; `None` while there is none.
    pub(crate) directories: Vec<Option<Directory<D>>>,
}

/// Which transactions are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Numbered {
    /// Those that create a child of this directory.
    Children(usize),
    /// Those that change this directory itself.
    Node(usize),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Directory<D> {
    pub(crate) node: Node<D>,
    /// The number that the next child gets.
    pub(crate) next: i32,
    /// In the order of their numbers.
    pub(crate) children: Vec<(QueuePlace, Node<D>)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node<D> {
    /// The session that it goes with; `None` if it is persistent.
    pub(crate) owner: Option<Session>,
    pub(crate) czxid: i64,
    pub(crate) version: i32,
    pub(crate) data: D,
}

/// Where a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Path {
    Directory(usize),
    Child(usize, QueuePlace),
}

/// The node of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Named<D> {
    pub(crate) name: Name,
    /// What is written.
    pub(crate) data: D,
}

impl<D: Default> Named<D> {
    /// For an operation that writes nothing.
    pub(crate) fn of(path: Path) -> Self {
        Self { name: Name::At(path), data: D::default() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Name {
    At(Path),
    /// As that; if it is created, it goes with its session.
    Ephemeral(Path),
    /// The next child of this directory. It goes with its session.
    Next(usize, Kind),
}

/// What a transaction has done.
pub(crate) struct Committed {
    /// The numbered nodes that it has created, in the order of its operations.
    pub(crate) created: Vec<Own>,
    pub(crate) changes: Vec<(Path, Change)>,
}

pub(crate) type Transaction<D> = Vec<Operation<Named<D>>>;

/// A transaction that deletes these nodes, whatever their versions.
pub(crate) fn deletion<D: Default>(paths: impl IntoIterator<Item = Path>) -> Transaction<D> {
    paths.into_iter().map(|path| Operation::Delete(Named::of(path), None)).collect()
}

/// What a transaction has changed, for the watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Change {
    Created,
    Written,
    Deleted,
}

impl<D: Clone> Tree<D> {
    /// Persistent directories with these data.
    pub(crate) fn new(
        directories: impl IntoIterator<Item = Option<D>>,
        numbered: impl IntoIterator<Item = Numbered>,
    ) -> Self {
        let directory = |data: Option<D>| Some(Directory::new(None, 0, data?));
        let directories = directories.into_iter().map(directory).collect();
        Self { zxid: 0, numbered: numbered.into_iter().collect(), directories }
    }

    pub(crate) fn children(&self, directory: usize) -> &[(QueuePlace, Node<D>)] {
        self.directories[directory].as_ref().map_or(&[], |it| &it.children)
    }

    pub(crate) fn get(&self, path: Path) -> Option<&Node<D>> {
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
    pub(crate) fn of(&self, session: Session) -> Vec<Path> {
        let directories = self.directories.iter().enumerate();
        let owned = |node: &Node<D>| node.owner == Some(session);
        let paths =
            directories.filter_map(|(index, it)| Some((index, it.as_ref()?))).flat_map(|(index, it)| {
                let children = it.children.iter().filter(move |(_, node)| owned(node));
                let children = children.map(move |(place, _)| Path::Child(index, *place));
                children.chain(owned(&it.node).then_some(Path::Directory(index)))
            });
        paths.collect()
    }

    /// Carries a transaction out, or finds the first operation that fails, and why.
    pub(crate) fn commit(
        &mut self,
        session: Session,
        transaction: &[Operation<Named<D>>],
    ) -> Result<Committed, (usize, Problem)> {
        let counts = transaction.iter().any(|operation| self.counts(operation));
        self.commit_as(self.zxid + i64::from(counts), session, transaction)
    }

    /// As `commit`, with this number.
    pub(crate) fn commit_as(
        &mut self,
        zxid: i64,
        session: Session,
        transaction: &[Operation<Named<D>>],
    ) -> Result<Committed, (usize, Problem)> {
        let before = self.clone();
        self.zxid = zxid;
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

    fn counts(&self, operation: &Operation<Named<D>>) -> bool {
        let change = match (operation, operation.node().name) {
            (Operation::Create(_), Name::Next(index, _)) => Numbered::Children(index),
            (Operation::Check(..), _) => return false,
            (_, Name::At(Path::Directory(index)) | Name::Ephemeral(Path::Directory(index))) => {
                Numbered::Node(index)
            }
            _ => return false,
        };
        self.numbered.contains(&change)
    }

    fn apply(
        &mut self,
        session: Session,
        operation: &Operation<Named<D>>,
        created: &mut Vec<Own>,
    ) -> Result<Option<(Path, Change)>, Problem> {
        let path = match operation.node().name {
            Name::At(path) | Name::Ephemeral(path) => path,
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
                (node.data, node.version) = (data.clone(), node.version + 1);
                Change::Written
            }
            Operation::Create(Named { name, data }) => {
                if self.get(path).is_some() {
                    return Err(Problem::NodeExists);
                }
                let owner = (!matches!(name, Name::At(_))).then_some(session);
                let (czxid, data) = (self.zxid, data.clone());
                match path {
                    Path::Directory(index) => {
                        self.directories[index] = Some(Directory::new(owner, czxid, data))
                    }
                    Path::Child(index, place) => {
                        let directory = self.directories[index].as_mut().ok_or(Problem::NoNode)?;
                        directory.next += 1;
                        directory.children.push((place, Node { owner, czxid, version: 0, data }));
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

    fn versioned(&mut self, path: Path, version: Option<i32>) -> Result<&mut Node<D>, Problem> {
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

impl<D> Directory<D> {
    fn new(owner: Option<Session>, czxid: i64, data: D) -> Self {
        Self { node: Node { owner, czxid, version: 0, data }, next: 0, children: Vec::new() }
    }
}
