//! One future that several tasks await.
//!
//! `futures::future::Shared` can lose a wake-up. A task that polls it while another task does returns at once, and relies
//! on that other task. If the future asks to be polled during that poll, and the other task is dropped after it, nobody
//! polls the future again. Here the second task waits for the end of the first one's poll, and polls the future itself.

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};

use futures::FutureExt;
use futures::future::BoxFuture;
use slab::Slab;

use crate::mutex::Mutex;

/// A handle of the future. Each task has its own. Once the last one is dropped, so is the future.
pub(crate) struct Joint<T> {
    shared: Arc<JointCell<T>>,
    /// Where this handle's waker is among them.
    index: Option<usize>,
}

/// A handle that does not keep the future.
#[derive(Clone)]
pub(crate) struct WeakJoint<T>(Weak<JointCell<T>>);

struct JointCell<T> {
    state: Mutex<JointState<T>>,
    wakers: Arc<Wakers>,
}

enum JointState<T> {
    Running(BoxFuture<'static, T>),
    Done(T),
}

/// The wakers of the tasks that await the future. The future wakes them all.
#[derive(Default)]
struct Wakers(Mutex<Slab<Option<Waker>>>);

impl<T> Joint<T> {
    pub(crate) fn new(future: BoxFuture<'static, T>) -> Self {
        let state = Mutex::new(JointState::Running(future));
        Self { shared: Arc::new(JointCell { state, wakers: Arc::default() }), index: None }
    }

    pub(crate) fn downgrade(&self) -> WeakJoint<T> {
        WeakJoint(Arc::downgrade(&self.shared))
    }
}

impl<T> Clone for Joint<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), index: None }
    }
}

impl<T> WeakJoint<T> {
    /// Another handle, if the future is still awaited and has no result yet.
    pub(crate) fn upgrade(&self) -> Option<Joint<T>> {
        let shared = self.0.upgrade()?;
        let runs = matches!(*shared.state.lock(), JointState::Running(_));
        runs.then_some(Joint { shared, index: None })
    }
}

impl<T: Clone> Future for Joint<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Self { shared, index } = &mut *self;
        let mut state = shared.state.lock();
        match &mut *state {
            JointState::Done(result) => Poll::Ready(result.clone()),
            JointState::Running(future) => {
                // Registered before the poll: the future may wake everybody during it.
                *index = Some(shared.wakers.register(*index, cx.waker()));
                let waker = Arc::clone(&shared.wakers).into();
                let result = std::task::ready!(future.poll_unpin(&mut Context::from_waker(&waker)));
                *state = JointState::Done(result.clone());
                drop(state);
                shared.wakers.wake_by_ref();
                Poll::Ready(result)
            }
        }
    }
}

impl<T> Drop for Joint<T> {
    fn drop(&mut self) {
        if let Some(index) = self.index {
            let waker = self.shared.wakers.0.lock().try_remove(index);
            drop(waker);
        }
    }
}

impl Wakers {
    fn register(&self, index: Option<usize>, waker: &Waker) -> usize {
        let waker = Some(waker.clone());
        let mut wakers = self.0.lock();
        let Some(index) = index else { return wakers.insert(waker) };
        let old = std::mem::replace(&mut wakers[index], waker);
        drop(wakers);
        // Dropped outside the mutex: wakers are foreign code.
        drop(old);
        index
    }
}

impl Wake for Wakers {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Woken outside the mutex: wakers are foreign code.
        let wakers = self.0.lock().iter_mut().filter_map(|(_, waker)| waker.take()).collect::<Vec<_>>();
        wakers.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    struct Flag(AtomicBool);

    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    #[test]
    fn all_get_the_result_and_the_last_one_takes_the_future_along() {
        let one = Joint::new(async { 7 }.boxed());
        let kept = Arc::new(());
        let two = one.clone();
        assert_eq!((one.now_or_never(), two.now_or_never()), (Some(7), Some(7)));
        let held = kept.clone();
        let joint = Joint::new(
            async move {
                let _held = held;
                std::future::pending::<()>().await
            }
            .boxed(),
        );
        let weak = joint.downgrade();
        assert_eq!(Arc::strong_count(&kept), 2);
        drop(joint);
        assert!(weak.upgrade().is_none());
        assert_eq!(Arc::strong_count(&kept), 1);
    }

    /// The future asks to be polled again during the first task's poll, while the second task polls it, too. The first
    /// task is dropped after that.
    #[test]
    fn who_polls_beside_a_task_that_goes_does_not_wait_for_ever() {
        let (polled, begun) = mpsc::channel();
        let mut polls = 0;
        let future = std::future::poll_fn(move |cx| {
            polls += 1;
            if polls > 1 {
                return Poll::Ready(7);
            }
            cx.waker().wake_by_ref();
            polled.send(()).unwrap();
            // The second task is in its poll by then, or waits to begin it.
            std::thread::sleep(Duration::from_millis(100));
            Poll::Pending
        });
        let mut first = Joint::new(future.boxed());
        let mut second = first.clone();
        let woken = Arc::new(Flag(AtomicBool::new(false)));
        let waker = woken.clone().into();
        let other = std::thread::spawn(move || {
            begun.recv().unwrap();
            second.poll_unpin(&mut Context::from_waker(&waker))
        });
        assert!(first.poll_unpin(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(first);
        let polled = other.join().unwrap();
        assert!(polled.is_ready() || woken.0.load(Ordering::SeqCst), "nobody polls it again");
    }
}
