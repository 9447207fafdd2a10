//! One server of three is cut off from the other two. What does its client see?
//!
//! ```sh
//! cargo run -p zklock-testcontainers --example cut_off
//! ```

use std::error::Error;
use std::fmt::Display;
use std::time::{Duration, Instant};

use zklock_testcontainers::Ensemble;
use zookeeper_client::{Acls, Client, CreateMode, SessionState, StateWatcher};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // A server that is cut off gives up after 5 ticks. The longest session is 20 ticks, and the clients below ask for that.
    let ensemble = Ensemble::builder(3).tick_time(Duration::from_millis(500)).start().await?;
    let leader = ensemble.leader().await?;
    let follower = *ensemble.followers().await?.first().ok_or("no server follows")?;
    println!("three servers run on the {} backend; server {leader} leads", ensemble.backend());

    let client = connect(&ensemble.address(follower)).await?;
    let other = connect(&ensemble.address(leader)).await?;
    let session = client.session_id();
    let mut states = client.state_watcher();
    client.create("/config", b"old", &CreateMode::Persistent.with_acls(Acls::anyone_all())).await?;

    let clock = Clock(Instant::now());
    ensemble.isolate(follower).await?;
    clock.say(format!("server {follower} is cut off from the others, not from its client"));
    other.set_data("/config", b"new", None).await?;
    clock.say("the leader's client sets /config to \"new\"");
    clock.say(format!("the follower's client reads {}", read(&client).await?));

    wait_for(&mut states, SessionState::Disconnected).await?;
    clock.say("the follower gives up, and disconnects its client");
    ensemble.heal().await?;
    clock.say("the servers reach each other again");
    wait_for(&mut states, SessionState::SyncConnected).await?;
    let kept = if client.session_id() == session { "its old session" } else { "a new session" };
    clock.say(format!("the client is connected with {kept}, and reads {}", read(&client).await?));
    Ok(())
} // The servers end, and their data is removed.

async fn connect(address: &str) -> Result<Client, zookeeper_client::Error> {
    Client::connector().with_session_timeout(Duration::from_secs(10)).connect(address).await
}

async fn read(client: &Client) -> Result<String, zookeeper_client::Error> {
    let (data, _) = client.get_data("/config").await?;
    Ok(format!("{:?}", String::from_utf8_lossy(&data)))
}

async fn wait_for(states: &mut StateWatcher, wanted: SessionState) -> Result<(), Box<dyn Error>> {
    loop {
        match states.changed().await {
            state if state == wanted => return Ok(()),
            state if state.is_terminated() => return Err(format!("the session ended: {state}").into()),
            _ => {}
        }
    }
}

struct Clock(Instant);

impl Clock {
    fn say(&self, what: impl Display) {
        println!("{:6.2} s  {what}", self.0.elapsed().as_secs_f64());
    }
}
