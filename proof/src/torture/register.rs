//! The shared registers of [`zklock_contest`], one for each lock. Processes call them past all faults, by the lines that they speak.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zklock_contest::member::Member;
use zklock_contest::register::{Answer, Call, Ledger, Store};

use crate::harness::now;

type Stores = BTreeMap<(Member, usize), Store>;

#[derive(Clone, Default)]
pub(crate) struct Registers(Arc<Mutex<Stores>>);

impl Registers {
    fn stores(&self) -> MutexGuard<'_, Stores> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn take(&self, member: Member, lock: usize, call: Call) -> Answer {
        self.stores().entry((member, lock)).or_default().take(call, now())
    }

    /// What came of the calls for this member's locks.
    pub(crate) fn ledgers(&self, member: Member) -> Vec<Ledger> {
        let stores = self.stores();
        let its = stores.iter().filter(|((of, _), _)| *of == member);
        its.map(|(_, store)| store.ledger.clone()).collect()
    }
}
