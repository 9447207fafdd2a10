//! The warden's process: it starts the command, and takes the steps of the ladder.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

use super::descendants::{Descendants, INSISTENCE, STUCK};
use super::family::{Family, News};
use super::ladder::{Ladder, Step};
use super::launcher::launcher_of;
use super::protocol::{Order, Report, Wire, receive_file};
use crate::clock;
use crate::console::Console;
use crate::exit::Code;
use crate::signals::{self, Signals};

/// The longest time between two looks at the clock.
const LOOK: Duration = Duration::from_millis(50);

/// Keeps this command for the holder, which is at the other end of standard input. Returns when every process is gone.
pub(super) fn keep_command(command: Vec<OsString>) -> ExitCode {
    // One thread, because the kernel kills the command when the thread that started it ends.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.and_then(|runtime| runtime.block_on(supervise(&command))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            Console::Normal.error(format_args!("zklock cannot supervise the command: {error}"));
            Code::Internal.into()
        }
    }
}

async fn supervise(command: &[OsString]) -> io::Result<()> {
    // Signals to this process have no effect. They are meant for the command, and the holder passes them on.
    let mut signals = Signals::listen()?;
    let mut changed = signal(SignalKind::child())?;
    let descendants = Descendants::adopt_orphans()?;
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let input = receive_file(&socket)?;
    let mut holder = Wire::<Order>::new(socket)?;
    let Some(Order::Begin { foreground, grace, end }) = holder.receive().await else { return Ok(()) };

    let mut ladder = Ladder::new(end);
    if ladder.due_step(clock::now()).is_some() {
        return Ok(());
    }
    let command = launcher_of(command, foreground).stdin(input).spawn()?;
    let Some(head) = i32::try_from(command.id()).ok().and_then(Pid::from_raw) else { return Ok(()) };
    holder.send(&Report::Started { group: head.as_raw_pid() });

    let mut warden = Warden { family: Family::of(head, descendants), ladder, stuck: None };
    let mut has_holder = true;
    loop {
        let order = tokio::select! {
            _ = changed.recv() => None,
            _ = signals.next_signal() => None,
            () = sleep(warden.pause()) => None,
            order = holder.receive(), if has_holder => {
                has_holder = order.is_some();
                order
            }
        };
        // Events of the command come before the order, so that an end before the order counts as its own.
        while let Some(news) = warden.family.next_news() {
            match news {
                News::Stopped(signal) => holder.send(&Report::Stopped { signal }),
                News::Continued => holder.send(&Report::Continued),
                News::Ended(status) => {
                    let by_itself = warden.ladder.is_running();
                    holder.send(&Report::Ended { status, at: clock::now(), by_itself });
                    warden.ladder.end_leftovers(grace, clock::now());
                }
                News::Gone => {
                    holder.send_rest().await;
                    return Ok(());
                }
            }
        }
        let now = clock::now();
        let step = match order {
            _ if !has_holder => warden.ladder.kill_command(),
            Some(order) => warden.obey_order(order, now),
            None => None,
        };
        // Look at the clock after every event: a command whose children end all the time would starve a timer.
        let step = step.or_else(|| warden.look_at_the_clock(now));
        warden.take_step(step);
        if order == Some(Order::Signal(signals::CONT)) {
            holder.send(&Report::Delivered);
        }
        if warden.is_stuck(now) {
            holder.send(&Report::Stuck);
        }
    }
}

struct Warden {
    family: Family,
    ladder: Ladder,
    /// When to report that SIGKILL does not help. The end of time, once that is reported.
    stuck: Option<Duration>,
}

impl Warden {
    fn obey_order(&mut self, order: Order, now: Duration) -> Option<Step> {
        match order {
            Order::Begin { .. } => None,
            Order::Extend { end } => {
                self.ladder.extend_lease(end);
                None
            }
            Order::Stop { grace, end } => self.ladder.stop_command(grace, end, now),
            Order::Signal(signal) => {
                if let Some(signal) = Signal::from_named_raw(signal) {
                    self.family.signal_group(signal);
                }
                None
            }
        }
    }

    /// How long until the next look at the clock. It is short, because a timer stops while the machine is suspended.
    fn pause(&self) -> Duration {
        if self.ladder.is_killing() {
            return INSISTENCE;
        }
        let next = self.ladder.next_step_at().map(|wake| wake.saturating_sub(clock::now()));
        next.map_or(LOOK, |next| next.min(LOOK))
    }

    fn look_at_the_clock(&mut self, now: Duration) -> Option<Step> {
        let insist = self.ladder.is_killing().then_some(Step::Kill);
        self.ladder.due_step(now).or(insist)
    }

    /// Whether it is time to report that a process is left after SIGKILL. True once at most.
    fn is_stuck(&mut self, now: Duration) -> bool {
        if !self.ladder.is_killing() {
            return false;
        }
        let stuck = *self.stuck.get_or_insert(now + STUCK);
        if stuck <= now {
            self.stuck = Some(Duration::MAX);
        }
        stuck <= now
    }

    fn take_step(&self, step: Option<Step>) {
        match step {
            Some(Step::Terminate) => {
                self.family.signal_all(Signal::TERM);
                // A stopped process gets no SIGTERM before it continues.
                self.family.signal_all(Signal::CONT);
            }
            Some(Step::Kill) => self.family.kill_all(),
            None => {}
        }
    }
}
