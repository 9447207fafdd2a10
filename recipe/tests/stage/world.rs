//! Two processes with their tasks, ZooKeeper's queue, and a contender of another client.

use zklock_recipe::{Half, HoldNumber, Stage, Ticket};

/// A process, by its index in the world.
pub(crate) type Process = usize;

/// A task, by its index in the world.
pub(crate) type Party = usize;

/// What a model consists of, and what is broken on purpose.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// How many tasks each process has.
    pub(crate) tasks: Vec<usize>,
    /// How often each task wants the lock.
    pub(crate) comings: u8,
    /// How many of the tasks, the first ones, are late for ever: none takes an offer before the second look, and each takes
    /// it before half of the hold's time is over.
    pub(crate) late: usize,
    /// How often the remote contender wants it.
    pub(crate) remote: u8,
    pub(crate) budget: u32,
    /// Half of each hold's time is longer than two looks.
    pub(crate) is_long: bool,
    /// What may go wrong, each as often as it is named.
    pub(crate) faults: Vec<Fault>,
    pub(crate) mutant: Option<Mutant>,
}

impl Setup {
    pub(crate) fn half(&self) -> Half {
        let is_long = self.is_long && self.mutant != Some(Mutant::OpensWithoutTheAbsent);
        if is_long { Half::Long } else { Half::Short }
    }
}

/// What may go wrong once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fault {
    /// A task tries, and does not wait.
    Try,
    /// A task gives up.
    Departure,
    /// A task is passed over because it was not polled, beside those that are late for ever. As long as one may be, a
    /// woken task may be left unpolled.
    Absence,
    /// A lease lapses. It is renewed, or its session expires.
    Lapse,
    /// An operator deletes a node.
    Deletion,
    /// An acquisition fails.
    Failure,
    /// Time, or its lease, forbids to pass a hold on, or to hand it on.
    Refusal,
}

/// A rule that the stage, or the library around it, breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// Ends a turn after the hold was passed on.
    EndsTheTurnTooLate,
    /// Passes a hold on that was lost before.
    PassesALostHold,
    /// Takes each hold that is passed for the present one.
    IgnoresTheHoldNumber,
    IgnoresTheBudget,
    /// Passes a hold on though time or its lease forbids it.
    IgnoresTheRefusal,
    /// Counts the budget anew at each offer.
    CountsTheBudgetAnew,
    /// Takes the place of its last contender when it contends again.
    KeepsItsPlace,
    /// Never passes a hold on.
    NeverPassesOn,
    /// A task that gives up keeps what it was offered from the others.
    KeepsTheOffer,
    /// Does not look at the task that the hold is offered to.
    NeverLooks,
    /// Takes a task for absent at the first look.
    LooksOnce,
    /// Takes a task for absent though nobody else waits.
    PassesTheOnlyOneOver,
    /// Has no more patience with a late task when a hold begins than later.
    NeverWaitsForTheLate,
    /// Waits for a late task for as long as the hold's time goes.
    WaitsForTheLateForTooLong,
    /// A hold does not open with a task that is absent.
    OpensWithoutTheAbsent,
    /// A hold never opens again with a task that missed a half.
    NeverForgives,
    /// Hands an offer on after a look, though no time is left.
    HandsOnWithoutTime,
    /// Hands an offer on after a look, though the lease forbids it.
    HandsOnWithoutALease,
    /// A task that leaves hands an offer on, though no time is left.
    LeavesWithoutTime,
    /// A task that leaves hands an offer on, though the lease forbids it.
    LeavesWithoutALease,
    /// Does not contend again for those that wait when a hold is over.
    ForgetsToContendAgain,
    /// Leaves ZooKeeper's queue though somebody is wanted by then.
    RetiresThoughWanted,
    /// Tries though somebody waits, or holds the lock.
    TriesBesideTheLine,
    /// Wakes only the first task when an acquisition has failed.
    WakesOnlyTheFirst,
    /// A task is not told that its acquisition has failed.
    ForgetsTheFailure,
    /// Offers the guard of the hold before.
    OffersAnEarlierHold,
    /// Takes a hold without a check whether it is lost.
    TakesALostHold,
    /// Puts a task back at the end of the line.
    PutsBackAtTheEnd,
    /// A task whose hold was lost as it took it waits, and is not in line.
    ForgetsToPutBack,
    /// Does not contend for a task that was put back.
    ForgetsToContendForThePutBack,
    /// Does not hear of a task that was passed over, and is polled again.
    ForgetsTheAbsent,
    /// Wakes a task by the waker that it had at first.
    KeepsTheFirstWaker,
    /// Contends for each task that arrives.
    ContendsForEach,
    /// Does not drop the guard that is offered when its hold is lost.
    KeepsALostOffer,
    /// Does not delete the node of a hold that is lost.
    LeavesTheNodeOfALostHold,
    /// Does not leave ZooKeeper's queue when nobody is wanted any more.
    NeverRetires,
}

impl Mutant {
    pub(crate) const COUNT: usize = Self::NeverRetires as usize + 1;
}

/// What has happened in some state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Witness {
    PassedOn,
    /// A hold was released because of its budget, though a task waited.
    BudgetEnded,
    PassingRefused,
    PassedOver,
    /// A late task took a hold that opened with it, while one in time waited.
    HadItsHalf,
    /// A late task took a hold that opened with it while it was absent.
    HadItsHalfThoughAbsent,
    /// A late task did not take a hold that opened with it while it was absent, and time was over at the second look.
    MissedItsHalfThoughAbsent,
    /// A late task did not take a hold that opened with it while it was absent, and those who waited have left.
    MissedItsHalfForNobody,
    /// A late task had a turn because nobody in time waited.
    HadTheRest,
    TheLastHadATurn,
    /// A late task did not take the half for which others waited.
    BecameTheLast,
    /// A late task did not take another half.
    MissedAnotherHalf,
    /// A task that had missed a half took a hold that opened with it.
    HadAnotherHalf,
    /// A task was passed over when no time was left for the next one.
    PassingOverRefused,
    /// Nobody was there any more to take the hold.
    AllPassedOver,
    CameBack,
    /// A task that was passed over came back, and the process was to contend for it.
    CameBackAlone,
    LeftWhileOffered,
    LeftWhileOfferedToTheLast,
    /// A task left with the offer when it could not be handed on.
    LeftWithoutTime,
    LostWhileOffered,
    LostWhileTaken,
    /// A hold was lost between the end of a turn and its passing on.
    LostWhilePassed,
    /// A hold was passed on after it was over.
    LatePass,
    /// As that, while a later hold was taken.
    LatePassBesideATurn,
    Retired,
    /// Somebody arrived before the process had left the queue.
    RetireRaced,
    GrantedToNobody,
    ContendedAgain,
    TrySucceeded,
    TryFailed,
    TryRefused,
    TryDropped,
    /// Somebody came during the try, so the process contends.
    TrySucceededBesideOthers,
    PutBack,
    /// The process was to contend for a task that was put back.
    PutBackAlone,
    /// A task was put back while a later hold was offered or taken.
    PutBackBesideAHold,
    Failed,
    /// A process contended again behind the remote contender.
    WentBehindTheRemote,
    /// A process waited behind its own lost hold.
    WaitedBehindItself,
}

/// How a task is woken. A task that is polled again has another waker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Caller {
    pub(crate) party: Party,
    pub(crate) moved: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Task {
    pub(crate) process: Process,
    /// How often it may still come.
    pub(crate) comings: u8,
    pub(crate) doing: Doing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Doing {
    Away,
    InLine(Place),
    /// It has taken what was offered, and has not checked it.
    Took(Place, HoldNumber),
    Holding(HoldNumber),
    /// Its turn is over; `lost` says whether the hold was lost by then.
    Passing {
        hold: HoldNumber,
        lost: bool,
    },
    /// The hold is passed on, but the turn is not over. Only a mutant's is not.
    Lingering(HoldNumber),
    Trying,
}

/// A task's place in line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) ticket: Ticket,
    /// How many tasks of its process came before.
    pub(crate) since: u8,
    pub(crate) caller: Caller,
    pub(crate) woken: bool,
    pub(crate) standing: Standing,
    pub(crate) lateness: Lateness,
    /// How many halves it missed, and how many holds must begin until a hold may open with it again.
    pub(crate) halves: u32,
    pub(crate) pause: u32,
    /// How often it was passed over, if it is late for ever.
    pub(crate) missed: u32,
}

/// What a task has missed since it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Lateness {
    Prompt,
    Late,
    /// It missed half of a hold's time, for which others waited. After some holds it is late again.
    Last,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Standing {
    Present,
    /// It was passed over, and has not been polled since.
    Absent,
    /// The acquisition failed, and it has not been polled since.
    Failed,
}

/// What the tasks of one process share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Local {
    pub(crate) stage: Stage<Caller, HoldNumber, ()>,
    pub(crate) background: Background,
    /// The background task was told that nobody may be wanted.
    pub(crate) nudged: bool,
    /// The offer that stands, as far as the tasks know.
    pub(crate) offer: Option<Offer>,
    pub(crate) arrived: u8,
    /// The lease has lapsed, and the session has neither expired nor been heard of since.
    pub(crate) lapsed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Background {
    None,
    Acquiring,
    Watching(Hold),
}

/// The present hold of a process. The earlier ones are lost or released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Hold {
    pub(crate) number: HoldNumber,
    pub(crate) fate: Fate,
    /// How often it was passed on.
    pub(crate) passed: u32,
    /// How many turns have begun.
    pub(crate) turns: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fate {
    Valid,
    Released,
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Offer {
    pub(crate) hold: HoldNumber,
    pub(crate) to: Party,
    pub(crate) looks: u8,
    /// The hold began with this offer, to a late task.
    pub(crate) opens: bool,
}

/// A node in ZooKeeper's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Node {
    /// It waits; at most so many turns may come before its grant.
    Waiting(Owner, u32),
    Held(Process, HoldNumber),
    HeldRemotely,
    /// It is about to be deleted.
    Leaving(Process),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    Local(Process),
    Remote,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) queue: Vec<Node>,
    pub(crate) locals: Vec<Local>,
    pub(crate) tasks: Vec<Task>,
    /// How often the remote contender may still come.
    pub(crate) remote: u8,
    late: usize,
}

impl World {
    pub(crate) fn new(setup: &Setup) -> Self {
        let budget = match setup.mutant {
            Some(Mutant::IgnoresTheBudget) => u32::MAX,
            Some(Mutant::CountsTheBudgetAnew) if setup.budget > 0 => u32::MAX,
            Some(Mutant::NeverPassesOn) => 0,
            _ => setup.budget,
        };
        let local = Local {
            stage: Stage::new(budget),
            background: Background::None,
            nudged: false,
            offer: None,
            arrived: 0,
            lapsed: false,
        };
        let tasks = setup.tasks.iter().enumerate().flat_map(|(process, count)| {
            std::iter::repeat_n(Task { process, comings: setup.comings, doing: Doing::Away }, *count)
        });
        Self {
            queue: Vec::new(),
            locals: vec![local; setup.tasks.len()],
            tasks: tasks.collect(),
            remote: setup.remote,
            late: setup.late,
        }
    }

    /// The process's present hold.
    pub(crate) fn hold(&mut self, process: Process) -> Option<&mut Hold> {
        match &mut self.locals[process].background {
            Background::Watching(hold) => Some(hold),
            _ => None,
        }
    }

    pub(crate) fn is_valid(&self, process: Process, number: HoldNumber) -> bool {
        matches!(self.locals[process].background,
            Background::Watching(hold) if hold.number == number && hold.fate == Fate::Valid)
    }

    /// How many guards are valid.
    pub(crate) fn valid_guards(&self) -> usize {
        let local = self.tasks.iter().filter(|task| match task.doing {
            Doing::Took(_, hold) | Doing::Holding(hold) | Doing::Lingering(hold) => {
                self.is_valid(task.process, hold)
            }
            _ => false,
        });
        local.count() + self.queue.iter().filter(|node| **node == Node::HeldRemotely).count()
    }

    /// The tasks of a process that are in line.
    pub(crate) fn line(&self, process: Process) -> impl Iterator<Item = (Party, Place)> {
        self.tasks.iter().enumerate().filter_map(move |(party, task)| match task.doing {
            Doing::InLine(place) if task.process == process => Some((party, place)),
            _ => None,
        })
    }

    /// The tasks in line that are not absent.
    pub(crate) fn present(&self, process: Process) -> impl Iterator<Item = (Party, Place)> {
        self.line(process).filter(|(_, place)| place.standing == Standing::Present)
    }

    /// The task that is to have the hold next: of those that have missed least the first. A hold that begins makes no
    /// difference between those that are late and those in time. If it is long, and somebody is there, those that are late need
    /// not be there themselves.
    pub(crate) fn next(&self, process: Process, half: Option<Half>) -> Option<Party> {
        let missed =
            |place: Place| if half.is_some() { place.lateness.max(Lateness::Late) } else { place.lateness };
        let waits = half == Some(Half::Long) && self.is_wanted(process);
        let may_have_it = |place: Place| match place.standing {
            Standing::Present => true,
            Standing::Absent => waits && place.lateness == Lateness::Late,
            Standing::Failed => false,
        };
        let line = self.line(process).filter(|(_, place)| may_have_it(*place));
        line.min_by_key(|(_, place)| (missed(*place), place.since)).map(|(party, _)| party)
    }

    /// A task's place in line, if it has one.
    pub(crate) fn place(&self, party: Party) -> Option<Place> {
        match self.tasks[party].doing {
            Doing::InLine(place) => Some(place),
            _ => None,
        }
    }

    /// Whether a task is left that may still be wanted.
    pub(crate) fn is_wanted(&self, process: Process) -> bool {
        self.present(process).next().is_some()
    }

    /// Whether this task is late for ever.
    pub(crate) fn is_late_for_ever(&self, party: Party) -> bool {
        party < self.late
    }

    pub(crate) fn node(&self, owner: Owner) -> Option<usize> {
        self.queue.iter().position(|node| matches!(node, Node::Waiting(it, _) if *it == owner))
    }
}
