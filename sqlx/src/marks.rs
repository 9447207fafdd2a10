//! The two marks of a fence.

use zklock::FencingToken;
use zklock::fence::{FenceGate, StaleToken};

use crate::holder::Holder;

/// No mark: lower than every token, because a zxid is positive.
const NONE: FencingToken = FencingToken::new(0);

/// The highest tokens that a fence has admitted: of holders that held the lock alone, and of readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    exclusive: FencingToken,
    shared: FencingToken,
}

/// The columns of a row, in the order of the statements.
type Columns = (i64, i64, i64, i64);

impl Marks {
    pub(crate) const NONE: Self = Self { exclusive: NONE, shared: NONE };

    /// Returns the marks after the holder was admitted, by the rules of [`FenceGate`].
    pub(crate) fn admit(self, holder: &Holder<'_>) -> Result<Self, StaleToken> {
        let mut gate = FenceGate::starting_at(self.exclusive).and_shared(self.shared);
        if holder.is_reader() {
            gate.admit_shared(holder.token())?;
        } else {
            gate.admit(holder.token())?;
        }
        Ok(Self { exclusive: gate.highest().unwrap_or(NONE), shared: gate.highest_shared().unwrap_or(NONE) })
    }

    pub(crate) fn columns(self) -> Columns {
        let Self { exclusive, shared } = self;
        (exclusive.zxid(), exclusive.turn().into(), shared.zxid(), shared.turn().into())
    }

    pub(crate) fn from_columns((zxid, turn, shared_zxid, shared_turn): Columns) -> sqlx::Result<Self> {
        Ok(Self { exclusive: token(zxid, turn)?, shared: token(shared_zxid, shared_turn)? })
    }
}

fn token(zxid: i64, turn: i64) -> sqlx::Result<FencingToken> {
    let turn = u32::try_from(turn).map_err(|error| sqlx::Error::Decode(error.into()))?;
    Ok(FencingToken::of_turn(zxid, turn))
}
