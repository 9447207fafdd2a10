//! Semaphores and slots: whether a wish fits beside the permits that are there.
//!
//! A semaphore and a set of slots are both a *pool*: a directory whose data says how much it has, and whose children are the
//! permits that are held. An acquisition first holds the pool's turnstile, a lock. Only then does it read the pool: the data with
//! its version, and *after* that the children. [`rule`] decides by these. If the wish is admitted, one transaction creates the
//! permit and writes to the pool under that version.
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

use crate::contender::{Kind, QueuePlace};

/// How much a pool has, and of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stock {
    /// A semaphore: permits whose weights add up to this capacity at most.
    Permits(u32),
    /// Slots: one for each index below this number.
    Slots(u32),
}

impl Stock {
    /// The capacity, or the number of slots.
    pub fn number(self) -> u32 {
        let (Self::Permits(number) | Self::Slots(number)) = self;
        number
    }
}

/// What an acquisition wants of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// A permit of this weight, whole or not at all.
    Permit(u32),
    /// A slot: the one with this index if it is free, and else the free one with the lowest index.
    Slot(Option<u32>),
}

/// Whether a wish fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// It fits. The node is of this kind.
    Admit(Kind),
    /// It fits once enough of the permits are gone.
    Wait,
    /// It does not belong into this pool.
    Refuse(Misfit),
}

/// Why a wish does not belong into a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    let kinds = || children.iter().filter_map(|name| Some(QueuePlace::parse_permit(name.as_ref())?.kind));
    match (found, wish) {
        (Stock::Permits(capacity), Wish::Permit(weight)) => {
            let mut taken = u64::from(weight);
            for kind in kinds() {
                let Kind::Permit(weight) = kind else { return Ruling::Refuse(Misfit::Mixed) };
                taken += u64::from(weight);
            }
            if weight == 0 || weight > capacity {
                Ruling::Refuse(Misfit::TooLarge)
            } else if taken <= u64::from(capacity) {
                Ruling::Admit(Kind::Permit(weight))
            } else {
                Ruling::Wait
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

    #[test]
    fn each_wish_is_ruled() {
        use Ruling::{Admit, Refuse, Wait};
        let permits = Stock::Permits;
        let slots = Stock::Slots;
        let permit = Wish::Permit;
        let slot = Wish::Slot;
        let two_and_one = ["permit-2-0000000000", "permit-1-0000000003"];
        let threes = ["permit-3-0000000000", "permit-3-0000000001"];
        let largest = ["permit-4294967295-0000000000", "permit-4294967295-0000000001"];
        let above = ["slot-2-0000000000", "slot-3-0000000001"];
        let first_and_third = ["slot-0-0000000000", "slot-2-0000000001"];
        let first_two = ["slot-0-0000000000", "slot-1-0000000007"];
        let misfit = |stock| Refuse(Misfit::Stock(stock));
        let rows: &[(&[&str], Stock, Stock, Wish, Ruling)] = &[
            // Weights are granted whole or not at all.
            (&[], permits(4), permits(4), permit(4), Admit(Kind::Permit(4))),
            (&two_and_one, permits(4), permits(4), permit(1), Admit(Kind::Permit(1))),
            (&two_and_one, permits(4), permits(4), permit(2), Wait),
            (&two_and_one[1..], permits(4), permits(4), permit(3), Admit(Kind::Permit(3))),
            // A lower capacity leaves the permits that are held, so more may be held than there is by now.
            (&threes, permits(4), permits(4), permit(1), Wait),
            (&threes[1..], permits(4), permits(4), permit(1), Admit(Kind::Permit(1))),
            // Sums do not overflow.
            (&largest, permits(u32::MAX), permits(u32::MAX), permit(u32::MAX), Wait),
            // What can never fit is refused.
            (&[], permits(4), permits(4), permit(0), Refuse(Misfit::TooLarge)),
            (&[], permits(4), permits(4), permit(5), Refuse(Misfit::TooLarge)),
            (&[], slots(2), slots(2), slot(Some(2)), Refuse(Misfit::TooLarge)),
            (&[], slots(0), slots(0), slot(None), Refuse(Misfit::TooLarge)),
            // A lower number leaves the slots that are held, and they count.
            (&above, slots(2), slots(2), slot(None), Wait),
            (&above[1..], slots(2), slots(2), slot(Some(1)), Admit(Kind::Slot(1))),
            // A slot is the preferred one, or the lowest free one.
            (&first_and_third, slots(4), slots(4), slot(None), Admit(Kind::Slot(1))),
            (&first_and_third, slots(4), slots(4), slot(Some(3)), Admit(Kind::Slot(3))),
            (&first_and_third, slots(4), slots(4), slot(Some(2)), Admit(Kind::Slot(1))),
            (&first_two, slots(2), slots(2), slot(Some(1)), Wait),
            // Another stock than the stated one is refused, and so is a wish of the other kind.
            (&[], permits(4), permits(5), permit(1), misfit(permits(4))),
            (&[], slots(4), permits(4), permit(1), misfit(slots(4))),
            (&[], permits(4), slots(4), slot(None), misfit(permits(4))),
            (&[], permits(4), permits(4), slot(None), misfit(permits(4))),
            // A pool of both kinds is refused.
            (&["slot-0-0000000000"], permits(4), permits(4), permit(1), Refuse(Misfit::Mixed)),
            (&["permit-1-0000000000"], slots(4), slots(4), slot(None), Refuse(Misfit::Mixed)),
            // Names that are no permits are passed over.
            (&["lock-0000000042", "notes"], permits(1), permits(1), permit(1), Admit(Kind::Permit(1))),
        ];
        for (children, found, stated, wish, ruling) in rows {
            assert_eq!(rule(children, *found, *stated, *wish), *ruling, "{children:?} {found:?} {wish:?}");
        }
    }

    #[test]
    fn names_are_in_the_servers_own_spelling() {
        for name in ["permit-3-0000000042", "slot-0-0000000000", "slot-17-2147483647", "permit-1--000000001"]
        {
            assert_eq!(QueuePlace::parse_permit(name).map(QueuePlace::name).as_deref(), Some(name));
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
            assert_eq!(QueuePlace::parse_permit(name), None, "{name:?}");
        }
    }

    /// What is no contender of ours must not be taken for one, nor passed over, if it stands in a queue.
    #[test]
    fn permits_are_no_contenders() {
        for name in ["permit-3-0000000042", "slot-0-0000000042"] {
            assert_eq!(Child::of(name), Child::Suspect(ForeignClient::Unknown));
        }
    }
}
