//! Faults, drawn from a run's seed.

use std::time::Duration;

use world::{Direction, Host, Latency, MILLISECOND, ProcessId, Random, SECOND};

use crate::cluster::{Cluster, Moment, host, server};
use crate::history;
use crate::operator::Deed;
use crate::processes::{Processes, Stop, is_server};
use crate::trace::note;

/// Something that goes wrong at an instant, and for how long.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    /// When it begins, from the begin of the processes.
    pub at: Duration,
    /// Amid what else it begins, if it waits for something.
    pub amid: Option<Amid>,
    /// How long it lasts.
    pub lasts: Duration,
    /// What it is.
    pub kind: Kind,
}

/// A fault begins amid something, such as the requests and answers of a process: most of the time nothing is under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Amid {
    process: u32,
    what: Moment,
    latest: Duration,
}

impl Amid {
    fn draw(random: &mut Random, process: u32, timeout: Duration, kind: &Kind) -> Option<Self> {
        let direction = [Direction::ToServer, Direction::ToClient][random.below(2) as usize];
        let bytes = Moment::Bytes(host(process), direction, random.below(4) as u32);
        let what = if random.once_in(3) { turn_of_events(random, process) } else { bytes };
        let amid = random.once_in(2).then_some(Self { process, what, latest: timeout / 2 });
        match kind {
            // Only a create that is under way can be stuck.
            Kind::Stuck(_) => Some(Self { process, what: Moment::Asks(host(process)), latest: timeout }),
            _ => amid,
        }
    }
}

/// A moment at which something has changed for a process or for all.
fn turn_of_events(random: &mut Random, process: u32) -> Moment {
    let client = host(process);
    let of_the_client = [Moment::Moves(client), Moment::Resumed(client), Moment::Granted(client)];
    let of_all = [Moment::Elected, Moment::Created];
    let moments = of_the_client.into_iter().chain(of_all).collect::<Vec<_>>();
    moments[random.below(moments.len() as u64) as usize]
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// Bytes from one host to another are held.
    OneWay(Host, Host),
    /// Bytes between two hosts are held.
    Cut(Host, Host),
    /// A host is cut off from all others.
    Isolated(Host),
    /// A server is cut off from all other servers, and clients reach it.
    Alone(Host),
    /// A host receives nothing.
    Deaf(Host),
    /// Nobody receives anything from a host.
    Mute(Host),
    /// The hosts with these numbers are cut off from all others.
    Split(Vec<usize>),
    /// A process and the server that it is connected to are cut off from all others.
    Pair(u32),
    /// A process and the leader are cut off from all others, and for a while from each other. The other servers start again, and elect
    /// another leader at once. This one takes itself for the leader until `syncLimit` is over.
    Deposed(u32),
    /// The server of a process reaches its leader no more, and the other servers refuse the process. So the process asks its server to
    /// resume the session. Then another server resumes the session, and then the leader hears of all that was stuck.
    Stuck(u32),
    /// The connections between two hosts are reset.
    Reset(Host, Host),
    /// Bytes between two hosts take up to so long.
    Slow(Host, Host, Duration),
    /// Bytes between a host and all others take up to so long.
    Far(Host, Duration),
    /// A server is stopped by a signal.
    Paused(Host),
    /// A server crashes, and is started again afterwards.
    Crashed(Host),
    /// As that, and its machine is replaced meanwhile, if the others have all that its disk has or servers forget.
    Replaced(Host),
    /// A server has too much to do, and does nothing that it is asked for.
    Overloaded(Host),
    /// A process of the contenders is stopped by a signal.
    Stopped(u32),
    /// The machine of a process is suspended.
    Suspended(u32),
    /// A process is killed, and started anew afterwards.
    Killed(u32),
    /// A process drops its calls and guards, and closes its session. It is started anew afterwards.
    Closed(u32),
    /// The machine of a process dies, and another one starts afterwards.
    Died(u32),
    /// All clocks of a process but `CLOCK_MONOTONIC_RAW` run at another rate, in parts of [`SECOND`].
    Slewed(u32, u64),
    /// As that, of a server, by no more than chrony slews.
    SlewedServer(Host, u64),
    /// The time of day jumps, in seconds.
    Set(u32, i64),
    /// An operator does something.
    Operated(Deed),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Exposed {
    pub(crate) servers: u8,
    pub(crate) processes: u32,
    /// The session timeout.
    pub(crate) timeout: Duration,
    /// The longest that bytes take on a slow way.
    pub(crate) slowest: Duration,
    /// Whether leases allow for servers whose clocks are slewed.
    pub(crate) slews_servers: bool,
    /// Whether a disk is lost though others lack what it has.
    pub(crate) forgets: bool,
    /// Whether an operator deletes nodes of contenders.
    pub(crate) is_operated: bool,
    /// Up to which capacity an operator changes the one of a pool, if it does.
    pub(crate) resized: Option<u32>,
}

#[derive(Clone, Copy)]
struct Place {
    process: u32,
    server: Host,
    other: Host,
}

impl Place {
    fn draw(random: &mut Random, world: &Exposed) -> Self {
        // One machine is worse than the others.
        let process = if random.once_in(3) { 0 } else { random.below(world.processes.into()) as u32 };
        let any = |random: &mut Random| server(random.between(1, world.servers.into()) as u8);
        let server = any(random);
        let other = if random.once_in(3) { any(random) } else { host(process) };
        Self { process, server, other }
    }
}

pub(crate) fn draw(random: &mut Random, world: &Exposed, until: Duration) -> Vec<Fault> {
    let timeout = world.timeout;
    // Between five faults in a session timeout and one in ten of them.
    let mean = timeout.as_nanos() as u64 * [1, 5, 25, 50][random.below(4) as usize] / 5;
    let mut at = Duration::from_secs(5);
    let mut faults = Vec::<Fault>::new();
    loop {
        at += Duration::from_nanos(random.below(2 * mean));
        if at > until {
            return faults;
        }
        let place = Place::draw(random, world);
        let (mut begins, mut kind) = (at, kind(random, world, place));
        loop {
            let amid = Amid::draw(random, place.process, timeout, &kind);
            let fault = Fault { at: begins, amid, lasts: length(random, timeout, &kind), kind };
            let ends = fault.at + fault.lasts;
            if ends + amid.map_or(Duration::ZERO, |amid| amid.latest) > until {
                break;
            }
            faults.push(fault.clone());
            if random.once_in(3) {
                // It ends on time, because the next fault follows its end.
                if let Some(fault) = faults.last_mut() {
                    fault.amid = None;
                }
                let next = follow_up(random, place, timeout, ends);
                faults.extend(Some(next).filter(|next| next.at + timeout + next.lasts <= until));
                break;
            }
            // What is broken breaks again, shortly before or after it is whole. The next fault is the same one, as with a link that
            // flaps, or another one at the same place.
            if random.once_in(2) {
                break;
            }
            let most = timeout.as_nanos() as u64 >> random.below(12);
            let shortly = Duration::from_nanos(random.below(most));
            begins =
                if random.once_in(3) { ends.saturating_sub(shortly).max(fault.at) } else { ends + shortly };
            kind = if random.once_in(2) { fault.kind } else { self::kind(random, world, place) };
        }
    }
}

/// What a cut has held arrives after the cut, and then both sides act upon it. This fault begins right then, or at another turn of
/// events, and lasts for longer than a lease: nothing makes good what went wrong.
fn follow_up(random: &mut Random, place: Place, timeout: Duration, at: Duration) -> Fault {
    let Place { process, server: this, .. } = place;
    let delivery = Moment::Bytes(host(process), Direction::ToClient, 0);
    let what = if random.once_in(2) { delivery } else { turn_of_events(random, process) };
    let pair = Kind::Pair(process);
    let kind = [pair.clone(), pair, Kind::Alone(this), Kind::Isolated(host(process))]
        [random.below(4) as usize]
        .clone();
    let lasts = timeout + Duration::from_nanos(random.below(timeout.as_nanos() as u64));
    Fault { at, amid: Some(Amid { process, what, latest: timeout }), lasts, kind }
}

fn length(random: &mut Random, timeout: Duration, kind: &Kind) -> Duration {
    let most = match (random.below(4), kind) {
        // A network is slow for long, and a clock is slewed for long.
        (0, Kind::Slewed(..) | Kind::SlewedServer(..) | Kind::Slow(..) | Kind::Far(..)) => timeout * 20,
        (_, Kind::Deposed(_)) => timeout * 5,
        // The leader gives a silent server up after five ticks, and what was stuck with it.
        (_, Kind::Stuck(_)) => timeout / 2,
        (0, _) => timeout / 10,
        (1, _) => timeout * 3,
        _ => timeout * 3 / 2,
    };
    Duration::from_nanos(random.below(most.as_nanos() as u64))
}

fn kind(random: &mut Random, world: &Exposed, place: Place) -> Kind {
    let Exposed { servers, processes, slowest, .. } = *world;
    let Place { process, server: this, other } = place;
    let rates = [SECOND / 2, SECOND / 1000 * 917, SECOND / 1000 * 1083];
    match random.below(29) {
        0 => Kind::OneWay(this, other),
        1 => Kind::OneWay(other, this),
        2 => Kind::Cut(this, other),
        3 => [Kind::Isolated, Kind::Alone][random.below(2) as usize](this),
        4 => Kind::Isolated(host(process)),
        5 => {
            let most = slowest / [1, 3, 8][random.below(3) as usize];
            let most = Duration::from_nanos(random.below(most.as_nanos() as u64));
            let far = [this, other][random.below(2) as usize];
            if random.once_in(2) { Kind::Slow(this, other, most) } else { Kind::Far(far, most) }
        }
        6 => Kind::Paused(this),
        7 if world.forgets => Kind::Replaced(this),
        7 => Kind::Crashed(this),
        8 | 9 => Kind::Stopped(process),
        10 => Kind::Suspended(process),
        11 => Kind::Killed(process),
        12 => Kind::Died(process),
        13 | 14 => Kind::Slewed(process, rates[random.below(3) as usize]),
        15 if world.slews_servers => Kind::SlewedServer(this, rates[random.between(1, 2) as usize]),
        16 | 17 if world.is_operated => Kind::Operated(match random.below(6) {
            0 => Deed::Touch,
            1 => Deed::EndSession,
            3 => Deed::Clear,
            2 => match world.resized {
                Some(most) => Deed::Resize(random.between(1, u64::from(most)) as u32),
                None => Deed::Delete,
            },
            _ => Deed::Delete,
        }),
        15..=17 => Kind::Isolated(host(process)),
        18 => Kind::Deaf([this, host(process)][random.below(2) as usize]),
        19 => Kind::Mute([this, host(process)][random.below(2) as usize]),
        20 | 21 => {
            let hosts = usize::from(servers) + processes as usize;
            Kind::Split((0..hosts).filter(|_| random.once_in(2)).collect())
        }
        22 => Kind::Reset(this, other),
        23 => Kind::Replaced(this),
        24 => Kind::Overloaded(this),
        25 => Kind::Deposed(process),
        26 => Kind::Closed(process),
        27 => Kind::Stuck(process),
        _ => Kind::Set(process, [-7200, -5, 5, 86_400][random.below(4) as usize]),
    }
}

impl Fault {
    /// Has the fault begin and end at its time.
    pub(crate) fn schedule(self, cluster: &mut Cluster, processes: &Processes) {
        let processes = processes.clone();
        cluster.after(self.at, move |cluster| match self.amid {
            Some(Amid { what, latest, .. }) => {
                cluster.amid(what, latest, move |cluster| self.begin(cluster, processes));
            }
            None => self.begin(cluster, processes),
        });
    }

    fn begin(mut self, cluster: &mut Cluster, processes: Processes) {
        // The process is at another server later, and another one leads.
        let pair = match self.kind {
            Kind::Pair(process) => Some((process, cluster.world.server_of(host(process)))),
            Kind::Deposed(process) => Some((process, cluster.elected())),
            _ => None,
        };
        let deposed = pair.filter(|_| matches!(self.kind, Kind::Deposed(_)));
        if let Some((process, server)) = pair {
            let pair = [Some(host(process)), server];
            let all = processes.hosts().into_iter().enumerate();
            let side = all.filter(|(_, host)| pair.contains(&Some(*host))).map(|(number, _)| number);
            self.kind = Kind::Split(side.collect());
        }
        note("fault", format_args!("{:?} for {:?}", self.kind, self.lasts));
        if let Kind::Operated(deed) = self.kind {
            return processes.operate(cluster, deed, self.amid.map(|amid| amid.process));
        }
        history::disturbed(true, 0);
        self.apply(cluster, &processes, true);
        if let Kind::Stuck(process) = self.kind
            && let (Some(server), Some(leader)) = (cluster.world.server_of(host(process)), cluster.elected())
        {
            stick(cluster, &processes, host(process), (server, leader), self.lasts);
        }
        if let Some((process, Some(leader))) = deposed {
            let others = processes.hosts().into_iter().filter(|other| is_server(*other) && *other != leader);
            for other in others {
                cluster.crash(other);
                cluster.restart(other);
            }
            cut_both(cluster, host(process), leader, true);
            cluster.after(self.lasts / 10, move |cluster| cut_both(cluster, host(process), leader, false));
        }
        cluster.after(self.lasts, move |cluster| self.end(cluster, &processes));
    }

    fn end(&self, cluster: &mut Cluster, processes: &Processes) {
        note("fault", format_args!("{:?} is over", self.kind));
        self.apply(cluster, processes, false);
        // Bytes that were held arrive later, servers elect, and sessions are resumed.
        let quiet = self.lasts * 2 + processes.timeout() * 3;
        history::disturbed(false, cluster.world.now() + quiet.as_nanos() as u64);
    }

    pub(crate) fn apply(&self, cluster: &mut Cluster, processes: &Processes, begins: bool) {
        let now = cluster.world.now();
        match self.kind {
            Kind::OneWay(from, to) => cut(cluster, from, to, begins),
            Kind::Cut(one, other) => cut_both(cluster, one, other, begins),
            Kind::Isolated(host) => isolate(cluster, processes, host, begins),
            Kind::Alone(host) => {
                let reaches = |one, other| one == host && is_server(other);
                part(cluster, processes, |from, to| reaches(from, to) || reaches(to, from), begins);
            }
            Kind::Deaf(host) => part(cluster, processes, |_, to| to == host, begins),
            Kind::Mute(host) => part(cluster, processes, |from, _| from == host, begins),
            Kind::Split(ref side) => {
                let all = processes.hosts();
                let is_there =
                    |host| all.iter().position(|other| *other == host).is_some_and(|it| side.contains(&it));
                part(cluster, processes, |from, to| is_there(from) != is_there(to), begins);
            }
            Kind::Reset(one, other) if begins => cluster.reset(one, other),
            Kind::Slow(one, other, most) => slow(cluster, processes, (one, other), begins.then_some(most)),
            Kind::Far(host, most) => {
                let others = processes.hosts().into_iter().filter(|other| *other != host);
                others.for_each(|other| slow(cluster, processes, (host, other), begins.then_some(most)));
            }
            Kind::Paused(host) if begins => cluster.pause(host),
            Kind::Paused(host) => cluster.go_on(host),
            Kind::Crashed(host) if begins => cluster.crash(host),
            Kind::Replaced(host) if begins => {
                cluster.crash(host);
                cluster.empty_disk(host);
            }
            Kind::Crashed(host) | Kind::Replaced(host) => cluster.restart(host),
            Kind::Overloaded(host) => cluster.throttle(host, begins),
            Kind::Stopped(process) => {
                if let Some(id) = processes.stops(process, Stop::Signal, begins) {
                    stop(cluster, id, begins);
                }
            }
            Kind::Suspended(process) => {
                isolate(cluster, processes, host(process), begins);
                if let Some(id) = processes.stops(process, Stop::Suspension, begins) {
                    cluster.world.turn_clocks(id, |clocks, now| clocks.suspend(now, begins));
                    stop(cluster, id, begins);
                }
            }
            Kind::Killed(process) if begins => processes.kill(cluster, process, false),
            Kind::Died(process) if begins => processes.kill(cluster, process, true),
            Kind::Killed(process) | Kind::Died(process) => processes.start(cluster, process),
            Kind::Closed(process) if begins => processes.close(cluster, process),
            Kind::Closed(process) => {
                processes.kill(cluster, process, false);
                processes.start(cluster, process);
            }
            Kind::Slewed(process, rate) => processes.with(process, |id| {
                let rate = if begins { rate } else { SECOND };
                cluster.world.turn_clocks(id, |clocks, now| clocks.slew(now, rate));
            }),
            Kind::SlewedServer(host, rate) => cluster.slew(host, if begins { rate } else { SECOND }),
            Kind::Set(process, seconds) if begins => processes.with(process, |id| {
                cluster.world.turn_clocks(id, |clocks, _| clocks.set(now, seconds * SECOND as i64));
            }),
            Kind::Reset(..)
            | Kind::Set(..)
            | Kind::Operated(_)
            | Kind::Pair(_)
            | Kind::Deposed(_)
            | Kind::Stuck(_) => {}
        }
    }
}

/// What a server has to say to the leader is stuck until this time is over. Its client asks it for the session again after a quarter
/// of the time, and another server after a half.
fn stick(
    cluster: &mut Cluster,
    processes: &Processes,
    client: Host,
    (server, leader): (Host, Host),
    lasts: Duration,
) {
    let others = processes.hosts().into_iter().filter(move |it| is_server(*it) && *it != server);
    let others = others.collect::<Vec<_>>();
    cut(cluster, server, leader, true);
    others.iter().for_each(|other| cluster.world.refuse(client, *other, true));
    cluster.after(lasts / 4, move |cluster| cluster.reset(client, server));
    cluster.after(lasts / 2, move |cluster| {
        others.iter().for_each(|other| cluster.world.refuse(client, *other, false));
        cluster.world.refuse(client, server, true);
        cluster.reset(client, server);
    });
    cluster.after(lasts, move |cluster| {
        cut(cluster, server, leader, false);
        cluster.world.refuse(client, server, false);
    });
}

fn stop(cluster: &mut Cluster, id: ProcessId, begins: bool) {
    if begins {
        history::stopped(id);
        cluster.world.stop(id);
    } else {
        cluster.world.go_on(id);
    }
}

/// Cuts are counted, because two of them may overlap.
fn cut(cluster: &mut Cluster, from: Host, to: Host, begins: bool) {
    if from != to {
        cluster.cut(from, to, begins);
    }
}

fn cut_both(cluster: &mut Cluster, one: Host, other: Host, begins: bool) {
    cut(cluster, one, other, begins);
    cut(cluster, other, one, begins);
}

fn isolate(cluster: &mut Cluster, processes: &Processes, host: Host, begins: bool) {
    part(cluster, processes, |from, to| from == host || to == host, begins);
}

/// Cuts these ways, or ends a cut of them.
fn part(cluster: &mut Cluster, processes: &Processes, is_cut: impl Fn(Host, Host) -> bool, begins: bool) {
    let hosts = processes.hosts();
    for from in &hosts {
        for to in hosts.iter().filter(|to| is_cut(*from, **to)) {
            cut(cluster, *from, *to, begins);
        }
    }
}

/// Has bytes between two hosts take up to so long, or as long as mostly.
fn slow(cluster: &mut Cluster, processes: &Processes, (one, other): (Host, Host), most: Option<Duration>) {
    let latency = most.map_or(processes.latency(), |most| {
        let most = (most.as_nanos() as u64).max(MILLISECOND);
        Latency { least: MILLISECOND / 5, most }
    });
    cluster.world.set_latency(one, other, latency);
    cluster.world.set_latency(other, one, latency);
}
