//! The command line of the torture.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use zklock_contest::member::Member;

use super::schedule::Kind;

#[derive(Debug, Args)]
pub(crate) struct Torture {
    /// The member that the processes contend for, in place of all members of the library at once. May be repeated. The program is contended
    /// for alone.
    #[arg(long, value_parser = members(), value_name = "MEMBER")]
    pub(crate) member: Vec<Member>,
    /// For how long there are faults, in seconds. Starting, recovering and looking for remains take some ten more.
    #[arg(long, value_name = "S", default_value_t = 180, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) seconds: u64,
    /// How many client processes contend.
    #[arg(long, value_name = "K", default_value_t = 6, value_parser = clap::value_parser!(u16).range(3..=50))]
    pub(crate) clients: u16,
    /// Decides which faults there are, and when. Drawn and printed if it is left out.
    #[arg(long, value_name = "X")]
    pub(crate) seed: Option<u64>,
    /// No other fault than this, aimed at holders.
    #[arg(long, value_enum, value_name = "FAULT")]
    pub(crate) only: Option<Kind>,
    /// For how many milliseconds zklock waits behind another client's contenders. Without it, as long as the documentation promises to be
    /// enough. With less, the run is to fail.
    #[arg(long, value_name = "MS")]
    pub(crate) takeover_delay: Option<u64>,
}

/// The members of the library, and the program.
fn members() -> impl TypedValueParser<Value = Member> {
    let words = Member::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    let program = PossibleValue::new("program").help("Locks of commands under `zklock run`");
    PossibleValuesParser::new(words.chain([program]))
        .map(|word| Member::from_str(&word, false).unwrap_or(Member::Program))
}
