//! A lock in Rust as a program that obeys lines, as `tests/peers` has them in other languages: see `Peer.java`.
//!
//! It knows some lines more. `check` and `inquire` answer `held`, `lost` or `silent`: by what the lock tells its holder, and by what
//! the servers tell who asks them. `write` answers `writes TOKEN`, for a store that compares tokens. `commit NODE` writes the token to a
//! node by a transaction under the lock. A call that fails answers `failed`, and why.

use std::fmt::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use futures::future::try_join_all;
use tokio::sync::mpsc::unbounded_channel;

use super::contestant::Contestant;
use super::contract::{Lock, Place};
use super::postgres::Postgres;
use super::program::TIMEOUT_VARIABLE;
use super::raw::Raw;
use super::redis::{Redisson, SetNxPx, SetnxExpire, SetnxGetset, Spring};
use super::zklock::Zklock;
use super::zookeeper_client::ZookeeperClient;
use crate::harness::listen;

/// So many tasks share a session, where that makes a difference.
const TASKS: usize = 8;

#[derive(Debug, Args)]
pub(crate) struct Part {
    servers: String,
    path: String,
    contestant: Contestant,
}

pub(crate) async fn play(part: &Part) -> anyhow::Result<()> {
    match part.contestant {
        Contestant::Zklock | Contestant::Several | Contestant::Keys | Contestant::Permits => {
            obey::<Zklock>(part).await
        }
        Contestant::ZookeeperClient => obey::<ZookeeperClient>(part).await,
        Contestant::Redisson => obey::<Redisson>(part).await,
        Contestant::SetNxPx => obey::<SetNxPx>(part).await,
        Contestant::SetnxExpire => obey::<SetnxExpire>(part).await,
        Contestant::SetnxGetset => obey::<SetnxGetset>(part).await,
        Contestant::Spring => obey::<Spring>(part).await,
        Contestant::Postgres => obey::<Postgres>(part).await,
        Contestant::Raw => obey::<Raw>(part).await,
        Contestant::Curator
        | Contestant::Kazoo
        | Contestant::Go
        | Contestant::Etcd
        | Contestant::CuratorPermits => {
            bail!("{} has a program of its own", part.contestant.name())
        }
    }
}

async fn obey<L: Lock>(part: &Part) -> anyhow::Result<()> {
    let (heard, mut orders) = unbounded_channel();
    // If no orders are taken any more, the process is about to end.
    listen(move |line| drop(heard.send(line)))?;
    let mut clients: Vec<L> = vec![open(part, &[]).await?];
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
            ["check"] => println!("{}", word(first.check())),
            ["inquire"] => println!("{}", word(first.inquire().await)),
            ["write"] => {
                println!("writes {}", first.token().map_or_else(String::new, |token| token.to_string()));
            }
            ["commit", node] => answer("committed", first.commit(node).await),
            ["laps", count, milliseconds] => {
                let (count, time) = (count.parse()?, Duration::from_millis(milliseconds.parse()?));
                while clients.len() < count {
                    clients.push(open(part, &clients).await?);
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
async fn open<L: Lock>(part: &Part, before: &[L]) -> anyhow::Result<L> {
    if !before.len().is_multiple_of(TASKS)
        && let Some(another) = before.last().and_then(L::another)
    {
        return Ok(another);
    }
    let servers: Vec<_> = part.servers.split(',').collect();
    let server = servers.get(before.len() % servers.len()).context("no server")?;
    let timeout = std::env::var(TIMEOUT_VARIABLE)?.parse()?;
    let place = Place {
        contestant: part.contestant,
        server: (*server).to_owned(),
        path: part.path.clone(),
        timeout: Duration::from_millis(timeout),
    };
    L::connect(&place).await
}

fn answer(done: &str, outcome: anyhow::Result<()>) {
    match outcome {
        Ok(()) => println!("{done}"),
        Err(error) => println!("failed {error:#}"),
    }
}

fn word(held: Option<bool>) -> &'static str {
    match held {
        Some(true) => "held",
        Some(false) => "lost",
        None => "silent",
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
