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

/// The time between two looks of a contender for itself in the queue, until it finds itself.
const LOOK: Duration = Duration::from_millis(20);

/// Makes all increments, in as many ZooKeeper sessions as that takes.
pub(crate) async fn run(part: Part) -> anyhow::Result<()> {
    end_with_conductor();
    let recorder = Recorder::open(part.number, &part.journal)?;
    let counter = Counter::open(&part.counter);
    let builder = Session::builder(&part.servers).session_timeout(part.session_timeout);
    let session = builder.connect_timeout(PATIENCE).connect().await?;
    let owner = format!("contender {}", part.number);
    let lock = session.lock(&part.lock)?.with_options(LockOptions::new().owner(owner.as_str()))?;
    let mut contender = Contender { owner, counter, recorder, part, session: None };
    contender.rounds(&session, &lock).await?;
    // Even if nobody confirms this, the session owns no node any more that anybody waits for.
    drop(session.close().await);
    contender.recorder.say(Event::Finished)
}

struct Contender {
    part: Part,
    owner: String,
    counter: Counter,
    recorder: Recorder,
    /// The ZooKeeper session that was last recorded.
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
            last = guard.token().zxid();
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
                // Nothing was written, so the round is repeated.
                Err(lost) => self.recorder.say(Event::Exited { lost: Some(lost.reason.to_string()) })?,
            }
        }
        Ok(())
    }

    /// Acquires the lock. Meanwhile it records when the contender is in the queue.
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
        self.recorder.say(Event::Entered { token: guard.token().zxid() })?;
        Ok(guard)
    }

    /// Reads, sleeps, writes. A holder that loses the lock stops, and does not write.
    async fn increment(&mut self, guard: &Guard) -> anyhow::Result<Result<(), Lost>> {
        let value = self.counter.read()?;
        self.recorder.say(Event::Read { token: guard.token().zxid(), value })?;
        if let Err(lost) = guard.run(sleep(self.part.hold)).await {
            return Ok(Err(lost));
        }
        let value = value + 1;
        self.recorder.say(Event::Writing { value })?;
        // The check is right before the write, with nothing slow in between.
        if let Err(lost) = guard.check() {
            return Ok(Err(lost));
        }
        self.counter.write(value)?;
        self.recorder.say(Event::Wrote { value })?;
        Ok(Ok(()))
    }
}

/// Resolves once `owner` waits in the queue, with the token that it will have. That token is above `last`, because the
/// node of a lost guard may still be there.
async fn place(lock: &Lock, owner: &str, last: i64) -> i64 {
    let mut look = interval(LOOK);
    loop {
        look.tick().await;
        // If the look fails, the contender looks again. Only the display depends on it.
        let queue = lock.contenders().await.unwrap_or_default();
        let ours = queue.iter().filter(|it| it.position > 0 && it.owner.as_deref() == Some(owner));
        if let Some(token) =
            ours.filter_map(|it| it.token).map(FencingToken::zxid).find(|token| *token > last)
        {
            return token;
        }
    }
}

/// Ends this process as soon as the conductor has ended, for whatever reason. A separate thread does this, so that
/// nothing keeps it from doing so.
fn end_with_conductor() {
    std::thread::spawn(|| {
        // The conductor never writes to this pipe. Its end closes the pipe.
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(3);
    });
}
