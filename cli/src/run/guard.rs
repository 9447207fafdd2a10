//! The guard of what a command holds: locks, a run that has begun under its lock, the lead, or some of a pool.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use zklock::ask::Asks;
use zklock::once::{RecordError, Run, RunEnd};
use zklock::{
    AnyGuard, FencingToken, Leadership, Lost, LostReason, MultiGuard, Permit, ReleaseError, Sequencer, Slot,
};

use super::locks::Names;

/// The guard of what a command holds, of whichever kind, and what the command's environment says of that.
pub(super) struct CommandGuard {
    held: Held,
    names: Names,
    sequencers: Result<Vec<Sequencer>, Lost>,
    /// The variable that only its kind has: the name of a run, the index of a slot, or the weight of a permit.
    own_variable: Option<(&'static str, String)>,
}

enum Held {
    Guard(AnyGuard),
    Run(Run),
}

/// Asks the guard of what is held, of whichever kind the guard is.
macro_rules! ask_guard {
    ($held:expr, $guard:ident => $answer:expr) => {
        match &$held {
            Held::Guard($guard) => $answer,
            Held::Run(run) => {
                let $guard = run.guard();
                $answer
            }
        }
    };
}

impl CommandGuard {
    pub(super) fn locks(guard: MultiGuard) -> Self {
        let sequencers = guard.sequencers();
        Self::new(Held::Guard(guard.into_any()), sequencers)
    }

    pub(super) fn run(run: Run) -> Self {
        let sequencers = run.guard().sequencer().map(|it| vec![it]);
        let own_variable = Some(("ZKLOCK_ONCE", run.name().to_owned()));
        Self { own_variable, ..Self::new(Held::Run(run), sequencers) }
    }

    pub(super) fn leadership(leadership: Leadership) -> Self {
        let sequencers = leadership.sequencer().map(|it| vec![it]);
        Self::new(Held::Guard(leadership.into_any()), sequencers)
    }

    /// Nobody can check a permit or a slot.
    pub(super) fn permit(permit: Permit) -> Self {
        let names = Names::permits(permit.path(), permit.weight());
        let own_variable = Some(("ZKLOCK_PERMITS", permit.weight().to_string()));
        Self { names, own_variable, ..Self::new(Held::Guard(permit.into_any()), Ok(Vec::new())) }
    }

    pub(super) fn slot(slot: Slot) -> Self {
        let names = Names::slot(slot.path(), slot.index());
        let own_variable = Some(("ZKLOCK_SLOT", slot.index().to_string()));
        Self { names, own_variable, ..Self::new(Held::Guard(slot.into_any()), Ok(Vec::new())) }
    }

    fn new(held: Held, sequencers: Result<Vec<Sequencer>, Lost>) -> Self {
        let names = ask_guard!(held, guard => Names::of(guard.paths()));
        Self { held, names, sequencers, own_variable: None }
    }

    pub(super) fn with_names(self, names: Names) -> Self {
        Self { names, ..self }
    }

    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    /// The sequencers of its locks. Permits and slots have none.
    pub(super) fn sequencers(&self) -> Result<&[Sequencer], Lost> {
        self.sequencers.as_deref().map_err(Clone::clone)
    }

    pub(super) fn own_variable(&self) -> Option<(&'static str, String)> {
        self.own_variable.clone()
    }

    /// The name of the run that has begun, if this is one.
    pub(super) fn run_name(&self) -> Option<String> {
        match &self.held {
            Held::Run(run) => Some(run.name().to_owned()),
            Held::Guard(_) => None,
        }
    }

    pub(super) fn paths(&self) -> Vec<String> {
        ask_guard!(self.held, guard => guard.paths().map(str::to_owned).collect())
    }

    pub(super) fn token(&self) -> FencingToken {
        ask_guard!(self.held, guard => guard.token())
    }

    pub(super) fn check(&self) -> Result<(), Lost> {
        ask_guard!(self.held, guard => guard.check())
    }

    pub(super) fn remaining(&self) -> Duration {
        ask_guard!(self.held, guard => guard.remaining())
    }

    pub(super) fn lost(&self) -> BoxFuture<'static, LostReason> {
        ask_guard!(self.held, guard => guard.lost().boxed())
    }

    pub(super) fn asks(&self) -> Asks {
        ask_guard!(self.held, guard => guard.asks())
    }

    /// Records how the command has ended, if it ran in a run. The locks stay held.
    pub(super) async fn record_end(self, status: u8) -> Result<Self, RecordError> {
        let end = if status == 0 { RunEnd::Succeeded } else { RunEnd::Failed };
        let held = match self.held {
            Held::Run(run) => Held::Guard(run.record(end).await?.into_any()),
            held => held,
        };
        Ok(Self { held, ..self })
    }

    /// Releases it. The record of a run stays as it is.
    pub(super) async fn release(self) -> Result<(), ReleaseError> {
        match self.held {
            Held::Guard(guard) => guard.release().await,
            Held::Run(run) => run.into_guard().release().await,
        }
    }
}
