//! What is known at this moment of the contenders of all members. It tells of changes.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;
use zklock_contest::collector::Collector;
use zklock_contest::history::{Fault, History, Hold};
use zklock_contest::member::Member;
use zklock_contest::record::{Event, Record, Who};

use super::clients::Heard;
use crate::harness::now;

/// Follows what is heard and done.
pub(crate) struct State(watch::Sender<Known>);

struct Known {
    members: BTreeMap<Member, Collector>,
    faults: Vec<Fault>,
    /// The clients that ended by themselves.
    crashes: Vec<u16>,
}

impl Known {
    fn hear(&mut self, heard: &Heard) {
        let (client, at) = match heard {
            Heard::Said(record) => {
                if let Some(collector) = self.members.get_mut(&record.member) {
                    collector.hear(record);
                }
                return;
            }
            Heard::Killed { client, at } => (*client, *at),
            Heard::Crashed { client, at } => {
                self.crashes.push(*client);
                (*client, *at)
            }
        };
        self.members.values_mut().for_each(|collector| collector.gone(client, at));
    }

    fn holders(&self) -> Vec<Hold> {
        let mut holders: Vec<_> = self.members.values().flat_map(Collector::holders).collect();
        holders.sort_by_key(|holder| std::cmp::Reverse(holder.granted));
        holders
    }
}

impl State {
    pub(crate) fn of(members: &[Member]) -> Self {
        let members = members.iter().map(|member| (*member, Collector::new(*member))).collect();
        Self(watch::channel(Known { members, faults: Vec::new(), crashes: Vec::new() }).0)
    }

    pub(crate) fn hear(&self, heard: &Heard) {
        self.0.send_if_modified(|known| {
            known.hear(heard);
            let is_routine = |event: &Event| matches!(event, Event::Holds { .. } | Event::Witnesses { .. });
            !matches!(heard, Heard::Said(Record { event, .. }) if is_routine(event))
        });
    }

    pub(crate) fn add(&self, fault: Fault) {
        self.0.send_modify(|known| {
            known.members.values_mut().for_each(|collector| collector.add(&fault));
            known.faults.push(fault);
        });
    }

    /// What happened so far: to each member, the faults, and the crashes.
    pub(crate) fn finish(&self) -> (BTreeMap<Member, History>, Vec<Fault>, Vec<u16>) {
        let known = Known { members: BTreeMap::new(), faults: Vec::new(), crashes: Vec::new() };
        let Known { members, faults, crashes } = self.0.send_replace(known);
        let histories =
            members.into_iter().map(|(member, collector)| (member, collector.finish(now()))).collect();
        (histories, faults, crashes)
    }

    /// The present holders, the latest first.
    pub(crate) fn holders(&self) -> Vec<Hold> {
        self.0.borrow().holders()
    }

    /// Waits for a holder that will do, at most for so long; the latest, should several do.
    pub(crate) async fn holder_within(
        &self,
        limit: Duration,
        will_do: impl Fn(&Hold) -> bool,
    ) -> Option<Hold> {
        let mut known = self.0.subscribe();
        let found = async {
            loop {
                let found = known.borrow_and_update().holders().into_iter().find(&will_do);
                if found.is_some() {
                    return found;
                }
                known.changed().await.ok()?;
            }
        };
        timeout(limit, found).await.ok().flatten()
    }

    /// Waits until this is so of all of them. Returns those of which it is not within the limit.
    pub(crate) async fn others_within(
        &self,
        limit: Duration,
        all: &[(Member, Who)],
        is_so: impl Fn(&Collector, Who) -> bool,
    ) -> Vec<(Member, Who)> {
        let is_so = |known: &Known, (member, who): &(Member, Who)| is_so(&known.members[member], *who);
        let mut known = self.0.subscribe();
        let done = known.wait_for(|known| all.iter().all(|one| is_so(known, one)));
        let _in_time = timeout(limit, done).await.is_ok();
        let known = self.0.borrow();
        all.iter().filter(|one| !is_so(&known, one)).copied().collect()
    }
}
