//! Several simulated servers: what each of them does when the others lag, are gone or come back, in ways that real ones cannot
//! be brought to. The letters are those of the crate's documentation.

use std::time::Duration;

use zklock_ensemble::{Appointment, Config, ServerId, Standing, elect};

use crate::net::{Net, TICK};

const EPHEMERAL: i32 = 1;

/// Three servers. The third one leads.
fn three() -> Net {
    let mut net = Net::new(3);
    net.elect(&[1, 2, 3]);
    assert_eq!(net.server(3).standing().leader, Some(ServerId(3)));
    assert!((1..=3).all(|id| net.server(id).serves()));
    net.trace.clear();
    net
}

#[test]
fn a_check_sees_which_nodes_each_server_has() {
    let mut net = three();
    let (client, _) = net.connect(1);
    net.held.insert((3, 2));
    net.create(client, 1, "/a", 0);
    let created = net.server(1).zxid();
    assert_eq!([1, 2, 3].map(|id| net.server(id).has_node(created)), [true, false, true]);
    net.delete(client, 2, "/a");
    net.held.clear();
    net.settle();
    assert!((1..=3).all(|id| !net.server(id).has_node(created)));
}

#[test]
fn a_sync_with_nothing_outstanding_needs_no_majority() {
    let mut net = three();
    let ((at_leader, _), (writer, _), (at_follower, _)) = (net.connect(3), net.connect(3), net.connect(1));
    net.held.extend([(3, 1), (3, 2)]);
    net.sync(at_follower, 1);
    net.deliver(3, 1);
    assert_eq!(net.heard(at_follower), ["1: 0"], "(g)");
    net.create(writer, 1, "/a", 0);
    net.sync(at_leader, 1);
    assert_eq!(net.heard(at_leader), ["1: 0"], "(g) the leader does not ask for its own clients");
    net.sync(writer, 2);
    net.sync(at_follower, 2);
    net.deliver(3, 1);
    assert_eq!(net.heard(writer), [""; 0], "(f)");
    assert_eq!(net.heard(at_follower), [""; 0]);
    net.held.clear();
    net.settle();
    assert_eq!(net.heard(writer), ["1: 0", "2: 0"]);
    assert_eq!(net.heard(at_follower), ["2: 0"]);
}

#[test]
fn a_leader_reads_the_past_behind_a_sync_until_it_has_applied_what_it_has_committed() {
    let delay = TICK / 100;
    let mut net = Net::with(3, |config| Config { apply_delay: delay, ..config });
    net.elect(&[1, 2, 3]);
    let writer = net.open(1, None, 0);
    let reader = net.open(3, None, 0);
    net.pass(TICK);
    assert!(net.session(writer).is_some() && net.session(reader).is_some());
    net.create(writer, 1, "/a", 0);
    assert_eq!(net.heard(writer), ["1: 0"]);
    net.sync(reader, 1);
    net.exists(reader, 2, "/a");
    assert_eq!(net.heard(reader), ["1: 0", "2: -101"], "(g)");
    net.pass(delay);
    net.exists(reader, 3, "/a");
    assert_eq!(net.heard(reader), ["3: 0"]);
}

#[test]
fn the_leader_checks_against_what_it_has_proposed() {
    let mut net = three();
    let ((one, _), (other, _)) = (net.connect(3), net.connect(3));
    let before = net.server(3).zxid();
    net.held.extend([(1, 3), (2, 3)]);
    net.create(one, 1, "/parent", 0);
    net.create(other, 1, "/parent", 0);
    net.create_beside(other, 2, "/parent/child", "/missing");
    net.create(other, 3, "/parent/child", 0);
    net.delete(one, 2, "/parent");
    net.held.clear();
    net.settle();
    assert_eq!(net.heard(one), ["1: 0", "2: -111"]);
    assert_eq!(net.heard(other), ["1: -110", "2: 0", "3: 0"], "the multi that failed left no child behind");
    assert_eq!(net.server(1).zxid(), before + 5, "(h) what fails takes a zxid, too");
}

#[test]
fn requests_behind_the_end_of_their_session_are_dropped() {
    let mut net = three();
    let ((leaving, _), (other, _)) = (net.connect(3), net.connect(3));
    net.create(leaving, 1, "/ephemeral", EPHEMERAL);
    net.held.extend([(1, 3), (2, 3)]);
    net.close_session(leaving, 2);
    net.create(leaving, 3, "/late", 0);
    net.create(other, 1, "/ephemeral", 0);
    net.held.clear();
    net.settle();
    assert_eq!(net.heard(leaving), ["1: 0", "2: 0", "closed"], "(e) no reply to the create");
    assert_eq!(net.heard(other), ["1: 0"], "(k) the leader knows that the ephemeral node goes");
    net.exists(other, 2, "/late");
    assert_eq!(net.heard(other), ["2: -101"]);
}

#[test]
fn a_moved_session_is_torn_down_where_it_was_and_its_old_connection_keeps_it_alive() {
    let mut net = three();
    let (old, session) = net.connect(1);
    let new = net.open(2, Some(&session), 0);
    net.settle();
    assert_eq!(net.session(new), Some(session.clone()));
    net.create(new, 1, "/new", EPHEMERAL);
    assert_eq!(net.heard(new), ["1: 0"]);
    net.exists(old, 1, "/new");
    assert_eq!(net.heard(old), ["1: 0"], "a follower reads for anybody");
    for _ in 0..20 {
        net.ping(old);
        net.pass(TICK);
    }
    net.exists(old, 2, "/new");
    assert_eq!(
        net.heard(old).last().map(String::as_str),
        Some("2: 0"),
        "(b) a stale connection keeps it alive"
    );
    net.create(old, 3, "/old", EPHEMERAL);
    assert_eq!(net.heard(old), ["closed"], "(c) without a reply");
}

#[test]
fn two_connections_of_a_session_at_one_server_may_both_write() {
    let mut net = three();
    let (old, session) = net.connect(1);
    net.held.insert((1, 3));
    net.create(old, 1, "/late", EPHEMERAL);
    let new = net.open(1, Some(&session), 0);
    assert_eq!(net.heard(old), ["closed"], "the server closes the former connection");
    net.held.clear();
    net.settle();
    assert_eq!(net.session(new), Some(session));
    net.exists(new, 1, "/late");
    assert_eq!(net.heard(new), ["1: 0"], "(c) a late create succeeds");
}

/// A session moves to another server while a create of its former connection is on its way, and behind the create a
/// request to resume the session there. Returns whether the create takes effect.
fn create_before_a_revalidation(prep_delay: Duration) -> bool {
    let mut net = Net::with(3, |config| Config { prep_delay, ..config });
    net.elect(&[1, 2, 3]);
    let (old, session) = net.connect(1);
    net.held.insert((1, 3));
    net.create(old, 1, "/late", EPHEMERAL);
    net.open(1, Some(&session), 0);
    let new = net.open(2, Some(&session), 0);
    net.settle();
    assert_eq!(net.session(new).as_ref(), Some(&session), "the session is the second server's");
    net.held.clear();
    net.pass(TICK);
    let (reader, _) = net.connect(2);
    net.exists(reader, 1, "/late");
    net.pass(TICK);
    net.heard(reader) == ["1: 0"]
}

#[test]
fn a_create_that_waits_is_decided_about_by_the_owner_that_a_later_revalidation_sets() {
    assert!(!create_before_a_revalidation(Duration::ZERO), "(c) it comes by the former owner");
    assert!(create_before_a_revalidation(TICK / 100), "(p)");
}

#[test]
fn requests_wait_for_their_decision_in_order() {
    let mut net = Net::with(3, |config| Config { prep_delay: TICK / 10, ..config });
    net.elect(&[1, 2, 3]);
    let ((near, _), (far, _)) = (net.connect(3), net.connect(1));
    net.create(near, 1, "/a", 0);
    net.exists(near, 2, "/a");
    net.create(far, 1, "/a", 0);
    net.sync(far, 2);
    net.pass(TICK / 11);
    assert_eq!((net.heard(near), net.heard(far)), (vec![], vec![]));
    net.pass(TICK / 10);
    assert_eq!(net.heard(near), ["1: 0", "2: 0"]);
    assert_eq!(net.heard(far), ["1: -110", "2: 0"]);
}

#[test]
fn a_write_that_waits_while_its_session_expires_is_refused_with_a_reply() {
    let mut net = Net::with(3, |config| Config { prep_delay: TICK / 10, ..config });
    net.elect(&[1, 2, 3]);
    let ((near, first), (far, second)) = (net.connect(3), net.connect(1));
    net.create(near, 1, "/a", 0);
    net.create(far, 1, "/b", 0);
    net.expire(3, first.id);
    net.expire(3, second.id);
    // Real servers drop this one: nobody touches a session that closes.
    net.exists(near, 2, "/a");
    net.pass(TICK);
    for client in [near, far] {
        assert_eq!(net.heard(client), ["1: -112", "closed"], "(e)");
    }
}

#[test]
fn what_waits_of_a_follower_that_left_comes_by_nobody_s_connection() {
    let mut net = Net::with(3, |config| Config { prep_delay: TICK, ..config });
    net.elect(&[1, 2, 3]);
    let (old, session) = net.connect(1);
    net.create(old, 1, "/late", EPHEMERAL);
    net.cut(1, 3);
    net.elect(&[1, 2, 3]);
    let new = net.open(1, Some(&session), 0);
    net.settle();
    assert_eq!(net.session(new), Some(session), "the owner is the follower's new connection");
    net.pass(TICK * 2);
    net.exists(new, 1, "/late");
    assert_eq!(net.heard(new), ["1: -101"], "(c)");
}

#[test]
fn a_leader_that_was_paused_expires_sessions_before_or_after_it_reads_their_touches() {
    for expires_first in [true, false] {
        let mut net = three();
        let (client, _) = net.connect(1);
        net.pass(TICK * 3 / 2);
        net.ping(client);
        net.held.insert((1, 3));
        net.pass(TICK);
        net.paused.insert(3);
        net.held.clear();
        // The touch, which answered a ping of the leader, lies in the leader's socket.
        net.now += TICK * 3;
        net.go_on(3, expires_first);
        let heard = net.heard(client);
        assert_eq!(heard.contains(&"closed".to_owned()), expires_first, "(a) {heard:?}");
        assert!((1..=3).all(|id| net.server(id).serves()));
    }
}

#[test]
fn a_session_that_has_expired_writes_and_is_touched_in_vain_until_it_closes() {
    let mut net = Net::with(3, |config| Config { expiry_delay: TICK, ..config });
    net.elect(&[1, 2, 3]);
    let (client, session) = net.connect(1);
    // The timeout is four ticks. So it expires at the fifth one.
    net.pass(TICK * 51 / 10);
    net.create(client, 1, "/late", EPHEMERAL);
    let back = net.open(2, Some(&session), 0);
    net.settle();
    assert_eq!(net.heard(client), ["1: 0"], "(a) the write passes");
    assert_eq!(net.session(back), Some(session), "and it is said to live");
    net.pass(TICK * 5 / 4);
    assert_eq!(net.heard(back), ["closed"], "(a)");
    let (other, _) = net.connect(2);
    net.exists(other, 1, "/late");
    assert_eq!(net.heard(other), ["1: -101"]);
}

#[test]
fn a_leader_drops_a_silent_follower_and_reads_first_what_has_come() {
    let mut net = three();
    net.held.insert((1, 3));
    net.pass(TICK * 9 / 2);
    net.held.clear();
    net.paused.insert(3);
    net.now += TICK;
    net.go_on(3, false);
    assert!(!net.trace.contains(&"3>1 Leave".to_owned()), "what it said lay in the socket");
    net.held.insert((1, 3));
    net.pass(TICK * 9 / 2);
    assert!(net.server(1).serves());
    net.pass(TICK);
    assert!(net.trace.contains(&"3>1 Leave".to_owned()));
    assert!(!net.server(1).serves() && net.server(2).serves() && net.server(3).serves());
}

#[test]
fn sessions_of_followers_live_by_pings_and_expire_in_buckets() {
    let mut net = three();
    let ((silent, _), (watcher, _)) = (net.connect(1), net.connect(2));
    net.create(silent, 1, "/ephemeral", EPHEMERAL);
    net.watch(watcher, 1, "/ephemeral");
    net.heard(watcher);
    let start = net.now;
    let mut heard = Vec::new();
    while heard.iter().all(|heard| heard == "-2: 0") {
        net.pass(TICK / 10);
        net.ping(watcher);
        heard = net.heard(watcher);
        assert!(net.now < start + TICK * 10);
    }
    let elapsed = net.now - start;
    // The timeout counts from the ping that told the leader of the last touch, and ends with a bucket.
    assert!((TICK * 4..=TICK * 11 / 2 + TICK / 10).contains(&elapsed), "{elapsed:?}");
    assert_eq!(heard[0], "event 2 /ephemeral");
}

#[test]
fn a_change_of_leader_closes_every_connection_and_refuses_who_has_seen_more() {
    let mut net = three();
    let clients = [net.connect(1), net.connect(2), net.connect(3)];
    net.held.insert((3, 2));
    net.create(clients[0].0, 1, "/a", 0);
    net.heard(clients[0].0);
    net.crash(3);
    net.held.clear();
    for (client, _) in &clients {
        assert_eq!(net.heard(*client), ["closed"], "(l)");
    }
    let refused = net.open(1, None, 0);
    assert_eq!(net.heard(refused), ["closed"], "a server that looks for a leader serves nobody");
    net.elect(&[1, 2]);
    assert_eq!(net.server(1).standing().leader, Some(ServerId(1)), "it has the longer log");
    let ahead = net.open(1, Some(&clients[0].1), 1 << 40);
    assert_eq!(net.heard(ahead), ["closed"]);
    let back = net.open(2, Some(&clients[1].1), 0);
    net.settle();
    assert_eq!(net.session(back).as_ref(), Some(&clients[1].1), "the session lives on");
}

#[test]
fn a_deposed_leader_says_that_sessions_live() {
    let mut net = three();
    let (client, session) = net.connect(1);
    net.paused.insert(3);
    net.cut(1, 3);
    net.cut(2, 3);
    net.elect(&[1, 2]);
    let back = net.open(2, Some(&session), 0);
    net.settle();
    assert_eq!(net.session(back).as_ref(), Some(&session));
    let deposed = net.open(3, Some(&session), 0);
    assert_eq!(net.session(deposed).as_ref(), Some(&session), "(d)");
    net.create(deposed, 1, "/never", EPHEMERAL);
    assert_eq!(net.heard(deposed), [""; 0]);
    net.paused.clear();
    net.pass(TICK * 2);
    assert_eq!(net.heard(deposed), ["closed"], "it counts its followers every tick");
    assert_eq!(net.heard(client), ["closed"]);
}

#[test]
fn servers_give_each_other_up_after_the_sync_limit() {
    let mut net = three();
    net.held.extend([(3, 1), (3, 2)]);
    net.pass(TICK * 4);
    assert!((1..=3).all(|id| net.server(id).serves()));
    net.pass(TICK * 2);
    assert!(
        !net.server(1).serves() && !net.server(2).serves(),
        "followers have heard nothing for five ticks"
    );

    let mut net = three();
    net.held.extend([(1, 3), (2, 3)]);
    net.pass(TICK * 5);
    assert!(net.server(3).serves());
    net.pass(TICK * 3);
    assert!(!net.server(3).serves(), "the leader has heard nothing for five ticks");
}

#[test]
fn a_server_that_was_away_gets_what_it_lacks_or_everything() {
    for log_length in [1_000, 10] {
        let mut net = Net::with(3, |config| Config { log_length, ..config });
        net.elect(&[1, 2, 3]);
        net.crash(1);
        let (writer, _) = net.connect(2);
        for number in 0..30 {
            net.create(writer, number + 1, &format!("/node-{number}"), 0);
        }
        assert_eq!(net.heard(writer).len(), 30);
        net.trace.clear();
        net.elect(&[1, 2, 3]);
        let whole = net.trace.iter().any(|sent| sent == "3>1 Snapshot");
        assert_eq!(whole, log_length == 10);
        let (reader, _) = net.connect(1);
        net.exists(reader, 1, "/node-29");
        assert_eq!(net.heard(reader), ["1: 0"]);
        net.crash(1);
        net.elect(&[1, 2, 3]);
        let (reader, _) = net.connect(1);
        net.exists(reader, 1, "/node-29");
        assert_eq!(net.heard(reader), ["1: 0"], "what is logged survives a crash");
    }
}

#[test]
fn a_leader_without_a_majority_expires_nobody() {
    let mut net = three();
    let (_, session) = net.connect(1);
    net.crash(3);
    net.held.insert((2, 1));
    net.elect(&[1, 2]);
    let logged = net.server(1).standing().logged;
    net.expire(1, session.id);
    net.pass(TICK * 9);
    assert_eq!(net.server(1).standing().logged, logged);
    net.held.clear();
    net.settle();
    let back = net.open(2, Some(&session), 0);
    net.settle();
    assert_eq!(net.session(back), Some(session), "its timeout begins when the leader's reign does");
}

#[test]
fn messages_of_a_former_connection_are_late() {
    let mut net = three();
    let (client, _) = net.connect(3);
    net.held.insert((3, 1));
    net.create(client, 1, "/a", 0);
    assert_eq!(net.heard(client), ["1: 0"]);
    // The follower gives up, and joins the same leader again. What was held comes first.
    net.pass(TICK * 5);
    assert!(!net.server(1).serves());
    net.elect(&[1, 2, 3]);
    net.held.clear();
    net.settle();
    assert!(net.server(1).serves());
    assert_eq!(net.server(1).standing().logged, net.server(3).standing().logged);
}

#[test]
fn who_has_the_latest_epoch_then_the_longest_log_then_the_highest_number_leads() {
    let standing =
        |id, current, logged| Standing { id: ServerId(id), leader: None, accepted: 4, current, logged };
    let all = |_, _| true;
    let leader =
        |standings: &[Standing]| elect(standings, 3, all).first().map(|(_, appointment)| *appointment);
    let appointed = |leader| Some(Appointment { leader: ServerId(leader), epoch: 5 });
    assert_eq!(leader(&[standing(1, 4, 9), standing(2, 3, 99), standing(3, 4, 8)]), appointed(1));
    assert_eq!(leader(&[standing(1, 4, 9), standing(2, 4, 9)]), appointed(2));
    assert_eq!(leader(&[standing(1, 4, 9)]), None, "one of three is no majority");
    let apart = |one: ServerId, other: ServerId| one.0 != 1 && other.0 != 1;
    let elected = elect(&[standing(1, 9, 9), standing(2, 1, 1), standing(3, 1, 1)], 3, apart);
    assert_eq!(elected.len(), 2);
    assert!(elected.iter().all(|(_, appointment)| appointment.leader == ServerId(3)));
    let led = |id| Standing { leader: Some(ServerId(3)), ..standing(id, 4, 1) };
    let joins = elect(&[led(3), led(2), standing(1, 4, 99)], 3, all);
    assert_eq!(joins, [(ServerId(1), Appointment { leader: ServerId(3), epoch: 4 })]);
}

#[test]
fn session_ids_come_again_when_a_machine_starts_again() {
    let mut net = Net::new(1);
    let (_, first) = net.connect(1);
    net.crash(1);
    let (_, second) = net.connect(1);
    assert_eq!(second.id, first.id + 1, "the server has started twice in a millisecond");
    net.crash(1);
    net.now += TICK;
    let (_, later) = net.connect(1);
    assert!(later.id > second.id);
    net.crash(1);
    net.now -= TICK;
    assert_eq!(net.connect(1).1.id, first.id, "the machine's uptime is what it was");
}
