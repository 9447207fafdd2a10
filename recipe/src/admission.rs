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
//!              +-- held ----- Settle ----> Tell(Admitted), Tell(Displaced)
//!
//!   our node in the turnstile is gone, or not as it was:  Tell(Displaced); after an attempt in doubt, Settle first
//!   no room, and the caller only tries:                   Leave ---> Tell(Busy)
//!   the caller goes:                                      Depart; after an attempt in doubt, Settle until the node is gone
//! ```
//!
//! # Invariants
//!
//! 1. At most one attempt of an admission takes effect, because each deletes our node in the turnstile. Another one is sent
//!    only after a reply, or a settlement, has shown that node untouched.
//! 2. An attempt may take effect from its command until a reply says that it did not, or until our node is found touched or gone.
//!    The machine does not end before, unless the session does, or is ended.
//! 3. A permit that a reply or a settlement shows goes to the caller if there is one, and is given back if not.
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
    state: State,
    /// Whether an attempt whose reply did not come may still take effect.
    doubtful: bool,
    /// Whether a caller waits to be told the outcome.
    awaited: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
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
    Delaying(Kind, Seen),
    /// `Attempt` is out, on this connection.
    Attempting(u64),
    /// `Settle` is out, because an attempt is in doubt. Something else may have shown that our node in the turnstile is gone, or not
    /// as it was. A server that shows it as held is behind then, or may not tell us more.
    Settling {
        lost: bool,
    },
    /// `Leave` is out, because there is no room.
    Leaving,
    /// `Settle` is out. Our node in the turnstile is being deleted, and an attempt may take effect before that.
    Parting,
    Ended,
}

/// What a look at a pool shows. The children are not older than the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
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
pub enum Standing {
    /// It is there, and nobody has written to it.
    Held,
    /// Somebody has written to it.
    Touched,
    /// It is gone.
    Gone,
}

/// What became of an attempt whose outcome was unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// It took effect: this is the permit.
    Admitted(Own),
    /// No attempt has taken effect, and our node in the turnstile is like this.
    Not(Standing),
    /// A node of this session may be the permit, and nobody can tell.
    Unclear(Refusal),
}

/// One input of an admission. A reply belongs to the last request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The acquisition holds the turnstile, and wants its permit.
    Begin,
    /// Reply to `Look`: our node in the turnstile, and the pool, if it exists.
    Looked(Standing, Option<(Seen, Stated)>),
    /// Reply to `Create`: the pool exists, or its parent does not.
    Created,
    /// Reply to `Watch`; nothing if the pool has changed since it was seen.
    Watched(Option<(Seen, Stated)>),
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
    /// Reply to `Settle`.
    Settled(Settlement),
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
pub enum Command {
    /// Read our node in the turnstile, the pool's data and its children, in this order.
    Look,
    /// Create the pool.
    Create,
    /// Watch the pool's data and its children, on the connection on which this was seen.
    Watch(Seen),
    /// Wait until a watch reports a change or is lost, or our node in the turnstile is touched.
    Wait,
    /// Wait for the takeover delay.
    Delay,
    /// Create the permit in place of our node in the turnstile, if the pool is as it was seen; on that connection.
    Attempt(Kind, Seen),
    /// Read our node in the turnstile, ask a quorum, and look for the permit, in this order.
    Settle,
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
    Tell(Outcome),
}

/// What becomes of an admission, for its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
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
pub enum Target {
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
pub fn attempt(kind: Kind, version: i32) -> [Operation<Target>; 4] {
    [
        Operation::Set(Target::Turnstile, Some(UNTOUCHED)),
        Operation::Create(Target::Permit(kind)),
        Operation::Set(Target::Pool, Some(version)),
        Operation::Delete(Target::Turnstile, None),
    ]
}

/// What it means that an attempt failed at this node.
pub fn attempt_failed(target: Target, problem: Problem) -> Event {
    match (target, problem) {
        (Target::Turnstile, _) => Event::NotHeld,
        (Target::Permit(_), Problem::NodeExists) => Event::Refused(Refusal::Other(
            "the next permit's name is taken: that node was made by hand, or the numbers are at their end; \
             delete that node, or the whole directory of permits while nobody holds one"
                .to_owned(),
        )),
        (Target::Permit(_) | Target::Pool, _) => Event::PoolChanged,
    }
}

impl Event {
    /// Whether this answers the last request in a way that brings the admission on. If several in a row do not, the next request
    /// should follow after a pause.
    pub fn is_news(&self) -> bool {
        !matches!(self, Self::Unanswered | Self::Refused(_) | Self::Settled(Settlement::Not(Standing::Held)))
    }
}

impl Admission {
    /// Makes an admission that has not begun.
    pub fn new(wish: Wish, patience: Patience, takeover: Takeover, arrival: Arrival) -> Self {
        Self { wish, patience, takeover, arrival, state: State::Idle, doubtful: false, awaited: true }
    }

    /// Whether there is nothing more to do.
    pub fn is_ended(&self) -> bool {
        self.state == State::Ended
    }

    /// Takes in one event, and returns the commands that follow from it.
    pub fn handle(&mut self, event: Event) -> Vec<Command> {
        use State::{
            Attempting, Creating, Delaying, Idle, Leaving, Looking, Parting, Settling, Waiting, Watching,
        };
        match (core::mem::replace(&mut self.state, State::Ended), event) {
            (State::Ended, _) => vec![],
            // No attempt takes effect any more, and all nodes go.
            (_, Event::SessionOver(_)) => self.end(Outcome::Displaced),
            (state @ (Attempting(_) | Settling { .. } | Parting), Event::GiveUp) => {
                (self.state, self.awaited) = (state, false);
                vec![]
            }
            (Leaving, Event::GiveUp) => vec![],
            (_, Event::GiveUp) => {
                self.awaited = false;
                self.depart()
            }
            (Idle, Event::Begin) => self.look(),

            (Looking, Event::Looked(Standing::Held, None)) => self.ask(Creating, Command::Create),
            (Looking, Event::Looked(Standing::Held, Some((seen, stated)))) => self.weigh(seen, stated, false),
            // It is still there, so no attempt has taken effect, and none does.
            (Looking, Event::Looked(Standing::Touched, _)) => self.displaced(Command::Forfeit),
            (Looking, Event::Looked(Standing::Gone, _)) => self.lose(Command::Spend),
            (Waiting, Event::Touched) | (Attempting(_), Event::NotHeld) => self.lose(Command::Forfeit),
            (Watching, Event::Watched(Some((seen, stated)))) => self.weigh(seen, stated, true),
            (Creating, Event::Created) | (Watching, Event::Watched(None)) | (Waiting, Event::Changed) => {
                self.look()
            }
            // Meanwhile a permit may have vanished unseen.
            (Looking | Creating | Watching, Event::Unanswered) => self.look_again(),
            (Delaying(kind, seen), Event::Delayed) => self.attempt(kind, seen),

            (Attempting(connection), Event::Admitted(permit)) => self.admitted(permit, Some(connection)),
            (Attempting(connection), Event::OtherPool(permit)) => {
                let mut commands = vec![Command::Spend, Command::GiveBack(permit, Some(connection))];
                commands.extend(self.tell(Outcome::Displaced));
                commands
            }
            (Attempting(_), Event::PoolChanged) => self.attempted_in_vain(),
            (Attempting(_), Event::Unanswered) => {
                self.doubtful = true;
                self.settle(false)
            }
            (Looking | Creating | Watching | Attempting(_), Event::Refused(refusal)) => {
                self.fail(Outcome::Refused(refusal))
            }

            // Its name may be another permit's by now, so it is looked at again before it is granted.
            (Settling { .. } | Parting, Event::Settled(Settlement::Admitted(permit))) => {
                self.admitted(permit, None)
            }
            (Settling { .. } | Parting, Event::Settled(Settlement::Unclear(refusal))) => {
                // A permit that nobody can identify would take its weight for as long as the session lives.
                let mut commands = vec![Command::EndSession(refusal)];
                commands.extend(self.end(Outcome::Displaced));
                commands
            }
            // No attempt takes effect any more: its node is gone, or about to be, and not as it was.
            (Settling { .. }, Event::Settled(Settlement::Not(Standing::Gone))) => {
                self.displaced(Command::Spend)
            }
            (Settling { .. }, Event::Settled(Settlement::Not(Standing::Touched)))
            | (Settling { lost: true }, Event::Settled(Settlement::Not(Standing::Held))) => {
                self.displaced(Command::Forfeit)
            }
            (Parting, Event::Settled(Settlement::Not(Standing::Gone | Standing::Touched))) => {
                vec![Command::ExpectLate]
            }
            (Settling { .. }, Event::Settled(Settlement::Not(Standing::Held))) => self.attempted_in_vain(),
            (Settling { lost }, Event::Unanswered | Event::Refused(_)) => self.settle(lost),
            (
                Parting,
                Event::Settled(Settlement::Not(Standing::Held)) | Event::Unanswered | Event::Refused(_),
            ) => self.ask(Parting, Command::Settle),

            (Leaving, Event::Left | Event::Unanswered) => self.tell(Outcome::Busy),
            // No reply to the last request.
            (state, _) => {
                self.state = state;
                vec![]
            }
        }
    }

    /// Decides by what was seen.
    fn weigh(&mut self, seen: Seen, stated: Stated, watched: bool) -> Vec<Command> {
        let Some(found) = seen.stock else { return self.fail(Outcome::Foreign) };
        match rule(&seen.children, found, stated.stock, self.wish) {
            Ruling::Refuse(Misfit::Stock(_)) if stated.changed => self.look_again(),
            Ruling::Refuse(misfit) => self.fail(Outcome::Unfit(misfit, found, stated.stock)),
            // The server takes the version -1 for any version, and would check nothing.
            Ruling::Admit(_) if seen.version < 0 => self.fail(Outcome::Refused(Refusal::Other(
                "the versions of the directory of permits are at their end; delete it while nobody holds a permit"
                    .to_owned(),
            ))),
            Ruling::Admit(kind) if !self.must_delay() => self.attempt(kind, seen),
            Ruling::Wait | Ruling::Admit(_) if self.patience == Patience::Try => self.busy(),
            Ruling::Admit(kind) => self.ask(State::Delaying(kind, seen), Command::Delay),
            Ruling::Wait if watched => self.ask(State::Waiting, Command::Wait),
            Ruling::Wait => {
                // Those who go from here on may have work in flight.
                self.arrival = Arrival::Queued;
                self.ask(State::Watching, Command::Watch(seen))
            }
        }
    }

    fn must_delay(&self) -> bool {
        (self.takeover, self.arrival) == (Takeover::Delayed, Arrival::Queued)
    }

    fn ask(&mut self, state: State, command: Command) -> Vec<Command> {
        self.state = state;
        vec![command]
    }

    fn look(&mut self) -> Vec<Command> {
        self.ask(State::Looking, Command::Look)
    }

    fn look_again(&mut self) -> Vec<Command> {
        self.arrival = Arrival::Queued;
        self.look()
    }

    fn attempt(&mut self, kind: Kind, seen: Seen) -> Vec<Command> {
        self.ask(State::Attempting(seen.connection), Command::Attempt(kind, seen))
    }

    fn settle(&mut self, lost: bool) -> Vec<Command> {
        self.ask(State::Settling { lost }, Command::Settle)
    }

    /// Our node in the turnstile is gone, or not as it was.
    fn lose(&mut self, turnstile: Command) -> Vec<Command> {
        if self.doubtful { self.settle(true) } else { self.displaced(turnstile) }
    }

    /// The turnstile is still held.
    fn attempted_in_vain(&mut self) -> Vec<Command> {
        if self.awaited { self.look_again() } else { self.depart() }
    }

    fn admitted(&mut self, permit: Own, connection: Option<u64>) -> Vec<Command> {
        let last = match self.awaited {
            true => Command::Tell(Outcome::Admitted(permit, connection)),
            false => Command::GiveBack(permit, connection),
        };
        vec![Command::Spend, last]
    }

    /// There is no room. The next one who only tries should find the turnstile free.
    fn busy(&mut self) -> Vec<Command> {
        if self.doubtful { self.fail(Outcome::Busy) } else { self.ask(State::Leaving, Command::Leave) }
    }

    /// No attempt takes effect any more.
    fn displaced(&mut self, turnstile: Command) -> Vec<Command> {
        let late = self.doubtful.then_some(Command::ExpectLate);
        self.doubtful = false;
        late.into_iter().chain([turnstile]).chain(self.tell(Outcome::Displaced)).collect()
    }

    /// Ends for the caller. An attempt in doubt is still looked after.
    fn fail(&mut self, outcome: Outcome) -> Vec<Command> {
        let mut commands = self.tell(outcome);
        commands.extend(self.depart());
        commands
    }

    fn depart(&mut self) -> Vec<Command> {
        let mut commands = vec![Command::Depart];
        if self.doubtful {
            commands.extend(self.ask(State::Parting, Command::Settle));
        }
        commands
    }

    fn end(&mut self, outcome: Outcome) -> Vec<Command> {
        let mut commands = vec![Command::Depart];
        commands.extend(self.tell(outcome));
        commands
    }

    fn tell(&mut self, outcome: Outcome) -> Vec<Command> {
        let awaited = core::mem::replace(&mut self.awaited, false);
        awaited.then_some(Command::Tell(outcome)).into_iter().collect()
    }
}

#[cfg(test)]
mod tests;
