//! The thread of a session, and how other threads wait.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake};
use std::thread::{self, JoinHandle, Thread};

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::unconstrained;
use tracing::warn;

use crate::session::{ConnectError, Session, SessionBuilder};

/// Blocks this thread until the future is done, and returns its output. Each future of zklock may be waited for in any thread,
/// except for the only thread of the runtime that runs its session. In a task, do not wait for others: `tokio::task::yield_now` never
/// ends there.
///
/// ```no_run
/// # fn example(guard: zklock::blocking::Guard) -> Result<(), zklock::Lost> {
/// zklock::blocking::wait(guard.verify())
/// # }
/// ```
pub fn wait<F: Future>(future: F) -> F::Output {
    /// The thread, and whether it was woken: a poll that parks the thread itself takes the token by which it would go on.
    struct Waiter(Thread, AtomicBool);

    impl Wake for Waiter {
        fn wake(self: Arc<Self>) {
            self.1.store(true, Ordering::Release);
            self.0.unpark();
        }
    }

    // In a task, tokio would have each future stop now and then, and go on at the task's next poll, which does not come.
    let mut future = pin!(unconstrained(future));
    let waiter = Arc::new(Waiter(thread::current(), AtomicBool::new(false)));
    let waker = waiter.clone().into();
    let mut cx = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
        while !waiter.1.swap(false, Ordering::Acquire) {
            thread::park();
        }
    }
}

/// A session and its thread, until nothing of it is left.
pub(super) struct Owner {
    pub(super) session: Session,
    pub(super) runtime: Handle,
    _thread: RuntimeThread,
}

/// A thread that runs the tasks of a session until this is dropped.
struct RuntimeThread {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Owner {
    pub(super) fn connect(builder: SessionBuilder) -> Result<Arc<Self>, ConnectError> {
        let failed = |error: io::Error| ConnectError::Client { cause: error.to_string() };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let run = move || {
            drop(runtime.block_on(stopped));
            // A function that hears of a loss may be what ends this, and cannot be waited for.
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name("zklock".to_owned()).spawn(run).map_err(failed)?;
        let _thread = RuntimeThread { stop: Some(stop), thread: Some(thread) };
        let session = {
            let _entered = handle.enter();
            wait(builder.connect())?
        };
        Ok(Arc::new(Self { session, runtime: handle, _thread }))
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if let Err(error) = wait(self.session.close()) {
            warn!(%error, "a session was not closed in time");
        }
    }
}

impl Drop for RuntimeThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        // It panics if a task of zookeeper-client does. Nobody can do anything about it here.
        let _ended = self.thread.take().map(JoinHandle::join);
    }
}
