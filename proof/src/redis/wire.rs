//! A contender's way to its servers, on which replies can be held back.

use anyhow::Context;
use zklock_testcontainers::{HeldReply, Link, RequestKind};

use crate::redis::kind::{Kind, Step};
use crate::redis::proxy::{Hold, Proxy};

/// The way; closed when it is dropped.
pub(crate) enum Wire {
    Redis(Kind, Proxy),
    ZooKeeper(Link),
}

/// Something that will be, or is, held back, until this is released or dropped.
#[must_use = "dropping it lets go what is held"]
pub(crate) enum Held {
    Redis(Hold),
    ZooKeeper(HeldReply),
}

impl Wire {
    /// A way to `server`, a `host:port`.
    pub(crate) async fn lay(kind: Kind, server: &str) -> anyhow::Result<Self> {
        if kind.is_zklock() {
            Ok(Self::ZooKeeper(Link::start(server).await?))
        } else {
            Ok(Self::Redis(kind, Proxy::start(server).await.context("cannot open a proxy")?))
        }
    }

    pub(crate) fn address(&self) -> String {
        match self {
            Self::Redis(_, proxy) => proxy.address().to_owned(),
            Self::ZooKeeper(link) => link.address(),
        }
    }

    /// Holds back the reply to the next request of a step, and all that comes after it.
    pub(crate) fn hold(&self, step: Step) -> anyhow::Result<Held> {
        match (self, step) {
            (Self::Redis(kind, proxy), step) => {
                Ok(Held::Redis(proxy.hold(kind.command(step).context("this lock has no such step")?)))
            }
            // A process's first acquisition, which does not know the directory yet.
            (Self::ZooKeeper(link), Step::Win) => Ok(Held::ZooKeeper(link.hold_reply(RequestKind::Create))),
            (Self::ZooKeeper(_), Step::Complete) => anyhow::bail!("zklock has no such step"),
        }
    }

    /// Lets nothing pass any more. A ZooKeeper client that hears nothing on one connection makes another, on which it would
    /// learn what was held back; a Redis client waits for the reply.
    pub(crate) fn cut_off(&self) {
        if let Self::ZooKeeper(link) = self {
            link.black_hole();
        }
    }

    /// Ends [`cut_off`](Self::cut_off).
    pub(crate) fn restore(&self) {
        if let Self::ZooKeeper(link) = self {
            link.restore();
        }
    }
}

impl Held {
    /// Resolves once it is held back.
    pub(crate) async fn reached(&self) {
        match self {
            Self::Redis(hold) => hold.reached().await,
            Self::ZooKeeper(held) => held.reached().await,
        }
    }

    /// Lets it go.
    pub(crate) fn release(self) {
        match self {
            Self::Redis(hold) => hold.release(),
            Self::ZooKeeper(held) => held.release(),
        }
    }
}
