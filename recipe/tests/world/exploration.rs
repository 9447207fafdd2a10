//! How every way through a model is explored: the same for all models of this crate.

use std::{
    collections::HashSet,
    fmt::Debug,
    hash::Hash,
    sync::{Mutex, PoisonError},
};

use stateright::{Checker, HasDiscoveries, Model, Property};

/// What must hold, in words.
pub(crate) type Rule = &'static str;

/// Who takes part in a model, and what may go wrong. All the rest follows from it.
pub(crate) trait Setup: Send + Sync + Sized + 'static {
    type World: Clone + Debug + Hash + PartialEq + Send + Sync + 'static;
    type Step: Copy + Debug + PartialEq;
    /// What has happened in some state: so that a rule which holds also had occasion to fail.
    type Witness: Copy + Debug + Eq + Hash + Send;

    fn first(&self) -> Self::World;

    /// Everything that can happen next.
    fn steps(&self, world: &Self::World, steps: &mut Vec<Self::Step>);

    /// Whether the world goes on by itself without this step.
    fn is_voluntary(world: &Self::World, step: Self::Step) -> bool;

    fn take(run: &mut Run<'_, Self>, step: Self::Step);

    /// The rule that the last step has broken. Nothing follows then.
    fn broken(_: &Self::World) -> Option<Rule> {
        None
    }

    /// What must hold in every state, beside what steps break, and what must be so in some.
    fn properties(&self) -> Vec<Property<Contest<Self>>>;
}

/// One step under way.
pub(crate) struct Run<'a, S: Setup> {
    pub(crate) world: &'a mut S::World,
    pub(crate) setup: &'a S,
    pub(crate) witness: &'a dyn Fn(S::Witness),
}

/// A setup that is being explored.
pub(crate) struct Contest<S: Setup> {
    pub(crate) setup: S,
    /// The only rule that counts, if there is one.
    rule: Option<Rule>,
    witnessed: Mutex<HashSet<S::Witness>>,
}

/// Of what single steps do.
const STEPS: Rule = "no step breaks a rule";

impl<S: Setup> Model for Contest<S> {
    type State = S::World;
    type Action = S::Step;

    fn init_states(&self) -> Vec<S::World> {
        vec![self.setup.first()]
    }

    fn actions(&self, world: &S::World, steps: &mut Vec<S::Step>) {
        if S::broken(world).is_none() {
            self.setup.steps(world, steps);
        }
    }

    fn next_state(&self, world: &S::World, step: S::Step) -> Option<S::World> {
        let mut world = world.clone();
        let witness = |witness| {
            self.witnessed.lock().unwrap_or_else(PoisonError::into_inner).insert(witness);
        };
        S::take(&mut Run { world: &mut world, setup: &self.setup, witness: &witness }, step);
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let steps = Self::always(STEPS, |contest, world| {
            let counts = |rule| contest.rule.is_none_or(|only| only == rule);
            !S::broken(world).is_some_and(counts)
        });
        self.setup.properties().into_iter().chain([steps]).collect()
    }
}

impl<S: Setup> Contest<S> {
    pub(crate) fn new(setup: S) -> Self {
        Self { setup, rule: None, witnessed: Mutex::default() }
    }

    /// What must hold in every state.
    pub(crate) fn always(name: Rule, rule: fn(&Self, &S::World) -> bool) -> Property<Self> {
        Property::always(name, rule)
    }

    /// What must be so in some state.
    pub(crate) fn sometimes(name: Rule, rule: fn(&Self, &S::World) -> bool) -> Property<Self> {
        Property::sometimes(name, rule)
    }

    /// Whether something is under way, or a rule is broken, so that nothing follows.
    pub(crate) fn goes_on(&self, world: &S::World) -> bool {
        let mut steps = Vec::new();
        self.setup.steps(world, &mut steps);
        S::broken(world).is_some() || !steps.into_iter().all(|step| S::is_voluntary(world, step))
    }
}

/// Those of these steps that can be taken.
pub(crate) fn possible<S, const N: usize>(steps: [(bool, S); N]) -> impl Iterator<Item = S> {
    steps.into_iter().filter(|(is_possible, _)| *is_possible).map(|(_, step)| step)
}

/// Explores all of it: the rules hold, everything listed has happened, and there are this many states.
pub(crate) fn explore<S: Setup>(setup: S, states: usize, occurrences: &[S::Witness]) {
    let checker = Contest::new(setup).checker().spawn_bfs().join();
    checker.assert_properties();
    let witnessed = checker.model().witnessed.lock().unwrap_or_else(PoisonError::into_inner);
    let missing = occurrences.iter().filter(|witness| !witnessed.contains(witness));
    assert_eq!(missing.collect::<Vec<_>>(), [] as [&S::Witness; 0], "never happened");
    assert_eq!(checker.unique_state_count(), states);
}

/// Explores until `rule` is broken, as it must be.
pub(crate) fn refute<S: Setup>(setup: S, rule: Rule) {
    let contest = Contest { rule: Some(rule), ..Contest::new(setup) };
    let of_states = contest.setup.properties().iter().any(|property| property.name == rule);
    let property = if of_states { rule } else { STEPS };
    let checker = contest.checker().finish_when(HasDiscoveries::AnyOf([property].into())).spawn_bfs().join();
    checker.assert_any_discovery(property);
}
