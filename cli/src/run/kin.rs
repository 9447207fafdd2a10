//! Holders that a command must not wait for in silence: the commands around it, and sessions that this process had before.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::env;

use zklock::FencingToken;

use crate::queue::Entry;

/// The variable with the tokens of a command, and of the commands around it, a line each, as TOKEN:SESSION: each ensemble counts its
/// tokens from 0, and no two give one session id.
pub(super) const TOKENS: &str = "ZKLOCK_TOKENS";

/// Why a command waits for a holder that belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kinship {
    /// A `zklock run` around this one, which waits for this one to end.
    Around,
    /// This process, in a session that it has given up before the servers have.
    FormerSession,
}

impl Kinship {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Around => {
                "; this is a zklock around this command, and it usually waits until this command has ended"
            }
            Self::FormerSession => {
                "; this is this process's former session, which the servers end within its session timeout"
            }
        }
    }
}

/// A token, and the session that has it.
type TokenOfSession = (i64, i64);

/// The tokens of the commands around this one, and the sessions of this process.
pub(super) struct Kin {
    around: Vec<TokenOfSession>,
    sessions: RefCell<BTreeSet<i64>>,
}

impl Kin {
    pub(super) fn of_this_process() -> Self {
        let tokens = env::var(TOKENS).unwrap_or_default();
        Self { around: tokens.lines().filter_map(parse_token).collect(), sessions: RefCell::default() }
    }

    /// The value of the variable for a command with this token, which this session has.
    pub(super) fn tokens_with(&self, token: FencingToken, session: i64) -> String {
        let tokens = self.around.iter().copied().chain([(token.zxid(), session)]);
        tokens.map(|(token, session)| format!("{token}:{session:x}")).collect::<Vec<_>>().join("\n")
    }

    /// What a holder is to this process, whose present session has this id.
    pub(super) fn kinship_of(&self, holder: &Entry, present: i64) -> Option<Kinship> {
        let session = holder.session.map(|session| session.0);
        let had = |id| id != present && self.sessions.borrow().contains(&id);
        if holder.token.zip(session).is_some_and(|held| self.around.contains(&held)) {
            Some(Kinship::Around)
        } else {
            session.is_some_and(had).then_some(Kinship::FormerSession)
        }
    }

    pub(super) fn remember(&self, session: i64) {
        self.sessions.borrow_mut().insert(session);
    }
}

fn parse_token(line: &str) -> Option<TokenOfSession> {
    let (token, session) = line.split_once(':')?;
    // An id may have its highest bit.
    Some((token.parse().ok()?, u64::from_str_radix(session, 16).ok()?.cast_signed()))
}
