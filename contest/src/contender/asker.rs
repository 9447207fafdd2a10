//! Asks holders to let go, and hears of asks.

use std::time::Duration;

use fastrand::Rng;
use tokio::time::sleep;
use zklock::FencingToken;
use zklock::ask::{self, Answer, Ask, AskError, Asks};

use super::client::Client;
use super::place::Place;
use super::world::World;
use crate::record::{Event, Reply, Who};
use crate::request::{Request, value};

/// Begins to ask those who hold what is requested to let go, beside the acquisition. It waits for that, or goes early.
pub fn ask_holders<W: World>(who: Who, place: Place<W>, client: Client<W>, rng: Rng, request: Request) {
    drop(tokio::spawn(ask(who, place, client, rng, request)));
}

async fn ask<W: World>(who: Who, place: Place<W>, client: Client<W>, mut rng: Rng, request: Request) {
    let timeout = place.part.pace.timeout;
    sleep(timeout / 80).await;
    let Some(path) = request.asked_at(place.part.member) else { return };
    let within = timeout.mul_f64(0.025 + 0.35 * rng.f64());
    let patience = if rng.u32(..3) == 0 { within / 3 } else { Duration::MAX };
    // Once a stop is over, a task may make two asks at one instant.
    let ask = format!("{who}-{}", value(&mut rng));
    let request = ask::Request::new(&ask, within).owner(who.to_string());
    let answered = match client.ask(&path, request).await {
        Ok(None) => Ok(Reply::NobodyHolds),
        Ok(Some(asking)) => {
            let of = asking.holders().iter().filter_map(|it| it.token).map(FencingToken::zxid).collect();
            place.say(who, Event::AsksHolders { ask: ask.clone(), of });
            match tokio::time::timeout(patience, asking.answer()).await {
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
    place.say(who, Event::Answered { ask, reply });
}

/// The next ask that a holder hears of; `None` once it hears no more.
pub async fn next(asks: &mut Option<Asks>) -> Option<Ask> {
    let heard = asks.as_mut()?.next().await;
    if heard.is_none() {
        *asks = None;
    }
    heard
}
