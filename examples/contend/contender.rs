//! One contender: a process that increments the counter under the lock, again and again.

use std::io::Read;
use std::pin::pin;
use std::time::Duration;

use anyhow::bail;
use futures::future::{Either, select};
use tokio::time::{interval, sleep};
use zklock::{FencingToken, Guard, Lock, LockOptions, Lost, ReleaseError, Session};

use crate::args::Part;
use crate::counter::Counter;
use crate::record::{Event, Recorder};

/// How long an ensemble may be out of reach before a contender gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often a contender looks for itself in the queue, until it is there.
const LOOK: Duration = Duration::from_millis(20);

/// Makes all increments, through as many ZooKeeper sessions as it takes.
pub(crate) async fn run(part: Part) -> anyhow::Result<()> {
    end_with_conductor();
    let recorder = Recorder::open(part.number, &part.journal)?;
    let counter = Counter::open(&part.counter);
    let builder = Session::builder(&part.servers).session_timeout(part.session_timeout);
    let session = builder.connect_timeout(PATIENCE).connect().await?;
    let owner = format!("contender {}", part.number);
    let lock = session.lock_with(&part.lock, LockOptions::new().owner(owner.as_str()))?;
    let mut contender = Contender { owner, counter, recorder, part, session: None };
    contender.rounds(&session, &lock).await?;
    // Unconfirmed, it owns nothing any more that anybody waits for.
    drop(session.close().await);
    contender.recorder.say(Event::Finished)
}

struct Contender {
    part: Part,
    owner: String,
    counter: Counter,
    recorder: Recorder,
    /// The ZooKeeper session that was last told of.
    session: Option<i64>,
}

impl Contender {
    async fn rounds(&mut self, session: &Session, lock: &Lock) -> anyhow::Result<()> {
        let (mut done, mut last) = (0, i64::MIN);
        while done < self.part.rounds {
            let id = session.id();
            if self.session.replace(id) != Some(id) {
                self.recorder.say(Event::Connected { session: id })?;
            }
            let guard = self.acquire(lock, last).await?;
            last = guard.token().as_i64();
            match self.increment(&guard).await? {
                Ok(()) => {
                    done += 1;
                    self.recorder.say(Event::Exited { lost: None })?;
                    match guard.release().await {
                        Ok(()) => {}
                        Err(ReleaseError::Lost(lost)) => {
                            self.recorder.say(Event::Unconfirmed { cause: lost.reason.to_string() })?;
                        }
                        Err(error) => bail!(error),
                    }
                }
                // Nothing was written: the round is to be done again.
                Err(lost) => self.recorder.say(Event::Exited { lost: Some(lost.reason.to_string()) })?,
            }
        }
        Ok(())
    }

    /// Acquires the lock, and meanwhile says when it is in the queue.
    async fn acquire(&mut self, lock: &Lock, last: i64) -> anyhow::Result<Guard> {
        let acquired = pin!(lock.acquire());
        let place = pin!(place(lock, &self.owner, last));
        let guard = match select(acquired, place).await {
            Either::Left((acquired, _)) => acquired?,
            Either::Right((token, acquired)) => {
                self.recorder.say(Event::Waiting { token })?;
                acquired.await?
            }
        };
        self.recorder.say(Event::Entered { token: guard.token().as_i64() })?;
        Ok(guard)
    }

    /// Reads, sleeps, writes. A holder that loses the lock stops, and does not write.
    async fn increment(&mut self, guard: &Guard) -> anyhow::Result<Result<(), Lost>> {
        let value = self.counter.read()?;
        self.recorder.say(Event::Read { token: guard.token().as_i64(), value })?;
        if let Err(lost) = guard.run(sleep(self.part.hold)).await {
            return Ok(Err(lost));
        }
        let value = value + 1;
        self.recorder.say(Event::Writing { value })?;
        // Directly before the write, with nothing in between that could take long.
        if let Err(lost) = guard.check() {
            return Ok(Err(lost));
        }
        self.counter.write(value)?;
        self.recorder.say(Event::Wrote { value })?;
        Ok(Ok(()))
    }
}

/// Resolves once `owner` waits in the queue, to the token it will have: one above `last`, for the node of a lost guard
/// may still be there.
async fn place(lock: &Lock, owner: &str, last: i64) -> i64 {
    let mut look = interval(LOOK);
    loop {
        look.tick().await;
        // Whoever cannot look now looks again; nothing depends on it but what is shown.
        let queue = lock.contenders().await.unwrap_or_default();
        let ours = queue.iter().filter(|it| it.position > 0 && it.owner.as_deref() == Some(owner));
        if let Some(token) =
            ours.filter_map(|it| it.token).map(FencingToken::as_i64).find(|token| *token > last)
        {
            return token;
        }
    }
}

/// Ends this process as soon as the conductor has ended, however that came about. On a thread of its own, so that
/// nothing keeps it from doing so.
fn end_with_conductor() {
    std::thread::spawn(|| {
        // The conductor never writes; its end closes the pipe.
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(3);
    });
}
