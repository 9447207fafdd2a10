//! One run: a system drawn from a seed, its faults, and what was seen.

use std::time::Duration;

use world::{Latency, Random};
use zklock_contest::contender::Pace;
use zklock_contest::member::Member;
use zklock_ensemble::{Config, ServerId, Version};

use crate::cluster::Cluster;
use crate::faults::{self, Exposed};
use crate::history::{self, Outcome, Stage};
use crate::operator::Deed;
use crate::part::{Part, members};
use crate::processes::Processes;
use crate::trace;

/// What a run is made of, beside its seed.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    /// The member that is contended for, if it is not drawn.
    pub member: Option<Member>,
    /// Which of the faults are left out.
    pub without: Vec<usize>,
}

/// How long faults happen, in session timeouts.
const STORM: u32 = 60;

/// With a shorter session timeout, heartbeats cannot keep a lease.
const SHORTEST: Duration = Duration::from_millis(800);

/// A process asks for this session timeout if nobody says another one.
const DEFAULT: Duration = Duration::from_secs(10);

/// How long a thread of a server that has nothing else to do takes for something.
const MOMENT: Duration = Duration::from_millis(1);

/// For so long zklock looks for the node of a create that was not answered.
const LATE: Duration = Duration::from_secs(60);

/// Runs a seed, and returns what was seen.
pub fn run(seed: u64, choices: &Choices) -> Outcome {
    let _listening = trace::listen();
    // tokio catches panics of tasks that nobody awaits.
    std::panic::set_hook(Box::new(|panic| history::wrong(format!("a panic: {panic}"))));
    let mut random = Random::new(seed);
    let servers = [1, 3, 3, 5][random.below(4) as usize];
    let tick = Duration::from_millis([100, 500, 2_000][random.below(3) as usize]);
    let drawn = |random: &mut Random| (tick * random.between(4, 20) as u32).max(SHORTEST);
    // Servers that grant different timeouts, or more than every process asks for.
    let limits = (1..=servers).map(|_| drawn(&mut random)).collect::<Vec<_>>();
    let longest = limits.iter().copied().max().unwrap_or(SHORTEST).min(DEFAULT);
    let is_uneven = random.once_in(3);
    let timeout = if is_uneven { longest } else { drawn(&mut random) };
    let processes = random.between(2, 6) as u32;
    let drawn = members()[random.below(members().len() as u64) as usize];
    let member = choices.member.unwrap_or(drawn);
    let is_operated = random.once_in(3);
    // Clocks of servers are within 100 parts in a million, unless faults slew them.
    let drift = [None, Some(1_000)][random.below(2) as usize];
    let part = Part {
        member,
        servers: (1..=servers).map(|number| format!("h{number}:2181")).collect::<Vec<_>>().join(","),
        timeout,
        is_exact: !is_uneven,
        tick,
        tasks: random.between(1, 3) as u16,
        pace: Pace {
            timeout,
            think: timeout / [20, 4, 1][random.below(3) as usize],
            hold: timeout / [100, 30, 2][random.below(3) as usize],
            longest: timeout * 4,
            round: timeout / 2,
            look: timeout / 4,
            dawdles: 8,
            last_turns: 1,
        },
        drift,
        is_prompt: false,
        delay: (is_operated || random.once_in(4)).then_some(timeout),
    };
    history::begin(member, processes, part.tasks);
    let apply_delay = Duration::from_millis([0, 1, 20][random.below(3) as usize]);
    // Requests that wait for much of the timeout keep no lease either.
    let prep_delay = [Duration::ZERO, MOMENT, tick / random.between(10, 50) as u32][random.below(3) as usize];
    let expiry_delay =
        [Duration::ZERO, MOMENT, tick / random.between(1, 20) as u32][random.below(3) as usize];
    let version = [Version::V3_8_0, Version::V3_9_3, Version::V3_9_5][random.below(3) as usize];
    let configs = (1..=servers).map(|number| {
        let mut config = Config::new(ServerId(number), servers);
        config.tick = tick;
        config.min_session_timeout = tick * 2;
        config.max_session_timeout = if is_uneven { limits[usize::from(number) - 1] } else { tick * 20 };
        config.apply_delay = apply_delay;
        config.prep_delay = prep_delay;
        config.expiry_delay = expiry_delay;
        config.version = version;
        // Directories without a lock vanish while the lock is in use.
        config.container_check = timeout;
        config
    });
    let storm = timeout * STORM;
    let configs = configs.collect();
    let mut cluster = Cluster::new(random.bits(), configs, history::applied);
    let is_resized = is_operated && member == Member::Semaphore;
    let slews_servers = drift.is_none();
    let exposed = Exposed { servers, processes, timeout, slews_servers, is_operated, is_resized };
    let faults = faults::draw(&mut random.fork(), &exposed, storm);
    // A quorum's answer takes six ways. If it takes much of the timeout, heartbeats keep no lease.
    let shortest =
        limits.iter().copied().min().filter(|_| is_uneven).map_or(timeout, |least| least.min(timeout));
    let longest_way = shortest.as_nanos() as u64 / 80;
    // The servers are near, or they are in another region.
    let latency = match random.once_in(3) {
        true => Latency { least: longest_way / 4, most: longest_way },
        false => Latency::default(),
    };
    // Before its last turn each contender may have another one, behind those of all others.
    let turns = (timeout * 4 + part.delay.unwrap_or_default()) * (processes * u32::from(part.tasks));
    let all = Processes::new(part, servers, processes, latency, random);
    all.heal(&mut cluster);
    all.operate(&mut cluster, Deed::Prepare);
    for process in 0..processes {
        all.start(&mut cluster, process);
    }
    let drawn = faults.len();
    for (number, fault) in faults.into_iter().enumerate() {
        if !choices.without.contains(&number) {
            fault.schedule(&mut cluster, &all);
        }
    }
    cluster.run(storm);
    history::enter(Stage::Calm);
    // From one who finishes to the next one: a killed contender's session, acquisitions before the last one with their
    // delays, their holds, and connecting.
    let longest = timeout * 40 + Duration::from_secs(120) + turns;
    let (mut time, mut quiet, mut unfinished) = (storm, Duration::ZERO, history::unfinished());
    while !unfinished.is_empty() && quiet < longest {
        time += timeout;
        cluster.run(time);
        let before = std::mem::replace(&mut unfinished, history::unfinished()).len();
        quiet = if unfinished.len() < before { Duration::ZERO } else { quiet + timeout };
    }
    if unfinished.is_empty() {
        history::enter(Stage::Eviction);
        all.operate(&mut cluster, Deed::Evict);
        // A claim of a run may be told several times that the run is done, after a delay each.
        let end = time + timeout * 40;
        while time == end - timeout * 40 || (!unfinished.is_empty() && time < end) {
            time += timeout;
            cluster.run(time);
            unfinished = history::unfinished();
        }
    }
    if unfinished.is_empty() {
        history::enter(Stage::Audit);
        all.audit(&mut cluster, timeout * 2 + LATE);
        while history::stage() == Stage::Audit {
            time += timeout;
            cluster.run(time);
        }
        // The sessions are closed.
        time += timeout * 2;
        cluster.run(time);
    }
    unfinished.into_iter().for_each(history::wrong);
    let fingerprint = cluster.world.fingerprint();
    drop((cluster, all));
    Outcome { fingerprint, time, faults: drawn, ..history::end(member, timeout) }
}
