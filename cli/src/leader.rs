//! `zklock leader`: who leads, and each change of that.

use std::process::ExitCode;
use std::time::Duration;

use futures::StreamExt;
use tokio::signal::unix::SignalKind;
use zklock::{Election, LockOptions, Session};

use crate::args::Leader;
use crate::closing;
use crate::connection::Connection;
use crate::console::Console;
use crate::election::Announcement;
use crate::exit::{self, Code};
use crate::failure::{Failure, Outcome};
use crate::{output, signals, text};

/// How often it looks whether the server has refused to answer.
const LOOK: Duration = Duration::from_secs(1);

/// Prints who leads, once or at each change.
pub(crate) async fn leader(leader: Leader, connection: &Connection, console: Console) -> Outcome {
    let session = connection.session().await?;
    let outcome = answer(&leader, &session, console).await;
    closing::session(&session).await;
    outcome
}

async fn answer(leader: &Leader, session: &Session, console: Console) -> Outcome {
    let layout = leader.layout.map(Into::into).unwrap_or_default();
    // Looking takes no lock, so it needs no delay.
    let options = LockOptions::new().layout(layout).takeover_delay(Duration::ZERO);
    let election = session.election(&leader.path)?.with_options(options)?;
    if leader.watch {
        return watch(leader, session, &election, console).await;
    }
    let found = election.leader().await?;
    let nobody = found.is_none();
    if nobody && !leader.json {
        console.note(format_args!("nobody leads {}", text::harmless(&leader.path)));
    } else {
        print(leader, found)?;
    }
    Ok(if nobody { Code::No.into() } else { ExitCode::SUCCESS })
}

/// Prints each change until a signal.
async fn watch(leader: &Leader, session: &Session, election: &Election, console: Console) -> Outcome {
    let ending = [SignalKind::interrupt(), SignalKind::terminate()];
    let mut signals = signals::arriving(ending).map_err(Failure::internal)?;
    let mut leaders = election.observe();
    let (mut looks, mut refusal) = (tokio::time::interval(LOOK), None);
    loop {
        tokio::select! {
            _ = looks.tick() => {
                let now = leaders.latest().refusal;
                if let Some(cause) = now.as_ref().filter(|_| now != refusal) {
                    console.warn(format_args!("the server refuses to say who leads: {cause}; zklock asks again"));
                }
                refusal = now;
            }
            told = leaders.next() => match told {
                Some(found) => print(leader, found)?,
                // The session is over, and another question says why.
                None => {
                    let failure = session.failure().map(Failure::from);
                    return match failure {
                        Some(failure) => Err(failure),
                        None => election.leader().await.map(|_| ExitCode::SUCCESS).map_err(Failure::from),
                    };
                }
            },
            Some(signal) = signals.next() => return Ok(exit::after_watching(signal)),
        }
    }
}

fn print(leader: &Leader, found: Option<zklock::election::Leader>) -> Result<(), Failure> {
    if leader.json {
        let found = found.map(Announcement::from);
        return if leader.watch { output::print_json_line(&found) } else { output::print_json(&found) };
    }
    // Any client may have written the value.
    let value = found.map(|found| text::harmless(&found.value)).unwrap_or_default();
    output::print(&format!("{value}\n"))
}
