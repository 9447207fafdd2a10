//! What a session does in the background for as long as somebody uses it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError, Weak};

use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::{Answer, Generation, Holder, LATEST, LOOKS, SETTLING, Stray};
use crate::lock::Settings;
use crate::session::connections::Link;
use crate::session::wire;

/// Touches the session every heartbeat, and on each new connection, by a sync; then confirms it by a quorum write while it
/// has a guard. So much a session, however many guards and waiters it has.
///
/// The write asks for the node of one guard, of another one each time. Its holder watches that node, but a server withholds
/// the end of a node that the holder may not read any more.
pub(super) async fn beat(generation: Weak<Generation>, mut link: watch::Receiver<Link>) {
    let Some(hurry) = generation.upgrade().map(|generation| generation.hurry.clone()) else { return };
    let (mut last, mut asked) = (Instant::now(), 0);
    loop {
        let Some(heartbeat) = generation.upgrade().map(|generation| generation.lengths().heartbeat) else {
            return;
        };
        // Whichever comes first; the cleanup task awaits this, inside its runtime.
        tokio::select! {
            () = tokio::time::sleep_until(last + heartbeat) => {}
            changed = link.changed() => if changed.is_err() { return },
            () = hurry.notified() => {}
        }
        // From when it is sent: an answer that took long must not delay the next one.
        last = Instant::now();
        let Some(sync) =
            generation.upgrade().map(|generation| generation.request(|wire| wire::sync(wire.client)))
        else {
            return;
        };
        let sent = match sync.await {
            Answer::Given(true, sent) => sent,
            Answer::Given(false, _) | Answer::Lost => continue,
            Answer::Over(_) => return,
        };
        let Some(generation) = generation.upgrade() else { return };
        generation.vitals.synced(sent);
        let Some((key, node, holder)) = generation.next_held(asked) else { continue };
        let vitals = generation.vitals.clone();
        let confirmation = generation.request(|wire| wire::heartbeat(wire.client, node));
        drop(generation);
        if let Answer::Given(Some(is_there), sent) = confirmation.await {
            vitals.confirmed(sent);
            asked = key;
            if !is_there && let Some(holder) = holder.upgrade() {
                holder.node_is_gone();
            }
        }
    }
}

/// Looks every little while whether a young guard has come of age, until there is none.
pub(super) async fn settle(generation: Weak<Generation>) {
    loop {
        // The cleanup task awaits this, inside its runtime.
        tokio::time::sleep(SETTLING).await;
        let Some(generation) = generation.upgrade() else { return };
        let mut due = Vec::new();
        let mut young = generation.young.lock().unwrap_or_else(PoisonError::into_inner);
        young.retain(|guard| match guard.upgrade() {
            Some(guard) if guard.is_due() => {
                due.push(guard);
                false
            }
            Some(_) => true,
            None => false,
        });
        let done = young.is_empty();
        // A guard that is released meanwhile must not find this lock taken.
        drop(young);
        due.into_iter().filter_map(Holder::settle).for_each(|guard| generation.keep(guard));
        if done {
            return;
        }
    }
}

/// Looks at all drivers that callers poll now and then.
pub(super) async fn patrol(generation: Weak<Generation>) {
    while let Some(pause) = generation.upgrade().map(|generation| generation.lengths().timeout / LOOKS) {
        // The cleanup task awaits this, inside its runtime.
        tokio::time::sleep(pause).await;
        let Some(generation) = generation.upgrade() else { return };
        // One that begins or ends meanwhile must not find this lock taken.
        let mut looked = std::mem::take(&mut *generation.looked());
        looked.retain(|driver| driver.upgrade().is_some_and(|driver| driver.look()));
        generation.looked().append(&mut looked);
    }
}

/// Looks for nodes that came to be late, whenever a connection comes or goes and once a session timeout, until none can any
/// more.
pub(super) async fn sweep(generation: Weak<Generation>, mut link: watch::Receiver<Link>) {
    link.mark_unchanged();
    while let Some(pause) = generation.upgrade().map(|generation| generation.lengths().timeout) {
        // The cleanup task awaits this, inside its runtime.
        let _either = timeout(pause, link.changed()).await;
        let Some(strays) = generation.upgrade().map(|generation| generation.strays().clone()) else { return };
        let mut directories = HashMap::<_, (Arc<Settings>, Vec<Stray>)>::new();
        for stray in strays {
            let lock = stray.lock.clone();
            directories.entry(lock.path.to_string()).or_insert_with(|| (lock, Vec::new())).1.push(stray);
        }
        let began = Instant::now();
        let mut done = HashSet::new();
        for (lock, strays) in directories.into_values() {
            let ids = strays.iter().map(|stray| stray.id).collect();
            let Some(swept) = generation
                .upgrade()
                .map(|generation| generation.request(|wire| wire::sweep(wire.client, lock, ids)))
            else {
                return;
            };
            match swept.await {
                Answer::Given(Some(gone), _) => {
                    done.extend(gone);
                    // A node that comes to be after this look is not looked for.
                    let late = |stray: &&Stray| began - stray.since >= LATEST;
                    done.extend(strays.iter().filter(late).map(|stray| stray.id));
                }
                Answer::Given(None, _) | Answer::Lost => {}
                Answer::Over(_) => return,
            }
        }
        let Some(generation) = generation.upgrade() else { return };
        let mut strays = generation.strays();
        strays.retain(|stray| !done.contains(&stray.id));
        if strays.is_empty() {
            return;
        }
    }
}
