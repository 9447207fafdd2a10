//! The [`Sequencer`]: a holder's statement that others can check.

use std::fmt;
use std::str::FromStr;

use zklock_recipe::{Kind, Own, QueueLayout, QueuePlace, Sequence};

use super::token::FencingToken;
use crate::path::{LockPath, PathProblem};

/// What the number of a node begins with: the kinds of holders in the queues of each layout.
const TAGS: [(&str, QueueLayout, Kind); 4] = [
    ("", QueueLayout::Own, Kind::Exclusive),
    ("r", QueueLayout::Own, Kind::Shared),
    ("c", QueueLayout::CuratorMutex, Kind::Exclusive),
    ("k", QueueLayout::Kazoo, Kind::Exclusive),
];

/// A holder's statement that it holds its lock. It names the lock, the holder's node and the token. The holder sends it
/// to a server together with a request. The server calls
/// [`Session::verify_sequencer`](crate::Session::verify_sequencer), which asks ZooKeeper whether the statement is still
/// true.
///
/// A sequencer helps a server that keeps no highest token of its own, or that wants to refuse stale callers early. An
/// answer is about the moment at which it was given. Where a late write would do harm, the store must check the
/// [`token`](Self::token), too.
///
/// A sequencer has the lock's absolute path, so the server's session may have another chroot than the holder's.
///
/// The string form of a sequencer is `TOKEN:SESSION:NUMBER:PATH`: the fencing token, the holder's session id
/// (hexadecimal), the number of the holder's node (decimal, with an `r` in front if the holder is a reader of a
/// read-write lock, and with other letters in front in the queue of [another client](crate::Layout)), and the path of
/// the lock's directory. With the feature `serde` it is serialized as that string.
/// The string is not a secret and proves nothing about its sender: everybody who may read the queue can make it.
///
/// The idea is [Chubby's](https://research.google/pubs/the-chubby-lock-service-for-loosely-coupled-distributed-systems/).
///
/// ```
/// use zklock::Sequencer;
///
/// let sequencer: Sequencer = "4294967298:100001c4e6f0000:42:/lock/orders".parse()?;
/// assert_eq!(sequencer.path(), "/lock/orders");
/// assert_eq!(sequencer.token().zxid(), 4294967298);
/// assert_eq!(sequencer.to_string(), "4294967298:100001c4e6f0000:42:/lock/orders");
/// # Ok::<(), zklock::fence::InvalidSequencer>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sequencer {
    path: LockPath,
    own: Own,
    turn: u32,
    session: i64,
}

impl Sequencer {
    /// Makes the sequencer of the lock at the absolute path `path`, by the node `own` of `session`, in this turn.
    pub(crate) fn new(path: LockPath, own: Own, turn: u32, session: i64) -> Self {
        Self { path, own, turn, session }
    }

    /// Returns the absolute path of the lock's directory, with the chroot of the holder's session.
    pub fn path(&self) -> &str {
        self.path.as_str()
    }

    /// Returns the holder's fencing token.
    pub fn token(&self) -> FencingToken {
        FencingToken::of_turn(self.own.czxid, self.turn)
    }

    /// Returns whether the holder is a reader of a read-write lock, so that other readers may hold the lock, too.
    pub fn is_shared(&self) -> bool {
        self.own.place.kind == Kind::Shared
    }

    /// Returns the id of the holder's ZooKeeper session.
    pub fn session(&self) -> i64 {
        self.session
    }

    /// Returns the absolute path of the holder's node.
    pub fn node(&self) -> String {
        self.path.contender(self.own.place)
    }
}

impl fmt::Display for Sequencer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, own, session, .. } = self;
        let holder = |(_, layout, kind): &&(&str, QueueLayout, Kind)| {
            (*layout, *kind) == (path.layout(), own.place.kind)
        };
        let (tag, ..) = TAGS.iter().find(holder).unwrap_or(&TAGS[0]);
        write!(f, "{}:{session:x}:{tag}{}:{path}", self.token(), own.place.sequence.0)
    }
}

impl FromStr for Sequencer {
    type Err = InvalidSequencer;

    fn from_str(text: &str) -> Result<Self, InvalidSequencer> {
        let mut fields = text.splitn(4, ':');
        let (Some(token), Some(session), Some(number), Some(path)) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            return Err(InvalidSequencer::Fields);
        };
        // A field counts only in the spelling of `Display`, so that a sequencer has one string.
        let token = token.parse().ok().filter(|it: &FencingToken| it.zxid() > 0 && it.to_string() == token);
        let session = u64::from_str_radix(session, 16)
            .ok()
            // An owner of 0 means that the node is not ephemeral.
            .filter(|it| *it != 0 && format!("{it:x}") == session)
            .map(u64::cast_signed);
        let digits = number.trim_start_matches(|letter: char| letter.is_ascii_lowercase());
        let tag = &number[..number.len() - digits.len()];
        let (_, layout, kind) =
            *TAGS.iter().find(|(known, ..)| *known == tag).ok_or(InvalidSequencer::Number)?;
        let number = digits.parse::<i32>().ok().filter(|it| it.to_string() == digits).map(Sequence);
        let sequence = number.filter(|number| !number.is_exhausted()).ok_or(InvalidSequencer::Number)?;
        let token = token.ok_or(InvalidSequencer::Token)?;
        let own = Own { place: QueuePlace { sequence, kind }, czxid: token.zxid() };
        let session = session.ok_or(InvalidSequencer::Session)?;
        let path = LockPath::parse(path, "").map_err(InvalidSequencer::Path)?.with_layout(layout);
        Ok(Self { path, own, turn: token.turn(), session })
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Sequencer {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Sequencer {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Why a string is not a sequencer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidSequencer {
    /// The string does not have four fields.
    #[error("a sequencer has four fields, TOKEN:SESSION:NUMBER:PATH; use it exactly as its holder made it")]
    Fields,
    /// The first field is not a token.
    #[error(
        "the sequencer's token, its first field, is not a positive decimal number; use the sequencer exactly as its \
         holder made it"
    )]
    Token,
    /// The second field is not a session id.
    #[error(
        "the sequencer's session id, its second field, is not a hexadecimal number other than 0, in small letters and \
         without 0x; use the sequencer exactly as its holder made it"
    )]
    Session,
    /// The third field is not the number of a node that can hold a lock.
    #[error(
        "the sequencer's node number, its third field, is not a decimal number that a holder can have; use the \
         sequencer exactly as its holder made it"
    )]
    Number,
    /// The last field is not a path that a lock can have.
    #[error("the sequencer's path, its last field, cannot be a lock's: {0}")]
    Path(PathProblem),
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::path::PathProblem;
    use zklock_recipe::LAST_SEQUENCE;

    #[test]
    fn each_bad_string_is_told_its_problem() {
        for (text, problem) in [
            ("", InvalidSequencer::Fields),
            ("7:a:1", InvalidSequencer::Fields),
            (":a:1:/lock", InvalidSequencer::Token),
            ("0:a:1:/lock", InvalidSequencer::Token),
            ("-7:a:1:/lock", InvalidSequencer::Token),
            ("+7:a:1:/lock", InvalidSequencer::Token),
            ("07:a:1:/lock", InvalidSequencer::Token),
            ("9223372036854775808:a:1:/lock", InvalidSequencer::Token),
            ("7::1:/lock", InvalidSequencer::Session),
            ("7:0:1:/lock", InvalidSequencer::Session),
            ("7:A:1:/lock", InvalidSequencer::Session),
            ("7:0xa:1:/lock", InvalidSequencer::Session),
            ("7:-a:1:/lock", InvalidSequencer::Session),
            ("7:10000000000000000:1:/lock", InvalidSequencer::Session),
            ("7:a::/lock", InvalidSequencer::Number),
            ("7:a:-1:/lock", InvalidSequencer::Number),
            ("7:a:01:/lock", InvalidSequencer::Number),
            ("7:a:rr1:/lock", InvalidSequencer::Number),
            ("7:a:w1:/lock", InvalidSequencer::Number),
            ("7:a:cw1:/lock", InvalidSequencer::Number),
            ("7:a:kr1:/lock", InvalidSequencer::Number),
            ("7:a:2147483647:/lock", InvalidSequencer::Number),
            ("7:a:2147483648:/lock", InvalidSequencer::Number),
            ("7:a:1:", InvalidSequencer::Path(PathProblem::Empty)),
            ("7:a:1:lock", InvalidSequencer::Path(PathProblem::Relative)),
            ("7:a:1:/", InvalidSequencer::Path(PathProblem::Root)),
            ("7:a:1:/lock/", InvalidSequencer::Path(PathProblem::TrailingSlash)),
            ("7:a:1:/lock/../a", InvalidSequencer::Path(PathProblem::DotName)),
            ("7:a:1:/lock\n", InvalidSequencer::Path(PathProblem::Character(10))),
            ("7:a:1:/zookeeper/lock", InvalidSequencer::Path(PathProblem::Reserved)),
        ] {
            assert_eq!(text.parse::<Sequencer>(), Err(problem), "{text:?}");
        }
    }

    #[test]
    fn a_sequencer_names_a_node_of_any_path_and_a_readers_is_its_own() {
        for (text, session, node, is_shared) in [
            ("7:ffffffffffffffff:0:/lock/a:b", -1, "/lock/a:b/lock-0000000000", false),
            ("7:1:r42:/lock/a", 1, "/lock/a/rlock-0000000042", true),
        ] {
            let sequencer = text.parse::<Sequencer>().unwrap();
            assert!(text.ends_with(sequencer.path()));
            assert_eq!((sequencer.session(), sequencer.is_shared()), (session, is_shared));
            assert_eq!(sequencer.node(), node);
        }
    }

    #[cfg(feature = "serde")]
    #[test]
    fn it_is_its_string_to_serde() {
        let text = "\"7:a:1:/lock/orders\"";
        let sequencer = serde_json::from_str::<Sequencer>(text).unwrap();
        assert_eq!(serde_json::to_string(&sequencer).unwrap(), text);
        assert!(serde_json::from_str::<Sequencer>("\"7:a:1\"").unwrap_err().to_string().contains("PATH"));
    }

    proptest! {
        #[test]
        fn any_sequencer_survives_its_string(
            token in 1i64..,
            turn: u32,
            session in any::<i64>().prop_filter("a session has an id", |session| *session != 0),
            number in 0..=LAST_SEQUENCE,
            tag in 0..TAGS.len(),
            path in "(/x[a-z:. \u{8def}]{1,4}x){1,3}",
        ) {
            let (_, layout, kind) = TAGS[tag];
            let place = QueuePlace { sequence: Sequence(number), kind };
            let path = LockPath::parse(&path, "").unwrap().with_layout(layout);
            let sequencer = Sequencer::new(path, Own { place, czxid: token }, turn, session);
            prop_assert_eq!(sequencer.to_string().parse(), Ok(sequencer));
        }

        #[test]
        fn any_text_that_parses_is_spelled_as_we_do(
            text in prop_oneof![any::<String>(), "[0-9+.-]{0,4}:[0-9a-fA-F]{0,3}:[a-z]{0,2}[0-9+-]{0,3}:/?[a-z/.]{0,4}"],
        ) {
            if let Ok(sequencer) = text.parse::<Sequencer>() {
                prop_assert_eq!(sequencer.to_string(), text);
            }
        }
    }
}
