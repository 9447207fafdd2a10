//! The [`FencingToken`].

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

/// A number that strictly increases in the order in which a lock is granted, whichever client holds it.
///
/// A lease cannot stop a process that is paused between asking its guard and acting. A store can: it remembers the
/// highest token it has seen, and refuses a lower one. [`FenceGate`](crate::FenceGate) does that in memory, and the
/// example `fenced_store` does it inside SQL.
///
/// The token is the `czxid` of the holder's node: the number of the ZooKeeper transaction that created the node. Unlike
/// sequence numbers, tokens keep increasing when the lock's directory is deleted and created again. If the ensemble is
/// rebuilt from nothing, tokens start over. A store that remembers a highest token then refuses every holder until an
/// operator resets it.
///
/// ```
/// use zklock::FencingToken;
///
/// let token: FencingToken = "4294967298".parse()?;
/// assert!(token > FencingToken::new(4294967297));
/// assert_eq!(token.to_string(), "4294967298");
/// # Ok::<(), std::num::ParseIntError>(())
/// ```
///
/// With the feature `serde` it is serialized as a plain number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct FencingToken(i64);

impl FencingToken {
    /// Makes a token from a number that was stored or sent.
    pub fn new(token: i64) -> Self {
        Self(token)
    }

    /// Returns the token as a number, for storing or sending it.
    pub fn as_i64(self) -> i64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for FencingToken {
    type Err = ParseIntError;

    fn from_str(token: &str) -> Result<Self, ParseIntError> {
        token.parse().map(Self)
    }
}

#[cfg(all(test, feature = "serde"))]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_plain_number_to_serde() {
        let token = FencingToken::new(4_294_967_298);
        assert_eq!(serde_json::to_string(&token).unwrap(), "4294967298");
        assert_eq!(serde_json::from_str::<FencingToken>("4294967298").unwrap(), token);
        assert!(serde_json::from_str::<FencingToken>("\"4294967298\"").is_err());
    }
}
