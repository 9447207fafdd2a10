//! Questions to the person at the terminal.

use std::io::{self, IsTerminal, Write as _};

use crate::failure::Failure;

/// Fails if nobody can be asked.
pub(crate) fn check_terminal() -> Result<(), Failure> {
    if io::stdin().is_terminal() {
        return Ok(());
    }
    Err(Failure::usage(
        "zklock cannot ask for confirmation, because standard input is not a terminal; give --yes",
    ))
}

/// Asks on the terminal. No answer is a no.
pub(crate) async fn ask_user(question: &str) -> Result<bool, Failure> {
    let _gone = write!(anstream::stderr(), "{question} [y/N] ");
    let answer = || {
        let mut line = String::new();
        io::stdin().read_line(&mut line).map(|_| line)
    };
    let answer = tokio::task::spawn_blocking(answer).await.map_err(Failure::internal)?;
    let line =
        answer.map_err(|error| Failure::usage(format_args!("zklock cannot read your answer: {error}")))?;
    Ok(matches!(line.trim().to_lowercase().as_str(), "y" | "yes"))
}
