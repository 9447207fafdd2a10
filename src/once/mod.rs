//! A [`Once`]: runs that are done once. It stands on the lock. The recipe decides whether a run may begin; this layer keeps the
//! records.

pub(crate) mod claim;
mod ending;
pub(crate) mod error;
mod forgotten;
pub(crate) mod name;
pub(crate) mod options;
pub(crate) mod record;
mod requests;
pub(crate) mod run;

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::FutureExt;
use futures::future::BoxFuture;
use tracing::warn;
use zklock_recipe::{Event, Tries};

pub use claim::Claim;
use claim::{Ledger, SharedBegins};
pub use error::{ClaimError, InvalidOnce, RecordError, RunError};
pub use name::NameProblem;
use name::{RunName, name_at, whole_seconds};
use options::MOST_KEPT;
pub use options::OnceOptions;
pub use record::{Record, RecordState};
pub use run::Run;
pub use zklock_recipe::claim::RunEnd;

use crate::acquire::acquirer::Wait;
use crate::acquire::query::query;
use crate::error::{AcquireError, QueryError};
use crate::guard::Guard;
use crate::lock::Lock;
use crate::node::{CLOCK_PROBE, RECORDS_SUFFIX};
use crate::path::child_of;
use crate::requests::create_directory;
use crate::telemetry::FamilyMember;
use crate::wire::LinkAnswer;
use crate::zk::Succession;

/// A lock whose *runs* are done once. A run has a name, such as the date `2026-11-22`. However many machines claim a
/// run, one of them gets a [`Run`] and runs it, and the others learn what became of it.
///
/// A [`Lock`] alone serialises: three machines that start a nightly job under a lock run it three times, one after the
/// other. A `Once` remembers in ZooKeeper which runs have been. Each run has a *record*, a persistent node in a directory
/// beside the lock's: `/lock/report.once/2026-11-22`. It is written under the lock, by transactions that ZooKeeper commits
/// only while the lock is held. The lock is an ordinary one, so a `Once` and a [`Lock`] at the same path exclude each other.
///
/// # What is promised
///
/// * At most one attempt of a run is recorded as successful, and no attempt begins after that. This does not depend on the
///   machines' clocks.
/// * No run begins before ZooKeeper has confirmed its record.
/// * By default a run begins at most once. If it fails, or its holder vanishes, it does not begin again.
/// * With [`OnceOptions::retry`], a run may have several attempts: a claim begins it again if its last attempt has failed, or
///   has begun and never ended. A run that lost its lock may have done its work before that, and then the work is done
///   twice. Only the fencing token protects the work itself.
/// * The number of records is bounded ([`OnceOptions::keep`]). zklock remembers the names of dropped records as ranges of
///   text. A claim of a run without a record whose name is in a range is an error ([`ClaimError::Forgotten`]). So let
///   the text order of runs be their age, as with dates: then a new run is in no range.
///
/// An operator who deletes a record lets that run begin again. An operator who deletes the whole directory lets all runs begin
/// again.
///
/// ```no_run
/// # async fn report(date: &str) -> Result<(), std::io::Error> { Ok(()) }
/// # async fn example(session: zklock::Session) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use zklock::Ran;
///
/// let once = session.once("/lock/report")?;
/// let today = once.period_name(Duration::from_secs(24 * 60 * 60)).await?; // by ZooKeeper's clock
/// match once.run(&today, async |run| report(run.name()).await).await? {
///     Ran::Now(()) => println!("done"),
///     Ran::Before(record) => println!("{} was here before: {}", record.owner, record.state), // may be "failed" or "begun"
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Once {
    lock: Lock,
    ledger: Arc<Ledger>,
}

/// The result of [`Once::run`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ran<T> {
    /// The work ran, and its success is recorded. This is its output.
    Now(T),
    /// The run must not begin. This is its record.
    Before(Record),
}

impl Once {
    pub(crate) fn new(
        succession: Arc<Succession>,
        path: &str,
        options: OnceOptions,
    ) -> Result<Self, InvalidOnce> {
        let OnceOptions { lock, keep, retry } = options;
        lock.refuse_layout(path)?;
        let lock = Lock::new(succession, path, lock)?;
        if !(1..=MOST_KEPT).contains(&keep) {
            return Err(InvalidOnce::Keep { path: path.to_owned(), keep, most: MOST_KEPT });
        }
        let directory = format!("{path}{RECORDS_SUFFIX}");
        let ledger = Ledger { lock: lock.settings.clone(), directory, keep: keep.into(), retry };
        Ok(Self { lock, ledger: Arc::new(ledger) })
    }

    /// Returns it with these options in place of the default ones. It sends nothing.
    ///
    /// Errors: [`InvalidOnce`] says what is wrong with an option.
    pub fn with_options(&self, options: OnceOptions) -> Result<Self, InvalidOnce> {
        Self::new(self.lock.succession().clone(), self.path(), options)
    }

    /// Returns the path of the lock's directory, relative to the connect string's chroot.
    pub fn path(&self) -> &str {
        self.lock.path()
    }

    /// Returns the lock that each run holds. It knows nothing of runs.
    pub fn lock(&self) -> &Lock {
        &self.lock
    }

    /// Claims a run: acquires the lock, and begins the run unless its record says that it must not begin. It waits
    /// for the lock as [`Lock::acquire`] does, so a claim of a run that is under way returns when that has ended.
    ///
    /// After the grant it takes two round trips: one to read the records, and one to write that the run has begun. If the
    /// directory of the records does not exist, it takes two more, and if records are dropped, one more.
    ///
    /// If the lock is lost before the begin is confirmed, the claim acquires it again. It never returns a run whose record
    /// is not confirmed. A [`max_hold`](crate::LockOptions::max_hold) counts from the grant: the run has what the begin has left of it.
    ///
    /// Poll the future, or drop it; see [`Lock::acquire`]. A claim that has asked to be polled, and is not polled for half a
    /// session timeout, gives up its place or the lock, as if you had dropped it. It queues again at its next poll.
    ///
    /// # Errors
    ///
    /// See [`ClaimError`]. The run's name has 1 to 128 characters: ASCII letters, digits, `.`, `_`, `:`, `+` and `-`.
    ///
    /// # Cancel safety
    ///
    /// Safe, as with [`Lock::acquire`]. If you drop the future in the instant in which the begin is written, zklock
    /// takes the begin back in the background, and then releases the lock. [`Session::close`](crate::Session::close)
    /// waits for that. If the lock is lost before, or the runtime ends, the record says that the run has begun,
    /// although nothing ran. Without [`OnceOptions::retry`] the run does not begin again then.
    ///
    /// ```no_run
    /// # async fn report() -> bool { true }
    /// # async fn example(session: zklock::Session) -> Result<(), Box<dyn std::error::Error>> {
    /// use zklock::once::Claim;
    ///
    /// match session.once("/lock/report")?.claim("2026-11-22").await? {
    ///     Claim::Run(run) => {
    ///         if run.guard().run(report()).await? { run.complete().await? } else { run.fail().await? }
    ///     }
    ///     Claim::Recorded(record) => println!("{} by {}", record.state, record.owner),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn claim(&self, name: &str) -> Result<Claim, ClaimError> {
        self.lock.acquirer.at_last(self.claim_by(name, Wait::FOR_EVER).await?)
    }

    /// As [`claim`](Self::claim), but it waits for no other contender. Returns `None` if somebody holds the lock or waits
    /// for it. To acquire the lock takes half a session timeout at most ([`Lock::try_acquire`]), and the begin takes until the
    /// guard's lease ends at most. If the begin is not confirmed by then, the call tries to acquire the lock again.
    ///
    /// Errors: [`ClaimError`]. Cancel safety: as [`claim`](Self::claim).
    pub async fn try_claim(&self, name: &str) -> Result<Option<Claim>, ClaimError> {
        self.claim_by(name, Wait::Never).await
    }

    /// As [`claim`](Self::claim), but it returns `None` if the lock was not acquired within `timeout`. The time begins with
    /// this call, not with the first poll. It bounds the wait for the lock. After the grant the call returns at the latest
    /// when the guard's lease ends, or after `timeout` if that is later.
    ///
    /// Errors: [`ClaimError`]. Cancel safety: as [`claim`](Self::claim).
    pub fn claim_timeout(
        &self,
        name: &str,
        timeout: Duration,
    ) -> impl Future<Output = Result<Option<Claim>, ClaimError>> + Send {
        self.claim_by(name, Wait::within(timeout))
    }

    /// Claims a run, does the work if this caller runs it, and records how the work ended. If the lock is lost, the work is
    /// dropped at that moment, as by [`Guard::run`].
    ///
    /// If `work` returns an error, that is recorded as a failure. Then the result is that error, also if its record was not
    /// confirmed.
    ///
    /// While the work runs, the future holds the lock, whether or not you poll it. Before and after that it is as
    /// [`claim`](Self::claim) and [`Run::complete`].
    ///
    /// # Errors
    ///
    /// See [`RunError`].
    ///
    /// # Cancel safety
    ///
    /// As [`claim`](Self::claim) until the work begins, and as the work from then on. If you drop the future while the work
    /// runs, the run has begun, and has no end. Once the work has ended, as [`Run::complete`].
    pub async fn run<T, E, W>(&self, name: &str, work: W) -> Result<Ran<T>, RunError<E>>
    where
        W: AsyncFnOnce(&Run) -> Result<T, E>,
    {
        let run = match self.claim(name).await? {
            Claim::Run(run) => run,
            Claim::Recorded(record) => return Ok(Ran::Before(record)),
        };
        match run.guard().run(work(&run)).await {
            Ok(Ok(output)) => run.complete().await.map(|()| Ran::Now(output)).map_err(RunError::Record),
            Ok(Err(error)) => {
                if let Err(unrecorded) = run.fail().await {
                    warn!(error = %unrecorded, "a run has failed, but ZooKeeper did not confirm the record of that");
                }
                Err(RunError::Work(error))
            }
            Err(lost) => Err(RunError::Lost(lost)),
        }
    }

    /// Returns the name of the run of this moment, by the clock of ZooKeeper's leader: when the present period began, such
    /// as `2026-11-22T00:00:00Z`. All machines agree on it, however wrong their own clocks are. One period begins at the Unix
    /// epoch, in UTC: days begin at midnight UTC, and weeks on a Thursday. `period` is a number of whole seconds.
    ///
    /// For days in another time zone, ask [`now`](Self::now), and name the run by the date there. A job that a local clock
    /// starts needs that: `02:30` in Helsinki is `23:30` UTC of the day before from the spring on, and that run has been.
    ///
    /// Ask once, before you wait for the lock. A claim that waits until a later period is then still a claim of the run in
    /// which it was made.
    ///
    /// The leader's clock may go back or forth, as when another leader is elected. Then a period's run may come too early or
    /// too late, or not at all. No run is done twice for that reason, and runs of the far future keep no present one from running.
    ///
    /// The call takes one round trip. It creates the directory of the records if that does not exist.
    ///
    /// Errors: [`ClaimError::InvalidName`] if `period` is not a number of whole seconds, or is zero. [`AcquireError::Refused`] also if
    /// the leader's clock is after 9999. Else errors and cancel safety are as of [`now`](Self::now).
    pub async fn period_name(&self, period: Duration) -> Result<String, ClaimError> {
        let seconds = whole_seconds(period)
            .map_err(|problem| ClaimError::InvalidName { name: format!("every {period:?}"), problem })?;
        let since = self.now().await?.duration_since(UNIX_EPOCH).unwrap_or_default();
        name_at(since, seconds).ok_or_else(|| self.wrong_clock())
    }

    /// Returns the time by the clock of ZooKeeper's leader, in milliseconds. It takes one round trip, and creates the
    /// directory of the records if that does not exist.
    ///
    /// The time names a run on which all machines agree. With a calendar such as jiff's, it is the date in a time zone:
    ///
    /// ```no_run
    /// # async fn example(session: zklock::Session) -> Result<(), Box<dyn std::error::Error>> {
    /// use jiff::{Timestamp, tz::TimeZone};
    ///
    /// let once = session.once("/lock/report")?;
    /// let now = Timestamp::try_from(once.now().await?)?;
    /// let today = now.to_zoned(TimeZone::get("Europe/Helsinki")?).date().to_string(); // such as 2026-11-22
    /// let claim = once.claim(&today).await?;
    /// # drop(claim);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`AcquireError::Unanswered`] after half a session timeout without an answer. The other errors are those of an
    /// acquisition: the session is over, or the server refuses.
    /// [`ClaimError::RecordNotAuthorized`] if an ACL forbids it. [`AcquireError::Refused`] if the server refuses for another reason,
    /// or its leader's clock is before 1970.
    ///
    /// # Cancel safety
    ///
    /// Safe; nothing is lost.
    pub async fn now(&self) -> Result<SystemTime, ClaimError> {
        let now = match self.lock.succession().patiently(self.leader_time()).await {
            Ok(now) => now?,
            Err(waited) => {
                return Err(AcquireError::Unanswered { path: self.path().to_owned(), waited }.into());
            }
        };
        let since = u64::try_from(now).ok().map(Duration::from_millis);
        since.and_then(|since| UNIX_EPOCH.checked_add(since)).ok_or_else(|| self.wrong_clock())
    }

    fn wrong_clock(&self) -> ClaimError {
        let cause = "its leader's clock is before 1970 or after 9999; set that clock";
        AcquireError::Refused { path: self.ledger.directory.clone(), cause: cause.to_owned() }.into()
    }

    /// Returns the records, the one that began last first. It is meant for operators and tests: the answer may be outdated
    /// by the time you read it. It leaves out records that this session may not read, and nodes that are no records.
    ///
    /// Errors: [`QueryError`]. Cancel safety: nothing is lost.
    pub async fn records(&self) -> Result<Vec<Record>, QueryError> {
        let directory = self.ledger.directory.clone();
        let asked = directory.clone();
        let mut found =
            query(self.lock.succession(), &directory, |wire| requests::read_all_records(wire.client, asked))
                .await?;
        found.sort_unstable_by_key(|kept| std::cmp::Reverse(kept.stat.czxid));
        Ok(found.iter().filter_map(|kept| Record::decode(&directory, kept)).collect())
    }

    fn claim_by(&self, name: &str, wait: Wait) -> BoxFuture<'static, Result<Option<Claim>, ClaimError>> {
        let once = self.clone();
        let parsed = RunName::parse(name);
        let parsed = parsed.map_err(|problem| ClaimError::InvalidName { name: name.to_owned(), problem });
        async move {
            let name = parsed?;
            let begins = SharedBegins::default();
            let claim = |guard: Guard, _| once.ledger.clone().claim(guard, name.clone(), begins.clone());
            let acquirer = &once.lock.acquirer;
            let claimed = pin!(async {
                match acquirer.acquire_in_stages(wait, claim).await {
                    Ok(Some(claimed)) => claimed.map(Some),
                    Ok(None) | Err(_) if begins.lock().is_any() => {
                        Err(ClaimError::Unconfirmed { path: once.ledger.record_path(name.as_str()) })
                    }
                    Ok(None) => Ok(None),
                    Err(error) => Err(error.into()),
                }
            });
            acquirer.instrument(FamilyMember::Once, wait, claimed).await
        }
        .boxed()
    }

    /// Asks for the time until a server answers. It is in milliseconds since the Unix epoch.
    async fn leader_time(&self) -> Result<i64, ClaimError> {
        let succession = self.lock.succession();
        let ledger = &self.ledger;
        let mut tries = Tries::default();
        loop {
            let living = succession.living().await;
            let session = living.map_err(|over| AcquireError::over(self.path().to_owned(), over))?;
            let lock = ledger.lock.clone();
            let directory = ledger.directory.clone();
            let told = session.requester.request(|wire| async move {
                let probe = child_of(&directory, CLOCK_PROBE);
                if let Some(now) = requests::leader_time(wire.client.clone(), lock.clone(), probe).await? {
                    return Ok(Some(now));
                }
                if !requests::create_records(wire.client.clone(), lock.clone(), directory).await? {
                    // The lock's directory comes with its ancestors, which are those of the records, too.
                    match create_directory(&wire.client, &lock).await {
                        Event::DirectoryReady => {}
                        failure => return Err(failure),
                    }
                }
                Ok(None)
            });
            match told.await {
                LinkAnswer::Given(Ok(Some(now)), _) => return Ok(now),
                LinkAnswer::Given(Ok(None), _) => {}
                LinkAnswer::Given(Err(Event::Refused(refusal)), _) => return Err(ledger.refusal(refusal)),
                LinkAnswer::Given(Err(_), _) | LinkAnswer::Lost | LinkAnswer::Over(_) => {
                    session.repeat(&mut tries).await
                }
            }
        }
    }
}

debug_shows!(Once, it, { path: it.path() });
