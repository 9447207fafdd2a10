//! A follower: it has the leader's transactions some time later, and answers reads from what it has.
//!
//! One stream leads from it to the leader and one back, and each takes any time. So a follower that is cut off is one
//! whose streams stand still for long.

use zklock_recipe::transaction::Operation;

use super::exploration::Run;
use super::requests::{Address, Message, Sent};
use super::server::Server;
use super::setup::Flaw;
use super::tree::{Named, Transaction, deletion};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Follower {
    /// As of the last transaction that it has applied.
    pub(crate) server: Server,
    /// Under way to the leader, in order.
    pub(crate) up: Vec<Up>,
    /// Under way from the leader, in order.
    pub(crate) down: Vec<Down>,
    /// With a clock: nothing arrives at the leader, or from it.
    pub(crate) stalled: Streams,
    /// The sessions that it was touched by since its last report; a bit each.
    touched: u8,
}

/// Something of both streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Streams {
    pub(crate) up: bool,
    pub(crate) down: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Up {
    /// A client's write, or a sync.
    Forward(usize, Sent),
    /// A client wants to resume this session.
    Revalidate(usize),
    /// These sessions were touched.
    Report(u8),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Down {
    /// Of this session.
    Transaction(usize, Transaction),
    /// The session has ended, and with it its nodes.
    Over(usize),
    /// To what was forwarded for this session. Nothing, if a read answers it.
    Answer(usize, Option<(Address, Message)>),
    /// The session may be resumed.
    Revalidated(usize),
    Ping,
}

impl Follower {
    pub(crate) fn new(server: Server) -> Self {
        Self { server, up: Vec::new(), down: Vec::new(), stalled: Streams::default(), touched: 0 }
    }

    /// Whether something of this session is on its way to the leader, or back.
    pub(crate) fn is_asking(&self, session: usize) -> bool {
        self.up.iter().any(|up| matches!(up, Up::Forward(of, _) | Up::Revalidate(of) if *of == session))
            || self
                .down
                .iter()
                .any(|down| matches!(down, Down::Answer(of, _) | Down::Revalidated(of) if *of == session))
    }

    pub(crate) fn is_behind(&self) -> bool {
        self.down.iter().any(|down| matches!(down, Down::Transaction(..) | Down::Over(_)))
    }

    pub(crate) fn touch(&mut self, session: usize) {
        self.touched |= 1 << session;
    }

    /// The connection is lost: what is answered finds nobody.
    pub(crate) fn hang_up(&mut self, session: usize) {
        self.down.retain(|down| !matches!(down, Down::Answer(of, _) if *of == session));
        for up in &mut self.up {
            if let Up::Forward(of, sent) = up
                && *of == session
            {
                sent.awaited = false;
            }
        }
    }

    /// The session has moved to another server: the leader takes nothing of it from here any more.
    pub(crate) fn moved(&mut self, session: usize) {
        self.up.retain(|up| !matches!(up, Up::Forward(of, _) if *of == session));
    }
}

impl Run<'_> {
    /// Tells the follower, if there is one, of what the leader has changed.
    pub(crate) fn replicate(&mut self, down: Down) {
        self.world.follower.iter_mut().for_each(|follower| follower.down.push(down.clone()));
    }

    /// The leader hears what the follower sent next.
    pub(crate) fn hear_follower(&mut self) {
        let Some(follower) = &mut self.world.follower else { return };
        match follower.up.remove(0) {
            Up::Forward(session, sent) => {
                if self.world.sessions[session].alive {
                    self.settle_strays(session);
                    self.serve(session, sent);
                }
            }
            Up::Revalidate(session) => {
                let barrier = self.setup.flaw != Some(Flaw::ReadsOvertakeTheBarrier);
                let behind = if barrier { follower.down.len() } else { 0 };
                follower.down.insert(behind, Down::Revalidated(session));
                self.touch(session, false);
            }
            Up::Report(touched) => {
                for session in (0..self.world.sessions.len()).filter(|session| touched >> session & 1 == 1) {
                    self.touch(session, false);
                }
            }
        }
    }

    /// The follower hears what the leader sent next.
    pub(crate) fn hear_leader(&mut self) {
        let Some(follower) = &mut self.world.follower else { return };
        match follower.down.remove(0) {
            Down::Transaction(session, transaction) => {
                self.follow(session, &transaction);
                self.hear_answer();
            }
            Down::Over(session) => {
                let ended = deletion(follower.server.tree.of(session));
                self.follow(session, &ended);
                if self.world.sessions[session].follows {
                    self.disconnect(session);
                }
                self.hear_answer();
            }
            Down::Answer(session, answer) => {
                let session = &mut self.world.sessions[session];
                answer.into_iter().for_each(|(address, message)| session.answer(address, message));
            }
            Down::Revalidated(session) => self.revalidated(session),
            Down::Ping => {
                let report = std::mem::take(&mut follower.touched);
                follower.up.push(Up::Report(report));
            }
        }
    }

    /// The answer to a write comes with it.
    fn hear_answer(&mut self) {
        let next = self.world.follower.as_ref().and_then(|follower| follower.down.first());
        if matches!(next, Some(Down::Answer(..))) {
            self.hear_leader();
        }
    }

    fn follow(&mut self, session: usize, transaction: &[Operation<Named>]) {
        let Some(follower) = &mut self.world.follower else { return };
        let committed = follower.server.tree.commit(session, transaction);
        let Ok(committed) = committed else { unreachable!("the leader has carried it out") };
        let fired = follower.server.fire(&committed.changes);
        self.notify(&fired);
    }
}
