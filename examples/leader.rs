//! A service of several instances, one of which leads. Every instance takes requests. The followers forward them to the
//! leader, whose address they know from its announcement.
//!
//!     cargo run --example leader -- 127.0.0.1:2181 /service 127.0.0.1:7001
//!     cargo run --example leader -- 127.0.0.1:2181 /service 127.0.0.1:7002
//!     echo hello | nc -q1 127.0.0.1 7002
//!
//! If the leader is told to stop (by SIGTERM, as an orchestrator sends it, or by Ctrl-C), the next instance leads within
//! milliseconds. If the leader is killed, that takes a session timeout.
//!
//! A request is one line. `ready` asks for the readiness of the instance itself, and is never forwarded: a follower is ready,
//! because it serves requests. Any other line is work, which only the leader does.

use std::error::Error;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;
use zklock::{FencingToken, Leadership, LockOptions, Session, election::Leader, inspect::Observer};

/// How long the service may take to finish its work before it stops being the leader.
const WIND_DOWN: Duration = Duration::from_secs(1);

/// How long the leader may take to answer a request that was forwarded.
const PATIENCE: Duration = Duration::from_secs(2);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let servers = arguments.next().unwrap_or_else(|| "127.0.0.1:2181".into());
    let path = arguments.next().unwrap_or_else(|| "/service".into());
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:0".into());

    // This comes first, so that no signal comes before its handler.
    let mut stop = pin!(told_to_stop()?);
    let session = Session::connect(servers).await?;
    let election = session.election(&path)?.with_options(LockOptions::new().stop_margin(WIND_DOWN))?;
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?.to_string();

    let service = Arc::new(Service { leadership: Mutex::new(None), leaders: election.observe() });
    tokio::spawn(serve(listener, service.clone()));
    tokio::spawn(report(election.observe()));
    println!("ready on {address}");

    loop {
        let leadership = tokio::select! {
            leadership = election.campaign(&*address) => Arc::new(leadership?),
            () = &mut stop => break,
        };
        service.lead(Some(leadership.clone()));
        println!("leading with token {}", leadership.token());
        tokio::select! {
            // If the lease is about to end, WIND_DOWN is left for cleaning up; if somebody took the lock from us, no time
            // is left. After that, campaign again.
            reason = leadership.lost() => {
                service.lead(None);
                println!("no longer leading: {reason}");
            }
            () = &mut stop => {
                // No request is served as the leader from here on.
                service.lead(None);
                // Once this returns `Ok`, ZooKeeper has confirmed the release, and the next instance can lead. It fails if
                // the leadership was just lost.
                if let Err(error) = leadership.release_all().await {
                    println!("{error}");
                }
                break;
            }
        }
    }
    // If ZooKeeper does not confirm it, the session expires by itself. The leadership is released already.
    if let Err(error) = session.close().await {
        println!("{error}");
    }
    println!("stopped");
    Ok(())
}

/// What the requests of one instance share.
struct Service {
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

    async fn answer(&self, request: &str) -> String {
        if request == "ready" {
            let role = if self.leadership().is_some() { "leader" } else { "follower" };
            return format!("ready, as a {role}");
        }
        // A forwarded request names the leader that it is for. Another leader refuses it, and nobody forwards it again.
        if let Some((token, work)) = request.strip_prefix("for ").and_then(|rest| rest.split_once(": ")) {
            return match self.leadership() {
                Some(leadership) if leadership.token().to_string() == token => {
                    self.work(&leadership, work).await
                }
                _ => "error: not the leader any more; try again".to_owned(),
            };
        }
        if let Some(leadership) = self.leadership() {
            return self.work(&leadership, request).await;
        }
        // The answer may be outdated. The token that goes along makes up for that.
        match self.leaders.latest().who {
            Some(leader) => match timeout(PATIENCE, forward(&leader, request)).await {
                Ok(Ok(answer)) => answer,
                Ok(Err(error)) => format!("error: the leader at {} cannot be reached: {error}", leader.value),
                Err(_) => format!("error: the leader at {} does not answer", leader.value),
            },
            None => "error: nobody leads; try again".to_owned(),
        }
    }

    /// Does the leader's work, for as long as this instance leads.
    async fn work(&self, leadership: &Leadership, work: &str) -> String {
        match leadership.run(save(leadership.token(), work)).await {
            Ok(()) => format!("done by the leader with token {}: {work}", leadership.token()),
            Err(lost) => format!("error: {lost}"),
        }
    }
}

/// The work of the leader. All that it writes carries the token, for a store that refuses lower tokens.
async fn save(_token: FencingToken, _work: &str) {}

/// Sends a request to the leader, and returns its answer.
async fn forward(leader: &Leader, request: &str) -> io::Result<String> {
    let mut stream = BufReader::new(TcpStream::connect(&leader.value).await?);
    stream.write_all(format!("for {}: {request}\n", leader.token).as_bytes()).await?;
    let mut answer = String::new();
    stream.read_line(&mut answer).await?;
    match answer.strip_suffix('\n') {
        Some(answer) => Ok(answer.to_owned()),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Serves requests for as long as the process runs.
async fn serve(listener: TcpListener, service: Arc<Service>) {
    while let Ok((stream, _)) = listener.accept().await {
        let service = service.clone();
        tokio::spawn(async move {
            let mut stream = BufReader::new(stream);
            let mut request = String::new();
            while stream.read_line(&mut request).await.is_ok_and(|length| length > 0) {
                let answer = service.answer(request.trim_end()).await;
                if stream.write_all(format!("{answer}\n").as_bytes()).await.is_err() {
                    return;
                }
                request.clear();
            }
        });
    }
}

/// Says who leads.
async fn report(mut leaders: Observer<Leader>) {
    while let Some(leader) = leaders.next().await {
        match leader {
            Ok(Some(leader)) => println!("the leader is at {}", leader.value),
            Ok(None) => println!("nobody leads"),
            Err(went_back) => eprintln!("{went_back}"),
        }
    }
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
