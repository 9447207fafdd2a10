//! Runs records through the shipped machines again, and says what they decide.

use zklock_recipe::Moment;
use zklock_recipe::flight::Line;

use crate::read::Records;
use crate::reader::{self, Step};

/// Which lines of the records are of interest. All of them run.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Acquisitions at this path.
    pub path: Option<String>,
    /// The acquisition with this number, in each process.
    pub acquisition: Option<u64>,
}

/// The outcome of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Inputs of acquisitions that ran through a machine.
    pub inputs: usize,
    /// Evidence that ran through a lease.
    pub evidence: usize,
    /// Where a machine decided otherwise than was recorded.
    pub diverged: usize,
}

/// Runs these records, and tells of each line of interest: what was recorded, and what the machines decide.
pub fn replay(records: &Records, filter: &Filter, mut tell: impl FnMut(&str)) -> Replayed {
    let mut replayed = Replayed::default();
    for process in &records.processes {
        tell(&format!("{}, zklock {}", process.name(), process.header.zklock));
        let begin = process.header.at;
        let mut of_path = std::collections::BTreeSet::new();
        reader::read(process, &mut |step| {
            if let Step::Line(Line::Begun(begun)) = &step
                && filter.path.as_ref().is_none_or(|path| begun.queues.iter().any(|it| it.name == *path))
            {
                of_path.insert(begun.acquisition);
            }
            let wants = |number: u64| {
                filter.acquisition.is_none_or(|wanted| wanted == number)
                    && (filter.path.is_none() || of_path.contains(&number))
            };
            // Leases belong to no path.
            let wants_leases = filter.path.is_none() && filter.acquisition.is_none();
            match step {
                Step::Lease(session, lease, evidence) => {
                    replayed.evidence += 1;
                    if wants_leases {
                        let (since, left) = (since(begin, evidence.at()), lease.remaining(evidence.at()));
                        tell(&format!(
                            "{since} session {session:#x}: {evidence:?}; the lease lasts {left:.3?}"
                        ));
                    }
                }
                Step::Commands(heard, commands) => {
                    replayed.inputs += 1;
                    if wants(heard.acquisition) {
                        let (since, number) = (since(begin, heard.at), heard.acquisition);
                        tell(&format!("{since} #{number} {:?} -> {commands:?}", heard.input));
                    }
                }
                Step::Diverged(it) => {
                    replayed.diverged += 1;
                    tell(&format!(
                        "DIVERGED #{} {}: recorded {}, replayed {}",
                        it.acquisition, it.path, it.recorded, it.replayed
                    ));
                }
                Step::Gap => tell("lines are missing here"),
                Step::Line(line) => {
                    let since = since(begin, line.at());
                    match line {
                        Line::Begun(it) if wants(it.acquisition) => {
                            let paths = it
                                .queues
                                .iter()
                                .map(|queue| queue.name.as_str())
                                .collect::<Vec<_>>()
                                .join(", ");
                            tell(&format!(
                                "{since} #{} begins at {paths}, {:?}",
                                it.acquisition, it.patience
                            ));
                        }
                        Line::Over(it) if wants(it.acquisition) => {
                            tell(&format!("{since} #{} is over: {}", it.acquisition, it.reason));
                        }
                        Line::Turn(number, turn, _) if wants(*number) => {
                            tell(&format!("{since} #{number} passes to turn {turn}"));
                        }
                        Line::Stamp(it) if wants_leases => {
                            tell(&format!("{since} the leader's clock shows {} at {:#x}", it.time, it.zxid));
                        }
                        _ => {}
                    }
                }
            }
        });
    }
    replayed
}

fn since(begin: Moment, at: Moment) -> String {
    format!("{:>+12.6}", at.least_since(begin).as_secs_f64())
}
