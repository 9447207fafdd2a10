//! The lease against what a server would have to guarantee.

use proptest::prelude::*;

use super::*;

const T: Duration = Duration::from_secs(10);

fn lengths() -> Lengths {
    Lengths::new(T, None).unwrap()
}

fn at(milliseconds: u64) -> Duration {
    Duration::from_millis(100_000 + milliseconds)
}

fn established() -> Lease {
    Lease::established(lengths(), at(0))
}

#[test]
fn the_lengths_are_as_argued() {
    let lengths = lengths();
    assert_eq!(lengths.lag, Duration::from_millis(1_500));
    assert_eq!(lengths.margin, Duration::from_millis(100));
    assert_eq!(lengths.heartbeat, Duration::from_millis(2_125));
    let short = Lengths::new(Duration::from_secs(1), None).unwrap();
    assert_eq!(short.lag, Duration::from_millis(375), "half a second is the longest tick such servers have");
    assert_eq!(short.heartbeat, Duration::from_micros(156_250));
    assert_eq!(Lengths::new(Duration::from_secs(3_600), None).unwrap().heartbeat, LONGEST_HEARTBEAT);
}

#[test]
fn a_lease_that_heartbeats_cannot_keep_is_refused() {
    assert!(Lengths::new(Duration::from_millis(400), None).is_err());
    assert!(Lengths::new(Duration::from_millis(500), None).is_ok());
    assert!(Lengths::new(Duration::from_millis(400), Some(Duration::from_millis(50))).is_ok());
    assert!(Lengths::new(T, Some(Duration::from_secs(15))).is_err());
}

proptest! {
    #[test]
    fn prompt_heartbeats_keep_the_lease_above_the_longest_stop_margin(
        timeout in 500u64..60_000,
        tick in 1u64..4_000,
        quarters in prop::collection::vec(0u32..=1_000, 40),
    ) {
        let lengths = Lengths::new(Duration::from_millis(timeout), Some(Duration::from_millis(tick)));
        prop_assume!(lengths.is_ok());
        let lengths = lengths.unwrap();
        let mut lease = Lease::established(lengths, at(0));
        for (beat, quarter) in (1u32..).zip(quarters) {
            let sent = at(0) + lengths.heartbeat * beat;
            let answered = sent + lengths.heartbeat / 4 * quarter / 1_000;
            prop_assert!(lease.deadline() >= answered + lengths.longest_stop_margin());
            lease.confirmed(sent, answered);
        }
    }
}

#[test]
fn a_new_lease_counts_from_before_it_was_asked_for() {
    let lease = established();
    assert_eq!(lease.deadline(), at(9_900));
    assert!(lease.term(at(9_899)).is_ok());
    assert_eq!(lease.term(at(9_900)), Err(Lapse::Unconfirmed));
}

#[test]
fn touches_count_once_they_are_confirmed_a_lag_later() {
    let mut lease = established();
    lease.touched(at(2_000), at(2_000));
    assert_eq!(lease.deadline(), at(9_900), "the leader may not have heard of it");
    lease.confirmed(at(3_499), at(3_600));
    assert_eq!(lease.deadline(), at(9_900), "nor by now");
    lease.confirmed(at(3_500), at(3_600));
    assert_eq!(lease.deadline(), at(11_900));
    lease.confirmed(at(5_000), at(5_100));
    assert_eq!(lease.deadline(), at(11_900), "a quorum write is a touch itself, from when it was answered");
    lease.confirmed(at(5_100), at(5_200));
    assert_eq!(lease.deadline(), at(13_400));
}

#[test]
fn a_lapse_ends_the_term_and_a_confirmation_starts_another() {
    let mut lease = established();
    let first = lease.term(at(1)).unwrap();
    lease.touched(at(8_000), at(8_000));
    assert_eq!(lease.check(first, at(9_900)), Err(Lapse::Unconfirmed));
    lease.confirmed(at(9_950), at(9_960));
    assert_eq!(lease.deadline(), at(17_900));
    assert_eq!(lease.check(first, at(9_970)), Err(Lapse::Unconfirmed), "loss is final");
    let second = lease.term(at(9_970)).unwrap();
    assert_eq!(lease.check(second, at(17_899)), Ok(()));
}

#[test]
fn a_confirmation_in_time_keeps_the_term() {
    let mut lease = established();
    let term = lease.term(at(1)).unwrap();
    lease.touched(at(5_000), at(5_000));
    lease.confirmed(at(7_000), at(7_100));
    assert_eq!(lease.check(term, at(14_000)), Ok(()));
}

#[test]
fn touches_of_an_earlier_connection_are_worth_nothing() {
    let mut lease = established();
    lease.touched(at(2_000), at(2_000));
    lease.unchanged(at(2_300));
    lease.disconnected(at(2_500));
    // Still down, though the next connection may be asked for already.
    lease.unchanged(at(2_550));
    lease.connected(at(2_600));
    // Answered on the old connection, heard of now.
    lease.touched(at(2_400), at(2_700));
    lease.confirmed(at(2_400), at(2_700));
    assert_eq!(lease.deadline(), at(9_900));
    // The new connection counts from the last look that found the old one, once a quorum write went through it.
    assert_eq!(lease.confirmed(at(2_700), at(2_710)), lease.connection());
    assert_eq!(lease.deadline(), at(12_200));
}

#[test]
fn a_connection_made_unseen_counts_from_its_own_requests_only() {
    let mut lease = established();
    lease.touched(at(2_000), at(2_000));
    lease.connected(at(3_000));
    assert_eq!(lease.confirmed(at(2_999), at(6_010)), None);
    lease.confirmed(at(6_000), at(6_000));
    assert_eq!(lease.deadline(), at(9_900));
    lease.confirmed(at(7_500), at(7_510));
    assert_eq!(lease.deadline(), at(15_900));
}

#[test]
fn each_connection_has_its_number_and_none_while_there_is_none() {
    let mut lease = established();
    let first = lease.connection().unwrap();
    lease.disconnected(at(1));
    assert_eq!(lease.connection(), None);
    lease.connected(at(2));
    let second = lease.connection().unwrap();
    assert_ne!(first, second);
    lease.connected(at(3));
    assert_ne!(lease.connection().unwrap(), second, "one that was lost and made again unseen");
}

#[test]
fn an_ended_session_stays_ended_in_its_first_way() {
    let mut lease = established();
    lease.ended(SessionEnd::Closed);
    lease.ended(SessionEnd::Expired);
    lease.confirmed(at(5_000), at(5_001));
    assert_eq!(lease.term(at(5_002)), Err(Lapse::Ended(SessionEnd::Closed)));
    assert_eq!(lease.end(), Some(SessionEnd::Closed));
}

#[test]
fn touches_do_not_pile_up() {
    let mut lease = established();
    for beat in 1..1_000 {
        lease.touched(at(beat * 100), at(beat * 100));
    }
    assert!(lease.touches.len() <= 17, "{} of them", lease.touches.len());
}

/// The least that an ensemble guarantees: the leader hears of a touch a lag later, if the server is not cut off.
struct Ensemble {
    now: Duration,
    /// The last touch the leader is bound to know of from earlier connections.
    base: Duration,
    /// What reached the present server.
    touches: Vec<Duration>,
    /// Since when the present server has been cut off from the others.
    cut: Option<Duration>,
}

impl Ensemble {
    fn known(&self) -> Duration {
        let heard = self.cut.unwrap_or(self.now).saturating_sub(lengths().lag);
        let touches = self.touches.iter().filter(|touch| **touch <= heard);
        touches.copied().fold(self.base, Duration::max)
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// Time passes.
    Wait(u64),
    /// A read is answered that was sent so long ago, and took so many percent of that to reach the server.
    Read(u64, u64),
    /// A write likewise, if the server has a quorum.
    Write(u64, u64),
    /// The client looks, and finds its connection as before.
    Look,
    /// The present server is cut off from the others.
    CutOff,
    /// The connection is lost, and the client sees that at once or not at all.
    Lose { seen: bool },
    /// A connection is made, to a server that is cut off (and takes itself for the leader) or not.
    Connect { cut_off: bool },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1u64..3_000).prop_map(Step::Wait),
        4 => (0u64..2_000, 0u64..=100).prop_map(|(ago, way)| Step::Read(ago, way)),
        4 => (0u64..2_000, 0u64..=100).prop_map(|(ago, way)| Step::Write(ago, way)),
        2 => Just(Step::Look),
        1 => Just(Step::CutOff),
        1 => any::<bool>().prop_map(|seen| Step::Lose { seen }),
        2 => any::<bool>().prop_map(|cut_off| Step::Connect { cut_off }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    #[test]
    fn the_lease_never_outlasts_what_the_ensemble_guarantees(steps in prop::collection::vec(step(), 1..60)) {
        let mut lease = established();
        let mut ensemble = Ensemble { now: at(0), base: at(0), touches: Vec::new(), cut: None };
        let (mut up, mut heard, mut connected_at) = (true, true, at(0));
        for step in steps {
            let now = ensemble.now;
            // Sent on the present connection: no earlier than that was made.
            let sent = |ago: u64| now.saturating_sub(Duration::from_millis(ago)).max(connected_at);
            let reached = |ago: u64, way: u64| sent(ago) + (now - sent(ago)) * u32::try_from(way).unwrap() / 100;
            match step {
                Step::Look if up && heard => lease.unchanged(now),
                Step::Wait(milliseconds) => ensemble.now += Duration::from_millis(milliseconds),
                Step::Read(ago, way) if up => {
                    ensemble.touches.push(reached(ago, way));
                    lease.touched(sent(ago), now);
                }
                // Touches that reached the server by the time the write did are heard of a lag later at most, and
                // the write is behind them; it was forwarded before any cut.
                Step::Write(ago, way) if up && ensemble.cut.is_none() => {
                    ensemble.touches.push(reached(ago, way));
                    lease.confirmed(sent(ago), now);
                }
                Step::CutOff if up && ensemble.cut.is_none() => ensemble.cut = Some(now),
                Step::Lose { seen } if up => {
                    ensemble.base = ensemble.known();
                    ensemble.touches.clear();
                    (up, heard) = (false, false);
                    if seen {
                        lease.disconnected(now);
                    }
                }
                Step::Connect { cut_off } if !up => {
                    if cut_off {
                        ensemble.cut = Some(Duration::ZERO);
                    } else {
                        ensemble.cut = None;
                        ensemble.base = now;
                    }
                    (up, heard, connected_at) = (true, true, now);
                    lease.connected(now);
                }
                _ => {}
            }
            prop_assert!(
                lease.deadline() <= ensemble.known() + T,
                "lease until {:?}, session until {:?}", lease.deadline(), ensemble.known() + T
            );
        }
    }
}
