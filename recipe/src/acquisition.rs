//! One acquisition: its [group](Group), and what it knows of its nodes, its connections and its requests.
//!
//! The executor says what it heard and how the session stands at that instant. It performs each command, and decides
//! nothing.
//!
//! ```text
//!   caller, watches --- Heard -------------->  +-------------+  --- All, One ------------->  requests
//!   replies ----------- Reply, Lost, .. ---->  | Acquisition |  --- ExpectLate, EndSession -> session
//!   session ----------- Present ------------>  |   (Group)   |  --- Tell ----------------->  caller
//!                                              +-------------+
//! ```
//!
//! # Invariants
//!
//! 1. The group is told `Confirmed` only with a term: the lease is valid at that instant. And a server has shown each of our
//!    nodes: by the reply that is taken in, or on the present connection.
//! 2. A request names a node of ours without a look at it only on the connection on which a server last showed us that node.
//!    On a later one, somebody may have deleted it, and another contender may have its name. For a contender that
//!    leaves before the grant because its caller gives up or a look is refused, or after a loss, the sight is too old: it may have
//!    waited for long, and may not have heard yet what that connection has to say.
//! 3. If somebody else has touched one of our nodes, we doubt all of them: a common ancestor of the queues may be gone. A holder that
//!    has heard of it believes no older sight of its nodes, however late that comes.
//! 4. A create that was not answered, and whose node was not found, may still take effect. The session is told before the
//!    next create, and at the end. It is not told before, because another search may still find the node.
//! 5. Once the acquisition has heard that the session is over, no request follows.

use alloc::vec::Vec;
use core::hash::{Hash, Hasher};

use crate::command::{Alone, Together};
use crate::contender::Own;
use crate::event::{Event, Refusal, Sight};
use crate::group::{Group, Outcome, Output, Report};
use crate::lease::{Present, SessionEnd};
use crate::machine::{Arrival, Machine, Patience, Takeover};
use crate::tries::Tries;

/// The contenders of one acquisition, and what they have seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acquisition {
    group: Group,
    members: Vec<AcquisitionMember>,
    arrival: Arrival,
    /// The tries of the requests for all.
    tries: Tries,
    /// Whether somebody else has touched one of the holder's nodes.
    is_touched: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct AcquisitionMember {
    takeover: Takeover,
    /// The connection on which our node was last seen. Nothing if that is too long ago, or if the node may be touched.
    seen: Option<u64>,
    /// Whether the last create may still take effect, though its node was not found.
    may_come_late: bool,
    tries: Tries,
}

/// One input of an acquisition. A reply belongs to the last request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The caller's wish, what a watch shows, the end of a takeover delay, or the end of the session. Or the caller gave up before
    /// `Enter` or `CreateDirectory` was sent, and nobody sends it any more.
    Heard(Report),
    /// The reply to a request, on this connection.
    Reply(Report, u64),
    /// Reply to `Confirm`, on this connection: our nodes exist.
    NodesConfirmed(u64),
    /// Reply to `Confirm` with nodes that were seen: a quorum has answered.
    LeaseConfirmed,
    /// The connection was lost before the reply to the last request: of this member, or else for all.
    Lost(Option<usize>),
}

/// One output of an acquisition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send a request for all members, after the pause that these tries call for. It takes the place of every earlier
    /// request. The certainty counts for `Confirm` and `Release`. If our nodes were seen, `Confirm` asks a quorum anything.
    /// Otherwise it asks a quorum for our nodes.
    All(Together, Certainty, Tries),
    /// As `All`, for this member. It takes the place of the member's earlier request, and of one for all.
    One(usize, Alone, Ground, Tries),
    /// Look out for this member's node: the last create may still take effect.
    ExpectLate(usize),
    /// End the session, because nobody can tell which node is this member's. The node goes with it.
    EndSession(usize, Refusal),
    /// Tell the caller. Once the locks are held, and once the acquisition has ended, no reply to an earlier request counts any more.
    Tell(Outcome),
}

/// On what a request of one member relies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ground {
    /// How sure we are of its node. It counts for `Release` and `Delete`.
    pub certainty: Certainty,
    /// Which search counts for `Find`.
    pub search: Search,
}

/// How sure we are that the nodes of our nodes' names are ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// Our nodes were seen on the present connection, which has this number. The request must go out on no other one.
    Seen(u64),
    /// Look at the nodes first.
    Unsure,
}

/// Which search shows a lost create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// One that begins from now on: the create was sent on this very connection.
    After,
    /// Any on this connection, also one under way: the create was sent on an earlier connection.
    Present,
}

impl Acquisition {
    /// Makes the contenders of one acquisition, which have not begun: one for each of these.
    pub fn new(
        patience: Patience,
        arrival: Arrival,
        takeovers: impl IntoIterator<Item = Takeover, IntoIter: Clone>,
    ) -> Self {
        let takeovers = takeovers.into_iter();
        let machines = takeovers.clone().map(|takeover| Machine::new(patience, takeover, arrival));
        let group = Group::new(machines);
        Self {
            group,
            members: takeovers.map(AcquisitionMember::new).collect(),
            arrival,
            tries: Tries::default(),
            is_touched: false,
        }
    }

    /// Makes a contender that needs no queue: a transaction on this connection has created its node, and that alone has
    /// granted it. It asks for confirmation once it begins.
    pub fn of_admitted(own: Own, connection: Option<u64>) -> Self {
        let member = AcquisitionMember { seen: connection, ..AcquisitionMember::new(Takeover::AtOnce) };
        let group = Group::new([Machine::of_admitted(own)]);
        Self {
            group,
            members: [member].into(),
            arrival: Arrival::New,
            tries: Tries::default(),
            is_touched: false,
        }
    }

    /// Returns a member's own node, once it is known and until it is gone.
    pub fn own(&self, member: usize) -> Option<Own> {
        self.group.own(member)
    }

    /// Returns true once there is nothing more to do.
    pub fn is_ended(&self) -> bool {
        self.group.is_ended()
    }

    /// Returns whether a predecessor may have vanished since the caller came: a contender had one, or was without an
    /// answer.
    pub fn arrival(&self) -> Arrival {
        self.arrival
    }

    /// Returns the connection on which each of our nodes was last seen, if that is known.
    pub fn seen(&self) -> Option<u64> {
        self.sights().min().flatten()
    }

    /// As [`seen`](Self::seen), of each member.
    pub fn sights(&self) -> impl Iterator<Item = Option<u64>> {
        self.members.iter().map(|member| member.seen)
    }

    /// Takes in that the holder's nodes were seen on this connection. The news may come late: an earlier connection changes
    /// nothing, and nothing does once one of the nodes was touched.
    pub fn saw(&mut self, connection: u64) {
        self.mark_seen(connection, |_| true);
    }

    /// Takes in that the nodes of these members were seen.
    fn mark_seen(&mut self, connection: u64, whose: impl Fn(usize) -> bool) {
        for (index, member) in self.members.iter_mut().enumerate() {
            if whose(index) && !self.is_touched {
                member.seen = member.seen.max(Some(connection));
            }
        }
    }

    /// Forgets where our nodes were seen.
    fn forget_sights(&mut self) {
        self.members.iter_mut().for_each(|member| member.seen = None);
    }

    /// Returns whether the nodes of our nodes' names are certainly ours while this connection is the present one.
    pub fn certainty(&self, connection: Option<u64>) -> Certainty {
        certainty(self.seen(), connection)
    }

    /// Takes in one input while the session stands like this, and returns the commands that follow from it.
    pub fn handle(&mut self, input: Input, present: Present) -> Vec<Effect> {
        let search = if let Input::Lost(_) = input { Search::Present } else { Search::After };
        let mut commands = Vec::new();
        let is_over = input.session_end().is_some();
        let heard = self.interpret_input(input, present);
        self.take_in(heard, search, present, &mut commands);
        let asks = |command: &Effect| matches!(command, Effect::All(..) | Effect::One(..));
        debug_assert!(!is_over || !commands.iter().any(asks), "a request follows the end of the session");
        commands
    }

    /// Returns what an input means for the group.
    fn interpret_input(&mut self, input: Input, present: Present) -> Report {
        let over = input.session_end();
        let heard = match input {
            Input::Heard(heard) => heard,
            Input::Reply(Report::Entered(nodes), connection) => {
                self.saw(connection);
                // The reply has waited for its caller, and the connection is lost. A predecessor may have vanished since.
                let is_late = present.connection != Some(connection);
                let unseen = |(own, sight)| (own, if is_late { Sight::Nothing } else { sight });
                Report::Entered(nodes.into_iter().map(unseen).collect())
            }
            Input::Reply(reply, connection) => {
                if let Report::One(member, Event::OwnWatched(true)) = reply {
                    self.mark_seen(connection, |index| index == member);
                }
                reply
            }
            Input::NodesConfirmed(connection) => {
                self.saw(connection);
                self.lease_report(present)
            }
            // Meanwhile another connection may have come, on which our nodes were not seen.
            Input::LeaseConfirmed if self.certainty(present.connection) == Certainty::Unsure => {
                Report::All(Event::Unanswered)
            }
            Input::LeaseConfirmed => self.lease_report(present),
            Input::Lost(None) => Report::All(Event::Unanswered),
            Input::Lost(Some(member)) => Report::One(member, Event::Unanswered),
        };
        // No answer comes any more in a session that is over, however often the contenders ask.
        let in_vain = matches!(
            heard,
            Report::All(Event::Unanswered) | Report::One(_, Event::Unanswered | Event::WatchLost)
        );
        match over.or(present.end().filter(|_| in_vain)) {
            Some(end) => Report::All(Event::SessionOver(end)),
            None => heard,
        }
    }

    /// A quorum has answered. If the lease is not valid all the same, it has to be asked again.
    fn lease_report(&mut self, present: Present) -> Report {
        Report::All(match present.term {
            Ok(term) => Event::Confirmed(term),
            Err(_) => {
                self.tries.steady();
                Event::Unanswered
            }
        })
    }

    /// Gives the group what was heard, and adds the commands that follow.
    fn take_in(&mut self, heard: Report, search: Search, present: Present, commands: &mut Vec<Effect>) {
        self.note_report(&heard);
        let is_ours = matches!(heard, Report::One(_, Event::Released(true) | Event::Deleted));
        // If another member finds its node, this one may have been deleted.
        let is_missing = matches!(heard, Report::One(_, Event::Recovered(None)));
        let before = self.group.nodes().count();
        let outputs = self.group.handle(heard);
        let is_gone = !is_ours && self.group.nodes().count() < before;
        if is_missing || is_gone {
            self.forget_sights();
        }
        if outputs.iter().any(|output| matches!(output, Output::Tell(Outcome::Lost(_)))) {
            self.is_touched = true;
            self.forget_sights();
        }
        for output in outputs {
            self.add_commands(output, search, present, commands);
        }
    }

    /// Takes in what an event shows, before the group hears of it.
    fn note_report(&mut self, heard: &Report) {
        let event = match heard {
            Report::Entered(_) => {
                self.tries.answered();
                return self.members.iter_mut().for_each(|member| member.tries.answered());
            }
            Report::All(event) | Report::Failed(_, event) => {
                count_try(&mut self.tries, event);
                event
            }
            Report::One(index, event) => {
                let Some(member) = self.members.get_mut(*index) else { return };
                count_try(&mut member.tries, event);
                match event {
                    Event::Recovered(found) => {
                        member.may_come_late = found.is_none() && self.group.own(*index).is_none();
                    }
                    Event::OwnTouched => member.seen = None,
                    // A waiter does not watch its own node. If an operator has deleted that node meanwhile, the same release
                    // also grants the lock to the waiter's successor. So a waiter with a takeover delay asks a quorum for its
                    // node. A listing shows only a name, which another contender may have in a directory that was made again.
                    Event::PredecessorReleased | Event::ListedAfterRelease(_)
                        if member.takeover != Takeover::AtOnce =>
                    {
                        member.seen = None;
                    }
                    _ => {}
                }
                event
            }
        };
        // A holder that lets go in time releases in one round trip. For these deletions nobody is in a hurry.
        let leaves = matches!(event, Event::GiveUp | Event::Refused(_) | Event::Foreign(_));
        if *event == Event::Forfeit || leaves && !self.group.is_held() {
            self.forget_sights();
        }
        if let Event::PredecessorWatched(_) | Event::Unanswered | Event::WatchLost = event {
            self.arrival = Arrival::Queued;
        }
    }

    /// Adds the commands that an output of the group means.
    fn add_commands(&mut self, output: Output, search: Search, present: Present, commands: &mut Vec<Effect>) {
        match output {
            Output::All(together) => {
                let certainty = self.certainty(present.connection);
                if together == Together::Enter {
                    self.expect_late(commands);
                }
                // The locks are granted at once if the lease is valid for some time and our nodes are certain. Otherwise a
                // quorum is asked first.
                if let (Together::Confirm, Certainty::Seen(_), Ok(term)) = (together, certainty, present.term)
                    && present.is_ample
                {
                    let confirmed = Report::All(Event::Confirmed(term));
                    return self.take_in(confirmed, search, present, commands);
                }
                commands.push(Effect::All(together, certainty, self.tries));
            }
            Output::One(index, alone) => {
                let Some(member) = self.members.get_mut(index) else { return };
                if alone == Alone::Delay {
                    // After the delay, an earlier look at our node is too old.
                    member.seen = None;
                }
                let ground = Ground { certainty: certainty(member.seen, present.connection), search };
                commands.push(Effect::One(index, alone, ground, member.tries));
            }
            Output::EndSession(member, refusal) => {
                // Another contender may have given the session up by now.
                let end = present.end().unwrap_or_else(|| {
                    commands.push(Effect::EndSession(member, refusal));
                    SessionEnd::Closed
                });
                self.take_in(Report::All(Event::SessionOver(end)), search, present, commands);
            }
            Output::Tell(outcome) => {
                match &outcome {
                    Outcome::Granted(_, term) => {
                        debug_assert_eq!(present.term, Ok(*term), "a grant without a lease");
                        debug_assert!(self.seen().is_some(), "a grant without a sight of each node");
                    }
                    Outcome::Lost(_) => {}
                    Outcome::Ended(..) => self.expect_late(commands),
                }
                commands.push(Effect::Tell(outcome));
            }
        }
    }

    /// Gives up the nodes that were searched for in vain.
    fn expect_late(&mut self, commands: &mut Vec<Effect>) {
        let members = self.members.iter_mut().enumerate();
        let late = members.filter_map(|(index, member)| {
            core::mem::take(&mut member.may_come_late).then_some(Effect::ExpectLate(index))
        });
        commands.extend(late);
    }
}

/// For models. The arrival and the tries change no decision. Of the sights it only matters which are of the present
/// connection, so a model adds that.
impl Hash for Acquisition {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.group.hash(state);
        self.members.iter().for_each(|member| member.may_come_late.hash(state));
    }
}

impl AcquisitionMember {
    fn new(takeover: Takeover) -> Self {
        Self { takeover, seen: None, may_come_late: false, tries: Tries::default() }
    }
}

impl Input {
    /// Returns how the session has ended, if this says so.
    fn session_end(&self) -> Option<SessionEnd> {
        let (Self::Heard(heard) | Self::Reply(heard, _)) = self else { return None };
        match heard {
            Report::All(Event::SessionOver(end)) | Report::One(_, Event::SessionOver(end)) => Some(*end),
            _ => None,
        }
    }
}

impl From<Event> for Input {
    fn from(event: Event) -> Self {
        Self::Heard(Report::All(event))
    }
}

impl Certainty {
    /// Returns the one connection on which a request that names our nodes may go out, if there is only one.
    pub fn connection(self) -> Option<u64> {
        match self {
            Self::Seen(connection) => Some(connection),
            Self::Unsure => None,
        }
    }
}

fn certainty(seen: Option<u64>, present: Option<u64>) -> Certainty {
    match present {
        Some(connection) if seen == present => Certainty::Seen(connection),
        _ => Certainty::Unsure,
    }
}

/// Counts an event that answers a request, or says that none did.
fn count_try(tries: &mut Tries, event: &Event) {
    match event {
        Event::Unanswered => tries.failed(),
        // Whether or not our node was found, a request was lost. If the next one is lost, too, something is wrong.
        Event::Recovered(_) | Event::GiveUp => {}
        _ => tries.answered(),
    }
}

#[cfg(test)]
mod tests;
