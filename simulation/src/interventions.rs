//! What an operator has done to the nodes of contenders, as far as the checks have to know.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use zklock_contest::record::Who;

struct Resize {
    capacity: u32,
    /// The pool had this zxid before the change, and that one with it. In between, nobody knows which of them counts.
    zxids: (i64, i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ended {
    /// A node, by its token.
    Node(i64),
    Session(i64),
}

/// Who has been in the queue for long enough to know that a contender is there.
#[derive(Clone, Default)]
pub(crate) struct Others {
    /// Their tokens.
    pub(crate) tokens: BTreeSet<i64>,
    /// Those in the turnstile, who asked before this instant. Their permits will have other tokens.
    pub(crate) in_turnstile: (u64, BTreeSet<Who>),
}

#[derive(Default)]
struct Interventions {
    /// What may be ended, and who was there long before.
    ended: BTreeMap<Ended, Others>,
    /// When it was confirmed that the node with this token was written to.
    written: BTreeMap<i64, u64>,
    resizes: Vec<Resize>,
}

thread_local! {
    static INTERVENTIONS: RefCell<Interventions> = RefCell::default();
}

/// Forgets what operators have done.
pub(crate) fn begin() {
    drop(INTERVENTIONS.take());
}

/// Something of this contender is about to be ended by an operator.
pub(crate) fn ending(what: Ended, others: Others) {
    INTERVENTIONS.with_borrow_mut(|it| {
        // Nobody knows which of several acts took effect.
        let all = it.ended.entry(what).or_insert_with(|| others.clone());
        all.tokens.retain(|other| others.tokens.contains(other));
        all.in_turnstile.0 = all.in_turnstile.0.min(others.in_turnstile.0);
        all.in_turnstile.1.retain(|other| others.in_turnstile.1.contains(other));
    });
}

/// Whether a contender with this token, which asked at this instant, may be granted beside a guard: an operator has ended the node of
/// the guard, or its session, and the contender has come to an empty place. Nobody promises more. A contender of another client has no
/// token, and never a delay.
pub(crate) fn is_excused(guard: [Ended; 2], granted: Option<i64>, who: Who, asked: u64) -> bool {
    INTERVENTIONS.with_borrow(|it| {
        let others = guard.iter().find_map(|what| it.ended.get(what));
        others.is_some_and(|Others { tokens, in_turnstile: (since, waiting) }| {
            granted.is_none_or(|granted| !tokens.contains(&granted))
                && !(asked < *since && waiting.contains(&who))
        })
    })
}

/// Whether an operator may have ended the node of a guard, or its session.
pub(crate) fn is_ended(guard: [Ended; 2]) -> bool {
    INTERVENTIONS.with_borrow(|it| guard.iter().any(|what| it.ended.contains_key(what)))
}

/// It is confirmed that an operator has written to the node with this token.
pub(crate) fn written(token: i64) {
    INTERVENTIONS.with_borrow_mut(|it| _ = it.written.entry(token).or_insert(world::now()));
}

/// Whether that was confirmed before this instant.
pub(crate) fn was_written_before(token: i64, instant: u64) -> bool {
    INTERVENTIONS.with_borrow(|it| it.written.get(&token).is_some_and(|written| *written < instant))
}

/// An operator has written another capacity. The pool had these zxids before, and with it.
pub(crate) fn resized(capacity: u32, zxids: (i64, i64)) {
    INTERVENTIONS.with_borrow_mut(|it| {
        it.resizes.push(Resize { capacity, zxids });
        it.resizes.sort_by_key(|resize| resize.zxids.1);
    });
}

/// The capacity that the last change has left, if there was one.
pub(crate) fn capacity() -> Option<u32> {
    INTERVENTIONS.with_borrow(|it| Some(it.resizes.last()?.capacity))
}

/// Whether a permit with this token may have been admitted while the capacity was so large. `first` is the capacity before all
/// changes.
pub(crate) fn may_be_admitted(token: i64, capacity: u32, first: u32) -> bool {
    INTERVENTIONS.with_borrow(|it| {
        let last = it.resizes.iter().rfind(|resize| resize.zxids.1 <= token);
        let open = it.resizes.iter().filter(|resize| resize.zxids.0 < token && token < resize.zxids.1);
        last.map_or(first, |resize| resize.capacity) == capacity
            || open.into_iter().any(|resize| resize.capacity == capacity)
    })
}
