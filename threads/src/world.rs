//! What the library imports here in place of the standard library's and tokio's.

use std::time::Duration;

use shuttle::sync::mpsc::{Receiver, RecvTimeoutError};

use self::watch::Sender;

shuttle::lazy_static! {
    /// The only clock. It shows another time once somebody has let it pass.
    static ref CLOCK: Sender<Duration> = Sender::new(Duration::from_secs(1));
}

pub(crate) fn pass(length: Duration) {
    CLOCK.send_modify(|now| *now += length);
}

pub(crate) mod clock {
    pub(crate) use rustix::time::{ClockId, Timespec};

    pub(crate) fn clock_gettime(_clock: ClockId) -> Timespec {
        (*super::CLOCK.borrow()).try_into().unwrap()
    }
}

pub(crate) mod time {
    pub(crate) use std::time::*;

    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
    pub(crate) struct Instant(Duration);

    impl Instant {
        pub(crate) fn now() -> Self {
            Self(*super::CLOCK.borrow())
        }

        pub(crate) fn elapsed(self) -> Duration {
            Self::now().duration_since(self)
        }

        pub(crate) fn duration_since(self, earlier: Self) -> Duration {
            self.0.saturating_sub(earlier.0)
        }

        pub(crate) fn saturating_duration_since(self, earlier: Self) -> Duration {
            self.duration_since(earlier)
        }
    }

    impl std::ops::Add<Duration> for Instant {
        type Output = Self;

        fn add(self, length: Duration) -> Self {
            Self(self.0 + length)
        }
    }
}

pub(crate) mod sync {
    pub(crate) use std::sync::{LazyLock, OnceLock};

    pub(crate) use shuttle::sync::*;
}

/// shuttle's own waits for ever. Here the time passes for which nobody sends.
pub(crate) fn recv_timeout<T>(receiver: &Receiver<T>, length: Duration) -> Result<T, RecvTimeoutError> {
    shuttle::thread::yield_now();
    receiver.try_recv().map_err(|_| {
        pass(length);
        RecvTimeoutError::Timeout
    })
}

pub(crate) mod thread {
    pub(crate) use std::thread::panicking;

    /// The run does not wait for its threads.
    pub(crate) struct Builder;

    impl Builder {
        pub(crate) fn new() -> Self {
            Self
        }

        pub(crate) fn name(self, _name: String) -> Self {
            self
        }

        pub(crate) fn spawn(self, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
            drop(shuttle::future::spawn(async move { run() }));
            Ok(())
        }
    }
}

pub(crate) mod process {
    pub(crate) use std::process::id;

    use super::watch::Sender;

    shuttle::lazy_static! {
        /// Whether the process has ended.
        pub(crate) static ref ABORTED: Sender<bool> = Sender::new(false);
    }

    pub(crate) fn abort() -> ! {
        ABORTED.send_replace(true);
        loop {
            shuttle::thread::park();
        }
    }
}

/// tokio's, on the locks of shuttle.
pub(crate) mod watch {
    use std::future::poll_fn;
    use std::mem::replace;
    use std::ops::Deref;
    use std::task::{Poll, Waker};

    use shuttle::sync::{Arc, Mutex, RwLock, RwLockReadGuard};

    #[derive(Debug)]
    struct Watched<T> {
        /// The value, and how many times all were woken for it.
        value: RwLock<(T, usize)>,
        wakers: Mutex<Vec<Waker>>,
    }

    #[derive(Clone, Debug)]
    pub struct Sender<T>(Arc<Watched<T>>);

    #[derive(Clone, Debug)]
    pub struct Receiver<T>(Arc<Watched<T>>, usize);

    pub struct Ref<'a, T>(RwLockReadGuard<'a, (T, usize)>);

    pub fn channel<T>(value: T) -> (Sender<T>, Receiver<T>) {
        let sender = Sender::new(value);
        let receiver = sender.subscribe();
        (sender, receiver)
    }

    impl<T> Deref for Ref<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            &self.0.0
        }
    }

    impl<T> Watched<T> {
        fn read(&self) -> RwLockReadGuard<'_, (T, usize)> {
            self.value.read().unwrap()
        }
    }

    impl<T: Default> Default for Sender<T> {
        fn default() -> Self {
            Self::new(T::default())
        }
    }

    impl<T> Sender<T> {
        pub fn new(value: T) -> Self {
            Self(Arc::new(Watched { value: RwLock::new((value, 0)), wakers: Mutex::default() }))
        }

        pub fn subscribe(&self) -> Receiver<T> {
            Receiver(self.0.clone(), self.0.read().1)
        }

        pub fn borrow(&self) -> Ref<'_, T> {
            Ref(self.0.read())
        }

        pub fn send_if_modified(&self, modify: impl FnOnce(&mut T) -> bool) -> bool {
            let mut value = self.0.value.write().unwrap();
            let is_modified = modify(&mut value.0);
            value.1 += usize::from(is_modified);
            drop(value);
            if is_modified {
                std::mem::take(&mut *self.0.wakers.lock().unwrap()).into_iter().for_each(Waker::wake);
            }
            is_modified
        }

        pub fn send_modify(&self, modify: impl FnOnce(&mut T)) {
            self.send_if_modified(|value| {
                modify(value);
                true
            });
        }

        /// Nobody waits for this here.
        pub async fn closed(&self) {
            std::future::pending().await
        }

        pub fn send_replace(&self, new: T) {
            self.send_modify(|value| *value = new);
        }
    }

    impl<T> Receiver<T> {
        pub fn borrow(&self) -> Ref<'_, T> {
            Ref(self.0.read())
        }

        pub fn borrow_and_update(&mut self) -> Ref<'_, T> {
            let value = self.0.read();
            self.1 = value.1;
            Ref(value)
        }

        pub fn mark_unchanged(&mut self) {
            self.borrow_and_update();
        }

        pub fn mark_changed(&mut self) {
            self.1 = usize::MAX;
        }

        pub async fn changed(&mut self) -> Result<(), ()> {
            poll_fn(|cx| {
                self.0.wakers.lock().unwrap().push(cx.waker().clone());
                let latest = self.0.read().1;
                if replace(&mut self.1, latest) == latest { Poll::Pending } else { Poll::Ready(Ok(())) }
            })
            .await
        }

        pub async fn wait_for(&mut self, mut is_it: impl FnMut(&T) -> bool) -> Result<Ref<'_, T>, ()> {
            while !is_it(&self.borrow_and_update()) {
                self.changed().await?;
            }
            Ok(Ref(self.0.read()))
        }
    }
}

pub(crate) mod tokio {
    /// In the order of its branches, because shuttle does not know tokio's dice.
    macro_rules! select {
        (biased; $($branches:tt)*) => { ::tokio::select! { biased; $($branches)* } };
        ($($branches:tt)*) => { ::tokio::select! { biased; $($branches)* } };
    }
    pub(crate) use select;

    pub(crate) mod sync {
        pub(crate) use ::tokio::sync::*;

        pub(crate) use crate::world::watch;
    }

    pub(crate) use ::tokio::task;

    pub(crate) mod time {
        use std::pin::Pin;

        pub(crate) use ::tokio::time::*;

        pub(crate) type Sleep = Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

        pub(crate) fn sleep(length: Duration) -> Sleep {
            let mut clock = crate::world::CLOCK.subscribe();
            let end = *clock.borrow() + length;
            Box::pin(async move {
                let _passed = clock.wait_for(|now| *now >= end).await;
            })
        }

        pub(crate) fn sleep_until(_end: Instant) -> Sleep {
            Box::pin(std::future::pending())
        }
    }

    pub(crate) mod runtime {
        /// Of the runtime that shuttle is.
        #[derive(Clone)]
        pub(crate) struct Handle;

        impl Handle {
            pub(crate) fn try_current() -> Result<Self, ()> {
                Ok(Self)
            }

            pub(crate) fn enter(&self) {}

            pub(crate) fn spawn(&self, task: impl Future<Output: Send> + Send + 'static) {
                drop(shuttle::future::spawn(task));
            }
        }
    }
}
