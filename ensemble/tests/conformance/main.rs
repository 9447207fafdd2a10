//! The simulated server against a real one: the same requests, and the same bytes in reply.
//!
//! `ZOOKEEPER_HOME` says which version is asked. `CONFORMANCE_SEEDS=100..200` plays other seeds.

mod frame;
mod play;
mod step;
mod world;

use std::time::{Duration, Instant};

use play::Play;
use step::{Generator, Step};
use world::{Real, Simulated};
use zklock_ensemble::{Config, ServerId, Version};
use zklock_testcontainers::ZooKeeper;

const STEPS: usize = 120;
/// How long a normal run plays.
const TIME: Duration = Duration::from_secs(5);

fn configuration(version: &str) -> Config {
    let version = match version {
        version if version.contains("version: 3.8.0") => Version::V3_8_0,
        version if version.contains("version: 3.9.3") => Version::V3_9_3,
        version if version.contains("version: 3.9.5") => Version::V3_9_5,
        version => panic!("nobody has compared this version: {version}"),
    };
    Config { version, extended_types: true, words: vec!["*".into()], ..Config::new(ServerId(1), 1) }
}

#[test]
fn random_requests_get_the_replies_and_events_of_a_real_server() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let server = ZooKeeper::builder()
        .java_property("zookeeper.extendedTypesEnabled", "true")
        .java_property("znode.container.checkIntervalMs", "3600000");
    let server = runtime.block_on(server.start()).expect("a server");
    let real = Real::new(server.connect_string());
    let config = configuration(&real.ask("srvr"));
    let mut real = Play::new(real);
    let mut simulated = Play::new(Simulated::new(config));
    let seeds = std::env::var("CONFORMANCE_SEEDS").ok().and_then(|seeds| {
        let (first, end) = seeds.split_once("..")?;
        Some(first.parse::<u64>().ok()?..end.parse().ok()?)
    });
    let start = Instant::now();
    let mut played = 0;
    for seed in seeds.clone().unwrap_or(1..u64::MAX) {
        if seeds.is_none() && start.elapsed() > TIME {
            break;
        }
        play(seed, &mut real, &mut simulated);
        played += 1;
    }
    println!("{played} seeds of {STEPS} requests");
}

/// Plays one seed. The first difference ends it, so the printed steps are the shortest beginning that still differs.
fn play(seed: u64, real: &mut Play<Real>, simulated: &mut Play<Simulated>) {
    let mut generator = Generator::new(seed);
    let clients = 1 + seed as usize % 3;
    let mut steps = Vec::new();
    for number in 0..STEPS {
        let client = generator.dice.below(clients as u64) as usize;
        generator.zxid = simulated.zxid;
        let has_session = simulated.has_session(client);
        let step = if has_session && number <= clients { generator.first() } else { generator.next(has_session) };
        compare(seed, client, step, &mut steps, real, simulated);
    }
    for client in (0..3).filter(|client| *client < 3) {
        if simulated.has_session(client) {
            let step = Step::Ask { code: -11, body: Vec::new(), shown: "close".into() };
            compare(seed, client, step, &mut steps, real, simulated);
        }
    }
}

fn compare(
    seed: u64,
    client: usize,
    step: Step,
    steps: &mut Vec<String>,
    real: &mut Play<Real>,
    simulated: &mut Play<Simulated>,
) {
    steps.push(match &step {
        Step::Ask { shown, .. } => format!("client {client}: {shown:?}"),
        step => format!("client {client}: {step:?}"),
    });
    let (right, ours) = (real.step(client, &step), simulated.step(client, &step));
    assert!(
        right == ours,
        "seed {seed} differs:\n{}\n\nthe real server:\n{right}\nthe simulated one:\n{ours}",
        steps.join("\n")
    );
}
