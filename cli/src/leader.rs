//! `zklock leader`: who leads, and each change of that.

use std::process::ExitCode;
use std::time::Duration;

use zklock::{Election, Session};

use crate::args::Leader;
use crate::connection::{Connection, Inquiry};
use crate::console::Console;
use crate::election::Announcement;
use crate::exit::Code;
use crate::failure::{Failure, Outcome};
use crate::found::Found;
use crate::{acl, output, signals, text, unheld};

/// How often it looks whether the server has refused to answer.
const LOOK: Duration = Duration::from_secs(1);

pub(crate) async fn print_leader(leader: Leader, connection: &Connection, console: Console) -> Outcome {
    connection.in_session(console, async |inquiry| print_in_session(&leader, inquiry).await).await
}

async fn print_in_session(leader: &Leader, inquiry: Inquiry<'_>) -> Outcome {
    let Inquiry { session, console, .. } = inquiry;
    let election = session.election(&leader.path)?;
    if leader.watch {
        if let Ok(None) = election.leader().await {
            console.note(nobody_leads(session, &election).await);
        }
        let changes = print_changes(leader, &election, inquiry);
        return signals::until_signal(output::while_read(changes)).await;
    }
    let found = election.leader().await?;
    let is_led = found.is_some();
    if !is_led && !leader.json {
        console.note(nobody_leads(session, &election).await);
    } else if leader.json {
        output::print_json(&found.map(Announcement::from))?;
    } else {
        output::print(&leader_line(found))?;
    }
    Ok(if is_led { ExitCode::SUCCESS } else { Code::No.into() })
}

/// Says that nobody leads the election, and what is at its path.
async fn nobody_leads(session: &Session, election: &Election) -> String {
    let path = text::harmless(election.path());
    match describe_path(session, election).await {
        Ok(what) => format!("nobody leads {path}: {path} {what}"),
        // An ACL may hide what is there.
        Err(_) => format!("nobody leads {path}"),
    }
}

async fn describe_path(session: &Session, election: &Election) -> Result<String, Failure> {
    let path = election.path();
    let Found { lock, election: of, pool, .. } = Found::at(session, path, None).await?;
    Ok(match (of, pool) {
        // The leader has come since.
        (Some(election), _) if election.path == path => {
            "had no leader when zklock asked, and has one now".to_owned()
        }
        (Some(election), _) => format!("is the queue of the election {}", text::harmless(&election.path)),
        (None, Some(pool)) => pool.stock.what().to_owned(),
        (None, None) if !lock.contenders().await?.is_empty() => {
            format!("is a lock; to see its holder, run `zklock show {}`", text::harmless(path))
        }
        _ if !session.lock(&election.queue())?.contenders().await?.is_empty() => {
            "has candidates, and none of them leads yet".to_owned()
        }
        _ if session.child_count(path).await?.is_none() => "does not exist".to_owned(),
        _ => match session.lock(path)?.foreign_contenders().await?.len() {
            0 => "exists, and has no candidate".to_owned(),
            foreign => format!("has no candidate of zklock's, but {}", unheld::foreign_text(foreign)),
        },
    })
}

/// Prints each change until nobody reads it.
async fn print_changes(leader: &Leader, election: &Election, inquiry: Inquiry<'_>) -> Outcome {
    let Inquiry { session, connection, console } = inquiry;
    let mut leaders = election.observe();
    let mut looks = tokio::time::interval(LOOK);
    let mut refusal = None;
    loop {
        tokio::select! {
            _ = looks.tick() => {
                let now = leaders.latest().refusal;
                if let Some(cause) = now.as_ref().filter(|_| now != refusal) {
                    // Another question shows whether an ACL refuses, and which one.
                    let asked = election.leader().await.err().map(Failure::from);
                    let asked = asked.filter(|failure| failure.forbidden_path().is_some());
                    let cause = match asked {
                        Some(forbidden) => acl::explain_refusal(forbidden, connection).await.to_string(),
                        None => cause.clone(),
                    };
                    console.warn(format_args!("the server refuses to say who leads: {cause}; zklock asks again"));
                }
                refusal = now;
            }
            told = leaders.next() => match told {
                Some(Err(went_back)) => {
                    console.warn(format_args!("{went_back}; zklock goes on, with what is there now"));
                }
                Some(Ok(found)) => {
                    let found = if leader.json {
                        output::json_line(&found.map(Announcement::from))?
                    } else {
                        leader_line(found)
                    };
                    if !output::print_to_reader(found).await? {
                        return Ok(ExitCode::SUCCESS);
                    }
                }
                // The session is over, and another question says why.
                None => {
                    if let Some(cause) = session.failure() {
                        return Err(cause.into());
                    }
                    election.leader().await?;
                    return Ok(ExitCode::SUCCESS);
                }
            },
        }
    }
}

/// What the leader announces; an empty line if nobody leads.
fn leader_line(found: Option<zklock::election::Leader>) -> String {
    // Any client may have written the value.
    let value = found.map(|found| text::whole(&found.value)).unwrap_or_default();
    format!("{value}\n")
}
