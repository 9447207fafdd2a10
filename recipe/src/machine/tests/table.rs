//! What every contender does that waits with a takeover delay, and the check that it does nothing else.

use super::*;

/// What follows an event: the next state, and the command.
pub(super) type Next = (MachineState, Option<Command>);

/// One row: in this state, on this event, this follows.
pub(super) type Row = (MachineState, Event, Next);

/// Each state, with the events that lead there.
pub(super) type Path = (MachineState, Vec<Event>);

/// A contender, and those among whom it may be.
pub(super) struct Scene {
    pub(super) own: Own,
    /// The children that show who is beside it, if some can be.
    pub(super) beside: Option<Vec<String>>,
    /// Behind whom it may be, and the children that show that.
    pub(super) behind: Vec<(Ahead, Vec<String>)>,
    /// How it waits for one of these, if it has come so.
    pub(super) waits: fn(Ahead, Arrival) -> MachineState,
    /// Its other listings, and its states that no other contender has.
    pub(super) peculiar: (Vec<Vec<String>>, Vec<Path>),
    /// What only it does.
    pub(super) rows: Vec<Row>,
}

/// The machine enters the state. Its command is the request that is out from then on, or what the caller is given.
pub(super) fn to(state: MachineState) -> Next {
    let command = match &state {
        Entering => C::Together(T::Enter),
        CreatingDirectory => C::Together(T::CreateDirectory),
        Recovering | RecoveringInVain => C::Alone(A::Find),
        Looking(..) | Succeeding(_) => C::Alone(A::List),
        Watching(own, ahead, _) => C::Alone(A::WatchPredecessor(ahead.nearest, *own)),
        Delaying(_) => C::Alone(A::Delay),
        Confirming(..) => C::Together(T::Confirm),
        Held(own, _) => C::Grant(*own, Term::FIRST),
        WatchingOwn(own, _) => C::Alone(A::WatchOwn(*own)),
        Reviewing(_) => C::Alone(A::Review),
        Lost(_) => C::Lose(Breach::Touched),
        Releasing(own) => C::Alone(A::Release(*own)),
        ReleaseUnknown(own) | LeaveUnknown(own, _) => C::Alone(A::Recover(*own)),
        Leaving(own, _) => C::Alone(A::Delete(*own)),
        Idle | Admitted(_) | Waiting(..) | HeldWatched(..) | EnteringInVain | Ended => return (state, None),
    };
    (state, Some(command))
}

pub(super) fn end(end: End) -> Next {
    (Ended, Some(C::End(end)))
}

impl Scene {
    fn entered(&self, sight: Sight) -> Event {
        E::Entered { own: self.own, sight }
    }

    fn alone(&self) -> Vec<String> {
        names(&[QueuePlace::exclusive(9), self.own.place])
    }

    /// The children that it may see, and what follows if it has come so.
    pub(super) fn placed(&self, arrival: Arrival) -> Vec<(Vec<String>, Next)> {
        let own = self.own;
        // Whoever has waited may have seen a holder vanish.
        let first = if arrival == New { Confirming(own, Seen) } else { Delaying(own) };
        let place = |kind| QueuePlace { kind, ..own.place };
        let another = Kind::ALL.map(place).into_iter().find(|place| *place != own.place);
        let mut placed =
            vec![(self.alone(), to(first)), (names(&[LOWEST, another.unwrap()]), end(End::NodeDeleted))];
        // The readers beside it may hold the lock, or wait for the delay. Nothing shows which.
        placed.extend(self.beside.clone().map(|children| (children, to(Delaying(own)))));
        let watching = |ahead: &Ahead| to(Watching(own, ahead.clone(), arrival));
        placed.extend(self.behind.iter().map(|(ahead, children)| (children.clone(), watching(ahead))));
        placed
    }

    pub(super) fn paths(&self) -> Vec<Path> {
        let own = self.own;
        let begin = vec![E::Begin];
        let from = |sight| after(&begin, &[self.entered(sight)]);
        let first = from(Sight::Count(1));
        let unseen = from(Sight::Nothing);
        let held = after(&first, &[E::Confirmed(Term::FIRST)]);
        let guarded = after(&held, &[E::Settled, E::OwnWatched(true)]);
        let mut paths = vec![
            (Idle, vec![]),
            (Entering, begin.clone()),
            (CreatingDirectory, after(&begin, &[E::NoDirectory])),
            (Recovering, after(&begin, &[E::Unanswered])),
            (Looking(own, New, vec![]), from(Sight::Count(2))),
            (Looking(own, Queued, vec![]), unseen.clone()),
            (Delaying(own), after(&unseen, &[E::Listed(self.alone())])),
            (Confirming(own, Seen), first),
            (Held(own, Seen), held.clone()),
            (WatchingOwn(own, Seen), after(&held, &[E::Settled])),
            (HeldWatched(own, Seen), guarded.clone()),
            (Lost(own), after(&guarded, &[E::OwnTouched])),
            (Releasing(own), after(&held, &[E::Release])),
            (ReleaseUnknown(own), after(&held, &[E::Release, E::Unanswered])),
            (EnteringInVain, after(&begin, &[E::GiveUp])),
            (RecoveringInVain, after(&begin, &[E::Unanswered, E::GiveUp])),
            (Leaving(own, End::GivenUp), after(&unseen, &[E::GiveUp])),
            (Leaving(own, End::Refused(REFUSAL)), after(&unseen, &[E::Refused(REFUSAL)])),
            (LeaveUnknown(own, End::GivenUp), after(&unseen, &[E::GiveUp, E::Unanswered])),
            (LeaveUnknown(own, End::Refused(REFUSAL)), after(&unseen, &[E::Refused(REFUSAL), E::Unanswered])),
            (Ended, vec![E::GiveUp]),
        ];
        for (ahead, children) in &self.behind {
            let watching = from(Sight::Children(children.clone()));
            if ahead.nearest.kind == Kind::Exclusive && ahead.others != Others::All(vec![]) {
                let released = [E::PredecessorWatched(true), E::PredecessorReleased];
                paths.push((Succeeding(own), after(&watching, &released)));
            }
            for (arrival, path) in [(New, watching.clone()), (Queued, after(&watching, &[E::Unanswered]))] {
                let waiting = (self.waits)(ahead.clone(), arrival);
                if !paths.iter().any(|(state, _)| *state == waiting) {
                    paths.push((waiting, after(&path, &[E::PredecessorWatched(true)])));
                }
                paths.push((Watching(own, ahead.clone(), arrival), path));
            }
        }
        paths.extend(self.peculiar.1.clone());
        paths
    }

    fn sights(&self) -> Vec<Event> {
        let children = self.placed(New).into_iter().map(|(children, _)| Sight::Children(children));
        let others = [
            Sight::Count(1),
            Sight::Count(2),
            Sight::Count(3),
            Sight::Foreign(stranger()),
            Sight::Free,
            Sight::Nothing,
        ];
        children.chain(others).map(|sight| self.entered(sight)).collect()
    }

    /// Each event, in each form that a machine can tell from the others.
    pub(super) fn events(&self) -> Vec<Event> {
        let mut events = vec![
            E::Begin,
            E::NoDirectory,
            E::DirectoryReady,
            E::Withheld,
            E::Recovered(Some(self.own)),
            E::Recovered(None),
            E::Foreign(stranger()),
            E::PredecessorWatched(true),
            E::PredecessorWatched(false),
            E::Delayed,
            E::Confirmed(Term::FIRST),
            E::Deleted,
            E::Released(true),
            E::Released(false),
            E::OwnWatched(true),
            E::OwnWatched(false),
            E::Refused(REFUSAL),
            E::Unanswered,
            E::PredecessorReleased,
            E::PredecessorDeleted,
            E::WatchLost,
            E::OwnTouched,
            E::OwnWritten,
            E::Aged,
            E::Settled,
            E::Release,
            E::GiveUp,
            E::Forfeit,
        ];
        events.extend([SessionEnd::Expired, SessionEnd::Closed].map(E::SessionOver));
        events.extend(self.sights());
        let listings = self.placed(New).into_iter().map(|(children, _)| children);
        events.extend(listings.clone().map(E::ListedAfterRelease));
        events.extend(listings.chain(self.peculiar.0.clone()).map(E::Listed));
        events
    }

    /// All that it ever does.
    fn all_rows(&self) -> Vec<Row> {
        let own = self.own;
        let states = self.paths().into_iter().map(|(state, _)| state).collect::<Vec<_>>();
        let those =
            |are: fn(&MachineState) -> bool| states.iter().filter(|it| are(it)).cloned().collect::<Vec<_>>();
        let living = those(|state| *state != Ended);
        let looking = those(|state| matches!(state, Looking(..) | Succeeding(_)));
        let watching = those(|state| matches!(state, Watching(..)));
        let waiting = those(|state| matches!(state, Waiting(..) | Delaying(_)));
        let holding = vec![Held(own, Seen), WatchingOwn(own, Seen), HeldWatched(own, Seen)];
        let confirming = vec![Confirming(own, Seen)];
        let asking = [looking.clone(), watching.clone()].concat();
        let leaving = |end: End| to(Leaving(own, end));
        let given_up = || leaving(End::GivenUp);
        let foreign = || End::Foreign(stranger());
        let refused = || End::Refused(REFUSAL);

        // In each of these states, on each of these events, the same follows.
        let mut groups = vec![
            (vec![Idle], vec![E::Begin], to(Entering)),
            (vec![Idle], vec![E::GiveUp], end(End::GivenUp)),
            (vec![Entering], vec![E::NoDirectory], to(CreatingDirectory)),
            (vec![CreatingDirectory], vec![E::DirectoryReady], to(Entering)),
            (vec![CreatingDirectory], vec![E::Unanswered], to(CreatingDirectory)),
            //
            (vec![Entering], vec![self.entered(Sight::Count(1))], to(Confirming(own, Seen))),
            (vec![Entering], vec![self.entered(Sight::Count(2))], to(Looking(own, New, vec![]))),
            (vec![Entering], vec![self.entered(Sight::Nothing)], to(Looking(own, Queued, vec![]))),
            (vec![Entering], vec![self.entered(Sight::Foreign(stranger()))], leaving(foreign())),
            (vec![Entering], vec![E::Foreign(stranger())], end(foreign())),
            (vec![Entering], vec![E::Unanswered], to(Recovering)),
            (vec![Entering], vec![E::GiveUp], to(EnteringInVain)),
            (vec![CreatingDirectory], vec![E::GiveUp], end(End::GivenUp)),
            (vec![Entering, CreatingDirectory], vec![E::Withheld], end(End::GivenUp)),
            (vec![Entering, CreatingDirectory], vec![E::Refused(REFUSAL)], end(refused())),
            //
            (vec![Recovering], vec![E::Recovered(Some(own))], to(Looking(own, Queued, vec![]))),
            (vec![Recovering], vec![E::Recovered(None)], to(Entering)),
            (vec![Recovering], vec![E::Unanswered], to(Recovering)),
            (vec![Recovering], vec![E::GiveUp], (RecoveringInVain, None)),
            //
            (vec![EnteringInVain], self.sights(), given_up()),
            (vec![RecoveringInVain], vec![E::Recovered(Some(own))], given_up()),
            (vec![RecoveringInVain], vec![E::Recovered(None)], end(End::GivenUp)),
            (vec![EnteringInVain, RecoveringInVain], vec![E::Unanswered], to(RecoveringInVain)),
            (
                vec![EnteringInVain],
                vec![E::NoDirectory, E::Refused(REFUSAL), E::Foreign(stranger()), E::Withheld],
                end(End::GivenUp),
            ),
            //
            (looking.clone(), vec![E::NoDirectory], end(End::NodeDeleted)),
            (looking.clone(), vec![E::Unanswered], to(Looking(own, Queued, vec![]))),
            ([watching, confirming.clone()].concat(), vec![E::OwnTouched], end(End::NodeDeleted)),
            ([looking.clone(), confirming.clone()].concat(), vec![E::OwnWritten], leaving(End::Displaced)),
            (asking.clone(), vec![E::Foreign(stranger())], leaving(foreign())),
            ([asking.clone(), confirming.clone()].concat(), vec![E::Refused(REFUSAL)], leaving(refused())),
            ([asking, waiting].concat(), vec![E::GiveUp], given_up()),
            //
            (vec![Delaying(own)], vec![E::Delayed], to(Confirming(own, Seen))),
            (confirming.clone(), vec![E::Confirmed(Term::FIRST)], to(Held(own, Seen))),
            (confirming.clone(), vec![E::Unanswered, E::Withheld], to(Confirming(own, Seen))),
            (confirming, vec![E::GiveUp], to(Releasing(own))),
            //
            (vec![Held(own, Seen)], vec![E::Aged, E::Settled], to(WatchingOwn(own, Seen))),
            (
                vec![WatchingOwn(own, Seen)],
                vec![E::OwnWatched(true), E::Refused(REFUSAL)],
                to(HeldWatched(own, Seen)),
            ),
            (vec![WatchingOwn(own, Seen)], vec![E::OwnWatched(false)], to(Lost(own))),
            (vec![WatchingOwn(own, Seen)], vec![E::Unanswered], to(WatchingOwn(own, Seen))),
            (holding.clone(), vec![E::OwnTouched], to(Lost(own))),
            (vec![HeldWatched(own, Seen)], vec![E::WatchLost], to(WatchingOwn(own, Seen))),
            (holding.clone(), vec![E::Release, E::GiveUp], to(Releasing(own))),
            (holding, vec![E::Forfeit], given_up()),
            (
                vec![Lost(own)],
                vec![E::Release, E::GiveUp, E::Forfeit],
                to(LeaveUnknown(own, End::NodeDeleted)),
            ),
            //
            (vec![Releasing(own)], vec![E::Released(true)], end(End::Released)),
            (vec![Releasing(own)], vec![E::Released(false)], end(End::NodeDeleted)),
            // It had no effect because of another member, so we do it alone.
            (vec![Releasing(own)], vec![E::Withheld], to(Releasing(own))),
            (vec![Releasing(own)], vec![E::Refused(REFUSAL)], leaving(End::Released)),
            (vec![Releasing(own), ReleaseUnknown(own)], vec![E::Unanswered], to(ReleaseUnknown(own))),
            (vec![ReleaseUnknown(own)], vec![E::Recovered(Some(own))], to(Releasing(own))),
            (vec![ReleaseUnknown(own)], vec![E::Recovered(None)], end(End::Released)),
        ];
        for cause in [End::GivenUp, End::Refused(REFUSAL)] {
            let left = Leaving(own, cause.clone());
            let unknown = LeaveUnknown(own, cause.clone());
            groups.extend([
                (vec![left.clone()], vec![E::Deleted], end(cause.clone())),
                (vec![left.clone()], vec![E::Refused(REFUSAL)], end(refused())),
                (vec![left.clone(), unknown.clone()], vec![E::Unanswered], to(unknown.clone())),
                (vec![unknown.clone()], vec![E::Recovered(Some(own))], to(left)),
                (vec![unknown], vec![E::Recovered(None)], end(cause)),
            ]);
        }
        for (children, next) in self.placed(New) {
            groups.push((vec![Entering], vec![self.entered(Sight::Children(children))], next));
        }
        groups.push((vec![Entering], vec![self.entered(Sight::Free)], to(Confirming(own, Seen))));
        for (children, next) in self.placed(Queued) {
            // Whoever went before that release went before its holder was first.
            let is_alone = children == self.alone();
            let confirms = || to(Confirming(own, Seen));
            let is_free = is_alone || Some(&children) == self.beside.as_ref();
            for state in &looking {
                let listed = E::ListedAfterRelease(children.clone());
                match state {
                    Succeeding(_) => {
                        let next = if is_free { confirms() } else { next.clone() };
                        let both = vec![listed, E::Listed(children.clone())];
                        groups.push((vec![state.clone()], both, next));
                    }
                    _ => {
                        let next = if is_alone { confirms() } else { next.clone() };
                        groups.push((vec![state.clone()], vec![listed], next));
                    }
                }
            }
        }
        for arrival in [New, Queued] {
            for (children, next) in self.placed(arrival) {
                groups.push((vec![Looking(own, arrival, vec![])], vec![E::Listed(children)], next));
            }
            for (ahead, _) in &self.behind {
                let watching = Watching(own, ahead.clone(), arrival);
                let waiting = (self.waits)(ahead.clone(), arrival);
                let again = to(Watching(own, ahead.clone(), Queued));
                groups.push((vec![watching.clone()], vec![E::PredecessorWatched(true)], to(waiting)));
                groups.push((vec![watching], vec![E::Unanswered], again));
            }
        }
        for state in &living {
            match state {
                Waiting(_, ahead, _) => {
                    // Somebody may have deleted its node meanwhile, so it lists after the end of an exclusive predecessor.
                    let lists = (own.place.kind, ahead.nearest.kind) == (Kind::Exclusive, Kind::Exclusive);
                    let ahead = if lists { next(ahead.nearest) } else { ahead.clone() };
                    let again = to(Watching(own, ahead, Queued));
                    groups.push((vec![state.clone()], vec![E::WatchLost], again));
                }
                Recovering | RecoveringInVain | ReleaseUnknown(_) | LeaveUnknown(..) => {
                    let given_up = (state.clone(), Some(C::EndSession(REFUSAL)));
                    groups.push((vec![state.clone()], vec![E::Refused(REFUSAL)], given_up));
                }
                _ => {}
            }
        }
        for over in [SessionEnd::Expired, SessionEnd::Closed] {
            groups.push((living.clone(), vec![E::SessionOver(over)], end(End::SessionOver(over))));
        }

        let mut rows = self.rows.clone();
        for (states, events, next) in groups {
            for state in states {
                rows.extend(events.iter().map(|on| (state.clone(), on.clone(), next.clone())));
            }
        }
        rows
    }

    /// Each path leads to its state. From there each event does what its row says, or nothing if it has none.
    pub(super) fn check(&self) {
        let events = self.events();
        let rows = self.all_rows();
        let mut used = 0;
        for (state, path) in self.paths() {
            let (reached, _) = run(Patience::Wait, &path);
            assert_eq!(reached.state, state);
            let is_known = !matches!(
                state,
                Idle | Entering | CreatingDirectory | Recovering | EnteringInVain | RecoveringInVain | Ended
            );
            let known = (reached.own(), reached.is_ended());
            assert_eq!(known, (is_known.then_some(self.own), state == Ended), "{state:?}");
            for event in &events {
                let mut machine = reached.clone();
                let command = machine.handle(event.clone());
                let row = rows.iter().find(|(from, on, _)| (from, on) == (&state, event));
                used += row.iter().count();
                let nothing = (state.clone(), None);
                let next = row.map_or(&nothing, |(.., next)| next);
                assert_eq!(&(machine.state, command), next, "{state:?} on {event:?}");
            }
        }
        assert_eq!(used, rows.len(), "a row twice, or one for a state or event that is not listed");
    }
}
