//! A peer in Rust as a program that obeys lines, as `tests/peers` has them of other languages: see `Peer.java`.

use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use futures::future::try_join_all;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::args::Part;
use crate::peers::{Client, connect};

pub(crate) async fn play(part: &Part) -> anyhow::Result<()> {
    let servers: Vec<_> = part.servers.split(',').collect();
    let peer = part.peer.peer().context("a program of its own")?;
    let open = async |number: usize| {
        let server = servers.get(number % servers.len()).context("no server")?;
        connect(peer, server, &part.path).await
    };
    let mut clients = vec![open(0).await?];
    let first = clients.first().context("no client")?.clone();
    let (mut release, mut tells) = (None, false);
    println!("session");
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        match *line.split(' ').collect::<Vec<_>>() {
            ["acquire"] => {
                println!("waiting");
                let held = first.acquire().await?;
                println!("acquired");
                if tells {
                    tokio::spawn(async move { println!("told {}", held.told.await) });
                }
                release = Some(held.release);
            }
            ["release"] => {
                release.take().context("it holds nothing")?.await?;
                println!("released");
            }
            ["tell"] => {
                tells = true;
                println!("telling");
            }
            ["laps", count, cycles, milliseconds] => {
                while clients.len() < count.parse()? {
                    clients.push(open(clients.len()).await?);
                }
                let (cycles, time) = (cycles.parse()?, Duration::from_millis(milliseconds.parse()?));
                let start = Instant::now();
                let runs = clients.iter().take(count.parse()?).cloned();
                let runs = runs.map(|client| tokio::spawn(run(client, start, cycles, time)));
                let laps: Vec<_> = try_join_all(runs).await?.into_iter().collect::<Result<_, _>>()?;
                println!("laps{}", laps.concat());
            }
            _ => bail!("what is {line:?}"),
        }
    }
    Ok(())
}

async fn run(client: Arc<dyn Client>, start: Instant, cycles: u32, time: Duration) -> anyhow::Result<String> {
    let mut laps = " |".to_owned();
    for _ in 0..cycles {
        let begin = Instant::now();
        if begin.duration_since(start) > time {
            break;
        }
        client.acquire().await?.release.await?;
        write!(laps, " {}/{}", start.elapsed().as_micros(), begin.elapsed().as_micros())?;
    }
    Ok(laps)
}
