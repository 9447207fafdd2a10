//! The command line of the margins.

use clap::Args;
use clap::builder::PossibleValuesParser;

use super::scenario::SCENARIOS;

/// What is to be measured.
#[derive(Debug, Args)]
pub(crate) struct Margins {
    /// How often each scenario is repeated.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub(crate) repetitions: u16,
    /// Only these scenarios.
    #[arg(value_name = "SCENARIO", value_parser = PossibleValuesParser::new(SCENARIOS.iter().map(|one| one.name)))]
    pub(crate) only: Vec<String>,
}
