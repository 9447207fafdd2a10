//! An HTTP service of several instances, one of which leads and answers. The others answer 503 with the leader's address.
//!
//!     cargo run --example leader_http -- 127.0.0.1:2181 /service 127.0.0.1:7001
//!     cargo run --example leader_http -- 127.0.0.1:2181 /service 127.0.0.1:7002
//!     curl -i http://127.0.0.1:7002/
//!
//! Each request asks the guard anew whether this instance leads, and the work is dropped the moment that it no longer does. This
//! fences nothing: a process that is paused after the check writes too late. So all that a request writes must carry the
//! token, and the store must refuse lower ones.
//!
//! A client may try again after 503: nothing was done. After 500 it may not, unless the request is idempotent.
//!
//! `/ready` says whether this instance can serve. A follower is ready once it knows the leader: it tells clients where to go.
//! A fourth argument is the address that is announced, if clients do not reach the one that is bound (`0.0.0.0:7001`).

use std::error::Error;
use std::future::{Future, IntoFuture, pending};
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::header::RETRY_AFTER;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use tokio::time::timeout;
use zklock::{FencingToken, Leadership, LockOptions, Session, election::Leader, inspect::Observer};

/// How long before the end of its lease the leadership counts as lost, so that what goes on has time to stop.
const WIND_DOWN: Duration = Duration::from_secs(1);

/// How long requests may go on after a signal.
const DRAIN: Duration = Duration::from_secs(3);

/// The header with the leader's address.
const LEADER: &str = "leader";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let servers = arguments.next().unwrap_or_else(|| "127.0.0.1:2181".into());
    let path = arguments.next().unwrap_or_else(|| "/service".into());
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:0".into());

    let mut stop = pin!(told_to_stop()?);
    let session = Session::connect(servers).await?;
    let election = session.election(&path)?.with_options(LockOptions::new().stop_margin(WIND_DOWN))?;
    let listener = TcpListener::bind(address).await?;
    let bound = listener.local_addr()?.to_string();
    let address = arguments.next().unwrap_or_else(|| bound.clone());

    let leaders = election.observe();
    let service = Arc::new(Service { address: address.clone(), leadership: Mutex::new(None), leaders });
    let router = Router::new().route("/ready", get(ready)).fallback(answer).with_state(service.clone());
    let stopping = Arc::new(Notify::new());
    let stopped = stopping.clone();
    let server =
        axum::serve(listener, router).with_graceful_shutdown(async move { stopped.notified().await });
    let server = tokio::spawn(server.into_future());
    println!("ready on {bound}");

    let leading = loop {
        let leadership = tokio::select! {
            leadership = election.campaign(&*address) => Arc::new(leadership?),
            () = &mut stop => break None,
        };
        service.lead(Some(leadership.clone()));
        tokio::select! {
            _reason = leadership.lost() => service.lead(None),
            () = &mut stop => break Some(leadership),
        }
    };
    // No request is accepted any more. Those under way may end.
    stopping.notify_one();
    let _unfinished = timeout(DRAIN, server).await;
    service.lead(None);
    if let Some(leadership) = leading {
        // What is still under way ends now. The next instance leads once ZooKeeper has confirmed this.
        if let Err(error) = leadership.release_all().await {
            eprintln!("not released: {error}");
        }
    }
    Ok(session.close().await?)
}

/// What the requests of one instance share.
struct Service {
    address: String,
    leadership: Mutex<Option<Arc<Leadership>>>,
    leaders: Observer<Leader>,
}

impl Service {
    fn lead(&self, leadership: Option<Arc<Leadership>>) {
        *self.leadership.lock().unwrap_or_else(PoisonError::into_inner) = leadership;
    }

    fn leadership(&self) -> Option<Arc<Leadership>> {
        self.leadership.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The refusal of one that does not lead. The announcement may be a moment old, and then the next instance refuses, too.
    fn refusal(&self) -> Response {
        let leader = self.leaders.latest().who.map(|leader| leader.value);
        // If only the announcement still names this instance, nobody leads yet.
        match leader.filter(|leader| *leader != self.address) {
            Some(leader) => {
                let body = format!("the leader is at {leader}\n");
                (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER.as_str(), "1"), (LEADER, &leader)], body)
                    .into_response()
            }
            None => (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "1")], "nobody leads\n").into_response(),
        }
    }
}

/// Answers every request except `/ready`.
async fn answer(State(service): State<Arc<Service>>, uri: Uri) -> Response {
    let Some(leadership) = service.leadership() else { return service.refusal() };
    let mut has_begun = false;
    // `run` checks the guard first, and drops the work when the leadership ends.
    let done = leadership.run(async {
        has_begun = true;
        work(leadership.token(), uri.path()).await
    });
    let done = done.await;
    match done {
        Ok(body) => body.into_response(),
        Err(_lost) if !has_begun => service.refusal(),
        Err(_lost) => (StatusCode::INTERNAL_SERVER_ERROR, "it may have been done\n").into_response(),
    }
}

async fn ready(State(service): State<Arc<Service>>) -> Response {
    let knows_leader = service.leadership().is_some() || service.leaders.latest().who.is_some();
    if knows_leader { "ready\n".into_response() } else { service.refusal() }
}

/// The leader's work. All that it writes carries the token, for a store that refuses lower ones. `/slow` never ends.
async fn work(token: FencingToken, path: &str) -> String {
    if path == "/slow" {
        println!("begins {path}");
        pending::<()>().await;
    }
    format!("done by the leader with token {token}\n")
}

/// Resolves once a signal tells this process to stop.
fn told_to_stop() -> io::Result<impl Future<Output = ()>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
