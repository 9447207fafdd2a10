//! Whose queue a lock has, as the option `--layout` names it.

use clap::ValueEnum;
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Layout {
    /// Curator's InterProcessMutex
    Curator,
    /// kazoo's Lock
    Kazoo,
    /// go-zookeeper's Lock
    Go,
}

impl From<Layout> for zklock::Layout {
    fn from(layout: Layout) -> Self {
        match layout {
            Layout::Curator => Self::Curator,
            Layout::Kazoo => Self::Kazoo,
            Layout::Go => Self::Go,
        }
    }
}

impl Layout {
    /// The layout of a queue; `None` if it is zklock's own.
    pub(crate) fn of(layout: zklock::Layout) -> Option<Self> {
        Self::value_variants().iter().copied().find(|one| zklock::Layout::from(*one) == layout)
    }

    /// Whether a queue with this layout is that of the client. Go's is that of Curator's mutex.
    pub(crate) fn has(self, layout: zklock::Layout) -> bool {
        let queue = if self == Self::Go { Self::Curator } else { self };
        Self::of(layout) == Some(queue)
    }

    pub(crate) fn text(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}
