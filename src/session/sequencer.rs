//! Checks whether a holder still has its lock.

use std::sync::Arc;

use futures::future::join;
use zklock_recipe::transaction::UNTOUCHED;
use zklock_recipe::{Event, Refusal};
use zookeeper_client::{Client, Error};

use crate::error::QueryError;
use crate::fence::Sequencer;
use crate::requests::{check, failure};
use crate::zk::{Answer, Succession};

/// Asks a quorum whether the holder still has its lock.
pub(super) async fn verify_sequencer(
    succession: &Succession,
    sequencer: &Sequencer,
) -> Result<(), QueryError> {
    let asked = sequencer.clone();
    let answer =
        succession.patiently(succession.present().requester().request(|wire| look(wire.client, asked))).await;
    let path = sequencer.node();
    let answer = match answer {
        Ok(answer) => answer,
        Err(waited) => return Err(QueryError::Unanswered { path, waited }),
    };
    Err(match answer {
        Answer::Given(Ok(()), _) => return Ok(()),
        Answer::Given(Err(Event::OwnTouched), _) => QueryError::Outdated { sequencer: sequencer.clone() },
        Answer::Given(Err(Event::Refused(Refusal::NotAuthorized)), _) => QueryError::NotAuthorized { path },
        Answer::Given(Err(Event::Refused(refusal)), _) => {
            QueryError::Refused { path, cause: refusal.to_string() }
        }
        _ if succession.event().state.is_final() => QueryError::SessionOver { path },
        _ => QueryError::Disconnected { path },
    })
}

/// Sends a check and a read. The check is a write, so only a quorum can acknowledge it, but it names the node by path
/// and version only. The read that follows distinguishes the node from an earlier or later one of the same name. A
/// server handles the requests of one session in order, and a session never moves to a server that knows less than the
/// session has seen. So the read is not older than the check.
async fn look(client: Arc<Client>, sequencer: Sequencer) -> Result<(), Event> {
    // This never fails: "/" is a valid path.
    let root = Client::clone(&client).chroot("/").unwrap_or_else(|unchanged| unchanged);
    let node = sequencer.node();
    let read = async { root.get_data(&node).await };
    match join(check(&root, &node, Some(UNTOUCHED)), read).await {
        (Ok(()), Ok((_, stat))) => {
            let stands = stat.czxid == sequencer.token().zxid()
                && stat.ephemeral_owner == sequencer.session()
                && stat.version == UNTOUCHED;
            stands.then_some(()).ok_or(Event::OwnTouched)
        }
        (Ok(()), Err(Error::NoNode)) => Err(Event::OwnTouched),
        (Ok(()), Err(error)) => Err(failure(error)),
        (unconfirmed, _) => unconfirmed,
    }
}
