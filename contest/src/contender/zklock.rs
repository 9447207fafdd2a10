//! Acquires what zklock has: locks, alone and by key, permits and slots, runs that happen once, and the lead.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::sleep;
use zklock::election::{CampaignError, Leader};
use zklock::inspect::Observer;
use zklock::once::{self, ClaimError};
use zklock::semaphore::PoolError;
use zklock::{
    Access, AcquireError, Guard, KeyError, Layout, LockOptions, Locks, LocksOptions, OnceOptions, Session,
    SessionState,
};

use super::held::{Granted, Held};
use super::place::Place;
use super::world::World;
use crate::member::key;
use crate::record::{Leaving, RunRecord, UNCONFIRMED, Who};
use crate::request::{Patience, Request, Terms};

/// The pause after each session that is refused.
const PAUSE: Duration = Duration::from_millis(100);

/// How many records are kept. Runs that are older than the last ones are forgotten in each run.
const KEEP: u16 = 5;

pub struct Zklock<W> {
    place: Place<W>,
    /// The present session; another one is opened once it has failed.
    present: Mutex<Present>,
    opening: tokio::sync::Mutex<()>,
}

/// A session, and the locks by key that the tasks share in it, by their terms.
#[derive(Clone)]
struct Present {
    session: Session,
    locks: Arc<Mutex<BTreeMap<Terms, Locks>>>,
}

impl<W: World> Zklock<W> {
    pub async fn open(place: Place<W>) -> Self {
        let present = Mutex::new(open(&place).await);
        Self { place, present, opening: tokio::sync::Mutex::default() }
    }

    fn present(&self) -> Present {
        self.present.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn session(&self) -> Session {
        self.present().session
    }

    /// The present session, or another one if it has failed.
    async fn living(&self) -> Present {
        if self.session().state() == SessionState::Failed {
            let _one_at_a_time = self.opening.lock().await;
            if self.session().state() == SessionState::Failed {
                let opened = open(&self.place).await;
                *self.present.lock().unwrap_or_else(PoisonError::into_inner) = opened;
            }
        }
        self.present()
    }

    pub async fn observe(&self) -> Result<Observer<Leader>, Leaving> {
        let election = self.living().await.session.election(&self.place.part.member.root());
        Ok(election.map_err(failed)?.observe())
    }

    pub async fn beside(&self, client: u16) -> Result<Guard, Leaving> {
        let lock = self.living().await.session.lock(&self.place.part.member.beside(client));
        Ok(lock.map_err(failed)?.acquire().await?)
    }

    pub async fn acquire(
        &self,
        who: Who,
        request: &Request,
        terms: Terms,
        patience: Patience,
    ) -> Result<Held, Leaving> {
        let present = self.living().await;
        let session = &present.session;
        let (options, part) = (options(who, terms), &self.place.part);
        let (member, root) = (part.member, part.member.root());
        // Every member has the same three ways.
        macro_rules! by_patience {
            ($acquirer:expr, $wait:ident, $within:ident, $at_once:ident $(, $argument:expr)*) => {{
                let acquirer = $acquirer;
                match patience {
                    Patience::Endless => acquirer.$wait($($argument),*).await?,
                    Patience::Within(limit) => {
                        let got = acquirer.$within($($argument,)* limit).await?;
                        got.ok_or(Leaving::TimedOut)?
                    }
                    Patience::None => {
                        acquirer.$at_once($($argument),*).await?.ok_or(Leaving::Busy)?
                    }
                }
            }};
        }
        macro_rules! acquired {
            ($acquirer:expr, $options:expr; $($how:tt)*) => {
                by_patience!($acquirer.and_then(|it| it.with_options($options)).map_err(failed)?, $($how)*)
            };
        }
        let granted = match request {
            Request::Lock(lock) => {
                let lock = session.lock(&member.path(*lock));
                Granted::Alone(acquired!(lock, options; acquire, acquire_timeout, try_acquire))
            }
            Request::Shared(lock) => {
                let options = options.layout(Layout::Curator);
                let lock = session.lock(&member.path(*lock));
                Granted::Alone(acquired!(lock, options; acquire, acquire_timeout, try_acquire))
            }
            Request::Key(lock) => {
                let (locks, key) = (present.locks(&self.place, terms)?, &key(*lock));
                Granted::Alone(by_patience!(locks, acquire, acquire_timeout, try_acquire, key))
            }
            Request::Read(lock) => {
                let lock = session.rw_lock(&member.path(*lock));
                Granted::Other(acquired!(lock, options; read, read_timeout, try_read).into_any())
            }
            Request::Write(lock) => {
                let lock = session.rw_lock(&member.path(*lock));
                Granted::Other(acquired!(lock, options; write, write_timeout, try_write).into_any())
            }
            Request::All(claims) => {
                let accesses = claims.iter().map(|claim| match claim.shared {
                    true => Access::shared(member.path(claim.lock)),
                    false => Access::exclusive(member.path(claim.lock)),
                });
                let locks = session.lock_all(accesses);
                Granted::Other(acquired!(locks, options; acquire, acquire_timeout, try_acquire).into_any())
            }
            Request::Permit { weight, capacity } => {
                let pool = session.semaphore(&root, *capacity);
                let permit =
                    acquired!(pool, options; acquire_many, acquire_many_timeout, try_acquire_many, *weight);
                Granted::Other(permit.into_any())
            }
            Request::Slot { preferred, count } => {
                let slots = session.slots(&root, *count);
                let slots = slots.and_then(|it| it.with_options(options)).map_err(failed)?;
                let slots = preferred.iter().fold(slots, |slots, index| slots.preferring(*index));
                Granted::Slot(by_patience!(slots, acquire, acquire_timeout, try_acquire))
            }
            Request::Run(period) => {
                let options = OnceOptions::new().lock(options).keep(KEEP).retry(period.retries());
                let (once, name) = (session.once(&member.path(0)), &period.to_string());
                match acquired!(once, options; claim, claim_timeout, try_claim, name) {
                    once::Claim::Run(run) => Granted::Runs { run, fails: period.fails },
                    once::Claim::Recorded(record) => {
                        let (state, token) = (record.state.to_string(), record.token.zxid());
                        let (owner, attempt) = (record.owner, record.attempt);
                        return Err(Leaving::Done(RunRecord { state, owner, token, attempt }));
                    }
                }
            }
            Request::Lead(value) => {
                let election = session.election(&root);
                Granted::Leads(acquired!(election, options; campaign, campaign_timeout, try_campaign, value))
            }
        };
        Ok(Held { granted, session: session.id() })
    }
}

impl Present {
    /// The locks by key whose contenders have these terms.
    fn locks<W>(&self, Place { part, .. }: &Place<W>, terms: Terms) -> Result<Locks, Leaving> {
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(locks) = locks.get(&terms) {
            return Ok(locks.clone());
        }
        let turns = (part.rules().budget)(part.client);
        let options = LocksOptions::new().lock(options(Who::process(part.client), terms)).turns(turns);
        let opened = self.session.locks(&part.member.root()).and_then(|it| it.with_options(options));
        let opened = opened.map_err(failed)?;
        locks.insert(terms, opened.clone());
        Ok(opened)
    }
}

/// Opens a session. While only a server that grants less can be reached, that is refused; then it is tried again.
async fn open<W: World>(place: &Place<W>) -> Present {
    loop {
        if let Ok(session) = place.world.session().connect().await {
            return Present { session, locks: Arc::default() };
        }
        sleep(PAUSE).await;
    }
}

fn options(who: Who, terms: Terms) -> LockOptions {
    let options = LockOptions::new().owner(who.to_string()).takeover_delay(terms.delay);
    terms.limit.into_iter().fold(options, LockOptions::max_hold)
}

fn failed(error: impl Display) -> Leaving {
    Leaving::Failed(error.to_string())
}

impl From<AcquireError> for Leaving {
    fn from(error: AcquireError) -> Self {
        match error {
            AcquireError::NodeDeleted { .. } => Self::Deleted,
            error => failed(error),
        }
    }
}

/// The errors of members that leave as an acquisition does, or with a message.
macro_rules! leaving {
    ($($error:ident)*) => {$(
        impl From<$error> for Leaving {
            fn from(error: $error) -> Self {
                match error {
                    $error::Acquire(error) => error.into(),
                    error => failed(error),
                }
            }
        }
    )*};
}

leaving!(KeyError PoolError CampaignError);

impl From<ClaimError> for Leaving {
    fn from(error: ClaimError) -> Self {
        match error {
            ClaimError::Acquire(error) => error.into(),
            ClaimError::Forgotten { .. } => Self::Forgotten,
            // Without its path, so that they are counted together.
            ClaimError::Unconfirmed { .. } => Self::Failed(UNCONFIRMED.to_owned()),
            error => failed(error),
        }
    }
}
