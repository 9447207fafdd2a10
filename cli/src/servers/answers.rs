//! Parsers of servers' answers: to the words `srvr` and `conf`, and the ensemble's configuration.

use std::net::IpAddr;
use std::time::Duration;

use crate::word::Mode;

/// A server's answer to `srvr`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Words {
    pub(crate) mode: Mode,
    /// ZooKeeper's version, such as `3.9.3`.
    pub(crate) version: Option<String>,
    /// The name of the software, if the server says that it is no ZooKeeper.
    pub(crate) imitator: Option<String>,
    /// The longest time that a request has taken since the server started.
    pub(crate) slowest: Option<Duration>,
}

/// The settings in the answer to `conf`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// The server's own id. That of a standalone server says nothing.
    pub(crate) id: Option<u64>,
    pub(crate) tick: Duration,
    pub(crate) shortest_timeout: Duration,
    pub(crate) longest_timeout: Duration,
}

/// A server of the ensemble, by the ensemble's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) id: u64,
    pub(crate) votes: bool,
    /// The host that clients, or else the other members, reach it by.
    pub(crate) host: String,
    /// The port for clients, if the configuration says it.
    pub(crate) port: Option<u16>,
    /// The addresses that the host's name stands for.
    pub(crate) hosts: Vec<IpAddr>,
}

/// Parses the answer to `srvr`. A server of 3.5 or later gives it, whatever its whitelist says.
pub(super) fn parse_srvr(answer: &str) -> Words {
    if answer.starts_with("HTTP/") {
        return Words { mode: Mode::Http, ..Words::default() };
    }
    if answer.contains("not currently serving requests") {
        return Words { mode: Mode::NotServing, ..Words::default() };
    }
    let mode = match line_behind(answer, "Mode: ") {
        Some("leader") => Mode::Leader,
        Some("follower") => Mode::Follower,
        Some("observer") => Mode::Observer,
        Some("standalone") => Mode::Standalone,
        Some("read-only") => Mode::ReadOnly,
        Some(_) | None => Mode::Unknown,
    };
    // ClickHouse Keeper and the like answer in the same way, with their own names in place of ZooKeeper's.
    let (software, version) = answer.lines().next().and_then(|line| line.split_once(" version: ")).unzip();
    let is_zookeeper = software == Some("Zookeeper");
    let version = version.filter(|_| is_zookeeper).map(|version| {
        version.chars().take_while(|character| character.is_ascii_digit() || *character == '.').collect()
    });
    let slowest = line_behind(answer, "Latency min/avg/max: ")
        .and_then(|values| values.rsplit('/').next()?.parse().ok());
    Words {
        mode,
        version: version.filter(|version: &String| !version.is_empty()),
        imitator: software.filter(|_| !is_zookeeper).map(str::to_owned),
        slowest: slowest.map(Duration::from_millis),
    }
}

/// Parses the answer to `conf`. A server gives it only if it is configured to.
pub(super) fn parse_conf(answer: &str) -> Option<Settings> {
    let number = |key| line_behind(answer, key)?.parse().ok();
    Some(Settings {
        id: line_behind(answer, "serverId=").and_then(|id| id.parse().ok()),
        tick: Duration::from_millis(number("tickTime=")?),
        shortest_timeout: Duration::from_millis(number("minSessionTimeout=")?),
        longest_timeout: Duration::from_millis(number("maxSessionTimeout=")?),
    })
}

/// Parses the members in `/zookeeper/config`, such as `server.1=zk1:2888:3888:participant;0.0.0.0:2181`.
pub(crate) fn parse_members(config: &str) -> Vec<Member> {
    config.lines().filter_map(parse_member).collect()
}

fn parse_member(line: &str) -> Option<Member> {
    let (id, rest) = line.trim().strip_prefix("server.")?.split_once('=')?;
    let (peers, client) = rest.split_once(';').unwrap_or((rest, ""));
    let peer = host_of(peers.split('|').next().filter(|peer| !peer.is_empty())?);
    let (host, port) = client.rsplit_once(':').map_or(("", client), |(host, port)| (host, port));
    let is_any = matches!(host.trim_matches(['[', ']']), "" | "0.0.0.0" | "::" | "0:0:0:0:0:0:0:0");
    let host = if is_any { peer } else { host };
    Some(Member {
        id: id.parse().ok()?,
        votes: !peers.ends_with(":observer"),
        host: host.trim_matches(['[', ']']).to_owned(),
        port: port.parse().ok(),
        hosts: Vec::new(),
    })
}

/// The host in front of the ports. It may be an IPv6 address in brackets.
fn host_of(text: &str) -> &str {
    let begin = text.find(']').unwrap_or(0);
    text[begin..].find(':').map_or(text, |colon| &text[..begin + colon])
}

fn line_behind<'a>(answer: &'a str, key: &str) -> Option<&'a str> {
    answer.lines().find_map(|line| line.strip_prefix(key)).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SRVR: &str =
        "Zookeeper version: 3.9.3-c26634f34490bb0ea7a09cc51e05ede3b4e320ee, built on 2024-10-17 23:21 UTC
Latency min/avg/max: 0/0.5714/1204
Received: 7
Sent: 6
Connections: 1
Outstanding: 0
Zxid: 0x500000012
Mode: follower
Node count: 9
";

    #[test]
    fn srvr_tells_mode_version_and_latency() {
        let words = parse_srvr(SRVR);
        assert_eq!(words.mode, Mode::Follower);
        assert_eq!(words.version.as_deref(), Some("3.9.3"));
        assert_eq!(words.slowest, Some(Duration::from_millis(1204)));
        assert_eq!(words.imitator, None);
    }

    #[test]
    fn another_software_is_no_version_of_zookeeper() {
        let answer =
            "ClickHouse Keeper version: v21.11.1.1-prestable-7a4a0b0edef0ad6e0aa662cd3b90c3f4acf796e7
Latency min/avg/max: 0/0/0
Received: 2
Sent : 2
Connections: 1
Outstanding: 0
Zxid: 34
Mode: leader
Node count: 4
";
        let words = parse_srvr(answer);
        assert_eq!((words.mode, words.version), (Mode::Leader, None));
        assert_eq!(words.imitator.as_deref(), Some("ClickHouse Keeper"));
    }

    #[test]
    fn a_server_may_not_answer_srvr() {
        let mode = |answer| parse_srvr(answer).mode;
        assert_eq!(mode("This ZooKeeper instance is not currently serving requests\n"), Mode::NotServing);
        assert_eq!(mode("srvr is not executed because it is not in the whitelist.\n"), Mode::Unknown);
        assert_eq!(mode("HTTP/1.1 400 Bad Request\r\n\r\n"), Mode::Http);
        assert_eq!(mode("Mode: \u{1b}[2J\n"), Mode::Unknown);
        assert_eq!(parse_srvr("Zookeeper version: \u{1b}[2J\n").version, None);
    }

    #[test]
    fn conf_tells_the_limits() {
        let answer = "clientPort=2181\ntickTime=2000\nmaxClientCnxns=60\nminSessionTimeout=4000\nmaxSessionTimeout=40000\n\
            serverId=3\ninitLimit=10\n";
        let seconds = Duration::from_secs;
        let settings = Settings {
            id: Some(3),
            tick: seconds(2),
            shortest_timeout: seconds(4),
            longest_timeout: seconds(40),
        };
        assert_eq!(parse_conf(answer), Some(settings));
        assert_eq!(parse_conf("conf is not executed because it is not in the whitelist.\n"), None);
        assert_eq!(parse_conf(&answer.replace("tickTime=2000", "tickTime=-1")), None);
    }

    #[test]
    fn the_configuration_names_the_members() {
        let config = "server.1=zk1:2888:3888:participant;0.0.0.0:2181\nserver.2=[::1]:2888:3888;2181\n\
            server.12=zk3:2888:3888:observer;zk3:2181\ngroup.1=1:2\nversion=100000000\nserver.x=y\nserver.4=\nserver.5=zk5:2888:3888|zk6:2888:3888:participant";
        let expected = [
            (1, true, "zk1", Some(2181)),
            (2, true, "::1", Some(2181)),
            (12, false, "zk3", Some(2181)),
            (5, true, "zk5", None),
        ];
        let expected = expected.map(|(id, votes, host, port)| Member {
            id,
            votes,
            host: host.to_owned(),
            port,
            hosts: Vec::new(),
        });
        assert_eq!(parse_members(config), expected);
        assert_eq!(parse_members(""), []);
    }
}
