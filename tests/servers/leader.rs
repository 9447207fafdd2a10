//! The example `leader`, as processes: its followers forward to the leader, and told to stop, it hands over at once.

use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use support::{Server, example, server, session, until_nothing_is_left, within};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdout, Command};
use zklock::{Election, election::Leader, inspect::Observer};

/// The session timeout that the example has by default: so long would a crashed leader be waited for.
const TIMEOUT: Duration = Duration::from_secs(10);

const PATH: &str = "/service";

/// A process of the example, and what it says.
struct Service {
    process: Child,
    said: Lines<BufReader<ChildStdout>>,
    address: String,
}

impl Service {
    async fn start(server: &Server) -> Self {
        let mut process = Command::new(example("leader"))
            .args([&server.connect_string(), PATH])
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("a process");
        let said = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut service = Self { process, said, address: String::new() };
        service.address = service.says("ready on ").await;
        service
    }

    /// Reads until a line begins like this. Returns the rest of that line.
    async fn says(&mut self, beginning: &str) -> String {
        loop {
            let line = within(beginning, self.said.next_line()).await.unwrap().expect("a line");
            if let Some(rest) = line.strip_prefix(beginning) {
                return rest.to_owned();
            }
        }
    }

    async fn asked(&self, request: &str) -> String {
        let mut stream = BufReader::new(TcpStream::connect(&self.address).await.unwrap());
        stream.write_all(format!("{request}\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        within("an answer", stream.read_line(&mut answer)).await.unwrap();
        answer.trim_end().to_owned()
    }

    fn signal(&self, signal: Signal) {
        let id = self.process.id().expect("it runs");
        let id = Pid::from_raw(id.try_into().unwrap()).unwrap();
        kill_process(id, signal).unwrap();
    }

    async fn stops(mut self) {
        self.says("stopped").await;
        assert!(within("the end", self.process.wait()).await.unwrap().success());
    }
}

async fn until_candidates(election: &Election, number: usize) {
    support::eventually("the candidates", async || election.candidates().await.unwrap().len() == number)
        .await;
}

/// Waits until the instance at this address leads.
async fn until_led_by(leaders: &mut Observer<Leader>, address: &str) -> Leader {
    loop {
        let leader = within("the leader", leaders.next()).await.unwrap().unwrap();
        if let Some(leader) = leader.filter(|leader| leader.value == address) {
            return leader;
        }
    }
}

#[tokio::test]
async fn followers_forward_to_the_leader_and_take_over_from_it() {
    let server = server().await;
    let election = session(&server).await.election(PATH).unwrap();
    let mut leaders = election.observe();
    let mut first = Service::start(&server).await;
    first.says("leading with token ").await;
    let second = Service::start(&server).await;
    until_candidates(&election, 2).await;
    let mut third = Service::start(&server).await;
    until_candidates(&election, 3).await;

    let leader = until_led_by(&mut leaders, &first.address).await;
    assert_eq!(first.asked("ready").await, "ready, as a leader");
    assert_eq!(second.asked("ready").await, "ready, as a follower");
    third.says(&format!("the leader is at {}", first.address)).await;
    let done = format!("done by the leader with token {}: hello", leader.token);
    assert_eq!(first.asked("hello").await, done);
    support::eventually("a forwarded answer", async || third.asked("hello").await == done).await;
    assert!(
        first.asked("for 1: hello").await.starts_with("error: not the leader"),
        "meant for another leader"
    );

    // Told to stop, it hands over at once.
    let began = Instant::now();
    first.signal(Signal::TERM);
    let leader = until_led_by(&mut leaders, &second.address).await;
    assert!(began.elapsed() < TIMEOUT * 7 / 10, "as if the leader had crashed: {:?}", began.elapsed());
    println!("handed over after {:?}", began.elapsed());
    first.stops().await;
    third.says(&format!("the leader is at {}", second.address)).await;
    let done = format!("done by the leader with token {}: hello", leader.token);
    // Its requests go where another observer of its says.
    support::eventually("a forwarded answer", async || third.asked("hello").await == done).await;

    // Killed, it is replaced when its session ends.
    second.signal(Signal::KILL);
    third.says("nobody leads").await;
    until_led_by(&mut leaders, &third.address).await;
    third.says("leading with token ").await;
    assert!(third.asked("hello").await.starts_with("done by the leader"));
    third.signal(Signal::INT);
    third.stops().await;
    drop(leaders);
    until_nothing_is_left(&server).await;
}
