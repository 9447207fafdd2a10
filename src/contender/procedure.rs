//! Runs a machine of the recipe that asks for one thing at a time.
//!
//! It decides nothing: it awaits what the machine has asked for, and gives the machine what came of it. Its caller polls it, and
//! may drop it at each await. Then the machine is told, and what it still asks for goes on in the session's background.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;

use crate::zk::ZkSession;

/// A machine, and how what it asks for is performed.
pub(crate) trait Procedure: Send + 'static {
    /// What comes of a request.
    type Heard: Send + 'static;
    /// What the machine asks for.
    type Command;
    /// What the caller is told.
    type Outcome;

    /// Whether what it writes outlasts the session, so that the session's close waits for it.
    const OUTLASTS_THE_SESSION: bool;

    /// What the machine hears when its caller has gone. `None` if it goes on as before.
    const GONE: Option<Self::Heard>;

    /// Gives the machine what came of its last request.
    fn handle(&mut self, heard: Self::Heard) -> Vec<Self::Command>;

    /// Performs one thing that the machine asks for.
    fn perform(&mut self, command: Self::Command) -> Performed<Self::Heard, Self::Outcome>;

    /// Whether the machine asks for nothing any more.
    fn is_ended(&self) -> bool;
}

/// What comes of a command.
pub(crate) enum Performed<H, O> {
    /// This request is to be awaited from here on, instead of the last one.
    Request(BoxFuture<'static, H>),
    /// The caller is told this.
    Told(O),
    /// It is done.
    Done,
}

/// A procedure under way.
pub(crate) struct Course<P: Procedure>(Option<CourseStage<P>>);

struct CourseStage<P: Procedure> {
    session: Arc<ZkSession>,
    procedure: P,
    pending: Option<BoxFuture<'static, P::Heard>>,
}

impl<P: Procedure> Course<P> {
    /// Begins with this, in this session.
    pub(crate) fn begin(session: Arc<ZkSession>, procedure: P, first: P::Heard) -> Self {
        let mut stage = CourseStage { session, procedure, pending: None };
        let _nobody = stage.take_in(first);
        Self(Some(stage))
    }

    /// Resolves to what the caller is told; `None` if the procedure has ended without that.
    pub(crate) async fn outcome(&mut self) -> Option<P::Outcome> {
        match &mut self.0 {
            Some(stage) => stage.outcome().await,
            None => None,
        }
    }
}

impl<P: Procedure> CourseStage<P> {
    async fn outcome(&mut self) -> Option<P::Outcome> {
        while let Some(pending) = &mut self.pending {
            let heard = pending.await;
            self.pending = None;
            if let Some(outcome) = self.take_in(heard) {
                return Some(outcome);
            }
        }
        None
    }

    /// Gives the machine this, and performs what follows.
    fn take_in(&mut self, heard: P::Heard) -> Option<P::Outcome> {
        let mut told = None;
        for command in self.procedure.handle(heard) {
            match self.procedure.perform(command) {
                Performed::Request(request) => self.pending = Some(request),
                Performed::Told(outcome) => told = Some(outcome),
                Performed::Done => {}
            }
        }
        if self.procedure.is_ended() {
            self.pending = None;
        } else {
            let goes_on = self.pending.is_some() || told.is_some() || std::thread::panicking();
            debug_assert!(goes_on, "it would stop here");
        }
        told
    }
}

impl<P: Procedure> Drop for Course<P> {
    fn drop(&mut self) {
        let Some(mut stage) = self.0.take() else { return };
        let _nobody = P::GONE.and_then(|gone| stage.take_in(gone));
        if stage.pending.is_some() {
            let session = stage.session.clone();
            let rest = async move { while stage.outcome().await.is_some() {} }.boxed();
            if P::OUTLASTS_THE_SESSION { session.finish_leaving(rest) } else { session.finish(rest) }
        }
    }
}
