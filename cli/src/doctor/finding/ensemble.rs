//! Findings about the servers: whether they can be reached, are one ensemble, and have a quorum.

use std::collections::BTreeSet;

use super::found::Findings;
use crate::doctor::seen::{Seen, Server};
use crate::servers::{Member, Mode, REJECTED};

pub(super) fn find_in_ensemble(seen: &Seen, found: &mut Findings) {
    find_several_ensembles(seen, found);
    for server in &seen.servers {
        find_unreachable(server, found);
    }
    find_leadership(seen, found);
    find_membership(seen, found);
}

/// A leader and a standalone server are sovereign. An ensemble has one sovereign server.
fn find_several_ensembles(seen: &Seen, found: &mut Findings) {
    let sovereign = |server: &Server| matches!(server.mode(), Some(Mode::Leader | Mode::Standalone));
    if count_distinct(seen, sovereign) > 1
        && let Some(servers) = seen.named(sovereign)
    {
        return found.danger(
            "several-ensembles",
            format!(
                "each of {servers} is a leader or a standalone server: they are not one ensemble, so two clients may \
                 hold the same lock"
            ),
            "name the servers of one ensemble only; if a leader was just partitioned or elected, run doctor again",
        );
    }
    if !members_agree(seen) {
        found.danger(
            "members-differ",
            "the servers have different lists of the members of their ensemble. So two majorities are possible, and \
             two clients may hold the same lock",
            "configure the same list of servers on all of them; on each server, /zookeeper/config has its list",
        );
    }
}

/// Whether all servers have the same members.
fn members_agree(seen: &Seen) -> bool {
    let members = seen.visits().filter_map(|visit| visit.members.as_ref());
    let ensembles = members.map(|members| members.iter().map(|member| member.id).collect::<BTreeSet<_>>());
    ensembles.collect::<BTreeSet<_>>().len() <= 1
}

fn find_unreachable(server: &Server, found: &mut Findings) {
    let address = &server.address;
    let (code, what, advice) = match (&server.words, &server.visit) {
        (Err(why), _) => (
            "unreachable",
            format!("{address} cannot be reached: {why}"),
            "check its name and port, start it (its log says why it ended), repair the network to it, or take it out of the connect string",
        ),
        (Ok(words), visit) => match (&words.mode, visit) {
            (Mode::Silent(why), _) => (
                "silent",
                format!("{address} accepts connections, but does not answer: {why}"),
                "look at its log; it may hang, or demand TLS (--tls-ca) or a certificate, or it is not a ZooKeeper server",
            ),
            (Mode::Closes, _) => (
                "closes-connections",
                format!("{address} closes connections at once"),
                "perhaps its limit maxClientCnxns is reached for this machine: count its connections from here \
                 (`ss -t`), or raise the limit; a proxy closes them if it cannot reach the server behind it",
            ),
            (Mode::Http, _) => (
                "http",
                format!(
                    "{address} speaks HTTP: it may be the port of ZooKeeper's AdminServer (admin.serverPort, 8080)"
                ),
                "give the port for clients (clientPort, 2181) in --servers",
            ),
            (Mode::TlsFailed(why), _) => (
                "tls-failed",
                format!("{address} accepts connections, but TLS fails: {why}"),
                "check that the server uses TLS at this port; that its certificate is for this host, that --tls-ca trusts \
                 it, and that it is valid by this machine's clock; that the server demands no client certificate, or \
                 --tls-cert gives one that it trusts and that is valid",
            ),
            (Mode::NotServing, _) => (
                "not-serving",
                format!("{address} runs, but has no quorum and serves no client"),
                "check that it reaches the other servers, and that they run",
            ),
            (Mode::ReadOnly, _) => (
                "read-only",
                format!(
                    "{address} is read-only: it cannot reach a quorum, so nobody can acquire a lock there"
                ),
                "check that it reaches the other servers, and that they run",
            ),
            (_, Err(why)) if why == REJECTED => (
                "credentials-rejected",
                format!("{address} rejects the credentials, or demands others"),
                "give the credentials that it demands, with --digest-file or ZKLOCK_DIGEST. If it demands SASL \
                 (sessionRequireClientSASLAuth, or enforce.auth.schemes with sasl), add --sasl digest-md5. Otherwise \
                 check that its authentication by digest is enabled",
            ),
            (_, Err(why)) => (
                "no-session",
                format!("{address} answers, but establishes no session: {why}"),
                "look at its log; perhaps the limit maxClientCnxns is reached",
            ),
            (_, Ok(_)) => return,
        },
    };
    found.warning(code, what, advice);
}

/// Members that the connect string lacks, and servers there that are no members. Nothing is said of servers that cannot be told apart:
/// clients may reach a member by other addresses than the configuration has.
fn find_membership(seen: &Seen, found: &mut Findings) {
    let members = seen.members();
    if members.is_empty() || is_ambiguous(seen) || !members_agree(seen) {
        return;
    }
    let ids = seen.servers.iter().map(|server| id_of(server, members)).collect::<Vec<_>>();
    let is_member = |id: &u64| members.iter().any(|member| member.id == *id);
    let knows_some = ids.iter().flatten().any(is_member);
    let is_stranger = |server: &Server| match id_of(server, members) {
        Some(id) => !is_member(&id),
        None => members.iter().all(|member| !member.hosts.is_empty() && !is_at(server, member)),
    };
    if let (true, Some(strangers_are)) = (knows_some, seen.named_are(is_stranger)) {
        found.warning(
            "no-member",
            format!("{strangers_are} in --servers, but no member of the ensemble in /zookeeper/config"),
            "take it out of --servers, or add it to the ensemble",
        );
    }
    let lacks = members.iter().filter(|member| !ids.contains(&Some(member.id)));
    let lacks = lacks.map(|member| match member.port {
        Some(port) => format!("server.{} ({}:{port})", member.id, member.host),
        None => format!("server.{} ({})", member.id, member.host),
    });
    let lacks = lacks.collect::<Vec<_>>().join(", ");
    if !lacks.is_empty() && ids.iter().all(Option::is_some) {
        found.note(
            "members-missing",
            format!("--servers lacks {lacks}, by /zookeeper/config a member of the ensemble"),
            "name all members in --servers: a program finds no other server if those that it knows are away",
        );
    }
}

/// The server's id: as it says itself, or by the one member that has its address.
fn id_of(server: &Server, members: &[Member]) -> Option<u64> {
    let told = server.settings.and_then(|settings| settings.id);
    let mut at = members.iter().filter(|member| is_at(server, member));
    told.or_else(|| at.next().filter(|_| at.next().is_none()).map(|member| member.id))
}

fn is_at(server: &Server, member: &Member) -> bool {
    let is_port = member.port.is_none_or(|port| port == server.address.port);
    let is_host =
        member.host == server.address.host || member.hosts.iter().any(|host| server.hosts.contains(host));
    is_port && is_host
}

fn find_leadership(seen: &Seen, found: &mut Findings) {
    if is_ambiguous(seen) {
        return;
    }
    let serving = count_distinct(seen, |server| server.serves() && server.mode() != Some(&Mode::Observer));
    let voters = voters(seen).max(serving);
    if serving > 0 && serving * 2 <= voters {
        found.warning(
            "no-majority",
            format!(
                "only {serving} of {voters} voting servers can be used from here. That is not a majority"
            ),
            "name all servers, and make them reachable: the next failure may end all sessions",
        );
    }
    let leads = |mode: &Mode| matches!(mode, Mode::Leader | Mode::Standalone);
    let tells =
        |mode: &Mode| matches!(mode, Mode::Follower | Mode::Observer | Mode::NotServing | Mode::ReadOnly);
    let can_tell = seen.servers.iter().all(|server| server.mode() != Some(&Mode::Unknown));
    if can_tell && seen.modes().any(tells) && !seen.modes().any(leads) {
        found.warning(
            "no-leader",
            "no server that answers is the leader",
            "name all servers; or wait until a leader is elected, and run doctor again; without a leader nobody \
             acquires a lock",
        );
    }
}

/// The voters by the ensemble's own configuration, else the servers of the connect string that may vote.
fn voters(seen: &Seen) -> usize {
    match seen.members().iter().filter(|member| member.votes).count() {
        0 => count_distinct(seen, |server| server.mode() != Some(&Mode::Observer)),
        voters => voters,
    }
}

/// Whether a name stands for several hosts. Each connection may lead to another one, so servers cannot be counted. One host may
/// have an IPv4 and an IPv6 address.
fn is_ambiguous(seen: &Seen) -> bool {
    seen.servers.iter().any(|server| {
        let four = server.hosts.iter().filter(|host| host.is_ipv4()).count();
        four > 1 || server.hosts.len() - four > 1
    })
}

/// The number of servers of which this holds. A server that is named twice counts once.
fn count_distinct(seen: &Seen, holds: impl Fn(&Server) -> bool) -> usize {
    let endpoint = |server: &Server| {
        let host = server.hosts.iter().min().map_or(server.address.host.clone(), ToString::to_string);
        (host, server.address.port)
    };
    let servers = seen.servers.iter().filter(|server| holds(server));
    servers.map(endpoint).collect::<BTreeSet<_>>().len()
}
