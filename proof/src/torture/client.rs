//! A client process: contenders for each member, in a session each, which say what they see on standard output.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use tokio::sync::oneshot;
use zklock::Session;
use zklock::session::SessionBuilder;
use zklock_contest::clock::Instant;
use zklock_contest::contender::{Orderer, Process, World};
use zklock_contest::member::Member;
use zklock_contest::members::TICK;
use zklock_contest::record::Record;
use zklock_contest::register::{Answer, Call};

use super::part::{Part, SESSION_TIMEOUT, Said, Told};
use super::{program, slew};
use crate::harness::{listen, now, say};

/// How long there may be no server.
const PATIENCE: Duration = Duration::from_secs(120);

/// The world of real processes.
#[derive(Clone)]
struct Real {
    servers: String,
    asked: Asked,
}

/// Who waits for the answers of the registers, in the order of their calls.
#[derive(Clone, Default)]
struct Asked(Arc<Mutex<VecDeque<oneshot::Sender<Answer>>>>);

impl Asked {
    fn waiting(&self) -> MutexGuard<'_, VecDeque<oneshot::Sender<Answer>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Contends until it is told to finish, then waits to be told to end.
pub(crate) async fn run(part: Part) -> anyhow::Result<()> {
    let orderer = Orderer::default();
    let mut orders = orderer.orders();
    let world = Real { servers: part.servers.clone(), asked: Asked::default() };
    let asked = world.asked.clone();
    listen(move |line| match serde_json::from_str(&line) {
        Ok(Told::Order(order)) => orderer.give(order),
        Ok(Told::Answer(answer)) => {
            let caller = asked.waiting().pop_front();
            // It may have dropped its call.
            let _ = caller.map(|caller| caller.send(answer));
        }
        Err(error) => eprintln!("no order: {line}: {error}"),
    })?;
    slew::confirm(part.number).await?;
    if part.setup.members == [Member::Program] {
        program::contend(&part, orders.clone()).await?;
        orders.end().await;
        return Ok(());
    }
    let members = part.setup.members.iter();
    let begun = members.map(|member| Process::begin(world.clone(), part.of(*member), orders.clone()));
    let mut all = join_all(begun).await;
    join_all(all.iter_mut().map(Process::finish)).await;
    join_all(all.into_iter().map(Process::end)).await;
    Ok(())
}

/// Writes a line for the coordinator. If the coordinator has ended, this process ends, too.
fn tell(said: &Said) {
    if say(said).is_err() {
        std::process::exit(3);
    }
}

impl World for Real {
    fn now(&self) -> Instant {
        now()
    }

    fn say(&self, record: Record) {
        tell(&Said::Record(record));
    }

    async fn call(&self, member: Member, lock: usize, call: Call) -> Answer {
        let (caller, answer) = oneshot::channel();
        {
            let mut waiting = self.asked.waiting();
            waiting.push_back(caller);
            tell(&Said::Call(member, lock, call));
        }
        answer.await.expect("callers wait for as long as the process lives")
    }

    fn session(&self) -> SessionBuilder {
        let builder = Session::builder(&self.servers).session_timeout(SESSION_TIMEOUT);
        builder.tick(TICK).connect_timeout(PATIENCE)
    }
}
