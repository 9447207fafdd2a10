//! A finding about the tree: directories of locks may come faster than the servers remove them.

use super::found::Finding;
use crate::doctor::seen::Seen;

/// How many containers a leader removes in a minute at most, unless `znode.container.maxPerMinute` says otherwise.
const REMOVED_PER_MINUTE: u64 = 10_000;

/// A tree of this size would take a leader ten minutes to remove.
const MANY: u64 = 10 * REMOVED_PER_MINUTE;

pub(super) fn many(seen: &Seen) -> Option<Finding> {
    let nodes = seen.words().filter_map(|words| words.nodes).max()?;
    (nodes > MANY).then(|| {
        Finding::warning(
            "many-nodes",
            format!(
                "the tree has {nodes} nodes; if most of them are directories of locks that nobody uses any more, new ones come faster \
                 than the leader removes them: {REMOVED_PER_MINUTE} a minute, unless it is told otherwise"
            ),
            "lock fewer keys: let many share one, by a hash; or raise znode.container.maxPerMinute, a Java property of the servers",
        )
    })
}
