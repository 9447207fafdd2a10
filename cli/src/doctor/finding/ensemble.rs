//! Findings about the servers: how many, which one leads, how they are named, how much they keep.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::found::Findings;
use crate::doctor::seen::{Member, Mode, Seen, Server};

/// How many containers a leader removes in a minute at most, unless `znode.container.maxPerMinute` says otherwise.
const REMOVED_PER_MINUTE: u64 = 10_000;

/// A tree of this size would take a leader ten minutes to remove.
const MANY_NODES: u64 = 10 * REMOVED_PER_MINUTE;

pub(super) fn look(seen: &Seen, found: &mut Findings) {
    several_ensembles(seen, found);
    for server in &seen.servers {
        unreachable(server, found);
    }
    leadership(seen, found);
    size(seen, found);
    missing(seen, found);
    connect_string(seen, found);
    if let Some(unknown) = seen.named(|server| server.mode() == Some(&Mode::Unknown)) {
        found.note(
            "mode-unknown",
            format!("{unknown} says neither whether it leads nor its version"),
            "look for a proxy on the way: servers since 3.5 answer `srvr`, whatever their whitelist says",
        );
    }
}

/// A leader and a standalone server are sovereign. An ensemble has one sovereign server.
fn several_ensembles(seen: &Seen, found: &mut Findings) {
    let sovereign = |server: &Server| matches!(server.mode(), Some(Mode::Leader | Mode::Standalone));
    if distinct(seen, sovereign) > 1
        && let Some(servers) = seen.named(sovereign)
    {
        return found.danger(
            "several-ensembles",
            format!(
                "each of {servers} leads or stands alone: they are not one ensemble, so two may hold a lock"
            ),
            "name the servers of one ensemble only; ask again if a leader was just cut off or elected",
        );
    }
    let members = seen.visits().filter_map(|visit| visit.members.as_ref());
    let ensembles = members.map(|members| members.iter().map(|member| member.id).collect::<BTreeSet<_>>());
    if ensembles.collect::<BTreeSet<_>>().len() > 1 {
        found.danger(
            "members-differ",
            "the servers do not agree on the members of their ensemble: with two majorities two may hold a lock",
            "give all of them the same list of servers; /zookeeper/config has the list of each",
        );
    }
}

fn unreachable(server: &Server, found: &mut Findings) {
    let address = &server.address;
    let (code, what, advice) = match (&server.words, &server.visit) {
        (Err(why), _) => (
            "unreachable",
            format!("{address} cannot be reached: {why}"),
            "start it, repair the network to it, or take it out of the connect string",
        ),
        (Ok(words), visit) => match (&words.mode, visit) {
            (Mode::Silent(why), _) => (
                "silent",
                format!("{address} takes connections, but does not answer: {why}"),
                "see its log; it may hang, demand TLS or a certificate, or be no ZooKeeper server",
            ),
            (Mode::TlsFailed(why), _) => (
                "tls-failed",
                format!("{address} takes connections, but TLS fails: {why}"),
                "check that it speaks TLS at that port, that --tls-ca trusts its certificate, that the certificate is for that host, and \
                 whether it wants a certificate from clients (--tls-cert)",
            ),
            (Mode::NotServing, _) => (
                "not-serving",
                format!("{address} runs, but has no quorum and serves no client"),
                "check that it reaches the other servers, and that they run",
            ),
            (Mode::ReadOnly, _) => (
                "read-only",
                format!("{address} is read-only: it has lost its ensemble, and gives no locks"),
                "check that it reaches the other servers, and that they run",
            ),
            (_, Err(why)) => (
                "no-session",
                format!("{address} answers, but gives no session: {why}"),
                "see its log; maxClientCnxns may be reached",
            ),
            (_, Ok(_)) => return,
        },
    };
    found.warning(code, what, advice);
}

fn leadership(seen: &Seen, found: &mut Findings) {
    if is_ambiguous(seen) {
        return;
    }
    let serving = distinct(seen, |server| server.serves() && server.mode() != Some(&Mode::Observer));
    let voters = voters(seen).max(serving);
    if serving > 0 && serving * 2 <= voters {
        found.warning(
            "no-majority",
            format!("only {serving} of {voters} voting servers can be used from here, which is no majority"),
            "make the others reachable: the next failure may end all sessions",
        );
    }
    let leads = |mode: &Mode| matches!(mode, Mode::Leader | Mode::Standalone);
    let tells =
        |mode: &Mode| matches!(mode, Mode::Follower | Mode::Observer | Mode::NotServing | Mode::ReadOnly);
    let can_tell = seen.servers.iter().all(|server| server.mode() != Some(&Mode::Unknown));
    if can_tell && seen.modes().any(tells) && !seen.modes().any(leads) {
        found.warning(
            "no-leader",
            "none of the servers that answer leads",
            "name all servers, or wait for an election and ask again; without a leader nobody acquires a lock",
        );
    }
}

/// The voters by the ensemble's own configuration, else the servers of the connect string that may vote.
fn voters(seen: &Seen) -> usize {
    match known_voters(seen) {
        0 => distinct(seen, |server| server.mode() != Some(&Mode::Observer)),
        voters => voters,
    }
}

/// How many members vote by the ensemble's configuration; 0 if it is unknown.
fn known_voters(seen: &Seen) -> usize {
    seen.members().iter().filter(|member| member.votes).count()
}

fn size(seen: &Seen, found: &mut Findings) {
    let voters = known_voters(seen);
    if seen.is_alone() || voters == 1 {
        // A server of this very machine is one to try things with.
        let hosts = seen.servers.iter().flat_map(|server| &server.hosts).collect::<Vec<_>>();
        let is_local = !hosts.is_empty() && hosts.iter().all(|host| IpAddr::is_loopback(host));
        let tell = if is_local { Findings::note } else { Findings::warning };
        tell(
            found,
            "single-server",
            "there is but one server: while it is down nobody acquires a lock, and if its disk is lost two may hold one",
            "run three, on three machines",
        );
    }
    if voters > 0 && voters.is_multiple_of(2) {
        let (spare, fewer) = (voters / 2 - 1, voters - 1);
        found.warning(
            "even-voters",
            format!("{voters} servers vote; an ensemble of {voters} bears the loss of {spare}, as one of {fewer} does"),
            "add a voting server, or make one an observer",
        );
    }
}

/// Directories of locks may come faster than the servers remove them.
pub(super) fn tree(seen: &Seen, found: &mut Findings) {
    let nodes = seen.words().filter_map(|words| words.nodes).max();
    if let Some(nodes) = nodes.filter(|nodes| *nodes > MANY_NODES) {
        found.warning(
            "many-nodes",
            format!(
                "the tree has {nodes} nodes; if most of them are directories of locks that nobody uses any more, new ones come faster \
                 than the leader removes them: {REMOVED_PER_MINUTE} a minute, unless it is told otherwise"
            ),
            "lock fewer keys: let many share one, by a hash; or raise znode.container.maxPerMinute, a Java property of the servers",
        );
    }
}

fn missing(seen: &Seen, found: &mut Findings) {
    let members = seen.members();
    let told = seen.settings().map(|settings| settings.id).collect::<BTreeSet<_>>();
    let known = members.iter().filter(|member| told.contains(&member.id)).count();
    let tells = |server: &Server| server.words.as_ref().is_ok_and(|words| words.settings.is_some());
    let missing = members.len().saturating_sub(known + distinct(seen, |server| !tells(server)));
    if missing == 0 || is_ambiguous(seen) {
        return;
    }
    let is_named = |member: &Member| {
        told.contains(&member.id) || seen.servers.iter().any(|server| server.address.host == member.host)
    };
    let unnamed = members.iter().filter(|member| !is_named(member)).collect::<Vec<_>>();
    let list = |members: &mut dyn Iterator<Item = &Member>| {
        members.map(|member| format!("{} at {}", member.id, member.host)).collect::<Vec<_>>().join(", ")
    };
    // The servers may have other names for each other than the connect string has.
    let which = match unnamed.len() == missing {
        true => format!("not {}", list(&mut unnamed.into_iter())),
        false => format!("which are {}", list(&mut members.iter())),
    };
    let (named, all) = (members.len() - missing, members.len());
    found.warning(
        "missing-servers",
        format!("the connect string names {named} of the ensemble's {all} servers, {which}"),
        "name all of them: a client whose server fails goes only to servers that it knows",
    );
}

/// Whether a name stands for several hosts. Each connection may lead to another one, so servers cannot be counted.
fn is_ambiguous(seen: &Seen) -> bool {
    seen.servers.iter().any(|server| hosts_of_a_kind(server) > 1)
}

/// The hosts of a name. One host may have an IPv4 and an IPv6 address.
fn hosts_of_a_kind(server: &Server) -> usize {
    let four = server.hosts.iter().filter(|host| host.is_ipv4()).count();
    four.max(server.hosts.len() - four)
}

/// What the connect string names: a server twice, observers only, several servers of one machine, or several hosts as one.
fn connect_string(seen: &Seen, found: &mut Findings) {
    let mut servers = BTreeMap::<_, Vec<_>>::new();
    let mut hosts = BTreeMap::<_, BTreeSet<_>>::new();
    for server in &seen.servers {
        let id = server.words.as_ref().ok().and_then(|words| words.settings).map(|settings| settings.id);
        // Standalone servers may have the same number.
        let id = id.filter(|_| server.mode() != Some(&Mode::Standalone));
        let key = id.map_or_else(|| format!("{:?}", endpoint(server)), |id| format!("server {id}"));
        servers.entry(key).or_default().push(server.address.to_string());
        let (host, port) = endpoint(server);
        hosts.entry(host).or_default().insert(port);
    }
    if let Some(twice) = servers.into_values().find(|addresses| addresses.len() > 1) {
        found.warning(
            "named-twice",
            format!("{} are one server", twice.join(" and ")),
            "name each server once, or clients take one failure for several",
        );
    }
    let mut serving = seen.servers.iter().filter(|server| server.serves()).peekable();
    if serving.peek().is_some() && serving.all(|server| server.mode() == Some(&Mode::Observer)) {
        found.warning(
            "only-observers",
            "only observers can be used from here; behind an observer master the lease reckons with too few reports",
            "name voting servers, too",
        );
    }
    if let Some((host, ports)) = hosts.into_iter().find(|(_, ports)| ports.len() > 1) {
        let servers = ports.len();
        found.note(
            "same-host",
            format!(
                "{servers} of the named servers are at {host}; if that is one machine, they fail together"
            ),
            "run each on a machine of its own",
        );
    }
    if let Some(server) = seen.servers.iter().find(|server| hosts_of_a_kind(server) > 1) {
        found.note(
            "several-hosts",
            format!("{} stands for {} hosts; one of them was asked", server.address, hosts_of_a_kind(server)),
            "give each server a name of its own, so that the doctor can ask all of them",
        );
    }
}

/// The number of servers of which this holds. A server that is named twice counts once.
fn distinct(seen: &Seen, holds: impl Fn(&Server) -> bool) -> usize {
    let servers = seen.servers.iter().filter(|server| holds(server));
    servers.map(endpoint).collect::<BTreeSet<_>>().len()
}

fn endpoint(server: &Server) -> (String, u16) {
    let host = server.hosts.iter().min().map_or(server.address.host.clone(), ToString::to_string);
    (host, server.address.port)
}
