//! `zklock leader`: who leads, and each change of that.

use std::process::ExitCode;
use std::time::Duration;

use zklock::{Election, Session};

use crate::args::Leader;
use crate::closing;
use crate::connection::Connection;
use crate::console::Console;
use crate::election::Announcement;
use crate::exit::Code;
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
    let election = session.election(&leader.path)?;
    if leader.watch {
        return signals::watching(output::while_read(watch(leader, session, &election, console))).await;
    }
    let found = election.leader().await?;
    let nobody = found.is_none();
    if nobody && !leader.json {
        console.note(format_args!("nobody leads {}", text::harmless(&leader.path)));
    } else if leader.json {
        output::print_json(&found.map(Announcement::from))?;
    } else {
        output::print(&line(found))?;
    }
    Ok(if nobody { Code::No.into() } else { ExitCode::SUCCESS })
}

/// Prints each change until nobody reads it.
async fn watch(leader: &Leader, session: &Session, election: &Election, console: Console) -> Outcome {
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
                Some(Err(went_back)) => {
                    console.warn(format_args!("{went_back}; zklock goes on, with what is there now"));
                }
                Some(Ok(found)) => {
                    let found = match leader.json {
                        true => output::json_line(&found.map(Announcement::from))?,
                        false => line(found),
                    };
                    if !output::print_to_reader(found).await? {
                        return Ok(ExitCode::SUCCESS);
                    }
                }
                // The session is over, and another question says why.
                None => {
                    let failure = session.failure().map(Failure::from);
                    return match failure {
                        Some(failure) => Err(failure),
                        None => election.leader().await.map(|_| ExitCode::SUCCESS).map_err(Failure::from),
                    };
                }
            },
        }
    }
}

/// What the leader announces; an empty line if nobody leads.
fn line(found: Option<zklock::election::Leader>) -> String {
    // Any client may have written the value.
    let value = found.map(|found| text::harmless(&found.value)).unwrap_or_default();
    format!("{value}\n")
}
