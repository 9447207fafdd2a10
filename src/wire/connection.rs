//! One connection to one server. zklock itself polls the task of zookeeper-client.
//!
//! A zookeeper-client reconnects by itself, to any server that it knows, and resumes its session there. Then nobody
//! knows which session timeout that server granted, or on which connection a request was answered. So each client here
//! serves one connection only. zklock catches the client's task when it is spawned, and [`Serving`] polls it. The last
//! poll is the one in which the client reports the loss of its connection. In that poll the client can begin to
//! reconnect, but it cannot send anything before the next poll.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, pending};
use spawns_core::{Spawn, Task};
use tracing::warn;
use zookeeper_client::{Client, Error, SessionState, StateWatcher};

use super::revocable::{Registry, Revocable};
use crate::mutex::Mutex;
use crate::requests::{self, Watchers, Watching};
use crate::wire::error::panic_text;

/// How long a watch that nobody needs any more stays. Most of these fire before.
const LINGERING: Duration = Duration::from_secs(1);

/// A connection on which a session was established or resumed.
pub(crate) struct Connection {
    /// The connection's number in its session.
    pub(crate) number: u64,
    /// The client of the connection; `None` once the connection is gone.
    client: Mutex<Option<Arc<Client>>>,
    slots: Arc<Registry>,
    watchers: Arc<Watchers>,
}

/// A connection, for one request.
pub(crate) struct Wire {
    pub(crate) client: Arc<Client>,
    /// The connection's number.
    pub(crate) number: u64,
    slots: Arc<Registry>,
    watchers: Arc<Watchers>,
}

impl Wire {
    /// Makes a request. It is sent at its first poll, and resolves to `None` once the connection is gone.
    pub(crate) fn request<F: Future<Output: Send> + Send + 'static>(
        self,
        request: impl FnOnce(Self) -> F,
    ) -> Revocable<F::Output> {
        let slots = self.slots.clone();
        slots.register(request(self).boxed())
    }

    /// Keeps a watch for as long as the connection lasts. After that it resolves to `None`.
    pub(crate) fn keep<T: Send + 'static>(&self, watch: BoxFuture<'static, T>) -> Revocable<T> {
        self.slots.register(watch)
    }

    /// The client, for requests that set watches.
    pub(crate) fn watching(&self) -> Watching {
        Watching::new(self.client.clone(), self.watchers.clone())
    }
}

impl Connection {
    /// Makes the session's connection with this number.
    pub(crate) fn new(number: u64, client: Arc<Client>) -> Arc<Self> {
        Arc::new(Self {
            number,
            client: Mutex::new(Some(client)),
            slots: Arc::default(),
            watchers: Arc::default(),
        })
    }

    /// The connection for one request; `None` once the connection is gone.
    pub(crate) fn wire(&self) -> Option<Wire> {
        let client = self.client.lock().clone()?;
        Some(Wire { client, number: self.number, slots: self.slots.clone(), watchers: self.watchers.clone() })
    }

    /// Removes the watches that nobody needs any more, for as long as the connection lasts. It never resolves.
    pub(crate) async fn remove_watches<T>(self: Arc<Self>) -> T {
        loop {
            self.watchers.left.notified().await;
            tokio::time::sleep(LINGERING).await;
            if !self.watchers.forget_fired() {
                continue;
            }
            let Some(wire) = self.wire() else { return pending().await };
            wire.request(|wire| requests::remove_left(wire.client, wire.watchers)).await;
        }
    }

    /// Revokes every request and every watch, and waits until the server has answered what watches have left behind. No
    /// event can come then that the client would answer. The watches stay: the client sends a removal for an event whose
    /// watch was dropped. Behind the request to close the session the removal gets no reply, and the client takes the end of
    /// the connection for a loss.
    pub(crate) async fn finish_requests(&self) {
        self.slots.revoke();
        let client = self.client.lock().clone();
        let Some(client) = client else { return };
        // The server answers in order. With the first reply, every watch that was being set has come. Its request holds a
        // clone of the client, so it is dropped. With the second reply, the watch is removed, and each event before that has
        // come.
        requests::answered(&client).await;
        self.watchers.end_requests();
        requests::answered(&client).await;
    }

    /// Revokes every request and every watch, and drops the client. If the connection still stands, the client then
    /// closes the session.
    pub(crate) fn give_up(&self) {
        let client = self.client.lock().take();
        self.slots.revoke();
        // Only requests held other clones, so this is the last one.
        self.watchers.end_requests();
        drop(client);
    }
}

/// Makes a zookeeper-client connect, and takes over its task.
pub(crate) async fn open(
    connecting: impl Future<Output = Result<Client, Error>>,
) -> Result<(Client, Serving), Error> {
    let spawned = Catch::default();
    let mut connecting = pin!(connecting);
    let client = std::future::poll_fn(|cx| {
        let _scope = spawns_core::enter(&spawned);
        let polled = catch_unwind(AssertUnwindSafe(|| connecting.as_mut().poll(cx)));
        polled.unwrap_or_else(|panic| {
            let cause = format!("zookeeper-client has panicked: {}", panic_text(&*panic));
            Poll::Ready(Err(Error::UnexpectedError(cause)))
        })
    })
    .await?;
    let Some(task) = spawned.0.lock().take() else {
        return Err(Error::UnexpectedError("zookeeper-client has spawned no task".to_owned()));
    };
    let serving =
        Serving { task: Box::into_pin(task.future), states: client.state_watcher(), connection: None };
    Ok((client, serving))
}

/// Catches the task that zookeeper-client spawns.
#[derive(Default)]
struct Catch(Mutex<Option<Task>>);

impl Spawn for Catch {
    fn spawn(&self, task: Task) {
        self.0.lock().replace(task);
    }
}

/// The task of one client, for as long as the client's first connection lasts. It resolves to the client's last state:
/// `Disconnected` if the connection was lost, `Closed` once the server has closed the session, or another end that the
/// server reported. Dropping it cuts the connection.
pub(crate) struct Serving {
    task: Pin<Box<dyn Future<Output = ()> + Send>>,
    states: StateWatcher,
    connection: Option<Arc<Connection>>,
}

impl Serving {
    /// Revokes the requests on this connection when the task ends.
    pub(crate) fn with(mut self, connection: Arc<Connection>) -> Self {
        self.connection = Some(connection);
        self
    }
}

impl Future for Serving {
    type Output = SessionState;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<SessionState> {
        let polled = catch_unwind(AssertUnwindSafe(|| self.task.as_mut().poll(cx)));
        match (polled, self.states.peek_state()) {
            (Ok(Poll::Pending), SessionState::SyncConnected) => Poll::Pending,
            (Ok(Poll::Pending), state) => Poll::Ready(state),
            // A task that ends by itself leaves a final state, so this one has died.
            (Ok(Poll::Ready(())) | Err(_), SessionState::SyncConnected) => {
                warn!("zookeeper-client's task has died");
                Poll::Ready(SessionState::Disconnected)
            }
            (Ok(Poll::Ready(())) | Err(_), state) => Poll::Ready(state),
        }
    }
}

impl Drop for Serving {
    /// Revokes every request and watch before the task is dropped: a watch that outlives the task panics when it is
    /// polled.
    fn drop(&mut self) {
        if let Some(connection) = &self.connection {
            connection.give_up();
            connection.watchers.drop_left();
        }
    }
}

#[cfg(test)]
mod tests {
    use zklock_testcontainers::ZooKeeper;

    use super::*;

    /// On a real connection, whose task is then replaced by one that dies.
    #[tokio::test]
    async fn a_client_whose_task_dies_is_a_lost_connection() {
        let server = ZooKeeper::builder().start().await.unwrap();
        let servers = server.connect_string();
        let (client, mut serving) = open(Client::connector().connect(&servers)).await.unwrap();
        let connection = Connection::new(0, Arc::new(client));
        serving.task = Box::pin(async { panic!("a defect of the client") });
        let asked = connection.wire().unwrap().request(|wire| async move { wire.client.sync("/").await });
        let watch = connection.wire().unwrap().keep(std::future::pending::<()>().boxed());
        assert_eq!(serving.with(connection.clone()).await, SessionState::Disconnected);
        assert_eq!(asked.await, None);
        assert_eq!(watch.await, None);
        assert!(connection.wire().is_none());
    }

    #[tokio::test]
    async fn a_client_that_is_given_up_closes_its_session() {
        let server = ZooKeeper::builder().start().await.unwrap();
        let servers = server.connect_string();
        let (client, serving) = open(Client::connector().connect(&servers)).await.unwrap();
        let connection = Connection::new(0, Arc::new(client));
        let serving = serving.with(connection.clone());
        connection.give_up();
        assert_eq!(serving.await, SessionState::Closed);
    }
}
