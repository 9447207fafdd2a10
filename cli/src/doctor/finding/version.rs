//! Findings about the servers' software: which version it is, what that version forgets, and what is no ZooKeeper.

use std::ops::Range;

use super::found::Findings;
use crate::doctor::seen::{Seen, Server};
use crate::servers::Mode;

type Version = (u32, u32, u32);

/// The oldest version that zklock works with: the first with a request that recovery needs.
const OLDEST: Version = (3, 6, 0);

/// A bug by which servers forget what a quorum has acknowledged. No lock survives that.
struct Flaw {
    /// The ticket, and those that report the same.
    tickets: &'static str,
    /// The versions that have it. A version in which a range ends has it mended.
    versions: &'static [Range<Version>],
    what: &'static str,
}

/// Each was checked against its ticket and against the source of the versions.
const FLAWS: [Flaw; 3] = [
    Flaw {
        tickets: "ZOOKEEPER-4785 (4643, 4646)",
        versions: &[(3, 6, 0)..(3, 8, 5), (3, 9, 0)..(3, 9, 2)],
        what: "a follower acknowledges a new leader before it has written that leader's data to its disk",
    },
    Flaw {
        tickets: "ZOOKEEPER-4712 (4541)",
        versions: &[(3, 6, 3)..(3, 9, 3)],
        what: "a follower that leaves its leader goes on writing to its log",
    },
    Flaw {
        tickets: "ZOOKEEPER-4925",
        versions: &[(3, 9, 3)..(3, 9, 4)],
        what: "a follower that was behind misses transactions, and passes this gap on when it becomes the leader",
    },
];

pub(super) fn find_in_version(seen: &Seen, found: &mut Findings) {
    if let Some(old_are) = seen.named_are(|server| version_of(server).is_some_and(|version| version < OLDEST))
    {
        found.warning(
            "version-too-old",
            format!(
                "{old_are} older than ZooKeeper 3.6. If a reply is lost there, zklock cannot find its node"
            ),
            "update to ZooKeeper 3.9.4 or later",
        );
    }
    find_forgetful(seen, found);
    let imitates = |server: &Server| server.words.as_ref().is_ok_and(|words| words.imitator.is_some());
    let software = seen.words().find_map(|words| words.imitator.as_deref());
    if let (Some(software), Some(servers_are)) = (software, seen.named_are(imitates)) {
        found.warning(
            "no-zookeeper",
            format!(
                "{servers_are} not ZooKeeper but {software}. Leases depend on how ZooKeeper's servers keep sessions, so \
                 two clients may hold the same lock"
            ),
            "use ZooKeeper for locks",
        );
    }
}

/// All flaws are in how a follower comes to a new leader. A server that stands alone has none of them so far.
fn find_forgetful(seen: &Seen, found: &mut Findings) {
    let has = |server: &Server, flaw: &Flaw| version_of(server).is_some_and(|version| flaw.is_in(version));
    let is_alone = |server: &Server| server.mode() == Some(&Mode::Standalone);
    let forgets = |server: &Server, flaw: &Flaw| !is_alone(server) && has(server, flaw);
    if let Some(alone) = seen.named(|server| is_alone(server) && FLAWS.iter().any(|flaw| has(server, flaw))) {
        found.note(
            "forgets-writes",
            format!("{alone} stands alone, and forgets nothing. In an ensemble, followers of its version may forget writes"),
            "update to ZooKeeper 3.9.4 or later before the server becomes a member of an ensemble",
        );
    }
    let Some(servers) = seen.named(|server| FLAWS.iter().any(|flaw| forgets(server, flaw))) else { return };
    let present = FLAWS.iter().filter(|flaw| seen.servers.iter().any(|server| forgets(server, flaw)));
    let present = present.map(|flaw| format!("{} ({})", flaw.what, flaw.tickets)).collect::<Vec<_>>();
    found.warning(
        "forgets-writes",
        format!(
            "if servers fail, {servers} may forget writes that a quorum has acknowledged. Then two clients may hold \
             the same lock. Bugs: {}",
            present.join("; ")
        ),
        "update all servers to ZooKeeper 3.9.4 or later",
    );
}

impl Flaw {
    fn is_in(&self, version: Version) -> bool {
        self.versions.iter().any(|range| range.contains(&version))
    }
}

fn version_of(server: &Server) -> Option<Version> {
    parse_version(server.words.as_ref().ok()?.version.as_deref()?)
}

/// Such as `3.9.3`, or `3.9`.
fn parse_version(version: &str) -> Option<Version> {
    let mut parts = version.split('.').map(str::parse::<u32>);
    Some((parts.next()?.ok()?, parts.next()?.ok()?, parts.next().map_or(Some(0), Result::ok)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_flaws(versions: &[&str], expected: &[&str]) {
        for version in versions {
            let number = parse_version(version).expect("a version");
            let flaws = FLAWS.iter().filter(|flaw| flaw.is_in(number)).map(|flaw| flaw.tickets);
            let tickets = flaws.map(|tickets| &tickets["ZOOKEEPER-".len()..][..4]).collect::<Vec<_>>();
            assert_eq!(tickets, expected, "{version}");
        }
    }

    #[test]
    fn each_version_has_the_flaws_of_its_tickets() {
        assert_flaws(&["3.5.9"], &[]); // it is too old anyway
        assert_flaws(&["3.6.0", "3.6.2"], &["4785"]);
        assert_flaws(
            &["3.6.3", "3.7.0", "3.7.2", "3.8.0", "3.8.4", "3.9.0", "3.9", "3.9.1"],
            &["4785", "4712"],
        );
        assert_flaws(&["3.8.5", "3.8.6", "3.9.2"], &["4712"]);
        assert_flaws(&["3.9.3"], &["4925"]);
        assert_flaws(&["3.9.4", "3.9.5", "3.10.0", "4.0"], &[]);
    }

    #[test]
    fn a_version_is_two_or_three_numbers() {
        assert_eq!(parse_version("3.10.12"), Some((3, 10, 12)));
        assert_eq!(parse_version("4.0"), Some((4, 0, 0)));
        assert_eq!(
            [parse_version("3"), parse_version(""), parse_version("3.x"), parse_version("3.9.")],
            [None; 4]
        );
    }
}
