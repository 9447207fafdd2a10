//! Semaphores and slots: how the command line names them, and how they are, as text for people and as JSON.

use futures::future::try_join4;
use jiff::Timestamp;
use serde::{Serialize, Serializer};
use zklock::{
    QueryError, Session,
    inspect::{ForeignContender, HeldPool, Kind},
};

use crate::failure::Failure;
use crate::queue::{Entry, entries};
use crate::table::{self, Column};
use crate::text::counted;

/// The slots of `--slot PATH/COUNT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlotOf {
    pub(crate) path: String,
    pub(crate) count: u32,
    /// The index that is taken if it is free.
    pub(crate) preferred: Option<u32>,
}

/// The semaphore of `--permits PATH/CAPACITY`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PermitsOf {
    pub(crate) path: String,
    pub(crate) capacity: u32,
    pub(crate) weight: u32,
}

pub(crate) fn parse_slot(text: &str) -> Result<SlotOf, String> {
    let form = "write PATH/COUNT or PATH/COUNT:PREFERRED; for example, /workers/8 means 8 slots at /workers";
    let (path, count, preferred) = split_parts(text).ok_or(form)?;
    if count == 0 {
        return Err("COUNT is 0; it must be at least 1".to_owned());
    }
    if preferred.is_some_and(|index| index >= count) {
        return Err(format!("PREFERRED is not the index of a slot; choose one from 0 to {}", count - 1));
    }
    Ok(SlotOf { path, count, preferred })
}

pub(crate) fn parse_permits(text: &str) -> Result<PermitsOf, String> {
    let form = "write PATH/CAPACITY or PATH/CAPACITY:WEIGHT; for example, /convert/8 means a capacity of 8 at /convert";
    let (path, capacity, weight) = split_parts(text).ok_or(form)?;
    let weight = weight.unwrap_or(1);
    if capacity == 0 {
        return Err("CAPACITY is 0; it must be at least 1".to_owned());
    }
    if weight == 0 || weight > capacity {
        return Err(format!(
            "WEIGHT is the part of the capacity that CMD takes; it must be from 1 to {capacity}"
        ));
    }
    Ok(PermitsOf { path, capacity, weight })
}

/// The path of a pool and what stands behind it, if this is what `--slot` and `--permits` take.
pub(crate) fn split_path(text: &str) -> Option<(&str, &str)> {
    split_parts(text)?;
    text.rsplit_once('/')
}

/// A path, a number as its last name, and maybe another number behind it.
fn split_parts(text: &str) -> Option<(String, u32, Option<u32>)> {
    let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?;
    let (path, last) = text.rsplit_once('/')?;
    let (first, second) = match last.split_once(':') {
        Some((first, second)) => (first, Some(number(second)?)),
        None => (last, None),
    };
    path.starts_with('/').then_some((path.to_owned(), number(first)?, second))
}

/// The path of the lock that contenders of this pool pass one by one.
pub(crate) fn turnstile(path: &str) -> String {
    format!("{path}/queue")
}

/// The node that keeps the number of this pool, and those that hold some of it.
pub(crate) fn permits_node(path: &str) -> String {
    format!("{path}/permits")
}

/// How much there is. The fields of the JSON have the same names.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum Stock {
    Semaphore { capacity: u32 },
    Slots { count: u32 },
}

impl Stock {
    pub(crate) fn total(self) -> u32 {
        match self {
            Self::Semaphore { capacity } => capacity,
            Self::Slots { count } => count,
        }
    }

    pub(crate) fn what(self) -> &'static str {
        match self {
            Self::Semaphore { .. } => "is a semaphore",
            Self::Slots { .. } => "has slots",
        }
    }

    pub(crate) fn text(self, held: u64) -> String {
        match self {
            Self::Semaphore { capacity } => format!("{held} of {}", counted(capacity, "permit")),
            Self::Slots { count } => format!("{held} of {}", counted(count, "slot")),
        }
    }
}

impl From<&HeldPool> for Stock {
    fn from(pool: &HeldPool) -> Self {
        match pool.holder.kind {
            Kind::Slot(_) => Self::Slots { count: pool.capacity },
            _ => Self::Semaphore { capacity: pool.capacity },
        }
    }
}

/// How much there is, and how much of it is held. The fields of the JSON have the same names.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Shares {
    #[serde(flatten)]
    pub(crate) stock: Stock,
    pub(crate) held: u64,
}

/// How much of it a holder has. The fields of the JSON have the same names.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Amount {
    Weight(u32),
    Index(u32),
}

impl Amount {
    fn of(holder: &Entry) -> Self {
        match holder.kind {
            Kind::Slot(index) => Self::Index(index),
            Kind::Permit(weight) => Self::Weight(weight),
            _ => Self::Weight(1),
        }
    }
}

/// One that holds a permit or a slot. The fields of the JSON have the same names.
#[derive(Serialize)]
struct PoolHolder<'a> {
    #[serde(flatten)]
    amount: Amount,
    #[serde(flatten)]
    entry: &'a Entry,
}

fn serialize_holders<S: Serializer>(holders: &[Entry], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(holders.iter().map(|entry| PoolHolder { amount: Amount::of(entry), entry }))
}

/// A semaphore, or slots. The fields of the JSON have the same names.
#[derive(Serialize)]
pub(crate) struct Pool {
    #[serde(flatten)]
    pub(crate) stock: Stock,
    pub(crate) held: u64,
    /// Slots by their index, permits the oldest first.
    #[serde(serialize_with = "serialize_holders")]
    pub(crate) holders: Vec<Entry>,
    /// The turnstile. The first one there waits for room, and each other one for the one in front of it.
    pub(crate) waiting: Vec<Entry>,
    /// The contenders of other clients in the turnstile's directory.
    #[serde(skip)]
    pub(crate) foreign: Vec<ForeignContender>,
}

impl Pool {
    /// The semaphore at this path, or the slots there. `None` if nobody has used the path so, or if these credentials do not
    /// suffice to see it.
    pub(crate) async fn at(session: &Session, path: &str) -> Result<Option<Self>, Failure> {
        // Such a path may be too long for a turnstile below it, though not for a lock.
        let Ok(turnstile) = session.lock(&turnstile(path)) else { return Ok(None) };
        let semaphore = session.semaphore(path, 1)?;
        let slots = session.slots(path, 1)?;
        let seen = try_join4(
            semaphore.permits(),
            slots.slots(),
            turnstile.contenders(),
            turnstile.foreign_contenders(),
        );
        let (permits, slots, queue, foreign) = match seen.await {
            Ok(seen) => seen,
            Err(QueryError::NotAuthorized { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let (stock, mut held) = match (permits.capacity, slots.count) {
            (Some(capacity), _) => (Stock::Semaphore { capacity }, permits.permits),
            (None, Some(count)) => (Stock::Slots { count }, slots.slots),
            (None, None) => return Ok(None),
        };
        if let Stock::Slots { .. } = stock {
            held.sort_by_key(|holder| match holder.kind {
                Kind::Slot(index) => index,
                _ => u32::MAX,
            });
        }
        let holders = held.iter().map(Entry::from).collect::<Vec<_>>();
        let held = holders.iter().map(share_of).sum();
        // Nobody holds anything by being the first in the turnstile.
        let waiting = entries(&queue).into_iter().map(|entry| Entry { holds: false, ..entry }).collect();
        Ok(Some(Self { stock, held, holders, waiting, foreign }))
    }

    /// How much is free. The capacity may have been lowered below what is held.
    pub(crate) fn free(&self) -> u64 {
        u64::from(self.stock.total()).saturating_sub(self.held)
    }

    /// Who has held some for the longest time.
    pub(crate) fn oldest(&self) -> Option<&Entry> {
        self.holders.iter().min_by_key(|entry| entry.sequence)
    }

    pub(crate) fn shown_text<'a>(&'a self, now: Timestamp) -> String {
        let waiting = match self.waiting.len() {
            0 => "nobody waits".to_owned(),
            some => format!("{some} waiting"),
        };
        let first = format!("{} held, {waiting}\n", self.stock.text(self.held));
        if self.holders.is_empty() && self.waiting.is_empty() {
            return first;
        }
        let name = match self.stock {
            Stock::Semaphore { .. } => "PERMITS",
            Stock::Slots { .. } => "SLOT",
        };
        let held = self.holders.iter().map(|entry| {
            let (Amount::Weight(number) | Amount::Index(number)) = Amount::of(entry);
            (number.to_string(), entry)
        });
        let waiting = self.waiting.iter().map(|entry| {
            let position =
                if entry.position == 0 { "next".to_owned() } else { format!("+{}", entry.position) };
            (position, entry)
        });
        let rows = held.chain(waiting).collect::<Vec<_>>();
        let has_data = rows.iter().any(|(_, entry)| entry.data.is_some());
        let columns: [Column<'_, (String, &'a Entry)>; 7] = [
            (name, true, &|(first, _)| first.clone()),
            ("OWNER", true, &|(_, entry)| entry.owner_text()),
            ("ARRIVED", true, &|(_, entry)| entry.since_text(now)),
            ("SESSION", true, &|(_, entry)| entry.session_text()),
            ("TOKEN", true, &|(_, entry)| entry.token_text()),
            ("SEQUENCE", true, &|(_, entry)| entry.sequence_text()),
            ("DATA", has_data, &|(_, entry)| entry.data_text()),
        ];
        format!("{first}{}", table::of_columns(&columns, &rows))
    }
}

/// How much of the stock a holder has.
pub(crate) fn share_of(holder: &Entry) -> u64 {
    match holder.kind {
        Kind::Permit(weight) => weight.into(),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_number_is_the_last_name_of_the_path() {
        let slot = |path: &str, count, preferred| Ok(SlotOf { path: path.to_owned(), count, preferred });
        assert_eq!(parse_slot("/workers/8"), slot("/workers", 8, None));
        assert_eq!(parse_slot("/a:b/7/8:0"), slot("/a:b/7", 8, Some(0)));
        let permits =
            |path: &str, capacity, weight| Ok(PermitsOf { path: path.to_owned(), capacity, weight });
        assert_eq!(parse_permits("/convert/8"), permits("/convert", 8, 1));
        assert_eq!(parse_permits("/convert/8:8"), permits("/convert", 8, 8));
    }

    #[test]
    fn what_does_not_parse_is_told_the_form() {
        for text in
            ["", "8", "/8", "workers/8", "/workers", "/workers/", "/workers/+8", "/workers/8:", "/workers/:8"]
        {
            assert!(parse_slot(text).unwrap_err().contains("PATH/COUNT:PREFERRED"), "{text}");
            assert!(parse_permits(text).unwrap_err().contains("PATH/CAPACITY:WEIGHT"), "{text}");
        }
        for text in ["/workers/8:1:2", "/workers/4294967296", "/workers/-1", "/workers/8 "] {
            assert!(parse_slot(text).is_err() && parse_permits(text).is_err(), "{text}");
        }
        assert!(parse_slot("/workers/0").unwrap_err().contains("COUNT is 0"));
        assert!(parse_slot("/workers/8:8").unwrap_err().contains("from 0 to 7"));
        assert!(parse_permits("/convert/0").unwrap_err().contains("CAPACITY is 0"));
        for text in ["/convert/8:0", "/convert/8:9"] {
            assert!(parse_permits(text).unwrap_err().contains("1 to 8"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_names_a_pool_or_is_refused(text in prop_oneof![any::<String>(), "(/[a:]{0,2}){0,2}/[0-9]{0,11}(:[0-9]{0,3})?"]) {
            if let Ok(PermitsOf { path, capacity, weight }) = parse_permits(&text) {
                prop_assert_eq!(parse_permits(&format!("{path}/{capacity}:{weight}")), parse_permits(&text));
            }
            prop_assert!(parse_slot(&text).is_err() || split_path(&text).is_some());
        }
    }
}
