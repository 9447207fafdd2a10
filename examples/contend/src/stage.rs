//! The processes, what they say, and the store that they write to.

use std::fmt;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{Instant, timeout_at};
use zklock::{FenceGate, FencingToken};

use crate::Failure;
use crate::verdict::{Hold, Record};

const PROCESSES: usize = 5;

/// How long something may take that must happen. The death of a holder costs some 6 s.
const BOUND: Duration = Duration::from_secs(30);

/// What a process says: a line of words. Times are of `CLOCK_MONOTONIC`.
pub(crate) enum Said {
    Holds { token: FencingToken, from: i64 },
    Held { until: i64 },
    Reads,
    Writes { token: FencingToken, count: u64 },
    Lost { reason: String },
    Ended,
}

impl Said {
    fn parse(line: &str) -> Option<Self> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (token, number) = rest.split_once(' ').unwrap_or((rest, ""));
        Some(match word {
            "holds" => Self::Holds { token: token.parse().ok()?, from: number.parse().ok()? },
            "held" => Self::Held { until: rest.parse().ok()? },
            "reads" => Self::Reads,
            "writes" => Self::Writes { token: token.parse().ok()?, count: number.parse().ok()? },
            "lost" => Self::Lost { reason: rest.to_owned() },
            _ => return None,
        })
    }
}

pub(crate) struct Stage {
    /// p1 is at 0.
    processes: Vec<(Child, ChildStdin)>,
    heard: UnboundedReceiver<(usize, Said)>,
    gate: FenceGate,
    record: Record,
    began: Instant,
    killed: Vec<usize>,
    /// Whether the next process that reads is paused.
    pauses: bool,
    /// Whether each write is the last one of its process.
    is_enough: bool,
}

impl Stage {
    pub(crate) fn open(servers: &str) -> Result<Self, Failure> {
        let (say, heard) = unbounded_channel();
        let mut processes = Vec::new();
        for process in 1..=PROCESSES {
            let mut command = Command::new(std::env::current_exe()?);
            command.arg(servers).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
            let mut child = command.spawn()?;
            let stdin = child.stdin.take().ok_or("no pipe")?;
            let mut lines = BufReader::new(child.stdout.take().ok_or("no pipe")?).lines();
            processes.push((child, stdin));
            let say = say.clone();
            tokio::spawn(async move {
                while let Ok(Some(line)) = lines.next_line().await {
                    match Said::parse(&line) {
                        Some(said) => drop(say.send((process, said))),
                        None => eprintln!("p{process} said: {line}"),
                    }
                }
                let _ = say.send((process, Said::Ended));
            });
        }
        Ok(Self {
            processes,
            heard,
            gate: FenceGate::new(),
            record: Record::default(),
            began: Instant::now(),
            killed: Vec::new(),
            pauses: false,
            is_enough: false,
        })
    }

    /// Prints a line of the story.
    pub(crate) fn tell(&self, line: impl fmt::Display) {
        println!("{:5.1} s  {line}", self.began.elapsed().as_secs_f64());
    }

    /// Lets the processes go on for a while.
    pub(crate) async fn pass(&mut self, time: Duration) -> Result<(), Failure> {
        let end = Instant::now() + time;
        while self.step(end).await?.is_some() {}
        Ok(())
    }

    /// Lets the processes go on until one says this. Returns which one, and its token.
    pub(crate) async fn until(
        &mut self,
        is_it: impl Fn(usize, &Said) -> bool,
    ) -> Result<(usize, FencingToken), Failure> {
        let end = Instant::now() + BOUND;
        loop {
            let (process, said) = self.step(end).await?.ok_or("the story did not go on in time")?;
            if is_it(process, &said) {
                return Ok((process, self.hold(process)?.token));
            }
        }
    }

    pub(crate) async fn until_granted(&mut self) -> Result<(usize, FencingToken), Failure> {
        self.until(|_, said| matches!(said, Said::Holds { .. })).await
    }

    /// Pauses the next process that has asked for the count. It wakes with the answer.
    pub(crate) async fn pause(&mut self) -> Result<(usize, FencingToken), Failure> {
        self.pauses = true;
        self.until(|_, said| matches!(said, Said::Reads)).await
    }

    pub(crate) fn wake(&self, process: usize) -> Result<(), Failure> {
        Ok(kill_process(self.pid(process)?, Signal::CONT)?)
    }

    /// Returns once the process is dead.
    pub(crate) async fn kill(&mut self, process: usize) -> Result<(), Failure> {
        self.killed.push(process);
        Ok(self.processes[process - 1].0.kill().await?)
    }

    /// Lets each process hold the lock once more. Returns what was recorded.
    pub(crate) async fn finish(mut self) -> Result<Record, Failure> {
        self.is_enough = true;
        let end = Instant::now() + BOUND;
        let mut left: Vec<_> = (1..=PROCESSES).filter(|process| !self.killed.contains(process)).collect();
        while !left.is_empty() {
            let Some((process, said)) = self.step(end).await? else { break };
            if matches!(said, Said::Ended) && self.processes[process - 1].0.wait().await?.success() {
                left.retain(|other| *other != process);
            }
        }
        self.record.waiting = left;
        Ok(self.record)
    }

    /// Takes what is said next, unless nothing is said until then.
    async fn step(&mut self, end: Instant) -> Result<Option<(usize, Said)>, Failure> {
        let Ok(heard) = timeout_at(end, self.heard.recv()).await else { return Ok(None) };
        let (process, said) = heard.ok_or("all processes have ended")?;
        match &said {
            Said::Holds { token, from } => {
                self.record.holds.push(Hold { process, token: *token, from: *from, until: *from });
            }
            Said::Held { until } => self.hold(process)?.until = *until,
            Said::Reads => {
                if std::mem::take(&mut self.pauses) {
                    self.stop(process)?;
                }
                self.answer(process, self.record.count).await;
            }
            Said::Writes { token, count } => match self.gate.admit(*token) {
                Ok(()) => {
                    (self.record.count, self.record.accepted) = (*count, self.record.accepted + 1);
                    self.answer(process, if self.is_enough { "enough" } else { "accepted" }).await;
                }
                Err(stale) => {
                    self.record.refused += 1;
                    let highest = stale.highest;
                    self.tell(format_args!(
                        "p{process} writes {count}, token {token}: REFUSED, the store has seen {highest}"
                    ));
                    self.answer(process, "refused").await;
                }
            },
            Said::Lost { reason } => self.tell(format_args!("p{process}'s guard is lost: {reason}")),
            Said::Ended => {}
        }
        Ok(Some((process, said)))
    }

    async fn answer(&mut self, process: usize, answer: impl fmt::Display) {
        // It may be dead by now, and then needs no answer.
        let _ = self.processes[process - 1].1.write_all(format!("{answer}\n").as_bytes()).await;
    }

    /// Pauses a process. Returns once it is paused.
    fn stop(&self, process: usize) -> Result<(), Failure> {
        let pid = self.pid(process)?;
        kill_process(pid, Signal::STOP)?;
        // It is left to be waited for, should it have ended.
        waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
        Ok(())
    }

    fn pid(&self, process: usize) -> Result<Pid, Failure> {
        let id = self.processes[process - 1].0.id().ok_or("a process ended by itself")?;
        Ok(Pid::from_raw(id.cast_signed()).ok_or("no process id")?)
    }

    /// The last hold of a process.
    fn hold(&mut self, process: usize) -> Result<&mut Hold, Failure> {
        let hold = self.record.holds.iter_mut().rfind(|hold| hold.process == process);
        Ok(hold.ok_or("a process speaks that never held the lock")?)
    }
}
