//! The gate by which a store checks tokens.

use super::token::FencingToken;

/// Refuses stale holders: it accepts a token only if no higher token was accepted before.
///
/// The store that a lock protects keeps one gate for each lock. [`admit`](Self::admit) takes `&mut self` on purpose:
/// nothing may come between the check and the write that it admits. So keep the gate behind the same mutex as the data,
/// and write before you unlock that mutex.
///
/// A gate remembers nothing across restarts. A store that outlives its process must save [`highest`](Self::highest)
/// with the data, in one transaction, and begin again with [`starting_at`](Self::starting_at). With readers it must also
/// save [`highest_shared`](Self::highest_shared), and begin with [`and_shared`](Self::and_shared). The crate
/// `zklock-sqlx` does the same inside Postgres and SQLite.
///
/// ```
/// use std::sync::{Mutex, PoisonError};
///
/// use zklock::{FenceGate, FencingToken, fence::StaleToken};
///
/// #[derive(Default)]
/// struct Store {
///     guarded: Mutex<(FenceGate, String)>,
/// }
///
/// impl Store {
///     fn write(&self, token: FencingToken, text: &str) -> Result<(), StaleToken> {
///         let mut guarded = self.guarded.lock().unwrap_or_else(PoisonError::into_inner);
///         guarded.0.admit(token)?;
///         text.clone_into(&mut guarded.1);
///         Ok(())
///     }
/// }
///
/// let store = Store::default();
/// store.write(FencingToken::new(7), "by the first holder")?;
/// store.write(FencingToken::new(9), "by the second")?;
/// let stale = store.write(FencingToken::new(7), "by the first, which has slept").unwrap_err();
/// assert_eq!(stale.highest, FencingToken::new(9));
/// # Ok::<(), StaleToken>(())
/// ```
///
/// # Readers
///
/// The store of a [`RwLock`](crate::RwLock) admits its readers with [`admit_shared`](Self::admit_shared). Readers may
/// hold the lock together, so an older reader does not become stale when a younger one comes. The gate keeps two marks.
/// A writer's token must not be lower than either, and a reader's token must not be lower than the writers' mark.
#[derive(Debug, Default)]
pub struct FenceGate {
    exclusive: Option<FencingToken>,
    shared: Option<FencingToken>,
}

impl FenceGate {
    /// Makes a gate that has seen no token. It accepts any first token.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a gate that has already seen `highest`, for a store that remembers it across restarts.
    pub fn starting_at(highest: FencingToken) -> Self {
        Self { exclusive: Some(highest), shared: None }
    }

    /// Makes the gate remember this token of a reader, too.
    #[must_use]
    pub fn and_shared(self, highest: FencingToken) -> Self {
        Self { shared: Some(highest), ..self }
    }

    /// Accepts the token of a holder that holds the lock alone. From then on, the gate refuses every lower token. The
    /// same token may come any number of times.
    ///
    /// # Errors
    ///
    /// [`StaleToken`] if a higher token was accepted before. The gate does not change.
    pub fn admit(&mut self, token: FencingToken) -> Result<(), StaleToken> {
        not_lower(token, self.exclusive.max(self.shared))?;
        self.exclusive = Some(token);
        Ok(())
    }

    /// Accepts the token of a reader. From then on, the gate refuses every lower token of a writer.
    ///
    /// # Errors
    ///
    /// [`StaleToken`] if a higher token was accepted by [`admit`](Self::admit) before. The gate does not change.
    pub fn admit_shared(&mut self, token: FencingToken) -> Result<(), StaleToken> {
        not_lower(token, self.exclusive)?;
        self.shared = self.shared.max(Some(token));
        Ok(())
    }

    /// Returns the highest token that [`admit`](Self::admit) accepted, if it accepted any.
    pub fn highest(&self) -> Option<FencingToken> {
        self.exclusive
    }

    /// Returns the highest token that [`admit_shared`](Self::admit_shared) accepted, if it accepted any.
    pub fn highest_shared(&self) -> Option<FencingToken> {
        self.shared
    }
}

fn not_lower(token: FencingToken, mark: Option<FencingToken>) -> Result<(), StaleToken> {
    match mark {
        Some(highest) if token < highest => Err(StaleToken { token, highest }),
        _ => Ok(()),
    }
}

/// The gate refused a token, because it had accepted a higher one. If both tokens are of one lock, the holder of the lower
/// token no longer holds the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the token {token} is stale, because the higher token {highest} was accepted before; refuse this request: if both \
     tokens are of one lock, another holder has had the lock since then, and the sender must acquire it again; if they \
     are of two locks, give each lock a fence of its own"
)]
#[non_exhaustive]
pub struct StaleToken {
    /// The token that the gate refused.
    pub token: FencingToken,
    /// The highest token that the gate accepted before.
    pub highest: FencingToken,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_lower_token_is_refused_and_changes_nothing() {
        let mut gate = FenceGate::new();
        assert_eq!(gate.highest(), None);
        gate.admit(FencingToken::new(2)).unwrap();
        gate.admit(FencingToken::new(2)).unwrap();
        let stale = StaleToken { token: FencingToken::new(1), highest: FencingToken::new(2) };
        assert_eq!(gate.admit(FencingToken::new(1)), Err(stale));
        assert_eq!(gate.highest(), Some(FencingToken::new(2)));
    }

    #[test]
    fn a_restarted_store_goes_on_where_it_was() {
        let mut gate = FenceGate::starting_at(FencingToken::new(5));
        gate.admit(FencingToken::new(4)).unwrap_err();
        gate.admit(FencingToken::new(5)).unwrap();
    }

    #[test]
    fn readers_overlap_each_other_and_no_writer() {
        let [one, two, three, four] = [1, 2, 3, 4].map(FencingToken::new);
        let mut gate = FenceGate::new();
        gate.admit(one).unwrap();
        gate.admit_shared(three).unwrap();
        gate.admit_shared(two).unwrap();
        // The readers came after this writer, so it does not hold the lock any more.
        assert_eq!(gate.admit(one), Err(StaleToken { token: one, highest: three }));
        gate.admit(four).unwrap();
        assert_eq!(gate.admit_shared(three), Err(StaleToken { token: three, highest: four }));
        assert_eq!((gate.highest(), gate.highest_shared()), (Some(four), Some(three)));

        let mut restarted = FenceGate::starting_at(one).and_shared(three);
        restarted.admit(two).unwrap_err();
        restarted.admit_shared(two).unwrap();
    }

    proptest! {
        #[test]
        fn what_is_admitted_is_the_running_maximum(tokens in prop::collection::vec(-4i64..4, 0..20)) {
            let mut gate = FenceGate::new();
            for (count, token) in tokens.iter().enumerate() {
                let is_maximum = tokens[..count].iter().all(|earlier| earlier <= token);
                prop_assert_eq!(gate.admit(FencingToken::new(*token)).is_ok(), is_maximum);
                prop_assert_eq!(gate.highest().map(FencingToken::zxid), tokens[..=count].iter().max().copied());
            }
        }
    }
}
