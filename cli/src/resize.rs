//! `zklock resize`: changes the capacity of a semaphore, or the number of slots.

use std::process::ExitCode;

use zklock::{AcquireError, inspect::Kind, semaphore::PoolError};
use zookeeper_client::Permission;

use crate::args::Resize;
use crate::connection::{Connection, Inquiry};
use crate::console::Console;
use crate::exit::Code;
use crate::failure::{Failure, Outcome};
use crate::pool::{self, Pool, Stock};
use crate::queue::Entry;
use crate::text::counted;
use crate::{question, unheld};

/// Asks the user if more is held than the new number allows, or if contenders wait, and changes the number.
pub(crate) async fn resize_pool(resize: Resize, connection: &Connection, console: Console) -> Outcome {
    let resized =
        connection.in_session(console, async |inquiry| resize_in_session(&resize, inquiry).await).await;
    console.note(resized?);
    Ok(ExitCode::SUCCESS)
}

/// Changes the number, and returns what the user is to know of that.
async fn resize_in_session(
    resize: &Resize,
    Inquiry { session, console, .. }: Inquiry<'_>,
) -> Result<String, Failure> {
    let path = resize.path.as_str();
    let number = resize.number;
    let Some(pool) = Pool::at(session, path).await? else {
        unheld::count_children(session, path).await?;
        // An ACL may hide what it is.
        session.semaphore(path, 1)?.permits().await?;
        session.lock(&pool::turnstile(path))?.contenders().await?;
        return Err(Failure::usage(format_args!("{path} is neither a semaphore nor slots")));
    };
    let excess = excess_text(&pool, number);
    let concerns = excess.clone().into_iter().chain(refusal_text(&pool, path, number)).collect::<Vec<_>>();
    if !concerns.is_empty() && !resize.yes {
        question::check_terminal()?;
        // A question needs the facts it is about, even with --quiet.
        let console = console.max(Console::Normal);
        let held = pool.stock.text(pool.held);
        console.note(format_args!("{path}: {held} held; {}", concerns.join("; ")));
        if !question::ask_user(&format!("Change it to {number}?")).await? {
            return Err(Failure::new(Code::No, "nothing was changed"));
        }
        // The user may take long to answer.
        let now = Pool::at(session, path).await?.map(|pool| pool.stock);
        if now.is_none_or(|now| now.text(0) != pool.stock.text(0)) {
            let now = now.map_or_else(|| "nothing".to_owned(), |now| now.total().to_string());
            return Err(Failure::new(
                Code::No,
                format_args!(
                    "somebody has changed {path} from {} to {now} meanwhile; nothing was changed; try again",
                    pool.stock.total()
                ),
            ));
        }
    }
    let changed = match pool.stock {
        Stock::Semaphore { .. } => session.semaphore(path, 1)?.set_capacity(number).await,
        Stock::Slots { .. } => session.slots(path, 1)?.set_count(number).await,
    };
    changed.map_err(|error| match &error {
        PoolError::Acquire(AcquireError::NotAuthorized { path }) => {
            let node = pool::permits_node(path);
            let said = format!("an ACL does not allow this session to write to {node}; nothing was changed");
            Failure::forbidden(&node, &[Permission::WRITE], said)
        }
        _ => error.into(),
    })?;
    let what = match pool.stock {
        Stock::Semaphore { .. } => "capacity",
        Stock::Slots { .. } => "number of slots",
    };
    // Others may have come or gone since.
    let after = Pool::at(session, path).await.ok().flatten();
    let excess = after.map_or(excess, |pool| excess_text(&pool, number));
    let excess = excess.map_or_else(String::new, |excess| format!(". Now {excess}"));
    Ok(format!(
        "the {what} of {path} is {number}; it was {}{excess}. zklock refuses commands whose {} states another number, also \
         those that wait already",
        pool.stock.total(),
        option_of(pool.stock)
    ))
}

fn option_of(stock: Stock) -> &'static str {
    match stock {
        Stock::Semaphore { .. } => "--permits",
        Stock::Slots { .. } => "--slot",
    }
}

/// What becomes of those that wait: they state the present number. `None` if nobody waits, or if the number stays.
fn refusal_text(pool: &Pool, path: &str, number: u32) -> Option<String> {
    let waiting = pool.waiting.len();
    let total = pool.stock.total();
    if waiting == 0 || total == number {
        return None;
    }
    let (wait, them) = if waiting == 1 { ("waits", "it") } else { ("wait", "them") };
    let option = option_of(pool.stock);
    Some(format!(
        "{} {wait} with {option} {path}/{total}: zklock refuses {them} then, with exit code 64",
        counted(waiting, "contender")
    ))
}

/// What becomes of those that hold more than this number allows; `None` if nobody does.
fn excess_text(pool: &Pool, number: u32) -> Option<String> {
    let above = |holder: &&Entry| matches!(holder.kind, Kind::Slot(index) if index >= number);
    let above = pool.holders.iter().filter(above).count();
    if above > 0 {
        let slots_have = if above == 1 { "slot has" } else { "slots have" };
        return Some(format!(
            "{above} {slots_have} an index of {number} or above: the holders keep their slots, which count as held, and nobody gets one \
             of these again"
        ));
    }
    (pool.held > u64::from(number)).then(|| {
        format!("more than {number} is held: the holders keep what they have, and nobody is admitted until less is held")
    })
}
