//! Semaphores and slots: whether a wish fits beside the permits that are there.
//!
//! A semaphore and a set of slots are both a *pool*: a directory whose data says how much it has, and whose children are
//! the permits that are held. An acquisition first holds the pool's turnstile, a lock. Only then does it read the pool: the data with its version, and *after* that the children. [`rule`] decides by these. If the wish is admitted, one
//! transaction creates the permit and writes to the pool under that version.
//!
//! # Why the capacity is never exceeded
//!
//! 1. Each permit is created by a transaction that also writes to the pool. So the version changes with each permit that is
//!    added, and a transaction under the version `v` fails if a permit was added since the pool had the version `v`.
//! 2. The children were listed when the pool had the version `v`, or later. So each permit that is there when the
//!    transaction commits was in the listing: a later permit would have changed the version.
//! 3. A permit that is gone since the listing only lowers the sum.
//! 4. The data was read together with `v`. So a change of the capacity changes the version, too.
//!
//! The turnstile does not appear in this argument. It makes the order fair, and it makes an admission happen once: the
//! transaction deletes the turnstile's node. So of several transactions of one acquisition, of which some may come late,
//! one takes effect, as long as that node's name is not given again.

use alloc::collections::BTreeSet;

use crate::contender::{Kind, Place};

/// How much a pool has, and of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stock {
    /// A semaphore: permits whose weights add up to this capacity at most.
    Permits(u32),
    /// Slots: one for each index below this number.
    Slots(u32),
}

/// What an acquisition wants of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wish {
    /// A permit of this weight, whole or not at all.
    Permit(u32),
    /// A slot: the one with this index if it is free, and else the free one with the lowest index.
    Slot(Option<u32>),
}

/// Whether a wish fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ruling {
    /// It fits. The node is of this kind.
    Admit(Kind),
    /// It fits once enough of the permits are gone.
    Wait,
    /// It does not belong into this pool.
    Refuse(Misfit),
}

/// Why a wish does not belong into a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Misfit {
    /// The pool has this, and the acquisition states something else.
    Stock(Stock),
    /// The wish is for more than the pool has.
    TooLarge,
    /// The pool has permits and slots at the same time. Somebody has changed its data by hand.
    Mixed,
}

/// Decides whether a wish fits into a pool that has `found`, beside these children. `stated` is what the acquisition
/// believes the pool to have. Children with other names are passed over.
pub fn rule<S: AsRef<str>>(children: &[S], found: Stock, stated: Stock, wish: Wish) -> Ruling {
    if found != stated {
        return Ruling::Refuse(Misfit::Stock(found));
    }
    let kinds = || children.iter().filter_map(|name| Some(Place::parse_permit(name.as_ref())?.kind));
    match (found, wish) {
        (Stock::Permits(capacity), Wish::Permit(weight)) => {
            let mut taken = u64::from(weight);
            for kind in kinds() {
                let Kind::Permit(weight) = kind else { return Ruling::Refuse(Misfit::Mixed) };
                taken += u64::from(weight);
            }
            match () {
                () if weight == 0 || weight > capacity => Ruling::Refuse(Misfit::TooLarge),
                () if taken <= u64::from(capacity) => Ruling::Admit(Kind::Permit(weight)),
                () => Ruling::Wait,
            }
        }
        (Stock::Slots(count), Wish::Slot(preferred)) => {
            let mut taken = BTreeSet::new();
            for kind in kinds() {
                let Kind::Slot(index) = kind else { return Ruling::Refuse(Misfit::Mixed) };
                taken.insert(index);
            }
            if count == 0 || preferred.is_some_and(|index| index >= count) {
                return Ruling::Refuse(Misfit::TooLarge);
            }
            // Their number was larger, and slots above the present one are held.
            if u32::try_from(taken.len()).is_ok_and(|taken| taken >= count) {
                return Ruling::Wait;
            }
            let free = |index: &u32| !taken.contains(index);
            let index = preferred.filter(free).or_else(|| (0..count).find(free));
            index.map_or(Ruling::Wait, |index| Ruling::Admit(Kind::Slot(index)))
        }
        _ => Ruling::Refuse(Misfit::Stock(found)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foreign::{Child, ForeignClient};

    fn permit(children: &[&str], capacity: u32, weight: u32) -> Ruling {
        let stock = Stock::Permits(capacity);
        rule(children, stock, stock, Wish::Permit(weight))
    }

    fn slot(children: &[&str], count: u32, preferred: Option<u32>) -> Ruling {
        rule(children, Stock::Slots(count), Stock::Slots(count), Wish::Slot(preferred))
    }

    #[test]
    fn weights_are_granted_whole_or_not_at_all() {
        let children = ["permit-2-0000000000", "permit-1-0000000003"];
        assert_eq!(permit(&[], 4, 4), Ruling::Admit(Kind::Permit(4)));
        assert_eq!(permit(&children, 4, 1), Ruling::Admit(Kind::Permit(1)));
        assert_eq!(permit(&children, 4, 2), Ruling::Wait);
        assert_eq!(permit(&children[1..], 4, 3), Ruling::Admit(Kind::Permit(3)));
    }

    /// A lower capacity leaves the permits that are held.
    #[test]
    fn more_may_be_held_than_there_is_by_now() {
        let children = ["permit-3-0000000000", "permit-3-0000000001"];
        assert_eq!(permit(&children, 4, 1), Ruling::Wait);
        assert_eq!(permit(&children[1..], 4, 1), Ruling::Admit(Kind::Permit(1)));
    }

    #[test]
    fn sums_do_not_overflow() {
        let children = ["permit-4294967295-0000000000", "permit-4294967295-0000000001"];
        assert_eq!(permit(&children, u32::MAX, u32::MAX), Ruling::Wait);
    }

    #[test]
    fn what_can_never_fit_is_refused() {
        for weight in [0, 5] {
            assert_eq!(permit(&[], 4, weight), Ruling::Refuse(Misfit::TooLarge), "{weight}");
        }
        assert_eq!(slot(&[], 2, Some(2)), Ruling::Refuse(Misfit::TooLarge));
        assert_eq!(slot(&[], 0, None), Ruling::Refuse(Misfit::TooLarge));
    }

    /// A lower number leaves the slots that are held, and they count.
    #[test]
    fn slots_above_their_number_count() {
        let children = ["slot-2-0000000000", "slot-3-0000000001"];
        assert_eq!(slot(&children, 2, None), Ruling::Wait);
        assert_eq!(slot(&children[1..], 2, Some(1)), Ruling::Admit(Kind::Slot(1)));
    }

    #[test]
    fn a_slot_is_the_preferred_one_or_the_lowest_free_one() {
        let children = ["slot-0-0000000000", "slot-2-0000000001"];
        assert_eq!(slot(&children, 4, None), Ruling::Admit(Kind::Slot(1)));
        assert_eq!(slot(&children, 4, Some(3)), Ruling::Admit(Kind::Slot(3)));
        assert_eq!(slot(&children, 4, Some(2)), Ruling::Admit(Kind::Slot(1)));
        assert_eq!(slot(&["slot-0-0000000000", "slot-1-0000000007"], 2, Some(1)), Ruling::Wait);
    }

    #[test]
    fn another_stock_is_refused() {
        let (four, slots) = (Stock::Permits(4), Stock::Slots(4));
        let refused = |found| Ruling::Refuse(Misfit::Stock(found));
        assert_eq!(rule::<&str>(&[], four, Stock::Permits(5), Wish::Permit(1)), refused(four));
        assert_eq!(rule::<&str>(&[], slots, four, Wish::Permit(1)), refused(slots));
        assert_eq!(rule::<&str>(&[], four, slots, Wish::Slot(None)), refused(four));
        assert_eq!(rule::<&str>(&[], four, four, Wish::Slot(None)), refused(four));
    }

    #[test]
    fn a_mixed_pool_is_refused() {
        let mixed = Ruling::Refuse(Misfit::Mixed);
        assert_eq!(permit(&["slot-0-0000000000"], 4, 1), mixed);
        assert_eq!(slot(&["permit-1-0000000000"], 4, None), mixed);
    }

    #[test]
    fn names_are_in_the_servers_own_spelling() {
        for name in ["permit-3-0000000042", "slot-0-0000000000", "slot-17-2147483647", "permit-1--000000001"]
        {
            assert_eq!(Place::parse_permit(name).map(Place::name).as_deref(), Some(name));
        }
        for name in [
            "",
            "notes",
            "permit-0-0000000001",
            "permit-03-0000000001",
            "permit-+3-0000000001",
            "permit-3-1",
            "permit-3-00000000001",
            "permit-4294967296-0000000001",
            "permit--1-0000000001",
            "lock-0000000001",
            "lock-1-0000000001",
        ] {
            assert_eq!(Place::parse_permit(name), None, "{name:?}");
        }
    }

    /// What is no contender of ours must not be taken for one, nor passed over, if it stands in a queue.
    #[test]
    fn permits_are_no_contenders() {
        for name in ["permit-3-0000000042", "slot-0-0000000042"] {
            assert_eq!(Child::of(name), Child::Suspect(ForeignClient::Unknown));
        }
        assert_eq!(permit(&["lock-0000000042", "notes"], 1, 1), Ruling::Admit(Kind::Permit(1)));
    }
}
