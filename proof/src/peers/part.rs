//! A lock in Rust as a program that obeys lines, as `tests/peers` has them in other languages: see `Peer.java`.
//! A call that fails answers `failed`, and why.

use std::fmt::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use futures::future::try_join_all;
use tokio::sync::mpsc::unbounded_channel;

use super::contestant::Contestant;
use super::contract::{Lock, Place};
use super::postgres::Postgres;
use super::zklock::Zklock;
use super::zookeeper_client::ZookeeperClient;
use crate::harness::listen;

/// So many tasks share a session, where that makes a difference.
const TASKS: usize = 8;

pub(crate) async fn play(place: &Place) -> anyhow::Result<()> {
    match place.contestant {
        Contestant::Zklock | Contestant::Several | Contestant::Keys | Contestant::Permits => {
            obey::<Zklock>(place).await
        }
        Contestant::ZookeeperClient | Contestant::Raw => obey::<ZookeeperClient>(place).await,
        Contestant::Postgres => obey::<Postgres>(place).await,
        Contestant::Curator
        | Contestant::Kazoo
        | Contestant::Go
        | Contestant::Etcd
        | Contestant::CuratorPermits => {
            bail!("{} has a program of its own", place.contestant.name())
        }
    }
}

async fn obey<L: Lock>(place: &Place) -> anyhow::Result<()> {
    let (heard, mut orders) = unbounded_channel();
    // If no orders are taken any more, the process is about to end.
    listen(move |line| drop(heard.send(line)))?;
    let mut clients: Vec<L> = vec![open(place, &[]).await?];
    let mut tells = false;
    println!("session");
    while let Some(line) = orders.recv().await {
        let first = clients.first_mut().context("no client")?;
        match *line.split(' ').collect::<Vec<_>>() {
            ["acquire"] => {
                println!("waiting");
                answer("acquired", first.acquire().await);
                if tells {
                    let told = first.told();
                    tokio::spawn(async move { println!("told {}", told.await) });
                }
            }
            ["release"] => answer("released", first.release().await),
            ["tell"] => {
                tells = true;
                println!("telling");
            }
            ["laps", count, milliseconds] => {
                let count = count.parse()?;
                let time = Duration::from_millis(milliseconds.parse()?);
                while clients.len() < count {
                    clients.push(open(place, &clients).await?);
                }
                let rest = clients.split_off(count);
                let start = Instant::now();
                let runs = clients.drain(..).map(|client| tokio::spawn(run(client, start, time)));
                let mut line = "laps".to_owned();
                for ran in try_join_all(runs).await? {
                    let (client, laps) = ran?;
                    clients.push(client);
                    line += &laps;
                }
                clients.extend(rest);
                println!("{line}");
            }
            _ => bail!("what is {line:?}"),
        }
    }
    Ok(())
}

/// Connects the next client, to the next of the servers.
async fn open<L: Lock>(place: &Place, before: &[L]) -> anyhow::Result<L> {
    if !before.len().is_multiple_of(TASKS)
        && let Some(another) = before.last().and_then(L::another)
    {
        return Ok(another);
    }
    let servers: Vec<_> = place.servers.split(',').collect();
    L::connect(place, servers.get(before.len() % servers.len()).context("no server")?).await
}

fn answer(done: &str, outcome: anyhow::Result<()>) {
    match outcome {
        Ok(()) => println!("{done}"),
        Err(error) => println!("failed {error:#}"),
    }
}

async fn run<L: Lock>(mut client: L, start: Instant, time: Duration) -> anyhow::Result<(L, String)> {
    let mut laps = " |".to_owned();
    while start.elapsed() <= time {
        let begin = Instant::now();
        client.acquire().await?;
        client.release().await?;
        write!(laps, " {}/{}", start.elapsed().as_micros(), begin.elapsed().as_micros())?;
    }
    Ok((client, laps))
}
