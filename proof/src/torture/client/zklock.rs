//! Acquires what zklock has: locks, alone and by key, permits and slots, runs that happen once, and the lead.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use anyhow::Context;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::{sleep, timeout};
use zklock::{
    Access, AcquireError, ConnectError, Guard, InvalidLock, LockOptions, Locks, LocksOptions, Sequencer,
    Session, SessionState,
    election::Leader,
    inspect::Observer,
    once::{self, OnceOptions},
};

use super::contest::{Acquired, Contest, Hold, Patience};
use super::held::Held;
use crate::torture::mode::rules;
use crate::torture::part::{Part, Setup};
use crate::torture::record::{Leaving, UNCONFIRMED, Who};
use crate::torture::wish::{CAPACITY, Claim, ELECTION, ROOT, SLOTS, Wish, beside, key, path};

/// How long there may be no server to begin with.
const PATIENCE: Duration = Duration::from_secs(120);
/// The pause after each refusal.
const PAUSE: Duration = Duration::from_millis(100);

/// How many records are kept. Runs that are older than the last ones are forgotten in each run.
const KEEP: u16 = 5;

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
            let got = match wish {
                Wish::Lock(lock) => {
                    let lock = session.lock(&path(*lock)).and_then(|it| it.with_options(options));
                    let lock = lock.map_err(invalid)?;
                    let got = match patience {
                        Patience::Endless => lock.acquire().await.map(Some),
                        Patience::Within(limit) => lock.acquire_timeout(limit).await,
                        Patience::None => lock.try_acquire().await,
                    };
                    got.map_err(leaving)?.map(|guard| Held::alone(guard, session.id()))
                }
                Wish::Key(lock) => {
                    let (locks, key) = (present.locks(&self.part, delay)?, key(*lock));
                    let got = match patience {
                        Patience::Endless => locks.lock(&key).await.map(Some),
                        Patience::Within(limit) => locks.lock_timeout(&key, limit).await,
                        Patience::None => locks.try_lock(&key).await,
                    };
                    got.map_err(leaving)?.map(|guard| Held::alone(guard, session.id()))
                }
                Wish::Read(lock) => {
                    let lock = session.rw_lock(&path(*lock)).and_then(|it| it.with_options(options));
                    let lock = lock.map_err(invalid)?;
                    let got = match patience {
                        Patience::Endless => lock.read().await.map(Some),
                        Patience::Within(limit) => lock.read_timeout(limit).await,
                        Patience::None => lock.try_read().await,
                    };
                    got.map_err(leaving)?.map(Held::of_one)
                }
                Wish::Write(lock) => {
                    let lock = session.rw_lock(&path(*lock)).and_then(|it| it.with_options(options));
                    let lock = lock.map_err(invalid)?;
                    let got = match patience {
                        Patience::Endless => lock.write().await.map(Some),
                        Patience::Within(limit) => lock.write_timeout(limit).await,
                        Patience::None => lock.try_write().await,
                    };
                    got.map_err(leaving)?.map(Held::of_one)
                }
                Wish::All(claims) => {
                    let locks = session.lock_all(claims.iter().map(access));
                    let locks = locks.and_then(|it| it.with_options(options)).map_err(invalid)?;
                    let got = match patience {
                        Patience::Endless => locks.acquire().await.map(Some),
                        Patience::Within(limit) => locks.acquire_timeout(limit).await,
                        Patience::None => locks.try_acquire().await,
                    };
                    got.map_err(leaving)?.map(Held::of_several)
                }
                Wish::Permit(weight) => {
                    let semaphore = session.semaphore(ROOT, CAPACITY).and_then(|it| it.with_options(options));
                    let semaphore = semaphore.map_err(invalid)?;
                    let got = match patience {
                        Patience::Endless => semaphore.acquire_many(*weight).await.map(Some),
                        Patience::Within(limit) => semaphore.acquire_many_timeout(*weight, limit).await,
                        Patience::None => semaphore.try_acquire_many(*weight).await,
                    };
                    got.map_err(leaving)?.map(|permit| Held::permit(permit, session.id()))
                }
                Wish::Slot(index) => {
                    let slots = session.slots(ROOT, SLOTS).and_then(|it| it.with_options(options));
                    let mut slots = slots.map_err(invalid)?;
                    if let Some(index) = index {
                        slots = slots.preferring(*index);
                    }
                    let got = match patience {
                        Patience::Endless => slots.acquire().await.map(Some),
                        Patience::Within(limit) => slots.acquire_timeout(limit).await,
                        Patience::None => slots.try_acquire().await,
                    };
                    got.map_err(leaving)?.map(|slot| Held::slot(slot, session.id()))
                }
                Wish::Run(period) => {
                    let options = OnceOptions::new().lock(options).keep(KEEP).retry(period.retries());
                    let once = session.once(&path(0)).and_then(|it| it.with_options(options));
                    let (once, name) = (once.map_err(invalid)?, period.to_string());
                    let got = match patience {
                        Patience::Endless => once.claim(&name).await.map(Some),
                        Patience::Within(limit) => once.claim_timeout(&name, limit).await,
                        Patience::None => once.try_claim(&name).await,
                    };
                    match got.map_err(leaving)? {
                        Some(once::Claim::Run(run)) => Some(Held::runs(run, period.fails)),
                        Some(once::Claim::Done(record)) => {
                            let (state, token) = (record.state.to_string(), record.token.zxid());
                            let (owner, attempt) = (record.owner, record.attempt);
                            return Err(Leaving::Done { state, owner, token, attempt });
                        }
                        None => None,
                    }
                }
                Wish::Lead(value) => {
                    let election = session.election(ELECTION).and_then(|it| it.with_options(options));
                    let election = election.map_err(invalid)?;
                    let got = match patience {
                        Patience::Endless => election.campaign(value).await.map(Some),
                        Patience::Within(limit) => election.campaign_timeout(value, limit).await,
                        Patience::None => election.try_campaign(value).await,
                    };
                    got.map_err(leaving)?.map(Held::leads)
                }
            };
            got.map(|held| Box::new(held) as Box<dyn Hold>).ok_or(without)
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
            .turns((rules(part.setup.mode).budget)(part.number));
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

fn invalid(error: InvalidLock) -> Leaving {
    Leaving::Failed(error.to_string())
}

fn leaving(error: AcquireError) -> Leaving {
    match error {
        AcquireError::NodeDeleted { .. } => Leaving::Deleted,
        AcquireError::Forgotten { .. } => Leaving::Forgotten,
        // Without its path, so that they are counted together.
        AcquireError::Unconfirmed { .. } => Leaving::Failed(UNCONFIRMED.to_owned()),
        error => Leaving::Failed(error.to_string()),
    }
}
