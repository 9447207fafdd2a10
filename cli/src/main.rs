//! The program `zklock`: runs any command under a strict lock on ZooKeeper, and shows any lock's queue.
//!
//! ```text
//! zklock run /lock/report -- ./report        acquires, runs, releases
//!   |  session, guard, signals, terminal     (run/)
//!   +-- zklock-warden                        keeps the command, and ends it in time (warden/)
//!         +-- ./report                       in a process group of its own
//! ```

mod acl;
mod args;
mod ask;
mod civil;
mod clock;
mod closing;
mod completions;
mod connection;
mod console;
#[cfg(test)]
mod contrib;
mod doctor;
mod duration;
mod election;
mod exit;
mod export;
mod failure;
mod found;
mod layout;
mod leader;
mod ls;
mod number;
mod output;
mod pool;
mod question;
mod queue;
mod release;
mod resize;
mod run;
mod servers;
mod show;
mod signals;
mod silence;
mod systemd;
mod table;
mod terminal;
mod text;
mod unheld;
mod verify;
mod warden;
mod word;

use std::process::ExitCode;

use tracing_subscriber::EnvFilter;

use args::{Arguments, Command, Lead, Run};
use console::{Console, print_whole};
use exit::Code;
use failure::{Failure, Outcome};
use run::Goal;

fn main() -> ExitCode {
    failure::exit_at_once_on_panic();
    if let Some(code) = warden::play_part() {
        return code;
    }
    let arguments = match Arguments::read() {
        Ok(arguments) => arguments,
        Err(error) if error.use_stderr() => {
            print_whole(&error.render().ansi().to_string());
            return Code::Usage.into();
        }
        Err(help) => {
            let _gone = help.print();
            return ExitCode::SUCCESS;
        }
    };
    let console = arguments.console();
    let is_doctor = matches!(arguments.command, Command::Doctor(_));
    let doctor = arguments.connection.doctor_command();
    perform_command(arguments, console).unwrap_or_else(|failure| {
        failure.print(console);
        if failure.code == Code::Unreachable && !is_doctor {
            console.note(format_args!("to find out what is wrong, run {doctor}"));
        }
        failure.exit_code()
    })
}

fn perform_command(arguments: Arguments, console: Console) -> Outcome {
    start_log(console);
    if let Command::Run(_) | Command::Lead(_) = arguments.command {
        // Other threads inherit the signal mask, so it is set before they start.
        signals::unblock_signals().map_err(Failure::internal)?;
    }
    let runtime = tokio::runtime::Runtime::new().map_err(Failure::internal)?;
    let connection = &arguments.connection;
    let outcome = runtime.block_on(async {
        match arguments.command {
            Command::Run(Run { wanted, terms }) => {
                run::run_under_lock(Goal::Wanted(wanted), terms, connection, console).await
            }
            Command::Lead(Lead { path, value, terms }) => {
                run::run_under_lock(Goal::Lead { path, value }, terms, connection, console).await
            }
            Command::Leader(leader) => leader::print_leader(leader, connection, console).await,
            Command::Show(show) => show::print_queue(show, connection, console).await,
            Command::Ls(list) => ls::print_locks(list, connection, console).await,
            Command::Verify(verify) => verify::verify_sequencers(verify, connection, console).await,
            Command::Ask(ask) => ask::ask_holders(ask, connection, console).await,
            Command::Resize(resize) => resize::resize_pool(resize, connection, console).await,
            Command::Release(release) => release::release_by_force(release, connection, console).await,
            Command::Doctor(doctor) => doctor::print_report(doctor, connection, console).await,
            Command::Export(wish) => export::serve_metrics(wish, connection, console).await,
            Command::Completions(wish) => completions::print_completions(wish),
        }
    });
    let outcome = match outcome {
        Err(failure) => Err(runtime.block_on(async {
            let failure = acl::explain_refusal(failure, connection).await;
            connection.with_tls_failures(failure).await
        })),
        outcome => outcome,
    };
    // The program does not wait for requests that a silent server still has.
    runtime.shutdown_background();
    outcome
}

/// Writes the library's log to standard error. `RUST_LOG` chooses more finely than `--verbose`.
fn start_log(console: Console) {
    let default = if console == Console::Verbose { "zklock=debug,zookeeper_client=warn" } else { "off" };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let is_colored = anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(is_colored)
        // The subscriber prints its own errors with `eprintln!`, which panics if the stream is gone.
        .log_internal_errors(false)
        .with_writer(std::io::stderr)
        .init();
}
