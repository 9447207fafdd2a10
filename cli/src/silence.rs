//! Silence: since when this process asks in vain, and what it says of that.
//!
//! The commands of a process share one silence. Each attempt to connect is a question, and each session asks one once a second.
//! So a silence has one beginning and one end, and is told once.

use std::convert::Infallible;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::time::sleep;
use zklock::{QueryError, Session};

use crate::console::Console;
use crate::duration;

/// How long the servers may be silent before zklock says so.
const UNTOLD: Duration = Duration::from_secs(2);

/// How often it looks whether they are.
const LOOK: Duration = Duration::from_millis(250);

/// The pause between an answer and the next question of a session.
const PAUSE: Duration = Duration::from_secs(1);

/// Since when no server answers this process.
#[derive(Debug, Default)]
pub(crate) struct Silence(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// When the oldest question was asked, of those that were asked since the last answer.
    since: Option<Instant>,
    questions: usize,
    is_told: bool,
}

pub(crate) struct Question<'a>(&'a Silence);

impl Drop for Question<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock_state();
        state.questions -= 1;
        // Without a question, no answer is missing.
        state.since = state.since.filter(|_| state.questions > 0);
    }
}

impl Silence {
    fn lock_state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a question, which is under way until it is dropped.
    pub(crate) fn begin_question(&self) -> Question<'_> {
        let mut state = self.lock_state();
        state.since.get_or_insert_with(Instant::now);
        state.questions += 1;
        Question(self)
    }

    /// How long a question has been without an answer. No server has answered for that time, or longer.
    pub(crate) fn length(&self) -> Duration {
        self.lock_state().since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Takes in an answer. If the user has been told that none came, the user is told of this one.
    pub(crate) fn note_answer(&self, waiting: &str, console: Console) {
        let mut state = self.lock_state();
        state.since = (state.questions > 0).then(Instant::now);
        if mem::take(&mut state.is_told) {
            // A quiet user has been told of the silence, too.
            console.max(Console::Normal).note(format_args!("{waiting}ZooKeeper answers again"));
        }
    }

    /// Whether the user has been told of a silence, and not of its end. The caller tells of the end.
    pub(crate) fn take_told(&self) -> bool {
        mem::take(&mut self.lock_state().is_told)
    }

    /// Awaits an answer. If it takes long, the user is told once: what has not come, and how long zklock waits for it.
    pub(crate) async fn await_answer<T>(
        &self,
        answer: impl Future<Output = T>,
        lacks: &str,
        bound: &str,
        causes: impl AsyncFn() -> Vec<String>,
    ) -> T {
        let _question = self.begin_question();
        tokio::select! {
            answer = answer => answer,
            never = self.tell_silences(lacks, bound, causes) => match never {},
        }
    }

    /// Asks the servers of this session whether they answer, and tells the user if they do not.
    pub(crate) async fn watch_session(
        &self,
        session: &Session,
        waiting: &str,
        console: Console,
        causes: impl AsyncFn() -> Vec<String>,
    ) -> Infallible {
        let asking = async {
            loop {
                sleep(PAUSE).await;
                let _question = self.begin_question();
                // A refusal is an answer, too.
                while let Err(
                    QueryError::SessionOver { .. }
                    | QueryError::Disconnected { .. }
                    | QueryError::Unanswered { .. },
                ) = session.child_count("/").await
                {
                    sleep(LOOK).await;
                }
                self.note_answer(waiting, console);
            }
        };
        let lacks = format!("{waiting}ZooKeeper has not answered");
        tokio::select! {
            never = asking => never,
            never = self.tell_silences(&lacks, "", causes) => never,
        }
    }

    /// Says of each silence that it lasts, and its causes as far as they are known, at every level of the console.
    async fn tell_silences(
        &self,
        lacks: &str,
        bound: &str,
        causes: impl AsyncFn() -> Vec<String>,
    ) -> Infallible {
        let mut looked = Instant::now();
        // When to ask for the causes of this silence; `None` once they are told. A server that is down has none yet.
        let mut next = Some(looked);
        loop {
            sleep(LOOK).await;
            // A process that was stopped could hear nobody.
            if mem::replace(&mut looked, Instant::now()).elapsed() > LOOK + PAUSE {
                let mut state = self.lock_state();
                state.since = state.since.map(|_| looked);
            }
            if self.length() < UNTOLD {
                next = Some(looked);
                continue;
            }
            if !mem::replace(&mut self.lock_state().is_told, true) {
                let length = duration::text(UNTOLD);
                // At every level: nothing else shows why a quiet program does not go on.
                Console::Normal
                    .warn(format_args!("{lacks} for {length} or more; zklock goes on trying{bound}"));
            }
            if next.is_some_and(|next| next <= looked) {
                let causes = causes().await;
                looked = Instant::now();
                next = causes.is_empty().then_some(looked + UNTOLD);
                for cause in causes {
                    Console::Normal.warn(cause);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silence_lasts_from_the_first_question_without_an_answer() {
        let silence = Silence::default();
        let since = || silence.lock_state().since;
        assert_eq!((since(), silence.length()), (None, Duration::ZERO));
        let first = silence.begin_question();
        let began = since();
        assert!(began.is_some());
        let second = silence.begin_question();
        drop(first);
        assert_eq!(since(), began, "the second question lasts");
        silence.lock_state().is_told = true;
        silence.note_answer("", Console::Quiet);
        assert!(since() > began && !silence.lock_state().is_told, "the next silence is told again");
        drop(second);
        assert_eq!(since(), None);
    }
}
