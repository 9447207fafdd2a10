//! `zklock verify`: whether a holder's claim still stands.

use std::process::ExitCode;

use zklock::Sequencer;

use crate::args::Verify;
use crate::closing;
use crate::connection::Connection;
use crate::console::Console;
use crate::failure::{Failure, Outcome};
use crate::text;

/// Asks a quorum. A claim names its lock from the servers' root, so the chroot of the connect string does not matter.
pub(crate) async fn verify(verify: Verify, connection: &Connection, console: Console) -> Outcome {
    let claim = verify.sequencer.parse::<Sequencer>()?;
    let session = connection.session().await?;
    let answer = session.verify_sequencer(&claim).await;
    closing::session(&session).await;
    // Any client may have written the claim and the path in it.
    if let Err(error) = answer {
        let failure = Failure::from(error);
        return Err(Failure::new(failure.code, text::harmless(&failure.to_string())));
    }
    console.detail(format_args!("{} stands", text::harmless(&claim.to_string())));
    Ok(ExitCode::SUCCESS)
}
