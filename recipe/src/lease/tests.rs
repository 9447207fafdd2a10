//! The lease against what a server would have to guarantee.

use super::*;

const T: Duration = Duration::from_secs(10);

/// With lengths that are easy to reckon with: a validity of 9 s, and a lag of 1,450 ms.
const RECKONING: Reckoning = Reckoning { tick: Duration::from_millis(1_800), drift_ppm: 100_000 };

fn milliseconds(number: u64) -> Duration {
    Duration::from_millis(number)
}

fn by(boot: u64, raw: u64) -> Moment {
    Moment::new(milliseconds(boot), milliseconds(raw), Duration::ZERO)
}

/// An instant that all clocks agree on.
fn at(number: u64) -> Moment {
    by(100_000 + number, 50_000 + number)
}

fn established() -> Lease {
    Lease::established(RECKONING, T, at(0)).unwrap()
}

/// Until when it lasts, if all clocks agree.
fn deadline(lease: &Lease) -> Moment {
    at(0).plus(lease.remaining(at(0)))
}

/// Lost and resumed, by a request from this instant.
fn resume(lease: &mut Lease, from: Moment) -> u64 {
    lease.disconnected();
    assert!(lease.attempting(from, T));
    lease.resumed(T).unwrap()
}

#[test]
fn the_lengths_are_as_argued() {
    let reckoning = Reckoning { tick: Duration::from_secs(2), drift_ppm: DEFAULT_DRIFT_PPM };
    let lengths = Lengths::new(T, &reckoning).unwrap();
    assert_eq!(lengths.lag, Duration::from_nanos(1_598_901_098));
    assert_eq!(lengths.margin, milliseconds(900));
    assert_eq!(lengths.heartbeat.as_millis(), 2_100);
    assert_eq!(lengths.longest_stop_margin().as_millis(), 2_250);
    assert_eq!(
        Lengths::new(Duration::from_secs(3_600), &reckoning).unwrap().heartbeat,
        lengths::LONGEST_HEARTBEAT
    );
}

/// docs/guide/timeouts.md says so.
#[test]
fn a_stall_of_a_fifth_of_the_timeout_ends_no_lease_from_four_ticks_on() {
    let reckoning = Reckoning { tick: Duration::from_secs(1), drift_ppm: DEFAULT_DRIFT_PPM };
    for ticks in 4..=20 {
        let timeout = Duration::from_secs(ticks);
        let least = Lengths::new(timeout, &reckoning).unwrap().longest_stop_margin();
        let told = timeout.mul_f64(0.285) - milliseconds(300);
        assert!(least > timeout / 5 && least.abs_diff(told) < milliseconds(1), "{least:?}, {told:?}");
    }
}

/// As chrony slews by default: 1/12.
#[test]
fn the_default_drift_covers_a_leader_that_is_slewed_and_both_oscillators() {
    let reckoning = Reckoning { tick: Duration::from_secs(2), drift_ppm: DEFAULT_DRIFT_PPM };
    let lengths = Lengths::new(T, &reckoning).unwrap();
    let (slewed, oscillators) = (1.0 / 12.0, 0.001);
    let expires = T.as_secs_f64() / (1.0 + slewed + oscillators);
    assert!(lengths.validity().as_secs_f64() < expires, "expires after {expires} s");
    let pings = 1.0 / (1.0 - slewed - oscillators);
    assert!((lengths.lag - milliseconds(500)).as_secs_f64() > pings, "pings after {pings} s");
}

#[test]
fn a_lease_that_heartbeats_cannot_keep_is_refused() {
    let with = |tick, drift_ppm| Reckoning { tick, drift_ppm };
    let tick = milliseconds(200);
    assert!(Lengths::new(milliseconds(400), &with(tick, 10_000)).is_err());
    assert!(Lengths::new(milliseconds(500), &with(tick, 10_000)).is_ok());
    assert!(Lengths::new(milliseconds(500), &with(tick, DEFAULT_DRIFT_PPM)).is_err());
    assert!(Lengths::new(milliseconds(400), &with(milliseconds(50), DEFAULT_DRIFT_PPM)).is_ok());
    assert!(Lengths::new(T, &with(Duration::from_secs(15), DEFAULT_DRIFT_PPM)).is_err());
    assert!(Lengths::new(T, &with(Duration::MAX, DEFAULT_DRIFT_PPM)).is_err());
    assert!(Lengths::new(T, &with(tick, u32::MAX)).is_err());
    assert!(Lengths::new(Duration::MAX, &with(Duration::MAX, u32::MAX)).is_err());
}

#[test]
fn a_moment_is_as_late_as_either_clock_says() {
    let earlier = by(100, 1_000);
    let later = by(140, 1_030);
    assert_eq!(later.most_since(earlier), milliseconds(40));
    assert_eq!(later.least_since(earlier), milliseconds(30));
    assert_eq!(earlier.most_since(later), Duration::ZERO);
    assert_eq!(earlier.until(later), milliseconds(30));
    assert_eq!(later.left_of(milliseconds(35), earlier), milliseconds(5));
    assert_eq!(later.left_of(milliseconds(30), earlier), Duration::ZERO);
    let stopped = by(200, 1_000);
    assert!(!stopped.has_reached(later), "the machine was suspended: only one of its clocks went on");
    assert_eq!(stopped.until(later), Duration::ZERO);
}

/// Round trips take no time or the longest, in every order.
#[test]
fn prompt_heartbeats_keep_the_lease_above_the_longest_stop_margin() {
    let lengths = [500, 10_000, 59_999].map(|timeout| [1, 1_800, 3_999].map(|tick| (timeout, tick)));
    for (timeout, tick) in lengths.into_iter().flatten() {
        for drift_ppm in [0, 10_000, DEFAULT_DRIFT_PPM] {
            let reckoning = Reckoning { tick: milliseconds(tick), drift_ppm };
            let Ok(new) = Lease::established(reckoning, milliseconds(timeout), at(0)) else { continue };
            let (lengths, longest) = (new.lengths(), new.lengths().heartbeat / 4);
            for (trips, mut lease) in (0..=u8::MAX).map(|trips| (trips, new.clone())) {
                for beat in 1..=16 {
                    let sent = at(0).plus(lengths.heartbeat * beat);
                    let round_trip = longest * u32::from(trips.rotate_left(beat) & 1);
                    let (synced, answered) = (sent.plus(round_trip / 2), sent.plus(round_trip));
                    assert!(lease.remaining(answered) >= lengths.longest_stop_margin(), "{trips:b} {beat}");
                    lease.synced(0, sent, synced);
                    lease.confirmed(0, synced, answered);
                }
            }
        }
    }
}

#[test]
fn a_new_lease_counts_from_before_it_was_asked_for() {
    let lease = established();
    assert_eq!(lease.remaining(at(0)), milliseconds(9_000));
    assert!(lease.term(at(8_999)).is_ok());
    assert_eq!(lease.term(at(9_000)), Err(Lapse::Unconfirmed));
}

#[test]
fn the_lease_ends_when_either_clock_says_so() {
    let lease = established();
    assert!(lease.term(by(100_000, 59_000)).is_err());
    assert!(lease.term(by(109_000, 50_000)).is_err());
    assert!(lease.term(by(108_999, 58_999)).is_ok());
    // The slewed clock and the one that stops are short, after a suspension of five seconds.
    let suspended = |length| Moment::new(milliseconds(107_000), milliseconds(54_000), milliseconds(length));
    assert!(lease.term(suspended(4_999)).is_ok());
    assert!(lease.term(suspended(5_000)).is_err());
}

#[test]
fn a_lag_has_passed_when_both_clocks_say_so() {
    let mut lease = established();
    lease.touched(at(2_000), at(2_000));
    let early = by(105_000, 53_449);
    lease.confirmed(0, early, early);
    let later = early.plus(milliseconds(100));
    lease.confirmed(0, later, later);
    assert_eq!(deadline(&lease), at(9_000), "the unslewed clock is a millisecond short of 1,450");
}

#[test]
fn touches_count_once_they_are_confirmed_twice_the_first_time_a_lag_later() {
    let mut lease = established();
    lease.touched(at(2_000), at(2_000));
    lease.confirmed(0, at(3_449), at(3_600));
    lease.confirmed(0, at(3_600), at(3_700));
    assert_eq!(
        deadline(&lease),
        at(9_000),
        "the leader need not have asked for it when the first write was sent"
    );
    lease.confirmed(0, at(3_699), at(3_800));
    assert_eq!(deadline(&lease), at(9_000), "nor the server have reported it before the third one was sent");
    lease.confirmed(0, at(3_700), at(3_800));
    assert_eq!(deadline(&lease), at(11_000));
    lease.confirmed(0, at(5_100), at(5_200));
    assert_eq!(deadline(&lease), at(11_000), "a quorum write is a touch itself, and asked for by now");
    lease.confirmed(0, at(5_200), at(5_300));
    assert_eq!(deadline(&lease), at(12_449));
}

/// Found while the argument was modelled, then on servers (proof/src/margins/stalled_server.rs): one confirmation was taken for
/// enough. But the server may hear the leader's pings late, together with the acknowledgement, and be cut off before
/// its report arrives.
#[test]
fn one_confirmation_is_not_enough() {
    let mut lease = established();
    for beat in [1_000, 2_000, 3_000, 4_000] {
        lease.touched(at(beat), at(beat));
    }
    lease.confirmed(0, at(6_000), at(8_000));
    assert_eq!(deadline(&lease), at(9_000));
}

/// Of two readings at nearly the same time, the later one may take the time of suspensions for shorter.
#[test]
fn evidence_brings_the_end_of_a_lease_no_nearer_though_clocks_err() {
    let reading = |number: u64, microseconds: u64, suspended: u64| {
        let more = Duration::from_micros(microseconds);
        let suspended = Duration::from_micros(suspended);
        Moment::new(milliseconds(100_000 + number) + more, milliseconds(50_000 + number) + more, suspended)
    };
    let exact = |number| reading(number, 0, 10);
    let mut lease = established();
    lease.touched(exact(2_000), exact(2_010));
    lease.touched(reading(2_000, 1, 5), exact(2_020));
    lease.synced(0, exact(3_465), exact(3_470));
    lease.confirmed(0, exact(3_471), exact(3_472));
    let now = exact(3_490);
    let left = lease.remaining(now);
    assert_eq!(left, milliseconds(11_000 - 3_490));
    lease.confirmed(0, exact(3_480), now);
    assert_eq!(lease.remaining(now), left);
}

#[test]
fn a_lapse_ends_the_term_and_a_confirmation_starts_another() {
    let mut lease = established();
    let first = lease.term(at(1)).unwrap();
    for beat in [2_000, 4_000, 6_000, 8_000] {
        lease.synced(0, at(beat), at(beat));
    }
    assert_eq!(lease.check(first, at(9_000)), Err(Lapse::Unconfirmed));
    lease.confirmed(0, at(9_040), at(9_050));
    assert_eq!(deadline(&lease), at(15_000), "what was heard of in time is known by one write");
    assert_eq!(lease.check(first, at(9_060)), Err(Lapse::Unconfirmed), "loss is final");
    let second = lease.term(at(9_060)).unwrap();
    assert_eq!(lease.check(second, at(14_999)), Ok(()));
}

#[test]
fn a_confirmation_in_time_keeps_the_term() {
    let mut lease = established();
    let term = lease.term(at(1)).unwrap();
    lease.touched(at(5_000), at(5_000));
    lease.confirmed(0, at(7_000), at(7_100));
    lease.confirmed(0, at(7_100), at(7_200));
    assert_eq!(lease.check(term, at(13_000)), Ok(()));
}

/// The leader takes a session from its queue, and marks it as closing a moment later. A report that arrives in between,
/// and a write right behind it, are accepted all the same.
#[test]
fn what_the_leader_may_have_heard_of_too_late_is_confirmed_a_lag_later() {
    let mut lease = established();
    lease.touched(at(5_000), at(5_000));
    lease.synced(0, at(6_450), at(6_500));
    lease.confirmed(0, at(8_990), at(9_000));
    lease.confirmed(0, at(10_449), at(10_460));
    assert_eq!(lease.term(at(10_460)), Err(Lapse::Unconfirmed));
    lease.confirmed(0, at(10_450), at(10_460));
    assert!(lease.term(at(10_460)).is_ok(), "by now it would have been marked");
    assert_eq!(deadline(&lease), at(15_450), "which holds for what was reported since, too");
}

/// As above: a request to resume the session may arrive in that moment.
#[test]
fn doubts_of_a_resumption_outlast_the_connection() {
    let mut lease = established();
    for (from, sent) in [(9_000, 9_100), (9_200, 9_300)] {
        let connection = resume(&mut lease, at(from));
        lease.confirmed(connection, at(sent), at(sent + 10));
        assert_eq!(lease.term(at(sent + 10)), Err(Lapse::Unconfirmed));
    }
    assert_eq!(lease.doubted_for(), Some(lease.lengths().lag));
    lease.confirmed(2, at(10_560), at(10_570));
    assert_eq!(deadline(&lease), at(18_200));
    assert_eq!(lease.doubted_for(), None);
}

#[test]
fn a_resumption_counts_from_its_request_once_a_write_was_confirmed_on_its_connection() {
    let mut lease = established();
    lease.touched(at(2_000), at(2_000));
    let connection = resume(&mut lease, at(2_500));
    assert_eq!(deadline(&lease), at(9_000));
    assert!(!lease.confirmed(0, at(4_000), at(4_010)), "answered on the old connection");
    lease.synced(0, at(4_000), at(4_010));
    assert_eq!(deadline(&lease), at(9_000));
    assert!(lease.confirmed(connection, at(2_700), at(2_710)));
    assert_eq!(deadline(&lease), at(11_500));
}

#[test]
fn touches_of_an_earlier_connection_are_worth_nothing() {
    let mut lease = established();
    lease.synced(0, at(2_000), at(2_010));
    lease.synced(0, at(4_000), at(4_010));
    let connection = resume(&mut lease, at(1_000));
    lease.confirmed(connection, at(4_100), at(4_110));
    assert_eq!(deadline(&lease), at(10_000), "by the resumption alone");
}

#[test]
fn a_late_answer_on_an_earlier_connection_reports_nothing() {
    let mut lease = established();
    let connection = resume(&mut lease, at(1_000));
    lease.touched(at(2_000), at(2_000));
    lease.synced(0, at(4_000), at(4_010));
    lease.confirmed(connection, at(4_100), at(4_110));
    assert_eq!(deadline(&lease), at(10_000), "by the resumption alone");
}

/// The leader of that connection may not have been the real one.
#[test]
fn what_the_leader_of_an_earlier_connection_heard_of_clears_no_doubt() {
    let mut lease = established();
    [5_000, 6_500, 6_600].into_iter().for_each(|sent| lease.synced(0, at(sent), at(sent)));
    let connection = resume(&mut lease, at(8_900));
    lease.confirmed(connection, at(9_100), at(9_110));
    assert_eq!(lease.term(at(9_110)), Err(Lapse::Unconfirmed));
}

#[test]
fn each_connection_has_its_number_and_none_while_there_is_none() {
    let mut lease = established();
    assert_eq!(lease.connection(), Some(0));
    lease.disconnected();
    assert_eq!(lease.connection(), None);
    assert!(lease.attempting(at(1), T));
    assert_eq!(lease.connection(), None);
    assert_eq!(lease.resumed(T), Ok(1));
    assert_eq!(lease.connection(), Some(1));
    assert!(lease.attempting(at(2), T));
    assert_eq!(lease.connection(), None, "given up for the next one");
    assert!(!lease.confirmed(1, at(3), at(3)));
    lease.attempt_failed();
    assert_eq!(lease.connection(), None);
    assert!(lease.attempting(at(4), T));
    assert_eq!(lease.resumed(T), Ok(2));
}

/// Its end may have been told to somebody who cannot be told again.
#[test]
fn no_request_to_resume_brings_the_end_of_a_valid_lease_nearer() {
    let mut lease = established();
    lease.disconnected();
    let before = lease.clone();
    for floor in [0, 6_000, 9_999] {
        assert!(!lease.attempting(at(8_999), milliseconds(floor)));
        assert_eq!(lease, before);
    }
    for (floor, at_once) in [(10_000, true), (60_000, true), (6_000, false)] {
        let mut lease = before.clone();
        let now = at(if at_once { 1_000 } else { 9_000 });
        assert!(lease.attempting(now, milliseconds(floor)));
        lease.attempt_failed();
        let end = if at_once { 9_000 } else { 5_400 };
        assert_eq!(deadline(&lease), at(end), "{floor}");
    }
}

#[test]
fn the_smallest_timeout_counts_for_good() {
    let mut lease = established();
    assert!(lease.attempting(at(1_000), T));
    let connection = lease.resumed(milliseconds(8_000)).unwrap();
    assert_eq!(deadline(&lease), at(7_200), "the server grants less than it did");
    lease.confirmed(connection, at(1_100), at(1_110));
    assert_eq!(deadline(&lease), at(8_200));
    let connection = resume(&mut lease, at(2_000));
    lease.confirmed(connection, at(2_100), at(2_110));
    assert_eq!(deadline(&lease), at(9_200), "an old follower may still report with the smaller one");
}

#[test]
fn a_request_to_resume_that_was_not_answered_may_be_handled_at_any_time() {
    for replaced in [false, true] {
        let mut lease = established();
        assert!(lease.attempting(at(9_100), milliseconds(6_000)));
        if !replaced {
            lease.attempt_failed();
            assert_eq!(lease.lengths().timeout, milliseconds(6_000));
        }
        let connection = resume(&mut lease, at(9_200));
        lease.confirmed(connection, at(9_300), at(9_310));
        assert_eq!(deadline(&lease), at(0).plus(milliseconds(5_400)), "the session may have expired before");
        lease.confirmed(connection, at(12_000), at(12_010));
        assert_eq!(deadline(&lease), at(14_600));
    }
}

/// Once it has lapsed, no answer but a confirmation may make it valid, in another term.
#[test]
fn a_lease_that_has_lapsed_is_not_revived_by_the_answer_to_a_request_to_resume() {
    let mut lease = established();
    let term = lease.term(at(0)).unwrap();
    assert!(lease.attempting(at(9_200), T));
    let connection = lease.resumed(T).unwrap();
    assert_eq!(lease.term(at(9_300)), Err(Lapse::Unconfirmed));
    lease.confirmed(connection, at(9_300), at(9_310));
    lease.confirmed(connection, at(12_000), at(12_010));
    assert_eq!(lease.check(term, at(12_010)), Err(Lapse::Unconfirmed));
    assert_eq!(deadline(&lease), at(18_200));
}

#[test]
fn a_timeout_that_heartbeats_cannot_keep_ends_the_lease_for_good() {
    let mut lease = established();
    assert!(lease.attempting(at(1_000), T));
    let lengths = lease.resumed(milliseconds(2_000)).unwrap_err();
    assert_eq!(lengths.timeout, milliseconds(2_000));
    assert_eq!(lease.connection(), None);
    assert_eq!(deadline(&lease), at(1_800));
    assert!(lease.attempting(at(1_800), T));
    assert_eq!(lease.resumed(T), Err(lengths), "an old follower may still report with that one");
}

#[test]
fn an_ended_session_stays_ended_in_its_first_way() {
    let mut lease = established();
    lease.ended(SessionEnd::Closed);
    lease.ended(SessionEnd::Expired);
    lease.confirmed(0, at(5_000), at(5_001));
    assert_eq!(lease.term(at(5_002)), Err(Lapse::Ended(SessionEnd::Closed)));
    assert_eq!(lease.end(), Some(SessionEnd::Closed));
    assert_eq!(lease.remaining(at(1)), Duration::ZERO);
}

#[test]
fn touches_do_not_pile_up() {
    let mut lease = established();
    for beat in 1..1_000 {
        lease.touched(at(beat * 100), at(beat * 100));
    }
    assert!(lease.touches.len() <= 17, "{} of them", lease.touches.len());
    for beat in 1_000..2_000 {
        lease.confirmed(0, at(beat * 100), at(beat * 100 + 10));
    }
    let kept = lease.touches.len() + lease.reports.len();
    assert!(kept <= 20, "{kept} of them");
}

/// docs/DESIGN.md says so.
#[test]
fn a_guard_lasts_for_so_long_after_its_last_confirmation() {
    let reckoning = Reckoning { tick: Duration::from_secs(2), drift_ppm: DEFAULT_DRIFT_PPM };
    let lasts = |confirmed: fn(Duration) -> Duration| {
        let mut lease = Lease::established(reckoning, T, at(0)).unwrap();
        let beat = lease.lengths().heartbeat;
        (1..=4).map(|number| at(0).plus(beat * number)).for_each(|sent| lease.synced(0, sent, sent));
        let sent = at(0).plus(beat * 4 + confirmed(beat));
        lease.confirmed(0, sent, sent);
        lease.remaining(sent).as_millis()
    };
    assert_eq!(lasts(|_| Duration::ZERO), 6_999, "by a heartbeat");
    assert_eq!(lasts(|beat| beat), 4_899, "by its entry, just before the next sync");
}

/// A session without a guard asks by syncs alone, for as long as it lives.
#[test]
fn what_was_reported_does_not_pile_up_without_writes() {
    let mut lease = established();
    for beat in 1..1_000 {
        lease.synced(0, at(beat * 2_125), at(beat * 2_125 + 10));
    }
    let kept = lease.touches.len() + lease.reports.len();
    assert!(kept <= 10, "{kept} of them");
    lease.confirmed(0, at(999 * 2_125 + 20), at(999 * 2_125 + 30));
    assert_eq!(deadline(&lease), at(998 * 2_125 + 9_000), "the last but one is known all the same");
}
