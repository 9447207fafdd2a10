//! What must hold in every state of the model.

use stateright::Property;

use super::candidate::Candidate;
use super::office::{Announcement, World};
use super::run::Step;
use super::setup::{Breach, Setup, Witness};
use crate::world::exploration;

pub(crate) const SOUND: &str = "only leaders announce themselves, one at a time";
pub(crate) const OWN: &str = "nobody takes another's announcement along";
pub(crate) const FORWARD: &str = "the tokens that the observer is told never go back";
pub(crate) const GENUINE: &str = "what the observer is told was announced by that leader";
pub(crate) const TRUE: &str = "an observer with a connection has been told the truth in the end";
pub(crate) const CLEAN: &str = "no announcement is left without a leader";
pub(crate) const HONEST: &str = "a leader is told of no announcement that was not made";
pub(crate) const STUCK: &str = "nobody is stuck";
pub(crate) const SHOWN: &str = "a leader is announced in the end";

type Contest = exploration::Contest<Setup>;

impl exploration::Setup for Setup {
    type World = World;
    type Step = Step;
    type Witness = Witness;

    fn first(&self) -> World {
        World::new(self)
    }

    fn steps(&self, world: &World, steps: &mut Vec<Step>) {
        if world.breach.is_none() {
            world.steps(steps);
        }
    }

    fn take(&self, world: &mut World, step: Step, witness: &impl Fn(Witness)) {
        world.take(step, self, witness);
    }

    fn properties(&self) -> Vec<Property<Contest>> {
        vec![
            Contest::always(SOUND, |_, world| {
                !matches!(world.breach, Some(Breach::AnnouncedWithoutLeading | Breach::TwoLeaders))
            }),
            Contest::always(OWN, |_, world| world.breach != Some(Breach::TookAnothersAnnouncement)),
            Contest::always(HONEST, |_, world| world.breach != Some(Breach::ToldTooEarly)),
            Contest::always(FORWARD, |_, world| world.breach != Some(Breach::ToldALowerToken)),
            Contest::always(GENUINE, |_, world| world.breach != Some(Breach::ToldAForgery)),
            Contest::always(TRUE, |_, world| {
                let truth = world.announcement().and_then(Announcement::read).map(|(_, told)| told);
                world.onlooker.as_ref().is_none_or(|it| it.told == Some(truth)) || goes_on(world)
            }),
            Contest::always(CLEAN, |_, world| {
                let maker = world.announcement().and_then(|found| found.maker);
                maker.is_none_or(|maker| world.node(maker).is_some()) || goes_on(world)
            }),
            Contest::always(SHOWN, |_, world| {
                let mut leaders =
                    world.candidates.iter().enumerate().filter(|(_, candidate)| candidate.leads());
                let shown = leaders.all(|(party, leader)| {
                    let wanted = (Some(party), leader.proclaimed, 0);
                    world.announcement().is_some_and(|it| (it.maker, it.told.1, it.version) == wanted)
                });
                shown || goes_on(world)
            }),
            Contest::always(STUCK, |_, world| {
                world.candidates.iter().all(Candidate::is_at_rest) || goes_on(world)
            }),
            Contest::sometimes("a leader is announced", |_, world| !world.announced.is_empty()),
        ]
    }
}

/// Whether something is under way, or a rule is broken, so that nothing follows.
fn goes_on(world: &World) -> bool {
    world.breach.is_some() || !world.is_quiet()
}
