//! What a follower does with its leader, and how a server comes to a leader and leaves it.

use std::collections::{BTreeMap, VecDeque};

use crate::election::Appointment;
use crate::event::Effect;
use crate::id::ServerId;
use crate::message::{Message, PeerMessage};
use crate::queue::CommitQueue;
use crate::role::{Following, Role, Stage, first_zxid};
use crate::server::{Server, Turn};
use crate::sessions::milliseconds;
use crate::watches::Watches;

impl Server {
    pub(crate) fn appoint(&mut self, appointment: Appointment, turn: &mut Turn<'_>) {
        let Appointment { leader, epoch } = appointment;
        let known = match &self.role {
            Role::Following(following) => (following.leader, following.epoch) == (leader, epoch),
            Role::Leading(leading) => leading.reign.as_ref().is_none_or(|reign| reign.epoch == epoch),
            Role::Starting | Role::Looking => false,
        };
        if known || epoch < self.disk.accepted {
            return;
        }
        self.look(turn);
        self.disk.accepted = epoch;
        self.load(turn);
        if leader == self.config.id {
            self.lead(epoch, turn);
        } else {
            self.follow(leader, epoch, turn);
        }
        for (peer, message) in std::mem::take(&mut self.early) {
            self.hear(peer, message, turn);
        }
    }

    fn follow(&mut self, leader: ServerId, epoch: u32, turn: &mut Turn<'_>) {
        self.numbers.link += 1;
        self.role = Role::Following(Following {
            leader,
            epoch,
            link: self.numbers.link,
            stage: Stage::Joining,
            deadline: turn.now.monotonic + self.config.tick * self.config.init_limit,
            proposals: VecDeque::new(),
            touched: BTreeMap::new(),
            revalidations: BTreeMap::new(),
            syncs: VecDeque::new(),
        });
        self.tell_leader(Message::Join { epoch, logged: self.disk.logged() }, turn);
    }

    /// Leaves leader or followers, and looks for a leader.
    ///
    /// (l) Every client's connection is closed. What was proposed stays in the log. (m) Whether it is committed, the next
    /// leader's log decides.
    pub(crate) fn look(&mut self, turn: &mut Turn<'_>) {
        match &self.role {
            Role::Following(_) => self.tell_leader(Message::Leave, turn),
            Role::Leading(leading) => {
                let followers = leading.reign.iter().flat_map(|reign| reign.followers.keys().copied());
                for follower in followers.collect::<Vec<_>>() {
                    self.lose(follower, turn);
                }
            }
            Role::Starting | Role::Looking => {}
        }
        for client in self.connections.ids() {
            self.close(client, turn);
        }
        self.role = Role::Looking;
        self.watches = Watches::new(self.config.version);
        self.queue = CommitQueue::default();
        self.tree = self.disk.load();
    }

    fn load(&mut self, turn: &Turn<'_>) {
        self.tree = self.disk.load();
        self.tree.configure(&self.config.members, milliseconds(turn.now.wall) as i64);
    }

    pub(crate) fn tell_leader(&self, message: Message, turn: &mut Turn<'_>) {
        if let Role::Following(Following { leader, link, .. }) = self.role {
            turn.effects.push(Effect::ToPeer(leader, PeerMessage { link, message }));
        }
    }

    pub(crate) fn hear(&mut self, peer: ServerId, message: PeerMessage, turn: &mut Turn<'_>) {
        match (&self.role, &message.message) {
            // The follower has heard of the election first.
            (_, Message::Join { epoch, .. }) if *epoch > self.disk.accepted => {
                self.early.push((peer, message))
            }
            (Role::Leading(_), _) => self.hear_follower(peer, message, turn),
            (Role::Following(following), _) if following.leader == peer && following.link == message.link => {
                self.hear_leader(message.message, turn);
            }
            // Nobody listens for followers here.
            (_, Message::Join { .. }) => {
                let link = message.link;
                turn.effects.push(Effect::ToPeer(peer, PeerMessage { link, message: Message::Leave }));
            }
            (Role::Starting | Role::Looking | Role::Following(_), _) => {}
        }
    }

    pub(crate) fn peer_gone(&mut self, peer: ServerId, turn: &mut Turn<'_>) {
        match &self.role {
            Role::Following(following) if following.leader == peer => self.look(turn),
            Role::Leading(_) => self.lose(peer, turn),
            Role::Starting | Role::Looking | Role::Following(_) => {}
        }
        self.early.retain(|(early, _)| *early != peer);
    }

    fn hear_leader(&mut self, message: Message, turn: &mut Turn<'_>) {
        let (tick, init_limit, sync_limit) =
            (self.config.tick, self.config.init_limit, self.config.sync_limit);
        let Role::Following(following) = &mut self.role else { return };
        let limit = if following.stage == Stage::Joining { init_limit } else { sync_limit };
        following.deadline = turn.now.monotonic + tick * limit;
        match message {
            Message::Truncate(zxid) => {
                self.disk.truncate(zxid);
                self.load(turn);
            }
            Message::Snapshot(tree) => {
                self.disk.replace(*tree);
                self.load(turn);
            }
            Message::Proposal(transaction) => {
                let serving = following.stage == Stage::Serving;
                following.proposals.push_back(transaction.clone());
                if serving {
                    self.disk.append(transaction.clone());
                    self.tell_leader(Message::Ack(transaction.zxid), turn);
                }
            }
            Message::Commit(zxid) => {
                let serving = following.stage == Stage::Serving;
                let Some(first) = following.proposals.pop_front() else { return };
                debug_assert_eq!(first.zxid, zxid, "proposals and commits come in one order");
                if !serving {
                    self.disk.append(first.clone());
                }
                self.commit(&first, turn);
            }
            Message::NewLeader => {
                following.stage = Stage::Complete;
                following.deadline = turn.now.monotonic + tick * sync_limit;
                let epoch = following.epoch;
                self.disk.current = epoch;
                self.tell_leader(Message::Ack(first_zxid(epoch)), turn);
            }
            Message::UpToDate => {
                following.stage = Stage::Serving;
                let waiting: Vec<_> = following.proposals.iter().cloned().collect();
                self.number_sessions(turn);
                for transaction in waiting {
                    let zxid = transaction.zxid;
                    self.disk.append(transaction);
                    self.tell_leader(Message::Ack(zxid), turn);
                }
            }
            Message::Synced => {
                let Some((session, xid)) = following.syncs.pop_front() else { return };
                if let Some(request) = self.queue.commit(session, xid) {
                    self.finish(request, turn);
                    self.release(session, turn);
                }
            }
            Message::Revalidated { session, lives } => {
                if let Some(client) = following.revalidations.remove(&session) {
                    self.establish(client, lives, turn);
                }
            }
            // (a) Only with the answer to a ping does the leader learn that sessions live.
            Message::Ping => {
                let touched = std::mem::take(&mut following.touched).into_iter().collect();
                self.tell_leader(Message::Touched(touched), turn);
            }
            Message::Leave => self.look(turn),
            // Only followers send these.
            Message::Join { .. }
            | Message::Ack(_)
            | Message::Request { .. }
            | Message::Revalidate { .. }
            | Message::Touched(_) => {}
        }
    }

    /// Gives a leader up that is silent, and does what a leader does as time passes.
    pub(crate) fn pass_time(&mut self, turn: &mut Turn<'_>) {
        match &self.role {
            Role::Following(following) if following.deadline <= turn.now.monotonic => self.look(turn),
            Role::Leading(_) => {
                self.prepare_waiting(turn);
                self.apply_committed(turn);
                self.pass_reign(turn);
                self.drop_silent(turn);
            }
            Role::Starting | Role::Looking | Role::Following(_) => {}
        }
    }
}
