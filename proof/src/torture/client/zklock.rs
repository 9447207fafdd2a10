//! zklock's locks, alone and by key, its semaphore and slots, its slots that run once, and its election.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use anyhow::Context;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::{sleep, timeout};
use zklock::{
    Access, AcquireError, ConnectError, FencingToken, Guard, InvalidLock, Leadership, LockOptions, Locks,
    LocksOptions, MultiGuard, Sequencer, Session, SessionState, election::Leader, guard::OneLock,
    inspect::Observer,
};

use super::alone::Alone;
use super::contest::{Acquired, Contest, Hold, Patience};
use super::pooled::Pooled;
use super::turned;
use crate::torture::mode::rules;
use crate::torture::part::{Part, Setup};
use crate::torture::record::{Leaving, UNCONFIRMED, Who};
use crate::torture::wish::{CAPACITY, Claim, ELECTION, ROOT, SLOTS, Wish, beside, key, path};

/// How long there may be no server to begin with.
const PATIENCE: Duration = Duration::from_secs(120);
/// The pause after each refusal.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) struct Zklock {
    part: Part,
    /// The present session; another one is opened once it has failed.
    present: RwLock<Present>,
    opening: tokio::sync::Mutex<()>,
}

/// A session, and the locks by key that the tasks share in it, by their takeover delay.
#[derive(Clone)]
struct Present {
    session: Session,
    locks: Arc<Mutex<HashMap<Duration, Locks>>>,
}

struct Held<K> {
    guard: Guard<K>,
    session: i64,
    nodes: Vec<String>,
}

/// The leadership of an election, held or lost.
struct Leading {
    leadership: Leadership,
    session: i64,
}

impl Zklock {
    pub(super) async fn open(part: &Part) -> anyhow::Result<Self> {
        let (part, present) = (part.clone(), RwLock::new(Present::new(open(part).await?)));
        Ok(Self { part, present, opening: tokio::sync::Mutex::default() })
    }

    fn present(&self) -> Present {
        self.present.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn session(&self) -> Session {
        self.present().session
    }

    /// The present session, or another one if it has failed.
    async fn living(&self) -> Result<Present, Leaving> {
        if self.session().state() == SessionState::Failed {
            let _one_at_a_time = self.opening.lock().await;
            if self.session().state() == SessionState::Failed {
                let opened = open(&self.part).await.map_err(|error| Leaving::Failed(error.to_string()))?;
                *self.present.write().unwrap_or_else(PoisonError::into_inner) = Present::new(opened);
            }
        }
        Ok(self.present())
    }

    /// Begins to observe who leads.
    pub(super) async fn observe(&self) -> Result<Observer<Leader>, Leaving> {
        Ok(self.living().await?.session.election(ELECTION).map_err(invalid)?.observe())
    }

    /// Acquires the lock of this process's witness.
    pub(super) async fn beside(&self, client: u16) -> Result<Guard, Leaving> {
        let lock = self.living().await?.session.lock(&beside(client)).map_err(invalid)?;
        lock.acquire().await.map_err(leaving)
    }
}

impl Contest for Zklock {
    fn acquire<'a>(
        &'a self,
        who: Who,
        wish: &'a Wish,
        delay: Duration,
        patience: Patience,
    ) -> BoxFuture<'a, Acquired> {
        async move {
            let present = self.living().await?;
            let session = &present.session;
            let options = LockOptions::new().owner(who.to_string()).takeover_delay(delay);
            let without = if patience == Patience::None { Leaving::Busy } else { Leaving::TimedOut };
            match wish {
                Wish::Lock(lock) => {
                    let lock = session
                        .lock(&path(*lock))
                        .and_then(|it| it.with_options(options))
                        .map_err(invalid)?;
                    let acquired = match patience {
                        Patience::Endless => lock.acquire().await.map(Some),
                        Patience::Within(limit) => lock.acquire_timeout(limit).await,
                        Patience::None => lock.try_acquire().await,
                    };
                    alone(acquired, session, without)
                }
                Wish::Key(lock) => {
                    let (locks, key) = (present.locks(&self.part, delay)?, key(*lock));
                    let acquired = match patience {
                        Patience::Endless => locks.lock(&key).await.map(Some),
                        Patience::Within(limit) => locks.lock_timeout(&key, limit).await,
                        Patience::None => locks.try_lock(&key).await,
                    };
                    alone(acquired, session, without)
                }
                Wish::Read(lock) => {
                    let lock = session
                        .rw_lock(&path(*lock))
                        .and_then(|it| it.with_options(options))
                        .map_err(invalid)?;
                    let acquired = match patience {
                        Patience::Endless => lock.read().await.map(Some),
                        Patience::Within(limit) => lock.read_timeout(limit).await,
                        Patience::None => lock.try_read().await,
                    };
                    of_one(acquired, without)
                }
                Wish::Write(lock) => {
                    let lock = session
                        .rw_lock(&path(*lock))
                        .and_then(|it| it.with_options(options))
                        .map_err(invalid)?;
                    let acquired = match patience {
                        Patience::Endless => lock.write().await.map(Some),
                        Patience::Within(limit) => lock.write_timeout(limit).await,
                        Patience::None => lock.try_write().await,
                    };
                    of_one(acquired, without)
                }
                Wish::All(claims) => {
                    let locks = claims.iter().map(access);
                    let locks =
                        session.lock_all(locks).and_then(|it| it.with_options(options)).map_err(invalid)?;
                    let acquired = match patience {
                        Patience::Endless => locks.acquire().await.map(Some),
                        Patience::Within(limit) => locks.acquire_timeout(limit).await,
                        Patience::None => locks.try_acquire().await,
                    };
                    of_several(acquired, without)
                }
                Wish::Permit(weight) => {
                    let semaphore = session
                        .semaphore(ROOT, CAPACITY)
                        .and_then(|it| it.with_options(options))
                        .map_err(invalid)?;
                    let acquired = match patience {
                        Patience::Endless => semaphore.acquire_many(*weight).await.map(Some),
                        Patience::Within(limit) => semaphore.acquire_many_timeout(*weight, limit).await,
                        Patience::None => semaphore.try_acquire_many(*weight).await,
                    };
                    let permit = acquired.map_err(leaving)?.ok_or(without)?;
                    Ok(Box::new(Pooled::permit(permit, session.id())) as Box<dyn Hold>)
                }
                Wish::Slot(index) => {
                    let slots = session
                        .slots(ROOT, SLOTS)
                        .and_then(|it| it.with_options(options))
                        .map_err(invalid)?;
                    let claimed = match (patience, index) {
                        (Patience::Endless, Some(index)) => {
                            slots.preferring(*index).acquire().await.map(Some)
                        }
                        (Patience::Endless, None) => slots.acquire().await.map(Some),
                        (Patience::Within(limit), _) => slots.acquire_timeout(limit).await,
                        (Patience::None, Some(index)) => slots.preferring(*index).try_acquire().await,
                        (Patience::None, None) => slots.try_acquire().await,
                    };
                    let slot = claimed.map_err(leaving)?.ok_or(without)?;
                    Ok(Box::new(Pooled::slot(slot, session.id())) as Box<dyn Hold>)
                }
                Wish::Run(slot) => {
                    let once = session
                        .once(&path(0))
                        .and_then(|it| it.with_options(turned::options(*slot, options)));
                    let once = once.map_err(|error| Leaving::Failed(error.to_string()))?;
                    let name = slot.to_string();
                    let claimed = match patience {
                        Patience::Endless => once.claim(&name).await.map(Some),
                        Patience::Within(limit) => once.claim_timeout(&name, limit).await,
                        Patience::None => once.try_claim(&name).await,
                    };
                    turned::held(claimed.map_err(not_claimed)?.ok_or(without)?, *slot)
                }
                Wish::Lead(value) => {
                    let election = session
                        .election(ELECTION)
                        .and_then(|it| it.with_options(options))
                        .map_err(invalid)?;
                    let led = match patience {
                        Patience::Endless => election.campaign(value).await.map(Some),
                        Patience::Within(limit) => election.campaign_timeout(value, limit).await,
                        Patience::None => election.try_campaign(value).await,
                    };
                    let leadership = led.map_err(leaving)?.ok_or(without)?;
                    let session = leadership.sequencer().map_or(0, |claim| claim.session());
                    Ok(Box::new(Leading { leadership, session }) as Box<dyn Hold>)
                }
            }
        }
        .boxed()
    }

    fn requeued(&self) -> u64 {
        self.session().requeued()
    }

    fn is_current<'a>(&'a self, claim: &'a Sequencer) -> BoxFuture<'a, bool> {
        async { self.session().verify_sequencer(claim).await.is_ok() }.boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        // Unconfirmed, the session expires; the coordinator waits for that anyway.
        async { drop(self.session().close().await) }.boxed()
    }
}

impl Present {
    fn new(session: Session) -> Self {
        Self { session, locks: Arc::default() }
    }

    /// The locks by key whose contenders have this takeover delay.
    fn locks(&self, part: &Part, delay: Duration) -> Result<Locks, Leaving> {
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(locks) = locks.get(&delay) {
            return Ok(locks.clone());
        }
        let owner = Who::process(part.number).to_string();
        let options = LocksOptions::new()
            .lock(LockOptions::new().owner(owner).takeover_delay(delay))
            .turns(rules(part.setup.mode).budget(part.number));
        let opened = self.session.locks(ROOT).and_then(|it| it.with_options(options)).map_err(invalid)?;
        locks.insert(delay, opened.clone());
        Ok(opened)
    }
}

/// Opens a session. While only the server that grants less can be reached, that is refused; then it is tried again.
async fn open(part: &Part) -> anyhow::Result<Session> {
    let opening = async {
        loop {
            let Setup { session_timeout, tick, .. } = part.setup;
            let builder = Session::builder(&part.servers).session_timeout(session_timeout).tick(tick);
            match builder.connect_timeout(PATIENCE).connect().await {
                Err(ConnectError::TimeoutNotGranted { .. }) => sleep(PAUSE).await,
                connected => return Ok(connected?),
            }
        }
    };
    timeout(PATIENCE, opening).await.context("no server grants the session timeout")?
}

fn access(claim: &Claim) -> Access {
    match claim.shared {
        true => Access::shared(path(claim.lock)),
        false => Access::exclusive(path(claim.lock)),
    }
}

/// A guard that was made a moment ago. If it is still valid now, its session is the present one. A claim would say so as well,
/// but then the guard would not be passed on.
fn alone(acquired: Result<Option<Guard>, AcquireError>, session: &Session, without: Leaving) -> Acquired {
    let guard = acquired.map_err(leaving)?.ok_or(without)?;
    Ok(Box::new(Alone { guard, session: session.id() }))
}

fn of_one<K>(acquired: Result<Option<Guard<K>>, AcquireError>, without: Leaving) -> Acquired
where
    K: OneLock + Send + Sync + 'static,
{
    let guard = acquired.map_err(leaving)?.ok_or(without)?;
    let session = guard.sequencer().map_or(0, |claim| claim.session());
    let nodes = vec![guard.node()];
    Ok(Box::new(Held { guard, session, nodes }))
}

fn of_several(acquired: Result<Option<MultiGuard>, AcquireError>, without: Leaving) -> Acquired {
    let guard = acquired.map_err(leaving)?.ok_or(without)?;
    let claims = guard.sequencers().unwrap_or_default();
    let session = claims.first().map_or(0, |claim| claim.session());
    let nodes = guard.nodes().collect();
    Ok(Box::new(Held { guard, session, nodes }))
}

fn invalid(error: InvalidLock) -> Leaving {
    Leaving::Failed(error.to_string())
}

fn leaving(error: AcquireError) -> Leaving {
    match error {
        AcquireError::NodeDeleted { .. } => Leaving::Deleted,
        error => Leaving::Failed(error.to_string()),
    }
}

fn not_claimed(error: AcquireError) -> Leaving {
    match error {
        AcquireError::Forgotten { .. } => Leaving::Forgotten,
        // Without its path, so that they are counted together.
        AcquireError::Unconfirmed { .. } => Leaving::Failed(UNCONFIRMED.to_owned()),
        error => leaving(error),
    }
}

impl<K: Send + Sync + 'static> Hold for Held<K> {
    fn session(&self) -> i64 {
        self.session
    }

    fn token(&self) -> Option<FencingToken> {
        Some(self.guard.token())
    }

    fn nodes(&self) -> Vec<String> {
        self.nodes.clone()
    }

    fn check(&self) -> Result<(), String> {
        self.guard.check().map_err(|lost| lost.reason.to_string())
    }

    fn remaining(&self) -> Option<Duration> {
        Some(self.guard.remaining())
    }

    fn release(self: Box<Self>) -> BoxFuture<'static, Result<(), String>> {
        async { self.guard.release().await.map_err(|error| error.to_string()) }.boxed()
    }
}

impl Hold for Leading {
    fn session(&self) -> i64 {
        self.session
    }

    fn token(&self) -> Option<FencingToken> {
        Some(self.leadership.token())
    }

    fn nodes(&self) -> Vec<String> {
        vec![self.leadership.node()]
    }

    fn check(&self) -> Result<(), String> {
        self.leadership.check().map_err(|lost| lost.reason.to_string())
    }

    fn remaining(&self) -> Option<Duration> {
        Some(self.leadership.remaining())
    }

    fn proclaim(&self, value: String) -> Option<BoxFuture<'_, Result<(), String>>> {
        let proclaimed = async { self.leadership.proclaim(value).await.map_err(|error| error.to_string()) };
        Some(proclaimed.boxed())
    }

    fn release(self: Box<Self>) -> BoxFuture<'static, Result<(), String>> {
        async { self.leadership.resign().await.map_err(|error| error.to_string()) }.boxed()
    }
}
