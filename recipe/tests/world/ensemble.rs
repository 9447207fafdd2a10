//! The servers, and what is under way between them and their clients.
//!
//! A leader, and perhaps a follower, which has the leader's transactions some time later and answers reads from what it has. A
//! client's requests are served in their order, and so are its answers. What was under way on a connection that breaks may still be
//! carried out, until the leader hears of the session again.

use std::collections::BTreeSet;

use zklock_recipe::Own;
use zklock_recipe::transaction::{Operation, Problem};

use super::tree::{Change, Name, Named, Node, Path, Session, Transaction, Tree, deletion};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ensemble<D> {
    pub(crate) leader: Server<D>,
    pub(crate) follower: Option<Follower<D>>,
    pub(crate) links: Vec<Link<D>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Server<D> {
    pub(crate) tree: Tree<D>,
    pub(crate) watches: BTreeSet<Watch>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Follower<D> {
    pub(crate) server: Server<D>,
    /// Under way from the leader, in order.
    down: Vec<Down<D>>,
    /// What its clients look at, by index. It hears of nothing else.
    shows: Vec<usize>,
    /// Its last transactions, for a server that has not heard of them; before each, what it had. So many are kept.
    last: Vec<(Tree<D>, Down<D>)>,
    keeps: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Down<D> {
    Transaction(Session, Transaction<D>, i64),
    /// To what was forwarded for this session.
    Answer(Session, Answer<D>),
}

/// A session's connection, or what is left of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Link<D> {
    /// Whether there is one now.
    pub(crate) connected: bool,
    /// Whether it leads to the follower.
    pub(crate) follows: bool,
    /// Requests under way, in order.
    pub(crate) up: Vec<Ask<D>>,
    /// Answers and events under way, in order.
    pub(crate) down: Vec<Word<D>>,
    /// What was under way on a lost connection, and may still be carried out.
    pub(crate) strays: Vec<Transaction<D>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ask<D> {
    Commit(Transaction<D>),
    /// To be answered by a quorum.
    Sync,
    /// Reads a node.
    Get(Path),
    /// Watches a node for all its changes, until the connection ends.
    Watch(Path),
}

/// What a watch is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Data,
    Children,
    Persistent,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Answer<D> {
    /// With the numbered nodes that it has created.
    Committed(Vec<Own>),
    /// This operation failed.
    Failed(usize, Problem),
    /// The server had too much to do. Nothing was carried out.
    Refused,
    Synced,
    Got(Option<Node<D>>),
    Watched,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Word<D> {
    Answer(Answer<D>),
    /// What a watch shows of this node; a persistent one also tells by which transaction.
    Event(Path, Change, Option<i64>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Watch {
    pub(crate) session: Session,
    pub(crate) path: Path,
    pub(crate) kind: Kind,
}

impl<D: Clone> Server<D> {
    pub(crate) fn new(tree: Tree<D>) -> Self {
        Self { tree, watches: BTreeSet::new() }
    }

    /// The watches that changes fire, and by which.
    pub(crate) fn fire(&mut self, changes: &[(Path, Change)]) -> Vec<(Watch, Change)> {
        let mut fired = Vec::new();
        for (path, change) in changes.iter().copied() {
            self.watches.retain(|watch| {
                // Only contenders are watched for their children, and have none.
                let tells = watch.kind != Kind::Children || change == Change::Deleted;
                let fires = watch.path == path && tells;
                if fires {
                    fired.push((*watch, change));
                }
                !fires || watch.kind == Kind::Persistent
            });
        }
        fired
    }

    /// A read watches the node that it finds. Returns whether it finds one.
    pub(crate) fn watch(&mut self, session: Session, path: Path, kind: Kind) -> bool {
        let found = self.tree.get(path).is_some();
        if found {
            self.watches.insert(Watch { session, path, kind });
        }
        found
    }

    fn answer(&mut self, session: Session, ask: Ask<D>) -> Answer<D> {
        match ask {
            Ask::Get(path) => Answer::Got(self.tree.get(path).cloned()),
            Ask::Watch(path) => {
                self.watches.insert(Watch { session, path, kind: Kind::Persistent });
                Answer::Watched
            }
            Ask::Commit(_) | Ask::Sync => unreachable!("only the leader answers"),
        }
    }
}

impl<D: Clone + Default + PartialEq> Ensemble<D> {
    /// These sessions have connections; those of `following` to a follower.
    pub(crate) fn new(tree: Tree<D>, sessions: usize, following: &[Session]) -> Self {
        let leader = Server::new(tree);
        let link = |session| Link {
            connected: true,
            follows: following.contains(&session),
            up: Vec::new(),
            down: Vec::new(),
            strays: Vec::new(),
        };
        let shows = (0..leader.tree.directories.len()).collect();
        let follower =
            || Follower { server: leader.clone(), down: Vec::new(), shows, last: Vec::new(), keeps: 0 };
        Self {
            follower: (!following.is_empty()).then(follower),
            links: (0..sessions).map(link).collect(),
            leader,
        }
    }

    /// The follower's clients look at these directories only. It keeps so many transactions for a server that is further behind.
    pub(crate) fn showing(mut self, directories: &[usize], keeps: usize) -> Self {
        if let Some(follower) = &mut self.follower {
            (follower.shows, follower.keeps) = (directories.to_vec(), keeps);
        }
        self
    }

    pub(crate) fn tree(&self) -> &Tree<D> {
        &self.leader.tree
    }

    pub(crate) fn send(&mut self, session: Session, asks: impl IntoIterator<Item = Ask<D>>) {
        self.links[session].up.extend(asks);
    }

    /// Whether a server can take the session's next request. A follower answers nothing before what it has forwarded.
    pub(crate) fn can_serve(&self, session: Session) -> bool {
        let awaits = |down: &Down<D>| matches!(down, Down::Answer(of, _) if *of == session);
        let waits = self.follower.as_ref().is_some_and(|follower| follower.down.iter().any(awaits));
        let link = &self.links[session];
        link.connected && !link.up.is_empty() && !waits
    }

    /// A server has too much to do for the session's next request.
    pub(crate) fn refuse(&mut self, session: Session) {
        self.links[session].up.remove(0);
        self.links[session].down.push(Word::Answer(Answer::Refused));
    }

    /// The session's server.
    fn server(&self, session: Session) -> &Server<D> {
        match &self.follower {
            Some(follower) if self.links[session].follows => &follower.server,
            _ => &self.leader,
        }
    }

    /// The session's client waits for no change any more.
    pub(crate) fn unwatch(&mut self, session: Session) {
        self.leader.watches.retain(|watch| watch.session != session);
        let followers = self.follower.iter_mut();
        followers.for_each(|it| it.server.watches.retain(|watch| watch.session != session));
        self.links[session].down.retain(|word| !matches!(word, Word::Event(..)));
    }

    /// A server serves the session's next request. What the session has sent before on other connections is carried out before a
    /// quorum answers it, or never.
    pub(crate) fn serve(&mut self, session: Session) {
        let ask = self.links[session].up.remove(0);
        let settled = ask == Ask::Sync;
        let answer = match ask {
            Ask::Commit(transaction) => self.commit(session, &transaction),
            Ask::Sync => {
                self.links[session].strays.clear();
                Answer::Synced
            }
            read => {
                let follows = self.links[session].follows;
                let server = match &mut self.follower {
                    Some(follower) if follows => &mut follower.server,
                    _ => &mut self.leader,
                };
                let answer = server.answer(session, read);
                return self.links[session].down.push(Word::Answer(answer));
            }
        };
        match &mut self.follower {
            Some(follower) if self.links[session].follows => {
                follower.down.push(Down::Answer(session, answer));
            }
            _ => self.links[session].down.push(Word::Answer(answer)),
        }
        // What changes between a quorum's answer and the leader's next one might as well change before both: nothing of this
        // session is under way.
        let link = &self.links[session];
        let reads = matches!(link.up.first(), Some(Ask::Get(_)));
        if settled && reads && !link.follows {
            self.serve(session);
        }
    }

    /// The leader carries a transaction out.
    pub(crate) fn commit(&mut self, session: Session, transaction: &[Operation<Named<D>>]) -> Answer<D> {
        let committed = match self.leader.tree.commit(session, transaction) {
            Ok(committed) => committed,
            Err((index, problem)) => return Answer::Failed(index, problem),
        };
        let fired = self.leader.fire(&committed.changes);
        self.tell(fired, self.leader.tree.zxid);
        if let Some(follower) = &mut self.follower {
            let is_shown = |operation: &&Operation<Named<D>>| match operation.node().name {
                Name::At(Path::Directory(index) | Path::Child(index, _))
                | Name::Ephemeral(Path::Directory(index) | Path::Child(index, _))
                | Name::Next(index, _) => follower.shows.contains(&index),
            };
            let shown = transaction.iter().filter(is_shown).cloned().collect::<Vec<_>>();
            if !shown.is_empty() {
                follower.down.push(Down::Transaction(session, shown, self.leader.tree.zxid));
            }
        }
        Answer::Committed(committed.created)
    }

    /// The session takes the next place in this queue.
    pub(crate) fn enqueue(&mut self, session: Session, queue: usize) -> Option<Own> {
        let create = Named { name: Name::Next(queue, zklock_recipe::Kind::Exclusive), data: D::default() };
        match self.commit(session, &[Operation::Create(create)]) {
            Answer::Committed(created) => created.first().copied(),
            _ => None,
        }
    }

    /// Somebody writes these data to this node.
    pub(crate) fn write(&mut self, path: Path, data: D) {
        self.commit(Session::MAX, &[Operation::Set(Named { name: Name::At(path), data }, None)]);
    }

    /// Somebody deletes these nodes, all at once.
    pub(crate) fn delete(&mut self, paths: impl IntoIterator<Item = Path>) {
        let transaction = deletion(paths);
        if !transaction.is_empty() {
            self.commit(Session::MAX, &transaction);
        }
    }

    /// A persistent watch also shows which transaction fired it.
    fn tell(&mut self, fired: Vec<(Watch, Change)>, zxid: i64) {
        for (Watch { session, path, kind }, change) in fired {
            let zxid = (kind == Kind::Persistent).then_some(zxid);
            self.links[session].down.push(Word::Event(path, change, zxid));
        }
    }

    /// Whether the follower has yet to hear of something.
    pub(crate) fn is_behind(&self) -> bool {
        self.follower.as_ref().is_some_and(|follower| !follower.down.is_empty())
    }

    /// The follower hears what the leader sent next. The answer to a write comes with it.
    pub(crate) fn replicate(&mut self) {
        let Some(follower) = &mut self.follower else { return };
        if let next @ Down::Transaction(session, transaction, zxid) = &follower.down[0] {
            follower.last.push((follower.server.tree.clone(), next.clone()));
            let forgotten = follower.last.len().saturating_sub(follower.keeps);
            follower.last.drain(..forgotten);
            let committed = follower.server.tree.commit_as(*zxid, *session, transaction);
            let Ok(committed) = committed else { unreachable!("the leader has carried it out") };
            let (fired, zxid) = (follower.server.fire(&committed.changes), *zxid);
            follower.down.remove(0);
            self.tell(fired, zxid);
        }
        let Some(follower) = &mut self.follower else { return };
        if let Some(Down::Answer(session, answer)) = follower.down.first().cloned() {
            follower.down.remove(0);
            self.links[session].down.push(Word::Answer(answer));
        }
    }

    /// Whether there is a server that is further behind than the follower.
    pub(crate) fn can_rewind(&self) -> bool {
        self.follower.as_ref().is_some_and(|follower| !follower.last.is_empty())
    }

    /// The follower's clients are at a server from here on that has not heard of the last transactions.
    pub(crate) fn rewind(&mut self) {
        let Some(follower) = &mut self.follower else { return };
        let mut unheard = Vec::new();
        for (index, (tree, transaction)) in follower.last.drain(..).enumerate() {
            if index == 0 {
                follower.server.tree = tree;
            }
            unheard.push(transaction);
        }
        unheard.append(&mut follower.down);
        follower.down = unheard;
    }

    /// The session's connection breaks. Nothing of it reaches the client any more.
    pub(crate) fn cut(&mut self, session: Session) {
        self.unwatch(session);
        if let Some(follower) = &mut self.follower {
            follower.down.retain(|down| !matches!(down, Down::Answer(of, _) if *of == session));
        }
        let link = &mut self.links[session];
        link.connected = false;
        link.down.clear();
        let writes = link.up.drain(..).filter_map(|ask| match ask {
            Ask::Commit(transaction) => Some(transaction),
            _ => None,
        });
        link.strays.extend(writes);
    }

    /// The session has its next connection.
    pub(crate) fn connect(&mut self, session: Session) {
        self.links[session].connected = true;
    }

    /// Whether a watch of the session stands.
    pub(crate) fn watches(&self, session: Session) -> bool {
        self.server(session).watches.iter().any(|watch| watch.session == session)
    }

    /// The leader carries out what was under way on a lost connection.
    pub(crate) fn apply_stray(&mut self, session: Session) -> Answer<D> {
        let stray = self.links[session].strays.remove(0);
        self.commit(session, &stray)
    }

    /// The session ends, and its nodes go with it. The leader takes nothing of it any more.
    pub(crate) fn expire(&mut self, session: Session) {
        self.delete(self.tree().of(session));
        self.cut(session);
        self.links[session].strays.clear();
    }
}
