//! Elections by rule: who leads is computed from what all servers have. No server votes.

use crate::id::ServerId;

/// Who leads from now on. The driver tells it to the server that it found, as an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appointment {
    /// The leader.
    pub leader: ServerId,
    /// The leader's epoch: higher than each one that its majority has accepted before.
    pub epoch: u32,
}

/// What a server brings to an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The server.
    pub id: ServerId,
    /// The leader that it follows, which may be itself; `None` while it looks for one.
    pub leader: Option<ServerId>,
    /// The epoch of the last leader that it has accepted.
    pub accepted: u32,
    /// The epoch of the last leader whose log it has.
    pub current: u32,
    /// The last transaction in its log.
    pub logged: i64,
}

/// Elects a leader. Returns the servers that learn of a leader, each with its appointment.
///
/// `standings` has the servers that run; leave out those that are paused or crashed. `reaches` says whether messages of
/// the first server get to the second one.
///
/// A server that looks joins a leader that a majority follows. Else the servers that look elect one: the latest epoch
/// counts, then the longest log, then the highest number, as in ZooKeeper. So (m) what is logged at one follower alone is
/// committed if that follower takes part, and may be lost if it does not.
pub fn elect(
    standings: &[Standing],
    voters: u8,
    reaches: impl Fn(ServerId, ServerId) -> bool,
) -> Vec<(ServerId, Appointment)> {
    let quorum = usize::from(voters / 2) + 1;
    let meet = |one: &Standing, other: &Standing| {
        one.id == other.id || reaches(one.id, other.id) && reaches(other.id, one.id)
    };
    let mut appointed = Vec::new();
    let mut left = Vec::new();
    for seeker in standings.iter().filter(|standing| standing.leader.is_none()) {
        let leader = standings.iter().find(|leader| {
            let follows = |other: &&Standing| other.leader == Some(leader.id) && meet(seeker, other);
            leader.leader == Some(leader.id)
                && meet(seeker, leader)
                && standings.iter().filter(follows).count() >= quorum
        });
        match leader {
            Some(leader) => {
                appointed.push((seeker.id, Appointment { leader: leader.id, epoch: leader.accepted }));
            }
            None => left.push(seeker),
        }
    }
    let rank = |standing: &Standing| (standing.current, standing.logged, standing.id);
    left.sort_by_key(|standing| std::cmp::Reverse(rank(standing)));
    let elected = left.iter().find_map(|leader| {
        let members: Vec<_> = left.iter().filter(|member| meet(leader, member)).collect();
        let is_best = members.iter().all(|member| rank(member) <= rank(leader));
        (is_best && members.len() >= quorum).then_some((leader.id, members))
    });
    if let Some((leader, members)) = elected {
        let epoch = members.iter().map(|member| member.accepted).max().unwrap_or(0) + 1;
        appointed.extend(members.iter().map(|member| (member.id, Appointment { leader, epoch })));
    }
    appointed
}
