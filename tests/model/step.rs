//! Every step that the world can take, and which of them it can take now.

use zklock::recipe::{Look, Sequence};

use crate::contender::{Caller, Contender, Pending};
use crate::server::Party;
use crate::session::Session;
use crate::setup::{Flaw, Setup};
use crate::world::World;

/// One step; most name a contender or a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Begin(Party, Look),
    GiveUp(Party),
    /// The holder is done, or drops a guard that it has lost.
    LetGo(Party),
    Settle(Party),
    /// The takeover delay is over.
    DelayOver(Party),
    /// The server applies the session's next request.
    Apply(usize),
    /// The server applies what it had received before the connection broke.
    ApplyStray(usize),
    /// The contender takes in what the network brings it next.
    Deliver(Party),
    /// The connection breaks; so much of what was under way had reached the client.
    Break {
        session: usize,
        kept: usize,
    },
    Reconnect(usize),
    Lapse(usize),
    Renew(usize),
    /// The server ends the session.
    Expire(usize),
    /// The client learns it.
    Told(usize),
    Close(usize),
    Reap,
    OperatorDeletes(Sequence),
    OperatorWrites(Sequence),
}

impl Step {
    /// Nobody need ever do this. All other steps happen sooner or later.
    pub(crate) fn is_voluntary(self, world: &World) -> bool {
        match self {
            Self::Begin(..)
            | Self::GiveUp(_)
            | Self::Settle(_)
            | Self::ApplyStray(_)
            | Self::Break { .. }
            | Self::Lapse(_)
            | Self::Close(_)
            | Self::Reap
            | Self::OperatorDeletes(_)
            | Self::OperatorWrites(_) => true,
            Self::Expire(session) => !world.sessions[session].over,
            Self::LetGo(_)
            | Self::DelayOver(_)
            | Self::Apply(_)
            | Self::Deliver(_)
            | Self::Reconnect(_)
            | Self::Renew(_)
            | Self::Told(_) => false,
        }
    }
}

impl World {
    /// Every step that can be taken now.
    pub(crate) fn steps(&self, setup: &Setup, steps: &mut Vec<Step>) {
        for (party, contender) in self.contenders.iter().enumerate() {
            let session = &self.sessions[contender.session];
            match contender.caller {
                Caller::Idle if !session.over && !self.has_idle_twin_before(party) => {
                    steps.extend(setup.looks.iter().map(|look| Step::Begin(party, *look)));
                }
                Caller::Waiting if setup.giving_up => steps.push(Step::GiveUp(party)),
                Caller::Holding { .. } => {
                    steps.push(Step::LetGo(party));
                    if setup.settling && !contender.settled {
                        steps.push(Step::Settle(party));
                    }
                }
                Caller::Idle | Caller::Waiting | Caller::Gone => {}
            }
            if contender.pending == Some(Pending::Delay) {
                steps.push(Step::DelayOver(party));
            }
            if session.down.iter().any(|(to, _)| *to == party) {
                steps.push(Step::Deliver(party));
            }
        }
        for (index, session) in self.sessions.iter().enumerate() {
            self.session_steps(index, session, setup, steps);
        }
        if self.faults.reaps > 0 && self.server.nodes.is_empty() && self.server.directory > Some(0) {
            steps.push(Step::Reap);
        }
        if self.faults.meddlings > 0 {
            steps.extend(self.server.nodes.iter().map(|node| Step::OperatorDeletes(node.own.sequence)));
            // What a client learns of a write that it missed is not modelled.
            if self.sessions.iter().all(|session| session.connected || session.over) {
                steps.extend(self.server.nodes.iter().map(|node| Step::OperatorWrites(node.own.sequence)));
            }
        }
    }

    fn session_steps(&self, index: usize, session: &Session, setup: &Setup, steps: &mut Vec<Step>) {
        let lingers = setup.flaw == Some(Flaw::OldConnectionLingers);
        if session.alive && !session.strays.is_empty() && (!session.connected || lingers) {
            steps.push(Step::ApplyStray(index));
        }
        if session.alive && session.over {
            steps.push(Step::Expire(index));
        }
        if session.over {
            return;
        }
        if !session.alive {
            steps.push(Step::Told(index));
            return;
        }
        // What happens to a session that nobody uses is of no interest.
        let busy = self.members(index).any(|party| {
            self.contenders[party].caller != Caller::Idle && !self.contenders[party].machine.is_ended()
        });
        if session.connected {
            if !session.up.is_empty() {
                steps.push(Step::Apply(index));
            }
            if self.faults.breaks > 0 && busy {
                steps.extend((0..=session.down.len()).map(|kept| Step::Break { session: index, kept }));
            }
        } else {
            steps.push(Step::Reconnect(index));
        }
        if !session.lease && session.connected {
            steps.push(Step::Renew(index));
        }
        if session.lease && self.faults.lapses > 0 && busy {
            steps.push(Step::Lapse(index));
        }
        let expirable = !session.lease || setup.flaw == Some(Flaw::LeaseIsTooLong);
        if expirable && self.faults.expiries > 0 && busy {
            steps.push(Step::Expire(index));
        }
        if self.faults.closings > 0 && busy {
            steps.push(Step::Close(index));
        }
    }

    /// True if there is no step left that must happen.
    pub(crate) fn is_quiet(&self, setup: &Setup) -> bool {
        let mut steps = Vec::new();
        self.steps(setup, &mut steps);
        steps.iter().all(|step| step.is_voluntary(self))
    }

    /// Contenders that cannot be told apart begin in their order, so that the same is not looked at twice.
    fn has_idle_twin_before(&self, party: Party) -> bool {
        let Some(before) = party.checked_sub(1) else { return false };
        let (one, other) = (&self.contenders[before], &self.contenders[party]);
        let alone = |contender: &Contender| self.members(contender.session).count() == 1;
        one.caller == Caller::Idle
            && one.patience == other.patience
            && (one.session == other.session || (alone(one) && alone(other)))
    }
}
