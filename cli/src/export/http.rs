//! The HTTP server for scrapes. A client can neither keep a connection nor start more work than one scan at a time.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::metrics;
use super::scan::Scans;

/// How many connections are served at the same time. Others wait in the listener's backlog.
const CONNECTIONS: usize = 64;

/// How long a client may take to send its request.
const REQUEST: Duration = Duration::from_secs(5);

/// How long a connection may last, with the scan that it waits for.
const LONGEST: Duration = Duration::from_secs(20);

/// How long it accepts nobody after it could not, for example because the process has too many open files.
const PAUSE: Duration = Duration::from_millis(100);

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

pub(super) async fn serve_scans(listener: TcpListener, scans: &Arc<Scans>) {
    let free = Arc::new(Semaphore::new(CONNECTIONS));
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(REQUEST).keep_alive(false);
    loop {
        // Nobody closes the semaphore.
        let permit = free.clone().acquire_owned().await.ok();
        let Ok((stream, _)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        let scans = scans.clone();
        let answer = service_fn(move |request| answer_request(request, scans.clone()));
        let connection = server.serve_connection(TokioIo::new(stream), answer);
        tokio::spawn(async move {
            let _broken = timeout(LONGEST, connection).await;
            drop(permit);
        });
    }
}

async fn answer_request(
    request: Request<Incoming>,
    scans: Arc<Scans>,
) -> Result<Response<String>, Infallible> {
    let is_read = [Method::GET, Method::HEAD].contains(request.method());
    let (status, text) = match (request.uri().path(), is_read) {
        ("/metrics", true) => (StatusCode::OK, metrics::page_of(scans.young_scan().await.as_deref())),
        (_, false) => (StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n".to_owned()),
        ("/", true) => (StatusCode::OK, "zklock export: the metrics are at /metrics\n".to_owned()),
        (_, true) => (StatusCode::NOT_FOUND, "the metrics are at /metrics\n".to_owned()),
    };
    let mut response = Response::new(text);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, TEXT);
    if !is_read {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    Ok(response)
}
