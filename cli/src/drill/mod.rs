//! `zklock drill`: contends with itself on the user's own servers, behind proxies that fail, and measures whether each
//! guard is lost before the next contender is granted.
//!
//! ```text
//! a holder for each fault --> proxy for each server --+--> servers        fault   what fails, and how
//! one waiter for all ----------------------------------+                   judge   instants -> verdict (pure)
//! ```
//!
//! Each fault has a lock of its own, in a fresh directory below the path that the user names. All faults run at the same
//! time. The directory is removed at the end, also after a signal or a failure.

mod fault;
mod judge;
mod place;
mod proxy;
mod pulse;
mod report;

use std::cell::RefCell;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use futures::StreamExt;
use futures::future::{join_all, try_join_all};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use zklock::{Lock, LostReason, QueryError, Session};

use crate::args;
use crate::closing;
use crate::connection::Connection;
use crate::console::Console;
use crate::doctor::{self, Checkup};
use crate::duration;
use crate::exit::{self, Code};
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::signals;
use fault::Fault;
use judge::{Seen, Verdict};
use place::Place;
use proxy::Proxy;
use pulse::Pulse;
use report::Report;

/// The pause between two looks whether the waiter is in the queue.
const PAUSE: Duration = Duration::from_millis(50);

/// How long the drill keeps a lock whose guard is lost before it lets go. A grant that comes within this time is none of
/// its doing, and a stall that is shorter does not hide which of the two came first.
const KEPT: Duration = Duration::from_secs(1);

/// For connecting, acquiring and cleaning up.
const OVERHEAD: Duration = Duration::from_secs(5);

/// One fault, its proxies, and what was seen of it.
struct Scene {
    fault: Fault,
    proxies: Vec<Proxy>,
    /// The proxy through which the holder connects.
    near: usize,
    holder: RefCell<Option<Session>>,
    seen: RefCell<Seen>,
}

/// Drills, and prints what it saw.
pub(crate) async fn drill(drill: args::Drill, connection: &Connection, console: Console) -> Outcome {
    let checkup = doctor::checkup(connection).await?;
    let waiting = connection.session_as_granted().await?;
    let outcome = with(&drill, connection, &checkup, &waiting, console).await;
    closing::session(&waiting).await;
    outcome
}

async fn with(
    drill: &args::Drill,
    connection: &Connection,
    checkup: &Checkup,
    waiting: &Session,
    console: Console,
) -> Outcome {
    let servers = connection.servers()?;
    let faults = Fault::ALL.into_iter().filter(|fault| fault.is_possible(servers.len()));
    let longest = longest(waiting.timeout(), checkup.takeover);
    let max_time = drill.max_time.unwrap_or(longest * 2);
    if max_time < longest {
        return Err(Failure::usage(format_args!(
            "with a session timeout of {} the drill takes up to {}, which is more than --max-time; give a longer \
             --max-time, or a shorter --session-timeout",
            duration::text(waiting.timeout()),
            duration::text(longest)
        )));
    }
    let until = Instant::now() + max_time;
    let mut scenes = Vec::new();
    for (index, fault) in faults.enumerate() {
        scenes.push(Scene::set(fault, index % servers.len(), connection).await?);
    }
    let mut signals = signals::arriving(signals::FATAL).map_err(Failure::internal)?;
    let place = Place::make(connection, waiting, &drill.path).await?;
    console.note(format_args!(
        "the drill takes up to {}, and ends after {} (--max-time). It uses {} and {} sessions. The guards' connections \
         fail on this machine only",
        duration::text(longest),
        duration::text(max_time),
        place.directory,
        scenes.len() + 1
    ));

    let pulse = Pulse::new();
    let plays = try_join_all(scenes.iter().map(|scene| async {
        match timeout_at(until, scene.play(connection, waiting, &place, &pulse, console)).await {
            Ok(played) => played,
            Err(_) => Ok(()),
        }
    }));
    let ended = tokio::select! {
        played = plays => played.map(|_| None),
        signal = signals.next() => Ok(signal),
        () = pulse.beat() => Ok(None),
    };
    // The contenders go with their sessions.
    join_all(scenes.iter().map(Scene::strike)).await;
    closing::session(waiting).await;
    if let Err(left) = place.clear(connection).await {
        console.warn(left);
    }
    if let Some(signal) = ended? {
        return Ok(exit::after_signal(signal));
    }

    let seen = scenes.iter().map(|scene| (scene.fault, scene.seen.borrow().clone())).collect::<Vec<_>>();
    let report = Report {
        seen: &seen,
        servers: servers.len(),
        asked: connection.session_timeout.unwrap_or(doctor::DEFAULT_SESSION_TIMEOUT),
        granted: waiting.timeout(),
        takeover: checkup.takeover,
        danger: checkup.danger,
    };
    match drill.json {
        true => output::print_json(&report.json(&drill.path, checkup.json.clone()))?,
        false => output::print(&format!("{}\n{}{}", checkup.text, checkup.problems, report.text()))?,
    }
    Ok(match report.verdict() {
        Verdict::Kept => ExitCode::SUCCESS,
        Verdict::NotKept => Code::No.into(),
        Verdict::Unproven => Code::Unproven.into(),
    })
}

/// The longest that a fault takes on healthy servers. A holder that hears nothing gives its connection up, and asks to
/// resume its session for one session timeout. Each request that arrives keeps the session alive, and may be late by half a
/// session timeout. The session expires after that.
fn longest(timeout: Duration, takeover: Duration) -> Duration {
    timeout * 5 / 2 + takeover + OVERHEAD
}

impl Scene {
    async fn set(fault: Fault, near: usize, connection: &Connection) -> Result<Self, Failure> {
        let tls = connection.tls()?.map(|tls| tls.config);
        let start = |server| Proxy::start(server, tls.clone());
        let proxies = try_join_all(connection.servers()?.into_iter().map(start)).await;
        let proxies = proxies
            .map_err(|error| Failure::internal(format_args!("zklock cannot listen on 127.0.0.1: {error}")))?;
        Ok(Self { fault, proxies, near, holder: RefCell::default(), seen: RefCell::default() })
    }

    /// Holds the lock behind the proxies, has them fail, and watches what becomes of the guard and of the next contender.
    async fn play(
        &self,
        connection: &Connection,
        waiting: &Session,
        place: &Place,
        pulse: &Pulse,
        console: Console,
    ) -> Result<(), Failure> {
        self.proxies[self.near].open();
        let addresses = self.proxies.iter().map(|proxy| &*proxy.address);
        let holding = connection.through(addresses, waiting.timeout(), waiting.tick()).session().await?;
        self.holder.replace(Some(holding.clone()));
        let path = place.lock(self.fault.name());
        let guard = holding.lock(&path)?.acquire().await?;
        let lock = waiting.lock(&path)?;
        let granted = async {
            let next = lock.acquire().await?;
            // The holder's own answer comes first: the clock is read later than the grant.
            let both = guard.is_held();
            let at = Instant::now();
            pulse.tick();
            Ok::<_, Failure>((at, both, next))
        };
        let mut granted = pin!(granted);
        // A grant before the fault would be an overlap, too.
        let early = tokio::select! {
            granted = &mut granted => Some(granted?),
            queued = queued(&lock) => { queued?; None }
        };
        let began = Instant::now();
        self.fault.begin(&self.proxies, self.near, waiting.timeout());
        console.detail(format_args!("{}: begins", self.fault.name()));

        let mut lost = pin!(guard.lost());
        let survival = began + holding.longest_validity() + holding.heartbeat();
        let mut outlived = pin!(sleep_until(survival));
        let (at, both, next) = match early {
            Some(early) => early,
            None => loop {
                let is_over = {
                    let seen = self.seen.borrow();
                    seen.lost.is_some() || seen.survived.is_some()
                };
                tokio::select! {
                    biased;
                    reason = &mut lost, if !is_over => {
                        self.seen.borrow_mut().lost = Some((began.elapsed(), reason_text(reason)));
                        pulse.tick();
                        if self.fault.is_survivable() {
                            if let Ok(granted) = timeout(KEPT, &mut granted).await {
                                break granted?;
                            }
                            // The session may live on, and with it the node.
                            self.seen.borrow_mut().let_go = true;
                            let _unconfirmed = guard.release_all().await;
                            closing::session(&holding).await;
                        }
                    }
                    granted = &mut granted => break granted?,
                    () = &mut outlived, if !is_over && self.fault.is_survivable() => if guard.is_held() {
                        self.seen.borrow_mut().survived = Some(began.elapsed());
                        // The next contender is granted at its end, whatever became of the answer.
                        let _unconfirmed = guard.release_all().await;
                    },
                }
            },
        };
        {
            let mut seen = self.seen.borrow_mut();
            (seen.granted, seen.overlap) = (Some(at.saturating_duration_since(began)), both);
            let lost = seen.lost.as_ref().map_or(at, |(lost, _)| began + *lost);
            seen.stall = pulse.longest(&[lost, at]);
            console.note(report::line(self.fault, &seen));
        }
        let _unconfirmed = next.release().await;
        Ok(())
    }

    /// Ends the fault, and closes the holder's session.
    async fn strike(&self) {
        for proxy in &self.proxies {
            proxy.open();
            proxy.cut();
        }
        let holder = self.holder.take();
        if let Some(holder) = holder {
            closing::session(&holder).await;
        }
    }
}

/// Resolves once a holder and a waiter are in the queue.
async fn queued(lock: &Lock) -> Result<(), QueryError> {
    while lock.contenders().await?.len() < 2 {
        sleep(PAUSE).await;
    }
    Ok(())
}

fn reason_text(reason: LostReason) -> String {
    match reason {
        LostReason::Unconfirmed => report::UNCONFIRMED.to_owned(),
        reason => reason.to_string(),
    }
}
