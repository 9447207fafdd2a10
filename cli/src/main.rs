//! The program `zklock`: guards any command with a strict lock on ZooKeeper, and shows any lock's queue.
//!
//! ```text
//! zklock run /lock/report -- ./report        acquires, runs, releases
//!   |  session, guard, signals, terminal     (run/)
//!   +-- zklock-warden                        keeps the command, and ends it in time (warden/)
//!         +-- ./report                       in a process group of its own
//! ```

mod args;
mod clock;
mod closing;
mod connection;
mod console;
mod doctor;
mod duration;
mod exit;
mod ls;
mod manual;
mod output;
mod queue;
mod release;
mod run;
mod show;
mod signals;
mod table;
mod terminal;
mod text;
mod verify;
mod warden;

use std::process::ExitCode;

use tracing_subscriber::EnvFilter;

use args::{Arguments, Command};
use console::{Console, Level};
use exit::{Code, Failure, Outcome};

fn main() -> ExitCode {
    exit::at_once_on_panic();
    if let Some(role) = warden::role() {
        return role.play();
    }
    let arguments = match Arguments::read() {
        Ok(arguments) => arguments,
        Err(error) => {
            let _gone = error.print();
            return if error.use_stderr() { Code::Usage.into() } else { ExitCode::SUCCESS };
        }
    };
    let console = Console::new(arguments.level());
    let is_doctor = matches!(arguments.command, Command::Doctor(_));
    perform(arguments, console).unwrap_or_else(|failure| {
        console.error(&failure);
        if failure.code == Code::Unreachable && !is_doctor {
            console.note("`zklock doctor` asks each server what is wrong");
        }
        failure.code.into()
    })
}

fn perform(arguments: Arguments, console: Console) -> Outcome {
    log(arguments.level());
    if let Command::Run(_) = arguments.command {
        // Before there is another thread.
        signals::unblock().map_err(Failure::internal)?;
    }
    let runtime = tokio::runtime::Runtime::new().map_err(Failure::internal)?;
    let connection = &arguments.connection;
    let outcome = runtime.block_on(async {
        match arguments.command {
            Command::Run(run) => run::run(run, connection, console).await,
            Command::Show(show) => show::show(show, connection).await,
            Command::Ls(list) => ls::list(list, connection, console).await,
            Command::Verify(verify) => verify::verify(verify, connection, console).await,
            Command::Release(release) => release::release(release, connection, console).await,
            Command::Doctor(doctor) => doctor::examine(doctor, connection).await,
            Command::Completions(completions) => manual::completions(completions),
            Command::Man(man) => manual::pages(man),
        }
    });
    // What still waits for a server that does not answer is not waited for.
    runtime.shutdown_background();
    outcome
}

/// What the library logs, on standard error; `RUST_LOG` chooses more finely.
fn log(level: Level) {
    let default = if level == Level::Verbose { "zklock=debug,zookeeper_client=warn" } else { "off" };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let is_colored = anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(is_colored)
        // They would be printed to a stream that is gone, with a panic.
        .log_internal_errors(false)
        .with_writer(std::io::stderr)
        .init();
}
