//! A writer. Every user of a fenced store works like this.

use std::io::Write;
use std::time::Duration;

use zklock::{FencingToken, ReleaseError, Session};

use crate::Part;
use crate::store::{Store, Written};

/// The session timeout. A stopped writer keeps the lock for about this time.
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(4);

/// The servers may have just started.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// The words that a writer says to the story, one a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Word {
    /// The writer holds the lock: its guard has just said so.
    Checked { token: FencingToken },
    /// The store accepted its write.
    Wrote,
    /// The store refused its write.
    Refused { highest: FencingToken },
    /// Whether its guard was still held after the write.
    Ended { held: bool },
}

/// Writes once, under the lock.
pub(crate) async fn run(part: &Part) -> anyhow::Result<()> {
    let store = Store::open(&part.store, &part.lock).await?;
    let session = Session::builder(&part.servers)
        .session_timeout(SESSION_TIMEOUT)
        .connect_timeout(CONNECT_TIMEOUT)
        .connect()
        .await?;
    let guard = session.lock(&part.lock)?.acquire().await?;

    guard.check()?;
    say(Word::Checked { token: guard.token() })?;
    // A process may be paused for any time here. The story stops the writer at this point, while the writer waits for a
    // word.
    std::io::stdin().read_line(&mut String::new())?;
    let written = store.write(guard.token(), &part.text).await?;

    say(match written {
        Written::Yes => Word::Wrote,
        Written::Refused { highest } => Word::Refused { highest },
    })?;
    say(Word::Ended { held: guard.is_held() })?;
    match guard.release().await {
        Ok(()) | Err(ReleaseError::Lost(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn say(word: Word) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    serde_json::to_writer(&mut stdout, &word)?;
    writeln!(stdout)?;
    stdout.flush()?;
    Ok(())
}
