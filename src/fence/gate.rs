//! The gate by which a store checks tokens.

use super::token::FencingToken;

/// Refuses stale holders: it accepts a token only if no higher token was accepted before.
///
/// The store that a lock protects keeps one gate for each lock. [`admit`](Self::admit) takes `&mut self` on purpose:
/// nothing may come between the check and the write that it admits. So keep the gate behind the same mutex as the data,
/// and write before you unlock that mutex.
///
/// A gate remembers nothing across restarts. A store that outlives its process must save [`highest`](Self::highest)
/// with the data, in one transaction, and begin again with [`starting_at`](Self::starting_at). The example
/// `fenced_store` does the same inside SQL.
///
/// ```
/// use std::sync::{Mutex, PoisonError};
///
/// use zklock::{FenceGate, FencingToken, StaleToken};
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
#[derive(Debug, Default)]
pub struct FenceGate {
    highest: Option<FencingToken>,
}

impl FenceGate {
    /// Makes a gate that has seen no token. It accepts any first token.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a gate that has already seen `highest`, for a store that remembers it across restarts.
    pub fn starting_at(highest: FencingToken) -> Self {
        Self { highest: Some(highest) }
    }

    /// Accepts `token`, and from then on refuses every lower one. The same token may come any number of times.
    ///
    /// # Errors
    ///
    /// [`StaleToken`] if a higher token was accepted before. The gate does not change.
    pub fn admit(&mut self, token: FencingToken) -> Result<(), StaleToken> {
        match self.highest {
            Some(highest) if token < highest => Err(StaleToken { token, highest }),
            _ => {
                self.highest = Some(token);
                Ok(())
            }
        }
    }

    /// Returns the highest token that the gate accepted, if it accepted any.
    pub fn highest(&self) -> Option<FencingToken> {
        self.highest
    }
}

/// A gate refused a token, because its holder does not hold the lock any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the token {token} is stale, because {highest} was seen before: the lock has had another holder since; refuse this \
     request and have its sender acquire the lock again"
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

    proptest! {
        #[test]
        fn what_is_admitted_is_the_running_maximum(tokens in prop::collection::vec(-4i64..4, 0..20)) {
            let mut gate = FenceGate::new();
            for (count, token) in tokens.iter().enumerate() {
                let is_maximum = tokens[..count].iter().all(|earlier| earlier <= token);
                prop_assert_eq!(gate.admit(FencingToken::new(*token)).is_ok(), is_maximum);
                prop_assert_eq!(gate.highest().map(FencingToken::as_i64), tokens[..=count].iter().max().copied());
            }
        }
    }
}
