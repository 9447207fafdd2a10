//! A contender's way to its servers, on which its requests and replies can be held back.

use anyhow::Context;
use zklock_testcontainers::{HeldReply, HeldRequest, Link, RequestKind};

use crate::redis::kind::{Kind, Step};
use crate::redis::proxy::{Hold, Proxy, What};

/// The way; closed when it is dropped.
pub(crate) enum Wire {
    Redis(Kind, Proxy),
    ZooKeeper(Link),
    /// Straight to this server; nothing can be held back.
    Direct(String),
}

/// Something that will be, or is, held back, until this is released or dropped.
#[must_use = "dropping it lets go what is held"]
pub(crate) enum Held {
    Redis(Hold),
    Request(HeldRequest),
    Reply(HeldReply),
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
            Self::Direct(server) => server.clone(),
        }
    }

    /// Holds back the next request of a step, or the reply to it, and all that comes after it.
    pub(crate) fn hold(&self, what: What, step: Step) -> anyhow::Result<Held> {
        match (self, what) {
            (Self::Redis(kind, proxy), what) => {
                let command = kind.command(step).context("this lock has no such step")?;
                Ok(Held::Redis(proxy.hold(what, command)))
            }
            (Self::ZooKeeper(link), What::Request) => Ok(Held::Request(link.hold_request(request(step)?))),
            (Self::ZooKeeper(link), What::Reply) => Ok(Held::Reply(link.hold_reply(request(step)?))),
            (Self::Direct(_), _) => anyhow::bail!("nothing can be held back here"),
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

/// zklock's request of a step.
fn request(step: Step) -> anyhow::Result<RequestKind> {
    match step {
        // A process's first acquisition, which does not know the directory yet.
        Step::Win | Step::Seize => Ok(RequestKind::Create),
        Step::Release => Ok(RequestKind::Multi),
        Step::Complete => anyhow::bail!("zklock has no such step"),
    }
}

impl Held {
    /// Resolves once it is held back.
    pub(crate) async fn reached(&self) {
        match self {
            Self::Redis(hold) => hold.reached().await,
            Self::Request(held) => held.reached().await,
            Self::Reply(held) => held.reached().await,
        }
    }

    /// Lets it go.
    pub(crate) fn release(self) {
        match self {
            Self::Redis(hold) => hold.release(),
            Self::Request(held) => held.release(),
            Self::Reply(held) => held.release(),
        }
    }
}
