//! Takes back the [companion](zklock_recipe::companion) of a contender whose own node has gone without it.

use std::sync::Arc;

use futures::FutureExt;
use tracing::debug;
use zklock_recipe::Tries;
use zklock_recipe::companion::{CompanionCommand, CompanionEvent};

use crate::requests::{self, SharedCompanion};
use crate::wire::{LinkAnswer, Wire};
use crate::zk::ZkSession;

/// Takes it back in the session's background, unless it has gone or is being taken back. If the session ends first, it goes with
/// the session.
pub(super) fn take_back(session: &Arc<ZkSession>, companion: Arc<SharedCompanion>) {
    let Some(mut command) = companion.handle(CompanionEvent::Left) else { return };
    debug!("a contender's node has gone without its companion, so zklock takes the companion back");
    let asked = session.clone();
    let mut tries = Tries::default();
    let mut connection = None;
    let taking = async move {
        loop {
            // The deletion goes out on the connection of the read, so little time lies between the two.
            let same = connection.take().filter(|_| matches!(command, CompanionCommand::Delete(_)));
            let node = companion.clone();
            let request = move |Wire { client, .. }| async move {
                match command {
                    CompanionCommand::Read => requests::read_companion(&client, &node.path).await,
                    CompanionCommand::Delete(version) => {
                        requests::delete_companion(&client, &node.path, version).await
                    }
                }
            };
            let event = match asked.request_after(tries, same, request).await {
                LinkAnswer::Given(event, sent) => {
                    connection = Some(sent.connection);
                    event
                }
                LinkAnswer::Lost => CompanionEvent::Unanswered,
                LinkAnswer::Over(_) => return,
            };
            match event {
                CompanionEvent::Unanswered => tries.failed(),
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
