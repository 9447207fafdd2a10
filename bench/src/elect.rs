//! How long it takes until the last of many observers is told who leads.
//!
//! Each observer has a session of its own, and all are in this process. A round has three parts: the leader resigns, and
//! nobody leads; a candidate campaigns; and that leader resigns while another candidate waits.

use std::time::{Duration, Instant};

use anyhow::Context;
use futures::future::try_join_all;
use zklock::{Session, election::Leader, inspect::Observer};

use crate::args::Elect;
use crate::stage::Stage;

/// The sessions of observers. It is long, since a thousand of them share few cores.
const SESSION_TIMEOUT: Duration = Duration::from_secs(30);

/// How many sessions are opened at the same time.
const AT_ONCE: usize = 50;

pub(crate) async fn run(elect: &Elect) -> anyhow::Result<()> {
    let stage = Stage::open().await?;
    let path = stage.directory("elect").await?;
    let (one, other) = (Session::connect(stage.address()).await?, Session::connect(stage.address()).await?);
    let mut elections = [one.election(&path)?, other.election(&path)?];
    let mut observers = Vec::new();
    while observers.len() < usize::try_from(elect.observers)? {
        let missing = usize::try_from(elect.observers)? - observers.len();
        let opened = (0..missing.min(AT_ONCE)).map(|_| Watcher::open(stage.address(), &path));
        observers.extend(try_join_all(opened).await?);
    }
    let mut leadership = elections[0].campaign("first").await?;
    told(&mut observers, Some("first")).await?;

    // The last three until the last observer is told: that nobody leads, of the leader, of the next one, which had waited.
    let [mut resigned, mut nobody, mut led, mut handed_over] = [const { Vec::new() }; 4];
    for round in 0..elect.rounds {
        let began = Instant::now();
        leadership.resign().await?;
        resigned.push(began.elapsed());
        told(&mut observers, None).await?;
        nobody.push(began.elapsed());

        let [election, next] = &elections;
        let (value, following) = (format!("{round}"), format!("{round}, the next"));
        let began = Instant::now();
        leadership = election.campaign(&value).await?;
        told(&mut observers, Some(&value)).await?;
        led.push(began.elapsed());

        let waiter = tokio::spawn({
            let (next, following) = (next.clone(), following.clone());
            async move { next.campaign(following).await }
        });
        stage.wait_for_children(&election.queue(), 2).await?;
        let began = Instant::now();
        leadership.resign().await?;
        told(&mut observers, Some(&following)).await?;
        handed_over.push(began.elapsed());
        leadership = waiter.await??;
        elections.reverse();
    }
    println!("{} observers, {} rounds", elect.observers, elect.rounds);
    println!("{:<60} {:>9} {:>9} {:>9}", "", "least ms", "median", "most");
    for (name, mut times) in [
        ("from resign to its confirmation", resigned),
        ("from resign until the last observer is told \"nobody\"", nobody),
        ("from campaign until the last one is told of the leader", led),
        ("from resign until the last one is told of the next leader", handed_over),
    ] {
        times.sort_unstable();
        let at = |index: usize| times.get(index).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3);
        let last = times.len().saturating_sub(1);
        let median = f64::midpoint(at(last / 2), at(times.len() / 2));
        println!("{name:<60} {:>9.1} {median:>9.1} {:>9.1}", at(0), at(last));
    }

    leadership.resign().await?;
    try_join_all(observers.into_iter().map(Watcher::close)).await?;
    for session in [one, other] {
        session.close().await?;
    }
    Ok(())
}

/// An observer, and its session.
struct Watcher {
    session: Session,
    leaders: Observer<Leader>,
}

impl Watcher {
    async fn open(address: &str, path: &str) -> anyhow::Result<Self> {
        let session = Session::builder(address).session_timeout(SESSION_TIMEOUT).connect().await?;
        let leaders = session.election(path)?.observe();
        Ok(Self { session, leaders })
    }

    /// Waits until it is told of this leader, or that nobody leads.
    async fn told(&mut self, value: Option<&str>) -> anyhow::Result<()> {
        loop {
            let leader = self.leaders.next().await.context("an observer's session is over")?;
            if leader.as_ref().map(|leader| leader.value.as_str()) == value {
                return Ok(());
            }
        }
    }

    async fn close(self) -> anyhow::Result<()> {
        drop(self.leaders);
        Ok(self.session.close().await?)
    }
}

/// Waits until all of them are told.
async fn told(observers: &mut [Watcher], value: Option<&str>) -> anyhow::Result<()> {
    try_join_all(observers.iter_mut().map(|observer| observer.told(value))).await?;
    Ok(())
}
