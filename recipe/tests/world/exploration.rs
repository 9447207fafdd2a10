//! How every way through a model is explored: the same for all models of this crate.

use std::{
    fmt::Debug,
    hash::Hash,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use stateright::{Checker, HasDiscoveries, Model, Property};

/// Who takes part in a model, and what may go wrong. All the rest follows from it.
pub(crate) trait Setup: Send + Sync + Sized + 'static {
    type World: Clone + Debug + Hash + PartialEq + Send + Sync + 'static;
    type Step: Copy + Debug + PartialEq;
    /// What has happened in some state: so that a rule which holds also had occasion to fail. There are 64 at most.
    type Witness: Copy + Debug + PartialEq + Into<u8>;

    fn first(&self) -> Self::World;

    /// Everything that can happen next.
    fn steps(&self, world: &Self::World, steps: &mut Vec<Self::Step>);

    fn take(&self, world: &mut Self::World, step: Self::Step, witness: &impl Fn(Self::Witness));

    /// What must hold in every state, and what must be so in some.
    fn properties(&self) -> Vec<Property<Contest<Self>>>;
}

/// A setup that is being explored.
pub(crate) struct Contest<S> {
    pub(crate) setup: S,
    witnessed: Arc<AtomicU64>,
}

impl<S: Setup> Model for Contest<S> {
    type State = S::World;
    type Action = S::Step;

    fn init_states(&self) -> Vec<S::World> {
        vec![self.setup.first()]
    }

    fn actions(&self, world: &S::World, steps: &mut Vec<S::Step>) {
        self.setup.steps(world, steps);
    }

    fn next_state(&self, world: &S::World, step: S::Step) -> Option<S::World> {
        let mut world = world.clone();
        self.setup.take(&mut world, step, &|witness: S::Witness| {
            self.witnessed.fetch_or(bit(witness), Ordering::Relaxed);
        });
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        self.setup.properties()
    }
}

fn bit(witness: impl Into<u8>) -> u64 {
    1 << witness.into()
}

impl<S: Setup> Contest<S> {
    pub(crate) fn new(setup: S) -> Self {
        Self { setup, witnessed: Arc::default() }
    }

    /// What must hold in every state.
    pub(crate) fn always(name: &'static str, rule: fn(&Self, &S::World) -> bool) -> Property<Self> {
        Property::always(name, rule)
    }

    /// What must be so in some state.
    pub(crate) fn sometimes(name: &'static str, rule: fn(&Self, &S::World) -> bool) -> Property<Self> {
        Property::sometimes(name, rule)
    }
}

/// Explores all of it: the rules hold, everything listed has happened, and there are this many states.
pub(crate) fn explore<S: Setup>(setup: S, states: usize, occurrences: &[S::Witness]) {
    let witnessed = Arc::new(AtomicU64::new(0));
    let checker = Contest { setup, witnessed: witnessed.clone() }.checker().spawn_bfs().join();
    checker.assert_properties();
    let witnessed = witnessed.load(Ordering::Relaxed);
    let missing = occurrences.iter().filter(|witness| witnessed & bit(**witness) == 0);
    assert_eq!(missing.collect::<Vec<_>>(), [] as [&S::Witness; 0], "never happened");
    assert_eq!(checker.unique_state_count(), states);
}

/// Explores until `property` fails, as it must.
pub(crate) fn refute<S: Setup>(setup: S, property: &'static str) {
    let checker = Contest::new(setup)
        .checker()
        .finish_when(HasDiscoveries::AnyOf([property].into()))
        .spawn_bfs()
        .join();
    checker.assert_any_discovery(property);
}
