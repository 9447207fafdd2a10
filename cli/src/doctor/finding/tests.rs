//! A healthy ensemble, and the findings when something is wrong with it.

use std::net::Ipv6Addr;
use std::time::Duration;

use super::{Finding, Severity, findings};
use crate::connection::Address;
use crate::doctor::lease::Arithmetic;
use crate::doctor::lease::tests::arithmetic;
use crate::doctor::seen::{Member, Mode, Seen, Server, Settings, Visit, Wishes, Words};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn server(id: u8, mode: Mode) -> Server {
    let settings = Settings {
        id: id.into(),
        tick: seconds(2),
        shortest_timeout: seconds(4),
        longest_timeout: seconds(40),
    };
    Server {
        address: Address { host: format!("zk{id}"), port: 2181, tls: false },
        hosts: vec![[10, 0, 0, id].into()],
        words: Ok(Words {
            mode,
            version: Some("3.9.5".into()),
            imitator: None,
            slowest: Some(Duration::from_millis(20)),
            nodes: Some(9),
            settings: Some(settings),
        }),
        visit: Ok(Visit {
            longest_timeout: seconds(40),
            read: Duration::from_millis(1),
            write: Duration::from_millis(3),
            members: Some(members(3)),
            identities: vec![],
        }),
    }
}

fn members(count: u8) -> Vec<Member> {
    (1..=count).map(|id| Member { id: id.into(), host: format!("zk{id}"), votes: true }).collect()
}

fn healthy() -> Seen {
    Seen {
        servers: vec![server(1, Mode::Follower), server(2, Mode::Leader), server(3, Mode::Follower)],
        wishes: Wishes { session_timeout: seconds(10), exact: false, tick: None, digest: false },
        session: Some(session(10, 2)),
        locks: vec![],
        clock_rate: -40,
    }
}

fn session(timeout: u64, tick: u64) -> Arithmetic {
    arithmetic(timeout, tick)
}

fn words(seen: &mut Seen, index: usize) -> &mut Words {
    seen.servers[index].words.as_mut().unwrap()
}

fn visit(seen: &mut Seen, index: usize) -> &mut Visit {
    seen.servers[index].visit.as_mut().unwrap()
}

fn lose(seen: &mut Seen, index: usize) {
    seen.servers[index].words = Err("connection refused".into());
    seen.servers[index].visit = Err("it closes the connection".into());
}

/// The findings for the healthy ensemble after this change.
fn found(change: impl FnOnce(&mut Seen)) -> Vec<Finding> {
    let mut seen = healthy();
    change(&mut seen);
    findings(&seen)
}

/// Asserts the severities and names of the findings.
#[track_caller]
fn assert_found(change: impl FnOnce(&mut Seen), expected: &[(Severity, &str)]) -> Vec<Finding> {
    let findings = found(change);
    let codes = findings.iter().map(|finding| (finding.severity, finding.code)).collect::<Vec<_>>();
    assert_eq!(codes, expected, "{findings:#?}");
    findings
}

use Severity::{Danger, Note, Warning};

#[test]
fn a_slewed_clock() {
    assert_found(|seen| seen.clock_rate = 500, &[]);
    let found = assert_found(|seen| seen.clock_rate = -83_333, &[(Warning, "clock-slewed")]);
    assert!(found[0].what.contains("-8.33%"), "{found:?}");
}

#[test]
fn nothing_is_wrong() {
    assert_found(|_| {}, &[]);
}

fn ticks(milliseconds: u64) -> impl Fn(&mut Seen) {
    move |seen| {
        for index in 0..3 {
            words(seen, index).settings.as_mut().unwrap().tick = Duration::from_millis(milliseconds);
        }
    }
}

#[test]
fn a_longer_tick_than_was_given_is_dangerous_and_comes_first() {
    let change = |seen: &mut Seen| {
        ticks(2500)(seen);
        seen.wishes.tick = Some(seconds(2));
        lose(seen, 0);
    };
    let findings = assert_found(change, &[(Danger, "tick-too-short"), (Warning, "unreachable")]);
    assert!(findings[0].advice.contains("--tick 2500ms"), "{findings:?}");
}

#[test]
fn one_longer_tick_is_enough_whichever_was_learned() {
    let differ = |seen: &mut Seen| words(seen, 2).settings.as_mut().unwrap().tick = seconds(3);
    let expected = [(Danger, "tick-too-short"), (Warning, "settings-differ")];
    assert_found(differ, &expected);
    let learned = |seen: &mut Seen| {
        differ(seen);
        seen.session = Some(session(10, 3));
    };
    assert_found(learned, &expected);
    // If the tick is given, no client learns the shorter one.
    let given = |seen: &mut Seen| {
        learned(seen);
        seen.wishes.tick = Some(seconds(3));
    };
    assert_found(given, &[(Warning, "settings-differ")]);
}

#[test]
fn a_shorter_tick_than_was_given_makes_leases_shorter() {
    let change = |seen: &mut Seen| {
        ticks(1000)(seen);
        seen.wishes.tick = Some(seconds(2));
    };
    let findings = assert_found(change, &[(Warning, "tick-too-long")]);
    assert!(findings[0].advice.contains("--tick 1s"), "{findings:?}");
}

#[test]
fn a_tick_that_is_not_told_may_be_another_one_than_the_limits_say() {
    let silent = |seen: &mut Seen| (0..3).for_each(|index| words(seen, index).settings = None);
    let findings = assert_found(silent, &[(Note, "tick-unknown")]);
    assert!(findings[0].what.contains("reckoned with 2s"), "{findings:?}");
    let told = |seen: &mut Seen| {
        silent(seen);
        seen.wishes.tick = Some(seconds(2));
    };
    assert_found(told, &[]);
}

#[test]
fn the_session_timeout_may_not_be_the_one_that_was_asked_for() {
    let change = |seen: &mut Seen| seen.wishes.session_timeout = seconds(100);
    assert_found(change, &[(Warning, "timeout-adapted")]);
    let change = |seen: &mut Seen| {
        seen.wishes.session_timeout = seconds(1);
        seen.wishes.exact = true;
    };
    let findings = assert_found(change, &[(Warning, "timeout-adapted")]);
    assert!(findings[0].advice.contains("minSessionTimeout"), "{findings:?}");
}

#[test]
fn a_round_trip_may_take_too_much_of_a_heartbeat() {
    let write = |millis| move |seen: &mut Seen| visit(seen, 1).write = Duration::from_millis(millis);
    // A quarter of a heartbeat, which is a quarter of 10 s less the lag of 1.6 s.
    assert_found(write(525), &[]);
    assert_found(write(526), &[(Warning, "slow-round-trip")]);
}

#[test]
fn a_crash_may_block_everybody_for_long() {
    let change = |seen: &mut Seen| {
        seen.wishes.session_timeout = seconds(28);
        seen.session = Some(session(28, 2));
    };
    assert_found(change, &[(Warning, "slow-takeover")]);
}

#[test]
fn a_server_may_have_been_slow() {
    assert_found(|seen| words(seen, 0).slowest = Some(seconds(3)), &[(Note, "slow-requests")]);
}

#[test]
fn secrets_are_for_tls() {
    assert_found(|seen| seen.wishes.digest = true, &[(Warning, "digest-in-plain")]);
    let change = |seen: &mut Seen| {
        seen.wishes.digest = true;
        seen.servers.iter_mut().for_each(|server| server.address.tls = true);
    };
    assert_found(change, &[]);
}

#[test]
fn a_server_may_be_of_no_use() {
    assert_found(|seen| lose(seen, 0), &[(Warning, "unreachable")]);
    let change = |mode| {
        move |seen: &mut Seen| {
            words(seen, 0).mode = mode;
            seen.servers[0].visit = Err("it closes the connection".into());
        }
    };
    assert_found(change(Mode::Silent("it closes the connection".into())), &[(Warning, "silent")]);
    assert_found(change(Mode::TlsFailed("received fatal alert".into())), &[(Warning, "tls-failed")]);
    assert_found(change(Mode::NotServing), &[(Warning, "not-serving")]);
    assert_found(change(Mode::ReadOnly), &[(Warning, "read-only")]);
    assert_found(change(Mode::Follower), &[(Warning, "no-session")]);
}

#[test]
fn a_majority_may_be_out_of_reach() {
    let change = |seen: &mut Seen| {
        lose(seen, 0);
        lose(seen, 2);
    };
    assert_found(change, &[(Warning, "unreachable"), (Warning, "unreachable"), (Warning, "no-majority")]);
}

#[test]
fn the_leader_may_be_out_of_reach() {
    assert_found(|seen| lose(seen, 1), &[(Warning, "unreachable"), (Warning, "no-leader")]);
}

#[test]
fn nobody_may_be_there() {
    let change = |seen: &mut Seen| {
        (0..3).for_each(|index| lose(seen, index));
        seen.session = None;
    };
    assert_found(change, &[(Warning, "unreachable"); 3]);
}

fn standalone(id: u8) -> Server {
    let mut server = server(id, Mode::Standalone);
    server.visit.as_mut().unwrap().members = Some(vec![]);
    server.words.as_mut().unwrap().settings.as_mut().unwrap().id = 0;
    server
}

#[test]
fn one_server_is_few() {
    assert_found(|seen| seen.servers = vec![standalone(1)], &[(Warning, "single-server")]);
    let local = |seen: &mut Seen| {
        seen.servers = vec![standalone(1)];
        seen.servers[0].hosts = vec![[127, 0, 0, 1].into(), Ipv6Addr::LOCALHOST.into()];
    };
    assert_found(local, &[(Note, "single-server")]);
}

#[test]
fn servers_that_do_not_know_each_other_are_dangerous() {
    let expected = [(Danger, "several-ensembles"), (Warning, "single-server")];
    assert_found(|seen| seen.servers = vec![standalone(1), standalone(2)], &expected);
    let change = |seen: &mut Seen| visit(seen, 2).members = Some(members(5));
    assert_found(change, &[(Danger, "members-differ"), (Warning, "missing-servers")]);
    // A server that does not say its members does not disagree.
    assert_found(|seen| visit(seen, 2).members = None, &[]);
}

#[test]
fn an_even_number_of_voters_bears_no_more() {
    let change = |seen: &mut Seen| {
        seen.servers.push(server(4, Mode::Follower));
        (0..4).for_each(|index| visit(seen, index).members = Some(members(4)));
    };
    assert_found(change, &[(Warning, "even-voters")]);
    let observing = |seen: &mut Seen| {
        change(seen);
        words(seen, 3).mode = Mode::Observer;
        (0..4).for_each(|index| visit(seen, index).members.as_mut().unwrap()[3].votes = false);
    };
    assert_found(observing, &[]);
}

#[test]
fn servers_may_be_left_out_of_the_connect_string() {
    let findings = assert_found(|seen| drop(seen.servers.pop()), &[(Warning, "missing-servers")]);
    assert!(findings[0].what.ends_with("names 2 of the ensemble's 3 servers, not 3 at zk3"), "{findings:?}");
    // The same if no server says its number, and the servers have other names for each other.
    let renamed = |seen: &mut Seen| {
        seen.servers.pop();
        for index in 0..2 {
            words(seen, index).settings = None;
            seen.servers[index].address.host = format!("outside-{index}");
        }
        seen.wishes.tick = Some(seconds(2));
    };
    let findings = assert_found(renamed, &[(Warning, "missing-servers")]);
    assert!(findings[0].what.ends_with("which are 1 at zk1, 2 at zk2, 3 at zk3"), "{findings:?}");
}

#[test]
fn a_server_may_be_named_twice() {
    let change = |seen: &mut Seen| {
        let mut twin = seen.servers[0].clone();
        twin.address.host = "alias".into();
        seen.servers.push(twin);
    };
    let findings = assert_found(change, &[(Warning, "named-twice")]);
    assert!(findings[0].what.contains("zk1:2181 and alias:2181"), "{findings:?}");
}

#[test]
fn a_name_for_several_hosts_cannot_be_counted() {
    let change = |seen: &mut Seen| {
        seen.servers.truncate(1);
        seen.servers[0].hosts = vec![[10, 0, 0, 1].into(), [10, 0, 0, 2].into(), [10, 0, 0, 3].into()];
    };
    assert_found(change, &[(Note, "several-hosts")]);
    // An address of each kind is one host.
    assert_found(|seen| seen.servers[0].hosts.push("fd00::1".parse().unwrap()), &[]);
}

#[test]
fn observers_alone_are_no_good() {
    let change = |seen: &mut Seen| {
        (0..3).for_each(|index| words(seen, index).mode = Mode::Observer);
    };
    let findings = found(change);
    assert!(findings.iter().any(|finding| finding.code == "only-observers"), "{findings:?}");
}

fn versions(version: &'static str) -> impl Fn(&mut Seen) {
    move |seen| (0..3).for_each(|index| words(seen, index).version = Some(version.into()))
}

#[test]
fn versions_count() {
    assert_found(versions("3.10.1"), &[]);
    assert_found(versions("4.0"), &[]);
    assert_found(versions("3.5.9"), &[(Warning, "version-too-old")]);
    let change = |seen: &mut Seen| words(seen, 0).version = Some("3.9.4".into());
    assert_found(change, &[(Warning, "versions-differ")]);
}

#[test]
fn followers_of_some_versions_forget_writes() {
    let found = assert_found(versions("3.9.3"), &[(Warning, "forgets-writes")]);
    assert!(
        found[0].what.contains("zk1:2181, zk2:2181, zk3:2181") && found[0].what.contains("ZOOKEEPER-4925"),
        "{found:?}"
    );
    assert!(!found[0].what.contains("4785") && !found[0].what.contains("4712"), "{found:?}");
    let one = |seen: &mut Seen| words(seen, 1).version = Some("3.8.4".into());
    let found = assert_found(one, &[(Warning, "forgets-writes"), (Warning, "versions-differ")]);
    assert!(found[0].what.contains(" zk2:2181 may") && !found[0].what.contains("zk1"), "{found:?}");
    assert!(found[0].what.contains("4785") && found[0].what.contains("4712"), "{found:?}");
    // A server that stands alone follows nobody.
    let alone = |seen: &mut Seen| {
        seen.servers = vec![standalone(1)];
        words(seen, 0).version = Some("3.9.3".into());
    };
    assert_found(alone, &[(Warning, "single-server")]);
}

#[test]
fn a_server_may_be_no_zookeeper() {
    let change = |seen: &mut Seen| {
        words(seen, 1).version = None;
        words(seen, 1).imitator = Some("ClickHouse Keeper".into());
    };
    let found = assert_found(change, &[(Warning, "no-zookeeper")]);
    assert!(found[0].what.starts_with("zk2:2181 is no ZooKeeper, but ClickHouse Keeper"), "{found:?}");
}

#[test]
fn servers_on_one_machine_fail_together() {
    let change = |seen: &mut Seen| {
        for (index, server) in seen.servers.iter_mut().enumerate() {
            server.hosts = vec![[127, 0, 0, 1].into()];
            server.address.port += index as u16;
        }
    };
    assert_found(change, &[(Note, "same-host")]);
}

#[test]
fn a_server_may_not_tell_its_mode() {
    let change = |seen: &mut Seen| words(seen, 0).mode = Mode::Unknown;
    assert_found(change, &[(Note, "mode-unknown")]);
}

#[test]
fn a_tree_that_the_leader_cannot_clear_in_time() {
    assert_found(|seen| words(seen, 0).nodes = Some(100_000), &[]);
    let findings =
        assert_found(|seen| words(seen, 2).nodes = Some(250_000), &[(Severity::Warning, "many-nodes")]);
    assert!(findings[0].what.contains("250000 nodes") && findings[0].what.contains("10000 a minute"));
}
