//! Findings about the locks' queues: contenders of other clients.

use zklock::{ForeignClient, ForeignContender};

use super::found::Finding;
use crate::doctor::seen::{Queue, Seen};

pub(super) fn findings(seen: &Seen) -> impl Iterator<Item = Finding> {
    seen.locks.iter().filter_map(foreign)
}

fn foreign(queue: &Queue) -> Option<Finding> {
    // These clients wait for zklock's nodes, too. Of Curator's recipes the locks do; a `LeaderLatch` does not.
    let waits = |one: &ForeignContender| match one.client {
        ForeignClient::Go | ForeignClient::WriteLock => true,
        ForeignClient::Curator => one.path.rsplit('/').next().is_some_and(|name| name.contains("-lock-")),
        _ => false,
    };
    let worst = queue.foreign.iter().find(|one| !waits(one)).or(queue.foreign.first())?;
    let (count, path, node, client) = (queue.foreign.len(), &queue.path, &worst.path, worst.client);
    let contenders = if count == 1 { "a contender" } else { "contenders" };
    let advice = "let every client at that path use zklock, or use another path; an ephemeral node is gone when its session ends";
    Some(if queue.contenders == 0 || waits(worst) {
        let what = format!(
            "{contenders} of another client at {path} (such as {node}, by its name {client}): zklock grants the lock there to nobody"
        );
        Finding::warning("foreign-contender", what, advice)
    } else {
        let what = format!(
            "{contenders} of another client at {path} beside those of zklock (such as {node}, by its name {client}): two may hold the lock"
        );
        Finding::danger("foreign-contender", what, advice)
    })
}
