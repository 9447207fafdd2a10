//! The contenders of one acquisition: one in each queue that it joins.
//!
//! A lock has a group of one. A multi-lock has one member in each of its queues. Members wait for their turns by
//! themselves. They act together where it matters: one transaction creates all their nodes, one look at the lease
//! confirms them all, and one transaction releases them all. So all nodes of a group have one `czxid`, and each
//! contender that a group waits for has a lower one. No circle of groups that enqueue once can wait for each other, in
//! whatever order they name their queues.
//!
//! ```text
//!   caller   --- All(Begin) -->  +-------+  --- All(Enter) ----------->  one transaction for all
//!   replies  --- Entered([..]) > | Group |  --- One(1, WatchPredecessor) -->  a request of one member
//!            --- One(1, ..) -->  +-------+  --- Tell ---------------->  caller
//! ```
//!
//! # Invariants
//!
//! 1. No member asks for its create, its directory or its grant alone. Such a command is *parked* until each member
//!    has given it.
//! 2. A member that is first in its queue while another one waits watches its own node. If that node is gone, the
//!    group ends.
//! 3. If a member leaves its queue or ends before the grant, the others give up at once, and the group ends as that
//!    member did.
//! 4. One transaction creates all nodes, and it may take effect between two members' searches after a lost reply. So if one
//!    member finds its node, and another one does not, that one searches again. Only then it is certain that somebody
//!    has deleted its node.
//! 5. If a joint transaction fails because of one member's node, it had no effect on the others. They remove their nodes
//!    one by one. So an operator who deletes one node leaves no other behind.

use alloc::vec::Vec;

use crate::command::{Alone, Breach, Command, End, Together};
use crate::contender::Own;
use crate::event::{Event, Refusal, Sight};
use crate::lease::Term;
use crate::machine::Machine;

/// The contenders of one acquisition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    members: Vec<GroupMember>,
    phase: Phase,
    /// How the group ends: as the first member that ended in a way for which the caller did not ask, or else as the
    /// first member.
    end: Option<(usize, End)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct GroupMember {
    machine: Machine,
    parked: Option<Parked>,
    /// Whether the last search for the member's node began after another member's node was found.
    searched_again: bool,
}

/// A command that one member has given, and that waits for the others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Parked {
    command: Together,
    /// Whether the member watches its own node meanwhile, or has asked to.
    watches: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// The caller waits for the grant.
    Contending,
    /// As `Contending`, and `Confirm` is out for all.
    Confirming,
    /// The caller has the guard.
    Held,
    /// The caller has the guard, and the guard is lost.
    Lost,
    /// The caller has gone or lets go, or a member has ended before the grant.
    Leaving,
}

/// One input of a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Report {
    /// An event for each member: from the caller, or the reply to a request for all.
    All(Event),
    /// Reply to `Enter` for all: each member's node, and the result of the read that followed the create.
    Entered(Vec<(Own, Sight)>),
    /// Reply to a request for all: it had no effect, because of this member. The event says why.
    Failed(usize, Event),
    /// An event for one member: the reply to its request, or what its watch shows.
    One(usize, Event),
}

/// One output of a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// Send one request for all members.
    All(Together),
    /// Send a request for one member.
    One(usize, Alone),
    /// End the session, because nobody can tell which node is this member's.
    EndSession(usize, Refusal),
    /// Tell the caller.
    Tell(Outcome),
}

/// What the caller is told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The group holds its locks, with these nodes and in this term of the lease: the caller has the guard.
    Granted(Vec<Own>, Term),
    /// The guard is lost while the session lives. The holder then gives up.
    Lost(Breach),
    /// The group has ended, and gives no further output. The number is that of the member whose end it is.
    Ended(usize, End),
}

impl Group {
    /// Makes the group of these contenders, which have not begun.
    pub fn new(machines: impl IntoIterator<Item = Machine>) -> Self {
        let member = |machine| GroupMember { machine, parked: None, searched_again: false };
        Self { members: machines.into_iter().map(member).collect(), phase: Phase::Contending, end: None }
    }

    /// Returns a member's own node, once it is known and until it is gone.
    pub fn own(&self, member: usize) -> Option<Own> {
        self.members.get(member)?.machine.own()
    }

    /// Returns the nodes that are known and not gone, in the order of the members.
    pub fn nodes(&self) -> impl Iterator<Item = Own> {
        self.members.iter().filter_map(|member| member.machine.own())
    }

    /// Returns true once the group has nothing more to do.
    pub fn is_ended(&self) -> bool {
        self.members.iter().all(|member| member.machine.is_ended())
    }

    /// Whether the caller has the guard, and it is not lost while the session lives.
    pub(crate) fn is_held(&self) -> bool {
        self.phase == Phase::Held
    }

    /// Takes in one input, and returns the outputs that follow from it. A request for all takes the place of every
    /// earlier request, and a request for one takes the place of its earlier one, and of one for all.
    pub fn handle(&mut self, input: Report) -> Vec<Output> {
        let mut outputs = Vec::new();
        if self.is_ended() {
            return outputs;
        }
        let commands = match input {
            Report::All(Event::GiveUp) => self.give_up(),
            Report::All(event) => {
                if let Event::Release | Event::Forfeit = event {
                    self.phase = Phase::Leaving;
                }
                self.handle_each(|_| Some(event.clone()))
            }
            Report::Entered(nodes) => {
                let mut nodes = nodes.into_iter();
                self.handle_each(|_| nodes.next().map(|(own, sight)| Event::Entered { own, sight }))
            }
            Report::Failed(failed, event) => {
                self.handle_each(|index| Some(if index == failed { event.clone() } else { Event::Withheld }))
            }
            Report::One(index, event) => self.handle_one(index, event).into_iter().collect(),
        };
        self.take_in_commands(commands, &mut outputs);
        let searches = self.search_again();
        self.take_in_commands(searches, &mut outputs);
        if self.is_broken() {
            let commands = self.give_up();
            // What these members have asked for just now is not sent.
            let revoked = |member: &usize| commands.iter().any(|(index, _)| index == member);
            outputs.retain(|output| !matches!(output, Output::One(member, _) if revoked(member)));
            self.take_in_commands(commands, &mut outputs);
        }
        self.send_parked(&mut outputs);
        if self.is_ended() {
            self.phase = Phase::Leaving;
            outputs.extend(self.end.take().map(|(member, end)| Output::Tell(Outcome::Ended(member, end))));
        }
        outputs
    }

    /// Gives each member an event, and returns the commands that follow.
    fn handle_each(&mut self, mut event: impl FnMut(usize) -> Option<Event>) -> Vec<(usize, Command)> {
        let members = self.members.iter_mut().enumerate();
        let commands = members.filter_map(|(index, member)| {
            let event = event(index)?;
            member.parked = None;
            Some((index, member.machine.handle(event)?))
        });
        commands.collect()
    }

    /// Gives one member an event, and returns the command that follows.
    fn handle_one(&mut self, index: usize, event: Event) -> Option<(usize, Command)> {
        let member = self.members.get_mut(index)?;
        let waits = member.parked.as_ref().is_some_and(|parked| parked.command == Together::Confirm);
        let event = match event {
            // The member is first in its queue and watches its own node. A node that was only written to still exists,
            // so the member looks again.
            Event::OwnTouched | Event::WatchLost | Event::Unanswered if waits => {
                return Some((index, Command::Alone(Alone::WatchOwn(member.machine.own()?))));
            }
            Event::OwnWatched(false) if waits => Event::OwnTouched,
            // The node exists, or the server refuses the watch.
            Event::OwnWatched(true) | Event::Refused(_) if waits => return None,
            // The confirmation is out, and shows more.
            Event::OwnTouched | Event::OwnWatched(_) if self.phase == Phase::Confirming => return None,
            event => event,
        };
        member.parked = None;
        Some((index, member.machine.handle(event)?))
    }

    /// Makes each member leave its queue.
    fn give_up(&mut self) -> Vec<(usize, Command)> {
        self.phase = Phase::Leaving;
        let members = self.members.iter_mut().enumerate();
        let commands = members.filter_map(|(index, member)| {
            let command = member.machine.handle(Event::GiveUp);
            // A create that is parked was not sent, so nobody answers it.
            let unsent = member.parked.take().map(|_| Event::Withheld);
            Some((index, command.or_else(|| member.machine.handle(unsent?))?))
        });
        commands.collect()
    }

    /// Makes each member search again that did not find its node, though another one did. Returns the commands that follow.
    fn search_again(&mut self) -> Vec<(usize, Command)> {
        if !matches!(self.phase, Phase::Contending) || self.nodes().next().is_none() {
            return Vec::new();
        }
        let members = self.members.iter_mut().enumerate();
        let missing = members.filter(|(_, member)| member.is_entering() && !member.searched_again);
        let commands = missing.filter_map(|(index, member)| {
            member.parked = None;
            member.searched_again = true;
            Some((index, member.machine.handle(Event::Unanswered)?))
        });
        commands.collect()
    }

    /// Whether the group can no longer be granted: a member leaves, or somebody has deleted the node of one.
    fn is_broken(&mut self) -> bool {
        if !matches!(self.phase, Phase::Contending | Phase::Confirming) {
            return false;
        }
        let missing = self.members.iter().position(GroupMember::is_entering);
        let missing = missing.filter(|_| self.nodes().next().is_some());
        if let Some(missing) = missing {
            self.note_end(missing, End::NodeDeleted);
        }
        missing.is_some() || self.members.iter().any(|member| member.machine.is_leaving())
    }

    /// Notes how a member ends.
    fn note_end(&mut self, index: usize, end: End) {
        let asked_for = |end: &End| matches!(end, End::GivenUp | End::Released);
        let open = self.end.as_ref().is_none_or(|(_, end)| asked_for(end));
        // A node that the server refuses to delete stays, and the caller must learn of that.
        let stays = self.phase == Phase::Leaving && matches!(end, End::Refused(_));
        if stays || open && (index == 0 || !asked_for(&end)) {
            self.end = Some((index, end));
        }
    }

    /// Takes in the members' commands: parks some, and passes the others on.
    fn take_in_commands(&mut self, commands: Vec<(usize, Command)>, outputs: &mut Vec<Output>) {
        let releases =
            |(_, command): &&(usize, Command)| matches!(command, Command::Alone(Alone::Release(_)));
        if commands.iter().filter(releases).count() == self.members.len() {
            return outputs.push(Output::All(Together::Release));
        }
        let mut granted = None::<(Vec<Own>, Term)>;
        for (index, command) in commands {
            match command {
                Command::Together(command) => {
                    self.members[index].parked = Some(Parked { command, watches: false });
                }
                Command::Alone(request) => outputs.push(Output::One(index, request)),
                Command::Grant(own, term) => granted.get_or_insert((Vec::new(), term)).0.push(own),
                Command::Lose(breach) if self.phase == Phase::Held => {
                    self.phase = Phase::Lost;
                    outputs.push(Output::Tell(Outcome::Lost(breach)));
                }
                Command::Lose(_) => {}
                Command::End(end) => self.note_end(index, end),
                Command::EndSession(refusal) => outputs.push(Output::EndSession(index, refusal)),
            }
        }
        if let Some((nodes, term)) = granted {
            self.phase = Phase::Held;
            outputs.push(Output::Tell(Outcome::Granted(nodes, term)));
        }
    }

    /// Sends a command that every member has given. Otherwise, members that are first in their queues begin to watch
    /// their own nodes.
    fn send_parked(&mut self, outputs: &mut Vec<Output>) {
        let mut parked = self.members.iter().map(|member| Some(member.parked.as_ref()?.command));
        let Some(command) = parked.clone().flatten().next() else { return };
        if parked.all(|other| other == Some(command)) {
            self.phase = if command == Together::Confirm { Phase::Confirming } else { Phase::Contending };
            self.members.iter_mut().for_each(|member| member.parked = None);
            outputs.push(Output::All(command));
            return;
        }
        self.phase = Phase::Contending;
        for (index, member) in self.members.iter_mut().enumerate() {
            if let (Some(parked), Some(own)) = (&mut member.parked, member.machine.own())
                && !core::mem::replace(&mut parked.watches, true)
            {
                outputs.push(Output::One(index, Alone::WatchOwn(own)));
            }
        }
    }
}

impl GroupMember {
    /// Whether the member waits for a create. If another member's node exists by then, it has searched for its own in vain.
    fn is_entering(&self) -> bool {
        self.parked.as_ref().is_some_and(|parked| parked.command == Together::Enter)
    }
}

#[cfg(test)]
pub(crate) mod tests;
