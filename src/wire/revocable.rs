//! Requests that zklock can revoke while a caller awaits them.
//!
//! zookeeper-client closes its session when the last clone of its `Client` is dropped, and a request's future keeps a
//! clone. A caller may keep such a future and never poll it again. Neither the end of a connection nor `Session::close`
//! may wait for that caller. So every such future lives in a slot that its connection can empty.

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use futures::future::BoxFuture;
use slab::Slab;

use crate::mutex::Mutex;

/// The slots of the requests on one connection.
#[derive(Default)]
pub(crate) struct Registry(Mutex<RevocableSlots>);

#[derive(Default)]
struct RevocableSlots {
    revoked: bool,
    running: Slab<Weak<dyn Revoke>>,
}

/// A request in its slot. It resolves to `None` once it is revoked.
pub(crate) struct Revocable<T> {
    slot: Arc<RevocableSlot<T>>,
    registration: Option<(Arc<Registry>, usize)>,
}

struct RevocableSlot<T> {
    state: Mutex<RevocableState<T>>,
}

enum RevocableState<T> {
    Running(BoxFuture<'static, T>, Option<Waker>),
    Revoked,
}

trait Revoke: Send + Sync {
    fn revoke(&self);
}

impl Registry {
    /// Puts a request into a slot. If everything has been revoked, the request is revoked at once.
    pub(crate) fn register<T: Send + 'static>(
        self: &Arc<Self>,
        request: BoxFuture<'static, T>,
    ) -> Revocable<T> {
        let slot = Arc::new(RevocableSlot { state: Mutex::new(RevocableState::Running(request, None)) });
        let mut slots = self.0.lock();
        if slots.revoked {
            drop(slots);
            slot.revoke();
            return Revocable { slot, registration: None };
        }
        let weak: Weak<RevocableSlot<T>> = Arc::downgrade(&slot);
        let key = slots.running.insert(weak);
        Revocable { slot, registration: Some((self.clone(), key)) }
    }

    /// Empties every slot. Later requests are revoked at once.
    pub(crate) fn revoke(&self) {
        let running = {
            let mut slots = self.0.lock();
            slots.revoked = true;
            slots.running.iter().filter_map(|(_, slot)| slot.upgrade()).collect::<Vec<_>>()
        };
        running.iter().for_each(|slot| slot.revoke());
    }
}

impl<T: Send + 'static> Revoke for RevocableSlot<T> {
    fn revoke(&self) {
        // The old state is dropped and its waker woken outside the mutex: both may run foreign code.
        let old = std::mem::replace(&mut *self.state.lock(), RevocableState::Revoked);
        let RevocableState::Running(request, waker) = old else { return };
        drop(request);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Future for Revocable<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        match &mut *self.slot.state.lock() {
            RevocableState::Revoked => Poll::Ready(None),
            RevocableState::Running(request, waker) => {
                let poll = request.as_mut().poll(cx);
                if poll.is_pending() {
                    match waker {
                        Some(waker) => waker.clone_from(cx.waker()),
                        None => *waker = Some(cx.waker().clone()),
                    }
                }
                poll.map(Some)
            }
        }
    }
}

impl<T> Drop for Revocable<T> {
    fn drop(&mut self) {
        if let Some((registry, key)) = self.registration.take() {
            registry.0.lock().running.try_remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use futures::FutureExt;

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_request_resolves_to_its_value() {
        let registry = Arc::new(Registry::default());
        assert_eq!(registry.register(async { 7 }.boxed()).now_or_never(), Some(Some(7)));
        assert!(registry.0.lock().running.is_empty());
    }

    #[test]
    fn revoking_drops_the_request_though_nobody_polls_it() {
        let registry = Arc::new(Registry::default());
        let client = Arc::new(());
        let held = client.clone();
        let mut request = registry.register(
            async move {
                let _held = held;
                std::future::pending::<()>().await
            }
            .boxed(),
        );
        let wakes = Arc::new(Wakes::default());
        let waker = wakes.clone().into();
        assert!(request.poll_unpin(&mut Context::from_waker(&waker)).is_pending());
        registry.revoke();
        assert_eq!(Arc::strong_count(&client), 1);
        assert_eq!(wakes.0.load(Ordering::SeqCst), 1);
        assert_eq!(request.now_or_never(), Some(None));
    }

    #[test]
    fn nothing_is_registered_after_a_revocation() {
        let registry = Arc::new(Registry::default());
        registry.revoke();
        assert_eq!(registry.register(async { 7 }.boxed()).now_or_never(), Some(None));
    }
}
