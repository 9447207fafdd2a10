//! The simulated server against a real one: the same requests, and the same bytes in reply.
//!
//! `ZOOKEEPER_HOME` says which version is asked. `CONFORMANCE_SEEDS=100..200` plays other seeds.

mod faults;
mod frame;
mod net;
mod play;
mod several;
mod step;
mod world;

use std::time::{Duration, Instant};

use frame::Frame;
use net::{Net, id_of};
use play::Play;
use step::{Generator, Step};
use world::{Real, World};
use zklock_ensemble::{Config, ServerId, Version};
use zklock_testcontainers::{Ensemble, ZooKeeper};

const STEPS: usize = 120;
/// No session expires while requests are compared, however busy the machine is.
const SHORTEST: Duration = Duration::from_secs(20);
/// How long a normal run plays.
const TIME: Duration = Duration::from_secs(5);

/// A configuration like that of a real server.
fn configuration(real: &Real) -> Config {
    let version = match real.ask(0, "srvr").as_str() {
        version if version.contains("version: 3.8.0") => Version::V3_8_0,
        version if version.contains("version: 3.9.3") => Version::V3_9_3,
        version if version.contains("version: 3.9.5") => Version::V3_9_5,
        version => panic!("nobody has compared this version: {version}"),
    };
    let connections = real.ask(0, "cons");
    let address = connections.trim_start_matches([' ', '/']).split(':').next().expect("our connection");
    Config {
        version,
        words: vec!["*".into()],
        min_session_timeout: SHORTEST,
        client_address: address.into(),
        ..Config::new(ServerId(1), 1)
    }
}

/// Real servers are late when the machine is busy.
const LATE: Duration = Duration::from_secs(30);
const TICK: Duration = Duration::from_millis(500);

/// Two clients of one server. The first one creates the node, the second one watches it, and the first one asks the rest;
/// then it is silent. A container may end at once behind that, so the watch comes first, and nobody reads behind it.
/// Returns the connection that hears of the node's end.
fn watch_what_ends<W: World>(play: &mut Play<W>, timeout: Duration, creates: &[(i32, &str, i32)]) -> u64 {
    play.step(0, &Step::Connect { timeout: timeout.as_millis() as i32 });
    play.step(1, &Step::Connect { timeout: 9_000 });
    for (code, path, flags) in creates {
        let body = Frame::default().string(path);
        let body = if *code == 2 { body.int(-1) } else { body.string("").with(step::world(31)).int(*flags) };
        play.step_alone(0, &Step::Ask { code: *code, body: body.0, shown: String::new() });
        if *path == creates[0].1 {
            let watch = Frame::default().string(path).bool(true);
            play.step_alone(1, &Step::Ask { code: 3, body: watch.0, shown: String::new() });
        }
    }
    play.connection(1)
}

#[test]
fn sessions_expire_and_empty_containers_go_when_a_real_server_lets_them() {
    let check = Duration::from_millis(300);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let server = ZooKeeper::builder().tick_time(TICK).java_property("znode.container.checkIntervalMs", "300");
    let server = runtime.block_on(server.start()).expect("a server");
    let real = Real::new(vec![server.connect_string()]);
    let config = configuration(&real);
    let config = Config {
        tick: TICK,
        min_session_timeout: TICK * 2,
        max_session_timeout: TICK * 20,
        container_check: check,
        ..config
    };
    let mut real = Play::new(real, 1);
    let mut simulated = Play::new(Net::of([config]), 1);
    let ephemeral: &[_] = &[(1, "/ephemeral", 1)];
    let container: &[_] = &[(19, "/container", 4), (1, "/container/child", 0), (2, "/container/child", 0)];
    for (timeout, creates, shortest, longest) in [
        (TICK * 2, ephemeral, TICK * 2, TICK * 3),
        (TICK * 3, ephemeral, TICK * 3, TICK * 4),
        (TICK * 20, container, Duration::ZERO, check),
    ] {
        // The last sign of life comes between these two instants.
        let before = Instant::now();
        let watching = watch_what_ends(&mut real, timeout, creates);
        let start = Instant::now();
        let event = real.world.receive(watching);
        let most = before.elapsed();
        let least = start.elapsed();
        assert!(shortest <= most && least < longest + LATE, "{creates:?} took {least:?} to {most:?}");

        let watching = watch_what_ends(&mut simulated, timeout, creates);
        let start = simulated.world.now;
        while !simulated.world.has_something(watching) {
            simulated.world.pass(Duration::from_millis(1));
        }
        let elapsed = simulated.world.now - start;
        assert!(shortest < elapsed && elapsed <= longest, "{creates:?} took {elapsed:?} in simulation");
        assert_eq!(simulated.world.receive(watching), event);
        for client in 0..2 {
            let close = Step::Ask { code: -11, body: Vec::new(), shown: String::new() };
            if creates == container || client == 1 {
                assert_eq!(real.step(client, &close), simulated.step(client, &close));
            }
        }
    }
}

#[test]
fn random_requests_get_the_replies_and_events_of_a_real_server() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let server = ZooKeeper::builder()
        .min_session_timeout(SHORTEST)
        .java_property("znode.container.checkIntervalMs", "3600000");
    let server = runtime.block_on(server.start()).expect("a server");
    let real = Real::new(vec![server.connect_string()]);
    let config = configuration(&real);
    let old = config.version == Version::V3_8_0;
    let mut real = Play::new(real, 1);
    let mut simulated = Play::new(Net::of([config]), 1);
    play_seeds(old, &mut real, &mut simulated);
}

#[test]
fn random_requests_to_three_servers_get_the_replies_and_events_of_real_ones() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let ensemble = Ensemble::builder(3)
        .min_session_timeout(SHORTEST)
        .java_property("znode.container.checkIntervalMs", "3600000");
    let ensemble = runtime.block_on(ensemble.start()).expect("an ensemble");
    let real = Real::new((0..3).map(|server| ensemble.address(server)).collect());
    let config = configuration(&real);
    let old = config.version == Version::V3_8_0;
    let configs = (1..=3_u8).map(|id| {
        let conf = real.ask(usize::from(id) - 1, "conf");
        let members = conf.split_once("membership: \n").expect("the members").1.trim_end();
        Config { id: ServerId(id), voters: 3, members: members.into(), ..config.clone() }
    });
    let simulated = Net::of(configs);
    let (mut real, mut simulated) = (Play::new(real, 3), Play::new(simulated, 3));
    let elect = |real: &Play<Real>, simulated: &mut Play<Net>, servers: &[usize]| {
        let leader = runtime.block_on(ensemble.leader()).expect("a leader");
        simulated.world.appoint(leader, (real.world.zxid(leader) >> 32) as u32, servers);
        // A server that comes late to an empty ensemble begins where the epoch does, and one that comes early at 0.
        let begun = real.zxid > 0;
        for server in servers.iter().filter(|_| begun) {
            let (right, ours) = (real.world.zxid(*server), simulated.world.server(id_of(*server).0).zxid());
            assert_eq!(ours, right, "where server {server} begins the epoch");
        }
        leader
    };
    let leader = elect(&real, &mut simulated, &[0, 1, 2]);
    play_seeds(old, &mut real, &mut simulated);

    // The leader crashes, another one is elected, and the former one comes back.
    runtime.block_on(ensemble.kill(leader)).expect("a server dies");
    simulated.world.crash(id_of(leader).0);
    let left: Vec<_> = (0..3).filter(|server| *server != leader).collect();
    runtime.block_on(ensemble.wait_until_serving()).expect("the others serve");
    elect(&real, &mut simulated, &left);
    runtime.block_on(ensemble.restart(leader)).expect("the server comes back");
    runtime.block_on(ensemble.wait_until_serving()).expect("all serve");
    elect(&real, &mut simulated, &[0, 1, 2]);
    play(1 << 40, old, &mut real, &mut simulated);
}

fn play_seeds(old: bool, real: &mut Play<Real>, simulated: &mut Play<Net>) {
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
        play(seed, old, real, simulated);
        played += 1;
    }
    println!("{played} seeds of {STEPS} requests");
}

/// Plays one seed. The first difference ends it, so the printed steps are the shortest beginning that still differs.
fn play(seed: u64, old: bool, real: &mut Play<Real>, simulated: &mut Play<Net>) {
    let mut generator = Generator::new(seed, old);
    let clients = 1 + seed as usize % 3;
    let mut steps = Vec::new();
    for number in 0..STEPS {
        let client = generator.dice.below(clients as u64) as usize;
        generator.zxid = simulated.zxid;
        let has_session = simulated.has_session(client);
        let step =
            if has_session && number <= clients { generator.first() } else { generator.next(has_session) };
        compare(seed, client, step, &mut steps, real, simulated);
    }
    for client in 0..3 {
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
    simulated: &mut Play<Net>,
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
