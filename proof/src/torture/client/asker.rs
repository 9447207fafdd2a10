//! Asks holders to let go, and hears of asks.

use std::time::Duration;

use fastrand::Rng;
use tokio::time::{sleep, timeout};
use zklock::FencingToken;
use zklock::ask::{Answer, Ask, AskError, Asks, Request};

use super::contest::Contest;
use crate::harness::Instant;
use crate::torture::record::{Event, Reply, Who};
use crate::torture::wish::Wish;

/// How long a contender waits before it asks.
const PAUSE: Duration = Duration::from_millis(50);

/// Begins to ask those who hold what is wished for to let go, beside the acquisition. It waits for that, or goes early.
pub(super) fn ask_holders(who: Who, contest: Contest, rng: Rng, wish: Wish) {
    // If nobody hears what it says, the process ends anyway.
    drop(tokio::spawn(async move { ask(who, contest, rng, wish).await }));
}

async fn ask(who: Who, contest: Contest, mut rng: Rng, wish: Wish) -> anyhow::Result<()> {
    sleep(PAUSE).await;
    let Some(path) = wish.asked_at() else { return Ok(()) };
    let ask = format!("{who}-{}", Instant::now().0);
    let within = Duration::from_millis(rng.u64(100..1_500));
    let patience = if rng.u32(..3) == 0 { within / 3 } else { Duration::MAX };
    let request = Request::new(&ask, within).owner(who.to_string());
    let answered = match contest.ask(&path, request).await {
        Ok(None) => Ok(Reply::NobodyHolds),
        Ok(Some(asking)) => {
            let of = asking.holders().iter().filter_map(|it| it.token).map(FencingToken::zxid).collect();
            who.says(Event::AsksHolders { ask: ask.clone(), of })?;
            match timeout(patience, asking.answer()).await {
                Err(_) => Ok(Reply::TakenBack),
                Ok(Ok(Answer::LetGo)) => Ok(Reply::LetGo),
                Ok(answer) => answer.map(|_| Reply::TimeOver),
            }
        }
        Err(error) => Err(error),
    };
    let reply = answered.unwrap_or_else(|error| match error {
        AskError::Asked { .. } => Reply::AskedAlready,
        AskError::Query(_) => Reply::Unanswered,
        error => Reply::Refused(error.to_string()),
    });
    who.says(Event::Answered { ask, reply })
}

/// The next ask that a holder hears of; `None` once it hears no more.
pub(super) async fn next(asks: &mut Option<Asks>) -> Option<Ask> {
    let heard = asks.as_mut()?.next().await;
    if heard.is_none() {
        *asks = None;
    }
    heard
}
