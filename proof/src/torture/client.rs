//! A client process: contenders for each member, in a session each, which say what they see on standard output.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio::sync::{mpsc, oneshot};
use zklock::Session;
use zklock::session::SessionBuilder;
use zklock_contest::clock::Instant;
use zklock_contest::contender::{Orderer, Process, World};
use zklock_contest::member::Member;
use zklock_contest::members::TICK;
use zklock_contest::record::Record;
use zklock_contest::register::{Answer, Call};

use super::part::{Part, SESSION_TIMEOUT};
use super::register::Desk;
use super::slew;
use crate::harness::{listen, now, say};

/// How long there may be no server.
const PATIENCE: Duration = Duration::from_secs(120);

/// A call, and who waits for the answer.
type Asked = (Call, oneshot::Sender<Answer>);

/// The world of real processes.
#[derive(Clone)]
struct Real {
    servers: String,
    registers: Arc<BTreeMap<(Member, usize), mpsc::UnboundedSender<Asked>>>,
}

/// Contends until it is told to finish, then waits to be told to end.
pub(crate) async fn run(part: Part) -> anyhow::Result<()> {
    let orderer = Orderer::default();
    let orders = orderer.orders();
    listen(move |line| match serde_json::from_str(&line) {
        Ok(order) => orderer.give(order),
        Err(error) => eprintln!("no order: {line}: {error}"),
    })?;
    slew::confirm(part.slew, part.setup.breaks_leases).await?;
    let mut registers = BTreeMap::new();
    for (member, addresses) in &part.setup.members {
        for (lock, address) in addresses.iter().enumerate() {
            let (ask, asked) = mpsc::unbounded_channel();
            tokio::spawn(pass_on(Desk::connect(address).await?, asked));
            registers.insert((*member, lock), ask);
        }
    }
    let world = Real { servers: part.servers.clone(), registers: Arc::new(registers) };
    let begun = part
        .setup
        .members
        .iter()
        .map(|(member, _)| Process::begin(world.clone(), part.of(*member), orders.clone()));
    let mut all = join_all(begun).await;
    join_all(all.iter_mut().map(Process::finish)).await;
    join_all(all.into_iter().map(Process::end)).await;
    Ok(())
}

/// Passes calls on, one after the other. Each is made, though its caller may have dropped it.
async fn pass_on(mut desk: Desk, mut asked: mpsc::UnboundedReceiver<Asked>) {
    while let Some((call, answered)) = asked.recv().await {
        let Ok(answer) = desk.ask(call).await else { deserted() };
        let _ = answered.send(answer);
    }
}

/// Nobody listens any more: the coordinator has ended.
fn deserted() -> ! {
    std::process::exit(3)
}

impl World for Real {
    fn now(&self) -> Instant {
        now()
    }

    fn say(&self, record: Record) {
        if say(&record).is_err() {
            deserted();
        }
    }

    async fn call(&self, member: Member, lock: usize, call: Call) -> Answer {
        let (answered, answer) = oneshot::channel();
        let register = self.registers.get(&(member, lock)).expect("each lock has a register");
        if register.send((call, answered)).is_err() {
            deserted();
        }
        answer.await.unwrap_or_else(|_| deserted())
    }

    fn session(&self) -> SessionBuilder {
        let builder = Session::builder(&self.servers).session_timeout(SESSION_TIMEOUT);
        builder.tick(TICK).connect_timeout(PATIENCE)
    }
}
