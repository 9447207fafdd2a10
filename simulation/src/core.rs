//! A core that is whole, and faults around it that stay.
//!
//! A majority of the servers are joined both ways, and some processes are joined both ways to all of these. Everything else is broken, and
//! stays broken until the core has been judged. So a process that goes in circles is seen, though it would be well as soon as
//! everything is whole.

use std::time::Duration;

use world::{Host, Random};

use crate::cluster::{Cluster, host, server};
use crate::faults::{Exposed, Fault, Kind};
use crate::processes::Processes;
use crate::quiet::Outside;
use crate::trace::note;

#[derive(Clone, Debug)]
pub(crate) struct Core {
    /// What is broken.
    faults: Vec<Fault>,
    /// The servers that the core's servers do not reach.
    apart: Vec<(Host, Host)>,
    pub(crate) outside: Outside,
}

impl Core {
    /// `is_shared` says whether another client contends, too. That client stays for ever at a server that does nothing but answer pings.
    pub(crate) fn draw(random: &mut Random, exposed: &Exposed, is_shared: bool) -> Self {
        let Exposed { servers: voters, processes, .. } = *exposed;
        let mut servers = (1..=voters).map(server).collect::<Vec<_>>();
        servers.sort_by_cached_key(|_| random.bits());
        let whole = servers.split_off(random.below(u64::from(voters).div_ceil(2)) as usize);
        // An overloaded server follows the leader, and answers pings. It is no use to clients.
        let (overloaded, away) =
            servers.into_iter().partition::<Vec<_>, _>(|_| !is_shared && random.once_in(2));
        let joined = whole.iter().chain(&overloaded).copied().collect::<Vec<_>>();
        let mut kinds = overloaded.iter().map(|host| Kind::Overloaded(*host)).collect::<Vec<_>>();
        for host in &away {
            kinds.extend(match random.below(3) {
                0 => None,
                1 => Some(Kind::Paused(*host)),
                _ => Some(Kind::Crashed(*host)),
            });
        }
        // ZooKeeper elects again and again if a server hears of a leader that it does not reach.
        let apart =
            joined.iter().flat_map(|one| away.iter().map(move |other| (*one, *other))).collect::<Vec<_>>();
        kinds.extend(apart.iter().map(|(one, other)| Kind::Cut(*one, *other)));
        let mut outside = Outside::default();
        let first = random.below(processes.into()) as u32;
        for process in 0..processes {
            let (this, client) = (host(process), process as u16 + 1);
            if process == first || random.once_in(2) {
                kinds.extend(overloaded.iter().chain(&away).flat_map(|to| ways(random, this, *to, 4)));
                continue;
            }
            let kind = match random.below(6) {
                0 => Kind::Stopped(process),
                1 => Kind::Suspended(process),
                2 => Kind::Killed(process),
                3 => Kind::Died(process),
                4 => Kind::Isolated(this),
                _ => {
                    let all = joined.iter().chain(&away).map(|to| (*to, ways(random, this, *to, 2)));
                    let all = all.collect::<Vec<_>>();
                    if all.iter().any(|(to, cut)| joined.contains(to) && cut.is_empty()) {
                        outside.reaching.insert(client);
                    } else {
                        outside.gone.insert(client);
                    }
                    kinds.extend(all.into_iter().flat_map(|(_, cut)| cut));
                    continue;
                }
            };
            kinds.push(kind);
            outside.gone.insert(client);
        }
        let fault = |kind| Fault { at: Duration::ZERO, amid: None, lasts: Duration::ZERO, kind };
        Self { faults: kinds.into_iter().map(fault).collect(), apart, outside }
    }

    pub(crate) fn begin(&self, cluster: &mut Cluster, processes: &Processes) {
        for fault in &self.faults {
            note("outside", format_args!("{:?}", fault.kind));
            fault.apply(cluster, processes, true);
        }
    }

    /// Mends everything.
    pub(crate) fn end(&self, cluster: &mut Cluster, processes: &Processes) {
        // Servers that were cut off for so long have given up their connections.
        for (one, other) in &self.apart {
            cluster.reset(*one, *other);
        }
        for fault in &self.faults {
            fault.apply(cluster, processes, false);
        }
    }
}

/// The ways between two hosts that are cut: each of them once in so many times.
fn ways(random: &mut Random, one: Host, other: Host, times: u64) -> Vec<Kind> {
    let ways = [(one, other), (other, one)].into_iter().filter(|_| random.once_in(times));
    ways.map(|(from, to)| Kind::OneWay(from, to)).collect()
}
