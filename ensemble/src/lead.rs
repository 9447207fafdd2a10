//! What a leader does with its followers: their logs are completed, and proposals are committed by a majority.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::config::Config;
use crate::event::Effect;
use crate::id::ServerId;
use crate::message::{Message, PeerMessage};
use crate::prep::Asker;
use crate::queue::Request;
use crate::role::{Follower, Proposal, Reign, Role, first_zxid};
use crate::server::{Server, Turn};
use crate::sessions::Owner;
use crate::transaction::Transaction;

impl Server {
    /// Leads from now on, once a majority has joined.
    pub(crate) fn lead(&mut self, epoch: u32, turn: &mut Turn<'_>) {
        let mut leading = self.leading(first_zxid(epoch), turn);
        leading.reign = Some(Reign {
            epoch,
            established: false,
            followers: BTreeMap::new(),
            outstanding: VecDeque::new(),
            committed: VecDeque::new(),
            syncs: VecDeque::new(),
            tick: 0,
            is_half: true,
            next_half: Duration::ZERO,
            patience: turn.now.monotonic + self.config.tick * self.config.init_limit,
        });
        self.role = Role::Leading(Box::new(leading));
    }

    fn reign(&mut self) -> Option<&mut Reign> {
        match &mut self.role {
            Role::Leading(leading) => leading.reign.as_mut(),
            Role::Starting | Role::Looking | Role::Following(_) => None,
        }
    }

    fn send_follower(&mut self, id: ServerId, message: Message, turn: &mut Turn<'_>) {
        if let Some(follower) = self.reign().and_then(|reign| reign.followers.get(&id)) {
            turn.effects.push(Effect::ToPeer(id, PeerMessage { link: follower.link, message }));
        }
    }

    /// Those who get what the leader proposes.
    fn forwarded(&mut self) -> Vec<ServerId> {
        let followers = self.reign().into_iter().flat_map(|reign| &reign.followers);
        followers.filter(|(_, follower)| follower.forwarded).map(|(id, _)| *id).collect()
    }

    pub(crate) fn hear_follower(&mut self, id: ServerId, message: PeerMessage, turn: &mut Turn<'_>) {
        let PeerMessage { link, message } = message;
        let Config { tick, init_limit, sync_limit, .. } = self.config;
        let now = turn.now.monotonic;
        let Some(reign) = self.reign() else { return };
        if let Message::Join { epoch, logged } = message {
            if epoch < reign.epoch {
                turn.effects.push(Effect::ToPeer(id, PeerMessage { link, message: Message::Leave }));
                return;
            }
            let follower = Follower {
                link,
                logged,
                forwarded: false,
                complete: false,
                deadline: reign.tick + init_limit + sync_limit,
                patience: now + tick * init_limit,
                unacknowledged: VecDeque::new(),
            };
            reign.followers.insert(id, follower);
            return self.complete_followers(turn);
        }
        let Some(follower) = reign.followers.get_mut(&id).filter(|follower| follower.link == link) else {
            return;
        };
        follower.deadline = reign.tick + sync_limit;
        follower.patience = now + tick * if follower.complete { sync_limit } else { init_limit };
        match message {
            Message::Ack(zxid) if zxid == first_zxid(reign.epoch) => self.completed(id, turn),
            Message::Ack(zxid) => {
                follower.unacknowledged.retain(|(other, _)| *other > zxid);
                if let Some(proposal) =
                    reign.outstanding.iter_mut().find(|proposal| proposal.transaction.zxid == zxid)
                {
                    proposal.acknowledged.insert(id);
                }
                self.advance(turn);
            }
            Message::Request { session, xid, identities, operation } => {
                let asker = Asker { session, xid, by: Owner { server: id, link }, identities };
                self.submit(Request { connection: None, asker, operation, refused: None }, turn);
            }
            Message::Revalidate { session, timeout } => {
                let Role::Leading(leading) = &mut self.role else { return };
                let by = Owner { server: id, link };
                let lives = leading.preparation.sessions.revive(session, timeout, by, now);
                self.send_follower(id, Message::Revalidated { session, lives }, turn);
            }
            Message::Touched(sessions) => {
                let Role::Leading(leading) = &mut self.role else { return };
                for (session, timeout) in sessions {
                    leading.preparation.sessions.touch(session, timeout, turn.now.monotonic);
                }
            }
            Message::Leave => self.lose(id, turn),
            // Only leaders send these, and `Join` is above.
            Message::Join { .. }
            | Message::Truncate(_)
            | Message::Snapshot(_)
            | Message::Proposal(_)
            | Message::Commit(_)
            | Message::NewLeader
            | Message::UpToDate
            | Message::Synced
            | Message::Revalidated { .. }
            | Message::Ping => {}
        }
    }

    /// (g) With nothing outstanding, the leader answers a follower's sync without a majority.
    pub(crate) fn sync(&mut self, by: Owner, turn: &mut Turn<'_>) {
        let Some(reign) = self.reign() else { return };
        if reign.followers.get(&by.server).is_none_or(|follower| follower.link != by.link) {
            return;
        }
        match reign.outstanding.back() {
            None => self.send_follower(by.server, Message::Synced, turn),
            Some(last) => reign.syncs.push_back((last.transaction.zxid, by.server)),
        }
    }

    /// Completes the logs of those who have joined, once they are a majority with the leader.
    fn complete_followers(&mut self, turn: &mut Turn<'_>) {
        let voters = self.config.voters;
        let patience = turn.now.monotonic + self.config.tick * self.config.init_limit;
        let Some(reign) = self.reign() else { return };
        if !Reign::is_quorum(voters, reign.followers.len()) {
            return;
        }
        let waiting = reign.followers.iter_mut().filter(|(_, follower)| !follower.forwarded);
        let waiting: Vec<_> = waiting
            .map(|(id, follower)| {
                follower.forwarded = true;
                follower.patience = patience;
                (*id, follower.logged)
            })
            .collect();
        let committed = reign.committed.back().map(|(_, transaction)| transaction.zxid);
        self.disk.current = reign.epoch;
        for (id, logged) in waiting {
            // (m) What is behind the leader's log in a follower's log is cut off. What is missing there is sent.
            let applied = self.tree.zxid;
            let committed = committed.unwrap_or(applied);
            let common = self.disk.at_most(logged.min(committed));
            let begin = match common {
                Some(common) => Message::Truncate(common),
                None => Message::Snapshot(Box::new(self.tree.clone())),
            };
            self.send_follower(id, begin, turn);
            let missing: Vec<_> = self.disk.since(common.unwrap_or(applied)).cloned().collect();
            for transaction in missing {
                let zxid = transaction.zxid;
                self.send_follower(id, Message::Proposal(transaction), turn);
                if zxid <= committed {
                    self.send_follower(id, Message::Commit(zxid), turn);
                }
            }
            self.send_follower(id, Message::NewLeader, turn);
        }
    }

    /// A follower has the leader's log.
    fn completed(&mut self, id: ServerId, turn: &mut Turn<'_>) {
        let voters = self.config.voters;
        let patience = turn.now.monotonic + self.config.tick * self.config.sync_limit;
        let Some(reign) = self.reign() else { return };
        if let Some(follower) = reign.followers.get_mut(&id) {
            follower.complete = true;
            follower.patience = patience;
        }
        if reign.established {
            return self.send_follower(id, Message::UpToDate, turn);
        }
        let complete: Vec<_> =
            reign.followers.iter().filter(|(_, follower)| follower.complete).map(|(id, _)| *id).collect();
        if Reign::is_quorum(voters, complete.len()) {
            self.establish_reign(turn);
            for id in complete {
                self.send_follower(id, Message::UpToDate, turn);
            }
        }
    }

    /// (a) A new leader gives every session its whole timeout anew.
    fn establish_reign(&mut self, turn: &mut Turn<'_>) {
        self.number_sessions(turn);
        let half = self.config.tick / 2;
        let patience = turn.now.monotonic + self.config.tick * self.config.sync_limit;
        let Role::Leading(leading) = &mut self.role else { return };
        let Some(mut reign) = leading.reign.take() else { return };
        self.tree.zxid = first_zxid(reign.epoch);
        reign.established = true;
        // The leader has not listened to those who were complete before.
        for follower in reign.followers.values_mut().filter(|follower| follower.complete) {
            follower.patience = patience;
        }
        reign.next_half = turn.now.monotonic + half;
        let mut leading = self.leading(self.tree.zxid, turn);
        leading.reign = Some(reign);
        self.role = Role::Leading(Box::new(leading));
    }

    /// Logs a transaction, and proposes it. A standalone server commits it at once.
    pub(crate) fn propose(&mut self, transaction: Arc<Transaction>, turn: &mut Turn<'_>) {
        let (me, now) = (self.config.id, turn.now.monotonic);
        self.disk.append(transaction.clone());
        let Some(reign) = self.reign() else { return self.commit(&transaction, turn) };
        debug_assert!(reign.established, "a leader proposes once a majority has its log");
        let acknowledged = BTreeSet::from([me]);
        reign.outstanding.push_back(Proposal { transaction: transaction.clone(), acknowledged });
        for follower in reign.followers.values_mut().filter(|follower| follower.complete) {
            follower.unacknowledged.push_back((transaction.zxid, now));
        }
        for id in self.forwarded() {
            self.send_follower(id, Message::Proposal(transaction.clone()), turn);
        }
    }

    /// Commits, in order, what a majority has logged.
    fn advance(&mut self, turn: &mut Turn<'_>) {
        let (voters, delay) = (self.config.voters, self.config.apply_delay);
        while let Some(reign) = self.reign() {
            let logged = |proposal: &Proposal| Reign::is_quorum(voters, proposal.acknowledged.len() - 1);
            if !reign.established || !reign.outstanding.front().is_some_and(logged) {
                return;
            }
            let Some(Proposal { transaction, .. }) = reign.outstanding.pop_front() else { return };
            for id in self.forwarded() {
                self.send_follower(id, Message::Commit(transaction.zxid), turn);
            }
            let zxid = transaction.zxid;
            if let Some(reign) = self.reign() {
                reign.committed.push_back((turn.now.monotonic + delay, transaction));
            }
            self.apply_committed(turn);
            while let Some((_, id)) =
                self.reign().and_then(|reign| pop_if(&mut reign.syncs, |(behind, _)| *behind <= zxid))
            {
                self.send_follower(id, Message::Synced, turn);
            }
        }
    }

    /// (g) The leader answers syncs of its own clients before it has applied what its followers may have applied.
    pub(crate) fn apply_committed(&mut self, turn: &mut Turn<'_>) {
        let now = turn.now.monotonic;
        while let Some((_, transaction)) =
            self.reign().and_then(|reign| pop_if(&mut reign.committed, |(due, _)| *due <= now))
        {
            self.commit(&transaction, turn);
        }
    }

    pub(crate) fn lose(&mut self, id: ServerId, turn: &mut Turn<'_>) {
        self.send_follower(id, Message::Leave, turn);
        if let Some(reign) = self.reign() {
            reign.followers.remove(&id);
            reign.syncs.retain(|(_, follower)| *follower != id);
        }
    }

    /// Drops followers that are silent: ZooKeeper's sockets have a time limit for each read.
    pub(crate) fn drop_silent(&mut self, turn: &mut Turn<'_>) {
        let Some(reign) = self.reign().filter(|reign| reign.established) else { return };
        let silent = reign.followers.iter().filter(|(_, follower)| follower.patience <= turn.now.monotonic);
        for id in silent.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.lose(id, turn);
        }
    }

    /// Every half tick, the leader pings its followers. Every tick, it counts them.
    pub(crate) fn pass_reign(&mut self, turn: &mut Turn<'_>) {
        let now = turn.now.monotonic;
        let (half, limit, voters) =
            (self.config.tick / 2, self.config.tick * self.config.sync_limit, self.config.voters);
        let Some(reign) = self.reign() else { return };
        if !reign.established {
            if reign.patience <= now {
                self.look(turn);
            }
            return;
        }
        if reign.next_half > now {
            return;
        }
        reign.next_half = now + half;
        reign.is_half = !reign.is_half;
        if reign.is_half {
            reign.tick += 1;
            let synced = reign.followers.values().filter(|follower| reign.tick <= follower.deadline);
            if !Reign::is_quorum(voters, synced.count()) {
                return self.look(turn);
            }
        }
        let complete = reign.followers.iter().filter(|(_, follower)| follower.complete);
        let slow = |follower: &Follower| {
            follower.unacknowledged.front().is_some_and(|(_, since)| now.saturating_sub(*since) >= limit)
        };
        for (id, slow) in complete.map(|(id, follower)| (*id, slow(follower))).collect::<Vec<_>>() {
            if slow {
                self.lose(id, turn);
            } else {
                self.send_follower(id, Message::Ping, turn);
            }
        }
    }
}

pub(crate) fn pop_if<T>(queue: &mut VecDeque<T>, condition: impl Fn(&T) -> bool) -> Option<T> {
    if queue.front().is_some_and(condition) { queue.pop_front() } else { None }
}
