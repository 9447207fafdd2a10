//! The command line.

use clap::{Parser, Subcommand};

use crate::compare::Compare;
use crate::harness::part;
use crate::margins::Margins;
use crate::peers::Place;
use crate::torture::{self, Torture};

/// Looks for two holders of a lock while servers, connections and processes fail, and measures zklock against its peers.
///
/// Exits with 0 if a lock of zklock never had two holders and kept its other promises, 1 if it did not, 2 if something
/// could not be measured, 3 if nothing was wrong and the run showed too little to prove that (UNPROVEN).
#[derive(Debug, Parser)]
#[command(name = "zklock-proof")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Take client processes and servers apart at random, and judge afterwards what the clients did.
    Torture(Torture),
    /// Let one thing fail under a holder, and measure who is told first: the holder or the next one.
    Margins(Margins),
    /// zklock beside every peer: handovers, crashes, and a server that is cut off. It needs `scripts/have-peers.sh all`.
    Compare(Compare),
    /// One client of the torture, which starts it.
    #[command(hide = true)]
    TortureClient {
        #[arg(value_parser = part::<torture::Part>)]
        part: torture::Part,
    },
    /// A command under `zklock run`, which a client of the torture has run.
    #[command(hide = true)]
    TortureErrand {
        #[arg(value_parser = part::<torture::Errand>)]
        errand: torture::Errand,
    },
    /// A lock that obeys lines, as the other subcommands start it.
    #[command(hide = true)]
    Part(Place),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        super::Arguments::command().debug_assert();
    }
}
