//! What is contended for: each member of the family, as a service uses it.

use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, TryFutureExt};
use world::Random;
use zklock::once::{Claim as OnceClaim, OnceOptions, RunEnd};
use zklock::{Access, AcquireError, AnyGuard, Guard, LockOptions, Locks, LocksOptions, Session};

use crate::history::{self, Claim, Who};
use crate::interventions;
use crate::part::{Member, Part};

/// What an acquisition gives: a guard, and what it stands for.
type Taken = Result<Option<(AnyGuard, Vec<Claim>)>, AcquireError>;

const CAPACITY: u32 = 3;
/// The directory of the permits of a semaphore at the first path.
pub(crate) const POOL: &str = "/lock/a/permits";
/// The announcement of a leader there.
pub(crate) const ANNOUNCEMENT: &str = "/lock/a/leader";
const PATHS: [&str; 3] = ["/lock/a", "/lock/b", "/lock/c"];

/// What a process contends with.
#[derive(Clone)]
pub(crate) struct Service {
    session: Session,
    /// The tasks of a process share it: they pass a lock on among themselves.
    locks: Locks,
}

impl Service {
    /// What a process in this session contends with.
    pub(crate) fn new(session: Session, part: &Part) -> Self {
        let options = LocksOptions::new().lock(options(part));
        let locks = session.locks("/lock").and_then(|locks| locks.with_options(options)).expect("locks");
        Self { session, locks }
    }
}

fn options(part: &Part) -> LockOptions {
    part.delay.map_or(LockOptions::new(), |delay| LockOptions::new().takeover_delay(delay))
}

/// Begins an acquisition. Without patience it is a try; with an endless one it waits for as long as it takes.
pub(crate) fn acquire(
    who: Who,
    part: &Part,
    service: &Service,
    random: &mut Random,
    patience: Option<Duration>,
    is_last: bool,
) -> BoxFuture<'static, Taken> {
    let Service { session, locks } = service.clone();
    let mut random = random.fork();
    let options = options(part);
    let capacity = interventions::capacity().unwrap_or(CAPACITY);
    let path = PATHS[random.below(2) as usize];
    let exclusive = move |path: &str| vec![Claim::Exclusive(path.to_owned())];
    let permits =
        move |weight| vec![Claim::Permits { path: PATHS[0].to_owned(), weight, capacity, first: CAPACITY }];
    // Every member has the same three ways.
    macro_rules! by_patience {
        ($of:expr, $options:expr, $try:ident, $timeout:ident $(, $argument:expr)*) => {{
            let member = $of.with_options($options).expect("options");
            by_patience!(=> member, $try, $timeout $(, $argument)*)
        }};
        (=> $member:ident, $try:ident, $timeout:ident $(, $argument:expr)*) => {{
            let member = $member;
            async move {
                match patience {
                    None => member.$try($($argument),*).await,
                    Some(patience) => member.$timeout($($argument,)* patience).await,
                }
            }
        }};
    }
    match part.member {
        Member::Lock => {
            by_patience!(session.lock(PATHS[0]).expect("a lock"), options, try_acquire, acquire_timeout)
                .map_ok(move |guard| guard.map(|guard| (guard.into_any(), exclusive(PATHS[0]))))
                .boxed()
        }
        Member::ReadWrite if random.once_in(3) => {
            by_patience!(session.rw_lock(PATHS[0]).expect("a lock"), options, try_write, write_timeout)
                .map_ok(move |guard| guard.map(|guard| (guard.into_any(), exclusive(PATHS[0]))))
                .boxed()
        }
        Member::ReadWrite => {
            by_patience!(session.rw_lock(PATHS[0]).expect("a lock"), options, try_read, read_timeout)
                .map_ok(|guard| {
                    guard.map(|guard| (guard.into_any(), vec![Claim::Shared(PATHS[0].to_owned())]))
                })
                .boxed()
        }
        Member::Several => {
            let mut chosen = Vec::new();
            for path in PATHS {
                match random.below(4) {
                    0 => chosen.push((Access::shared(path), Claim::Shared(path.to_owned()))),
                    1 | 2 => chosen.push((Access::exclusive(path), Claim::Exclusive(path.to_owned()))),
                    _ => {}
                }
            }
            if chosen.is_empty() {
                chosen.push((Access::exclusive(path), Claim::Exclusive(path.to_owned())));
            }
            let (accesses, claims): (Vec<_>, Vec<_>) = chosen.into_iter().unzip();
            by_patience!(session.lock_all(accesses).expect("locks"), options, try_acquire, acquire_timeout)
                .map_ok(|guard| guard.map(|guard| (guard.into_any(), claims)))
                .boxed()
        }
        Member::Semaphore => {
            let weight = random.between(1, capacity.into()) as u32;
            let semaphore = session.semaphore(PATHS[0], capacity).expect("a semaphore");
            by_patience!(semaphore, options, try_acquire_many, acquire_many_timeout, weight)
                .map_ok(move |guard| guard.map(|guard| (guard.into_any(), permits(weight))))
                .boxed()
        }
        Member::Slots => {
            by_patience!(session.slots(PATHS[0], 2).expect("slots"), options, try_acquire, acquire_timeout)
                .map_ok(move |slot| {
                    slot.map(|slot| {
                        let claim = Claim::Exclusive(format!("{}#{}", PATHS[0], slot.index()));
                        (slot.into_any(), vec![claim])
                    })
                })
                .boxed()
        }
        Member::Election => by_patience!(
            session.election(PATHS[0]).expect("an election"),
            options,
            try_campaign,
            campaign_timeout,
            "value"
        )
        .map_ok(move |leadership| leadership.map(|leadership| (leadership.into_any(), exclusive(PATHS[0]))))
        .boxed(),
        Member::Keys => {
            let key = ["a", "b"][random.below(2) as usize];
            by_patience!(=> locks, try_acquire, acquire_timeout, key)
                .map_ok(move |guard| guard.map(|guard| (guard.into_any(), exclusive(key))))
                .boxed()
        }
        Member::Once => {
            // Several services come to do one run. In the end each has one of its own.
            let name = match is_last {
                true => format!("last-{who}"),
                false => format!("run-{}", world::now() / part.timeout.as_nanos() as u64),
            };
            let options = OnceOptions::new().lock(options);
            let completes = random.once_in(2);
            async move {
                let once = session.once(PATHS[0]).expect("runs").with_options(options).expect("options");
                let claim = match patience {
                    None => once.try_claim(&name).await?,
                    Some(patience) => once.claim_timeout(&name, patience).await?,
                };
                let Some(OnceClaim::Run(run)) = claim else { return Ok(None) };
                history::began(who, &name);
                // A record that is polled late gives a guard that is lost.
                let guard = match completes {
                    true => run.record(RunEnd::Succeeded).await.ok().filter(Guard::is_held),
                    false => Some(run.into_guard()),
                };
                Ok(guard.map(|guard| (guard.into_any(), exclusive(PATHS[0]))))
            }
            .boxed()
        }
    }
}
