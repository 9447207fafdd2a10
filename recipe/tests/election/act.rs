//! Steps that the model states once: when each is possible, what goes wrong in it, and what carries it out.

use std::fmt::{self, Debug, Formatter};

use super::setup::{Fault, Setup};
use crate::world::exploration::{Run, State, Step};

/// A step, as [`act!`](act) makes it.
#[derive(Clone, Copy)]
pub(crate) struct Act {
    /// The method that carries it out, and how.
    name: &'static str,
    take: fn(&mut Run<'_, Setup>, usize),
    /// To whom it happens.
    subject: usize,
    fault: Option<Fault>,
    is_voluntary: bool,
}

impl Act {
    pub(crate) fn new(name: &'static str, take: fn(&mut Run<'_, Setup>, usize)) -> Self {
        Self { name, take, subject: 0, fault: None, is_voluntary: false }
    }

    /// It happens to this one.
    pub(crate) fn of(self, subject: usize) -> Self {
        Self { subject, ..self }
    }

    /// This goes wrong in it.
    pub(crate) fn due_to(self, fault: Fault) -> Self {
        Self { fault: Some(fault), ..self }
    }

    /// The world goes on by itself without it, if that is so.
    pub(crate) fn voluntary(self, is_voluntary: bool) -> Self {
        Self { is_voluntary, ..self }
    }
}

impl Step<Setup> for Act {
    fn fault(self, _: &State<Setup>) -> Option<Fault> {
        self.fault
    }

    fn is_voluntary(self, _: &State<Setup>) -> bool {
        self.is_voluntary
    }

    fn take(self, run: &mut Run<'_, Setup>) {
        (self.take)(run, self.subject);
    }
}

impl PartialEq for Act {
    fn eq(&self, other: &Self) -> bool {
        (self.name, self.subject) == (other.name, other.subject)
    }
}

impl Debug for Act {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.subject)
    }
}

/// Those of these that are possible, for this subject.
pub(crate) fn possible<const N: usize>(subject: usize, acts: [(bool, Act); N]) -> impl Iterator<Item = Act> {
    let possible = acts.into_iter().filter(|(is_possible, _)| *is_possible);
    possible.map(move |(_, act)| act.of(subject))
}

/// The act that this method of a run carries out, with the subject and these arguments.
macro_rules! act {
    ($method:ident $(($($argument:expr),*))?) => {
        $crate::election::act::Act::new(
            stringify!($method $(($($argument),*))?),
            |run, subject| run.$method(subject $($(, $argument)*)?),
        )
    };
}

pub(crate) use act;
