//! A process of the simulated system: it connects, and its tasks contend until they are to finish.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use futures::future::{join_all, poll_fn};
use tokio::time::{sleep, timeout};
use world::{ProcessId, Random};
use zklock::Session;

use crate::history::{self, Kept, Stage, Who};
use crate::members::{self, Service};
use crate::part::Part;
use crate::trace::note;

/// Runs until every task has finished.
pub(crate) async fn run(process: ProcessId, part: Part, mut random: Random) {
    let whos = (0..part.tasks).map(|task| Who { process, task });
    whos.clone().for_each(|who| history::doing(who, Some("it connects")));
    let session = loop {
        let builder = Session::builder(&part.servers).tick(part.tick);
        let builder = if part.is_exact { builder.session_timeout(part.timeout) } else { builder };
        let builder = match part.drift {
            Some(drift) => builder.clock_drift(drift),
            None => builder,
        };
        match builder.connect().await {
            Ok(session) => break session,
            Err(error) => note(world::current(), error),
        }
        sleep(Duration::from_millis(100)).await;
    };
    let service = Service::new(session.clone(), &part);
    let tasks = whos.map(|who| tokio::spawn(contend(who, part.clone(), service.clone(), random.fork())));
    for task in join_all(tasks.collect::<Vec<_>>()).await {
        if let Err(error) = task {
            history::wrong(format!("a task of {} panicked: {error}", world::current()));
        }
    }
    while history::stage() < Stage::Eviction {
        sleep(part.timeout / 10).await;
    }
    let who = Who { process, task: part.tasks };
    if history::is_evicted(who) {
        while !evicted(who, &part, &service, &mut random).await {}
        history::doing(who, None);
    }
    // An operator looks at the tree while this session lives.
    while history::stage() < Stage::Close {
        sleep(part.timeout / 10).await;
    }
    if let Err(error) = session.close().await {
        note(world::current(), error);
    }
}

async fn contend(who: Who, part: Part, service: Service, mut random: Random) {
    loop {
        let is_last = history::stage() != Stage::Storm;
        let held = turn(who, &part, &service, &mut random, is_last).await;
        if is_last && held {
            return history::doing(who, None);
        }
        history::doing(who, Some("it thinks"));
        let think = if is_last { Duration::from_millis(100) } else { part.think };
        sleep(random_part(&mut random, think)).await;
    }
}

/// One acquisition, with a hold until that is lost. Returns whether it was.
async fn evicted(who: Who, part: &Part, service: &Service, random: &mut Random) -> bool {
    let endless = Some(Duration::from_secs(100_000));
    match members::acquire(who, part, service, random, endless, true).await {
        Ok(Some((guard, _))) => {
            history::doing(who, Some("an operator is to delete its node"));
            history::lost(who, guard.lost().await);
            true
        }
        Ok(None) => false,
        Err(error) => {
            note(who, error);
            false
        }
    }
}

/// One acquisition, and the hold behind it. Returns whether there was one.
async fn turn(who: Who, part: &Part, service: &Service, random: &mut Random, is_last: bool) -> bool {
    let endless = Duration::from_secs(100_000);
    let patience = match random.below(4) {
        _ if is_last => Some(endless),
        0 => None,
        1 => Some(random_part(random, part.timeout)),
        _ => Some(endless),
    };
    history::doing(who, Some("it acquires"));
    let call = members::acquire(who, part, service, random, patience, is_last);
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
        if part.is_prompt && part.member.is_given_at_once() {
            history::wrong(format!(
                "{who} has got a guard that was lost before, token {}",
                guard.token().zxid()
            ));
        }
        return false;
    }
    let (token, lost) = (guard.token(), guard.lost());
    let guard: Kept = Arc::new(Mutex::new(Some(guard)));
    let number = history::granted(who, claims, token, &guard);
    history::doing(who, Some("it holds"));
    let longest = match random.below(8) {
        _ if is_last => Duration::from_millis(200),
        0 => part.timeout * 3,
        _ => part.hold,
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
