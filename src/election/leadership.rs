//! The [`Leadership`] of a candidate that leads.

use std::ops::Deref;
use std::time::Duration;

use super::error::ProclaimError;
use super::keeper::Announcer;
use crate::guard::lost::ReleaseError;
use crate::guard::{AnyGuard, Guard};
use crate::telemetry::{Acquired, FamilyMember};

/// The leadership of an election: the [`Guard`] of its lock, and the announcement. It derefs to the guard, so
/// [`run`](Guard::run), [`lost`](Guard::lost), [`check`](Guard::check), [`token`](Guard::token) and
/// [`transaction`](Guard::transaction) say the same of a leader as of any holder. A function that takes a guard of any kind by
/// reference takes a leadership, too. [`into_any`](Self::into_any) makes a guard of it that can be moved.
///
/// ```no_run
/// async fn save<K>(guard: &zklock::Guard<K>) -> Result<(), zklock::Lost> {
///     guard.check()
/// }
///
/// # async fn example(leadership: zklock::Leadership) -> Result<(), zklock::Lost> {
/// save(&leadership).await?;
/// # Ok(())
/// # }
/// ```
///
/// Dropping it resigns in the background, as dropping a guard releases. Prefer [`resign`](Self::resign). Either takes the
/// announcement back in the transaction that ends the leadership.
///
/// While the candidate leads, zklock keeps its announcement up: if somebody deletes it or writes to it, zklock announces
/// the value again. If the leadership is lost because somebody deleted the leader's own node, zklock takes the announcement
/// back. If it is lost because ZooKeeper does not confirm the session, the announcement stays until you drop the leadership or its
/// [`max_hold`](crate::LockOptions::max_hold) is over,
/// like the node in the queue: nobody else leads before that, as long as the session lives.
#[must_use = "the leader resigns as soon as the leadership is dropped"]
pub struct Leadership {
    guard: Guard,
    announcer: Announcer,
}

impl Leadership {
    pub(super) fn new(guard: Guard, announcer: Announcer) -> Self {
        Self { guard, announcer }
    }

    /// Announces another value, and returns once ZooKeeper has confirmed it. Observers then see the value. The call
    /// takes one round trip. The call returns at the latest when the guard's lease ends.
    ///
    /// # Errors
    ///
    /// See [`ProclaimError`].
    ///
    /// # Cancel safety
    ///
    /// Safe. Once the future was polled, zklock goes on to announce the value in the background.
    ///
    /// ```no_run
    /// # async fn example(leadership: zklock::Leadership) -> Result<(), zklock::election::ProclaimError> {
    /// leadership.proclaim("10.0.0.7:9090").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn proclaim(&self, value: impl Into<String>) -> Result<(), ProclaimError> {
        self.announcer.proclaim(value.into())?;
        self.announcer.announced().await
    }

    /// Resigns, and returns once ZooKeeper has confirmed that; as [`Guard::release`]. One transaction ends the leadership and
    /// takes the announcement back, and grants the next candidate.
    ///
    /// If [another](Guard::another) guard of the hold is out, the leadership ends with the last one. The call then
    /// returns at once, the announcement stays until that end, and zklock keeps it up no longer. So release every other
    /// guard of the same hold first.
    ///
    /// Errors and cancel safety: as [`Guard::release`].
    pub async fn resign(self) -> Result<(), ReleaseError> {
        self.into_any().release().await
    }

    /// The same as [`resign`](Self::resign), by the name that guards have for it.
    pub async fn release(self) -> Result<(), ReleaseError> {
        self.resign().await
    }

    /// Returns the leadership as a guard without its kind, for code that holds guards of several kinds. zklock keeps the
    /// announcement up as long as this guard lives. Releasing or dropping it resigns.
    pub fn into_any(self) -> AnyGuard {
        self.guard.into_any().keeping(self.announcer)
    }
}

impl Deref for Leadership {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.guard
    }
}

impl Acquired for Leadership {
    fn granted(&self, member: FamilyMember, waited: Duration) {
        self.guard.granted(member, waited);
    }

    fn fail_stop(&self) {
        self.guard.fail_stop();
    }
}

debug_shows!(Leadership, it, { guard: it.guard });
