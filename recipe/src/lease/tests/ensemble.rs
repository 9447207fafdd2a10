//! Any order in which a client, its servers and their streams can act, by clocks that run at different rates.
//!
//! Each rule of the lease is left out once, to see the property fail.

use proptest::test_runner::TestCaseError;

use super::*;

/// How far a clock that is slewed, or a leader's, may be off: 1/12, and an oscillator.
const SLEWED: i64 = 84_333;

/// How far a clock that is not slewed may be off.
const OSCILLATOR: i64 = 500;

/// How long it takes the leader at most to mark the sessions that it took from its queue, in microseconds.
const MARKING: u64 = 900_000;

const TICK: u64 = 1_800_000;

/// Which rule of the lease is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Without {
    Nothing,
    /// Both clocks are the one that is slewed.
    UnslewedClock,
    /// 1% is reckoned with.
    Drift,
    /// 1% is reckoned with where a leader pings late.
    LaggingPings,
    /// The first timeout is taken for that of every connection.
    SmallestTimeout,
    /// A request to resume is taken to grant the first timeout, until it is answered.
    Floor,
    /// A request to resume is forgotten when it fails.
    FailedRequests,
    /// A touch counts, however late it was heard of.
    Doubt,
    /// What was answered on any connection counts.
    Connections,
    /// A resumption counts without a confirmation.
    ConfirmedResumption,
    /// A quorum write confirms what was answered a lag before.
    Reports,
}

/// A server, by its index: 0 is the leader, the last one a leader that has no quorum any more, and does not know it; the
/// others are followers.
type Server = usize;

const LEADER: Server = 0;
const DEPOSED: Server = 3;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Real time passes, in milliseconds.
    Wait(u64),
    /// The rates of the client's slewed clock, and of the leader's, become these.
    Slew(i64, i64),
    /// A read reaches the server that was sent so long ago, and is answered.
    Read(u64),
    /// A write likewise; the leader will hear of it.
    Write(u64),
    /// A sync likewise, which whatever takes itself for the leader answers.
    Sync(u64),
    /// A sync or a write on the connection before, which the client has given up, and whose server has not heard of that.
    Stale {
        write: bool,
    },
    /// The leader hears so much of what this server has sent, or its clients that it has yet to hear.
    Up(Server, usize),
    /// A follower hears so much of what the leader has sent.
    Down(Server, usize),
    /// The leader pings, before it has to.
    Ping,
    Lose,
    Attempt(Server),
    Fail,
    /// The leader marks the session, if it was taken from the queue.
    Mark,
    /// Another server becomes the leader; all connections end.
    Elect,
}

fn step() -> impl Strategy<Value = Step> {
    let server = || LEADER..=DEPOSED;
    prop_oneof![
        8 => (1u64..1_500).prop_map(Step::Wait),
        1 => (-SLEWED..=SLEWED, -SLEWED..=SLEWED).prop_map(|(own, leader)| Step::Slew(own, leader)),
        2 => (0u64..500).prop_map(Step::Read),
        7 => (0u64..500).prop_map(Step::Write),
        7 => (0u64..500).prop_map(Step::Sync),
        2 => any::<bool>().prop_map(|write| Step::Stale { write }),
        9 => (server(), 1usize..6).prop_map(|(server, number)| Step::Up(server, number)),
        7 => (server(), 1usize..6).prop_map(|(server, number)| Step::Down(server, number)),
        2 => Just(Step::Ping),
        1 => Just(Step::Lose),
        3 => server().prop_map(Step::Attempt),
        1 => Just(Step::Fail),
        1 => Just(Step::Mark),
        1 => Just(Step::Elect),
    ]
}

/// What goes to the leader.
#[derive(Clone, Copy, Debug)]
enum Up {
    /// A touch with this timeout.
    Report(Duration),
    /// The client wants to resume its session.
    Resume,
    /// Sent by the client then, on the connection of this number.
    Write(u64, Moment),
    Sync(u64, Moment),
}

/// What comes from the leader.
#[derive(Clone, Copy, Debug)]
enum Down {
    Ping,
    Resumed,
    Written(u64, Moment),
    Synced(u64, Moment),
}

/// The streams between the leader and a server of the client's, and what that server will report.
#[derive(Default)]
struct Link {
    up: VecDeque<Up>,
    down: VecDeque<Down>,
    touched: bool,
}

struct Leader {
    /// By its own clock, in microseconds, as everything here.
    now: u64,
    rate: i64,
    expiry: u64,
    pinged: u64,
    /// For how long it should have pinged again, of real time.
    overdue: u64,
    /// When the session was taken from the queue.
    taken: Option<u64>,
    marked: bool,
    /// Where the session was resumed last.
    owner: Server,
    /// Of the session's creation.
    timeout: Duration,
}

impl Leader {
    fn touch(&mut self, timeout: Duration) -> bool {
        if !self.marked {
            self.expiry = self.now + micros(timeout);
        }
        !self.marked
    }

    fn pass(&mut self, real: u64) {
        self.now += scaled(real, self.rate);
        if self.now >= self.expiry {
            self.taken.get_or_insert(self.now);
        }
        self.marked |= self.taken.is_some_and(|taken| self.now >= taken + MARKING);
    }
}

fn micros(length: Duration) -> u64 {
    length.as_micros().try_into().unwrap()
}

fn scaled(real: u64, rate: i64) -> u64 {
    (real.cast_signed() * (1_000_000 + rate) / 1_000_000).cast_unsigned()
}

/// Whom the client talks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Client {
    Connected(Server, u64),
    Attempting(Server),
    Alone,
}

struct World {
    without: Without,
    lease: Lease,
    /// Before the present request to resume.
    before: Lease,
    client: Client,
    /// The connection before.
    former: Client,
    /// When the connection was made, or asked for.
    connected: Moment,
    now: Moment,
    /// Of the client's two clocks.
    rates: (i64, i64),
    /// What each server grants.
    timeouts: [Duration; 4],
    links: [Link; 4],
    leader: Leader,
}

impl World {
    fn new(without: Without, first: Server, timeouts: [Duration; 4], oscillator: i64) -> Self {
        let drift_ppm = if without == Without::Drift { 10_000 } else { DEFAULT_DRIFT_PPM };
        let reckoning = Reckoning { tick: Duration::from_micros(TICK), drift_ppm };
        let mut lease = Lease::established(reckoning, timeouts[first], at(0)).unwrap();
        if without == Without::LaggingPings {
            lease.lengths.lag = Lengths::new(T, &Reckoning { drift_ppm: 10_000, ..reckoning }).unwrap().lag;
        }
        Self {
            without,
            before: lease.clone(),
            lease,
            client: Client::Connected(first, 0),
            former: Client::Alone,
            connected: at(0),
            now: at(0),
            rates: (0, oscillator),
            timeouts,
            links: Default::default(),
            leader: Leader {
                now: 0,
                rate: 0,
                expiry: micros(timeouts[first]),
                pinged: 0,
                overdue: 0,
                taken: None,
                marked: false,
                owner: first,
                timeout: timeouts[first],
            },
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Wait(milliseconds) => (0..milliseconds).step_by(10).for_each(|_| self.pass(10_000)),
            Step::Slew(own, leader) => (self.rates.0, self.leader.rate) = (own, leader),
            Step::Read(ago) => {
                if let Client::Connected(server, _) = self.client {
                    self.links[server].touched = true;
                    self.reach(server);
                    self.lease.touched(self.sent(ago), self.now);
                }
            }
            Step::Write(ago) => self.ask(self.client, Up::Write, self.sent(ago)),
            Step::Sync(ago) => self.ask(self.client, Up::Sync, self.sent(ago)),
            Step::Stale { write } => {
                self.ask(self.former, if write { Up::Write } else { Up::Sync }, self.now);
            }
            Step::Up(server, number) => (0..number).for_each(|_| self.hear_server(server)),
            Step::Down(server, number) => (0..number).for_each(|_| self.hear_leader(server)),
            Step::Ping => self.ping(),
            Step::Lose => {
                if let Client::Connected(..) = self.client {
                    self.former = std::mem::replace(&mut self.client, Client::Alone);
                    self.lease.disconnected();
                }
            }
            Step::Attempt(server) if self.client == Client::Alone => self.attempt(server),
            Step::Fail => {
                if let Client::Attempting(_) = self.client {
                    self.client = Client::Alone;
                    self.lease.attempt_failed();
                    if self.without == Without::FailedRequests {
                        self.lease = self.before.clone();
                    }
                }
            }
            Step::Mark => self.leader.marked |= self.leader.taken.is_some(),
            Step::Elect => self.elect(),
            Step::Attempt(_) => {}
        }
        if self.without == Without::Doubt && self.lease.doubt.take().is_some() {
            self.lease.deadline = self.lease.known.plus(self.lease.lengths.validity());
        }
    }

    /// Real time passes, in microseconds.
    fn pass(&mut self, real: u64) {
        let passed = |rate| Duration::from_micros(scaled(real, rate));
        let (boot, raw) = match self.without {
            Without::UnslewedClock => (passed(self.rates.0), passed(self.rates.0)),
            _ => (passed(self.rates.0), passed(self.rates.1)),
        };
        self.now = Moment::new(self.now.boot + boot, self.now.raw + raw, Duration::ZERO);
        self.leader.pass(real);
        if self.leader.now >= self.leader.pinged + TICK / 2 {
            self.leader.overdue += real;
        }
        if self.leader.overdue >= TICK / 4 {
            self.ping();
        }
    }

    fn ping(&mut self) {
        (self.leader.pinged, self.leader.overdue) = (self.leader.now, 0);
        self.links[1..DEPOSED].iter_mut().for_each(|link| link.down.push_back(Down::Ping));
    }

    /// When something was sent that arrives now: no earlier than its connection was made.
    fn sent(&self, ago: u64) -> Moment {
        let ago = milliseconds(ago);
        let sent = Moment::new(self.now.boot - ago, self.now.raw - ago, Duration::ZERO);
        if sent.has_reached(self.connected) { sent } else { self.connected }
    }

    fn ask(&mut self, client: Client, request: fn(u64, Moment) -> Up, sent: Moment) {
        if let Client::Connected(server, number) = client {
            self.reach(server);
            self.links[server].up.push_back(request(number, sent));
        }
    }

    /// A request reaches the server, and touches the session there.
    fn reach(&mut self, server: Server) {
        match server {
            LEADER => drop(self.leader.touch(self.timeouts[LEADER])),
            DEPOSED => {}
            follower => self.links[follower].touched = true,
        }
    }

    fn attempt(&mut self, server: Server) {
        self.client = Client::Attempting(server);
        self.connected = self.now;
        self.before = self.lease.clone();
        let floor = match self.without {
            Without::Floor => self.leader.timeout,
            // Of the server itself, or of any: both will do.
            _ if server.is_multiple_of(2) => self.timeouts[server],
            _ => self.timeouts.into_iter().min().unwrap(),
        };
        self.lease.attempting(self.now, floor);
        self.links[server].up.push_back(Up::Resume);
    }

    fn elect(&mut self) {
        if let Client::Connected(server, _) | Client::Attempting(server) = self.client
            && server != DEPOSED
        {
            match self.client {
                Client::Connected(..) => self.lease.disconnected(),
                _ => self.lease.attempt_failed(),
            }
            self.client = Client::Alone;
        }
        if !matches!(self.former, Client::Connected(DEPOSED, _)) {
            self.former = Client::Alone;
        }
        self.links[..DEPOSED].iter_mut().for_each(|link| *link = Link::default());
        let timeout = self.leader.timeout;
        self.leader.touch(timeout);
        if !self.leader.marked {
            self.leader.taken = None;
        }
    }

    /// The leader, or what takes itself for it, hears what came next from a server.
    fn hear_server(&mut self, server: Server) {
        let Some(up) = self.links[server].up.pop_front() else { return };
        let answer = match up {
            Up::Report(timeout) => {
                self.leader.touch(timeout);
                None
            }
            Up::Sync(number, sent) => Some(Down::Synced(number, sent)),
            Up::Resume if server == DEPOSED => Some(Down::Resumed),
            Up::Resume => self.leader.touch(self.timeouts[server]).then(|| {
                self.leader.owner = server;
                Down::Resumed
            }),
            Up::Write(number, sent) => {
                let taken = server != DEPOSED && !self.leader.marked && self.leader.owner == server;
                taken.then_some(Down::Written(number, sent))
            }
        };
        self.links[server].down.extend(answer);
    }

    /// A server hears what came next from the leader.
    fn hear_leader(&mut self, server: Server) {
        let Some(down) = self.links[server].down.pop_front() else { return };
        match (down, self.client) {
            (Down::Ping, _) => {
                let link = &mut self.links[server];
                if std::mem::take(&mut link.touched) {
                    link.up.push_back(Up::Report(self.timeouts[server]));
                }
            }
            // To an earlier request, perhaps: a follower keeps one pending resumption a session.
            (Down::Resumed, Client::Attempting(to)) if to == server => {
                let granted = match self.without {
                    Without::SmallestTimeout => self.leader.timeout,
                    _ => self.timeouts[server],
                };
                let number = self.lease.resumed(granted).unwrap();
                self.client = Client::Connected(server, number);
                if self.without == Without::ConfirmedResumption {
                    self.lease.known = self.connected;
                    self.lease.deadline = self.connected.plus(self.lease.lengths.validity());
                }
            }
            // What was asked on an earlier connection to this server is heard of late.
            (Down::Written(number, sent), Client::Connected(_, present)) => {
                let number = if self.without == Without::Connections { present } else { number };
                if self.without == Without::Reports {
                    self.lease.synced(number, sent, sent);
                }
                self.lease.confirmed(number, sent, self.now);
            }
            (Down::Synced(number, sent), Client::Connected(_, present)) => {
                let number = if self.without == Without::Connections { present } else { number };
                self.lease.synced(number, sent, self.now);
            }
            _ => {}
        }
    }

    /// The most that can pass until the lease ends, and the least until the session does, in microseconds of real time.
    fn ends(&self) -> (u64, u64) {
        let slowest = (1_000_000 - OSCILLATOR).cast_unsigned();
        let fastest = (1_000_000 + SLEWED).cast_unsigned();
        let lease = micros(self.lease.remaining(self.now)) * 1_000_000 / slowest;
        let left = self.leader.expiry.saturating_sub(self.leader.now);
        let session = if self.leader.taken.is_some() { 0 } else { left * 1_000_000 / fastest };
        (lease, session)
    }
}

/// Takes these steps; whether the lease may outlast the session after one of them.
fn play(
    without: Without,
    (first, timeouts, oscillator): (Server, [Duration; 4], i64),
    steps: impl IntoIterator<Item = Step>,
) -> Result<(), String> {
    let mut world = World::new(without, first, timeouts, oscillator);
    for step in steps {
        world.take(step);
        let (lease, session) = world.ends();
        // Rates are rounded to microseconds each time that some passes.
        if lease > session + 1_000 {
            return Err(format!("after {step:?}: lease {lease} us, session {session} us"));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn the_lease_never_outlasts_what_the_ensemble_guarantees(
        first in LEADER..DEPOSED,
        timeouts in prop::array::uniform4(
            prop_oneof![Just(10_000u64), 5_000u64..10_000].prop_map(milliseconds),
        ),
        oscillator in -OSCILLATOR..=OSCILLATOR,
        steps in prop::collection::vec(step(), 1..160),
    ) {
        play(Without::Nothing, (first, timeouts, oscillator), steps).map_err(TestCaseError::fail)?;
    }
}

/// The steps that refute a lease without one of its rules. Server 1 grants 6 s, the others 10 s; the first connection is
/// to server 2.
fn counterexamples() -> Vec<(Without, Vec<Step>)> {
    use Step::*;
    let answered = |server| [Up(server, 1), Down(server, 1)];
    let slewed = |own, passes| {
        // The leader pings, and is slow about the next time.
        let read = [Slew(own, -SLEWED), Wait(3_000), Step::Ping, Down(2, 9), Up(2, 9), Read(0), Wait(passes)];
        [&read[..], &[Sync(0)], &answered(2), &[Write(0)], &answered(2)].concat()
    };
    // The request is sent in time, and arrives when the session was taken from the queue.
    let late_request = [Lose, Wait(8_900), Attempt(0), Wait(1_100)];
    let late_request = [&late_request[..], &answered(0), &[Write(0)], &answered(0)].concat();
    // So are a report, and a write right behind it.
    let late_report = [Wait(5_000), Read(0), Wait(1_450), Sync(0), Up(2, 1), Down(2, 9), Wait(3_560)];
    let late_report = [&late_report[..], &[Write(0), Up(2, 2), Down(2, 9)]].concat();
    // The server of the old connection has not heard that its client has gone to a leader without a quorum.
    let resumed = [&[Lose, Wait(500), Attempt(3)][..], &answered(3)].concat();
    let unheard = [&resumed[..], &[Stale { write: true }], &answered(2)].concat();
    let smaller = [&[Lose, Attempt(1)][..], &answered(1), &[Write(0)], &answered(1)].concat();
    vec![
        (Without::UnslewedClock, vec![Slew(-SLEWED, SLEWED), Wait(4_000)]),
        (Without::UnslewedClock, slewed(SLEWED, 1_350)),
        (Without::Drift, vec![Wait(10)]),
        (Without::LaggingPings, slewed(0, 1_380)),
        (Without::SmallestTimeout, smaller),
        (Without::Floor, vec![Lose, Attempt(1), Up(1, 1)]),
        // Nobody ever hears what that server grants.
        (Without::Floor, vec![Lose, Attempt(1), Fail, Up(1, 1)]),
        (Without::FailedRequests, vec![Lose, Attempt(1), Fail, Up(1, 1)]),
        (Without::Doubt, late_request),
        (Without::Doubt, late_report),
        (Without::Connections, unheard),
        (Without::ConfirmedResumption, resumed),
        // The follower hears the ping together with the write's answer.
        (Without::Reports, vec![Wait(2_000), Read(0), Wait(1_500), Write(0), Up(2, 1), Down(2, 9)]),
    ]
}

#[test]
fn without_any_of_its_rules_it_does() {
    let timeouts = [10_000, 6_000, 10_000, 10_000].map(milliseconds);
    for (without, steps) in counterexamples() {
        assert_eq!(play(Without::Nothing, (2, timeouts, 0), steps.clone()), Ok(()), "{without:?}");
        assert!(play(without, (2, timeouts, 0), steps).is_err(), "{without:?}");
    }
}
