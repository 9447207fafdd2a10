//! Findings about the locks' queues: who waits for whom, and contenders of other clients.

use zklock::inspect::{ForeignClient, ForeignContender};

use super::found::Findings;
use crate::doctor::seen::{Holder, Queue, Seen};
use crate::layout::Layout;

pub(super) fn look(seen: &Seen, found: &mut Findings) {
    for queue in &seen.locks {
        if let Some(layout) = queue.layout {
            shared(queue, layout, found);
        }
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
    let release = match holder.is_zklocks {
        true => format!(", or run `zklock release --force {path}`"),
        false => String::new(),
    };
    found.note(
        "lock-waited-for",
        format!("{wait} at {path} for {owner}, in the queue since {came}, with session {session}"),
        format!(
            "if the holder hangs or is stopped, it keeps the lock for as long as its process has a session; end that \
             process{release}"
        ),
    );
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
