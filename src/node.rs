//! What a contender's znode says about it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The data of a contender node: a small JSON object, for operators and for finding our own node again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeData {
    /// One acquisition, so that a create whose reply was lost can be recognised.
    pub(crate) id: Uuid,
    /// Who contends, in free text.
    #[serde(default)]
    pub(crate) owner: String,
    /// When it began to, by its own wall clock: milliseconds since the Unix epoch.
    #[serde(default)]
    pub(crate) since: u64,
    /// The caller's extra data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) data: Option<String>,
}

impl NodeData {
    /// The data of an acquisition that begins now.
    pub(crate) fn new(id: Uuid, owner: &str, data: Option<&str>) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self {
            id,
            owner: owner.to_owned(),
            since: since.as_millis().try_into().unwrap_or(u64::MAX),
            data: data.map(str::to_owned),
        }
    }

    /// As it is written to the node.
    pub(crate) fn encode(&self) -> Vec<u8> {
        // A struct of strings and numbers has no key or value that JSON cannot write, so this is never empty.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// As it was read from a node; `None` if the node is no contender of ours, or of a layout we do not know.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    /// `since` as a point in time.
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
