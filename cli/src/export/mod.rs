//! `zklock export`: the locks below some nodes, and the servers, as metrics for Prometheus.
//!
//! ```text
//! http (a scrape)  --asks-->  scan (one at a time, seldom)  -->  ZooKeeper
//!     ^-------- metrics <-----------'
//! ```

mod http;
mod metrics;
mod scan;

use std::io;
use std::process::ExitCode;

use futures::StreamExt;
use tokio::net::TcpListener;
use tokio::signal::unix::SignalKind;

use crate::args::Export;
use crate::connection::Connection;
use crate::console::Console;
use crate::failure::{Failure, Outcome};
use crate::{closing, signals};
use scan::Scans;

pub(crate) async fn serve_metrics(wish: Export, connection: &Connection, console: Console) -> Outcome {
    let ending = [SignalKind::interrupt(), SignalKind::terminate()];
    let mut signals = signals::listen_to(ending).map_err(Failure::internal)?;
    let addresses = connection.servers()?;
    let cannot = |error: io::Error| {
        let hint = match error.kind() {
            io::ErrorKind::InvalidInput => "; write HOST:PORT, such as 127.0.0.1:9744",
            _ => "",
        };
        Failure::usage(format_args!("zklock cannot listen at {} (--listen): {error}{hint}", wish.listen))
    };
    let listener = TcpListener::bind(&wish.listen).await.map_err(cannot)?;
    let address = listener.local_addr().map_err(Failure::internal)?;
    console.note(format_args!("listening at http://{address}/metrics"));
    let scans = Scans::new();
    let mut session = None;
    let outcome = tokio::select! {
        failure = scan::keep_scanning(&wish, connection, addresses, &mut session, &scans, console) => Err(failure),
        () = http::serve_scans(listener, &scans) => Ok(ExitCode::SUCCESS),
        _ = signals.next() => Ok(ExitCode::SUCCESS),
    };
    if let Some(session) = &session {
        closing::close_session(session).await;
    }
    outcome
}
