//! Findings about each path: who holds what, whether that one lives, who waits, and contenders of other clients.

use zklock::inspect::{ForeignClient, ForeignContender, Kind};

use super::found::Findings;
use crate::doctor::seen::{Holder, Queue, Seen};
use crate::duration::text;
use crate::layout::Layout;
use crate::servers::Contact;
use crate::text::counted;

pub(super) fn find_in_queue(seen: &Seen, found: &mut Findings) {
    for queue in &seen.locks {
        if let Some(layout) = queue.layout {
            find_shared(queue, layout, found);
        }
        find_foreign(queue, found);
        if let Some(directory) = &queue.open {
            found.note(
                "open-directory",
                format!("every client may create nodes in {directory}, and so keep others from the lock, or end a guard"),
                "give the directory an ACL, for instance by --acl creator when it is created; docs/SECURITY.md has the rest",
            );
        }
        find_verdict(seen, queue, found);
    }
}

/// Says whether what is at the path is free, held by those that live, or kept by one that may not.
fn find_verdict(seen: &Seen, queue: &Queue, found: &mut Findings) {
    let path = &queue.path;
    if let Some(refused) = &queue.refused {
        let advice = "use the credentials of the programs that use this path";
        return found.warning("path-forbidden", refused, advice);
    }
    if let Some(missing) = &queue.missing {
        let advice = "if programs use this path, compare the path and the chroot of --servers with the path and \
                      the chroot in these programs";
        return found.note("path-missing", missing, advice);
    }
    let state = state_text(queue);
    let is_silent = |holder: &&Holder| holder.contact.is_silent() == Some(true);
    let silent = queue.holders.iter().find(is_silent);
    let first = queue.first.as_ref().filter(is_silent);
    if let Some(holder) = silent {
        // Of a lock it may be one of several readers.
        let number = queue.holders.iter().filter(is_silent).count();
        let more = match number {
            ..=1 => String::new(),
            2 => ". 1 more holder is silent".to_owned(),
            _ => format!(". {} more holders are silent", number - 1),
        };
        let what = format!("{state}. A holder is silent: {}{more}", holder_text(holder));
        found.warning("holder-silent", what, advice_if_dead(seen, holder, "gives its place away"));
    }
    if let Some(first) = first {
        let what = format!("{state}. Nobody passes the first in the turnstile: {}", holder_text(first));
        found.warning("waiter-silent", what, advice_if_dead(seen, first, "lets the next one pass"));
    }
    if silent.or(first).is_some() {
        return;
    }
    let total = queue.pool.as_ref().map(|room| u64::from(room.stock.total()));
    let has_room = queue.pool.as_ref().zip(total).is_some_and(|(room, total)| room.held < total);
    match (queue.holders.iter().min_by_key(|holder| holder.entry.sequence), &queue.first) {
        (_, Some(first)) if has_room => found.note(
            "path-waited-for",
            format!(
                "{state}. The first in the turnstile wants more than is free, or is just passing: {}",
                holder_text(first)
            ),
            format!(
                "if this stays so, end the process of the first, or look who holds most: `zklock show {path}`"
            ),
        ),
        (Some(oldest), _) if queue.waiting > 0 => {
            let number = oldest.entry.sequence.filter(|_| queue.pool.is_some());
            let number = number.map_or_else(String::new, |number| format!(" --sequence {number}"));
            let ask = match queue.layout {
                None => format!("ask it: `zklock ask --reason TEXT --within 5m{number} {path}`; then "),
                Some(_) => String::new(),
            };
            let release = if oldest.entry.client.is_none() {
                format!(
                    "; the last resort is `zklock release --force{number} {path}`: two may run for a moment then"
                )
            } else {
                String::new()
            };
            found.note(
                "path-waited-for",
                format!("{state}. The oldest holder: {}", holder_text(oldest)),
                format!("if it hangs, it keeps its place for as long as its process has a session; {ask}end that process{release}"),
            );
        }
        (Some(oldest), _) => {
            let what = format!("{state}. The oldest holder: {}", holder_text(oldest));
            found.note("path-held", what, "nothing is wrong with this path");
        }
        (None, _) if queue.foreign.is_empty() => {
            found.note("path-free", state, "nothing is wrong with this path");
        }
        (None, _) => {}
    }
}

fn state_text(queue: &Queue) -> String {
    let path = &queue.path;
    let wait = match queue.waiting {
        0 => "nobody waits".to_owned(),
        1 => "1 contender waits".to_owned(),
        several => format!("{several} contenders wait"),
    };
    match &queue.pool {
        Some(room) => {
            let are = if room.stock.total() == 1 { "is" } else { "are" };
            format!("{} of {path} {are} held, {wait}", room.stock.text(room.held))
        }
        None if queue.holders.is_empty() => format!("nobody holds {path}"),
        None => format!("{path} is held, {wait}"),
    }
}

/// Says who it is, what it has, since when it is there, and when a server last answered it.
fn holder_text(holder: &Holder) -> String {
    let Holder { entry, came, contact } = holder;
    let amount = match entry.kind {
        Kind::Slot(index) => format!(" with slot {index}"),
        Kind::Permit(weight) => format!(" with weight {weight}"),
        Kind::Exclusive | Kind::Shared => String::new(),
    };
    let heard = match contact {
        Contact::Heard { ago, by, but: None, .. } => format!("{by} answered it {} ago", text(*ago)),
        Contact::Heard { ago, by, but: Some(why), .. } => {
            format!("{by} answered it {} ago, and another server may have since ({why})", text(*ago))
        }
        Contact::Gone => "no server of --servers has a connection of its session".to_owned(),
        Contact::Unknown(why) => format!("the servers do not say whether it lives ({why})"),
    };
    let owner = entry.owner_text();
    let session = entry.session_text();
    format!("{owner}{amount}, in the queue since {came}, with session {session}; {heard}")
}

/// The advice about one that is silent, and what ZooKeeper does if it is dead.
fn advice_if_dead(seen: &Seen, holder: &Holder, then: &str) -> String {
    let left = seen.session.and_then(|own| {
        let left = text(holder.contact.expires_in(own.tick, own.timeout)?);
        Some(match holder.contact {
            Contact::Gone => {
                format!(" within {left} from now if its session timeout is {}", text(own.timeout))
            }
            Contact::Heard { .. } | Contact::Unknown(_) => format!(" within {left}"),
        })
    });
    format!(
        "look whether its process is stopped, or its machine cut off; if it is dead, ZooKeeper {then}{}, unless the \
         leader changes",
        left.unwrap_or_default()
    )
}

fn find_shared(queue: &Queue, layout: Layout, found: &mut Findings) {
    let Queue { path, contenders, theirs, .. } = queue;
    let layout = layout.text();
    found.note(
        "shared-queue",
        format!(
            "{path} is a queue of the layout {layout}, with {} of zklock and {theirs} of the other client",
            counted(*contenders, "contender")
        ),
        format!(
            "each program that uses zklock there needs --layout {layout}, and a --takeover-delay for which a holder of \
             the other client may go on after its session has expired"
        ),
    );
}

fn find_foreign(queue: &Queue, found: &mut Findings) {
    // These clients wait for the nodes of zklock's own queue, too. Of Curator's recipes the locks do; a `LeaderLatch` does not.
    // Contenders of zklock with another layout refuse each other. In kazoo's queue zklock's contenders have the names of its `Lock`,
    // and a `ReadLock` waits for these.
    let waits = |one: &ForeignContender| match one.client {
        ForeignClient::Zklock => true,
        ForeignClient::Kazoo => queue.layout == Some(Layout::Kazoo) && is_reader(one),
        ForeignClient::Go | ForeignClient::WriteLock => queue.layout.is_none(),
        ForeignClient::Curator => {
            queue.layout.is_none() && one.path.rsplit('/').next().is_some_and(|name| name.contains("-lock-"))
        }
        _ => false,
    };
    let Some(worst) = queue.foreign.iter().find(|one| !waits(one)).or(queue.foreign.first()) else { return };
    let path = &queue.path;
    let contenders = if queue.foreign.len() == 1 { "a contender" } else { "contenders" };
    let such = format!("such as {}; its name looks like {}", worst.path, worst.client);
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
            "{path} has {contenders} of another client, {such}. So no contender of zklock is granted {path}"
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

/// Whether this is a reader of kazoo's with a number as servers give it. A reader with a negative number, of a server from before
/// 3.9, passes all others.
fn is_reader(kazoo: &ForeignContender) -> bool {
    kazoo.path.rsplit_once("__rlock__").is_some_and(|(_, number)| !number.starts_with('-'))
}
