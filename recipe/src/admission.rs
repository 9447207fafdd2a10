//! The admission to a pool: from the turnstile to the permit.
//!
//! An acquisition that holds the pool's turnstile looks at the pool, waits until its wish fits, and sends one transaction. It
//! creates the permit, writes to the pool, and deletes our node in the turnstile (`permits.rs` argues why the capacity is
//! never exceeded).
//!
//! ```text
//!            Create <---+  the pool is missing
//!              |        |
//!   Begin ---> Look ----+--- no room ----> Watch ---> Wait
//!              ^  ^     |                    |          | changed
//!              |  +-----|--------------------|----------+
//!              |        | room               | room
//!              |        +--------+-----------+
//!              |                 v
//!              |               Delay, if one applies
//!              |                 v
//!              +-- changed -- Attempt ---> Tell(Admitted)
//!              |                 | nobody answers
//!              |                 v
//!              +-- held ----- Recover ---> Tell(Admitted), Tell(Displaced)
//!
//!   our node in the turnstile is gone, or not as it was:  Tell(Displaced); after an attempt in doubt, Recover first
//!   no room, and the caller only tries:                   Leave ---> Tell(Busy)
//!   the caller goes:                                      Depart; after an attempt in doubt, Recover until the node is gone
//! ```
//!
//! # Invariants
//!
//! 1. At most one attempt of an admission takes effect, because each deletes our node in the turnstile. Another one is sent
//!    only after a reply has shown that node untouched.
//! 2. An attempt may take effect from its command until a reply says that it did not, or until our node is found touched or gone.
//!    The machine does not end before, unless the session does, or is ended.
//! 3. A permit that a reply shows goes to the caller if there is one, and is given back if not.
//! 4. If the acquisition had to wait, or nobody answered, or an attempt was in vain, a permit may have vanished meanwhile. Then the
//!    takeover delay passes between the look and the attempt. The attempt takes only what was free at the look, and fails if
//!    somebody has taken that since.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use crate::contender::{Kind, Own};
use crate::event::Refusal;
use crate::lease::SessionEnd;
use crate::machine::{Arrival, Patience, Takeover};
use crate::permits::{Misfit, Ruling, Stock, Wish, rule};
use crate::transaction::{Operation, Problem, UNTOUCHED};

/// One acquisition that holds the turnstile of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    wish: Wish,
    patience: Patience,
    takeover: Takeover,
    /// Whether a permit may have vanished since the acquisition came.
    arrival: Arrival,
    state: AdmissionState,
    /// Whether an attempt whose reply did not come may still take effect.
    doubtful: bool,
    /// Whether a caller waits to be told the outcome.
    awaited: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum AdmissionState {
    Idle,
    /// `Look` is out.
    Looking,
    /// `Create` is out.
    Creating,
    /// `Watch` is out.
    Watching,
    /// `Wait` is out.
    Waiting,
    /// `Delay` is out, and this attempt is to follow.
    Delaying(Kind, SeenPool),
    /// `Attempt` is out, on this connection.
    Attempting(u64),
    /// `Recover` is out, because an attempt is in doubt. Something else may have shown that our node in the turnstile is gone, or not
    /// as it was. A server that shows it as held is behind then, or may not tell us more.
    Recovering {
        lost: bool,
    },
    /// `Leave` is out, because there is no room.
    Leaving,
    /// `Recover` is out. Our node in the turnstile is being deleted, and an attempt may take effect before that.
    Parting,
    Ended,
}

/// What a look at a pool shows. The children are not older than the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenPool {
    /// The pool's data.
    pub data: Vec<u8>,
    /// What the pool has, by that data; `None` if they are not zklock's.
    pub stock: Option<Stock>,
    /// The version of that data.
    pub version: i32,
    /// The transaction that created the pool. A pool that is made again begins with version 0 again.
    pub czxid: i64,
    /// The names of the pool's children.
    pub children: Vec<String>,
    /// The connection on which this was seen.
    pub connection: u64,
}

/// What our process states that the pool has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stated {
    /// How much.
    pub stock: Stock,
    /// Whether that has changed since the last `Look` was sent, so that what was seen may be older.
    pub changed: bool,
}

/// Our node in the turnstile, as a server shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnstileStanding {
    /// It is there, and nobody has written to it.
    Held,
    /// Somebody has written to it.
    Touched,
    /// It is gone.
    Gone,
}

/// What became of an attempt whose outcome was unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptFate {
    /// It took effect: this is the permit.
    Admitted(Own),
    /// No attempt has taken effect, and our node in the turnstile is like this.
    Not(TurnstileStanding),
    /// A node of this session may be the permit, and nobody can tell.
    Unclear(Refusal),
}

/// One input of an admission. A reply belongs to the last request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdmissionEvent {
    /// The acquisition holds the turnstile, and wants its permit.
    Begin,
    /// Reply to `Look`: our node in the turnstile, and the pool, if it exists.
    Looked(TurnstileStanding, Option<(SeenPool, Stated)>),
    /// Reply to `Create`: the pool exists, or its parent does not.
    Created,
    /// Reply to `Watch`; nothing if the pool has changed since it was seen.
    Watched(Option<(SeenPool, Stated)>),
    /// The wait is over: the pool has changed, or a watch was lost, or nothing was heard for long.
    Changed,
    /// The wait is over: somebody has deleted our node in the turnstile, or has written to it.
    Touched,
    /// The takeover delay has passed.
    Delayed,
    /// Reply to `Attempt`: the permit exists, and our node in the turnstile is gone.
    Admitted(Own),
    /// As `Admitted`, but the pool was made again since it was seen, so the permit is there by another pool's stock.
    OtherPool(Own),
    /// Reply to `Attempt`: the pool has changed since it was seen, or is gone. Nothing was written.
    PoolChanged,
    /// Reply to `Attempt`: our node in the turnstile is not as it was. An earlier attempt may have taken effect.
    NotHeld,
    /// Reply to `Recover`.
    Recovered(AttemptFate),
    /// Reply to `Leave`, or there will be none.
    Left,
    /// The server refused the last request. It had no effect.
    Refused(Refusal),
    /// The last request was not answered. It may have taken effect.
    Unanswered,
    /// The session is over, and its nodes go with it.
    SessionOver(SessionEnd),
    /// The caller has gone.
    GiveUp,
}

/// One output of an admission. Those from `Look` to `Leave` are requests, and one event answers each. A new request takes the place
/// of the last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdmissionCommand {
    /// Read our node in the turnstile, the pool's data and its children, in this order.
    Look,
    /// Create the pool.
    Create,
    /// Watch the pool's data and its children, on the connection on which this was seen.
    Watch(SeenPool),
    /// Wait until a watch reports a change or is lost, or our node in the turnstile is touched.
    Wait,
    /// Wait for the takeover delay.
    Delay,
    /// Create the permit in place of our node in the turnstile, if the pool is as it was seen; on that connection.
    Attempt(Kind, SeenPool),
    /// Read our node in the turnstile, ask a quorum, and look for the permit, in this order.
    Recover,
    /// Leave the turnstile, and have that confirmed.
    Leave,
    /// Leave the turnstile in the background.
    Depart,
    /// As that, for a node that may be gone: its name may be another contender's by now.
    Forfeit,
    /// Forget our node in the turnstile, which is gone.
    Spend,
    /// Look out for a permit that is created late: if ZooKeeper removes the empty turnstile, another contender may get the name
    /// of our node, and an attempt that is still on its way would take that node for ours.
    ExpectLate,
    /// End the session, because nobody can tell which node is ours. The node goes with it.
    EndSession(Refusal),
    /// Give back this permit, which nobody wants or nobody may have. It was seen on this connection, if on any.
    GiveBack(Own, Option<u64>),
    /// Tell the caller.
    Tell(AdmissionOutcome),
}

/// What becomes of an admission, for its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdmissionOutcome {
    /// The permit exists. It was seen on this connection. If on none, its name may be another permit's by now.
    Admitted(Own, Option<u64>),
    /// There is no room, and the caller does not wait.
    Busy,
    /// The acquisition has lost the turnstile, and has no permit.
    Displaced,
    /// The pool's data are not zklock's.
    Foreign,
    /// The wish does not belong into this pool, which has the first of the two, while the second is stated.
    Unfit(Misfit, Stock, Stock),
    /// The server refused a request.
    Refused(Refusal),
}

/// A node of an attempt's transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmissionTarget {
    /// Our node in the turnstile.
    Turnstile,
    /// The permit that is created.
    Permit(Kind),
    /// The pool, whose data are written as they were seen.
    Pool,
}

/// The transaction of an attempt, for a pool that was seen in this version.
///
/// A write and a deletion in the turnstile grant it to the next one there without a listing. The permit comes before the pool's new
/// version: a server applies a transaction step by step, so nobody sees the new version without the new permit.
pub fn attempt(kind: Kind, version: i32) -> [Operation<AdmissionTarget>; 4] {
    [
        Operation::Set(AdmissionTarget::Turnstile, Some(UNTOUCHED)),
        Operation::Create(AdmissionTarget::Permit(kind)),
        Operation::Set(AdmissionTarget::Pool, Some(version)),
        Operation::Delete(AdmissionTarget::Turnstile, None),
    ]
}

/// What it means that an attempt failed at this node.
pub fn attempt_failed(target: AdmissionTarget, problem: Problem) -> AdmissionEvent {
    match (target, problem) {
        (AdmissionTarget::Turnstile, _) => AdmissionEvent::NotHeld,
        (AdmissionTarget::Permit(_), Problem::NodeExists) => AdmissionEvent::Refused(Refusal::Other(
            "the next permit's name is taken: that node was made by hand, or the numbers are at their end; \
             delete that node, or the whole directory of permits while nobody holds one"
                .to_owned(),
        )),
        (AdmissionTarget::Permit(_) | AdmissionTarget::Pool, _) => AdmissionEvent::PoolChanged,
    }
}

impl AdmissionEvent {
    /// Whether this answers the last request in a way that brings the admission on. If several in a row do not, the next request
    /// should follow after a pause.
    pub fn is_news(&self) -> bool {
        !matches!(
            self,
            Self::Unanswered | Self::Refused(_) | Self::Recovered(AttemptFate::Not(TurnstileStanding::Held))
        )
    }
}

impl Admission {
    /// Makes an admission that has not begun.
    pub fn new(wish: Wish, patience: Patience, takeover: Takeover, arrival: Arrival) -> Self {
        Self {
            wish,
            patience,
            takeover,
            arrival,
            state: AdmissionState::Idle,
            doubtful: false,
            awaited: true,
        }
    }

    /// Whether there is nothing more to do.
    pub fn is_ended(&self) -> bool {
        self.state == AdmissionState::Ended
    }

    /// Takes in one event, and returns the commands that follow from it.
    pub fn handle(&mut self, event: AdmissionEvent) -> Vec<AdmissionCommand> {
        use AdmissionState::{
            Attempting, Creating, Delaying, Idle, Leaving, Looking, Parting, Recovering, Waiting, Watching,
        };
        match (core::mem::replace(&mut self.state, AdmissionState::Ended), event) {
            (AdmissionState::Ended, _) => vec![],
            // No attempt takes effect any more, and all nodes go.
            (_, AdmissionEvent::SessionOver(_)) => self.end(AdmissionOutcome::Displaced),
            (state @ (Attempting(_) | Recovering { .. } | Parting), AdmissionEvent::GiveUp) => {
                self.state = state;
                self.awaited = false;
                vec![]
            }
            (Leaving, AdmissionEvent::GiveUp) => vec![],
            (_, AdmissionEvent::GiveUp) => {
                self.awaited = false;
                self.depart()
            }
            (Idle, AdmissionEvent::Begin) => self.look_at_pool(),

            (Looking, AdmissionEvent::Looked(TurnstileStanding::Held, None)) => {
                self.request(Creating, AdmissionCommand::Create)
            }
            (Looking, AdmissionEvent::Looked(TurnstileStanding::Held, Some((seen, stated)))) => {
                self.weigh(seen, stated, false)
            }
            // It is still there, so no attempt has taken effect, and none does.
            (Looking, AdmissionEvent::Looked(TurnstileStanding::Touched, _)) => {
                self.displaced(AdmissionCommand::Forfeit)
            }
            (Looking, AdmissionEvent::Looked(TurnstileStanding::Gone, _)) => {
                self.lose(AdmissionCommand::Spend)
            }
            (Waiting, AdmissionEvent::Touched) | (Attempting(_), AdmissionEvent::NotHeld) => {
                self.lose(AdmissionCommand::Forfeit)
            }
            (Watching, AdmissionEvent::Watched(Some((seen, stated)))) => self.weigh(seen, stated, true),
            (Creating, AdmissionEvent::Created)
            | (Watching, AdmissionEvent::Watched(None))
            | (Waiting, AdmissionEvent::Changed) => self.look_at_pool(),
            // Meanwhile a permit may have vanished unseen.
            (Looking | Creating | Watching, AdmissionEvent::Unanswered) => self.look_again(),
            (Delaying(kind, seen), AdmissionEvent::Delayed) => self.attempt(kind, seen),

            (Attempting(connection), AdmissionEvent::Admitted(permit)) => {
                self.admitted(permit, Some(connection))
            }
            (Attempting(connection), AdmissionEvent::OtherPool(permit)) => {
                let mut commands =
                    vec![AdmissionCommand::Spend, AdmissionCommand::GiveBack(permit, Some(connection))];
                commands.extend(self.tell_outcome(AdmissionOutcome::Displaced));
                commands
            }
            (Attempting(_), AdmissionEvent::PoolChanged) => self.attempted_in_vain(),
            (Attempting(_), AdmissionEvent::Unanswered) => {
                self.doubtful = true;
                self.recover(false)
            }
            (Looking | Creating | Watching | Attempting(_), AdmissionEvent::Refused(refusal)) => {
                self.fail(AdmissionOutcome::Refused(refusal))
            }

            // Its name may be another permit's by now, so it is looked at again before it is granted.
            (Recovering { .. } | Parting, AdmissionEvent::Recovered(AttemptFate::Admitted(permit))) => {
                self.admitted(permit, None)
            }
            (Recovering { .. } | Parting, AdmissionEvent::Recovered(AttemptFate::Unclear(refusal))) => {
                // A permit that nobody can identify would take its weight for as long as the session lives.
                let mut commands = vec![AdmissionCommand::EndSession(refusal)];
                commands.extend(self.end(AdmissionOutcome::Displaced));
                commands
            }
            // No attempt takes effect any more: its node is gone, or about to be, and not as it was.
            (Recovering { .. }, AdmissionEvent::Recovered(AttemptFate::Not(TurnstileStanding::Gone))) => {
                self.displaced(AdmissionCommand::Spend)
            }
            (Recovering { .. }, AdmissionEvent::Recovered(AttemptFate::Not(TurnstileStanding::Touched)))
            | (
                Recovering { lost: true },
                AdmissionEvent::Recovered(AttemptFate::Not(TurnstileStanding::Held)),
            ) => self.displaced(AdmissionCommand::Forfeit),
            (
                Parting,
                AdmissionEvent::Recovered(AttemptFate::Not(
                    TurnstileStanding::Gone | TurnstileStanding::Touched,
                )),
            ) => {
                vec![AdmissionCommand::ExpectLate]
            }
            (Recovering { .. }, AdmissionEvent::Recovered(AttemptFate::Not(TurnstileStanding::Held))) => {
                self.attempted_in_vain()
            }
            (Recovering { lost }, AdmissionEvent::Unanswered | AdmissionEvent::Refused(_)) => {
                self.recover(lost)
            }
            (
                Parting,
                AdmissionEvent::Recovered(AttemptFate::Not(TurnstileStanding::Held))
                | AdmissionEvent::Unanswered
                | AdmissionEvent::Refused(_),
            ) => self.request(Parting, AdmissionCommand::Recover),

            (Leaving, AdmissionEvent::Left | AdmissionEvent::Unanswered) => {
                self.tell_outcome(AdmissionOutcome::Busy)
            }
            // No reply to the last request.
            (state, _) => {
                self.state = state;
                vec![]
            }
        }
    }

    /// Decides by what was seen.
    fn weigh(&mut self, seen: SeenPool, stated: Stated, watched: bool) -> Vec<AdmissionCommand> {
        let Some(found) = seen.stock else { return self.fail(AdmissionOutcome::Foreign) };
        match rule(&seen.children, found, stated.stock, self.wish) {
            Ruling::Refuse(Misfit::Stock(_)) if stated.changed => self.look_again(),
            Ruling::Refuse(misfit) => self.fail(AdmissionOutcome::Unfit(misfit, found, stated.stock)),
            // The server takes the version -1 for any version, and would check nothing.
            Ruling::Admit(_) if seen.version < 0 => self.fail(AdmissionOutcome::Refused(Refusal::Other(
                "the versions of the directory of permits are at their end; delete it while nobody holds a permit"
                    .to_owned(),
            ))),
            Ruling::Admit(kind) if !self.must_delay() => self.attempt(kind, seen),
            Ruling::Wait | Ruling::Admit(_) if self.patience == Patience::Try => self.busy(),
            Ruling::Admit(kind) => self.request(AdmissionState::Delaying(kind, seen), AdmissionCommand::Delay),
            Ruling::Wait if watched => self.request(AdmissionState::Waiting, AdmissionCommand::Wait),
            Ruling::Wait => {
                // Those who go from here on may have work in flight.
                self.arrival = Arrival::Queued;
                self.request(AdmissionState::Watching, AdmissionCommand::Watch(seen))
            }
        }
    }

    fn must_delay(&self) -> bool {
        (self.takeover, self.arrival) == (Takeover::Delayed, Arrival::Queued)
    }

    fn request(&mut self, state: AdmissionState, command: AdmissionCommand) -> Vec<AdmissionCommand> {
        self.state = state;
        vec![command]
    }

    fn look_at_pool(&mut self) -> Vec<AdmissionCommand> {
        self.request(AdmissionState::Looking, AdmissionCommand::Look)
    }

    fn look_again(&mut self) -> Vec<AdmissionCommand> {
        self.arrival = Arrival::Queued;
        self.look_at_pool()
    }

    fn attempt(&mut self, kind: Kind, seen: SeenPool) -> Vec<AdmissionCommand> {
        self.request(AdmissionState::Attempting(seen.connection), AdmissionCommand::Attempt(kind, seen))
    }

    fn recover(&mut self, lost: bool) -> Vec<AdmissionCommand> {
        self.request(AdmissionState::Recovering { lost }, AdmissionCommand::Recover)
    }

    /// Our node in the turnstile is gone, or not as it was.
    fn lose(&mut self, turnstile: AdmissionCommand) -> Vec<AdmissionCommand> {
        if self.doubtful { self.recover(true) } else { self.displaced(turnstile) }
    }

    /// The turnstile is still held.
    fn attempted_in_vain(&mut self) -> Vec<AdmissionCommand> {
        if self.awaited { self.look_again() } else { self.depart() }
    }

    fn admitted(&mut self, permit: Own, connection: Option<u64>) -> Vec<AdmissionCommand> {
        let last = if self.awaited {
            AdmissionCommand::Tell(AdmissionOutcome::Admitted(permit, connection))
        } else {
            AdmissionCommand::GiveBack(permit, connection)
        };
        vec![AdmissionCommand::Spend, last]
    }

    /// There is no room. The next one who only tries should find the turnstile free.
    fn busy(&mut self) -> Vec<AdmissionCommand> {
        if self.doubtful {
            self.fail(AdmissionOutcome::Busy)
        } else {
            self.request(AdmissionState::Leaving, AdmissionCommand::Leave)
        }
    }

    /// No attempt takes effect any more.
    fn displaced(&mut self, turnstile: AdmissionCommand) -> Vec<AdmissionCommand> {
        let late = self.doubtful.then_some(AdmissionCommand::ExpectLate);
        self.doubtful = false;
        late.into_iter().chain([turnstile]).chain(self.tell_outcome(AdmissionOutcome::Displaced)).collect()
    }

    /// Ends for the caller. An attempt in doubt is still looked after.
    fn fail(&mut self, outcome: AdmissionOutcome) -> Vec<AdmissionCommand> {
        let mut commands = self.tell_outcome(outcome);
        commands.extend(self.depart());
        commands
    }

    fn depart(&mut self) -> Vec<AdmissionCommand> {
        let mut commands = vec![AdmissionCommand::Depart];
        if self.doubtful {
            commands.extend(self.request(AdmissionState::Parting, AdmissionCommand::Recover));
        }
        commands
    }

    fn end(&mut self, outcome: AdmissionOutcome) -> Vec<AdmissionCommand> {
        let mut commands = vec![AdmissionCommand::Depart];
        commands.extend(self.tell_outcome(outcome));
        commands
    }

    fn tell_outcome(&mut self, outcome: AdmissionOutcome) -> Vec<AdmissionCommand> {
        let awaited = core::mem::replace(&mut self.awaited, false);
        awaited.then_some(AdmissionCommand::Tell(outcome)).into_iter().collect()
    }
}

#[cfg(test)]
mod tests;
