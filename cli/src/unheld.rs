//! What is said of a path that nobody holds, or that does not exist.

use zklock::Session;

use crate::exit::Code;
use crate::failure::Failure;
use crate::layout::Layout;
use crate::pool::{self, Pool};
use crate::text::{counted, harmless};

/// How many children a path has. It is a failure if the path is not there. No ACL hides that.
pub(crate) async fn count_children(session: &Session, path: &str) -> Result<usize, Failure> {
    match session.child_count(path).await? {
        Some(children) => Ok(children),
        None => Err(explain_missing(session, path).await),
    }
}

/// The failure of a question about a path that is not there, and that may be one of `run --permits` or `--slot`: PATH/NUMBER.
pub(crate) async fn explain_missing(session: &Session, path: &str) -> Failure {
    let missing = missing_failure(path);
    let Some((parent, number)) = pool::split_path(path) else { return missing };
    match Pool::at(session, parent).await {
        Ok(Some(pool)) => Failure::new(
            Code::Nothing,
            format_args!("{path} does not exist, but {parent} {}; leave out /{number}", pool.stock.what()),
        )
        .expected(),
        _ => missing,
    }
}

/// The failure of a question about a path that is not there.
pub(crate) fn missing_failure(path: &str) -> Failure {
    Failure::new(
        Code::Nothing,
        format_args!(
            "{} does not exist. If nobody has used this lock for a minute or more, ZooKeeper has removed it, and the lock is free. \
             Otherwise check the spelling",
            harmless(path)
        ),
    )
    .expected()
}

/// Says of a path that nobody holds it in this queue, and how many foreign contenders are there.
pub(crate) fn unheld_text(path: &str, layout: Option<Layout>, foreign: usize) -> String {
    let path = harmless(path);
    let there = foreign_text(foreign);
    match (foreign, layout) {
        (0, _) => format!("nobody holds {path}"),
        (_, None) => format!("no contender of zklock holds {path}, but {there}"),
        (_, Some(layout)) => format!("nobody holds {path} in a queue of {}, but {there}", layout.text()),
    }
}

pub(crate) fn foreign_text(foreign: usize) -> String {
    let are = if foreign == 1 { "is" } else { "are" };
    format!("{} of other clients or layouts {are} there", counted(foreign, "contender"))
}

/// Says of a path that nobody holds it, and which locks below it somebody holds, or that foreign contenders are there. It is a
/// failure if the path does not exist.
pub(crate) async fn describe_unheld(session: &Session, path: &str) -> Result<String, Failure> {
    let children = count_children(session, path).await?;
    let foreign = match session.lock(path) {
        Ok(lock) => lock.foreign_contenders().await?.len(),
        Err(_) => 0,
    };
    let shown = harmless(path);
    if foreign > 0 {
        return Ok(format!("{}; to see them, run `zklock show {shown}`", unheld_text(path, None, foreign)));
    }
    // What may not be listed is not counted.
    let below = if children > 0 { session.locks_below(path).await.ok() } else { None };
    let held = below.map_or(0, |below| below.locks.len() + below.pools.len());
    Ok(match held {
        0 => format!("nobody holds {shown}"),
        1 => format!("nobody holds {shown}. One lock below it is held; to see it, run `zklock ls {shown}`"),
        several => format!(
            "nobody holds {shown}. {several} locks below it are held; to see them, run `zklock ls {shown}`"
        ),
    })
}
