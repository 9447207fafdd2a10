//! Sends requests on a session's present connection.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::watch;
use zklock_recipe::{Sent, SessionEnd};

use super::connection::{Connection, Wire};
use super::shared_lease::SharedLease;
use crate::clock;
use crate::requests::Evidence;

/// The connection that a request can use.
#[derive(Clone)]
pub(crate) enum Link {
    /// The request uses this connection.
    Up(Arc<Connection>),
    /// No connection at present: the session is being resumed.
    Down,
    /// No connection any more: the session is over.
    Over(SessionEnd),
}

/// The outcome of a request.
#[derive(Debug)]
pub(crate) enum LinkAnswer<T> {
    /// A server gave this answer to the request, which was sent there and then.
    Given(T, Sent),
    /// The connection was lost before the answer. The server may have served the request.
    Lost,
    /// The session is over.
    Over(SessionEnd),
}

/// Sends requests on the connections of one session, and credits the session's lease with what the answers say of it.
#[derive(Clone)]
pub(crate) struct Requester {
    link: watch::Receiver<Link>,
    lease: Arc<SharedLease>,
}

impl Requester {
    /// Makes what sends the requests of the session that has this lease.
    pub(crate) fn new(link: watch::Receiver<Link>, lease: Arc<SharedLease>) -> Self {
        Self { link, lease }
    }

    /// Resolves when a connection comes or goes; returns `false` if none will any more.
    pub(crate) async fn changed(&mut self) -> bool {
        self.link.changed().await.is_ok()
    }

    /// Marks every change until now as seen.
    pub(crate) fn mark_unchanged(&mut self) {
        self.link.mark_unchanged();
    }

    /// Whether the session has a connection.
    pub(crate) fn is_up(&self) -> bool {
        matches!(&*self.link.borrow(), Link::Up(_))
    }

    /// Makes a request. It waits for a connection if the session has none. It is sent at its first poll.
    pub(crate) fn request<F: Future<Output: Evidence + Send> + Send + 'static>(
        &self,
        request: impl FnOnce(Wire) -> F + Send + 'static,
    ) -> BoxFuture<'static, LinkAnswer<F::Output>> {
        self.request_where(None, request)
    }

    /// As [`request`](Self::request). If a connection is given, the request goes out on the one with this number only, and is lost
    /// if that is not the present one.
    pub(crate) fn request_where<F: Future<Output: Evidence + Send> + Send + 'static>(
        &self,
        number: Option<u64>,
        request: impl FnOnce(Wire) -> F + Send + 'static,
    ) -> BoxFuture<'static, LinkAnswer<F::Output>> {
        let mut link = self.link.clone();
        let lease = self.lease.clone();
        async move {
            let (sent, wire) = loop {
                match &*link.borrow_and_update() {
                    Link::Up(connection) if number.is_none_or(|number| number == connection.number) => {
                        // This connection may be gone already. Then the request is treated as if the session had none.
                        if let Some(wire) = connection.wire() {
                            break (Sent { connection: connection.number, at: clock::now() }, wire);
                        }
                    }
                    Link::Over(end) => return LinkAnswer::Over(*end),
                    Link::Up(_) | Link::Down => {}
                }
                if number.is_some() {
                    return LinkAnswer::Lost;
                }
                if link.changed().await.is_err() {
                    return LinkAnswer::Over(SessionEnd::Closed);
                }
            };
            let asked = wire.request(request);
            // This future keeps nothing that holds the connection open. So a caller that forgets it does not keep the session
            // open.
            match asked.await {
                Some(answer) => {
                    lease.credit(&answer, sent);
                    LinkAnswer::Given(answer, sent)
                }
                None => match &*link.borrow() {
                    Link::Over(end) => LinkAnswer::Over(*end),
                    Link::Up(_) | Link::Down => LinkAnswer::Lost,
                },
            }
        }
        .boxed()
    }
}
