//! Findings about the locks' queues: who waits for whom, and contenders of other clients.

use zklock::inspect::{ForeignClient, ForeignContender};

use super::found::Findings;
use super::pool;
use super::silent::{dead, heard, is_silent, waiting};
use crate::doctor::seen::{Holder, Queue, Seen};
use crate::layout::Layout;

pub(super) fn look(seen: &Seen, found: &mut Findings) {
    for queue in &seen.locks {
        if let Some(layout) = queue.layout {
            shared(queue, layout, found);
        }
        foreign(queue, found);
        verdict(seen, queue, found);
    }
}

/// Says whether the lock is free, held by a holder that lives, or held by one that may not.
fn verdict(seen: &Seen, queue: &Queue, found: &mut Findings) {
    let path = &queue.path;
    if let Some(refused) = &queue.refused {
        let advice = "use the credentials of the programs that use this lock (--digest-file)";
        found.warning("path-forbidden", refused, advice);
    } else if let Some(other) = &queue.other {
        found.note("path-not-a-lock", format!("{path} {other}"), format!("run `zklock show {path}`"));
    } else if let Some(missing) = &queue.missing {
        let advice = "if programs use this lock, compare the path and the chroot of --servers with the path and \
                      the chroot in these programs";
        found.note("path-missing", missing, advice);
    } else if let Some(room) = &queue.pool {
        pool::look(seen, queue, room, found);
    } else if let Some(first) = queue.holders.first() {
        // One of several readers may be the silent one.
        let silent = queue.holders.iter().find(|holder| is_silent(seen, holder));
        held(seen, queue, silent.unwrap_or(first), found);
    } else if queue.foreign.is_empty() {
        found.note("lock-free", format!("nobody holds {path}"), "nothing is wrong with this lock");
    }
}

fn held(seen: &Seen, queue: &Queue, holder: &Holder, found: &mut Findings) {
    let (path, owner, came, session) = (&queue.path, &holder.owner, &holder.came, &holder.session);
    let wait = waiting(queue.waiting);
    let release = match holder.is_zklocks {
        true => format!(", or run `zklock release --force {path}`"),
        false => String::new(),
    };
    let heard = heard(holder);
    let what =
        format!("{wait} at {path} for {owner}, in the queue since {came}, with session {session}; {heard}");
    if is_silent(seen, holder) {
        found.warning("holder-silent", what, dead(seen, holder, "gives the lock away"));
    } else if queue.waiting > 0 {
        let advice = format!(
            "if the holder hangs, it keeps the lock for as long as its process has a session; end that process{release}"
        );
        found.note("lock-waited-for", what, advice);
    } else {
        found.note("lock-held", what, "nothing is wrong with this lock");
    }
}

fn shared(queue: &Queue, layout: Layout, found: &mut Findings) {
    let Queue { path, contenders, theirs, .. } = queue;
    let layout = layout.text();
    found.note(
        "shared-queue",
        format!(
            "{path} is a queue of the layout {layout}, with {contenders} contenders of zklock and {theirs} of the other client"
        ),
        format!(
            "each program that uses zklock there needs --layout {layout}, and a --takeover-delay for which a holder of \
             the other client may go on after its session has expired"
        ),
    );
}

fn foreign(queue: &Queue, found: &mut Findings) {
    // These clients wait for the nodes of zklock's own queue, too. Of Curator's recipes the locks do; a `LeaderLatch` does not.
    // Contenders of zklock with another layout refuse each other.
    let waits = |one: &ForeignContender| match one.client {
        ForeignClient::Zklock => true,
        ForeignClient::Go | ForeignClient::WriteLock => queue.layout.is_none(),
        ForeignClient::Curator => {
            queue.layout.is_none() && one.path.rsplit('/').next().is_some_and(|name| name.contains("-lock-"))
        }
        _ => false,
    };
    let Some(worst) = queue.foreign.iter().find(|one| !waits(one)).or(queue.foreign.first()) else { return };
    let (count, path, node, client) = (queue.foreign.len(), &queue.path, &worst.path, worst.client);
    let contenders = if count == 1 { "a contender" } else { "contenders" };
    let such = format!("such as {node}; its name looks like {client}");
    let mut advice =
        "use only zklock at that path, or use another path; if the node is ephemeral, ZooKeeper deletes it when its \
         session ends"
            .to_owned();
    if let (None, Some(layout)) = (queue.layout, worst.layout.and_then(Layout::of)) {
        let layout = layout.text();
        advice += &format!(
            "; if zklock shares the queue of that client, each program that uses zklock there needs --layout {layout}, and \
             so does `zklock doctor`"
        );
    }
    let is_kazoos = |one: &ForeignContender| one.client == ForeignClient::Kazoo;
    if queue.layout.is_none() && queue.contenders > 0 && queue.foreign.iter().any(is_kazoos) {
        advice += "; kazoo 2.8 or later waits for the nodes of zklock's own queue, too, if its locks are made with \
                   extra_lock_patterns=[\"lock-\"]; zklock does not contend beside them all the same";
    }
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
