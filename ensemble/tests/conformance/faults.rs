//! Faults between three servers: the same story on real servers and on simulated ones.

use std::{collections::VecDeque, time::Duration};

use tokio::runtime::Runtime;
use zklock_ensemble::{Config, ServerId};
use zklock_testcontainers::Ensemble;

use crate::frame::{Fields, Frame};
use crate::net::{Net, id_of};
use crate::step::world;
use crate::world::{Real, World};
use crate::{SHORTEST, configuration};

const TICK: Duration = Duration::from_millis(500);
/// No session expires in the story.
const LONG: Duration = Duration::from_secs(60);

trait Suffers {
    type World: World;
    fn world(&mut self) -> &mut Self::World;
    /// Holds back what a server sends to another one.
    fn stall(&mut self, from: usize, to: usize);
    fn flow(&mut self, from: usize, to: usize);
    fn kill(&mut self, server: usize);
    fn restart(&mut self, server: usize);
    /// Waits until these servers have elected. Returns their leader and its epoch.
    fn elect(&mut self, among: &[usize]) -> (usize, u32);
    /// Whether a connection has nothing to read.
    fn is_quiet(&mut self, connection: u64) -> bool;
}

struct RealOnes<'a> {
    real: Real,
    ensemble: &'a Ensemble,
    runtime: &'a Runtime,
}

impl Suffers for RealOnes<'_> {
    type World = Real;

    fn world(&mut self) -> &mut Real {
        &mut self.real
    }

    fn stall(&mut self, from: usize, to: usize) {
        self.runtime.block_on(self.ensemble.stall(from, to)).expect("servers");
    }

    fn flow(&mut self, from: usize, to: usize) {
        self.runtime.block_on(self.ensemble.flow(from, to)).expect("servers");
    }

    fn kill(&mut self, server: usize) {
        self.runtime.block_on(self.ensemble.kill(server)).expect("a server dies");
    }

    fn restart(&mut self, server: usize) {
        self.runtime.block_on(self.ensemble.restart(server)).expect("a server starts");
    }

    fn elect(&mut self, _among: &[usize]) -> (usize, u32) {
        let leader = self.runtime.block_on(self.ensemble.leader()).expect("a leader");
        self.runtime.block_on(self.ensemble.wait_until_serving()).expect("servers serve");
        (leader, (self.real.zxid(leader) >> 32) as u32)
    }

    fn is_quiet(&mut self, connection: u64) -> bool {
        self.real.is_quiet(connection, Duration::from_millis(150))
    }
}

struct SimulatedOnes {
    simulated: Net,
    /// What real servers have elected.
    elections: VecDeque<(usize, u32)>,
}

impl Suffers for SimulatedOnes {
    type World = Net;

    fn world(&mut self) -> &mut Net {
        &mut self.simulated
    }

    fn stall(&mut self, from: usize, to: usize) {
        self.simulated.held.insert((id_of(from).0, id_of(to).0));
    }

    fn flow(&mut self, from: usize, to: usize) {
        self.simulated.held.remove(&(id_of(from).0, id_of(to).0));
        self.simulated.settle();
    }

    fn kill(&mut self, server: usize) {
        self.simulated.crash(id_of(server).0);
    }

    fn restart(&mut self, _server: usize) {}

    fn elect(&mut self, among: &[usize]) -> (usize, u32) {
        let (leader, epoch) = self.elections.pop_front().expect("an election of real servers");
        self.simulated.appoint(leader, epoch, among);
        (leader, epoch)
    }

    fn is_quiet(&mut self, connection: u64) -> bool {
        !self.simulated.has_something(connection)
    }
}

/// What clients hear in a story, and who was elected.
#[derive(Debug, Default, PartialEq)]
struct Told {
    heard: Vec<String>,
    elections: VecDeque<(usize, u32)>,
}

struct Teller<S> {
    servers: S,
    told: Told,
}

impl<S: Suffers> Teller<S> {
    fn elect(&mut self, among: &[usize]) -> usize {
        let election = self.servers.elect(among);
        self.told.elections.push_back(election);
        election.0
    }

    fn connect(&mut self, server: usize) -> u64 {
        let client = self.servers.world().open(server);
        let request = Frame::default().int(0).long(0).int(60_000).long(0).string("").bool(false);
        self.servers.world().send(client, &request.finish());
        assert!(self.servers.world().receive(client).is_some(), "a session");
        client
    }

    fn ask(&mut self, client: u64, xid: i32, code: i32, body: Frame) {
        self.servers.world().send(client, &Frame::default().int(xid).int(code).with(body).finish());
    }

    fn create(&mut self, client: u64, xid: i32, path: &str) {
        self.ask(client, xid, 1, Frame::default().string(path).string("").with(world(31)).int(0));
    }

    fn exists(&mut self, client: u64, xid: i32, path: &str) {
        self.ask(client, xid, 3, Frame::default().string(path).bool(false));
    }

    fn sync(&mut self, client: u64, xid: i32) {
        self.ask(client, xid, 9, Frame::default().string("/"));
    }

    /// The client gets its next replies.
    fn hear(&mut self, what: &str, client: u64, replies: usize) {
        for _ in 0..replies {
            let reply = self.servers.world().receive(client).map(|frame| {
                let mut fields = Fields::new(&frame, 0);
                (fields.int(), fields.long(), fields.int())
            });
            self.told.heard.push(format!("{what}: {reply:x?}"));
        }
        let quiet = self.servers.is_quiet(client);
        self.told.heard.push(format!("{what}, and then nothing: {quiet}"));
    }
}

fn story(servers: impl Suffers) -> Told {
    let mut tell = Teller { servers, told: Told::default() };
    let leader = tell.elect(&[0, 1, 2]);
    let (near, far) = ((leader + 1) % 3, (leader + 2) % 3);
    let (writer, reader, other) = (tell.connect(near), tell.connect(far), tell.connect(far));
    tell.create(writer, 1, "/a");
    tell.hear("a create", writer, 1);
    tell.sync(reader, 1);
    tell.hear("a sync", reader, 1);

    tell.servers.stall(leader, far);
    tell.create(writer, 2, "/b");
    tell.hear("a create that one follower does not get", writer, 1);
    tell.exists(reader, 2, "/b");
    tell.hear("a read of the past", reader, 1);
    tell.sync(reader, 3);
    tell.exists(reader, 4, "/b");
    tell.ask(reader, -2, 11, Frame::default());
    tell.hear("a sync, a read and a ping behind it", reader, 0);
    tell.ask(other, -2, 11, Frame::default());
    tell.hear("another session's ping", other, 1);
    tell.create(other, 1, "/c");
    tell.exists(other, 2, "/c");
    tell.hear("a create by the follower that lags", other, 0);
    tell.servers.flow(leader, far);
    tell.hear("all of it", reader, 3);
    tell.hear("and that", other, 2);

    // The leader proposes what only one follower logs, and crashes.
    let at_leader = tell.connect(leader);
    tell.servers.stall(leader, far);
    tell.servers.stall(near, leader);
    tell.create(at_leader, 1, "/tail");
    tell.hear("a create that nobody acknowledges", at_leader, 0);
    tell.servers.kill(leader);
    tell.hear("the leader is gone", at_leader, 1);
    let left = if near < far { [near, far] } else { [far, near] };
    let second = tell.elect(&left);
    tell.servers.flow(leader, far);
    tell.servers.flow(near, leader);
    tell.servers.restart(leader);
    tell.elect(&[0, 1, 2]);
    for server in 0..3 {
        let client = tell.connect(server);
        tell.exists(client, 1, "/tail");
        tell.hear("a tail that the next leader had", client, 1);
    }

    // The next leader proposes what no follower gets, and crashes.
    let others: Vec<_> = (0..3).filter(|server| *server != second).collect();
    let at_leader = tell.connect(second);
    others.iter().for_each(|other| tell.servers.stall(second, *other));
    tell.create(at_leader, 1, "/lost");
    tell.hear("a create that nobody gets", at_leader, 0);
    tell.servers.kill(second);
    let third = tell.elect(&others);
    let client = tell.connect(third);
    tell.create(client, 1, "/found");
    tell.hear("a create of the next epoch", client, 1);
    others.iter().for_each(|other| tell.servers.flow(second, *other));
    tell.servers.restart(second);
    tell.elect(&[0, 1, 2]);
    for server in 0..3 {
        let client = tell.connect(server);
        tell.exists(client, 1, "/lost");
        tell.exists(client, 2, "/found");
        tell.hear("a tail that nobody had", client, 2);
    }
    tell.told
}

#[test]
fn faults_between_three_servers_show_clients_what_real_ones_show() {
    let runtime = Runtime::new().expect("a runtime");
    let ensemble =
        Ensemble::builder(3).tick_time(TICK).max_session_timeout(LONG).min_session_timeout(SHORTEST);
    let ensemble = runtime.block_on(ensemble.start()).expect("an ensemble");
    let real = Real::new((0..3).map(|server| ensemble.address(server)).collect());
    let config = configuration(&real);
    let right = story(RealOnes { real, ensemble: &ensemble, runtime: &runtime });
    let configs = (1..=3).map(|id| Config {
        id: ServerId(id),
        voters: 3,
        tick: TICK,
        max_session_timeout: LONG,
        ..config.clone()
    });
    let simulated = Net::of(configs);
    let ours = story(SimulatedOnes { simulated, elections: right.elections.clone() });
    assert_eq!(right, ours);
}
