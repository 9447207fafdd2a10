//! The way to the servers: by the present connection, whichever that is.

use std::future::Future;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::watch;
use zklock_recipe::SessionEnd;

use super::connection::{Connection, Wire};
use super::shared_lease::Sent;
use crate::clock;

/// How a request gets to a server.
#[derive(Clone)]
pub(crate) enum Link {
    /// By this connection.
    Up(Arc<Connection>),
    /// Not at present: the session is being resumed.
    Down,
    /// Not any more.
    Over(SessionEnd),
}

/// What became of a request.
#[derive(Debug)]
pub(crate) enum Answer<T> {
    /// This was answered to what was sent there and then.
    Given(T, Sent),
    /// The connection was lost first. The request may have been served.
    Lost,
    /// The session is over.
    Over(SessionEnd),
}

/// Sends requests on the connections of one session.
#[derive(Clone)]
pub(crate) struct Requester(watch::Receiver<Link>);

impl Requester {
    /// By the connections that this tells of.
    pub(crate) fn new(link: watch::Receiver<Link>) -> Self {
        Self(link)
    }

    /// Resolves when a connection comes or goes; `false` if none will any more.
    pub(crate) async fn changed(&mut self) -> bool {
        self.0.changed().await.is_ok()
    }

    /// Takes what has changed until now as seen.
    pub(crate) fn mark_unchanged(&mut self) {
        self.0.mark_unchanged();
    }

    /// A request, which waits for a connection if there is none. It is sent when it is first polled.
    pub(crate) fn request<T, F>(
        &self,
        request: impl FnOnce(Wire) -> F + Send + 'static,
    ) -> BoxFuture<'static, Answer<T>>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        ask(self.0.clone(), None, request).boxed()
    }

    /// As [`request`](Self::request), on the connection of this number: on no other one.
    pub(crate) fn request_on<T, F>(
        &self,
        connection: u64,
        request: impl FnOnce(Wire) -> F + Send + 'static,
    ) -> BoxFuture<'static, Answer<T>>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        ask(self.0.clone(), Some(connection), request).boxed()
    }
}

/// Waits for a connection, for this one if it has a number, and sends a request on it.
async fn ask<T, F>(
    mut link: watch::Receiver<Link>,
    number: Option<u64>,
    request: impl FnOnce(Wire) -> F + Send + 'static,
) -> Answer<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let (sent, wire) = loop {
        match &*link.borrow_and_update() {
            Link::Up(connection) if number.is_none_or(|number| number == connection.number()) => {
                // It may be gone already; then the next one is waited for like any other.
                if let Some(wire) = connection.wire() {
                    break (Sent { connection: connection.number(), at: clock::now() }, wire);
                }
            }
            Link::Over(end) => return Answer::Over(*end),
            Link::Up(_) | Link::Down => {}
        }
        if number.is_some() {
            return Answer::Lost;
        }
        if link.changed().await.is_err() {
            return Answer::Over(SessionEnd::Closed);
        }
    };
    let asked = wire.request(request);
    // Nothing of this future keeps the connection: whoever forgets it does not keep the session open.
    match asked.await {
        Some(answer) => Answer::Given(answer, sent),
        None => match &*link.borrow() {
            Link::Over(end) => Answer::Over(*end),
            Link::Up(_) | Link::Down => Answer::Lost,
        },
    }
}
