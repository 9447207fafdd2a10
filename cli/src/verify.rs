//! `zklock verify`: whether a holder still has its locks.

use std::process::ExitCode;

use futures::future::join_all;
use zklock::Sequencer;

use crate::args::Verify;
use crate::connection::{Connection, Inquiry};
use crate::console::Console;
use crate::exit::Code;
use crate::failure::{Failure, Outcome};

/// Asks a quorum about each sequencer. A sequencer names its lock from the servers' root, so the chroot of the connect string
/// does not matter. One sequencer that is outdated is the answer for all of them.
pub(crate) async fn verify_sequencers(verify: Verify, connection: &Connection, console: Console) -> Outcome {
    // No path has a line break, so a line is a sequencer.
    let lines = verify.sequencers.iter().flat_map(|text| text.split('\n'));
    let sequencers = lines.map(str::parse::<Sequencer>).collect::<Result<Vec<_>, _>>()?;
    let verified = async |inquiry: Inquiry<'_>| {
        Ok(join_all(sequencers.iter().map(|it| inquiry.session.verify_sequencer(it))).await)
    };
    let answers = connection.in_session(console, verified).await?;
    let mut failures = answers.into_iter().filter_map(Result::err).map(Failure::from).collect::<Vec<_>>();
    // An outdated sequencer is certain, and another error may hide an answer.
    failures.sort_by_key(|failure| failure.code != Code::No);
    if !failures.is_empty() {
        return Err(failures.swap_remove(0).below_chroot(&connection.chroot()));
    }
    for sequencer in sequencers {
        console.detail(format_args!("{sequencer} is valid: its holder holds the lock"));
    }
    Ok(ExitCode::SUCCESS)
}
