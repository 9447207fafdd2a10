//! The client processes, the links between them and the servers, and what can be done to both.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, ensure};
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinHandle;
use zklock_contest::contender::Order;
use zklock_contest::member::Member;
use zklock_contest::members::rules;
use zklock_contest::record::{Record, Who};
use zklock_testcontainers::{Ensemble, Link};

use super::part::{Part, Said, Setup, Told};
use super::register::Registers;
use super::slew::{self, Brake};
use crate::harness::{Ear, Instant, Process, Voice, now, this_program, to_line};

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Heard {
    /// It said this.
    Said(Record),
    /// It was killed just after this instant, and said nothing more.
    Killed { client: u16, at: Instant },
    /// It ended though nobody told it to.
    Crashed { client: u16, at: Instant },
}

/// One client: its links, and its process while it has one.
pub(crate) struct Client {
    pub(crate) number: u16,
    pub(crate) links: Vec<Link>,
    seed: u64,
    setup: Setup,
    registers: Registers,
    heard: UnboundedSender<Heard>,
    /// Stops its `CLOCK_BOOTTIME` if its clocks are slewed.
    pub(crate) brake: Brake,
    life: Mutex<Option<Life>>,
}

/// A process that was started and not yet made to end.
struct Life {
    process: Process,
    /// Set before it is made to end.
    ending: Arc<AtomicBool>,
    /// Ends when all that it said was heard.
    listener: JoinHandle<()>,
}

impl Client {
    /// Lays the links; does not start the process yet.
    pub(crate) async fn new(
        number: u16,
        ensemble: &Ensemble,
        seed: u64,
        setup: Setup,
        registers: Registers,
        heard: UnboundedSender<Heard>,
    ) -> anyhow::Result<Self> {
        let mut links = Vec::new();
        for server in 0..ensemble.len() {
            links.push(Link::start(ensemble.address(server)).await?);
        }
        let brake = Brake::new(&setup.shim, number)?;
        let life = Mutex::default();
        Ok(Self { number, links, seed, setup, registers, heard, brake, life })
    }

    /// Its contenders for each member.
    pub(crate) fn contenders(&self) -> impl Iterator<Item = (Member, Who)> {
        let client = self.number;
        self.setup.members.iter().flat_map(move |member| {
            (1..=(rules(*member).tasks)(client)).map(move |task| (*member, Who { client, task }))
        })
    }

    /// Starts the process. `life` makes its seed differ from those of the processes before.
    pub(crate) async fn start(self: &Arc<Self>, life: u64) -> anyhow::Result<()> {
        // It makes sure that its clocks are slewed.
        self.brake.go()?;
        let servers: Vec<_> = self.links.iter().map(Link::address).collect();
        let drawn = u64::from(self.number) * 10_007 + life * 101;
        let part = Part {
            number: self.number,
            servers: servers.join(","),
            seed: self.seed.wrapping_mul(1_000_003).wrapping_add(drawn),
            setup: self.setup.clone(),
        };
        let mut program = this_program("torture-client")?;
        let slewed = slew::environment(&self.setup, self.number, &self.brake);
        program.arg(serde_json::to_string(&part)?).envs(slewed);
        let (process, voice) = Process::start(program).context("cannot start a client")?;
        let ending = Arc::<AtomicBool>::default();
        let listener = tokio::spawn(self.clone().listen(voice, process.ear.clone(), ending.clone()));
        *self.life.lock().await = Some(Life { process, ending, listener });
        Ok(())
    }

    /// Ends the process with SIGKILL, if there is one. Returns the instant before the signal.
    pub(crate) async fn kill(&self) -> anyhow::Result<Option<Instant>> {
        let Some(mut life) = self.life.lock().await.take() else { return Ok(None) };
        life.ending.store(true, Ordering::SeqCst);
        let at = now();
        life.process.kill().await?;
        life.listener.await.context("a listener failed")?;
        // Behind everything that it said, and before anything that its successor does.
        let _ = self.heard.send(Heard::Killed { client: self.number, at });
        Ok(Some(at))
    }

    /// Stops the process, if it has not been killed meanwhile.
    pub(crate) async fn stop(&self) -> anyhow::Result<()> {
        match self.life.lock().await.as_ref() {
            Some(life) => life.process.stop().await,
            None => Ok(()),
        }
    }

    /// Continues the process, if it has not been killed meanwhile.
    pub(crate) async fn resume(&self) -> anyhow::Result<()> {
        self.life.lock().await.as_ref().map_or(Ok(()), |life| life.process.resume())
    }

    /// Gives it an order, unless it is dead.
    pub(crate) async fn order(&self, order: Order) -> anyhow::Result<()> {
        match self.life.lock().await.as_mut() {
            Some(life) => life.process.ear.tell(&to_line(&Told::Order(order))?).await,
            None => Ok(()),
        }
    }

    pub(crate) async fn end(&self) -> anyhow::Result<()> {
        let Some(mut life) = self.life.lock().await.take() else { return Ok(()) };
        life.ending.store(true, Ordering::SeqCst);
        life.process.ear.tell(&to_line(&Told::Order(Order::End))?).await?;
        let status = life.process.ended().await?;
        life.listener.await.context("a listener failed")?;
        ensure!(status.success(), "client {} ended with {status}", self.number);
        Ok(())
    }

    /// The server that all its sessions are connected to, if it is one.
    pub(crate) fn server(&self) -> Option<usize> {
        let mut connected = self.links.iter().enumerate().filter(|(_, link)| link.connections() > 0);
        match (connected.next(), connected.next()) {
            (Some((server, _)), None) => Some(server),
            _ => None,
        }
    }

    /// Passes on what one process says, until it has ended, and answers its calls of registers.
    async fn listen(self: Arc<Self>, mut voice: Voice, ear: Ear, ending: Arc<AtomicBool>) {
        let client = self.number;
        loop {
            match voice.next().await {
                Ok(Some(Said::Record(record))) => drop(self.heard.send(Heard::Said(record))),
                Ok(Some(Said::Call(member, lock, call))) => {
                    let answer = Told::Answer(self.registers.take(member, lock, call));
                    // The process may be dead by now.
                    let _ = ear.tell(&to_line(&answer).expect("an answer is JSON")).await;
                }
                Ok(None) => break,
                // The last line of one that was killed may be cut short.
                Err(_) if ending.load(Ordering::SeqCst) => {}
                // From here on its words would have a gap. It ends because its output is closed.
                Err(error) => {
                    eprintln!("torture: client {client}: {error:#}");
                    break;
                }
            }
        }
        if !ending.load(Ordering::SeqCst) {
            let _ = self.heard.send(Heard::Crashed { client, at: now() });
        }
    }
}
