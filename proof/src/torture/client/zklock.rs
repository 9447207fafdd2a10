//! Acquires what zklock has: locks, alone and by key, permits and slots, runs that happen once, and the lead.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use anyhow::Context;
use tokio::time::{sleep, timeout};
use zklock::{
    Access, ConnectError, Guard, InvalidLock, Layout, LockOptions, Locks, LocksOptions, Session,
    SessionState,
    election::Leader,
    inspect::Observer,
    once::{self, OnceOptions},
};

use super::held::Held;
use super::patience::{Patience, leaving};
use crate::torture::mode::rules;
use crate::torture::part::{Part, SESSION_TIMEOUT, TICK};
use crate::torture::record::{Kept, Leaving, Who};
use crate::torture::wish::{CAPACITY, Claim, ELECTION, ROOT, SLOTS, Terms, Wish, beside, key, path};

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

/// A session, and the locks by key that the tasks share in it, by their terms.
#[derive(Clone)]
struct Present {
    session: Session,
    locks: Arc<Mutex<HashMap<Terms, Locks>>>,
}

impl Zklock {
    pub(super) async fn open(part: &Part) -> anyhow::Result<Self> {
        let (part, present) = (part.clone(), RwLock::new(Present::new(open(part).await?)));
        Ok(Self { part, present, opening: tokio::sync::Mutex::default() })
    }

    fn present(&self) -> Present {
        self.present.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn session(&self) -> Session {
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

    /// Acquires what is wished for.
    pub(super) async fn acquire(
        &self,
        who: Who,
        wish: &Wish,
        terms: Terms,
        patience: Patience,
    ) -> Result<Held, Leaving> {
        let present = self.living().await?;
        let session = &present.session;
        let options = options(who, terms);
        match wish {
            Wish::Lock(lock) | Wish::Shared(lock) => {
                let options = match wish {
                    Wish::Shared(_) => options.layout(Layout::Curator).takeover_delay(self.part.setup.delay),
                    _ => options,
                };
                let lock = session.lock(&path(*lock)).and_then(|it| it.with_options(options));
                let lock = lock.map_err(invalid)?;
                let within = |limit| lock.acquire_timeout(limit);
                let guard = patience.call(lock.acquire(), within, lock.try_acquire()).await?;
                Ok(Held::alone(guard, session.id()))
            }
            Wish::Key(lock) => {
                let (locks, key) = (present.locks(&self.part, terms)?, key(*lock));
                let within = |limit| locks.acquire_timeout(&key, limit);
                let guard = patience.call(locks.acquire(&key), within, locks.try_acquire(&key)).await?;
                Ok(Held::alone(guard, session.id()))
            }
            Wish::Read(lock) | Wish::Write(lock) => {
                let lock = session.rw_lock(&path(*lock)).and_then(|it| it.with_options(options));
                let lock = lock.map_err(invalid)?;
                if matches!(wish, Wish::Read(_)) {
                    let within = |limit| lock.read_timeout(limit);
                    patience.call(lock.read(), within, lock.try_read()).await.map(Held::of_one)
                } else {
                    let within = |limit| lock.write_timeout(limit);
                    patience.call(lock.write(), within, lock.try_write()).await.map(Held::of_one)
                }
            }
            Wish::All(claims) => {
                let locks = session.lock_all(claims.iter().map(access));
                let locks = locks.and_then(|it| it.with_options(options)).map_err(invalid)?;
                let within = |limit| locks.acquire_timeout(limit);
                patience.call(locks.acquire(), within, locks.try_acquire()).await.map(Held::of_several)
            }
            Wish::Permit(weight) => {
                let pool = session.semaphore(ROOT, CAPACITY).and_then(|it| it.with_options(options));
                let pool = pool.map_err(invalid)?;
                let within = |limit| pool.acquire_many_timeout(*weight, limit);
                let at_once = pool.try_acquire_many(*weight);
                let permit = patience.call(pool.acquire_many(*weight), within, at_once).await?;
                Ok(Held::permit(permit, session.id()))
            }
            Wish::Slot(index) => {
                let slots = session.slots(ROOT, SLOTS).and_then(|it| it.with_options(options));
                let mut slots = slots.map_err(invalid)?;
                if let Some(index) = index {
                    slots = slots.preferring(*index);
                }
                let within = |limit| slots.acquire_timeout(limit);
                let slot = patience.call(slots.acquire(), within, slots.try_acquire()).await?;
                Ok(Held::slot(slot, session.id()))
            }
            Wish::Run(period) => {
                let options = OnceOptions::new().lock(options).keep(KEEP).retry(period.retries());
                let once = session.once(&path(0)).and_then(|it| it.with_options(options));
                let (once, name) = (once.map_err(invalid)?, period.to_string());
                let within = |limit| once.claim_timeout(&name, limit);
                match patience.call(once.claim(&name), within, once.try_claim(&name)).await? {
                    once::Claim::Run(run) => Ok(Held::runs(run, period.fails)),
                    once::Claim::Recorded(record) => {
                        let (state, token) = (record.state.to_string(), record.token.zxid());
                        let (owner, attempt) = (record.owner, record.attempt);
                        Err(Leaving::Done(Kept { state, owner, token, attempt }))
                    }
                }
            }
            Wish::Lead(value) => {
                let election = session.election(ELECTION).and_then(|it| it.with_options(options));
                let election = election.map_err(invalid)?;
                let within = |limit| election.campaign_timeout(value, limit);
                let at_once = election.try_campaign(value);
                patience.call(election.campaign(value), within, at_once).await.map(Held::leads)
            }
        }
    }
}

impl Present {
    fn new(session: Session) -> Self {
        Self { session, locks: Arc::default() }
    }

    /// The locks by key whose contenders have these terms.
    fn locks(&self, part: &Part, terms: Terms) -> Result<Locks, Leaving> {
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(locks) = locks.get(&terms) {
            return Ok(locks.clone());
        }
        let options = LocksOptions::new().lock(options(Who::process(part.number), terms)).turns((rules(
            part.setup.mode,
        )
        .budget)(
            part.number,
        ));
        let opened = self.session.locks(ROOT).and_then(|it| it.with_options(options)).map_err(invalid)?;
        locks.insert(terms, opened.clone());
        Ok(opened)
    }
}

/// Opens a session. While only the server that grants less can be reached, that is refused; then it is tried again.
async fn open(part: &Part) -> anyhow::Result<Session> {
    let opening = async {
        loop {
            let builder = Session::builder(&part.servers).session_timeout(SESSION_TIMEOUT).tick(TICK);
            match builder.connect_timeout(PATIENCE).connect().await {
                Err(ConnectError::TimeoutNotGranted { .. }) => sleep(PAUSE).await,
                connected => return Ok(connected?),
            }
        }
    };
    timeout(PATIENCE, opening).await.context("no server grants the session timeout")?
}

fn options(who: Who, terms: Terms) -> LockOptions {
    let options = LockOptions::new().owner(who.to_string()).takeover_delay(terms.delay);
    terms.limit.into_iter().fold(options, LockOptions::max_hold)
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
