//! Which faults there are to be, and when: a pure function of the seed and the length of the run.
//!
//! A plan goes round in cycles: a storm of several faults at a time, every kind at least once a cycle; then a calm, in which all of it
//! ends.
//!
//! Whom a fault meets depends on what is going on when it is due, so the plan says only what to look for: the holder, or
//! anyone, by a number that was drawn beforehand.

use std::time::Duration;

use clap::ValueEnum;
use fastrand::Rng;
use serde::Serialize;
use zklock_contest::history::{Effect, Fault};

use crate::harness::now;
use crate::harness::table::word;

/// What can be done to the contenders and their servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// A follower is cut off from the other servers; its clients stay connected to it.
    IsolateFollower,
    /// The leader is.
    IsolateLeader,
    /// Two of the three servers are cut off, so that nobody can commit anything.
    LoseQuorum,
    /// What a follower and the leader send each other stalls, in one direction; or first in one, then in both.
    StallServer,
    /// A server is stopped, and continued.
    PauseServer,
    /// A server is killed, and started again.
    KillServer,
    /// A client is cut off from every server; its connections stay open.
    BlackHole,
    /// A client's connections are reset.
    CutConnections,
    /// A server serves a client's request, and the reply is lost with the connection.
    LoseReply,
    /// A client's process is stopped for less than a session timeout, and continued.
    StopShortly,
    /// It is stopped for longer than that.
    StopLong,
    /// A client's process is killed, and started again.
    KillClient,
    /// A holder one of whose clocks stands still is cut off from every server, until another one has long held. A lease that
    /// believed that clock would outlast this.
    StopClock,
    /// A client reaches no server for a while but the one that grants shorter session timeouts; then that one is cut off
    /// from the client.
    MoveSession,
    /// As a client's session moves there, or is about to, its process is stopped for longer than that server grants.
    StopMoved,
    /// A client does not poll its acquisitions and releases for longer than half its session timeout, and then polls them on.
    Neglect,
}

/// Whom a fault is to meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aim {
    /// The holder, or its server.
    Holder,
    /// Whomever the number says.
    Anyone,
}

/// One fault that is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Planned {
    /// Since the beginning.
    pub(crate) at: Duration,
    /// How long it lasts; nothing for what is done at once.
    pub(crate) lasts: Duration,
    pub(crate) kind: Kind,
    pub(crate) aim: Aim,
    /// Decides what is still open.
    pub(crate) pick: u32,
    /// The holder is told to hold on for so long, so that the fault meets it holding.
    pub(crate) stay: Duration,
}

/// How long the faults of a cycle have.
const STORM: Duration = Duration::from_secs(40);
/// What is due at the end of the storm has ended by then, and the contenders have recovered.
const CALM: Duration = Duration::from_secs(4);
/// The longest a fault lasts.
const LONGEST: Duration = Duration::from_millis(9_500);
/// Servers that were in trouble find together again in about this time.
const REUNION: u64 = 3_000;

const OF_SERVERS: [Kind; 6] = [
    Kind::IsolateFollower,
    Kind::IsolateLeader,
    Kind::LoseQuorum,
    Kind::StallServer,
    Kind::PauseServer,
    Kind::KillServer,
];

const OF_CLIENTS: &[Kind] = &[
    Kind::BlackHole,
    Kind::CutConnections,
    Kind::LoseReply,
    Kind::StopShortly,
    Kind::StopLong,
    Kind::KillClient,
    Kind::StopClock,
    Kind::MoveSession,
    Kind::Neglect,
];

/// Those of clients that are `zklock run`. Nobody leaves its calls unpolled. No clock stands still: all kernels stop their clocks together,
/// and zklock and its warden go by how the clocks differ.
fn of_programs() -> Vec<Kind> {
    let of_clients =
        OF_CLIENTS.iter().copied().filter(|kind| !matches!(kind, Kind::StopClock | Kind::Neglect));
    of_clients.chain([Kind::StopMoved]).collect()
}

/// How often each of these comes in a storm.
const TIMES: usize = 2;

impl Kind {
    /// Whether it is done to servers.
    pub(crate) fn is_of_servers(self) -> bool {
        OF_SERVERS.contains(&self)
    }

    /// What it can do to a hold by itself.
    pub(crate) fn effect(self) -> Effect {
        match self {
            Self::StopShortly | Self::StopLong | Self::StopMoved => Effect::Stops,
            _ => Effect::Foreseen,
        }
    }

    /// From how many milliseconds to how many it lasts.
    fn range(self) -> std::ops::Range<u64> {
        use Kind::*;
        match self {
            IsolateFollower => 5_000..8_500,
            IsolateLeader => 2_000..9_500,
            LoseQuorum => 1_000..4_000,
            StallServer => 2_000..8_000,
            PauseServer => 1_000..7_000,
            KillServer => 200..3_000,
            BlackHole => 500..7_000,
            StopClock => 6_000..7_000,
            // Until it has happened, at the longest.
            LoseReply => 2_000..4_000,
            // Less than the shortest session timeout.
            StopShortly => 100..2_900,
            StopLong => 4_500..8_000,
            StopMoved => 6_000..8_000,
            KillClient => 200..5_000,
            MoveSession => 1_500..6_000,
            Neglect => 3_000..6_000,
            CutConnections => 0..1,
        }
    }
}

/// The plan for a run of this length. Equal arguments, equal plans.
pub(crate) fn plan(seed: u64, length: Duration) -> Vec<Planned> {
    storms(seed, length, OF_CLIENTS)
}

/// The plan for clients that are programs. In every other part they are stopped as their sessions move, and nothing else is done to them:
/// sessions move only while the servers are well.
pub(crate) fn plan_of_programs(seed: u64, length: Duration) -> Vec<Planned> {
    let part = (STORM + CALM).as_secs() + 1;
    let is_quiet = |fault: &Planned| fault.at.as_secs() / part % 2 == 1;
    let mut plan = storms(seed, length, &of_programs());
    plan.retain(|fault| !is_quiet(fault));
    plan.extend(only(Kind::StopMoved, seed, length).into_iter().filter(is_quiet));
    plan.sort_by_key(|fault| fault.at);
    plan
}

/// Storms with these faults of clients, and all of those of servers.
fn storms(seed: u64, length: Duration, of_clients: &[Kind]) -> Vec<Planned> {
    let mut rng = Rng::with_seed(seed);
    let mut plan = Vec::new();
    let mut start = Duration::from_secs(1);
    // The first minute has every kind; from then on there is more time to hold the lock in between.
    let mut pace = 1;
    while start < length {
        storm(&mut rng, start, pace, of_clients, &mut plan);
        start += STORM * pace + CALM;
        pace = 2;
    }
    // What begins, ends within the run.
    plan.retain(|fault| fault.at + fault.lasts < length);
    plan.sort_by_key(|fault| fault.at);
    plan
}

impl Planned {
    pub(crate) fn begins(&self) -> Fault {
        Fault::begins(word(&self.kind), self.kind.effect(), now())
    }
}

/// A plan with nothing but this, aimed at holders, one after the other.
pub(crate) fn only(kind: Kind, seed: u64, length: Duration) -> Vec<Planned> {
    let (mut rng, mut plan) = (Rng::with_seed(seed), Vec::new());
    let mut at = Duration::from_secs(1);
    while at < length {
        let fault = planned(&mut rng, at, kind);
        plan.push(Planned {
            aim: Aim::Holder,
            pick: fault.pick | 1,
            stay: fault.stay.max(fault.lasts),
            ..fault
        });
        at += fault.lasts + Duration::from_millis(REUNION);
    }
    plan.retain(|fault| fault.at + fault.lasts < length);
    plan
}

/// Servers get into trouble one after the other, sometimes the next before the last is well again; clients meanwhile.
fn storm(rng: &mut Rng, start: Duration, pace: u32, of_clients: &[Kind], plan: &mut Vec<Planned>) {
    let storm = STORM * pace;
    let end = start + storm;
    let mut kinds = OF_SERVERS.to_vec();
    if pace > 1 {
        // The faults that cost leases rather than quorums have time to come once more.
        kinds.extend([Kind::IsolateFollower, Kind::StallServer]);
    }
    rng.shuffle(&mut kinds);
    let mut at = start + Duration::from_millis(rng.u64(0..1_000));
    for kind in kinds {
        let fault = planned(rng, at, kind);
        plan.push(fault);
        // Half a reunion at the least, or nobody would hold anything most of the time; and sometimes before the end.
        let gap = Duration::from_millis(rng.u64(REUNION / 2..REUNION)) * pace;
        let early = if rng.u32(..4) == 0 { fault.lasts / 2 } else { Duration::ZERO };
        at += fault.lasts + gap - early;
    }
    let mut kinds = of_clients.repeat(TIMES * pace as usize);
    rng.shuffle(&mut kinds);
    // Each in a part of the storm that is its own to begin in, so that they neither crowd nor leave gaps.
    let part = storm / kinds.len() as u32;
    for (turn, kind) in kinds.into_iter().enumerate() {
        let at = start + part * turn as u32 + part.mul_f64(rng.f64());
        plan.push(planned(rng, at, kind));
    }
    // Nothing of it lasts into the calm for long.
    for fault in plan.iter_mut().filter(|fault| fault.at >= start) {
        fault.at = fault.at.min(end - LONGEST.min(fault.lasts));
    }
}

fn planned(rng: &mut Rng, at: Duration, kind: Kind) -> Planned {
    let lasts = Duration::from_millis(rng.u64(kind.range()));
    let aim = if rng.u32(..3) < 2 { Aim::Holder } else { Aim::Anyone };
    // Most who are met are to be met holding, for as long as it lasts.
    let stay = if rng.u32(..4) < 3 || kind == Kind::StopClock {
        lasts + Duration::from_millis(rng.u64(1_000..2_500))
    } else {
        Duration::ZERO
    };
    Planned { at, lasts, kind, aim, pick: rng.u32(..), stay }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_have_equal_plans() {
        let length = Duration::from_secs(600);
        assert_eq!(plan(7, length), plan(7, length));
        assert_ne!(plan(7, length), plan(8, length));
    }

    #[test]
    fn faults_overlap_one_another() {
        let plan = plan(1, Duration::from_secs(120));
        let overlapping = plan.windows(2).filter(|pair| pair[1].at < pair[0].at + pair[0].lasts).count();
        assert!(overlapping > 10, "{overlapping}");
    }
}
