//! A healthy ensemble, and the findings when something is wrong with it.

use std::time::Duration;
use zklock::inspect::Kind;
use zklock::session::ServerAddress;

use super::{Severity, find_all};
use crate::doctor::seen::{Holder, Lengths, Queue, Seen, Server, Visit, Wishes};
use crate::pool::{Shares, Stock};
use crate::queue::{Entry, tests::entry};
use crate::servers::{Contact, Member, Mode, REJECTED, Settings, Words};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A session of 10 s that reckons with a tick of so many seconds.
fn lengths(tick: u64) -> Lengths {
    let [longest_stop_margin, longest_validity] = [2, 9].map(seconds);
    Lengths { tick: seconds(tick), timeout: seconds(10), longest_stop_margin, longest_validity }
}

fn server(id: u8, mode: Mode) -> Server {
    let settings = Settings {
        id: Some(id.into()),
        tick: seconds(2),
        shortest_timeout: seconds(4),
        longest_timeout: seconds(40),
    };
    Server {
        address: ServerAddress::parse(&format!("zk{id}"), false).unwrap().0.remove(0),
        hosts: vec![[10, 0, 0, id].into()],
        words: Ok(Words {
            mode,
            version: Some("3.9.5".into()),
            imitator: None,
            slowest: Some(Duration::from_millis(20)),
        }),
        settings: Some(settings),
        visit: Ok(Visit { longest_timeout: seconds(40), members: Some(members(3)), identities: vec![] }),
    }
}

fn members(count: u8) -> Vec<Member> {
    let hosts = |id| vec![[10, 0, 0, id].into()];
    let member = |id| Member {
        id: u64::from(id),
        votes: true,
        host: format!("zk{id}"),
        port: Some(2181),
        hosts: hosts(id),
    };
    (1..=count).map(member).collect()
}

fn healthy() -> Seen {
    Seen {
        servers: vec![server(1, Mode::Follower), server(2, Mode::Leader), server(3, Mode::Follower)],
        wishes: Wishes {
            session_timeout: seconds(10),
            exact: false,
            tick: None,
            sends_password: false,
            sasl: false,
        },
        session: Some(lengths(2)),
        missing_chroot: None,
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

/// No server tells its settings.
fn silence(seen: &mut Seen) {
    seen.servers.iter_mut().for_each(|server| server.settings = None);
}

/// No server tells its settings, and an option gives the tick.
fn silence_with_tick(seen: &mut Seen) {
    silence(seen);
    seen.wishes.tick = Some(seconds(2));
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
    let findings = find_all(&seen);
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
            seen.servers[index].settings.as_mut().unwrap().tick = Duration::from_millis(milliseconds);
        }
        seen.wishes.tick = Some(seconds(2));
    };
    // What is dangerous comes first.
    let longer = |seen: &mut Seen| {
        ticks(seen, 2500);
        lose(seen, 0);
    };
    let said = ["a server's tick is 2500ms, but leases are computed with 2s", "--tick 2500ms"];
    assert_found(longer, &[(Danger, "tick-too-short"), (Warning, "unreachable")], &said);
    assert_found(|seen| ticks(seen, 1000), &[(Warning, "tick-too-long")], &["--tick 1s"]);
    // One longer tick is enough, whichever was learned.
    let differ = |seen: &mut Seen, learned: u64| {
        seen.servers[2].settings.as_mut().unwrap().tick = seconds(3);
        seen.session = Some(lengths(learned));
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
    assert_found(silence, &[(Note, "tick-unknown")], &["derives 2s"]);
    assert_found(silence_with_tick, &[], &[]);
}

#[test]
fn the_settings_may_cost_locks() {
    assert_found(|seen| seen.clock_rate = -83_333, &[(Warning, "clock-slewed")], &["-8.33%"]);
    let adapted = [(Warning, "timeout-adapted")];
    assert_found(|seen| seen.wishes.session_timeout = seconds(100), &adapted, &["maxSessionTimeout"]);
    let exact = |seen: &mut Seen| {
        seen.wishes.session_timeout = seconds(1);
        seen.wishes.exact = true;
    };
    assert_found(exact, &adapted, &["minSessionTimeout"]);
    assert_found(|seen| seen.wishes.sends_password = true, &[(Warning, "digest-in-plain")], &[]);
    let chroot = |seen: &mut Seen| {
        seen.session = None;
        seen.missing_chroot = Some("/app".into());
    };
    assert_found(chroot, &[(Warning, "chroot-missing")], &["/app"]);
    let secure = |seen: &mut Seen| {
        seen.wishes.sends_password = true;
        seen.servers.iter_mut().for_each(|server| server.address.tls = true);
    };
    assert_found(secure, &[], &[]);
}

#[test]
fn a_server_may_be_of_no_use() {
    assert_found(|seen| lose(seen, 0), &[(Warning, "unreachable")], &[]);
    for (mode, code) in [
        (Mode::Silent("it closes the connection".into()), "silent"),
        (Mode::Closes, "closes-connections"),
        (Mode::Http, "http"),
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
    let rejects = |seen: &mut Seen| seen.servers[0].visit = Err(REJECTED.into());
    assert_found(rejects, &[(Warning, "credentials-rejected")], &["--digest-file", "--sasl digest-md5"]);
    // A server that says nothing of itself may be fine.
    assert_found(|seen| words(seen, 0).mode = Mode::Unknown, &[], &[]);
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
    server
}

#[test]
fn an_ensemble_has_several_voters_that_know_each_other() {
    assert_found(|seen| seen.servers = vec![standalone(1)], &[], &[]);
    let expected = [(Danger, "several-ensembles")];
    assert_found(|seen| seen.servers = vec![standalone(1), standalone(2)], &expected, &[]);
    assert_found(|seen| visit(seen, 2).members = Some(members(5)), &[(Danger, "members-differ")], &[]);
    // A server that does not say its members does not disagree.
    assert_found(|seen| visit(seen, 2).members = None, &[], &[]);
    // The two that are left are no majority of four voters. Beside an observer they are one of three.
    let few = |voters: &'static [bool]| {
        move |seen: &mut Seen| {
            seen.servers.pop();
            for index in 0..2 {
                let mut members = members(4);
                members.iter_mut().zip(voters).for_each(|(member, votes)| member.votes = *votes);
                visit(seen, index).members = Some(members);
            }
        }
    };
    let missing = (Note, "members-missing");
    assert_found(few(&[true; 4]), &[(Warning, "no-majority"), missing], &[]);
    assert_found(
        few(&[true, true, true, false]),
        &[missing],
        &["lacks server.3 (zk3:2181), server.4 (zk4:2181)"],
    );
    // Without its own word, a server is known by its address.
    let by_address = |seen: &mut Seen| {
        silence_with_tick(seen);
        seen.servers.remove(1);
        words(seen, 0).mode = Mode::Leader;
    };
    assert_found(by_address, &[missing], &["--servers lacks server.2 (zk2:2181)"]);
    let stranger = |seen: &mut Seen| {
        silence_with_tick(seen);
        seen.servers[0].hosts = vec![[10, 0, 0, 9].into()];
        seen.servers[0].address.host = "zk9".into();
    };
    assert_found(stranger, &[(Warning, "no-member")], &["zk9:2181 is in --servers, but no member"]);
    // Behind a proxy no address says who is who.
    let proxied = |seen: &mut Seen| {
        silence_with_tick(seen);
        for server in &mut seen.servers {
            server.address.port = 9000;
        }
    };
    assert_found(proxied, &[], &[]);
    let observers = |seen: &mut Seen| (0..3).for_each(|index| words(seen, index).mode = Mode::Observer);
    assert_found(observers, &[(Warning, "no-leader")], &[]);
}

#[test]
fn a_server_counts_once_and_a_name_for_several_hosts_cannot_be_counted() {
    // Two of five, though three names.
    let twice = |seen: &mut Seen| {
        (0..3).for_each(|index| visit(seen, index).members = Some(members(5)));
        seen.servers[2].hosts = seen.servers[0].hosts.clone();
    };
    assert_found(twice, &[(Warning, "no-majority"), (Note, "members-missing")], &["only 2 of 5"]);
    let several = |seen: &mut Seen| {
        seen.servers.truncate(1);
        seen.servers[0].hosts = vec![[10, 0, 0, 1].into(), [10, 0, 0, 2].into(), [10, 0, 0, 3].into()];
    };
    assert_found(several, &[], &[]);
    // An address of each kind is one host.
    assert_found(|seen| seen.servers[0].hosts.push("fd00::1".parse().unwrap()), &[], &[]);
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
    assert_found(one(0, "3.9.4"), &[], &[]);
    // Followers of some versions forget writes.
    let servers = "if servers fail, zk1:2181, zk2:2181, zk3:2181 may";
    let said = [
        servers,
        "Bugs: a follower that was behind misses transactions, and passes this gap on when it becomes the leader (ZOOKEEPER-4925)",
    ];
    assert_found(all("3.9.3"), &[(Warning, "forgets-writes")], &said);
    let said =
        ["if servers fail, zk2:2181 may", "(ZOOKEEPER-4785 (4643, 4646)); a", "(ZOOKEEPER-4712 (4541))"];
    assert_found(one(1, "3.8.4"), &[(Warning, "forgets-writes")], &said);
    // A server that stands alone follows nobody yet.
    let alone = |seen: &mut Seen| {
        seen.servers = vec![standalone(1)];
        words(seen, 0).version = Some("3.9.3".into());
    };
    assert_found(alone, &[(Note, "forgets-writes")], &["zk1:2181 stands alone"]);
    let imitated = |seen: &mut Seen| {
        words(seen, 1).version = None;
        words(seen, 1).imitator = Some("ClickHouse Keeper".into());
    };
    let said = "zk2:2181 is not ZooKeeper but ClickHouse Keeper";
    assert_found(imitated, &[(Warning, "no-zookeeper")], &[said]);
}

/// What another zklock session holds or waits for, of which zk2 last heard so many seconds ago.
fn one(sequence: i32, kind: Kind, contact: Contact) -> Holder {
    let entry = entry(&format!("vm:{sequence}"), sequence, sequence.into());
    Holder { entry: Entry { kind, ..entry }, came: "noon".into(), contact }
}

fn heard(ago: u64) -> Contact {
    Contact::Heard { ago: seconds(ago), timeout: seconds(10), by: "zk2:2181".into(), but: None }
}

#[track_caller]
fn assert_verdict(queue: Queue, expected: &[(Severity, &str)], said: &[&str]) {
    assert_found(|seen| seen.locks = vec![queue], expected, said);
}

#[test]
fn each_path_has_a_verdict() {
    let path = || Queue { path: "/lock".into(), ..Queue::default() };
    let some = |text: &str| Some(text.to_owned());
    assert_verdict(path(), &[(Note, "path-free")], &["nobody holds /lock"]);
    let forbidden = Queue { refused: some("not for you"), ..path() };
    assert_verdict(forbidden, &[(Warning, "path-forbidden")], &["not for you"]);
    let open = Queue { open: some("/lock/queue"), ..path() };
    assert_verdict(open, &[(Note, "open-directory"), (Note, "path-free")], &["create nodes in /lock/queue"]);
    let missing = Queue { missing: some("it is gone"), ..path() };
    assert_verdict(missing, &[(Note, "path-missing")], &["gone"]);
    let held = |contact, waiting| {
        let holders = vec![one(7, Kind::Exclusive, contact)];
        Queue { contenders: waiting + 1, holders, waiting, ..path() }
    };
    let said = ["/lock is held, nobody waits. The oldest holder: vm:7,", "zk2:2181 answered it 2s ago"];
    assert_verdict(held(heard(2), 0), &[(Note, "path-held")], &said);
    let said = [
        "1 contender waits",
        "--within 5m /lock`; then end that process; the last resort is `zklock release --force /lock`",
    ];
    assert_verdict(held(heard(2), 1), &[(Note, "path-waited-for")], &said);
    let said = ["2 contenders wait", "zk2:2181 answered it 6s ago", "gives its place away within 7s"];
    assert_verdict(held(heard(6), 2), &[(Warning, "holder-silent")], &said);
    let said =
        ["no server of --servers", "gives its place away within 13s from now if its session timeout is 10s"];
    assert_verdict(held(Contact::Gone, 0), &[(Warning, "holder-silent")], &said);
    let unknown = held(Contact::Unknown("no cons".into()), 0);
    assert_verdict(unknown, &[(Note, "path-held")], &["do not say whether it lives (no cons)"]);
    // One of two readers is silent.
    let mut readers = held(heard(2), 0);
    readers.holders.push(one(8, Kind::Shared, heard(6)));
    assert_verdict(
        readers.clone(),
        &[(Warning, "holder-silent")],
        &["A holder is silent: vm:8, in the queue"],
    );
    readers.holders.push(one(9, Kind::Shared, heard(6)));
    assert_verdict(readers, &[(Warning, "holder-silent")], &[". 1 more holder is silent"]);
}

#[test]
fn each_pool_has_a_verdict() {
    // Permits of these weights, each with the time since its last answer, of a capacity of 4.
    let pool = |held: &[(u32, u64)], waiting: usize, first: u64| {
        let holders = held.iter().zip(7..);
        let holders = holders.map(|((weight, ago), number)| one(number, Kind::Permit(*weight), heard(*ago)));
        let held = held.iter().map(|(weight, _)| u64::from(*weight)).sum();
        Queue {
            path: "/convert".into(),
            holders: holders.collect(),
            waiting,
            first: (waiting > 0).then(|| one(9, Kind::Exclusive, heard(first))),
            pool: Some(Shares { stock: Stock::Semaphore { capacity: 4 }, held }),
            ..Queue::default()
        }
    };
    let said = ["0 of 4 permits of /convert are held, nobody waits"];
    assert_verdict(pool(&[], 0, 0), &[(Note, "path-free")], &said);
    assert_verdict(pool(&[(3, 1)], 0, 0), &[(Note, "path-held")], &["3 of 4 permits"]);
    let said = ["4 of 4 permits", "2 contenders wait", "vm:7 with weight 3", "--sequence 7 /convert"];
    assert_verdict(pool(&[(3, 1), (1, 1)], 2, 1), &[(Note, "path-waited-for")], &said);
    let said = ["wants more than is free", "vm:9, in the queue"];
    assert_verdict(pool(&[(3, 1)], 2, 1), &[(Note, "path-waited-for")], &said);
    let said = ["vm:8 with weight 1", "answered it 6s ago", "gives its place away within 7s"];
    assert_verdict(pool(&[(3, 1), (1, 6)], 0, 0), &[(Warning, "holder-silent")], &said);
    let said = ["vm:7 with", ". 3 more holders are silent"];
    assert_verdict(pool(&[(1, 6); 4], 0, 0), &[(Warning, "holder-silent")], &said);
    let said = ["Nobody passes the first in the turnstile: vm:9", "lets the next one pass within 7s"];
    assert_verdict(pool(&[(3, 1)], 2, 6), &[(Warning, "waiter-silent")], &said);
    let both = [(Warning, "holder-silent"), (Warning, "waiter-silent")];
    assert_verdict(pool(&[(4, 6)], 1, 6), &both, &[]);
}
