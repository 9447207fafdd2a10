//! What the servers of an ensemble send each other: on each connection in order, with delays, and held while the way is cut.

use std::collections::{BTreeMap, VecDeque};

use world::{Host, Random, World, retransmission};
use zklock_ensemble::PeerMessage;

#[derive(Default)]
pub(crate) struct Peers {
    /// One way of each connection.
    lanes: BTreeMap<(Host, Host, u64), Lane>,
}

#[derive(Default)]
struct Lane {
    messages: VecDeque<Underway>,
    latest: u64,
}

struct Underway {
    sent: u64,
    arrives: u64,
    message: PeerMessage,
}

impl Peers {
    /// Sends a message. Returns when to look whether it has arrived.
    pub(crate) fn send(&mut self, world: &mut World, from: Host, to: Host, message: PeerMessage) -> u64 {
        let sent = world.now();
        let arrives = sent + world.latency(from, to);
        let lane = self.lanes.entry((from, to, message.link())).or_default();
        lane.latest = lane.latest.max(arrives);
        lane.messages.push_back(Underway { sent, arrives: lane.latest, message });
        lane.latest
    }

    pub(crate) fn arrived(&mut self, world: &World, from: Host, to: Host) -> Vec<PeerMessage> {
        if world.is_cut(from, to) {
            return Vec::new();
        }
        let mut arrived = Vec::new();
        for (_, lane) in self.between(from, to) {
            let number = lane.messages.iter().take_while(|it| it.arrives <= world.now()).count();
            arrived.extend(lane.messages.drain(..number));
        }
        self.lanes.retain(|_, lane| !lane.messages.is_empty() || lane.latest > world.now());
        arrived.sort_by_key(|it| it.arrives);
        arrived.into_iter().map(|it| it.message).collect()
    }

    /// A cut has ended that began then. Each connection sends again what it has sent in vain, and later messages come behind that.
    /// Returns when to look whether something has arrived.
    pub(crate) fn mend(
        &mut self,
        world: &World,
        from: Host,
        to: Host,
        began: u64,
        random: &mut Random,
    ) -> Vec<u64> {
        let now = world.now();
        let mut instants = Vec::new();
        for (_, lane) in self.between(from, to) {
            let Some(first) = lane.messages.front() else { continue };
            let again = now + retransmission(now - first.sent.max(began), random);
            lane.messages.iter_mut().for_each(|it| it.arrives = it.arrives.max(again));
            lane.latest = lane.latest.max(again);
            instants.push(again);
        }
        instants
    }

    /// Loses the messages under way between two servers.
    pub(crate) fn reset(&mut self, one: Host, other: Host) {
        self.lanes.retain(|(from, to, _), _| ![(one, other), (other, one)].contains(&(*from, *to)));
    }

    /// Loses what a server that has crashed sent, and what was sent to it.
    pub(crate) fn lose(&mut self, host: Host) {
        self.lanes.retain(|(from, to, _), _| *from != host && *to != host);
    }

    fn between(&mut self, from: Host, to: Host) -> impl Iterator<Item = (&(Host, Host, u64), &mut Lane)> {
        self.lanes.range_mut((from, to, 0)..=(from, to, u64::MAX))
    }
}
