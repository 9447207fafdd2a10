//! Processes with clocks of their own, which talk with an echoing server.

use std::future::poll_fn;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use tokio::time::sleep;
use world::{Clocks, Happening, Host, MILLISECOND, Preemption, ProcessId, SECOND, Socket, World};

const SERVER: Host = Host(1);
const CLIENT: Host = Host(101);

fn clocks(rate: u64) -> Clocks {
    Clocks::new(1_000 * SECOND, 1_000_000_000 * SECOND, rate)
}

/// A simulation has its thread for itself.
fn alone<T: Send + 'static>(simulation: impl FnOnce() -> T + Send + 'static) -> T {
    thread::spawn(simulation).join().unwrap()
}

/// A server that sends back what it receives.
fn run(world: &mut World, until: u64, mut at: impl FnMut(&mut World, u64)) {
    world::at(until, u64::MAX);
    loop {
        match world.advance().expect("the end is on the heap") {
            Happening::Received(_, connection, bytes) => world.send(connection, bytes),
            Happening::Accepted(..) | Happening::Closed(..) | Happening::Read(_) => {}
            Happening::Custom(u64::MAX) => return,
            Happening::Custom(number) => at(world, number),
        }
    }
}

fn start(world: &mut World, rate: u64, main: impl Future<Output = ()> + Send + 'static) -> ProcessId {
    world.spawn(CLIENT, clocks(rate), Preemption::default(), |_| main)
}

async fn talk(log: Sender<(u64, String)>) {
    let socket = Socket::connect("h1").unwrap().await.unwrap();
    for text in ["one", "two", "three"] {
        let written = poll_fn(|context| socket.poll_write(context, text.as_bytes())).await;
        assert_eq!(written.unwrap(), text.len());
        let mut buffer = [0; 64];
        let read = poll_fn(|context| socket.poll_read(context, &mut buffer)).await.unwrap();
        log.send((world::now(), String::from_utf8_lossy(&buffer[..read]).into_owned())).unwrap();
        sleep(Duration::from_secs(1)).await;
    }
}

#[test]
fn a_fast_clock_wakes_its_process_early_and_a_stopped_process_is_late() {
    let woken = alone(|| {
        let mut world = World::new(1);
        let (sender, woken) = channel();
        let rates = [SECOND, SECOND + SECOND / 10, SECOND];
        let ids = rates.map(|rate| {
            let sender = sender.clone();
            start(&mut world, rate, async move {
                let began = Instant::now();
                sleep(Duration::from_secs(11)).await;
                assert!(began.elapsed() >= Duration::from_secs(11));
                sender.send(world::now()).unwrap();
            })
        });
        world::at(SECOND, 0);
        world::at(20 * SECOND, 1);
        run(&mut world, 60 * SECOND, |world, number| match number {
            0 => world.stop(ids[2]),
            _ => world.go_on(ids[2]),
        });
        woken.try_iter().map(|at| at / (100 * MILLISECOND)).collect::<Vec<_>>()
    });
    assert_eq!(woken, [100, 110, 200]);
}

#[test]
fn what_a_cut_holds_arrives_after_it() {
    let said = alone(|| {
        let mut world = World::new(2);
        let (log, said) = channel();
        world.listen(SERVER, true);
        start(&mut world, SECOND, talk(log));
        world::at(SECOND / 2, 0);
        world::at(8 * SECOND, 1);
        run(&mut world, 60 * SECOND, |world, number| world.cut(CLIENT, SERVER, number == 0));
        said.try_iter().collect::<Vec<_>>()
    });
    let [(at_once, one), (held, two), (last, three)] = &said[..] else { panic!("{said:?}") };
    assert_eq!([one.as_str(), two, three], ["one", "two", "three"]);
    // A kernel sends again what it has sent in vain, and each of its pauses is twice as long as the one before.
    assert!(*at_once < SECOND / 2 && (8 * SECOND..16 * SECOND).contains(held) && held <= last, "{said:?}");
}

#[test]
fn a_host_that_does_not_listen_refuses() {
    let error = alone(|| {
        let mut world = World::new(3);
        let (sender, error) = channel();
        start(&mut world, SECOND, async move {
            sender.send(Socket::connect("h1").unwrap().await.unwrap_err().kind()).unwrap();
        });
        run(&mut world, SECOND, |_, _| ());
        error.try_recv().unwrap()
    });
    assert_eq!(error, std::io::ErrorKind::ConnectionRefused);
}

#[test]
fn a_preemption_takes_time_between_two_reads_of_a_clock() {
    let longest = alone(|| {
        let mut world = World::new(4);
        let (sender, taken) = channel();
        let preemption = Preemption { often: 1_000, longest: SECOND };
        world.spawn(CLIENT, clocks(SECOND), preemption, |_| async move {
            for _ in 0..10_000 {
                let began = Instant::now();
                sender.send(began.elapsed()).unwrap();
            }
        });
        run(&mut world, SECOND, |_, _| ());
        taken.try_iter().max().unwrap()
    });
    assert_eq!(longest, Duration::from_secs(1));
}
