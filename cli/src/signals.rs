//! Signals to this process.

use std::collections::VecDeque;
use std::fmt::Display;
use std::fs;
use std::io;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::stream::{self, BoxStream, StreamExt};
use nix::sys::signal::{self, SigSet};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{Pid, getpgid, getpgrp, getsid};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, getpid, kill_current_process_group, kill_process};
use tokio::io::unix::AsyncFd;
use tokio::signal::unix::{self, SignalKind};
use tokio::time::sleep;

use crate::exit;
use crate::failure::{Failure, Outcome};

pub(crate) const CONT: i32 = Signal::CONT.as_raw();
pub(crate) const STOP: i32 = Signal::STOP.as_raw();
pub(crate) const TERM: i32 = Signal::TERM.as_raw();
pub(crate) const TSTP: i32 = Signal::TSTP.as_raw();
pub(crate) const TTIN: i32 = Signal::TTIN.as_raw();
pub(crate) const TTOU: i32 = Signal::TTOU.as_raw();

/// The signals that ask a program to end.
pub(crate) const FATAL: [SignalKind; 4] =
    [SignalKind::hangup(), SignalKind::interrupt(), SignalKind::quit(), SignalKind::terminate()];

/// The other signals that mean the command and not this process. SIGTSTP and SIGCONT have rules of their own.
const PASSED_ON: [SignalKind; 3] =
    [SignalKind::user_defined1(), SignalKind::user_defined2(), SignalKind::window_change()];

/// How long a SIGTSTP is kept that has not stopped this process.
const KEPT: Duration = Duration::from_millis(100);

/// Unblocks every signal for this thread, and for the threads it starts, whatever the parent process had blocked.
///
/// Three signals stay blocked. SIGTSTP and SIGCONT are looked at while they are pending ([`Signals`]). SIGTTOU would stop
/// this process for what it does in the background: to print (`stty tostop`), or to take the terminal back. The command
/// starts with nothing blocked.
pub(crate) fn unblock_signals() -> io::Result<()> {
    use signal::Signal::{SIGCONT, SIGTSTP, SIGTTOU};
    Ok([SIGCONT, SIGTSTP, SIGTTOU].into_iter().collect::<SigSet>().thread_set_mask()?)
}

/// The signals that arrive from now on, by number. They have no other effect on this process. Call [`unblock_signals`] first.
///
/// A signal that is ignored already, as by `nohup` or in the background jobs of scripts, stays ignored, in child
/// processes as well. SIGCONT is the exception, because no process can ignore it: it continues this process, which then
/// has to continue the command.
///
/// A process that sends SIGTSTP and then SIGCONT expects this process to run. If this process stopped after the SIGCONT,
/// the other one would wait for ever. So a pending SIGTSTP is looked at and left to the kernel, which discards it when
/// SIGCONT arrives. The kernel also discards a pending SIGCONT when a stop signal arrives, so a SIGCONT could be missed.
/// Therefore this process keeps a SIGTTOU pending. Its disappearance says that a SIGCONT has arrived.
pub(crate) struct Signals {
    arriving: BoxStream<'static, i32>,
    continuing: AsyncFd<SignalFd>,
    stopping: AsyncFd<SignalFd>,
    not_continued: SignalFd,
    kept: Option<Instant>,
    /// The signals that have arrived. Of SIGTSTP and SIGCONT, only the later one is in here.
    arrived: VecDeque<i32>,
}

impl Signals {
    pub(crate) fn listen() -> io::Result<Self> {
        use signal::Signal::{SIGCONT, SIGTSTP, SIGTTOU};
        let ignored = ignored_signals();
        let passed_on = FATAL.into_iter().chain(PASSED_ON);
        let arriving = listen_to(passed_on.filter(|kind| !ignored(kind.as_raw_value())))?;
        let stops = if ignored(TSTP) { SigSet::empty() } else { SIGTSTP.into() };
        let signals = Self {
            arriving,
            continuing: watch_pending(pending_signals(SIGCONT.into())?)?,
            stopping: watch_pending(pending_signals(stops)?)?,
            not_continued: pending_signals(SIGTTOU.into())?,
            kept: None,
            arrived: VecDeque::new(),
        };
        send_to_this_process(Signal::TTOU);
        Ok(signals)
    }

    /// The next signal. Cancel-safe: no signal is lost.
    pub(crate) async fn next_signal(&mut self) -> i32 {
        loop {
            self.collect_arrived();
            if let Some(signal) = self.arrived.pop_front() {
                return signal;
            }
            let kept = self.kept.map(|since| KEPT.saturating_sub(since.elapsed()));
            // The next round looks at pending signals. A signal that arrives later makes its descriptor ready again.
            tokio::select! {
                Some(signal) = self.arriving.next() => self.arrived.push_back(signal),
                Ok(mut continuing) = self.continuing.readable() => continuing.clear_ready(),
                Ok(mut stopping) = self.stopping.readable() => stopping.clear_ready(),
                () = sleep(kept.unwrap_or_default()), if kept.is_some() => {}
                else => std::future::pending().await,
            }
        }
    }

    /// Whether a SIGCONT has arrived that `next_signal` has not returned yet.
    pub(crate) fn is_continued(&mut self) -> bool {
        self.collect_arrived();
        self.arrived.contains(&CONT)
    }

    fn collect_arrived(&mut self) {
        while let Some(Some(signal)) = self.arriving.next().now_or_never() {
            self.arrived.push_back(signal);
        }
        if !is_ready(&self.not_continued) {
            send_to_this_process(Signal::TTOU);
            self.kept = None;
            self.arrived.retain(|signal| *signal != TSTP);
            self.arrived.push_back(CONT);
        }
        match self.kept {
            None if is_ready(self.stopping.get_ref()) => {
                self.kept = Some(Instant::now());
                self.arrived.retain(|signal| *signal != CONT);
                self.arrived.push_back(TSTP);
            }
            // A second SIGTSTP makes no difference while the first one is pending.
            Some(since) if since.elapsed() >= KEPT => self.forget_stop(),
            _ => {}
        }
    }

    /// Stops this process, as SIGTSTP does, until somebody continues it. It does nothing if a SIGCONT or a signal to end
    /// has arrived since the SIGTSTP. `all` stops the whole process group: the script that runs zklock, and the other
    /// ends of its pipes.
    pub(crate) fn stop_this_process(&mut self, all: bool) {
        if self.is_continued() || self.arrived.iter().any(|signal| is_fatal(*signal)) {
            return;
        }
        let is_told = self.kept.take().is_some();
        if all {
            let _told = kill_current_process_group(Signal::TSTP);
        } else if !is_told {
            send_to_this_process(Signal::TSTP);
        }
        let tstp = SigSet::from(signal::Signal::SIGTSTP);
        if is_ready(&self.not_continued) {
            let _stopped = tstp.thread_unblock();
        } else if all || !is_told {
            // A SIGCONT arrived before this process sent the SIGTSTP.
            self.forget_stop();
        }
        if all {
            // This process runs, so the rest of the group has to. It may have got a SIGCONT before the SIGTSTP.
            let _told = kill_current_process_group(Signal::CONT);
        }
        let _as_before = tstp.thread_block();
    }

    fn forget_stop(&mut self) {
        self.kept = None;
        let _forgotten = self.stopping.get_ref().read_signal();
    }

    /// The next signal that asks to end, while no command runs that it could be meant for. Cancel-safe: no signal is lost.
    pub(crate) async fn next_fatal(&mut self) -> i32 {
        loop {
            match self.next_signal().await {
                signal if is_fatal(signal) => return signal,
                TSTP if !is_orphaned() => self.stop_this_process(false),
                _ => {}
            }
        }
    }
}

/// The signals of these kinds that arrive from now on, by number. They have no other effect on this process.
pub(crate) fn listen_to(kinds: impl IntoIterator<Item = SignalKind>) -> io::Result<BoxStream<'static, i32>> {
    let streams = kinds.into_iter().map(|kind| {
        let arriving = unix::signal(kind)?;
        Ok(stream::unfold(arriving, move |mut arriving| async move {
            arriving.recv().await.map(|()| (kind.as_raw_value(), arriving))
        })
        .boxed())
    });
    Ok(stream::select_all(streams.collect::<io::Result<Vec<_>>>()?).boxed())
}

/// The outcome of work that people watch, unless a signal ends it first.
pub(crate) async fn until_signal(work: impl Future<Output = Outcome>) -> Outcome {
    let mut signals = listen_to(FATAL).map_err(Failure::internal)?;
    tokio::select! {
        outcome = work => outcome,
        // SIGINT is no failure: people end it with Ctrl-C.
        Some(signal) = signals.next() => {
            Ok(if signal == Signal::INT.as_raw() { ExitCode::SUCCESS } else { exit::after_signal(signal) })
        }
    }
}

pub(crate) fn is_fatal(signal: i32) -> bool {
    FATAL.iter().any(|fatal| fatal.as_raw_value() == signal)
}

/// Whether this process's group is orphaned: no parent has job control over it, so nobody would continue it.
pub(crate) fn is_orphaned() -> bool {
    let (group, Ok(session)) = (getpgrp(), getsid(None)) else { return true };
    let mut member = Pid::this();
    loop {
        match parent_of(member) {
            Some(parent) if getsid(Some(parent)) != Ok(session) => return true,
            Some(parent) if getpgid(Some(parent)) != Ok(group) => return false,
            Some(parent) => member = parent,
            None => return true,
        }
    }
}

fn parent_of(process: Pid) -> Option<Pid> {
    let parent = proc_status(process, "PPid:")?.parse().ok()?;
    (parent != 0).then_some(Pid::from_raw(parent))
}

fn send_to_this_process(signal: Signal) {
    let _sent = kill_process(getpid(), signal);
}

/// A descriptor that is readable while one of these blocked signals is pending.
fn pending_signals(signals: SigSet) -> io::Result<SignalFd> {
    Ok(SignalFd::with_flags(&signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?)
}

fn watch_pending(pending: SignalFd) -> io::Result<AsyncFd<SignalFd>> {
    #[allow(deprecated, reason = "the other constructor is unsafe, and this one keeps its descriptor")]
    AsyncFd::new(pending)
}

fn is_ready(pending: &SignalFd) -> bool {
    let mut pending = [PollFd::new(pending, PollFlags::IN)];
    poll(&mut pending, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

/// The signals that this process was started to ignore.
fn ignored_signals() -> impl Fn(i32) -> bool {
    let mask = proc_status("self", "SigIgn:").and_then(|mask| u64::from_str_radix(&mask, 16).ok());
    let mask = mask.unwrap_or_default();
    move |signal| signal > 0 && mask >> (signal - 1) & 1 == 1
}

/// The value of this key in `/proc` for a process.
fn proc_status(process: impl Display, key: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix(key)).map(|value| value.trim().to_owned())
}
