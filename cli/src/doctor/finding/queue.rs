//! Findings about the locks' queues: contenders of other clients.

use zklock::inspect::{ForeignClient, ForeignContender};

use super::found::Findings;
use crate::doctor::seen::{Holder, Queue, Seen};

pub(super) fn look(seen: &Seen, found: &mut Findings) {
    for queue in &seen.locks {
        foreign(queue, found);
        if let Some(missing) = &queue.missing {
            let advice = "if the lock is in use at all, compare the path, and the chroot of --servers, with those of the programs that lock";
            found.note("path-missing", missing, advice);
        }
        if let Some(holder) = queue.holder.as_ref().filter(|holder| holder.waiting > 0) {
            waiting(queue, holder, found);
        }
    }
}

fn waiting(queue: &Queue, holder: &Holder, found: &mut Findings) {
    let (path, owner, came, session) = (&queue.path, &holder.owner, &holder.came, &holder.session);
    let wait = if holder.waiting == 1 { "1 waits".to_owned() } else { format!("{} wait", holder.waiting) };
    found.note(
        "lock-waited-for",
        format!("{wait} at {path} for {owner}, who came at {came}, by session {session}"),
        format!(
            "a holder that hangs or is stopped keeps the lock for as long as its process has a session: end that process, or run \
             `zklock release --force {path}`"
        ),
    );
}

fn foreign(queue: &Queue, found: &mut Findings) {
    // These clients wait for zklock's nodes, too. Of Curator's recipes the locks do; a `LeaderLatch` does not.
    let waits = |one: &ForeignContender| match one.client {
        ForeignClient::Go | ForeignClient::WriteLock => true,
        ForeignClient::Curator => one.path.rsplit('/').next().is_some_and(|name| name.contains("-lock-")),
        _ => false,
    };
    let Some(worst) = queue.foreign.iter().find(|one| !waits(one)).or(queue.foreign.first()) else { return };
    let (count, path, node, client) = (queue.foreign.len(), &queue.path, &worst.path, worst.client);
    let contenders = if count == 1 { "a contender" } else { "contenders" };
    let such = format!("(such as {node}, by its name {client})");
    let advice = "let every client at that path use zklock, or use another path; an ephemeral node is gone when its session ends";
    if queue.contenders == 0 || waits(worst) {
        let what = format!(
            "{contenders} of another client at {path} {such}: zklock grants the lock there to nobody"
        );
        found.warning("foreign-contender", what, advice);
    } else {
        let what = format!(
            "{contenders} of another client at {path} beside those of zklock {such}: two may hold the lock"
        );
        found.danger("foreign-contender", what, advice);
    }
}
