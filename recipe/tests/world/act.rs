//! Steps that a model states once: when each is possible, what goes wrong in it, and what carries it out.

use std::fmt::{self, Debug, Formatter};

use super::exploration::{Run, Setup, State, Step};

/// A step, as [`act!`](act) makes it.
pub(crate) struct Act<S: Setup> {
    pub(crate) label: Label<S::Fault>,
    take: fn(&mut Run<'_, S>, usize),
}

/// By what an act is told from others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Label<F> {
    /// The method that carries it out, and how.
    pub(crate) name: &'static str,
    /// To whom it happens.
    pub(crate) subject: usize,
    fault: Option<F>,
    is_voluntary: bool,
}

impl<S: Setup> Act<S> {
    pub(crate) fn new(name: &'static str, take: fn(&mut Run<'_, S>, usize)) -> Self {
        Self { label: Label { name, subject: 0, fault: None, is_voluntary: false }, take }
    }

    /// It happens to this one.
    pub(crate) fn of(mut self, subject: usize) -> Self {
        self.label.subject = subject;
        self
    }

    /// This goes wrong in it.
    pub(crate) fn due_to(mut self, fault: S::Fault) -> Self {
        self.label.fault = Some(fault);
        self
    }

    /// The world goes on by itself without it, if that is so.
    pub(crate) fn voluntary(mut self, is_voluntary: bool) -> Self {
        self.label.is_voluntary = is_voluntary;
        self
    }
}

impl<S: Setup> Step<S> for Act<S> {
    fn fault(self, _: &State<S>) -> Option<S::Fault> {
        self.label.fault
    }

    fn is_voluntary(self, _: &State<S>) -> bool {
        self.label.is_voluntary
    }

    fn take(self, run: &mut Run<'_, S>) {
        (self.take)(run, self.label.subject);
    }
}

impl<S: Setup> Copy for Act<S> {}

impl<S: Setup> Clone for Act<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Setup> PartialEq for Act<S> {
    fn eq(&self, other: &Self) -> bool {
        self.label == other.label
    }
}

impl<S: Setup> Debug for Act<S> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.label.fmt(f)
    }
}

/// Those of these that are possible, for this subject.
pub(crate) fn possible<S: Setup, const N: usize>(
    subject: usize,
    acts: [(bool, Act<S>); N],
) -> impl Iterator<Item = Act<S>> {
    let possible = acts.into_iter().filter(|(is_possible, _)| *is_possible);
    possible.map(move |(_, act)| act.of(subject))
}

/// The act that this method of a run carries out, with the subject and these arguments.
macro_rules! act {
    ($method:ident $(($($argument:expr),*))?) => {
        $crate::world::act::Act::<Setup>::new(
            stringify!($method $(($($argument),*))?),
            |run, subject| run.$method(subject $($(, $argument)*)?),
        )
    };
}

pub(crate) use act;
