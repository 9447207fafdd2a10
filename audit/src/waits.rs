//! Who waited for longest.

use zklock_recipe::PathKind;
use zklock_recipe::flight::Queue;

use crate::clocks::raw;
use crate::judge::{Held, Judge};
use crate::report::{EXAMPLES, Wait};

impl Judge<'_> {
    /// The longest waits.
    pub(crate) fn waits(&self, queue: &Queue, ensemble: usize, held: &[Held<'_>]) -> Vec<Wait> {
        let mut waits = Vec::new();
        for (process, tale) in self.tales.iter().enumerate() {
            let here = |session| self.ensemble(process, session) == ensemble;
            for attempt in tale.acquisitions.values().filter(|it| here(it.begun.session)) {
                // Who waits for a permit waits in the turnstile.
                let is_pool = matches!(queue.used_for, PathKind::Semaphore | PathKind::Slots);
                let mine = attempt.begun.queues.iter().position(|it| match is_pool {
                    true => it.is_turnstile && it.name == queue.name,
                    false => it.path == queue.path,
                });
                let until = attempt.granted.map(|at| (at, "granted".to_owned()));
                let until = until.filter(|_| !is_pool);
                let until =
                    until.or_else(|| attempt.ended.as_ref().map(|(at, end)| (*at, format!("{end:?}"))));
                if let (Some(index), Some((until, ended))) = (mine, until) {
                    waits.push((raw(until) - raw(attempt.begun.at), process, attempt, index, ended));
                }
            }
        }
        waits.sort_by_key(|(length, ..)| std::cmp::Reverse(*length));
        let wait =
            |(length, process, attempt, index, ended): (i64, usize, &crate::tale::Attempt, usize, String)| {
                let own = attempt.nodes.first().map_or(i64::MAX, |(_, own)| own.czxid);
                let behind = attempt.behind.get(index).copied().flatten().map(|place| {
                    let is_it = |held: &&Held<'_>| {
                        held.hold.nodes.iter().any(|it| it.place == place) && held.czxid() < own
                    };
                    let holder = held.iter().rev().find(is_it);
                    holder.map_or(format!("{place}"), |it| {
                        format!("{place} of {}", self.records.processes[it.process].name())
                    })
                });
                Wait { who: self.records.processes[process].name(), ms: length as f64 / 1e6, behind, ended }
            };
        waits.into_iter().take(EXAMPLES).map(wait).collect()
    }
}
