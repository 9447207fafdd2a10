//! Two contenders, an old one and a new one, in every order of {begin, write, commit or roll back} of each. The judge knows
//! what a fence must not let happen. Two ways to begin that are not good enough show that it can say no.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use sqlx::sqlite::SqliteJournalMode;
use sqlx::{Database, Transaction};
use tokio::task::JoinHandle;
use zklock::FencingToken;
use zklock_sqlx::{Fence, FenceError, FencedTransaction, Holder};
use zklock_test_support::within;

use crate::place::{BLINDLY, BY_HAND, InPostgres, InSqlite, Link, Place, WRITE};

const OLD: usize = 0;
const NEW: usize = 1;

/// As text, or as decimal numbers, they would have the other order.
const TOKENS: [FencingToken; 2] = [FencingToken::of_turn(7, 9), FencingToken::of_turn(7, 10)];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// As this crate does it.
    Fenced,
    /// By the statement of the README.
    ByHand,
    /// By a SELECT and a comparison, and an UPDATE before the write.
    Naive,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Begin,
    Write,
    Commit,
    RollBack,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    Refused,
    /// The database failed the transaction.
    Failed,
    /// There is no transaction.
    Skipped,
}

type Connection<P> = <<P as Place>::DB as Database>::Connection;

enum Open<DB: Database> {
    Fenced(FencedTransaction<'static, DB>),
    Plain(Transaction<'static, DB>),
}

impl<DB: Database> Open<DB> {
    fn connection(&mut self) -> &mut DB::Connection {
        match self {
            Self::Fenced(transaction) => transaction,
            Self::Plain(transaction) => transaction,
        }
    }
}

struct Contender<P: Place> {
    way: Way,
    name: String,
    holder: Holder<'static>,
    link: Link<P::DB>,
    open: Option<Open<P::DB>>,
}

impl<P: Place> Contender<P> {
    /// Takes a step, and waits for as long as others are in its way.
    async fn take(&mut self, step: Step) -> Outcome {
        let taken = match step {
            Step::Begin => loop {
                match self.begin().await {
                    Err(error) if error.is_retryable() => {
                        self.link.busy.fetch_add(1, Ordering::Relaxed);
                        tokio::task::yield_now().await;
                    }
                    begun => break begun,
                }
            },
            _ if self.open.is_none() => return Outcome::Skipped,
            Step::Write => self.write().await,
            Step::Commit | Step::RollBack => self.end(step == Step::Commit).await,
        };
        match taken {
            Ok(()) => Outcome::Done,
            Err(FenceError::Stale { .. }) => Outcome::Refused,
            Err(error) if self.way == Way::Fenced && !error.is_retryable() => panic!("{error:?}"),
            Err(_) => {
                self.open = None;
                Outcome::Failed
            }
        }
    }

    async fn begin(&mut self) -> Result<(), FenceError> {
        P::set_patient(&mut *self.link.pool.acquire().await?, false).await;
        let mut open = if self.way == Way::Fenced {
            Open::Fenced(Fence::new(&self.name).begin(&self.link.pool, self.holder).await?)
        } else {
            Open::Plain(self.link.pool.begin().await?)
        };
        let connection = open.connection();
        let admitted = match self.way {
            Way::Fenced => true,
            Way::ByHand => P::execute(connection, BY_HAND, &self.name, self.holder.token()).await? == 1,
            Way::Naive => P::highest(connection, &self.name).await? <= Some(self.holder.token()),
        };
        P::set_patient(connection, true).await;
        if !admitted {
            return Err(stale());
        }
        self.open = Some(open);
        Ok(())
    }

    async fn write(&mut self) -> Result<(), FenceError> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let (connection, token): (&mut Connection<P>, _) = (open.connection(), self.holder.token());
        if self.way == Way::Naive {
            P::execute(connection, BLINDLY, &self.name, token).await?;
        }
        P::execute(connection, WRITE, &self.name, token).await?;
        Ok(())
    }

    async fn end(&mut self, commits: bool) -> Result<(), FenceError> {
        match self.open.take() {
            Some(Open::Fenced(transaction)) if commits => transaction.commit().await,
            Some(Open::Fenced(transaction)) => transaction.rollback().await,
            Some(Open::Plain(transaction)) if commits => Ok(transaction.commit().await?),
            Some(Open::Plain(transaction)) => Ok(transaction.rollback().await?),
            None => Ok(()),
        }
    }
}

/// The refusal that the other ways do not make.
fn stale() -> FenceError {
    let mut gate = zklock::FenceGate::starting_at(TOKENS[NEW]);
    FenceError::Stale { fence: String::new(), stale: gate.admit(TOKENS[OLD]).expect_err("lower") }
}

/// A step that is done, in the order in which they were.
type History = Vec<(usize, Step, Outcome)>;

/// A step under way; it gives the contender back.
type Task<P> = JoinHandle<(Contender<P>, Outcome)>;

/// One contender, and the step that it is about to finish.
struct Actor<P: Place> {
    link: Link<P::DB>,
    idle: Option<Contender<P>>,
    under_way: Option<(Step, Task<P>)>,
    /// Steps whose turn came while another one was under way.
    deferred: VecDeque<Step>,
}

impl<P: Place> Actor<P> {
    fn start(&mut self) {
        if self.under_way.is_some() {
            return;
        }
        let Some(step) = self.deferred.pop_front() else { return };
        let mut contender = self.idle.take().expect("nothing is under way");
        let task = tokio::spawn(async move {
            let outcome = contender.take(step).await;
            (contender, outcome)
        });
        self.under_way = Some((step, task));
    }

    /// Waits until the step is done, or waits for the other contender.
    async fn settle(&mut self, place: &P) -> Option<(Step, Outcome)> {
        let busy = self.link.busy.load(Ordering::Relaxed);
        let (step, task) = self.under_way.as_mut()?;
        let step = *step;
        while !task.is_finished() {
            if place.is_waiting(&self.link, busy).await {
                return None;
            }
        }
        let (contender, outcome) = task.await.expect("no panic");
        (self.idle, self.under_way) = (Some(contender), None);
        Some((step, outcome))
    }
}

/// Has both contenders take their steps in this order, which names who is next.
async fn play<P: Place>(
    place: &P,
    name: &str,
    way: Way,
    holders: [Holder<'static>; 2],
    links: &[Link<P::DB>; 2],
    order: &[usize],
    ends: [Step; 2],
) -> History {
    let mut actors = [OLD, NEW].map(|who| {
        let contender = Contender {
            way,
            name: name.to_owned(),
            holder: holders[who],
            link: links[who].clone(),
            open: None,
        };
        Actor::<P> {
            link: links[who].clone(),
            idle: Some(contender),
            under_way: None,
            deferred: VecDeque::new(),
        }
    });
    let mut scripts = ends.map(|end| [Step::Begin, Step::Write, end].into_iter());
    let mut history = History::new();
    // In the end each goes on with what was deferred.
    for who in order.iter().copied().chain([OLD, NEW].repeat(3)) {
        actors[who].deferred.extend(scripts[who].next());
        actors[who].start();
        // The other one may have waited for this step.
        for who in [who, 1 - who] {
            if let Some((step, outcome)) = within("the step", actors[who].settle(place)).await {
                // Who is refused was behind the other one, whose begin may not have returned yet.
                while outcome == Outcome::Refused && actors[1 - who].under_way.is_some() {
                    if let Some((step, outcome)) = within("the step", actors[1 - who].settle(place)).await {
                        history.push((1 - who, step, outcome));
                    }
                }
                history.push((who, step, outcome));
            }
        }
    }
    assert_eq!(history.len(), 6, "{history:?}");
    history
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    /// A write of the old holder took effect after the new one had committed.
    LateWrite,
    /// A write of the old holder took effect after the new one had begun, though that one committed nothing.
    LateBehindRollBack,
    /// A holder was refused though no later one had been there, or it was admitted though one had. Or a transaction failed:
    /// readers' may conflict under REPEATABLE READ, as they are no order to each other.
    WrongAnswer,
    /// The database does not have what was committed, in this order.
    Ledger,
}

fn flaw(history: &History, holders: [Holder<'_>; 2], entries: &[FencingToken]) -> Option<Flaw> {
    let when = |who, step, outcome| history.iter().position(|it| *it == (who, step, outcome));
    let exclude_each_other = !(holders[OLD].is_reader() && holders[NEW].is_reader());
    let [old_begins, new_begins] = [OLD, NEW].map(|who| when(who, Step::Begin, Outcome::Done));
    let [old_commits, new_commits] = [OLD, NEW].map(|who| when(who, Step::Commit, Outcome::Done));
    let is_after =
        |one: Option<usize>, other: Option<usize>| one.zip(other).is_some_and(|(one, other)| one > other);
    if exclude_each_other && is_after(old_commits, new_commits) {
        return Some(Flaw::LateWrite);
    }
    if exclude_each_other && is_after(old_commits, new_begins) {
        return Some(Flaw::LateBehindRollBack);
    }
    let old_is_refused = when(OLD, Step::Begin, Outcome::Refused);
    let old_is_late = exclude_each_other && is_after(old_begins.or(old_is_refused), new_begins);
    let fails = history.iter().any(|(_, _, outcome)| *outcome == Outcome::Failed);
    if new_begins.is_none() || old_is_refused.is_some() != old_is_late || fails && exclude_each_other {
        return Some(Flaw::WrongAnswer);
    }
    let mut committed: Vec<_> = [OLD, NEW]
        .into_iter()
        .filter_map(|who| Some((when(who, Step::Commit, Outcome::Done)?, holders[who].token())))
        .collect();
    committed.sort_unstable_by_key(|(when, _)| *when);
    let is_right = committed.iter().map(|(_, token)| token).eq(entries);
    (!is_right).then_some(Flaw::Ledger)
}

/// Every order of three steps of each.
fn orders() -> Vec<Vec<usize>> {
    let orders = (0u32..64).filter(|bits| bits.count_ones() == 3);
    orders.map(|bits| (0..6).map(|step| usize::from(bits >> step & 1 == 1)).collect()).collect()
}

/// Plays every order with each pair of ends, and returns the flaws of the histories.
async fn explored<P: Place>(place: &P, way: Way, holders: [Holder<'static>; 2]) -> Vec<(Flaw, History)> {
    let links = [place.connect().await, place.connect().await];
    let mut flaws = Vec::new();
    for (number, order) in orders().iter().enumerate() {
        for ends in [Step::Commit, Step::RollBack]
            .map(|old| [Step::Commit, Step::RollBack].map(|new| [old, new]))
            .concat()
        {
            let name = format!("{way:?} {holders:?} {number} {ends:?}");
            let history = play(place, &name, way, holders, &links, order, ends).await;
            let entries = place.entries(&name).await;
            flaws.extend(flaw(&history, holders, &entries).map(|flaw| (flaw, history)));
        }
    }
    flaws
}

fn writers() -> [Holder<'static>; 2] {
    TOKENS.map(Holder::from)
}

/// Every pair of a reader or a writer and a later one.
fn pairs() -> [[Holder<'static>; 2]; 4] {
    let [old, new] = TOKENS;
    [
        writers(),
        [old.into(), Holder::reader(new)],
        [Holder::reader(old), new.into()],
        [Holder::reader(old), Holder::reader(new)],
    ]
}

async fn nothing_comes_between(place: impl Place) {
    for holders in pairs() {
        assert_eq!(explored(&place, Way::Fenced, holders).await, [], "{holders:?}");
    }
}

/// What a way that is not this crate's lets happen.
async fn flaws(place: &impl Place, way: Way) -> Vec<Flaw> {
    let mut flaws = Vec::new();
    for (flaw, history) in explored(place, way, writers()).await {
        if !flaws.contains(&flaw) {
            println!("{way:?}: {flaw:?}: {history:?}");
            flaws.push(flaw);
        }
    }
    flaws
}

/// One statement in the transaction of the write is enough for writes. A rollback takes its token back.
async fn by_hand_no_write_is_late(place: &impl Place) {
    let flaws = flaws(place, Way::ByHand).await;
    assert!(!flaws.contains(&Flaw::LateWrite) && !flaws.contains(&Flaw::Ledger), "{flaws:?}");
    assert!(flaws.contains(&Flaw::LateBehindRollBack), "{flaws:?}");
}

#[tokio::test]
async fn nothing_comes_between_under_read_committed() {
    nothing_comes_between(InPostgres::start("read\\ committed").await).await;
}

#[tokio::test]
async fn nothing_comes_between_under_repeatable_read() {
    nothing_comes_between(InPostgres::start("repeatable\\ read").await).await;
}

#[tokio::test]
async fn nothing_comes_between_under_serializable() {
    nothing_comes_between(InPostgres::start("serializable").await).await;
}

#[tokio::test]
async fn nothing_comes_between_in_sqlite_with_a_wal() {
    nothing_comes_between(InSqlite::create(SqliteJournalMode::Wal).await).await;
}

#[tokio::test]
async fn nothing_comes_between_in_sqlite_with_a_rollback_journal() {
    nothing_comes_between(InSqlite::create(SqliteJournalMode::Delete).await).await;
}

#[tokio::test]
async fn a_check_that_only_reads_lets_a_late_write_in() {
    let place = InPostgres::start("read\\ committed").await;
    let naive = flaws(&place, Way::Naive).await;
    assert!(naive.contains(&Flaw::LateWrite), "{naive:?}");
    by_hand_no_write_is_late(&place).await;
}

#[tokio::test]
async fn by_hand_no_write_is_late_in_sqlite() {
    by_hand_no_write_is_late(&InSqlite::create(SqliteJournalMode::Delete).await).await;
}

#[test]
fn the_statement_is_the_one_of_the_readme() {
    assert!(include_str!("../../README.md").contains(BY_HAND));
}
