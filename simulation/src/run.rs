//! One run: a system drawn from a seed, its faults, and what was seen.

use std::time::Duration;

use clap::ValueEnum;
use world::{Latency, Random};
use zklock_contest::contender::Pace;
use zklock_contest::member::Member;
use zklock_contest::members::rules;
use zklock_ensemble::{Config, ServerId, Version};
use zklock_recipe::LAST_SEQUENCE;

use crate::cluster::{Cluster, Looks};
use crate::core::Core;
use crate::faults::{self, Exposed, Fault, Kind};
use crate::history::{self, Outcome, Stage};
use crate::operator::Deed;
use crate::part::{Part, SETTLING};
use crate::probes;
use crate::processes::{Processes, SCHEDULED};
use crate::quiet::Bounds;
use crate::seen::Seen;
use crate::slack;
use crate::takeover;
use crate::trace;

/// What a run is made of, beside its seed.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    /// The member that is contended for, if it is not drawn.
    pub member: Option<Member>,
    /// Which of the faults are left out.
    pub without: Vec<usize>,
}

/// How long faults happen, in session timeouts. After a short while the end shows what a few of them have left; in a long one many
/// meet.
const STORMS: [u32; 3] = [12, 12, 60];

/// With a shorter session timeout, heartbeats cannot keep a lease.
const SHORTEST: Duration = Duration::from_millis(800);

/// A process asks for this session timeout if nobody says another one.
const DEFAULT: Duration = Duration::from_secs(10);

/// How long a thread of a server that has nothing else to do takes for something.
const MOMENT: Duration = Duration::from_millis(1);

/// The takeover delay in a queue that another client shares, in ticks. docs/MIGRATION.md promises twice `syncLimit` to be enough. Here
/// clocks run at other rates, too, and a way is slow by a tick.
const SHARED: u32 = 15;

/// For so long a scheduler may keep a process from watching its node, and from hearing.
const SCHEDULING: Duration = Duration::from_millis(300);

/// For so long zklock looks for the node of a create that was not answered.
const LATE: Duration = Duration::from_secs(60);

/// Runs a seed, and returns what was seen.
pub fn run(seed: u64, choices: &Choices) -> Outcome {
    let _listening = trace::listen();
    // tokio catches panics of tasks that nobody awaits.
    std::panic::set_hook(Box::new(|panic| history::wrong(format!("a panic: {panic}"))));
    let plan = Plan::draw(Random::new(seed), choices);
    let (member, timeout) = (plan.part.member, plan.part.timeout);
    let faults = (plan.faults.len() + usize::from(plan.core.is_some())) as u64;
    let storm = plan.storm;
    let mut system = System::begin(plan, choices);
    system.run(storm);
    system.stand();
    let unfinished = system.finish();
    unfinished.into_iter().for_each(history::wrong);
    let (fingerprint, time) = (system.cluster.world.fingerprint(), system.time);
    drop(system);
    let outcome = history::end(member, timeout);
    let slack = slack::seen().map(|slack| (member, slack)).into_iter().collect();
    let seen = Seen { fingerprint, time, faults, slack, ..outcome.seen };
    Outcome { seen, reached: probes::take(), ..outcome }
}

/// A system and its faults, as they are drawn.
struct Plan {
    part: Part,
    processes: u32,
    servers: Vec<Config>,
    latency: Latency,
    /// The shortest session timeout that is granted.
    shortest: Duration,
    /// How long faults happen.
    storm: Duration,
    faults: Vec<Fault>,
    /// What stays broken after that for a while, if something does. Its number is behind those of all faults.
    core: Option<Core>,
    /// The capacity that a pool has in the end, if operators change it.
    capacity: Option<u32>,
    /// What the cluster draws from.
    seed: u64,
    /// What the processes draw from.
    random: Random,
}

impl Plan {
    fn draw(mut random: Random, choices: &Choices) -> Self {
        let servers = [1, 3, 3, 5][random.below(4) as usize];
        let tick = Duration::from_millis([100, 500, 2_000][random.below(3) as usize]);
        let drawn = |random: &mut Random| (tick * random.between(4, 20) as u32).max(SHORTEST);
        // Servers that grant different timeouts, or more than every process asks for.
        let limits = (1..=servers).map(|_| drawn(&mut random)).collect::<Vec<_>>();
        let longest = limits.iter().copied().max().unwrap_or(SHORTEST).min(DEFAULT);
        let is_uneven = random.once_in(3);
        let timeout = if is_uneven { longest } else { drawn(&mut random) };
        let processes = random.between(2, 6) as u32;
        let all = Member::value_variants();
        let drawn = all[random.below(all.len() as u64) as usize];
        let member = choices.member.unwrap_or(drawn);
        let is_operated = random.once_in(3);
        let is_delayed = random.once_in(4);
        // With a delay of a whole timeout, waiters excuse nothing that an operator does. With a short one they excuse nothing in quiet.
        let which = random.below(3);
        let is_shared = member == Member::Queue;
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
                // Crowded locks, some that are mostly free, and sessions that become idle.
                think: timeout * [1, 5, 20, 400][random.below(4) as usize] / 20,
                hold: timeout / [100, 30, 2][random.below(3) as usize],
                longest: timeout * 4,
                round: timeout / 2,
                look: timeout / 4,
                dawdles: 8,
                outlasts: true,
                last_turns: 1,
            },
            drift,
            forgets: servers > 1 && random.once_in(10),
            told: Duration::ZERO,
            delay: (is_delayed && !is_operated).then_some(timeout),
        };
        let mut config = Config::new(ServerId(0), servers);
        config.tick = tick;
        config.min_session_timeout = tick * 2;
        config.apply_delay = Duration::from_millis([0, 1, 20][random.below(3) as usize]);
        // Requests that wait for much of the timeout keep no lease either.
        let most = tick / random.between(10, 50) as u32;
        config.prep_delay = [Duration::ZERO, MOMENT, most][random.below(3) as usize];
        // Real ones mark a session within milliseconds, or when their log can be written again: see the crate's docs.
        let most = tick / random.between(1, 20).max(2) as u32;
        config.expiry_delay = [Duration::ZERO, MOMENT, most][random.below(3) as usize];
        config.version = [Version::V3_8_0, Version::V3_9_3, Version::V3_9_5][random.below(3) as usize];
        // Directories without a lock vanish while the lock is in use.
        config.nodes = former(member, &mut random);
        config.container_check = [timeout, tick][random.below(2) as usize];
        let configs = limits.iter().zip(1..).map(|(limit, number)| Config {
            id: ServerId(number),
            max_session_timeout: if is_uneven { *limit } else { tick * 20 },
            ..config.clone()
        });
        let (configs, seed) = (configs.collect(), random.bits());
        // Whoever states a capacity that servers have forgotten is refused, rightly.
        let is_resized = is_operated && rules(member).is_pool && !part.forgets;
        let resized = is_resized.then_some(rules(member).capacity);
        let slews_servers = drift.is_none();
        let slowest = if is_shared { tick } else { timeout };
        let exposed = Exposed {
            servers,
            processes,
            timeout,
            slowest,
            slews_servers,
            is_operated,
            resized,
            forgets: part.forgets,
        };
        let storm = timeout * STORMS[random.below(3) as usize];
        let faults = faults::draw(&mut random.fork(), &exposed, storm);
        let core = random.once_in(2).then(|| Core::draw(&mut random.fork(), &exposed, is_shared));
        let core = core.filter(|_| !choices.without.contains(&faults.len()));
        // A quorum's answer takes six ways. If it takes much of the timeout, heartbeats keep no lease.
        let shortest =
            limits.iter().copied().min().filter(|_| is_uneven).map_or(timeout, |least| least.min(timeout));
        let longest_way = shortest.as_nanos() as u64 / 80;
        // The servers are near, or they are in another region.
        let latency = match random.once_in(3) {
            true => Latency { least: longest_way / 4, most: longest_way },
            false => Latency::default(),
        };
        // An event of a deletion may wait for a write under way, a read that sets the watch for the write before it.
        let ways = Duration::from_nanos(latency.most) * 12;
        let told = SETTLING + SCHEDULING + ways + (config.prep_delay + config.apply_delay) * 2;
        let delay = match which {
            _ if is_shared => Some(tick * SHARED),
            0 if is_operated => None,
            1 if is_operated => Some(told),
            _ if is_operated => Some(timeout),
            _ => part.delay,
        };
        let part = Part { told, delay, ..part };
        let capacity = resized;
        Self {
            part,
            processes,
            servers: configs,
            latency,
            shortest,
            storm,
            faults,
            core,
            capacity,
            seed,
            random,
        }
    }
}

/// The directories of locks that are there before: numbers begin anywhere in them. Those near the last one that zklock takes are left to
/// tests (`tests/servers/exhaustion.rs`): contenders have to be stopped then, so that somebody can remove the directory.
fn former(member: Member, random: &mut Random) -> Vec<(String, i32)> {
    if !random.once_in(4) {
        return Vec::new();
    }
    // A run takes far fewer than the last 100,000.
    let last = LAST_SEQUENCE - 100_000;
    let next = if random.once_in(2) { last } else { random.below(last as u64) as i32 };
    let locks = (0..rules(member).locks).map(|lock| (member.path(lock), next));
    [("/lock".to_owned(), 1), (member.root(), 1)].into_iter().chain(locks).collect()
}

/// A system under way.
struct System {
    cluster: Cluster,
    all: Processes,
    core: Option<Core>,
    timeout: Duration,
    /// After so long the faults do not matter any more.
    settling: Duration,
    /// How long each contender's turn before its last one takes, behind those of all others.
    turns: Duration,
    /// The capacity that a pool has in the end, if operators change it.
    capacity: Option<u32>,
    /// How much time has been simulated.
    time: Duration,
}

impl System {
    /// Starts the servers and the processes, and has the faults come.
    fn begin(plan: Plan, choices: &Choices) -> Self {
        let Plan {
            part, processes, servers, latency, shortest, faults, core, capacity, seed, random, ..
        } = plan;
        let (timeout, voters) = (part.timeout, servers.len() as u8);
        history::begin(&part, processes);
        let settling = Bounds::of(&part).settling();
        let is_slewed = faults.iter().any(|fault| matches!(fault.kind, Kind::SlewedServer(..)));
        let forgets = part.forgets;
        slack::begin(shortest, part.drift, is_slewed, forgets);
        let is_slewed = faults.iter().any(|fault| matches!(fault.kind, Kind::Slewed(..)));
        takeover::begin(&part, is_slewed);
        let turns = (timeout * 4 + part.delay.unwrap_or_default()) * (processes * u32::from(part.tasks));
        let looks = Looks { applied: history::applied, read: slack::read, ends: slack::ends };
        let mut cluster = Cluster::new(seed, servers, looks);
        cluster.forgets = forgets;
        let all = Processes::new(part, voters, processes, latency, random);
        all.heal(&mut cluster);
        all.operate(&mut cluster, Deed::Prepare, None);
        for process in 0..processes {
            all.start(&mut cluster, process);
        }
        for (number, fault) in faults.into_iter().enumerate() {
            if !choices.without.contains(&number) {
                fault.schedule(&mut cluster, &all);
            }
        }
        Self { cluster, all, core, timeout, settling, turns, capacity, time: Duration::ZERO }
    }

    fn run(&mut self, time: Duration) {
        self.time += time;
        self.cluster.run(self.time);
    }

    /// After the faults some stay, and contenders of the core go on.
    fn stand(&mut self) {
        let Some(core) = self.core.take() else { return };
        let left = history::enter_core(core.outside.clone());
        core.begin(&mut self.cluster, &self.all);
        self.cluster.world.shorten_preemptions(SCHEDULED);
        self.run(self.settling);
        for (who, token) in left.into_iter().filter(|(_, token)| self.cluster.has_node(*token)) {
            history::wrong(format!("{who} is cut off for ever, and its node is there, zxid {token}"));
        }
        self.run(self.timeout * 4);
        history::unmet(|client| self.all.is_foreign(client)).into_iter().for_each(history::wrong);
        core.end(&mut self.cluster, &self.all);
    }

    /// After the faults: everybody contends once more, one contender is evicted, and nothing is left. Returns who has not finished.
    fn finish(&mut self) -> Vec<String> {
        let unfinished = self.calm();
        let unfinished = if unfinished.is_empty() { self.evict() } else { unfinished };
        if unfinished.is_empty() {
            self.audit();
        }
        unfinished
    }

    fn calm(&mut self) -> Vec<String> {
        history::enter(Stage::Calm);
        // A stop is a fault. A process that is stopped again and again loses its session each time.
        self.cluster.world.shorten_preemptions(SCHEDULED);
        self.run(self.settling);
        if let Some(capacity) = self.capacity {
            self.all.operate(&mut self.cluster, Deed::Resize(capacity), None);
        }
        self.all.disturb(&mut self.cluster);
        self.run(self.timeout * 4);
        history::enter(Stage::Last);
        // From one who finishes to the next one: a killed contender's session, acquisitions before the last one with their
        // delays, their holds, and connecting.
        let longest = self.timeout * 40 + Duration::from_secs(120) + self.turns;
        let (mut quiet, mut unfinished) = (Duration::ZERO, history::unfinished());
        while !unfinished.is_empty() && quiet < longest {
            self.run(self.timeout);
            let before = std::mem::replace(&mut unfinished, history::unfinished()).len();
            quiet = if unfinished.len() < before { Duration::ZERO } else { quiet + self.timeout };
        }
        unfinished
    }

    fn evict(&mut self) -> Vec<String> {
        history::enter(Stage::Eviction);
        self.all.operate(&mut self.cluster, Deed::Evict, None);
        // A claim of a run may be told several times that the run is done, after a delay each.
        for _ in 0..40 {
            self.run(self.timeout);
            let unfinished = history::unfinished();
            if unfinished.is_empty() {
                return unfinished;
            }
        }
        history::unfinished()
    }

    fn audit(&mut self) {
        history::enter(Stage::Audit);
        self.all.audit(&mut self.cluster, self.timeout * 2 + LATE);
        while history::stage() == Stage::Audit {
            self.run(self.timeout);
        }
        // The sessions are closed.
        self.run(self.timeout * 2);
    }
}
