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
    /// What the caller is told.
    type Outcome;

    /// Whether what it writes outlasts the session, so that the session's close waits for it.
    const OUTLASTS_THE_SESSION: bool;

    /// Gives the machine what came of its last request, and performs what follows.
    fn take_in(&mut self, heard: Self::Heard) -> Performed<Self::Heard, Self::Outcome>;

    /// Tells the machine that its caller has gone, and performs what follows.
    fn give_up(&mut self) -> Performed<Self::Heard, Self::Outcome>;

    fn session(&self) -> &Arc<ZkSession>;
}

/// What a machine has asked for.
pub(crate) struct Performed<H, O> {
    pub(crate) next: Next<H>,
    /// What the caller is told, if anything.
    pub(crate) told: Option<O>,
}

/// What is to be awaited from here on.
pub(crate) enum Next<H> {
    /// The same as before.
    AsBefore,
    /// This request, instead of the last one.
    Request(BoxFuture<'static, H>),
    /// Nothing any more.
    End,
}

/// A procedure under way.
pub(crate) struct Course<P: Procedure>(Option<Stage<P>>);

struct Stage<P: Procedure> {
    procedure: P,
    pending: Option<BoxFuture<'static, P::Heard>>,
}

impl<P: Procedure> Course<P> {
    /// Begins with this.
    pub(crate) fn begin(mut procedure: P, first: P::Heard) -> Self {
        let performed = procedure.take_in(first);
        let mut stage = Stage { procedure, pending: None };
        stage.follow(performed);
        Self(Some(stage))
    }

    /// Whether nothing is awaited any more.
    pub(crate) fn is_over(&self) -> bool {
        self.0.as_ref().is_none_or(|stage| stage.pending.is_none())
    }

    /// Resolves to what the caller is told; `None` if the procedure has ended without that.
    pub(crate) async fn outcome(&mut self) -> Option<P::Outcome> {
        match &mut self.0 {
            Some(stage) => stage.outcome().await,
            None => None,
        }
    }
}

impl<P: Procedure> Stage<P> {
    async fn outcome(&mut self) -> Option<P::Outcome> {
        while let Some(pending) = &mut self.pending {
            let heard = pending.await;
            self.pending = None;
            let performed = self.procedure.take_in(heard);
            if let Some(outcome) = self.follow(performed) {
                return Some(outcome);
            }
        }
        None
    }

    fn follow(&mut self, performed: Performed<P::Heard, P::Outcome>) -> Option<P::Outcome> {
        match performed.next {
            Next::AsBefore => {
                let goes_on = self.pending.is_some() || performed.told.is_some() || std::thread::panicking();
                debug_assert!(goes_on, "it would stop here");
            }
            Next::Request(request) => self.pending = Some(request),
            Next::End => self.pending = None,
        }
        performed.told
    }
}

impl<P: Procedure> Drop for Course<P> {
    fn drop(&mut self) {
        let Some(mut stage) = self.0.take() else { return };
        let performed = stage.procedure.give_up();
        let _nobody = stage.follow(performed);
        if stage.pending.is_some() {
            let session = stage.procedure.session().clone();
            let rest = async move { while stage.outcome().await.is_some() {} }.boxed();
            if P::OUTLASTS_THE_SESSION { session.finish_write(rest) } else { session.finish(rest) }
        }
    }
}
