//! The network between the servers of an ensemble. It can be partitioned without root and without the engine.
//!
//! For every ordered pair of servers, `i` reaches `j` through two proxies of its own: one for the quorum port, one for
//! the election port. Isolating a server blocks every proxy that begins or ends at it.
//!
//! One thing would lead around the proxies. Of two servers, the one with the larger id opens the election connection. If
//! the smaller one connects, the larger hangs up, and connects back to the address that the smaller has *announced* in
//! its first message. So the election proxy `i -> j` rewrites that address to the proxy `j -> i`.
//!
//! One direction between two servers can be stalled, too, as by a network that loses what one of them sends.
//!
//! A proxy keeps what the ends of an isolated connection send, as TCP would retransmit it. It arrives after healing, if
//! the ends still care. A connection that is attempted meanwhile is accepted, gets nothing, and is closed by healing: on a
//! real network it would not have come about, and dozens of them arriving late would disturb the next election.

mod first_message;
mod proxy;

use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use proxy::Proxy;

use crate::Error;
use crate::config::Member;
use crate::link::{Link, Toward};

/// All proxies between the servers of one ensemble.
#[derive(Debug)]
pub(crate) struct Mesh {
    size: usize,
    name: &'static str,
    ways: HashMap<(usize, usize), Way>,
    isolated: Mutex<HashSet<usize>>,
}

/// From one server to another.
#[derive(Debug)]
struct Way {
    quorum: Proxy,
    election: Proxy,
}

impl Way {
    fn links(&self) -> [&Link; 2] {
        [&self.quorum.link, &self.election.link]
    }
}

impl Mesh {
    /// Opens the proxies on `host`, which servers call `name`.
    pub(crate) fn start(size: usize, host: Ipv4Addr, name: &'static str) -> Result<Self, Error> {
        let mut ways = HashMap::new();
        let start = || Proxy::start(host).map_err(Error::io(format!("open a proxy on {host}")));
        for from in 0..size {
            for to in (0..size).filter(|to| *to != from) {
                ways.insert((from, to), Way { quorum: start()?, election: start()? });
            }
        }
        for ((from, to), way) in &ways {
            if let Some(back) = ways.get(&(*to, *from)) {
                let _first = way.election.announce.set(format!("{name}:{}", back.election.link.port()));
            }
        }
        Ok(Self { size, name, ways, isolated: Mutex::default() })
    }

    /// The other members, as server `from` is to see them.
    pub(crate) fn peers_of(&self, from: usize) -> Vec<Member> {
        let peer = |to: usize| {
            let way = self.ways.get(&(from, to))?;
            Some(Member {
                id: to + 1,
                host: self.name.into(),
                quorum_port: way.quorum.link.port(),
                election_port: way.election.link.port(),
            })
        };
        (0..self.size).filter_map(peer).collect()
    }

    /// Leads the proxies of server `to` to where it really listens.
    pub(crate) fn locate(&self, to: usize, quorum: &str, election: &str) {
        for (_, way) in self.ways.iter().filter(|((_, it), _)| *it == to) {
            way.quorum.link.redirect(quorum);
            way.election.link.redirect(election);
        }
    }

    /// Cuts `server` off from all others, if others are there.
    pub(crate) fn isolate(&self, server: usize) {
        if self.size > 1 {
            self.isolated().insert(server);
        }
        let ways = self.ways.iter().filter(|((from, to), _)| *from == server || *to == server);
        ways.flat_map(|(_, way)| way.links()).for_each(Link::black_hole);
    }

    /// Holds back what server `from` sends to server `to`, whichever of them opened the connection; or passes it on.
    pub(crate) fn set_stalled(&self, from: usize, to: usize, stalled: bool) {
        for (ends, toward) in [((from, to), Toward::Server), ((to, from), Toward::Client)] {
            for link in self.ways.get(&ends).iter().flat_map(|way| way.links()) {
                link.set_stalled(toward, stalled);
            }
        }
    }

    /// Connects `server` again with all others that are not cut off themselves.
    pub(crate) fn rejoin(&self, server: usize) {
        let mut isolated = self.isolated();
        isolated.remove(&server);
        let joined = |from, to| {
            (from == server && !isolated.contains(&to)) || (to == server && !isolated.contains(&from))
        };
        let ways = self.ways.iter().filter(|((from, to), _)| joined(*from, *to));
        ways.flat_map(|(_, way)| way.links()).for_each(Link::restore);
    }

    /// Connects all servers again.
    pub(crate) fn heal(&self) {
        self.isolated().clear();
        for link in self.ways.values().flat_map(Way::links) {
            link.restore();
            link.set_stalled(Toward::Server, false);
            link.set_stalled(Toward::Client, false);
        }
    }

    pub(crate) fn is_isolated(&self, server: usize) -> bool {
        self.isolated().contains(&server)
    }

    fn isolated(&self) -> MutexGuard<'_, HashSet<usize>> {
        self.isolated.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpListener, TcpStream};

    use super::{first_message::message, *};

    fn election(mesh: &Mesh, from: usize, to: usize) -> u16 {
        mesh.ways[&(from, to)].election.link.port()
    }

    #[test]
    fn the_announced_address_becomes_that_of_the_proxy_back() {
        let mesh = Mesh::start(2, Ipv4Addr::LOCALHOST, "127.0.0.1").unwrap();
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        mesh.locate(1, "127.0.0.1:1", &server.local_addr().unwrap().to_string());

        let mut client = TcpStream::connect(("127.0.0.1", election(&mesh, 0, 1))).unwrap();
        client.write_all(&message("192.0.2.7:3888")).unwrap();
        client.write_all(b"and more").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut seen = Vec::new();
        server.accept().unwrap().0.read_to_end(&mut seen).unwrap();

        let mut expected = message(&format!("127.0.0.1:{}", election(&mesh, 1, 0)));
        expected.extend(b"and more");
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_server_that_rejoins_is_still_cut_off_from_those_that_do_not() {
        let mesh = Mesh::start(3, Ipv4Addr::LOCALHOST, "127.0.0.1").unwrap();
        let is_blocked = |way: &Way| way.links().into_iter().all(Link::is_black_hole);
        mesh.isolate(0);
        mesh.isolate(1);
        mesh.rejoin(0);
        let blocked: HashSet<_> =
            mesh.ways.iter().filter(|(_, way)| is_blocked(way)).map(|(ends, _)| *ends).collect();
        assert_eq!(blocked, HashSet::from([(0, 1), (1, 0), (1, 2), (2, 1)]));
        mesh.rejoin(1);
        assert!(!mesh.ways.values().any(is_blocked));
    }
}
