//! What an operator has done to the nodes of contenders, as far as the checks have to know.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// One change of a semaphore's capacity.
struct Resize {
    capacity: u32,
    /// The pool had this zxid before the change, and that one with it. In between, nobody knows which of them counts.
    zxids: (i64, i64),
}

#[derive(Default)]
struct Interventions {
    /// The contenders whose nodes may be deleted, by token, and who was in their queue long before.
    deleted: BTreeMap<i64, BTreeSet<i64>>,
    resizes: Vec<Resize>,
}

thread_local! {
    static INTERVENTIONS: RefCell<Interventions> = RefCell::default();
}

/// Begins anew.
pub(crate) fn begin() {
    drop(INTERVENTIONS.take());
}

/// An operator is about to delete the node of this contender. These others have been in the queue for long enough to know that
/// it is there.
pub(crate) fn deleting(token: i64, others: impl IntoIterator<Item = i64>) {
    let others = others.into_iter().collect::<BTreeSet<_>>();
    INTERVENTIONS.with_borrow_mut(|it| {
        // Nobody knows which of several deletions took effect.
        let all = it.deleted.entry(token).or_insert_with(|| others.clone());
        all.retain(|other| others.contains(other));
    });
}

/// Whether a contender with this token may be granted beside a guard of that one: an operator has deleted the node of the guard, and
/// the contender has come to an empty place. Nobody promises more.
pub(crate) fn is_excused(guard: i64, granted: i64) -> bool {
    INTERVENTIONS.with_borrow(|it| it.deleted.get(&guard).is_some_and(|others| !others.contains(&granted)))
}

/// Whether an operator may have deleted the node with this token.
pub(crate) fn is_deleted(token: i64) -> bool {
    INTERVENTIONS.with_borrow(|it| it.deleted.contains_key(&token))
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
