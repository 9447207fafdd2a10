//! One run of the command under one guard: from the grant until every process is gone and the lock is released.

use std::fmt::Display;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::{MissedTickBehavior, interval, sleep};
use zklock::{Lost, LostReason, ReleaseError, Sequencer, once::RecordError};

use super::context::Context;
use super::control::{Control, Stop};
use super::grant::Grant;
use super::job::Job;
use super::locks::Names;
use crate::args::{OnLost, Run};
use crate::clock;
use crate::console::Console;
use crate::duration;
use crate::failure::Failure;
use crate::signals::{self, Signals};
use crate::warden::protocol::{Order, Report};
use crate::warden::{Descendants, RESERVE};

/// How often to look at what no event reports.
const LOOK: Duration = Duration::from_millis(50);

/// The message about a process that is still there a while after SIGKILL.
const STUCK: &str = "a process of CMD outlives SIGKILL; it may be another user's, or it may wait for a dead disk; waiting for \
                     its end";

/// How a run ended.
pub(super) enum Ending {
    /// The command ended by itself with this status, while the lock was held.
    Own(u8),
    /// The lock was lost, and the command was ended.
    Lost {
        /// The signal that asked it to end as well.
        told_to_end: Option<i32>,
    },
    /// The lock was lost before the command started.
    NeverBegun {
        /// The signal that asked zklock to end meanwhile.
        told_to_end: Option<i32>,
    },
}

/// A command under a guard.
pub(super) struct Shift<'a> {
    run: &'a Run,
    descendants: &'a Descendants,
    grant: Grant,
    session_timeout: Duration,
    kill_after: Duration,
    signals: &'a mut Signals,
    console: Console,
    control: Control,
    /// The end of the lease that the warden knows.
    end: Duration,
    /// When every process should be gone, if the warden was ordered to end them.
    deadline: Option<Duration>,
    /// Why the lock is lost, or about to be lost.
    lost: Option<LostReason>,
    told_to_end: Option<i32>,
}

impl<'a> Shift<'a> {
    pub(super) fn new(context: &'a mut Context<'_>, grant: Grant, kill_after: Duration) -> Self {
        Self {
            run: context.run,
            descendants: context.descendants,
            grant,
            session_timeout: context.session.timeout(),
            kill_after,
            signals: context.signals,
            console: context.console,
            control: Control::new(),
            end: Duration::ZERO,
            deadline: None,
            lost: None,
            told_to_end: None,
        }
    }

    /// Runs the command. Returns after every process is gone and the lock is released or lost.
    pub(super) async fn work(mut self) -> Result<Ending, Failure> {
        let mut lost = self.grant.guard().lost();
        let (None, Ok(variables)) = (lost.as_mut().now_or_never(), self.variables()) else {
            return Ok(Ending::NeverBegun { told_to_end: None });
        };
        self.end = self.lease_end();
        let begin = Order::Begin {
            foreground: self.control.begins_in_foreground(),
            grace: self.kill_after,
            end: (!self.may_outlive()).then_some(self.end),
        };
        let unkept = |error| Failure::internal(format_args!("the command cannot be started: {error}"));
        let job = Job::start(self.descendants, &self.run.command, variables, begin);
        let mut job = job.await.map_err(unkept)?;
        let status = self.attend(&mut job, lost).await;
        let was_begun = job.group().is_some();
        let was_kept = job.finish(|| self.console.warn(STUCK)).await;
        match (status, self.lost) {
            (Some(status), _) => {
                let (run, console, end) = (self.run, self.console, self.end);
                let (told_to_end, may_outlive) = (self.told_to_end, self.may_outlive());
                let names = self.names();
                let released = match self.record(status).await {
                    Ok(shift) => shift.release().await,
                    Err(RecordError::Lost { lost, .. }) if concerns_command(lost.reason, end) => {
                        Err(lost.reason)
                    }
                    Err(error) if status == 0 => return Err(error.into()),
                    Err(error) => {
                        console.warn(error);
                        return Ok(Ending::Own(status));
                    }
                };
                match released {
                    Err(reason) if !may_outlive => {
                        tell_loss(
                            run,
                            console,
                            format_args!("{names} {} lost, perhaps while CMD ran: {reason}", names.was()),
                        );
                        Ok(Ending::Lost { told_to_end })
                    }
                    _ => Ok(Ending::Own(status)),
                }
            }
            (None, Some(_)) => Ok(Ending::Lost { told_to_end: self.told_to_end }),
            (None, None) if was_kept && !was_begun => {
                Ok(Ending::NeverBegun { told_to_end: self.told_to_end })
            }
            (None, None) => {
                let _told = self.release().await;
                Err(Failure::internal(
                    "the command's warden failed, or somebody killed it; the command is gone, too",
                ))
            }
        }
    }

    /// Passes on reports and signals until every process is gone. Returns the command's status if it ended by itself while
    /// the lock was held.
    async fn attend(&mut self, job: &mut Job<'_>, mut lost: BoxFuture<'static, LostReason>) -> Option<u8> {
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut own = None;
        loop {
            tokio::select! {
                // Reports come first: a command that has ended already is not ended.
                biased;
                report = job.report() => match report {
                    Some(Report::Started { .. }) => {}
                    Some(Report::Stopped { signal }) => {
                        let stop = self.control.stopped(signal, job);
                        self.heed(stop, job);
                    }
                    Some(Report::Continued) => self.control.continued(),
                    Some(Report::Delivered) => self.control.delivered(),
                    Some(Report::Stuck) => self.console.warn(STUCK),
                    Some(Report::Ended { status, at, by_itself }) => {
                        self.control.take_terminal_back(job);
                        own = self.was_its_own(by_itself, at).then_some(status);
                    }
                    None => {
                        self.control.take_terminal_back(job);
                        return own;
                    }
                },
                reason = &mut lost, if self.lost.is_none() => self.lose(reason, job),
                () = sleep(self.patience()), if self.deadline.is_some() => {
                    self.deadline = None;
                    job.kill();
                }
                signal = self.signals.next() => self.pass_on(signal, job),
                _ = looks.tick() => self.look(job),
            }
        }
    }

    /// Whether the command ended by itself while the lock was held. The news of a loss that no lease foresees may come
    /// late, so such a loss counts as earlier than the end of the command.
    fn was_its_own(&mut self, by_itself: bool, at: Duration) -> bool {
        if by_itself && self.may_outlive() {
            return true;
        }
        let lost = self.lost.or_else(|| self.grant.guard().check().err().map(|lost| lost.reason));
        if by_itself && at < self.end && lost.is_none_or(is_foreseen) {
            return true;
        }
        // The warden ended it before this process knew of the loss.
        let reason = lost.unwrap_or(LostReason::Unconfirmed);
        if self.lost.replace(reason).is_none() {
            let names = self.names();
            tell_loss(
                self.run,
                self.console,
                format_args!("{names} {} lost: {reason}; CMD has ended", names.is()),
            );
        }
        false
    }

    /// Tells the warden how long the lease lasts. Continues a command that waits for the terminal, once a shell has put
    /// zklock into the foreground, or the terminal is gone.
    fn look(&mut self, job: &Job<'_>) {
        if self.control.waits_in_vain() {
            self.resume(job);
        }
        if self.lost.is_some() {
            return;
        }
        if let Err(lost) = self.grant.guard().check() {
            return self.lose(lost.reason, job);
        }
        let end = self.lease_end();
        if !self.may_outlive() && end > self.end + Duration::from_millis(1) {
            self.end = end;
            job.order(Order::Extend { end });
        }
    }

    /// The lock is lost, or will be lost after the stop margin.
    fn lose(&mut self, reason: LostReason, job: &Job<'_>) {
        self.lost = Some(reason);
        let (names, end) = (self.names(), self.lease_end());
        let is = names.is();
        if self.may_outlive() {
            self.console.warn(format_args!(
                "{names} {is} lost: {reason}; CMD goes on, and another CMD may run beside it"
            ));
            return;
        }
        let grace = if self.run.on_lost == OnLost::Kill { Duration::ZERO } else { self.kill_after };
        // Only the end of the lease is known beforehand.
        let end = is_foreseen(reason).then_some(end);
        job.order(Order::Stop { grace, end });
        let latest = clock::now() + grace + RESERVE;
        self.deadline = Some(end.map_or(latest, |end| end.min(latest)));
        // Last: standard error may be a full pipe that nobody reads.
        let fate = match reason {
            LostReason::Ending { .. } => "about to be lost",
            _ => "lost",
        };
        tell_loss(self.run, self.console, format_args!("{names} {is} {fate}: {reason}; ending CMD"));
    }

    /// How long the warden may take to end every process. Somebody may have stopped the warden.
    fn patience(&self) -> Duration {
        self.deadline.unwrap_or(Duration::MAX).saturating_sub(clock::now() + RESERVE / 2)
    }

    fn pass_on(&mut self, signal: i32, job: &Job<'_>) {
        match signal {
            signals::CONT => self.resume(job),
            signals::TSTP => {
                let stop = self.control.stop(job);
                self.heed(stop, job);
            }
            _ => self.control.tell(signal, job),
        }
        if signals::is_fatal(signal) {
            self.told_to_end = Some(signal);
            // A stopped process gets the signal when it continues.
            if self.may_run() {
                self.control.let_go_on(job);
            }
        }
    }

    fn heed(&mut self, stop: Stop, job: &Job<'_>) {
        match stop {
            Stop::GoesOn => self.resume(job),
            Stop::WaitsForTerminal => {
                self.console.note("CMD waits for the terminal; bring it to the foreground")
            }
            Stop::StopsUs => {
                self.control.take_terminal_back(job);
                if !self.may_outlive() {
                    let left = duration::text(self.grant.guard().remaining());
                    self.console.note(format_args!("stopped; unless it goes on, CMD is ended within {left}"));
                }
                // Nothing extends the lease meanwhile. The warden ends the command with it.
                self.signals.stop(self.control.stops_group());
                if !self.signals.is_continued() {
                    // The kernel did not stop this process: nobody could continue it.
                    self.resume(job);
                }
            }
            Stop::IsNotOurs => {}
        }
    }

    fn resume(&mut self, job: &Job<'_>) {
        if self.may_run() {
            self.control.resume(job);
        }
    }

    fn may_run(&self) -> bool {
        self.grant.guard().check().is_ok() || self.may_outlive()
    }

    /// Records how the command has ended, if it ran in a run. Every process is gone by now, and the lock is still held.
    async fn record(self, status: u8) -> Result<Self, RecordError> {
        let grant = self.grant.record(status).await?;
        Ok(Self { grant, ..self })
    }

    /// Releases the lock. An error if the lock turns out to be lost already, maybe while the command ran.
    async fn release(self) -> Result<(), LostReason> {
        let names = self.names();
        let Self { grant, signals, console, end, .. } = self;
        let problem = tokio::select! {
            released = grant.release() => match released {
                Ok(()) => {
                    console.detail(format_args!("released {names}"));
                    return Ok(());
                }
                Err(ReleaseError::Lost(lost)) if concerns_command(lost.reason, end) => return Err(lost.reason),
                Err(ReleaseError::Lost(lost)) => lost.reason.to_string(),
                Err(ReleaseError::Unconfirmed { .. }) => {
                    "ZooKeeper did not confirm the release before the lease ended".to_owned()
                }
                Err(error) => error.to_string(),
            },
            _ = signals.next_fatal() => "a signal ended the wait for the release".to_owned(),
        };
        console.warn(format_args!(
            "CMD has ended, but {names} may be taken until this session expires: {problem}"
        ));
        Ok(())
    }

    /// The end of the lease as the time since boot, as far as it is known. It is never later than the true one.
    fn lease_end(&self) -> Duration {
        // The clock is read first, so that a pause between the two makes the result earlier.
        let now = clock::now();
        now + self.grant.guard().remaining()
    }

    fn may_outlive(&self) -> bool {
        self.run.on_lost == OnLost::IgnoreAndWarn
    }

    fn names(&self) -> Names {
        self.grant.names().clone()
    }

    /// The variables of the command's environment. Some of them have a line for each lock, because no path has a line
    /// break. A variable without a value is removed: it may be that of another `zklock run` around this one.
    fn variables(&self) -> Result<Vec<(&'static str, Option<String>)>, Lost> {
        let sequencers = self.grant.sequencers()?;
        let access = |sequencer: &Sequencer| if sequencer.is_shared() { "shared" } else { "exclusive" };
        let known = |text: String| Some(text).filter(|_| !sequencers.is_empty());
        let always = [
            ("ZKLOCK_PATH", Some(lines(self.grant.guard().paths()))),
            ("ZKLOCK_ACCESS", known(lines(sequencers.iter().map(access)))),
            ("ZKLOCK_TOKEN", Some(self.grant.guard().token().to_string())),
            ("ZKLOCK_SEQUENCER", known(lines(sequencers))),
            ("ZKLOCK_SESSION_TIMEOUT_MS", Some(self.session_timeout.as_millis().to_string())),
        ];
        // Those of a run, a slot or a permit around this one stay the command's own.
        let special = self.grant.special().map(|(name, value)| (name, Some(value)));
        Ok(always.into_iter().chain(special).collect())
    }
}

/// Whether a guard that is lost for this reason may have been lost while the command ran. The lease ends at `end`.
fn concerns_command(reason: LostReason, end: Duration) -> bool {
    match reason {
        LostReason::NodeDeleted => true,
        // A session expires only after the lease.
        LostReason::SessionExpired => clock::now() < end,
        _ => false,
    }
}

fn lines(items: impl IntoIterator<Item = impl Display>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join("\n")
}

/// A loss is an error of the program, unless it restarts the command.
fn tell_loss(run: &Run, console: Console, message: impl Display) {
    if run.restart { console.warn(message) } else { console.error(message) }
}

/// Whether the guard is lost, or about to be, by the end of its lease.
fn is_foreseen(reason: LostReason) -> bool {
    matches!(reason, LostReason::Unconfirmed | LostReason::Ending { .. })
}
