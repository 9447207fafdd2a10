//! Runs a command with one server that all its tests share: `with-server cargo nextest run`.

use std::process::{Command, ExitCode};

use zklock_test_support::{STANDING, standing_server};

#[tokio::main]
async fn main() -> ExitCode {
    let mut command = std::env::args_os().skip(1);
    let mut program = Command::new(command.next().expect("a command"));
    program.args(command);
    let server = standing_server().await;
    // Signals of a terminal reach the command, too; the server goes when this process does.
    program.env(STANDING, server.connect_string());
    let status = tokio::task::spawn_blocking(move || program.status());
    let status = status.await.expect("no panic").expect("the command starts");
    ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
