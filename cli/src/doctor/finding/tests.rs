//! A healthy ensemble, and the findings when something is wrong with it.

use std::net::Ipv6Addr;
use std::time::Duration;

use super::{Severity, findings};
use crate::connection::Address;
use crate::doctor::lease::tests::arithmetic;
use crate::doctor::seen::{
    Contact, Holder, Member, Mode, Queue, Room, Seen, Server, Settings, Visit, Wishes, Words,
};
use crate::pool::{Amount, Stock};
use crate::queue::Stranger;

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
        session: Some(arithmetic(10, 2)),
        locks: vec![],
        clock_rate: -40,
    }
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

/// Asserts the severities and names of the findings for the healthy ensemble after this change, and what the first one says.
#[track_caller]
fn assert_found(change: impl FnOnce(&mut Seen), expected: &[(Severity, &str)], said: &[&str]) {
    let mut seen = healthy();
    change(&mut seen);
    let findings = findings(&seen);
    let codes = findings.iter().map(|finding| (finding.severity, finding.code)).collect::<Vec<_>>();
    assert_eq!(codes, expected, "{findings:#?}");
    for text in said {
        let finding = &findings[0];
        assert!(finding.what.contains(text) || finding.advice.contains(text), "{text}: {finding:?}");
    }
}

use Severity::{Danger, Note, Warning};

#[test]
fn nothing_is_wrong() {
    assert_found(|_| {}, &[], &[]);
    assert_found(|seen| seen.clock_rate = 500, &[], &[]);
}

#[test]
fn a_tick_may_be_another_one_than_leases_are_reckoned_with() {
    let ticks = |seen: &mut Seen, milliseconds: u64| {
        for index in 0..3 {
            words(seen, index).settings.as_mut().unwrap().tick = Duration::from_millis(milliseconds);
        }
        seen.wishes.tick = Some(seconds(2));
    };
    // What is dangerous comes first.
    let longer = |seen: &mut Seen| {
        ticks(seen, 2500);
        lose(seen, 0);
    };
    assert_found(longer, &[(Danger, "tick-too-short"), (Warning, "unreachable")], &["--tick 2500ms"]);
    assert_found(|seen| ticks(seen, 1000), &[(Warning, "tick-too-long")], &["--tick 1s"]);
    // One longer tick is enough, whichever was learned.
    let differ = |seen: &mut Seen, learned: u64| {
        words(seen, 2).settings.as_mut().unwrap().tick = seconds(3);
        seen.session = Some(arithmetic(10, learned));
    };
    let expected = [(Danger, "tick-too-short"), (Warning, "settings-differ")];
    assert_found(|seen| differ(seen, 2), &expected, &[]);
    assert_found(|seen| differ(seen, 3), &expected, &[]);
    // If the tick is given, no client learns the shorter one.
    let given = |seen: &mut Seen| {
        differ(seen, 3);
        seen.wishes.tick = Some(seconds(3));
    };
    assert_found(given, &[(Warning, "settings-differ")], &[]);
    // A tick that no server tells may be another one than the limits say.
    let silent = |seen: &mut Seen| (0..3).for_each(|index| words(seen, index).settings = None);
    assert_found(silent, &[(Note, "tick-unknown")], &["derives 2s"]);
    let told = |seen: &mut Seen| {
        silent(seen);
        seen.wishes.tick = Some(seconds(2));
    };
    assert_found(told, &[], &[]);
}

#[test]
fn the_settings_and_the_way_to_the_servers_may_cost_locks() {
    assert_found(|seen| seen.clock_rate = -83_333, &[(Warning, "clock-slewed")], &["-8.33%"]);
    let adapted = [(Warning, "timeout-adapted")];
    assert_found(|seen| seen.wishes.session_timeout = seconds(100), &adapted, &["maxSessionTimeout"]);
    let exact = |seen: &mut Seen| {
        seen.wishes.session_timeout = seconds(1);
        seen.wishes.exact = true;
    };
    assert_found(exact, &adapted, &["minSessionTimeout"]);
    let slow = |seen: &mut Seen| {
        seen.wishes.session_timeout = seconds(28);
        seen.session = Some(arithmetic(28, 2));
    };
    assert_found(slow, &[(Warning, "slow-takeover")], &[]);
    // A quarter of a heartbeat, which is a quarter of 10 s less the lag of 1.6 s.
    let write = |millis| move |seen: &mut Seen| visit(seen, 1).write = Duration::from_millis(millis);
    assert_found(write(525), &[], &[]);
    assert_found(write(526), &[(Warning, "slow-round-trip")], &[]);
    assert_found(|seen| words(seen, 0).slowest = Some(seconds(3)), &[(Note, "slow-requests")], &[]);
    assert_found(|seen| seen.wishes.digest = true, &[(Warning, "digest-in-plain")], &[]);
    let secure = |seen: &mut Seen| {
        seen.wishes.digest = true;
        seen.servers.iter_mut().for_each(|server| server.address.tls = true);
    };
    assert_found(secure, &[], &[]);
}

#[test]
fn a_server_may_be_of_no_use() {
    assert_found(|seen| lose(seen, 0), &[(Warning, "unreachable")], &[]);
    for (mode, code) in [
        (Mode::Silent("it closes the connection".into()), "silent"),
        (Mode::TlsFailed("received fatal alert".into()), "tls-failed"),
        (Mode::NotServing, "not-serving"),
        (Mode::ReadOnly, "read-only"),
        (Mode::Follower, "no-session"),
    ] {
        let change = |seen: &mut Seen| {
            words(seen, 0).mode = mode;
            seen.servers[0].visit = Err("it closes the connection".into());
        };
        assert_found(change, &[(Warning, code)], &[]);
    }
    assert_found(|seen| words(seen, 0).mode = Mode::Unknown, &[(Note, "mode-unknown")], &[]);
}

#[test]
fn a_majority_or_the_leader_or_all_may_be_out_of_reach() {
    const GONE: (Severity, &str) = (Warning, "unreachable");
    let lost = |servers: &[usize]| {
        let servers = servers.to_vec();
        move |seen: &mut Seen| servers.into_iter().for_each(|index| lose(seen, index))
    };
    assert_found(lost(&[0, 2]), &[GONE, GONE, (Warning, "no-majority")], &[]);
    assert_found(lost(&[1]), &[GONE, (Warning, "no-leader")], &[]);
    let nobody = |seen: &mut Seen| {
        lost(&[0, 1, 2])(seen);
        seen.session = None;
    };
    assert_found(nobody, &[GONE; 3], &[]);
}

fn standalone(id: u8) -> Server {
    let mut server = server(id, Mode::Standalone);
    server.visit.as_mut().unwrap().members = Some(vec![]);
    server.words.as_mut().unwrap().settings.as_mut().unwrap().id = 0;
    server
}

#[test]
fn an_ensemble_has_an_odd_number_of_voters_that_know_each_other() {
    assert_found(|seen| seen.servers = vec![standalone(1)], &[(Warning, "single-server")], &[]);
    let local = |seen: &mut Seen| {
        seen.servers = vec![standalone(1)];
        seen.servers[0].hosts = vec![[127, 0, 0, 1].into(), Ipv6Addr::LOCALHOST.into()];
    };
    assert_found(local, &[(Note, "single-server")], &[]);
    let expected = [(Danger, "several-ensembles"), (Warning, "single-server")];
    assert_found(|seen| seen.servers = vec![standalone(1), standalone(2)], &expected, &[]);
    let expected = [(Danger, "members-differ"), (Warning, "missing-servers")];
    assert_found(|seen| visit(seen, 2).members = Some(members(5)), &expected, &[]);
    // A server that does not say its members does not disagree.
    assert_found(|seen| visit(seen, 2).members = None, &[], &[]);
    let even = |seen: &mut Seen| {
        seen.servers.push(server(4, Mode::Follower));
        (0..4).for_each(|index| visit(seen, index).members = Some(members(4)));
    };
    assert_found(even, &[(Warning, "even-voters")], &[]);
    let observing = |seen: &mut Seen| {
        even(seen);
        words(seen, 3).mode = Mode::Observer;
        (0..4).for_each(|index| visit(seen, index).members.as_mut().unwrap()[3].votes = false);
    };
    assert_found(observing, &[], &[]);
    let observers = |seen: &mut Seen| (0..3).for_each(|index| words(seen, index).mode = Mode::Observer);
    assert_found(observers, &[(Warning, "no-leader"), (Warning, "only-observers")], &[]);
}

#[test]
fn each_server_has_one_name_and_one_machine() {
    let missing = [(Warning, "missing-servers")];
    let said = "names 2 of the ensemble's 3 servers; it does not name server 3 at zk3";
    assert_found(|seen| drop(seen.servers.pop()), &missing, &[said]);
    // The same if no server says its number, and the servers have other names for each other.
    let renamed = |seen: &mut Seen| {
        seen.servers.pop();
        for index in 0..2 {
            words(seen, index).settings = None;
            seen.servers[index].address.host = format!("outside-{index}");
        }
        seen.wishes.tick = Some(seconds(2));
    };
    assert_found(renamed, &missing, &["the ensemble is server 1 at zk1, server 2 at zk2, server 3 at zk3"]);
    let twice = |seen: &mut Seen| {
        let mut twin = seen.servers[0].clone();
        twin.address.host = "alias".into();
        seen.servers.push(twin);
    };
    assert_found(twice, &[(Warning, "named-twice")], &["zk1:2181 and alias:2181"]);
    // What a name for several hosts stands for cannot be counted.
    let several = |seen: &mut Seen| {
        seen.servers.truncate(1);
        seen.servers[0].hosts = vec![[10, 0, 0, 1].into(), [10, 0, 0, 2].into(), [10, 0, 0, 3].into()];
    };
    assert_found(several, &[(Note, "several-hosts")], &[]);
    // An address of each kind is one host.
    assert_found(|seen| seen.servers[0].hosts.push("fd00::1".parse().unwrap()), &[], &[]);
    let together = |seen: &mut Seen| {
        for (index, server) in seen.servers.iter_mut().enumerate() {
            server.hosts = vec![[127, 0, 0, 1].into()];
            server.address.port += index as u16;
        }
    };
    assert_found(together, &[(Note, "same-host")], &[]);
}

#[test]
fn the_software_and_its_version_count() {
    let all = |version: &'static str| {
        move |seen: &mut Seen| (0..3).for_each(|index| words(seen, index).version = Some(version.into()))
    };
    let one = |index, version: &'static str| {
        move |seen: &mut Seen| words(seen, index).version = Some(version.into())
    };
    assert_found(all("3.10.1"), &[], &[]);
    assert_found(all("4.0"), &[], &[]);
    assert_found(all("3.5.9"), &[(Warning, "version-too-old")], &[]);
    assert_found(one(0, "3.9.4"), &[(Warning, "versions-differ")], &[]);
    // Followers of some versions forget writes.
    let servers = "if servers fail, zk1:2181, zk2:2181, zk3:2181 may";
    let said = [
        servers,
        "Bugs: a follower that was behind misses transactions, and passes this gap on when it becomes the leader (ZOOKEEPER-4925)",
    ];
    assert_found(all("3.9.3"), &[(Warning, "forgets-writes")], &said);
    let said =
        ["if servers fail, zk2:2181 may", "(ZOOKEEPER-4785 (4643, 4646)); a", "(ZOOKEEPER-4712 (4541))"];
    assert_found(one(1, "3.8.4"), &[(Warning, "forgets-writes"), (Warning, "versions-differ")], &said);
    // A server that stands alone follows nobody.
    let alone = |seen: &mut Seen| {
        seen.servers = vec![standalone(1)];
        words(seen, 0).version = Some("3.9.3".into());
    };
    assert_found(alone, &[(Warning, "single-server")], &[]);
    let imitated = |seen: &mut Seen| {
        words(seen, 1).version = None;
        words(seen, 1).imitator = Some("ClickHouse Keeper".into());
    };
    let said = "zk2:2181 is not ZooKeeper but ClickHouse Keeper";
    assert_found(imitated, &[(Warning, "no-zookeeper")], &[said]);
}

#[test]
fn a_tree_that_the_leader_cannot_clear_in_time() {
    assert_found(|seen| words(seen, 0).nodes = Some(100_000), &[], &[]);
    let said = ["250000 nodes", "10000 a minute"];
    assert_found(|seen| words(seen, 2).nodes = Some(250_000), &[(Warning, "many-nodes")], &said);
}

#[test]
fn each_path_has_a_verdict() {
    let queue = |queue: Queue| move |seen: &mut Seen| seen.locks = vec![queue];
    let path = || Queue { path: "/lock".into(), ..Queue::default() };
    let some = |text: &str| Some(text.to_owned());
    assert_found(queue(path()), &[(Note, "lock-free")], &["nobody holds /lock"]);
    let forbidden = Queue { refused: some("not for you"), ..path() };
    assert_found(queue(forbidden), &[(Warning, "path-forbidden")], &["not for you"]);
    let other = Queue { other: some("has slots"), missing: some("it is not there"), ..path() };
    assert_found(queue(other), &[(Note, "path-not-a-lock")], &["/lock has slots"]);
    assert_found(
        queue(Queue { missing: some("it is gone"), ..path() }),
        &[(Note, "path-missing")],
        &["gone"],
    );
    let held = |contact, waiting| {
        let (owner, came, session) = ("vm:7".into(), "noon".into(), "0x1".into());
        let (sequence, amount) = (Some(4), None);
        let holder = Holder { owner, came, session, is_zklocks: true, sequence, amount, contact };
        Queue { contenders: waiting + 1, holders: vec![holder], waiting, ..path() }
    };
    let heard = |ago| Contact::Heard { ago: seconds(ago), timeout: seconds(10), by: "zk2:2181".into() };
    let said = ["nobody waits at /lock for vm:7", "zk2:2181 answered it 2s ago"];
    assert_found(queue(held(heard(2), 0)), &[(Note, "lock-held")], &said);
    assert_found(
        queue(held(heard(2), 1)),
        &[(Note, "lock-waited-for")],
        &["1 contender waits", "--force /lock"],
    );
    let said = ["2 contenders wait", "zk2:2181 answered it 6s ago", "gives the lock away within 7s"];
    assert_found(queue(held(heard(6), 2)), &[(Warning, "holder-silent")], &said);
    assert_found(queue(held(Contact::Gone, 0)), &[(Warning, "holder-silent")], &["no server of --servers"]);
    let unknown = held(Contact::Unknown("no cons".into()), 0);
    assert_found(queue(unknown), &[(Note, "lock-held")], &["do not say whether it lives (no cons)"]);
    // One of two readers is silent.
    let mut readers = held(heard(2), 0);
    readers.holders.push(Holder { owner: "web:2".into(), ..held(heard(6), 0).holders.remove(0) });
    assert_found(queue(readers), &[(Warning, "holder-silent")], &["for web:2, in the queue"]);
    // Another server may have its connection.
    for contact in [Contact::Gone, heard(6)] {
        let fewer = |seen: &mut Seen| {
            seen.servers.pop();
            seen.locks = vec![held(contact, 0)];
        };
        assert_found(fewer, &[(Warning, "missing-servers"), (Note, "lock-held")], &[]);
    }
}

#[test]
fn each_pool_has_a_verdict() {
    let heard = |ago| Contact::Heard { ago: seconds(ago), timeout: seconds(10), by: "zk2:2181".into() };
    let one = |sequence: i32, amount, ago| Holder {
        owner: format!("vm:{sequence}"),
        came: "noon".into(),
        session: "0x1".into(),
        is_zklocks: true,
        sequence: Some(sequence),
        amount,
        contact: heard(ago),
    };
    // Permits of these weights, each with the time since its last answer, of a capacity of 4.
    let pool = |held: &[(u32, u64)], waiting: usize, first: u64| {
        let holders = held.iter().zip(7..);
        let holders = holders.map(|((weight, ago), number)| one(number, Some(Amount::Weight(*weight)), *ago));
        Queue {
            path: "/convert".into(),
            holders: holders.collect(),
            waiting,
            pool: Some(Room {
                stock: Stock::Semaphore { capacity: 4 },
                held: held.iter().map(|(weight, _)| u64::from(*weight)).sum(),
                first: (waiting > 0).then(|| one(9, None, first)),
                foreign: vec![],
            }),
            ..Queue::default()
        }
    };
    let is = |queue: Queue, expected: &[(Severity, &str)], said: &[&str]| {
        assert_found(|seen| seen.locks = vec![queue], expected, said);
    };
    is(pool(&[], 0, 0), &[(Note, "pool-free")], &["0 of 4 permits of /convert are held, nobody waits"]);
    is(pool(&[(3, 1)], 0, 0), &[(Note, "pool-held")], &["3 of 4 permits"]);
    is(pool(&[(3, 1), (1, 1)], 0, 0), &[(Note, "pool-full")], &["until a permit is released"]);
    let said =
        ["4 of 4 permits", "2 contenders wait", "vm:7 holds a permit of weight 3", "--sequence 7 /convert"];
    is(pool(&[(3, 1), (1, 1)], 2, 1), &[(Note, "pool-waited-for")], &said);
    is(pool(&[(3, 1)], 2, 1), &[(Note, "pool-waited-for")], &["though 1 are free", "vm:9, wants more"]);
    is(pool(&[(5, 1)], 1, 1), &[(Note, "pool-waited-for")], &["until less is held"]);
    let said = ["vm:8 holds a permit of weight 1", "answered it 6s ago", "gives the permit away within 7s"];
    is(pool(&[(3, 1), (1, 6)], 0, 0), &[(Warning, "holder-silent"), (Note, "pool-full")], &said);
    let silent = [(1, 6); 4];
    let expected = [(Warning, "holder-silent"), (Note, "pool-full")];
    is(pool(&silent, 0, 0), &expected, &["vm:9 holds", "1 more holders are silent"]);
    let said = ["vm:9 is the first of 2 in the turnstile", "lets the next one pass within 7s"];
    is(pool(&[(3, 1)], 2, 6), &[(Warning, "waiter-silent"), (Note, "pool-waited-for")], &said);
    let mut strange = pool(&[], 0, 0);
    let stranger = Stranger { node: "/convert/queue/x".into(), client: "kazoo".into(), session: None };
    strange.pool.as_mut().unwrap().foreign = vec![stranger];
    is(strange, &[(Warning, "foreign-contender"), (Note, "pool-free")], &["/convert/queue/x"]);
}
