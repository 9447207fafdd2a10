//! Takes back the [companion](zklock_recipe::companion) of a contender whose own node has gone without it.

use std::sync::Arc;

use futures::FutureExt;
use zklock_recipe::Tries;
use zklock_recipe::companion::{Command, Event};

use crate::requests::{self, Companion};
use crate::zk::{Answer, Wire, ZkSession};

/// Takes it back in the session's background, unless it has gone or is being taken back. If the session ends first, it goes with
/// the session.
pub(super) fn take_back(session: &Arc<ZkSession>, companion: Arc<Companion>) {
    let Some(mut command) = companion.handle(Event::Left) else { return };
    let (asked, mut tries, mut connection) = (session.clone(), Tries::default(), None);
    let taking = async move {
        loop {
            // The deletion goes out on the connection of the read, so little time lies between the two.
            let same = connection.take().filter(|_| matches!(command, Command::Delete(_)));
            let node = companion.clone();
            let request = move |Wire { client, .. }| async move {
                match command {
                    Command::Read => requests::read_companion(&client, &node.path).await,
                    Command::Delete(version) => {
                        requests::delete_companion(&client, &node.path, version).await
                    }
                }
            };
            let event = match asked.ask(tries, same, request).await {
                Answer::Given(event, sent) => {
                    connection = Some(sent.connection);
                    event
                }
                Answer::Lost => Event::Unanswered,
                Answer::Over(_) => return,
            };
            match event {
                Event::Unanswered => tries.failed(),
                _ => tries.answered(),
            }
            match companion.handle(event) {
                Some(next) => command = next,
                None => return,
            }
        }
    };
    session.finish(taking.boxed());
}
