//! Signals to this process.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt;
use futures::stream::{self, BoxStream, StreamExt};
use nix::sys::signal::{self, SigSet};
use nix::unistd::{Pid, getpgid, getpgrp, getsid};
use rustix::process::{Signal, getpid, kill_current_process_group, kill_process};
use signal_hook::flag;
use tokio::signal::unix::{self, SignalKind};

pub(crate) const CONT: i32 = Signal::CONT.as_raw();
pub(crate) const STOP: i32 = Signal::STOP.as_raw();
pub(crate) const TSTP: i32 = Signal::TSTP.as_raw();
pub(crate) const TTIN: i32 = Signal::TTIN.as_raw();
pub(crate) const TTOU: i32 = Signal::TTOU.as_raw();

/// Those that ask a program to end.
const FATAL: [SignalKind; 4] =
    [SignalKind::hangup(), SignalKind::interrupt(), SignalKind::quit(), SignalKind::terminate()];

/// Those that mean the command, and not us.
fn passed_on() -> impl Iterator<Item = SignalKind> {
    let others = [SignalKind::user_defined1(), SignalKind::user_defined2(), SignalKind::window_change()];
    FATAL.into_iter().chain(others).chain([SignalKind::from_raw(TSTP), SignalKind::from_raw(CONT)])
}

/// Has this thread, and those it starts, hear of every signal, whatever was blocked by the one who started us; and not be
/// stopped for what it does in the background: saying something (`stty tostop`), or taking the terminal back. A command is
/// launched with nothing blocked.
pub(crate) fn unblock() -> io::Result<()> {
    Ok(SigSet::from(signal::Signal::SIGTTOU).thread_set_mask()?)
}

/// The signals that arrive from now on, by number, instead of what they would do to this process.
///
/// Those that are ignored already, as `nohup` and the background jobs of scripts have it, are left alone, and so are
/// ignored by what this process starts, too. But for SIGCONT, which nobody can ignore: it continues us, and then we have to
/// continue the command.
pub(crate) struct Signals {
    arriving: BoxStream<'static, i32>,
    /// Those that have arrived. Not both SIGTSTP and SIGCONT: nobody tells which was first, and only the former is sent again.
    arrived: VecDeque<i32>,
    /// Whether SIGCONT has arrived since the last one was heeded. Its handler says so: the runtime learns of it later.
    continued: Arc<AtomicBool>,
}

impl Signals {
    pub(crate) fn listen() -> io::Result<Self> {
        let ignored = ignored();
        let heard = passed_on().map(|kind| kind.as_raw_value());
        let streams = heard.filter(|number| *number == CONT || !ignored(*number)).map(|number| {
            let arriving = unix::signal(SignalKind::from_raw(number))?;
            Ok(stream::unfold(arriving, move |mut arriving| async move {
                arriving.recv().await.map(|()| (number, arriving))
            })
            .boxed())
        });
        let arriving = stream::select_all(streams.collect::<io::Result<Vec<_>>>()?).boxed();
        let continued = Arc::new(AtomicBool::new(false));
        flag::register(CONT, continued.clone())?;
        Ok(Self { arriving, arrived: VecDeque::new(), continued })
    }

    /// The next one. Cancel-safe.
    pub(crate) async fn next(&mut self) -> i32 {
        loop {
            self.collect();
            if let Some(signal) = self.arrived.pop_front() {
                if signal == CONT {
                    self.continued.store(false, Ordering::SeqCst);
                }
                return signal;
            }
            match self.arriving.next().await {
                Some(signal) => self.arrived.push_back(signal),
                None => std::future::pending().await,
            }
        }
    }

    /// Whether SIGCONT has arrived, and comes next or soon.
    pub(crate) fn is_continued(&self) -> bool {
        self.continued.load(Ordering::SeqCst)
    }

    /// Stops this process until somebody continues it, unless somebody has since the last signal was heeded, and would not
    /// do so again.
    pub(crate) fn stop(&self) {
        // It is blocked, and while it is pending, a SIGCONT takes it back.
        let _pending = kill_process(getpid(), Signal::TTOU);
        if self.is_continued() {
            let _taken_back = kill_process(getpid(), Signal::CONT);
        }
        let _stopped = SigSet::empty().thread_set_mask();
        let _as_before = unblock();
    }

    fn collect(&mut self) {
        while let Some(Some(signal)) = self.arriving.next().now_or_never() {
            self.arrived.push_back(signal);
        }
        if self.arrived.contains(&CONT) {
            self.arrived.retain(|signal| *signal != TSTP);
        }
    }

    /// The next one that asks to end; while there is no command that they could be meant for. Cancel-safe.
    pub(crate) async fn next_fatal(&mut self) -> i32 {
        loop {
            match self.next().await {
                signal if is_fatal(signal) => return signal,
                TSTP if !is_orphaned() => self.stop(),
                _ => {}
            }
        }
    }
}

/// Whether this signal asks a program to end.
pub(crate) fn is_fatal(signal: i32) -> bool {
    FATAL.iter().any(|fatal| fatal.as_raw_value() == signal)
}

/// Stops this process and its group, the script that runs it and what it is piped to, until somebody continues them.
pub(crate) fn stop_this_group() {
    let _stopped = kill_current_process_group(Signal::STOP);
}

/// Whether no parent of this process's group has job control over it: then nobody would have it go on.
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
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()?;
    (parent != 0).then_some(Pid::from_raw(parent))
}

/// Which signals this process was started to ignore.
fn ignored() -> impl Fn(i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or_default();
    move |signal| signal > 0 && mask >> (signal - 1) & 1 == 1
}
