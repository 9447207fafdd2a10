//! Findings about semaphores and slots: who keeps others waiting.

use super::found::Findings;
use super::silent::{dead, heard, is_silent, waiting};
use crate::doctor::seen::{Contact, Holder, Queue, Room, Seen};
use crate::pool::{Amount, Stock};

/// Of more silent holders than this, the others are counted.
const NAMED: usize = 3;

pub(super) fn look(seen: &Seen, queue: &Queue, room: &Room, found: &mut Findings) {
    let path = &queue.path;
    let one = match room.stock {
        Stock::Semaphore { .. } => "permit",
        Stock::Slots { .. } => "slot",
    };
    let silent = queue.holders.iter().filter(|holder| is_silent(seen, holder)).collect::<Vec<_>>();
    if let Some(first) = silent.first() {
        let mut what = silent.iter().take(NAMED).map(|holder| holds(path, holder)).collect::<Vec<_>>();
        if silent.len() > NAMED {
            what.push(format!("{} more holders are silent", silent.len() - NAMED));
        }
        found.warning("holder-silent", what.join(". "), dead(seen, first, &format!("gives the {one} away")));
    }
    if let Some(first) = room.first.as_ref().filter(|first| is_silent(seen, first)) {
        let what = format!(
            "{} is the first of {} in the turnstile of {path}, and nobody passes it; it came at {}, with session {}; {}",
            first.owner,
            queue.waiting,
            first.came,
            first.session,
            heard(first)
        );
        found.warning("waiter-silent", what, dead(seen, first, "lets the next one pass"));
    }
    if let Some(stranger) = room.foreign.first() {
        found.warning(
            "foreign-contender",
            format!(
                "the turnstile of {path} has {} nodes of other clients, such as {}; its name looks like {}. So nobody is \
                 granted a {one}",
                room.foreign.len(),
                stranger.node,
                stranger.client
            ),
            "use only zklock at that path, or use another path; if the node is ephemeral, ZooKeeper deletes it when its \
             session ends",
        );
    }
    verdict(queue, room, one, found);
}

fn verdict(queue: &Queue, room: &Room, one: &str, found: &mut Findings) {
    let (path, total) = (&queue.path, u64::from(room.stock.total()));
    let held = format!("{} of {path} are held, {}", room.stock.text(room.held), waiting(queue.waiting));
    let unknown = queue.holders.iter().find_map(|holder| match &holder.contact {
        Contact::Unknown(why) => Some(format!("; the servers do not say whether each holder lives ({why})")),
        _ => None,
    });
    let unknown = unknown.unwrap_or_default();
    let oldest = queue.holders.iter().min_by_key(|holder| holder.sequence);
    let is_full = room.held >= total;
    match (oldest, &room.first) {
        (Some(oldest), Some(_)) if is_full => {
            let number = oldest.sequence.map_or_else(String::new, |number| format!(" --sequence {number}"));
            let more = if room.held > total { ". Nobody is admitted until less is held" } else { "" };
            found.note(
                "pool-waited-for",
                format!("{held}{more}. The oldest: {}{unknown}", holds(path, oldest)),
                format!(
                    "if a holder hangs, it keeps its {one} for as long as its process has a session; end that process, or \
                     run `zklock release --force{number} {path}`; if all of them work, run `zklock resize {path} NUMBER`"
                ),
            );
        }
        (_, Some(_)) if !room.foreign.is_empty() => found.note(
            "pool-waited-for",
            format!("{held}{unknown}"),
            "nobody passes the turnstile while a node of another client is in it",
        ),
        (_, Some(first)) => found.note(
            "pool-waited-for",
            format!(
                "{held}, though {} are free. The first in the turnstile, {}, wants more than that, or is just passing. \
                 The others wait behind it{unknown}",
                total.saturating_sub(room.held),
                first.owner
            ),
            format!("if this stays so, end the process of the first, or look who holds most: `zklock show {path}`"),
        ),
        (Some(_), None) if is_full => found.note(
            "pool-full",
            format!("{held}{unknown}"),
            format!("nothing is wrong; the next contender waits until a {one} is released"),
        ),
        (Some(_), None) => found.note("pool-held", format!("{held}{unknown}"), "nothing is wrong"),
        (None, None) => found.note("pool-free", held, "nothing is wrong"),
    }
}

/// Says what it holds, since when, and whether it lives.
fn holds(path: &str, holder: &Holder) -> String {
    let (owner, came, session) = (&holder.owner, &holder.came, &holder.session);
    let amount = match holder.amount {
        Some(Amount::Index(index)) => format!("slot {index}"),
        Some(Amount::Weight(weight)) => format!("a permit of weight {weight}"),
        None => "the lock".to_owned(),
    };
    format!(
        "{owner} holds {amount} of {path}, where it came at {came}, with session {session}; {}",
        heard(holder)
    )
}
