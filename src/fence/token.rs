//! The [`FencingToken`].

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

/// A token that grows as a lock is granted, whichever client holds it. The token of a grant is higher than the token of
/// each earlier grant that cannot be held beside it. Readers that hold the lock together are granted in any order.
///
/// A lease cannot stop a process that is paused between asking its guard and acting. A store can: it remembers the
/// highest token it has seen, and refuses a lower one. [`FenceGate`](crate::FenceGate) does that in memory, and the
/// crate `zklock-sqlx` does it in Postgres and SQLite.
///
/// A token has two numbers. The first number is compared first. It is the `czxid` of the holder's node: the number of
/// the ZooKeeper transaction that created the node. Unlike sequence numbers, these numbers keep increasing when the
/// lock's directory is deleted and created again. If the ensemble is rebuilt from nothing, they start over. A store
/// that remembers a highest token then refuses every holder until an operator resets it.
///
/// The second number is the turn. Usually it is 0. If a lock of [`Locks`](crate::Locks) was passed on inside a process,
/// the turn is the number of tasks that held the lock before with the same node. A store of such a lock must compare
/// both numbers.
///
/// The string form is the first number. If the turn is not 0, a point and the turn follow. The string is text and not a
/// decimal number: `7.10` is higher than `7.9`, but a `NUMERIC` column or a column of text treats it as lower. Keep
/// [`zxid`](Self::zxid) and [`turn`](Self::turn) in two integer columns, and compare them in this order.
///
/// ```
/// use zklock::FencingToken;
///
/// let token: FencingToken = "4294967298".parse()?;
/// assert!(token > FencingToken::new(4294967297));
/// assert_eq!(token.to_string(), "4294967298");
///
/// let passed_on: FencingToken = "4294967298.3".parse()?;
/// assert_eq!((passed_on.zxid(), passed_on.turn()), (4294967298, 3));
/// assert!(passed_on > token && passed_on < FencingToken::new(4294967299));
/// # Ok::<(), std::num::ParseIntError>(())
/// ```
///
/// With the feature `serde` a token is serialized as a number if its turn is 0, and as its string otherwise. Binary formats
/// (bincode, postcard) get both numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken {
    // The order of the fields is the order of the tokens.
    zxid: i64,
    turn: u32,
}

impl FencingToken {
    /// Makes the token of a first turn, from a number that was stored or sent.
    pub const fn new(zxid: i64) -> Self {
        Self::of_turn(zxid, 0)
    }

    /// Makes a token from two numbers that were stored or sent.
    pub const fn of_turn(zxid: i64, turn: u32) -> Self {
        Self { zxid, turn }
    }

    /// Returns the number of the transaction that created the holder's node, for storing or sending the token.
    pub const fn zxid(self) -> i64 {
        self.zxid
    }

    /// Returns the number of tasks that held the lock before with the same node. A store that keeps only
    /// [`zxid`](Self::zxid) cannot tell these tasks apart.
    pub const fn turn(self) -> u32 {
        self.turn
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.turn {
            0 => self.zxid.fmt(f),
            turn => f.pad(&format!("{}.{turn}", self.zxid)),
        }
    }
}

impl FromStr for FencingToken {
    type Err = ParseIntError;

    fn from_str(token: &str) -> Result<Self, ParseIntError> {
        let (zxid, turn) = token.split_once('.').unwrap_or((token, "0"));
        Ok(Self { zxid: zxid.parse()?, turn: turn.parse()? })
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for FencingToken {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.turn {
            // Such a format does not tell a number from a text.
            turn if !serializer.is_human_readable() => (self.zxid, turn).serialize(serializer),
            0 => serializer.serialize_i64(self.zxid),
            _ => serializer.collect_str(self),
        }
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for FencingToken {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(serde::Deserialize)]
        #[serde(untagged)]
        enum Form {
            Number(i64),
            Text(String),
        }
        if !deserializer.is_human_readable() {
            let (zxid, turn) = serde::Deserialize::deserialize(deserializer)?;
            return Ok(Self { zxid, turn });
        }
        match Form::deserialize(deserializer)? {
            Form::Number(zxid) => Ok(Self::new(zxid)),
            Form::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_zxid_counts_more_than_the_turn() {
        let tokens = [(1, 0), (1, 1), (1, 10), (2, 0)].map(|(zxid, turn)| FencingToken::of_turn(zxid, turn));
        assert!(tokens.is_sorted());
        assert_eq!(tokens.map(|token| token.to_string()), ["1", "1.1", "1.10", "2"]);
        assert_eq!(tokens.map(|token| token.to_string().parse()), tokens.map(Ok));
        for text in ["", "1.", ".1", "1.-1", "1.1.1", "1,1"] {
            assert!(text.parse::<FencingToken>().is_err(), "{text}");
        }
    }

    #[cfg(feature = "serde")]
    #[test]
    fn a_first_turn_is_a_plain_number_to_serde() {
        for (token, json) in [
            (FencingToken::new(4_294_967_298), "4294967298"),
            (FencingToken::of_turn(4_294_967_298, 3), "\"4294967298.3\""),
        ] {
            assert_eq!(serde_json::to_string(&token).unwrap(), json);
            assert_eq!(serde_json::from_str::<FencingToken>(json).unwrap(), token);
        }
        assert!(serde_json::from_str::<FencingToken>("1.5").is_err());
    }

    #[cfg(feature = "serde")]
    #[test]
    fn binary_formats_get_both_numbers() {
        for token in [FencingToken::new(4_294_967_298), FencingToken::of_turn(4_294_967_298, 3)] {
            let bytes = postcard::to_allocvec(&token).unwrap();
            assert_eq!(postcard::from_bytes::<FencingToken>(&bytes).unwrap(), token);
        }
    }
}
