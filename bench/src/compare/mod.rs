//! zklock beside every peer: how fast a lock is handed over, how soon after a crash, and who is told first when a server is cut off.
//!
//! Each peer's clients are in one program, in the peer's own language. Speeds are measured one peer after the other, in turns. A
//! crash or a cut happens to all of them at the same time, because they only wait for it.

mod etcd;
mod faults;
mod reach;
mod report;
mod service;
mod speed;

use anyhow::Context;

use crate::args::Compare;
use crate::contestant::{Contestant, Service};
use faults::{Crash, Cut};
use report::Row;
use service::Servers;
use speed::Runner;

pub(crate) async fn run(compare: &Compare) -> anyhow::Result<()> {
    let contestants = compare.contestants();
    let mut servers = Vec::new();
    for service in [Service::ZooKeeper, Service::Etcd, Service::Redis, Service::Postgres] {
        if contestants.iter().any(|contestant| contestant.service() == service) {
            let started = Servers::start(service).await;
            servers.push(started.with_context(|| format!("cannot start the servers of {service:?}"))?);
        }
    }
    let of = |contestant: Contestant| {
        let servers = servers.iter().find(|servers| servers.service == contestant.service());
        servers.context("no servers")
    };
    let pairs = contestants.iter().map(|contestant| Ok((*contestant, of(*contestant)?)));
    let pairs: Vec<_> = pairs.collect::<anyhow::Result<_>>()?;
    let mut rows: Vec<_> = contestants.iter().map(|contestant| Row::new(*contestant)).collect();

    for repetition in 0..compare.repetitions {
        eprintln!("repetition {}: holders are killed, or vanish", repetition + 1);
        let (killed, vanished) = tokio::try_join!(
            faults::crash(Crash::Killed, &pairs, repetition),
            faults::crash(Crash::Vanished, &pairs, repetition)
        )?;
        for ((row, killed), vanished) in rows.iter_mut().zip(killed).zip(vanished) {
            row.killed.push(killed);
            row.vanished.push(vanished);
        }
        eprintln!("repetition {}: a server is cut off", repetition + 1);
        let cuts = servers.iter().map(async |servers| {
            let of_it =
                contestants.iter().copied().filter(|contestant| contestant.service() == servers.service);
            let of_it: Vec<_> = of_it.collect();
            let cuts = faults::cut(servers, &of_it, repetition).await?;
            anyhow::Ok(of_it.into_iter().zip(cuts).collect::<Vec<(Contestant, Cut)>>())
        });
        for (contestant, cut) in futures::future::try_join_all(cuts).await?.into_iter().flatten() {
            if let Some(row) = rows.iter_mut().find(|row| row.contestant == contestant) {
                row.cuts.push(cut);
            }
        }
    }

    if let Some(turn) = compare.turn() {
        let mut runners = Vec::new();
        for (contestant, servers) in &pairs {
            runners.push(Runner::start(*contestant, servers).await?);
        }
        speed::measure(&mut runners, &compare.clients, turn).await?;
        for (row, runner) in rows.iter_mut().zip(runners) {
            row.cells = runner.cells;
        }
    }
    report::print(&rows, &compare.clients);
    Ok(())
}
