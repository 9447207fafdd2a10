//! `zklock ask`: asks those who hold something to let go, and waits until they have.

use std::process::ExitCode;

use futures::StreamExt;
use jiff::Timestamp;
use zklock::ask::{Answer, AskError, Request};
use zklock::inspect::{Contender, Kind};
use zookeeper_client::Permission;

use crate::args::Ask;
use crate::connection::{Connection, Inquiry};
use crate::console::Console;
use crate::exit::{self, Code};
use crate::failure::{Failure, Outcome};
use crate::queue::{Entry, time_text};
use crate::{duration, signals, text, unheld};

pub(crate) async fn ask_holders(ask: Ask, connection: &Connection, console: Console) -> Outcome {
    let mut ending = signals::listen_to(signals::FATAL).map_err(Failure::internal)?;
    // The ask goes with the session.
    let ask_or_end = async |inquiry: Inquiry<'_>| {
        tokio::select! {
            outcome = ask_in_session(&ask, inquiry) => outcome,
            Some(signal) = ending.next() => Ok(exit::after_signal(signal)),
        }
    };
    connection.in_session(console, ask_or_end).await
}

async fn ask_in_session(ask: &Ask, Inquiry { session, console, .. }: Inquiry<'_>) -> Outcome {
    let path = ask.path.as_str();
    let within = duration::text(ask.within);
    let mut request = Request::new(&ask.reason, ask.within);
    if let Some(owner) = &ask.owner {
        request = request.owner(owner);
    }
    if let Some(number) = ask.sequence {
        request = request.number(number);
    }
    if let Some(index) = ask.slot {
        request = request.slot(index);
    }
    let Some(asking) = session.ask(path, request).await.map_err(|error| ask_failure(error, path))? else {
        let unheld = unheld::describe_unheld(session, path).await;
        if ask.sequence.is_some() || ask.slot.is_some() {
            unheld?;
            let number = ask.sequence.map(|number| format!(" with the sequence {number}"));
            let index = ask.slot.map(|index| format!(" of slot {index}"));
            let which = index.unwrap_or_default() + &number.unwrap_or_default();
            return Err(Failure::new(
                Code::No,
                format_args!(
                    "{path} has no holder{which}, so nobody was asked; to see the holders, run `zklock show {path}`"
                ),
            ));
        }
        console.note(unheld?);
        return Ok(ExitCode::SUCCESS);
    };
    let option = release_option(ask, asking.holders());
    for holder in asking.holders() {
        let holder = Entry::from(holder);
        console.note(format_args!(
            "asked {} to let go of {path} within {within}; it came {}, with the sequence {}",
            holder.owner_text(),
            holder.since_text(Timestamp::now()),
            holder.sequence_text()
        ));
    }
    match asking.answer().await.map_err(|error| ask_failure(error, path))? {
        Answer::LetGo => {
            console.note(format_args!("{path}: those who were asked have let go"));
            Ok(ExitCode::SUCCESS)
        }
        Answer::TimeOver | _ => Err(Failure::new(
            Code::No,
            format_args!(
                "{path} is still held after {within}; to see by whom, run `zklock show {path}`; the last resort is \
                 `zklock release --force{option} {path}`"
            ),
        )
        .expected()),
    }
}

/// The option with which `zklock release` takes it from those who were asked. A pool needs one, unless one holder has all.
fn release_option(ask: &Ask, asked: &[Contender]) -> String {
    match (ask.sequence, ask.slot, asked) {
        (Some(number), ..) => format!(" --sequence {number}"),
        (_, Some(index), _) => format!(" --slot {index}"),
        (.., [Contender { kind: Kind::Slot(index), .. }]) => format!(" --slot {index}"),
        (.., [Contender { kind: Kind::Permit(_), number, .. }]) => format!(" --sequence {number}"),
        (.., [Contender { kind: Kind::Permit(_) | Kind::Slot(_), .. }, ..]) => " --sequence N".to_owned(),
        _ => String::new(),
    }
}

fn ask_failure(error: AskError, path: &str) -> Failure {
    match &error {
        AskError::Asked { ask, .. } => Failure::new(
            Code::NotAcquired,
            format_args!(
                "{} asks at {path} already, until {}: {}; try again after that",
                text::harmless(&ask.who),
                time_text(ask.by()),
                text::harmless(&ask.why)
            ),
        ),
        AskError::NotAuthorized { node } => {
            Failure::forbidden(node, &[Permission::READ, Permission::CREATE], &error)
        }
        AskError::Query(query) => Failure::from(query.clone()),
        _ => Failure::usage(&error),
    }
}
