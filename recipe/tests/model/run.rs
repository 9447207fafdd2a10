//! What each step does: the choice among them, and the operator; the rest is with those who act.

use zklock_recipe::acquisition::Input;
use zklock_recipe::{Event, Report, SessionEnd};

use super::contender::Caller;
use super::exploration::Run;
use super::findings::Witness;
use super::follower::Down;
use super::requests::Request;
use super::session::Assurance;
use super::step::Step;
use super::tree::Path;

impl Run<'_> {
    pub(crate) fn take(&mut self, step: Step) {
        match step {
            Step::Begin(party) => {
                self.world.contenders[party].caller = Caller::Waiting;
                self.handle(party, Event::Begin.into());
            }
            Step::GiveUp(party) => self.give_up(party),
            Step::Neglect(party) => self.world.contenders[party].neglected = true,
            Step::Poll(party) => self.poll(party),
            Step::Overdue(party) => self.evict(party),
            Step::LetGo(party) => self.let_go(party),
            Step::Settle(party) => {
                self.world.contenders[party].settled = true;
                self.handle(party, Event::Settled.into());
            }
            Step::DelayOver(party, seat) => {
                self.world.contenders[party].seats[seat].pending = None;
                self.note_blind(party);
                self.handle(party, Input::Heard(Report::One(seat, Event::Delayed)));
            }
            Step::Apply(session) => self.apply(session),
            Step::See(session, look) => self.see(session, look),
            Step::Doubt(session) => self.doubt(session),
            Step::ApplyStray(session) => {
                let stray = self.world.sessions[session].strays.remove(0);
                self.note(Witness::StrayCreate, matches!(stray.request, Request::Create(..)));
                self.serve(session, stray);
            }
            Step::Deliver(party) => self.deliver(party),
            Step::Sweep(session) => self.sweep(session),
            Step::Break { session, kept } => self.break_connection(session, kept),
            Step::Reconnect(session) => self.reconnect_to_leader(session),
            Step::ReconnectToFollower(session) => self.reconnect_to_follower(session),
            Step::HearFollower => self.hear_follower(),
            Step::HearLeader => self.hear_leader(),
            Step::Stall(streams) => {
                self.world.follower.iter_mut().for_each(|follower| follower.stalled = streams);
            }
            Step::Ping => {
                self.world.pinged = self.world.leader_time();
                self.world.follower.iter_mut().for_each(|follower| follower.down.push(Down::Ping));
            }
            Step::Tick => self.tick(),
            Step::Gain => self.world.ahead += 1,
            Step::ResumeByHalf(session) => self.resume_by_half(session),
            Step::HearHalf(session) => self.hear_half(session),
            Step::Take(session) => self.world.sessions[session].taken = Some(self.world.leader_time()),
            Step::Beat(session) => self.beat(session, Request::Sync(self.world.now)),
            Step::Lapse(session) => self.lapse(session),
            Step::Renew(session) => {
                self.world.sessions[session].assurance = Assurance::Given(true);
                for party in self.world.contenders_of(session) {
                    if self.world.is_assured(party) && !self.world.contenders[party].neglected {
                        self.renewed(party);
                    }
                }
            }
            Step::Expire(session) | Step::Evict(session) => self.expire(session),
            Step::Told(session) => self.over(session, SessionEnd::Expired),
            Step::Close(session) => {
                self.disconnect(session);
                self.over(session, SessionEnd::Closed);
            }
            Step::ForeignerEnters(index) => self.foreigner_enters(index),
            Step::ForeignerHolds(index) => self.foreigner_holds(index),
            Step::ForeignerLeaves(index) => self.foreigner_leaves(index),
            Step::Reap(queue) => self.delete([Path::Directory(queue)]),
            Step::Uproot => {
                let tree = &self.world.leader.tree;
                let directories = (0..tree.directories.len()).map(Path::Directory);
                let all = tree.nodes().map(|(path, _)| path).chain(directories).collect::<Vec<_>>();
                self.delete(all);
            }
            Step::OperatorDeletes(path) => self.delete([path]),
            Step::Write(path) => self.write(path),
        }
    }

    fn tick(&mut self) {
        self.world.now += 1;
        self.end_terms();
    }
}
