//! Asking a holder to let go: who, why, and by when. Nothing is taken from it.
//!
//! [`Session::ask`](crate::Session::ask) asks those who hold a lock, an election, permits or slots.
//! [`Guard::asked`](crate::Guard::asked) and [`asks`](crate::Guard::asks) say so to them.

mod requests;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{Either, select};
use tokio::time::Instant;
use uuid::Uuid;
use zklock_recipe::{Event, Kind, Refusal, Tries};

use crate::acl::Acl;
use crate::acquire::contender::Contender;
use crate::acquire::options::default_owner;
use crate::acquire::query::query;
use crate::error::QueryError;
use crate::guard::asks as heard;
use crate::node::{ASK, AskData, encode};
use crate::observe::sight::stale_after;
use crate::path::{LockPath, name_of};
use crate::requests::{QueueNode, are_there};
use crate::text::{LONGEST, harmless};
use crate::wire::LinkAnswer as Given;
use crate::zk::{LATEST, Succession, ZkSession};

pub use heard::{Ask, Asks};
use requests::{Holders, MadeAsk, OwnAsk};

/// What is asked: of whom, why, and by when. Give it to [`Session::ask`](crate::Session::ask).
///
/// ```
/// use std::time::Duration;
/// use zklock::ask::Request;
///
/// let request = Request::new("the new version waits", Duration::from_secs(300)).owner("deploy@eu-1");
/// # drop(request);
/// ```
#[derive(Clone, Debug)]
#[must_use = "nobody is asked before the request is given to `Session::ask`"]
pub struct Request {
    why: String,
    within: Duration,
    owner: Option<String>,
    number: Option<i32>,
    slot: Option<u32>,
    acl: Acl,
}

impl Request {
    /// Asks all present holders to let go within this time, for this reason: free text of up to 1024 bytes. By default, everybody can
    /// read it who reaches the servers; see [`acl`](Self::acl).
    pub fn new(why: impl Into<String>, within: Duration) -> Self {
        Self { why: why.into(), within, owner: None, number: None, slot: None, acl: Acl::open() }
    }

    /// Sets the text that says who asks: up to 256 bytes. The default is `host:pid`.
    pub fn owner(self, owner: impl Into<String>) -> Self {
        Self { owner: Some(owner.into()), ..self }
    }

    /// Asks only the holder with this [number](Contender::number): one of several readers, permits or slots.
    pub fn number(self, number: i32) -> Self {
        Self { number: Some(number), ..self }
    }

    /// Asks only the holder of the slot with this index.
    pub fn slot(self, index: u32) -> Self {
        Self { slot: Some(index), ..self }
    }

    /// Sets the ACL of the ask's node. The holders must be able to `READ` it. The default is [`Acl::open`].
    pub fn acl(self, acl: Acl) -> Self {
        Self { acl, ..self }
    }

    fn is_for(&self, node: &QueueNode) -> bool {
        let is_slot = |index| node.place.kind == Kind::Slot(index);
        self.number.is_none_or(|number| node.place.sequence.0 == number) && self.slot.is_none_or(is_slot)
    }
}

/// What came of an ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// Each hold that was asked for has ended: it was released, or lost.
    LetGo,
    /// The time is over, and one of them still held after that.
    TimeOver,
}

/// Why nobody was asked, or why zklock does not know what came of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// Somebody else asks at this path already.
    #[error("{} asks the holder of {} already ({}); try again once that is over",
        harmless(&ask.who, LONGEST), ask.path, harmless(&ask.why, LONGEST))]
    Asked {
        /// That ask.
        ask: Ask,
    },
    /// Another client shares the queue. Its contenders count every node there, so zklock adds none.
    #[error(
        "{path} is a queue that another client shares, and its holders cannot be asked; talk to the holder's owner"
    )]
    Shared {
        /// The path.
        path: String,
    },
    /// The path is the queue inside an election, a semaphore or slots.
    #[error("{path} is the queue of what is at the path above it; ask at that path")]
    Inner {
        /// The path.
        path: String,
    },
    /// A node that is no ask has the name of an ask's node.
    #[error("{path}/ask is used for something else, so nobody can be asked there; use another path for that")]
    Occupied {
        /// The path.
        path: String,
    },
    /// The node of the ask would be the directory of a lock, in whose queue somebody is.
    #[error(
        "{path}/ask is the directory of a lock, so nobody can be asked at {path}; use another path for that lock"
    )]
    Lock {
        /// The path.
        path: String,
    },
    /// A text of the ask is too long, or the ask has too many holders to name.
    #[error("the {what} of an ask has {length} bytes; shorten it to {longest} at most, or ask fewer holders")]
    TooLong {
        /// What is too long.
        what: &'static str,
        /// Its length, in bytes.
        length: usize,
        /// The longest that it may be, in bytes.
        longest: usize,
    },
    /// An ACL forbids the session to create a node at the path, or to read what says who holds, or an ask that stands.
    #[error(
        "an ACL does not allow this session to ask: that of {node}; an asker needs READ and CREATE at the path, and READ on the \
         queue or the permits of an election or a pool there, on the holders' nodes, and on an ask that stands"
    )]
    NotAuthorized {
        /// The node that has the ACL.
        node: String,
    },
    /// ZooKeeper refused or did not answer.
    #[error(transparent)]
    Query(#[from] QueryError),
}

impl AskError {
    /// Returns true if the same call may succeed later with nothing changed by hand: somebody else asks, or ZooKeeper did not answer.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Asked { .. } => true,
            Self::Query(error) => error.is_retryable(),
            Self::Shared { .. }
            | Self::Inner { .. }
            | Self::Occupied { .. }
            | Self::Lock { .. }
            | Self::TooLong { .. }
            | Self::NotAuthorized { .. } => false,
        }
    }

    /// Returns true if only a new session can help, because this one is over.
    pub fn needs_new_session(&self) -> bool {
        matches!(self, Self::Query(error) if error.needs_new_session())
    }
}

/// An ask that stands, from [`Session::ask`](crate::Session::ask). Dropping it takes the ask back in the background.
#[must_use = "the ask is taken back as soon as this is dropped"]
pub struct Asking {
    succession: Arc<Succession>,
    path: LockPath,
    node: Option<AskNode>,
    data: AskData,
    acl: Acl,
    deadline: Option<Instant>,
    holders: Vec<Contender>,
}

/// An ask's node in one ZooKeeper session. Dropped, it is deleted.
struct AskNode {
    session: Arc<ZkSession>,
    path: String,
    own: OwnAsk,
    /// Whether no server has answered a create of it. Then that may take effect late.
    is_unanswered: bool,
}

impl Drop for AskNode {
    fn drop(&mut self) {
        let session = Arc::downgrade(&self.session);
        let path = self.path.clone();
        let own = self.own;
        let mut requester = self.session.requester.clone();
        let lease = self.session.lease.clone();
        let latest = Instant::now() + if self.is_unanswered { LATEST } else { Duration::ZERO };
        let deleting = async move {
            let mut tries = Tries::default();
            loop {
                let path = path.clone();
                match requester.request(move |wire| requests::withdraw_ask(wire.client, path, own)).await {
                    Given::Given(Ok(()), _) if Instant::now() >= latest => return,
                    // It is looked for again, as the nodes of other late creates are. The background task awaits this.
                    Given::Given(Ok(()), _) => {
                        requester.mark_unchanged();
                        let _either =
                            tokio::time::timeout(lease.lengths().timeout, requester.changed()).await;
                    }
                    Given::Given(Err(Event::Unanswered), _) | Given::Lost => match session.upgrade() {
                        Some(session) => session.repeat(&mut tries).await,
                        None => return,
                    },
                    // Refused: then it stays until the session ends.
                    Given::Given(Err(_), _) | Given::Over(_) => return,
                }
            }
        };
        self.session.finish(deleting.boxed());
    }
}

/// See [`Session::ask`](crate::Session::ask).
pub(crate) async fn ask(
    succession: &Arc<Succession>,
    path: &str,
    request: Request,
) -> Result<Option<Asking>, AskError> {
    let chroot = succession.present().chroot.clone();
    let path = LockPath::parse(path, &chroot)
        .map_err(|problem| QueryError::Path { path: path.to_owned(), problem })?;
    let who = request.owner.clone().unwrap_or_else(default_owner);
    check_length("owner", who.len(), AskData::LONGEST_OWNER)?;
    check_length("reason", request.why.len(), AskData::LONGEST_REASON)?;
    let listed = path.to_string();
    let found = query(succession, path.as_str(), |wire| requests::find_holders(wire.client, listed)).await?;
    let nodes = match found {
        Holders::Shared => return Err(AskError::Shared { path: path.to_string() }),
        Holders::Inner => return Err(AskError::Inner { path: path.to_string() }),
        Holders::Hidden(node) => return Err(AskError::NotAuthorized { node }),
        Holders::Nowhere => return Ok(None),
        Holders::Here(nodes) => nodes,
    };
    let nodes = nodes.into_iter().enumerate().filter(|(_, node)| request.is_for(node)).collect::<Vec<_>>();
    let of = nodes.iter().map(|(_, node)| {
        let name = name_of(&node.path).to_owned();
        let hidden = || AskError::NotAuthorized { node: node.path.clone() };
        node.seen.as_ref().map(|seen| (name, seen.czxid)).ok_or_else(hidden)
    });
    let of = of.collect::<Result<Vec<_>, _>>()?;
    if of.is_empty() {
        return Ok(None);
    }
    let within = u64::try_from(request.within.as_millis()).unwrap_or(u64::MAX);
    let data = AskData { id: Uuid::new_v4(), who, why: request.why, within, of };
    check_length("data", encode(&data).len(), AskData::LONGEST)?;
    let mut asking = Asking {
        succession: succession.clone(),
        path,
        node: None,
        data,
        acl: request.acl,
        deadline: Instant::now().checked_add(request.within),
        holders: nodes.into_iter().map(|(position, node)| Contender::new(position, true, node)).collect(),
    };
    let made = succession.patiently(async { asking.make_node(succession.opened().await).await }).await;
    let path = || asking.path.to_string();
    match made.map_err(|waited| QueryError::Unanswered { path: path(), waited })?? {
        AskStanding::Stands => Ok(Some(asking)),
        AskStanding::Nowhere => Ok(None),
        AskStanding::SessionOver if asking.succession.event().state.is_final() => {
            Err(QueryError::SessionOver { path: path() }.into())
        }
        AskStanding::SessionOver => Err(QueryError::Disconnected { path: path() }.into()),
    }
}

fn check_length(what: &'static str, length: usize, longest: usize) -> Result<(), AskError> {
    if length > longest { Err(AskError::TooLong { what, length, longest }) } else { Ok(()) }
}

/// Whether the ask's node stands.
enum AskStanding {
    Stands,
    /// The path is gone, and every holder with it.
    Nowhere,
    SessionOver,
}

impl Asking {
    /// Returns those who are asked.
    pub fn holders(&self) -> &[Contender] {
        &self.holders
    }

    /// Waits until each hold that was asked for has ended, or until the time is over, and takes the ask back. The time began with
    /// [`Session::ask`](crate::Session::ask). It watches one holder's node after the other.
    ///
    /// It goes on while ZooKeeper is away. If ZooKeeper ends the asker's session, the ask goes with it, and zklock asks again in the
    /// next one. If it hears nothing for ten session timeouts, it looks again: a server withholds events of nodes that the session
    /// may no longer read. When the time is over, it looks once more at those who have not let go.
    ///
    /// # Errors
    ///
    /// [`AskError::Asked`] if somebody else asked meanwhile; [`QueryError::SessionOver`] if no session follows; else as
    /// [`Session::ask`](crate::Session::ask). If ZooKeeper does not answer the last look within half a session timeout, nobody knows
    /// whether one still holds: that is [`QueryError::Unanswered`] or [`QueryError::Disconnected`].
    ///
    /// # Cancel safety
    ///
    /// If you drop the future, the ask is taken back in the background. If you keep the future and do not poll it, the ask stands.
    pub async fn answer(mut self) -> Result<Answer, AskError> {
        let succession = self.succession.clone();
        if succession.by(self.deadline, self.await_ends()).await?.is_some() {
            return Ok(Answer::LetGo);
        }
        let nodes = self.holders.iter().zip(&self.data.of);
        let nodes = nodes.map(|(holder, (_, czxid))| (holder.path.clone(), *czxid)).collect();
        let look = query(&succession, self.path.as_str(), |wire| async move {
            are_there(wire.client, nodes).await.ok_or(Event::Unanswered)
        });
        Ok(if look.await?.contains(&true) { Answer::TimeOver } else { Answer::LetGo })
    }

    /// Makes the ask's node in this session, unless it stands. The node is deleted once `self.node` is dropped.
    async fn make_node(&mut self, session: Arc<ZkSession>) -> Result<AskStanding, AskError> {
        let path = self.path.of_child(ASK);
        let mut tries = Tries::default();
        let outcome = loop {
            let node = self.node.get_or_insert_with(|| AskNode {
                session: session.clone(),
                path: path.clone(),
                own: OwnAsk { id: self.data.id, czxid: None },
                is_unanswered: false,
            });
            let was_unanswered = std::mem::replace(&mut node.is_unanswered, true);
            let asked = self.path.to_string();
            let own = node.own;
            let mut data = self.data.clone();
            let acl = self.acl.clone();
            let deadline = self.deadline;
            let request = session.requester.request(move |wire| {
                // The holder counts from the node's creation, and the asker from the call.
                if let Some(deadline) = deadline {
                    let left = deadline.saturating_duration_since(Instant::now());
                    data.within = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
                }
                requests::make_ask(wire.client, asked, encode(&data), own, acl)
            });
            let made = match request.await {
                Given::Given(Err(Event::Unanswered), _) | Given::Lost => {
                    session.repeat(&mut tries).await;
                    continue;
                }
                Given::Given(made, _) => made,
                Given::Over(end) => Err(Event::SessionOver(end)),
            };
            node.is_unanswered = was_unanswered;
            let path = || self.path.to_string();
            break match made {
                Ok(MadeAsk::Stands(czxid)) => {
                    node.own.czxid = Some(czxid);
                    return Ok(AskStanding::Stands);
                }
                Ok(MadeAsk::Nowhere) => Ok(AskStanding::Nowhere),
                Ok(MadeAsk::Taken(data, ctime)) => {
                    Err(AskError::Asked { ask: Ask::new(path(), data, ctime) })
                }
                Ok(MadeAsk::Occupied) => Err(AskError::Occupied { path: path() }),
                Ok(MadeAsk::LockDirectory) => Err(AskError::Lock { path: path() }),
                Ok(MadeAsk::Hidden) => Err(AskError::NotAuthorized { node: node.path.clone() }),
                Err(Event::SessionOver(_)) => Ok(AskStanding::SessionOver),
                Err(Event::Refused(refusal)) => Err(self.refused(refusal, path())),
                Err(event) => Err(self.refused(Refusal::Other(format!("{event:?}")), path())),
            };
        };
        self.node = None;
        outcome
    }

    /// What a refusal means that a server has given at this node.
    fn refused(&self, refusal: Refusal, node: String) -> AskError {
        let path = self.path.to_string();
        match refusal {
            Refusal::NotAuthorized => AskError::NotAuthorized { node },
            // A lock in the queue of a contender.
            Refusal::EphemeralParent => AskError::Occupied { path },
            refusal => QueryError::Refused { path, cause: refusal.to_string() }.into(),
        }
    }

    /// Resolves once each hold that was asked for has ended.
    async fn await_ends(&mut self) -> Result<(), AskError> {
        let mut tries = Tries::default();
        // The last one first, so that those who have ended are forgotten in place.
        while let Some((path, (_, czxid))) =
            self.holders.last().map(|it| it.path.clone()).zip(self.data.of.last())
        {
            let czxid = *czxid;
            let Some(session) = self.node.as_ref().map(|node| node.session.clone()) else {
                let over = |_| QueryError::SessionOver { path: self.path.to_string() };
                let session = self.succession.living().await.map_err(over)?;
                self.ask_again(session).await?;
                continue;
            };
            let node = path.clone();
            let request = session.requester.request(move |wire| async move {
                let watch = requests::watch_end(wire.watching(), path, czxid).await?;
                Ok(watch.map(|watch| wire.keep(watch)))
            });
            match request.await {
                Given::Given(Ok(Some(watch)), _) => {
                    tries.answered();
                    // It resolves if the connection is lost, too.
                    let doubted = pin!(session.sleep(stale_after(session.lease.lengths().timeout)));
                    if let Either::Right(_) = select(watch, doubted).await {
                        self.ask_again(session).await?;
                    }
                }
                Given::Given(Ok(None), _) => {
                    self.holders.pop();
                    self.data.of.pop();
                }
                Given::Given(Err(Event::Refused(refusal)), _) => return Err(self.refused(refusal, node)),
                Given::Given(Err(Event::SessionOver(_)), _) | Given::Over(_) => self.node = None,
                Given::Given(Err(_), _) | Given::Lost => session.repeat(&mut tries).await,
            }
        }
        Ok(())
    }

    /// Asks in this session, unless the ask stands there, for what is left of the time.
    async fn ask_again(&mut self, session: Arc<ZkSession>) -> Result<(), AskError> {
        if let AskStanding::Nowhere = self.make_node(session).await? {
            self.holders.clear();
        }
        Ok(())
    }
}

debug_shows!(Asking, it, { path: it.path.as_str(), holders: it.holders });
