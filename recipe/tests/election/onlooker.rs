//! An observer with the production machine, at a server that lags behind the leader.

use zklock_recipe::{Footing, Instruction, Observation, Observer};

use crate::run::Run;
use crate::world::{Announcement, Breach, Change, Mutant, Told, Witness};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Onlooker {
    machine: Observer<Told>,
    pub(crate) is_there: bool,
    pub(crate) disconnected: bool,
    /// What its server has not heard of yet.
    pub(crate) pending: Vec<Change>,
    /// What its server has heard of last, for a server that has not. A rewind goes back by two changes: from one leader's
    /// announcement to the one before.
    pub(crate) last: Vec<Change>,
    /// The announcement, as its server has it.
    pub(crate) seen: Option<Announcement>,
    /// Its watch stands on its server.
    watches: bool,
    pub(crate) up: Vec<Ask>,
    pub(crate) down: Vec<Word>,
    /// What it was told last; `None` if nothing yet.
    pub(crate) told: Option<Option<Told>>,
    highest: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ask {
    Watch,
    Read,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Word {
    Read(Option<Announcement>),
    Changed(Option<i64>),
}

impl Onlooker {
    pub(crate) fn new() -> Self {
        let mut machine = Observer::new();
        machine.handle(Observation::Connected);
        Self {
            machine,
            is_there: true,
            disconnected: false,
            pending: Vec::new(),
            last: Vec::new(),
            seen: None,
            watches: false,
            up: vec![Ask::Watch, Ask::Read],
            down: Vec::new(),
            told: None,
            highest: 0,
        }
    }

    /// A model without an observer.
    pub(crate) fn nobody() -> Self {
        Self { is_there: false, up: Vec::new(), ..Self::new() }
    }

    pub(crate) fn swap_first(mut self) -> Self {
        self.up.reverse();
        self
    }
}

impl<W: Fn(Witness)> Run<'_, W> {
    /// Its server hears of the next transaction.
    pub(crate) fn replicate(&mut self) {
        let named = self.setup.named;
        let onlooker = &mut self.world.onlooker;
        let change = onlooker.pending.remove(0);
        onlooker.seen = change.after;
        if onlooker.watches && !onlooker.disconnected {
            let event = Word::Changed(named.then_some(change.zxid));
            onlooker.down.extend(std::iter::repeat_n(event, change.events.into()));
        }
        if self.setup.faults.rewinds > 0 {
            onlooker.last.push(change);
            let forgotten = onlooker.last.len().saturating_sub(2);
            onlooker.last.drain(..forgotten);
        }
    }

    /// Its server answers its next request.
    pub(crate) fn answer(&mut self) {
        let onlooker = &mut self.world.onlooker;
        match onlooker.up.remove(0) {
            Ask::Watch => onlooker.watches = true,
            Ask::Read => {
                if !onlooker.pending.is_empty() {
                    (self.witness)(Witness::ReadFromThePast);
                }
                onlooker.down.push(Word::Read(onlooker.seen));
            }
        }
    }

    /// It hears the message at this place: the first one, or the first event if that is behind answers.
    pub(crate) fn listen(&mut self, place: usize) {
        if place > 0 {
            (self.witness)(Witness::EventOvertookTheAnswer);
        }
        let takes_anything = self.setup.mutant == Some(Mutant::TakesAnythingForAnAnnouncement);
        let event = match self.world.onlooker.down.remove(place) {
            Word::Changed(zxid) => {
                let looking = !self.world.onlooker.machine.is_watching();
                if looking && self.setup.mutant == Some(Mutant::IgnoresChangesDuringALook) {
                    return;
                }
                Observation::Changed(zxid)
            }
            Word::Read(found) if takes_anything => Observation::Seen(found.map(Announcement::taken)),
            Word::Read(found) => Observation::Seen(found.and_then(Announcement::read)),
        };
        self.observe(event);
    }

    fn observe(&mut self, event: Observation<Told>) {
        let (changed, looking) =
            (matches!(event, Observation::Changed(_)), !self.world.onlooker.machine.is_watching());
        if self.setup.mutant == Some(Mutant::TakesALowerToken) && matches!(event, Observation::Seen(_)) {
            self.forget_the_highest();
        }
        let answered = matches!(event, Observation::Seen(_));
        let instructions = self.world.onlooker.machine.handle(event);
        if changed && looking && instructions.is_empty() {
            (self.witness)(Witness::Coalesced);
        }
        for instruction in instructions {
            match instruction {
                Instruction::Look(footing) => {
                    if answered {
                        (self.witness)(Witness::LookedAgain);
                    }
                    self.look(footing);
                }
                Instruction::Tell(told) => self.tell(told),
            }
        }
    }

    fn look(&mut self, footing: Footing) {
        let up = &mut self.world.onlooker.up;
        match (footing, self.setup.mutant) {
            (Footing::Unwatched, Some(Mutant::ReadsBeforeItWatches)) => up.extend([Ask::Read, Ask::Watch]),
            (Footing::Unwatched, Some(Mutant::ForgetsThatItsWatchIsLost)) => up.push(Ask::Read),
            (Footing::Unwatched, _) => up.extend([Ask::Watch, Ask::Read]),
            (Footing::Watched, _) => up.push(Ask::Read),
        }
    }

    fn tell(&mut self, told: Option<Told>) {
        let onlooker = &mut self.world.onlooker;
        let before = onlooker.told.replace(told);
        match (before, told) {
            (_, None) => (self.witness)(Witness::ToldNobody),
            (Some(Some(before)), Some(told)) if before.0 != told.0 => (self.witness)(Witness::ToldTheNext),
            (_, Some(_)) => (self.witness)(Witness::ToldSomebody),
        }
        let Some((token, value)) = told else { return };
        if token < onlooker.highest {
            self.world.breach(Breach::ToldALowerToken);
        }
        self.world.onlooker.highest = self.world.onlooker.highest.max(token);
        if !self.world.announced.contains(&(token, value)) {
            self.world.breach(Breach::ToldAForgery);
        }
    }

    /// As if the machine had been told nothing yet.
    fn forget_the_highest(&mut self) {
        let mut machine = Observer::new();
        machine.handle(Observation::Connected);
        self.world.onlooker.machine = machine;
    }

    /// Its connection or its session ends. Its requests and its watch go with it.
    pub(crate) fn cut(&mut self) {
        self.world.faults.outages -= 1;
        let onlooker = &mut self.world.onlooker;
        onlooker.disconnected = true;
        onlooker.watches = false;
        onlooker.up.clear();
        onlooker.down.clear();
        self.observe(Observation::Disconnected);
    }

    /// It has a connection again. A quorum write opens each connection, so its server has caught up, unless it has not.
    pub(crate) fn reconnect(&mut self, behind: bool) {
        if behind {
            (self.witness)(Witness::ServerBehindWasAsked);
            self.world.faults.rewinds -= 1;
            let onlooker = &mut self.world.onlooker;
            let mut unheard = std::mem::take(&mut onlooker.last);
            onlooker.seen = unheard.first().and_then(|change| change.before);
            unheard.append(&mut onlooker.pending);
            onlooker.pending = unheard;
        } else {
            while !self.world.onlooker.pending.is_empty() {
                self.replicate();
            }
        }
        self.world.onlooker.disconnected = false;
        self.observe(Observation::Connected);
    }
}
