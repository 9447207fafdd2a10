//! The data in the znodes that zklock makes, and the names of those that are no contenders. The recipe gives an election's and a pool's
//! their names ([`PathKind`]), and contenders theirs.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use zklock_recipe::{PathKind, Stock};

/// The name of an ask's node at the path that is asked for.
pub(crate) const ASK: &str = "ask";

/// What the name of the directory of a lock's records adds to the lock's name.
pub(crate) const RECORDS_SUFFIX: &str = ".once";

/// The name of a node beside the records that shows the leader's clock. No run can have it.
pub(crate) const CLOCK_PROBE: &str = "@now";

/// The data of a contender's node: a small JSON object. Operators read it, and zklock finds its own node again by it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeData {
    /// Names one create, so that zklock recognises its node if the reply was lost.
    pub(crate) id: Uuid,
    #[serde(default)]
    pub(crate) owner: String,
    /// When the contender entered the queue, by the wall clock of its machine: milliseconds since the Unix epoch.
    #[serde(default)]
    pub(crate) since: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) data: Option<String>,
    /// What the contender contends for. Nothing is written for a lock.
    #[serde(default = "lock", rename = "for", with = "Word", skip_serializing_if = "is_lock")]
    pub(crate) kind: PathKind,
}

/// How a kind is written.
#[derive(Serialize, Deserialize)]
#[serde(remote = "PathKind", rename_all = "lowercase")]
enum Word {
    Lock,
    Election,
    Semaphore,
    Slots,
}

fn lock() -> PathKind {
    PathKind::Lock
}

fn is_lock(kind: &PathKind) -> bool {
    *kind == PathKind::Lock
}

impl NodeData {
    pub(crate) fn new(id: Uuid, owner: &str, data: Option<&str>) -> Self {
        let data = data.map(str::to_owned);
        Self { id, owner: owner.to_owned(), since: milliseconds(), data, kind: PathKind::Lock }
    }

    /// The same data, of a contender for this.
    pub(crate) fn contending_for(self, kind: PathKind) -> Self {
        Self { kind, ..self }
    }

    /// How many bytes a contender with these texts writes at most. JSON takes up to six bytes for one of a text.
    pub(crate) fn longest(owner: &str, data: Option<&str>) -> usize {
        let longest = Self { since: u64::MAX, ..Self::new(Uuid::nil(), owner, data) };
        encode(&longest.contending_for(PathKind::Semaphore)).len()
    }

    pub(crate) fn since(&self) -> Option<SystemTime> {
        time(self.since)
    }
}

/// The data of an election's announcement: a small JSON object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeaderData {
    /// The leader's fencing token.
    pub(crate) token: i64,
    #[serde(default)]
    pub(crate) owner: String,
    /// What the leader announces.
    pub(crate) value: String,
    /// When the leader announced that, by the wall clock of its machine: milliseconds since the Unix epoch.
    #[serde(default)]
    pub(crate) since: u64,
}

impl LeaderData {
    pub(crate) fn new(token: i64, owner: &str, value: &str) -> Self {
        Self { token, owner: owner.to_owned(), value: value.to_owned(), since: milliseconds() }
    }

    pub(crate) fn since(&self) -> Option<SystemTime> {
        time(self.since)
    }
}

/// The data of an ask: a small JSON object. The time of the node's creation, by the leader's clock, belongs to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AskData {
    /// Names one ask, so that its asker recognises its node if the reply was lost.
    pub(crate) id: Uuid,
    #[serde(default)]
    pub(crate) who: String,
    #[serde(default)]
    pub(crate) why: String,
    /// How long after the node's creation the holders are to have let go, in milliseconds.
    pub(crate) within: u64,
    /// Those who are asked: the name of each holder's node, and the transaction that created it.
    pub(crate) of: Vec<(String, i64)>,
}

impl AskData {
    /// The longest owner text and the longest reason, in bytes.
    pub(crate) const LONGEST_OWNER: usize = 256;
    pub(crate) const LONGEST_REASON: usize = 1024;

    /// The longest data of an ask, in bytes: it names each holder. A server takes 1 MiB by default.
    pub(crate) const LONGEST: usize = 512 * 1024;

    /// Returns the ask in these bytes, if an asker can have written them.
    pub(crate) fn decode(data: &[u8]) -> Option<Self> {
        let ask = Some(data).filter(|data| data.len() <= Self::LONGEST).and_then(decode::<Self>)?;
        let is_short = ask.who.len() <= Self::LONGEST_OWNER && ask.why.len() <= Self::LONGEST_REASON;
        is_short.then_some(ask)
    }
}

/// The data of a pool's directory: how much it has, as a small JSON object such as `{"permits":8}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PoolData {
    Permits(u32),
    Slots(u32),
}

impl PoolData {
    pub(crate) fn encode(stock: Stock) -> Vec<u8> {
        let data = match stock {
            Stock::Permits(capacity) => Self::Permits(capacity),
            Stock::Slots(count) => Self::Slots(count),
        };
        encode(&data)
    }

    /// Reads the data from the directory's bytes; `None` if it is no pool's, or has a layout that this version does not
    /// know. Nothing is passed over: a later version may have added a rule.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Stock> {
        match decode(bytes)? {
            Self::Permits(capacity) => Some(Stock::Permits(capacity)),
            Self::Slots(count) => Some(Stock::Slots(count)),
        }
    }
}

/// The bytes of a node's data. A type of strings and numbers has no key or value that JSON cannot write, so there are some.
pub(crate) fn encode(data: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(data).unwrap_or_default()
}

/// Reads a node's data; `None` if they are not of this type, or have a layout that this version does not know.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    serde_json::from_slice(bytes).ok()
}

/// A number of milliseconds since the Unix epoch, as a point in time.
pub(crate) fn time(milliseconds: u64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_millis(milliseconds))
}

/// The present time by the wall clock, in milliseconds since the Unix epoch.
fn milliseconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    since.as_millis().try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn data_survives_the_way_through_a_node() {
        let data = NodeData::new(Uuid::new_v4(), "host:7 \"quoted\"", Some("extra"));
        assert_eq!(decode(&encode(&data)), Some(data));
    }

    #[test]
    fn no_node_has_more_bytes_than_the_longest_one_of_its_texts() {
        for text in ["", "extra", &"\"".repeat(16 * 1024), &"\u{1}".repeat(16 * 1024)] {
            let data = (!text.is_empty()).then_some(text);
            let longest = NodeData::longest(text, None);
            for kind in [PathKind::Lock, PathKind::Election, PathKind::Semaphore, PathKind::Slots] {
                let length =
                    |data| encode(&NodeData::new(Uuid::new_v4(), text, data).contending_for(kind)).len();
                assert!(length(None) <= longest && length(data) <= NodeData::longest(text, data));
            }
        }
        assert!(NodeData::longest("o", Some(&"\"".repeat(16 * 1024))) > 32 * 1024);
    }

    #[test]
    fn a_contender_says_what_it_contends_for_unless_that_is_a_lock() {
        let lock = NodeData::new(Uuid::new_v4(), "o", None);
        assert!(!String::from_utf8(encode(&lock)).unwrap().contains("for"));
        let slots = lock.clone().contending_for(PathKind::Slots);
        assert!(String::from_utf8(encode(&slots)).unwrap().contains(r#""for":"slots""#));
        assert_eq!(decode(&encode(&lock)), Some(lock));
        assert_eq!(decode(&encode(&slots)), Some(slots));
    }

    #[test]
    fn announcements_survive_the_way_through_a_node() {
        let data = LeaderData::new(7, "host:7", "10.0.0.1:80 \"quoted\"");
        assert_eq!(decode(&encode(&data)), Some(data));
        assert_eq!(decode::<LeaderData>(b"10.0.0.1:80"), None);
        assert_eq!(decode::<NodeData>(&encode(&LeaderData::new(7, "host:7", ""))), None);
    }

    #[test]
    fn a_pool_says_what_it_has_and_nothing_else() {
        assert_eq!(PoolData::encode(Stock::Permits(8)), br#"{"permits":8}"#);
        for stock in [Stock::Permits(8), Stock::Slots(1024)] {
            assert_eq!(PoolData::decode(&PoolData::encode(stock)), Some(stock));
        }
        for bytes in
            ["", "8", "{}", r#"{"permits":-1}"#, r#"{"permits":8,"slots":8}"#, r#"{"permits":8,"burst":2}"#]
        {
            assert_eq!(PoolData::decode(bytes.as_bytes()), None, "{bytes}");
        }
    }

    #[test]
    fn foreign_data_is_no_contender_of_ours() {
        for bytes in ["", "10.0.0.1", r#"{"owner":"x"}"#] {
            assert_eq!(decode::<NodeData>(bytes.as_bytes()), None);
        }
    }

    #[test]
    fn fields_of_later_versions_are_passed_over() {
        let id = Uuid::new_v4();
        let json = format!(r#"{{"id":"{id}","owner":"o","since":1,"later":true}}"#);
        assert_eq!(decode::<NodeData>(json.as_bytes()).map(|data| data.id), Some(id));
    }

    /// What zklock writes, with other values.
    const NEARLY: &str = r#"\{("id":"0{32}"(,"within":7,"of":\[\])?|"token":7,"value":""|"(permits|slots)":[0-9]{1,11})(,"(owner|since|data|for|who|why|of)":("lock"|"\PC{0,2}"|-?[0-9]{1,20}|null|\[(\["a",[0-9]\])?\])){0,2}\}"#;

    fn read_again<T: Serialize + DeserializeOwned + PartialEq>(data: &T) -> bool {
        decode::<T>(&encode(data)).as_ref() == Some(data)
    }

    proptest! {
        #[test]
        fn any_data_of_ours_survives_the_way_through_a_node(
            id: u128,
            texts: (String, String),
            data: Option<String>,
            numbers: (u64, i64, u32),
            of in prop::collection::vec(("\\PC{0,4}", any::<i64>()), 0..4),
            kind in prop::sample::select(vec![PathKind::Lock, PathKind::Election, PathKind::Semaphore, PathKind::Slots]),
        ) {
            let id = Uuid::from_u128(id);
            let (owner, why) = texts;
            let (since, token, number) = numbers;
            let longest = NodeData::longest(&owner, data.as_deref());
            let contender = NodeData { id, owner: owner.clone(), since, data, kind };
            prop_assert!(read_again(&contender) && encode(&contender).len() <= longest);
            let leader = LeaderData { token, owner: owner.clone(), value: why.clone(), since };
            let ask = AskData { id, who: owner, why, within: since, of };
            prop_assert!(read_again(&leader) && read_again(&ask));
            for stock in [Stock::Permits(number), Stock::Slots(number)] {
                prop_assert_eq!(PoolData::decode(&PoolData::encode(stock)), Some(stock));
            }
        }

        #[test]
        fn any_bytes_are_data_of_ours_or_not(
            bytes in prop_oneof![prop::collection::vec(any::<u8>(), 0..64), NEARLY.prop_map(String::into_bytes)],
        ) {
            let contender = decode::<NodeData>(&bytes);
            prop_assert!(contender.is_none_or(|it| read_again(&it) && it.since() >= Some(UNIX_EPOCH)));
            prop_assert!(decode::<LeaderData>(&bytes).is_none_or(|it| read_again(&it) && it.since() >= Some(UNIX_EPOCH)));
            prop_assert!(AskData::decode(&bytes).is_none_or(|it| read_again(&it)));
            let stock = PoolData::decode(&bytes);
            prop_assert!(stock.is_none_or(|it| PoolData::decode(&PoolData::encode(it)) == stock));
        }
    }
}
