//! One run of the command under one guard: from the grant until every process is gone and the lock is released.

use std::fmt::Display;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::signal::unix::{self, SignalKind, signal};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};
use zklock::ask::{Ask, Asks};
use zklock::{Lost, LostReason, ReleaseError, Sequencer, once::RecordError};

use super::ask_printer::AskPrinter;
use super::context::Context;
use super::control::{Control, Stop};
use super::guard::CommandGuard;
use super::job::Job;
use super::kin::TOKENS;
use crate::args::{OnAsk, OnLost};
use crate::exit::Code;
use crate::failure::Failure;
use crate::queue::time_text;
use crate::signals::{self, Signals};
use crate::warden::RESERVE;
use crate::warden::protocol::{Order, Report};
use crate::{clock, closing, duration, systemd, text};

/// How often to look at what no event reports.
const LOOK: Duration = Duration::from_millis(50);

/// How long a command runs before zklock listens whether somebody asks for its lock: a short one need not pay for that.
const UNASKED: Duration = Duration::from_secs(1);

/// The message about a process that is still there a while after SIGKILL.
const STUCK: &str = "a process of CMD still runs after SIGKILL; it may belong to another user, or wait for a disk that does \
                     not answer; zklock waits until it ends";

/// How a command under a guard ended.
pub(super) enum CommandEnd {
    /// The command ended by itself with this status, while the lock was held.
    Own(u8),
    /// The lock was lost, or held for as long as the user allows, and the command was ended.
    Lost {
        code: Code,
        /// The signal that asked it to end as well.
        told_to_end: Option<i32>,
    },
    /// The lock was lost before the command started.
    NeverBegun {
        /// The signal that asked zklock to end meanwhile.
        told_to_end: Option<i32>,
    },
}

pub(super) struct Shift<'a> {
    context: &'a Context<'a>,
    signals: &'a mut Signals,
    guard: CommandGuard,
    kill_after: Duration,
    control: Control,
    /// The end of the lease that the warden knows.
    end: Duration,
    /// When every process should be gone, if the warden was ordered to end them.
    deadline: Option<Duration>,
    lost: Option<LostReason>,
    told_to_end: Option<i32>,
    /// Whether an ask has ended the command, or has tried to.
    asked: bool,
    ask_printer: AskPrinter,
}

impl<'a> Shift<'a> {
    pub(super) fn new(
        context: &'a Context<'_>,
        signals: &'a mut Signals,
        guard: CommandGuard,
        kill_after: Duration,
    ) -> Self {
        Self {
            context,
            signals,
            guard,
            kill_after,
            control: Control::new(),
            end: Duration::ZERO,
            deadline: None,
            lost: None,
            told_to_end: None,
            asked: false,
            ask_printer: AskPrinter::new(context.console),
        }
    }

    /// Runs the command. Returns after every process is gone and the lock is released or lost.
    pub(super) async fn run_command(mut self) -> Result<CommandEnd, Failure> {
        let context = self.context;
        let mut lost = self.guard.lost();
        let (None, Ok(variables)) = (lost.as_mut().now_or_never(), self.variables()) else {
            return Ok(CommandEnd::NeverBegun { told_to_end: None });
        };
        self.end = self.lease_end();
        let begin = Order::Begin {
            foreground: self.control.begins_in_foreground(),
            grace: self.kill_after,
            end: (!context.may_outlive_lock()).then_some(self.end),
        };
        let unkept = |error| Failure::internal(format_args!("the command cannot be started: {error}"));
        let children = signal(SignalKind::child()).map_err(unkept)?;
        let job = Job::start(context.descendants, &context.terms.command, variables, begin);
        let mut job = job.await.map_err(unkept)?;
        let status = self.attend_command(&mut job, lost, children).await;
        let was_begun = job.group().is_some();
        let was_kept = job.wait_until_gone(|| context.console.warn(STUCK)).await;
        self.ask_printer.finish_printing().await;
        let told_to_end = self.told_to_end;
        match (status, self.lost) {
            (Some(status), _) => {
                let names = self.guard.names().clone();
                let end = self.end;
                let released = match self.record_end(status).await {
                    Ok(shift) => shift.release_lock().await,
                    Err(RecordError::Lost { lost, .. }) if concerns_command(lost.reason, end) => {
                        Err(lost.reason)
                    }
                    Err(error) if status == 0 => return Err(error.into()),
                    Err(error) => {
                        context.console.warn(error);
                        return Ok(CommandEnd::Own(status));
                    }
                };
                match released {
                    Err(reason) if !context.may_outlive_lock() => {
                        let was = names.was();
                        context
                            .tell_loss(format_args!("{names} {was} lost, perhaps while CMD ran: {reason}"));
                        Ok(CommandEnd::Lost { code: exit_code(reason), told_to_end })
                    }
                    _ => Ok(CommandEnd::Own(status)),
                }
            }
            (None, Some(reason)) => {
                // Every process is gone. What is still held need not wait for the background.
                if is_overstay(reason) && self.guard.check().is_ok() {
                    let _told = self.release_lock().await;
                }
                Ok(CommandEnd::Lost { code: exit_code(reason), told_to_end })
            }
            (None, None) if was_kept && !was_begun => Ok(CommandEnd::NeverBegun { told_to_end }),
            (None, None) => {
                let _told = self.release_lock().await;
                Err(Failure::internal("the warden of CMD failed, or somebody killed it; CMD has ended, too"))
            }
        }
    }

    /// Passes on reports and signals until every process is gone. Returns the command's status if it ended by itself while
    /// the lock was held.
    async fn attend_command(
        &mut self,
        job: &mut Job<'_>,
        mut lost: BoxFuture<'static, LostReason>,
        mut children: unix::Signal,
    ) -> Option<u8> {
        job.reap_strangers();
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut asks = (self.context.terms.on_ask != OnAsk::Ignore).then(|| self.guard.asks());
        let listening = Instant::now() + UNASKED;
        let mut own = None;
        loop {
            tokio::select! {
                // Reports come first: a command that has ended already is not ended.
                biased;
                report = job.next_report() => match report {
                    Some(Report::Started { .. }) => self.say_ready(),
                    Some(Report::Stopped { signal }) => {
                        let stop = self.control.note_stop(signal, job);
                        self.handle_stop(stop, job);
                    }
                    Some(Report::Continued) => self.control.note_continuation(),
                    Some(Report::Delivered) => self.control.note_delivery(),
                    Some(Report::Stuck) => self.context.console.warn(STUCK),
                    Some(Report::Ended { status, at, by_itself }) => {
                        self.control.take_terminal_back(job);
                        own = self.was_its_own(by_itself, at).then_some(status);
                        if own.is_some() {
                            let names = self.guard.names();
                            self.context.systemd.send_stopping(format_args!("CMD has ended; zklock releases {names}"));
                        }
                    }
                    None => {
                        self.control.take_terminal_back(job);
                        return own;
                    }
                },
                reason = &mut lost, if self.lost.is_none() => self.handle_loss(reason, job),
                () = sleep(self.left_to_warden()), if self.deadline.is_some() => {
                    self.deadline = None;
                    job.kill_warden();
                }
                signal = self.signals.next_signal() => self.handle_signal(signal, job),
                ask = next_ask(&mut asks, listening) => match ask {
                    Some(ask) => self.handle_ask(&ask, job),
                    None => asks = None,
                },
                _ = children.recv() => job.reap_strangers(),
                _ = looks.tick() => self.check_lease(job),
            }
        }
    }

    /// Says that the service is up, if the guard says that it is held. The report that the command has started may come
    /// late: after a loss, or after this process was stopped.
    fn say_ready(&self) {
        let is_ending = || self.guard.lost().now_or_never().is_some();
        if self.lost.is_none() && !is_ending() {
            let names = self.guard.names();
            self.context.systemd.send_ready(format_args!("holds {names}, token {}", self.guard.token()));
        }
    }

    /// Whether the command ended by itself while the lock was held. The news of a loss that no lease foresees may come
    /// late, so such a loss counts as earlier than the end of the command.
    fn was_its_own(&mut self, by_itself: bool, at: Duration) -> bool {
        if by_itself && self.context.may_outlive_lock() {
            return true;
        }
        let lost = self.lost.or_else(|| self.guard.check().err().map(|lost| lost.reason));
        if by_itself && at < self.end && lost.is_none_or(is_foreseen) {
            return true;
        }
        // The warden ended it before this process knew of the loss.
        let reason = lost.unwrap_or(LostReason::Unconfirmed);
        if self.lost.replace(reason).is_none() {
            let names = self.guard.names();
            self.context.tell_loss(if is_overstay(reason) {
                self.overstay_text("CMD has ended")
            } else {
                format!("{names} {} lost: {reason}; CMD has ended", names.is())
            });
        }
        false
    }

    /// Tells the warden how long the lease lasts. Continues a command that waits for the terminal, once a shell has put
    /// zklock into the foreground, or the terminal is gone.
    fn check_lease(&mut self, job: &Job<'_>) {
        if self.control.waits_in_vain() {
            self.resume_command(job);
        }
        // No ping for a command that should be gone.
        if self.may_run() {
            self.context.systemd.ping_if_due();
        }
        if self.lost.is_some() {
            return;
        }
        if let Err(lost) = self.guard.check() {
            return self.handle_loss(lost.reason, job);
        }
        // A pause within one of the two makes that one earlier, and the warden would believe it. The true end comes nearer if an
        // operator has lowered a server's limit of session timeouts, or if NTP makes one of the lease's clocks faster.
        let end = self.lease_end().max(self.lease_end());
        if !self.context.may_outlive_lock() && end.abs_diff(self.end) > Duration::from_millis(1) {
            self.end = end;
            job.send_order(Order::Extend { end });
        }
    }

    /// The lock is lost, or will be lost after the stop margin.
    fn handle_loss(&mut self, reason: LostReason, job: &Job<'_>) {
        self.lost = Some(reason);
        let Context { terms, systemd, console, .. } = self.context;
        let names = self.guard.names();
        let is = names.is();
        let end = self.lease_end();
        if self.context.may_outlive_lock() {
            systemd.send_status(format_args!("{names} {is} lost; CMD goes on"));
            console.warn(format_args!(
                "{names} {is} lost: {reason}; CMD goes on, and another CMD may run at the same time"
            ));
            return;
        }
        let grace = if terms.on_lost == OnLost::Kill { Duration::ZERO } else { self.kill_after };
        // Only the end of the lease is known beforehand.
        let end = is_foreseen(reason).then_some(end);
        job.send_order(Order::Stop { grace, end });
        let latest = clock::now() + grace + RESERVE;
        self.deadline = Some(end.map_or(latest, |end| end.min(latest)));
        // Last: standard error may be a full pipe that nobody reads.
        let message = match reason {
            reason if is_overstay(reason) => self.overstay_text("zklock ends CMD"),
            LostReason::Ending { .. } => {
                format!("{names} {is} about to be lost: {reason}; zklock ends CMD")
            }
            reason => format!("{names} {is} lost: {reason}; zklock ends CMD"),
        };
        if terms.restart {
            systemd.send_status(&message);
        } else {
            systemd.send_stopping(&message);
        }
        self.context.tell_loss(message);
    }

    fn handle_ask(&mut self, ask: &Ask, job: &Job<'_>) {
        // The first ask says it all to the command. If the command ignores it, and the lock is lost later, nobody has told zklock to
        // end.
        let ends = self.context.terms.on_ask == OnAsk::Term && !self.asked && self.lost.is_none();
        if ends {
            self.asked = true;
            self.control.pass_signal_on(signals::TERM, job);
            self.continue_command(job);
        }
        let [who, path, why] = [&ask.who, &ask.path, &ask.why].map(|text| text::harmless(text));
        let by = time_text(ask.by());
        let fate = if ends { "; zklock sends SIGTERM to CMD" } else { "" };
        self.ask_printer.print_soon(ends, format!("{who} asks for {path} by {by}: {why}{fate}"));
    }

    /// The message for a lock that is near the longest time for which the user allows to hold it.
    fn overstay_text(&self, fate: &str) -> String {
        let longest = self.context.terms.max_hold.map(duration::text).unwrap_or_default();
        format!("{} may be held for --max-hold {longest} only; {fate}", self.guard.names())
    }

    /// How long the warden may take to end every process. Somebody may have stopped the warden.
    fn left_to_warden(&self) -> Duration {
        self.deadline.unwrap_or(Duration::MAX).saturating_sub(clock::now() + RESERVE / 2)
    }

    fn handle_signal(&mut self, signal: i32, job: &Job<'_>) {
        match signal {
            signals::CONT => self.resume_command(job),
            signals::TSTP => {
                let stop = self.control.order_stop(job);
                self.handle_stop(stop, job);
            }
            _ => self.control.pass_signal_on(signal, job),
        }
        if signals::is_fatal(signal) {
            self.told_to_end = Some(signal);
            self.continue_command(job);
        }
    }

    /// A stopped process gets a signal when it continues.
    fn continue_command(&mut self, job: &Job<'_>) {
        if self.may_run() {
            self.control.continue_command(job);
        }
    }

    fn handle_stop(&mut self, stop: Stop, job: &Job<'_>) {
        let console = self.context.console;
        match stop {
            Stop::GoesOn => self.resume_command(job),
            Stop::WaitsForTerminal => {
                console.note("CMD waits for the terminal; bring zklock to the foreground with `fg`")
            }
            Stop::StopsUs => {
                self.control.take_terminal_back(job);
                if !self.context.may_outlive_lock() {
                    let left = duration::text(self.guard.remaining());
                    console.note(format_args!(
                        "zklock and CMD are stopped; if nobody continues them within {left}, the warden ends CMD"
                    ));
                }
                // Nothing extends the lease meanwhile. The warden ends the command with it.
                self.signals.stop_this_process(self.control.stops_group());
                if !self.signals.is_continued() {
                    // The kernel did not stop this process: nobody could continue it.
                    self.resume_command(job);
                }
            }
            Stop::IsNotOurs => {}
        }
    }

    fn resume_command(&mut self, job: &Job<'_>) {
        if self.may_run() {
            self.control.resume_command(job);
        }
    }

    fn may_run(&self) -> bool {
        self.guard.check().is_ok() || self.context.may_outlive_lock()
    }

    /// Records how the command has ended, if it ran in a run. Every process is gone by now, and the lock is still held.
    async fn record_end(self, status: u8) -> Result<Self, RecordError> {
        let failed = self.guard.run_name().filter(|_| status != 0);
        let guard = self.guard.record_end(status).await?;
        if let Some(run) = failed {
            let console = self.context.console;
            console
                .warn(format_args!("run {run} is recorded as failed; it does not run again without --retry"));
        }
        Ok(Self { guard, ..self })
    }

    /// Releases the lock; if that fails, by the end of the session, unless the program goes on in it. An error if the lock turns out
    /// to be lost already, maybe while the command ran.
    async fn release_lock(self) -> Result<(), LostReason> {
        let Self { context: Context { terms, session, console, .. }, signals, guard, end, lost, .. } = self;
        let names = guard.names().clone();
        let goes_on = terms.restart && lost.is_some();
        let problem = tokio::select! {
            released = guard.release() => match released {
                Ok(()) => {
                    console.detail(format_args!("released {names}"));
                    return Ok(());
                }
                Err(ReleaseError::Lost(lost)) if concerns_command(lost.reason, end) => return Err(lost.reason),
                Err(ReleaseError::Lost(lost)) => lost.reason.to_string(),
                Err(ReleaseError::Unconfirmed { .. }) => {
                    "ZooKeeper did not confirm the release before the lease ended".to_owned()
                }
                Err(ReleaseError::Refused { cause, .. }) => format!(
                    "the server refused to delete the holder's node ({cause}); change the ACL of the directory so that it grants DELETE"
                ),
                Err(error) => error.to_string(),
            },
            _ = signals.next_fatal() => "a signal ended the wait for the release".to_owned(),
        };
        if !goes_on && closing::close_session(session).await {
            console.detail(format_args!("closed the session, and so released {names}: {problem}"));
            return Ok(());
        }
        console.warn(format_args!(
            "CMD has ended, but others may have to wait for {names} until this session expires: {problem}"
        ));
        Ok(())
    }

    /// The end of the lease by the program's own clock, as far as it is known. It is never later than the true one.
    fn lease_end(&self) -> Duration {
        // The clock is read first, so that a pause between the two makes the result earlier.
        let now = clock::now();
        now + self.guard.remaining()
    }

    /// The variables of the command's environment. Some of them have a line for each lock, because no path has a line
    /// break. A variable without a value is removed: it may be that of another `zklock run` around this one.
    fn variables(&self) -> Result<Vec<(&'static str, Option<String>)>, Lost> {
        let Context { terms, session, connection, kin, .. } = self.context;
        let sequencers = self.guard.sequencers()?;
        let access = |sequencer: &Sequencer| if sequencer.is_shared() { "shared" } else { "exclusive" };
        let known = |text: String| Some(text).filter(|_| !sequencers.is_empty());
        let always = [
            ("ZKLOCK_PATH", Some(lines(self.guard.paths()))),
            ("ZKLOCK_ACCESS", known(lines(sequencers.iter().map(access)))),
            ("ZKLOCK_TOKEN", Some(self.guard.token().to_string())),
            (TOKENS, Some(kin.tokens_with(self.guard.token(), session.id()))),
            ("ZKLOCK_SEQUENCER", known(lines(sequencers))),
            ("ZKLOCK_SESSION_TIMEOUT_MS", Some(session.timeout().as_millis().to_string())),
        ];
        // Those of a run, a slot or a permit around this one stay the command's own.
        let own = self.guard.own_variable();
        let present = own.into_iter().chain(connection.variables());
        let present = present.map(|(name, value)| (name, Some(value)));
        let kept_back = systemd::kept_back(terms.notify).iter().map(|name| (*name, None));
        Ok(always.into_iter().chain(present).chain(kept_back).collect())
    }
}

/// Waits for the next ask from this instant on; for ever if nobody listens.
async fn next_ask(asks: &mut Option<Asks>, listening: Instant) -> Option<Ask> {
    sleep_until(listening).await;
    match asks {
        Some(asks) => asks.next().await,
        None => std::future::pending().await,
    }
}

/// Whether a guard that is lost for this reason may have been lost while the command ran. The lease ends at `end`.
fn concerns_command(reason: LostReason, end: Duration) -> bool {
    match reason {
        LostReason::NodeDeleted | LostReason::ReleaseForged => true,
        // A session expires only after the lease.
        LostReason::SessionExpired => clock::now() < end,
        _ => false,
    }
}

fn lines(items: impl IntoIterator<Item = impl Display>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join("\n")
}

/// Whether the guard is lost, or about to be, by the end of its lease or of the longest hold.
fn is_foreseen(reason: LostReason) -> bool {
    is_overstay(reason) || matches!(reason, LostReason::Unconfirmed | LostReason::Ending { .. })
}

/// Whether the guard is lost, or about to be, because it was held for as long as the user allows.
fn is_overstay(reason: LostReason) -> bool {
    matches!(reason, LostReason::MaxHold | LostReason::MaxHoldEnds { .. })
}

fn exit_code(reason: LostReason) -> Code {
    if is_overstay(reason) { Code::HeldTooLong } else { Code::Lost }
}
