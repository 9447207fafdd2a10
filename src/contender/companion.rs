//! Takes back the [companion](zklock_recipe::companion) of a contender whose own node has gone without it.

use std::convert::Infallible;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use zklock_recipe::Tries;
use zklock_recipe::companion::{Command, Event};

use super::procedure::{Course, Next, Performed, Procedure};
use crate::requests::{self, Companion};
use crate::zk::{Answer, Sent, Wire, ZkSession};

/// Takes it back in the session's background, unless it has gone or is being taken back. If the session ends first, it goes with
/// the session.
pub(super) fn take_back(session: &Arc<ZkSession>, companion: Arc<Companion>) {
    let taking = TakingBack { companion, session: session.clone(), tries: Tries::default() };
    let mut course = Course::begin(taking, Heard { event: Some(Event::Left), connection: None });
    if course.is_over() {
        return;
    }
    session.finish(async move { while course.outcome().await.is_some() {} }.boxed());
}

struct TakingBack {
    companion: Arc<Companion>,
    session: Arc<ZkSession>,
    tries: Tries,
}

/// What comes of a request, and the connection on which it was answered. Nothing comes once the session is over.
struct Heard {
    event: Option<Event>,
    connection: Option<u64>,
}

impl Procedure for TakingBack {
    type Heard = Heard;
    type Outcome = Infallible;

    const OUTLASTS_THE_SESSION: bool = false;

    fn take_in(&mut self, Heard { event, connection }: Heard) -> Performed<Heard, Infallible> {
        match event {
            Some(Event::Unanswered) => self.tries.failed(),
            _ => self.tries.answered(),
        }
        let command = event.and_then(|event| self.companion.handle(event));
        let next = command.map_or(Next::End, |command| Next::Request(self.perform(command, connection)));
        Performed { next, told: None }
    }

    /// Nobody but the session can drop it.
    fn give_up(&mut self) -> Performed<Heard, Infallible> {
        Performed { next: Next::End, told: None }
    }

    fn session(&self) -> &Arc<ZkSession> {
        &self.session
    }
}

impl TakingBack {
    /// The deletion goes out on the connection of the read, so little time lies between the two.
    fn perform(&self, command: Command, connection: Option<u64>) -> BoxFuture<'static, Heard> {
        let companion = self.companion.clone();
        let connection = connection.filter(|_| matches!(command, Command::Delete(_)));
        let request = move |Wire { client, .. }: Wire| async move {
            match command {
                Command::Read => requests::read_companion(&client, &companion.path).await,
                Command::Delete(version) => {
                    requests::delete_companion(&client, &companion.path, version).await
                }
            }
        };
        let heard = |answer| match answer {
            Answer::Given(event, Sent { connection, .. }) => {
                Heard { event: Some(event), connection: Some(connection) }
            }
            Answer::Lost => Heard { event: Some(Event::Unanswered), connection: None },
            Answer::Over(_) => Heard { event: None, connection: None },
        };
        self.session.ask(self.tries, connection, request).map(heard).boxed()
    }
}
