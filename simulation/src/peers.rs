//! What the servers of an ensemble send each other: in order, with delays, and held while the way is cut.

use std::collections::{BTreeMap, VecDeque};

use world::{Host, World};
use zklock_ensemble::PeerMessage;

#[derive(Default)]
pub(crate) struct Peers {
    lanes: BTreeMap<(Host, Host), Lane>,
}

#[derive(Default)]
struct Lane {
    messages: VecDeque<(u64, PeerMessage)>,
    latest: u64,
}

impl Peers {
    /// Sends a message. Returns when to look whether it has arrived.
    pub(crate) fn send(&mut self, world: &mut World, from: Host, to: Host, message: PeerMessage) -> u64 {
        let arrives = world.now() + world.latency(from, to);
        let lane = self.lanes.entry((from, to)).or_default();
        lane.latest = lane.latest.max(arrives);
        lane.messages.push_back((lane.latest, message));
        lane.latest
    }

    pub(crate) fn arrived(&mut self, world: &World, from: Host, to: Host) -> Vec<PeerMessage> {
        let Some(lane) = self.lanes.get_mut(&(from, to)).filter(|_| !world.is_cut(from, to)) else {
            return Vec::new();
        };
        let number = lane.messages.iter().take_while(|(at, _)| *at <= world.now()).count();
        lane.messages.drain(..number).map(|(_, message)| message).collect()
    }

    /// Has the messages under way arrive at this instant or later, and later messages behind them.
    pub(crate) fn delay(&mut self, from: Host, to: Host, until: u64) {
        if let Some(lane) = self.lanes.get_mut(&(from, to)).filter(|lane| !lane.messages.is_empty()) {
            lane.messages.iter_mut().for_each(|(at, _)| *at = (*at).max(until));
            lane.latest = lane.latest.max(until);
        }
    }

    /// Loses the messages under way between two servers.
    pub(crate) fn reset(&mut self, one: Host, other: Host) {
        self.lanes.retain(|way, _| ![(one, other), (other, one)].contains(way));
    }

    /// Loses what a server that has crashed sent, and what was sent to it.
    pub(crate) fn lose(&mut self, host: Host) {
        self.lanes.retain(|(from, to), _| *from != host && *to != host);
    }
}
