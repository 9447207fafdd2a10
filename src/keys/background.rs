//! The background task of a line: it contends for the tasks in line, and looks at those to whom a hold is offered.

use std::pin::pin;
use std::sync::Arc;

use zklock_recipe::Arrival;

use super::budget::LATE_AFTER;
use super::line::Line;
use crate::acquire::acquirer::Wait;
use crate::error::AcquireError;
use crate::guard::hold::turn::Turn;
use crate::wire::ConnectError;
use crate::zk::Over;

/// A line has one from when it is to contend, or has a hold, until it has nothing of the lock.
pub(super) struct LineBackground {
    line: Arc<Line>,
    done: bool,
}

impl LineBackground {
    /// Starts one. It waits for the end of the hold that has this turn, or else contends.
    pub(super) fn start(line: &Arc<Line>, turn: Option<Arc<Turn>>) {
        let background = Self { line: line.clone(), done: false };
        line.lock.succession().spawn(background.run(turn));
    }

    async fn run(mut self, mut granted: Option<Arc<Turn>>) {
        loop {
            let turn = match granted.take() {
                Some(turn) => turn,
                None => match self.contend().await {
                    Some(turn) => turn,
                    None => break,
                },
            };
            self.watch_offers(turn).await;
            if !self.line.end_hold() {
                break;
            }
        }
        self.done = true;
    }

    /// Contends until the lock is granted, nobody wants it any more, or the acquisition fails.
    async fn contend(&self) -> Option<Arc<Turn>> {
        let line = &self.line;
        let acquirer = &line.lock.acquirer;
        let acquired = {
            let mut acquiring = pin!(acquirer.contend(Wait::FOR_EVER, Arrival::New));
            loop {
                tokio::select! {
                    acquired = &mut acquiring => break acquired,
                    () = line.nudge.notified() => if line.retire() { return None },
                }
            }
        };
        match acquired.and_then(|guard| acquirer.at_last(guard)) {
            Ok((guard, _)) => {
                let turn = guard.turn.clone();
                line.offer(guard);
                Some(turn)
            }
            Err(error) => {
                line.fail(&error);
                None
            }
        }
    }

    /// Looks at the offers of a hold until that is over.
    async fn watch_offers(&self, turn: Arc<Turn>) {
        let mut over = pin!(turn.hold_over());
        loop {
            let is_looked_at = self.line.is_looked_at();
            tokio::select! {
                () = &mut over => return,
                () = self.line.nudge.notified(), if !is_looked_at => {}
                () = tokio::time::sleep(LATE_AFTER), if is_looked_at => self.line.look_at_offer(),
            }
        }
    }
}

impl Drop for LineBackground {
    /// Without this task nobody contends: its runtime is shutting down.
    fn drop(&mut self) {
        if !self.done {
            self.line.fail(&AcquireError::over(
                self.line.lock.path().to_owned(),
                Over::Failed(ConnectError::RuntimeGone),
            ));
        }
    }
}
