//! Findings about the locks' queues: contenders of other clients.

use zklock::inspect::{ForeignClient, ForeignContender};

use super::found::Findings;
use crate::doctor::seen::{Holder, Queue, Seen};

pub(super) fn look(seen: &Seen, found: &mut Findings) {
    for queue in &seen.locks {
        foreign(queue, found);
        if let Some(missing) = &queue.missing {
            let advice = "if programs use this lock, compare the path and the chroot of --servers with the path and \
                          the chroot in these programs";
            found.note("path-missing", missing, advice);
        }
        if let Some(holder) = queue.holder.as_ref().filter(|holder| holder.waiting > 0) {
            waiting(queue, holder, found);
        }
    }
}

fn waiting(queue: &Queue, holder: &Holder, found: &mut Findings) {
    let (path, owner, came, session) = (&queue.path, &holder.owner, &holder.came, &holder.session);
    let wait = if holder.waiting == 1 {
        "1 contender waits".to_owned()
    } else {
        format!("{} contenders wait", holder.waiting)
    };
    found.note(
        "lock-waited-for",
        format!("{wait} at {path} for {owner}, in the queue since {came}, with session {session}"),
        format!(
            "if the holder hangs or is stopped, it keeps the lock for as long as its process has a session; end that \
             process, or run `zklock release --force {path}`"
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
    let such = format!("such as {node}; its name looks like {client}");
    let advice = "use only zklock at that path, or use another path; if the node is ephemeral, ZooKeeper deletes it \
                  when its session ends";
    if queue.contenders == 0 || waits(worst) {
        let what = format!(
            "{path} has {contenders} of another client, {such}. So no contender of zklock is granted the lock"
        );
        found.warning("foreign-contender", what, advice);
    } else {
        let what = format!(
            "{path} has contenders of zklock and {contenders} of another client, {such}. So two clients may hold the \
             lock at once"
        );
        found.danger("foreign-contender", what, advice);
    }
}
