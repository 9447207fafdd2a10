//! How every way through a model is explored: the same for all models of this crate.

use std::{
    collections::HashSet,
    fmt::Debug,
    hash::Hash,
    ops::Deref,
    sync::{Mutex, PoisonError},
};

use stateright::{Checker, HasDiscoveries, Model, Property};

/// What must hold, in words.
pub(crate) type Rule = &'static str;

/// Who takes part in a model, and what may go wrong. All the rest follows from it.
pub(crate) trait Setup: Send + Sync + Sized + 'static {
    type World: Clone + Debug + Hash + PartialEq + Send + Sync + 'static;
    type Step: Step<Self>;
    /// What may go wrong once.
    type Fault: Copy + Debug + Hash + PartialEq + Send + Sync + 'static;
    /// A rule that is broken on purpose.
    type Mutant: Debug + Copy;
    /// What has happened in some state: so that a rule which holds also had occasion to fail.
    type Witness: Copy + Debug + Eq + Hash + Send;

    fn first(&self) -> State<Self>;

    /// Everything that can happen next, if whatever goes wrong in it may.
    fn steps(&self, world: &State<Self>, steps: &mut Vec<Self::Step>);

    /// What follows from each step at once.
    fn settle(_: &mut Run<'_, Self>) {}

    /// Whether a step may break this rule here.
    fn tolerates(&self, _: Rule) -> bool {
        false
    }

    /// The same, with this mutant.
    fn mutated(self, mutant: Self::Mutant) -> Self;

    /// What must hold in every state, beside what steps break, and what must be so in some.
    fn properties(&self) -> Vec<Property<Contest<Self>>>;
}

/// One step of the model that this setup is of.
pub(crate) trait Step<S: Setup>: Copy + Debug + PartialEq {
    /// What goes wrong in it.
    fn fault(self, at: &State<S>) -> Option<S::Fault>;

    /// Whether the world goes on by itself without it, though nothing goes wrong in it.
    fn is_voluntary(self, at: &State<S>) -> bool;

    fn take(self, run: &mut Run<'_, S>);
}

/// A state of the model that this setup is of.
pub(crate) type State<S> = At<<S as Setup>::World, <S as Setup>::Fault>;

/// A world, what may still go wrong in it, and the first rule that a step has broken.
#[derive(Clone, Debug, PartialEq, Hash)]
pub(crate) struct At<W, F> {
    world: W,
    faults: Vec<F>,
    broken: Option<Rule>,
}

impl<W, F: Copy + PartialEq> At<W, F> {
    /// Each of these may go wrong, as often as it is named.
    pub(crate) fn new(world: W, faults: &[F]) -> Self {
        Self { world, faults: faults.to_vec(), broken: None }
    }

    /// Whether this may still go wrong.
    pub(crate) fn may(&self, fault: F) -> bool {
        self.faults.contains(&fault)
    }
}

impl<W, F> Deref for At<W, F> {
    type Target = W;

    fn deref(&self) -> &W {
        &self.world
    }
}

/// One step under way.
pub(crate) struct Run<'a, S: Setup> {
    pub(crate) world: &'a mut S::World,
    faults: &'a mut Vec<S::Fault>,
    broken: &'a mut Option<Rule>,
    pub(crate) setup: &'a S,
    pub(crate) witness: &'a dyn Fn(S::Witness),
}

impl<S: Setup> Run<'_, S> {
    /// This has happened, if that is so.
    pub(crate) fn note(&self, witness: S::Witness, happened: bool) {
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
    pub(crate) fn spend(&mut self, fault: S::Fault) {
        let first = self.faults.iter().position(|it| *it == fault).expect("it may happen");
        self.faults.remove(first);
    }
}

/// Everything that can happen next.
pub(crate) fn next<S: Setup>(setup: &S, at: &State<S>) -> Vec<S::Step> {
    let mut steps = Vec::new();
    setup.steps(at, &mut steps);
    steps.retain(|step| step.fault(at).is_none_or(|fault| at.may(fault)));
    steps
}

/// Takes one step.
pub(crate) fn take<S: Setup>(setup: &S, at: &mut State<S>, step: S::Step, witness: &dyn Fn(S::Witness)) {
    let fault = step.fault(at);
    let At { world, faults, broken } = at;
    let mut run = Run { world, faults, broken, setup, witness };
    fault.into_iter().for_each(|fault| run.spend(fault));
    step.take(&mut run);
    S::settle(&mut run);
}

/// A setup that is being explored.
pub(crate) struct Contest<S: Setup> {
    pub(crate) setup: S,
    /// The only rule that counts, if there is one.
    rule: Option<Rule>,
    /// Whether a world goes on though a step has broken a rule, because only a rule of states counts.
    lenient: bool,
    witnessed: Mutex<HashSet<S::Witness>>,
}

/// Of what single steps do.
const STEPS: Rule = "no step breaks a rule";

impl<S: Setup> Model for Contest<S> {
    type State = State<S>;
    type Action = S::Step;

    fn init_states(&self) -> Vec<State<S>> {
        vec![self.setup.first()]
    }

    fn actions(&self, at: &State<S>, steps: &mut Vec<S::Step>) {
        if self.breach(at).is_none() {
            steps.extend(next(&self.setup, at));
        }
    }

    fn next_state(&self, at: &State<S>, step: S::Step) -> Option<State<S>> {
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
        self.setup.properties().into_iter().chain([steps]).collect()
    }
}

impl<S: Setup> Contest<S> {
    pub(crate) fn new(setup: S) -> Self {
        Self { setup, rule: None, lenient: false, witnessed: Mutex::default() }
    }

    /// What must hold in every state.
    pub(crate) fn always(name: Rule, rule: fn(&Self, &State<S>) -> bool) -> Property<Self> {
        Property::always(name, rule)
    }

    /// What must be so in some state.
    pub(crate) fn sometimes(name: Rule, rule: fn(&Self, &State<S>) -> bool) -> Property<Self> {
        Property::sometimes(name, rule)
    }

    /// The rule that the last step has broken. Nothing follows then.
    fn breach(&self, at: &State<S>) -> Option<Rule> {
        at.broken.filter(|rule| !self.lenient && !self.setup.tolerates(rule))
    }

    /// Whether something is under way, or a rule is broken, so that nothing follows.
    pub(crate) fn goes_on(&self, at: &State<S>) -> bool {
        self.goes_on_without(at, |_| false)
    }

    /// As that, apart from these steps.
    pub(crate) fn goes_on_without(&self, at: &State<S>, apart: fn(S::Step) -> bool) -> bool {
        let waits = |step: S::Step| step.fault(at).is_some() || step.is_voluntary(at) || apart(step);
        self.breach(at).is_some() || !next(&self.setup, at).into_iter().all(waits)
    }
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

/// Tests. Each has a name, and one model or more: its setup, how many states it has, and what must have happened in it.
macro_rules! explored {
    ($($(#[$meta:meta])* $name:ident: $($setup:expr, $states:literal, [$($witness:ident),*]),+;)*) => {$(
        $(#[$meta])*
        #[test]
        fn $name() {
            $($crate::world::exploration::explore($setup, $states, &[$($witness),*]);)+
        }
    )*};
}

pub(crate) use explored;

/// Explores until `rule` is broken, as it must be.
pub(crate) fn refute<S: Setup>(setup: S, rule: Rule) {
    let lenient = setup.properties().iter().any(|property| property.name == rule);
    let contest = Contest { rule: Some(rule), lenient, ..Contest::new(setup) };
    let property = if lenient { rule } else { STEPS };
    let checker = contest.checker().finish_when(HasDiscoveries::AnyOf([property].into())).spawn_bfs().join();
    checker.assert_any_discovery(property);
}

/// Has each of these mutants break its rule, as it must in its setup.
pub(crate) fn refute_each<S: Setup, const N: usize>(mutants: [(S::Mutant, S, Rule); N]) {
    for (mutant, setup, rule) in mutants {
        println!("{mutant:?}: {rule}");
        refute(setup.mutated(mutant), rule);
    }
}
