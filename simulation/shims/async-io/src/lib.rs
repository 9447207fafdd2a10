//! Timers of a simulated process, in the place of async-io's. They fire at the nanosecond, on the clocks of the process.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures::Stream;

/// See async-io's.
#[derive(Debug)]
pub struct Timer {
    when: Option<Instant>,
    period: Option<Duration>,
    set: Option<world::Timer>,
}

impl Timer {
    /// Never fires.
    pub fn never() -> Self {
        Self { when: None, period: None, set: None }
    }

    /// Fires once, after this time.
    pub fn after(time: Duration) -> Self {
        Self { when: Instant::now().checked_add(time), ..Self::never() }
    }

    /// Fires once, at this instant.
    pub fn at(instant: Instant) -> Self {
        Self { when: Some(instant), ..Self::never() }
    }

    /// Fires again and again.
    pub fn interval(period: Duration) -> Self {
        Self { period: Some(period), ..Self::after(period) }
    }
}

impl Stream for Timer {
    type Item = Instant;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Instant>> {
        let this = self.get_mut();
        let Some(when) = this.when else { return Poll::Pending };
        let left = when.saturating_duration_since(Instant::now());
        this.set = None;
        if left > Duration::ZERO {
            let nanoseconds = left.as_nanos().try_into().unwrap_or(u64::MAX);
            this.set = Some(world::Timer::set(nanoseconds, context.waker().clone()));
            return Poll::Pending;
        }
        this.when = this.period.and_then(|period| when.checked_add(period));
        Poll::Ready(Some(when))
    }
}

impl Future for Timer {
    type Output = Instant;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Instant> {
        Poll::Ready(ready!(self.poll_next(context)).expect("a timer is not polled once it is done"))
    }
}
