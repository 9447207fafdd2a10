//! A process of the simulated system: it connects, and its tasks contend until they are to finish.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use futures::future::{join_all, poll_fn};
use tokio::time::{sleep, timeout};
use world::{ProcessId, Random};
use zklock::Session;

use crate::history::{self, Kept, Who};
use crate::members::{self, Member};
use crate::trace::note;

/// What a process does.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// What its tasks contend for.
    pub member: Member,
    /// The connect string.
    pub servers: String,
    /// The session timeout that it asks for.
    pub timeout: Duration,
    /// The servers' tick.
    pub tick: Duration,
    /// How many tasks contend.
    pub tasks: u32,
    /// The longest pause between two acquisitions.
    pub think: Duration,
}

/// Runs until every task has finished.
pub(crate) async fn run(process: ProcessId, part: Part, mut random: Random) {
    let whos = (0..part.tasks).map(|task| Who { process, task });
    whos.clone().for_each(|who| history::doing(who, Some("it connects")));
    let session = loop {
        let builder = Session::builder(&part.servers).session_timeout(part.timeout).tick(part.tick);
        match builder.connect().await {
            Ok(session) => break session,
            Err(error) => note(world::current(), error),
        }
    };
    let tasks = whos.map(|who| tokio::spawn(contend(who, part.clone(), session.clone(), random.fork())));
    for task in join_all(tasks.collect::<Vec<_>>()).await {
        if let Err(error) = task {
            history::wrong(format!("a task of {} panicked: {error}", world::current()));
        }
    }
    if let Err(error) = session.close().await {
        note(world::current(), error);
    }
}

async fn contend(who: Who, part: Part, session: Session, mut random: Random) {
    loop {
        let is_last = history::is_ending();
        let held = turn(who, &part, &session, &mut random, is_last).await;
        if is_last && held {
            return history::doing(who, None);
        }
        history::doing(who, Some("it thinks"));
        let think = if is_last { Duration::from_millis(100) } else { part.think };
        sleep(random_part(&mut random, think)).await;
    }
}

/// One acquisition, and the hold behind it. Returns whether there was one.
async fn turn(who: Who, part: &Part, session: &Session, random: &mut Random, is_last: bool) -> bool {
    let endless = Duration::from_secs(100_000);
    let patience = match random.below(4) {
        _ if is_last => Some(endless),
        0 => None,
        1 => Some(random_part(random, part.timeout)),
        _ => Some(endless),
    };
    history::doing(who, Some("it acquires"));
    let call = members::acquire(part.member, session, random, patience);
    let mut call = pin!(call);
    // Some callers poll a few times and then do something else for a while.
    if !is_last && random.once_in(8) {
        let mut polls = random.between(1, 5);
        let first = poll_fn(|context| {
            polls -= 1;
            match call.as_mut().poll(context) {
                Poll::Pending if polls > 0 => Poll::Pending,
                polled => Poll::Ready(polled),
            }
        })
        .await;
        if let Poll::Ready(taken) = first {
            return hold(who, part, random, is_last, taken).await;
        }
        history::doing(who, Some("it does not poll its acquisition"));
        sleep(random_part(random, part.timeout * 2)).await;
        history::doing(who, Some("it acquires"));
    }
    // Some callers drop the call.
    if !is_last && random.once_in(8) {
        let limit = random_part(random, part.timeout);
        return match timeout(limit, call).await {
            Ok(taken) => hold(who, part, random, is_last, taken).await,
            Err(_) => false,
        };
    }
    let taken = call.await;
    hold(who, part, random, is_last, taken).await
}

async fn hold(
    who: Who,
    part: &Part,
    random: &mut Random,
    is_last: bool,
    taken: Result<Option<(zklock::AnyGuard, Vec<history::Claim>)>, zklock::AcquireError>,
) -> bool {
    let (guard, claims) = match taken {
        Ok(Some(taken)) => taken,
        Ok(None) => return false,
        Err(error) => {
            note(who, error);
            return false;
        }
    };
    if !guard.is_held() {
        note(who, "the guard was lost before its caller had it");
        return false;
    }
    let (token, lost) = (guard.token().zxid(), guard.lost());
    let guard: Kept = Arc::new(Mutex::new(Some(guard)));
    let number = history::granted(who, claims, token, &guard);
    history::doing(who, Some("it holds"));
    let longest = match random.below(8) {
        _ if is_last => Duration::from_millis(200),
        0 => part.timeout * 3,
        _ => part.timeout / 4,
    };
    tokio::select! {
        () = sleep(random_part(random, longest)) => {}
        reason = lost => history::lost(who, reason),
    }
    let Some(guard) = history::give_up(number) else { return true };
    if random.once_in(4) && !is_last {
        note(who, "drops its guard");
        drop(guard);
        return true;
    }
    history::doing(who, Some("it releases"));
    match guard.release().await {
        Ok(()) => note(who, "released"),
        Err(error) => note(who, error),
    }
    true
}

fn random_part(random: &mut Random, of: Duration) -> Duration {
    Duration::from_nanos(random.below(of.as_nanos() as u64))
}
