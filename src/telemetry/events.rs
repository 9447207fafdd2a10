//! The events of a hold: `granted`, `at risk`, `lost` and `released`. Their target, their messages and their fields are public: the
//! documentation of `inspect` lists them.
//!
//! A subscriber is foreign code, which may use the library. So callers hold no mutex.

use std::time::{Duration, Instant};

use tracing::{Level, debug, enabled, warn};

use crate::text::{LONGEST, harmless};

const TARGET: &str = "zklock::hold";

/// Whether a subscriber wants any of the events. Without one, zklock does nothing for them.
pub(crate) fn tells_of_holds() -> bool {
    enabled!(target: TARGET, Level::WARN)
}

/// One path of what is held. Several locks that are held at once have one each.
pub(crate) struct HeldPath<'a> {
    pub(crate) path: &'a str,
    /// The chroot of the session, if it has one.
    pub(crate) chroot: Option<&'a str>,
    pub(crate) name: Option<&'a str>,
    pub(crate) owner: &'a str,
    /// The index, if it is a slot.
    pub(crate) slot: Option<u32>,
    /// The weight, if it is a permit.
    pub(crate) weight: Option<u32>,
    /// The first number of the fencing token. The turn is the second one.
    pub(crate) token: i64,
}

/// The turn at a hold that a caller has.
#[derive(Clone, Copy)]
pub(crate) struct CallersTurn {
    member: &'static str,
    turn: u32,
    since: Instant,
}

macro_rules! tell {
    ($event:ident, $turn:ident, $held:ident, $message:literal $(, $field:ident = $value:expr)*) => {
        $event!(
            target: TARGET,
            path = $held.path,
            chroot = $held.chroot,
            member = $turn.member,
            name = $held.name,
            slot = $held.slot,
            weight = $held.weight,
            token = $held.token,
            turn = $turn.turn,
            owner = harmless($held.owner, LONGEST),
            $($field = $value,)*
            $message
        )
    };
}

impl CallersTurn {
    pub(crate) fn begin(member: &'static str, turn: u32) -> Self {
        Self { member, turn, since: Instant::now() }
    }

    /// The caller has waited for so long.
    pub(crate) fn granted(&self, held: &HeldPath<'_>, waited: Duration) {
        tell!(debug, self, held, "granted", waited = waited.as_secs_f64());
    }

    /// Without a heartbeat that succeeds, this is how long it is still held.
    pub(crate) fn at_risk(&self, held: &HeldPath<'_>, remaining: Duration) {
        tell!(warn, self, held, "at risk", remaining = remaining.as_secs_f64());
    }

    /// It was lost so long ago.
    pub(crate) fn lost(&self, held: &HeldPath<'_>, reason: &'static str, ago: Duration) {
        tell!(warn, self, held, "lost", reason = reason, held = self.held(ago));
    }

    /// Its holder let go so long ago. The reason is that of a loss which was near.
    pub(crate) fn released(&self, held: &HeldPath<'_>, reason: Option<&'static str>, ago: Duration) {
        tell!(debug, self, held, "released", reason = reason, held = self.held(ago));
    }

    /// For how many seconds the caller has had the turn, if it ended so long ago.
    fn held(&self, ago: Duration) -> f64 {
        self.since.elapsed().saturating_sub(ago).as_secs_f64()
    }
}
