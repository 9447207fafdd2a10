//! Findings about the locks' queues: contenders of other clients.

use zklock::inspect::{ForeignClient, ForeignContender};

use super::found::Finding;
use crate::doctor::seen::{Queue, Seen};

pub(super) fn findings(seen: &Seen) -> impl Iterator<Item = Finding> {
    seen.locks.iter().flat_map(|queue| [foreign(queue), missing(queue), waiting(queue)]).flatten()
}

fn missing(queue: &Queue) -> Option<Finding> {
    let advice = "if the lock is in use at all, compare the path, and the chroot of --servers, with those of the programs that lock";
    queue.missing.as_ref().map(|missing| Finding::note("path-missing", missing, advice))
}

fn waiting(queue: &Queue) -> Option<Finding> {
    let holder = queue.holder.as_ref().filter(|holder| holder.waiting > 0)?;
    let (path, owner, came, session) = (&queue.path, &holder.owner, &holder.came, &holder.session);
    let wait = if holder.waiting == 1 { "1 waits".to_owned() } else { format!("{} wait", holder.waiting) };
    Some(Finding::note(
        "lock-waited-for",
        format!("{wait} at {path} for {owner}, who came at {came}, by session {session}"),
        format!(
            "a holder that hangs or is stopped keeps the lock for as long as its process has a session: end that process, or run \
             `zklock release --force {path}`"
        ),
    ))
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
