//! The data in a contender's znode.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The data of a contender's node: a small JSON object. Operators read it, and zklock finds its own node again by it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeData {
    /// Names one create, so that zklock recognises its node if the reply was lost.
    pub(crate) id: Uuid,
    /// The owner text of the contender.
    #[serde(default)]
    pub(crate) owner: String,
    /// When the contender entered the queue, by the wall clock of its machine: milliseconds since the Unix epoch.
    #[serde(default)]
    pub(crate) since: u64,
    /// The caller's extra data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) data: Option<String>,
}

impl NodeData {
    /// Makes the data of a contender that enters now.
    pub(crate) fn new(id: Uuid, owner: &str, data: Option<&str>) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self {
            id,
            owner: owner.to_owned(),
            since: since.as_millis().try_into().unwrap_or(u64::MAX),
            data: data.map(str::to_owned),
        }
    }

    /// Returns the bytes that are written to the node.
    pub(crate) fn encode(&self) -> Vec<u8> {
        // A struct of strings and numbers has no key or value that JSON cannot write, so this is never empty.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads the data from a node's bytes; `None` if the node is no contender of ours, or has a layout that this
    /// version does not know.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    /// Returns `since` as a point in time.
    pub(crate) fn since(&self) -> Option<SystemTime> {
        UNIX_EPOCH.checked_add(Duration::from_millis(self.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_survives_the_way_through_a_node() {
        let data = NodeData::new(Uuid::new_v4(), "host:7 \"quoted\"", Some("extra"));
        assert_eq!(NodeData::decode(&data.encode()), Some(data));
    }

    #[test]
    fn foreign_data_is_no_contender_of_ours() {
        assert_eq!(NodeData::decode(b""), None);
        assert_eq!(NodeData::decode(b"10.0.0.1"), None);
        assert_eq!(NodeData::decode(br#"{"owner":"x"}"#), None);
    }

    #[test]
    fn fields_of_later_versions_are_passed_over() {
        let id = Uuid::new_v4();
        let json = format!(r#"{{"id":"{id}","owner":"o","since":1,"later":true}}"#);
        assert_eq!(NodeData::decode(json.as_bytes()).map(|data| data.id), Some(id));
    }
}
