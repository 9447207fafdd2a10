//! How every way through a model is explored.

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::{Mutex, PoisonError};

use stateright::{Checker, HasDiscoveries, Model, Property};

use super::contest::{properties, tolerates};
use super::findings::Witness;
use super::mutant::Mutant;
use super::queues::World;
use super::setup::{Fault, Setup};
use super::step::Step;

/// What must hold, in words.
pub(crate) type Rule = &'static str;

/// A world, what may still go wrong in it, and the first rule that a step has broken.
#[derive(Clone, Debug, PartialEq, Hash)]
pub(crate) struct State {
    world: World,
    faults: Vec<Fault>,
    broken: Option<Rule>,
}

impl State {
    /// The world of this setup at its begin.
    pub(crate) fn new(setup: &Setup) -> Self {
        Self { world: World::new(setup), faults: setup.faults.clone(), broken: None }
    }

    /// Whether this may still go wrong.
    fn may(&self, fault: Fault) -> bool {
        self.faults.contains(&fault)
    }
}

impl Deref for State {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

/// One step under way.
pub(crate) struct Run<'a> {
    pub(crate) world: &'a mut World,
    faults: &'a mut Vec<Fault>,
    broken: &'a mut Option<Rule>,
    pub(crate) setup: &'a Setup,
    pub(crate) witness: &'a dyn Fn(Witness),
}

impl Run<'_> {
    /// This has happened, if that is so.
    pub(crate) fn note(&self, witness: Witness, happened: bool) {
        if happened {
            (self.witness)(witness);
        }
    }

    /// The step breaks this rule.
    pub(crate) fn breach(&mut self, rule: Rule) {
        self.broken.get_or_insert(rule);
    }

    /// The step breaks this rule if that is so.
    pub(crate) fn forbid(&mut self, rule: Rule, happens: bool) {
        if happens {
            self.breach(rule);
        }
    }

    /// This goes wrong once less from here on.
    pub(crate) fn spend(&mut self, fault: Fault) {
        let first = self.faults.iter().position(|it| *it == fault).expect("it may happen");
        self.faults.remove(first);
    }
}

/// Everything that can happen next.
pub(crate) fn next(setup: &Setup, at: &State) -> Vec<Step> {
    let mut steps = Vec::new();
    setup.steps(at, &mut steps);
    steps.retain(|step| step.fault(at).is_none_or(|fault| at.may(fault)));
    steps
}

/// Takes one step.
pub(crate) fn take(setup: &Setup, at: &mut State, step: Step, witness: &dyn Fn(Witness)) {
    let fault = step.fault(at);
    let State { world, faults, broken } = at;
    let mut run = Run { world, faults, broken, setup, witness };
    if let Some(fault) = fault {
        run.spend(fault);
    }
    run.take(step);
}

/// A setup that is being explored.
pub(crate) struct Contest {
    pub(crate) setup: Setup,
    /// The only rule that counts, if there is one.
    rule: Option<Rule>,
    /// Whether a world goes on though a step has broken a rule, because only a rule of states counts.
    lenient: bool,
    witnessed: Mutex<HashSet<Witness>>,
}

/// Of what single steps do.
const STEPS: Rule = "no step breaks a rule";

impl Model for Contest {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![self.setup.first()]
    }

    fn actions(&self, at: &State, steps: &mut Vec<Step>) {
        if self.breach(at).is_none() {
            steps.extend(next(&self.setup, at));
        }
    }

    fn next_state(&self, at: &State, step: Step) -> Option<State> {
        let mut at = at.clone();
        take(&self.setup, &mut at, step, &|witness| {
            self.witnessed.lock().unwrap_or_else(PoisonError::into_inner).insert(witness);
        });
        Some(at)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let steps = Self::always(STEPS, |contest, at| {
            let counts = |rule| contest.rule.is_none_or(|only| only == rule);
            !contest.breach(at).is_some_and(counts)
        });
        properties(&self.setup).into_iter().chain([steps]).collect()
    }
}

impl Contest {
    fn new(setup: Setup) -> Self {
        Self { setup, rule: None, lenient: false, witnessed: Mutex::default() }
    }

    /// What must hold in every state.
    pub(crate) fn always(name: Rule, rule: fn(&Self, &State) -> bool) -> Property<Self> {
        Property::always(name, rule)
    }

    /// What must be so in some state.
    pub(crate) fn sometimes(name: Rule, rule: fn(&Self, &State) -> bool) -> Property<Self> {
        Property::sometimes(name, rule)
    }

    /// The rule that the last step has broken. Nothing follows then.
    fn breach(&self, at: &State) -> Option<Rule> {
        at.broken.filter(|rule| !self.lenient && !tolerates(&self.setup, rule))
    }

    /// Whether something is under way, or a rule is broken, so that nothing follows.
    pub(crate) fn goes_on(&self, at: &State) -> bool {
        self.goes_on_without(at, |_| false)
    }

    /// As that, apart from these steps.
    pub(crate) fn goes_on_without(&self, at: &State, apart: fn(Step) -> bool) -> bool {
        let waits = |step: Step| step.fault(at).is_some() || step.is_voluntary(at) || apart(step);
        self.breach(at).is_some() || !next(&self.setup, at).into_iter().all(waits)
    }
}

/// Explores all of it: the rules hold, everything listed has happened, and there are this many states.
pub(crate) fn explore(setup: Setup, states: usize, occurrences: &[Witness]) {
    let checker = Contest::new(setup).checker().spawn_bfs().join();
    checker.assert_properties();
    let witnessed = checker.model().witnessed.lock().unwrap_or_else(PoisonError::into_inner);
    let missing = occurrences.iter().filter(|witness| !witnessed.contains(witness));
    assert_eq!(missing.collect::<Vec<_>>(), [] as [&Witness; 0], "never happened");
    assert_eq!(checker.unique_state_count(), states);
}

/// Tests. Each has a name, and one model or more: its setup, how many states it has, and what must have happened in it.
macro_rules! explored {
    ($($(#[$meta:meta])* $name:ident: $($setup:expr, $states:literal, [$($witness:ident),*]),+;)*) => {$(
        $(#[$meta])*
        #[test]
        fn $name() {
            $($crate::model::exploration::explore($setup, $states, &[$($witness),*]);)+
        }
    )*};
}

pub(crate) use explored;

/// Explores until `rule` is broken, as it must be.
pub(crate) fn refute(setup: Setup, rule: Rule) {
    let lenient = properties(&setup).iter().any(|property| property.name == rule);
    let contest = Contest { rule: Some(rule), lenient, ..Contest::new(setup) };
    let property = if lenient { rule } else { STEPS };
    let checker = contest.checker().finish_when(HasDiscoveries::AnyOf([property].into())).spawn_bfs().join();
    checker.assert_any_discovery(property);
}

/// Has each of these mutants break its rule, as it must in its setup.
pub(crate) fn refute_each<const N: usize>(mutants: [(Mutant, Setup, Rule); N]) {
    for (mutant, setup, rule) in mutants {
        println!("{mutant:?}: {rule}");
        refute(Setup { mutant: Some(mutant), ..setup }, rule);
    }
}
