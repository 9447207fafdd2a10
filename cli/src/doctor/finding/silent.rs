//! What findings say of one that holds or waits: whether it lives.

use std::time::Duration;

use crate::doctor::seen::{Contact, Holder, Seen};
use crate::duration::text;

/// Says how many wait.
pub(super) fn waiting(number: usize) -> String {
    match number {
        0 => "nobody waits".to_owned(),
        1 => "1 contender waits".to_owned(),
        several => format!("{several} contenders wait"),
    }
}

/// Says when a server last answered it.
pub(super) fn heard(holder: &Holder) -> String {
    match &holder.contact {
        Contact::Heard { ago, by, .. } => format!("{by} answered it {} ago", text(*ago)),
        Contact::Gone => "no server of --servers has a connection of its session".to_owned(),
        Contact::Unknown(why) => format!("the servers do not say whether it lives ({why})"),
    }
}

/// Whether it may be stopped, cut off or dead. It may have its connection to a server that the connect string does not name.
pub(super) fn is_silent(seen: &Seen, holder: &Holder) -> bool {
    holder.contact.is_silent() && seen.members().len() <= seen.servers.len()
}

/// The advice about one that is silent, and what ZooKeeper does if it is dead.
pub(super) fn dead(seen: &Seen, holder: &Holder, then: &str) -> String {
    let tick = seen.session.map_or(Duration::ZERO, |session| session.tick);
    let left = holder.contact.expires_in(tick).map(|left| format!(" within {}", text(left)));
    format!(
        "look whether its process is stopped, or its machine cut off; if it is dead, ZooKeeper {then}{}, unless the \
         leader changes",
        left.unwrap_or_default()
    )
}
