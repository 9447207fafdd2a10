//! What must hold in every state of the model.

use stateright::Property;

use super::candidate::Candidate;
use super::office::Announcement;
use super::setup::Setup;
use crate::world::exploration::{self, Rule};

/// Nobody announces itself while another one's guard is valid.
pub(crate) const SOUND: Rule = "only leaders announce themselves, one at a time";
/// Neither when it gives up or resigns, nor by a deletion though it has read whose it is.
pub(crate) const OWN: Rule = "nobody takes another's announcement along";
pub(crate) const FORWARD: Rule = "the tokens that the observer is told never go back";
pub(crate) const GENUINE: Rule = "what the observer is told was announced by that leader";
pub(crate) const TRUE: Rule = "an observer with a connection has been told the truth in the end";
pub(crate) const CLEAN: Rule = "no announcement is left without a leader";
pub(crate) const HONEST: Rule = "a leader is told of no announcement that was not made";
pub(crate) const STUCK: Rule = "nobody is stuck";
pub(crate) const SHOWN: Rule = "a leader is announced in the end";

pub(crate) type Contest = exploration::Contest<Setup>;

pub(crate) fn properties() -> Vec<Property<Contest>> {
    vec![
        Contest::always(TRUE, |contest, world| {
            let truth = world.announcement().and_then(Announcement::read).map(|(_, told)| told);
            world.onlooker.as_ref().is_none_or(|it| it.told == Some(truth)) || contest.goes_on(world)
        }),
        Contest::always(CLEAN, |contest, world| {
            let maker = world.announcement().and_then(|found| found.maker);
            maker.is_none_or(|maker| world.node(maker).is_some()) || contest.goes_on(world)
        }),
        Contest::always(SHOWN, |contest, world| {
            let mut leaders = world.candidates.iter().enumerate().filter(|(_, candidate)| candidate.leads());
            let shown = leaders.all(|(party, leader)| {
                let wanted = (Some(party), leader.proclaimed, 0);
                world.announcement().is_some_and(|it| (it.maker, it.told.1, it.version) == wanted)
            });
            shown || contest.goes_on(world)
        }),
        Contest::always(STUCK, |contest, world| {
            world.candidates.iter().all(Candidate::is_at_rest) || contest.goes_on(world)
        }),
        Contest::sometimes("a leader is announced", |_, world| !world.announced.is_empty()),
    ]
}
