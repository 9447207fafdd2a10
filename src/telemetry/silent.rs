//! Counts nothing.

use std::time::Duration;

use super::Name;

pub(super) struct Waiter;

impl Waiter {
    pub(super) fn new(_: &Name, _: bool) -> Self {
        Self
    }

    pub(super) fn granted(&self) {}

    pub(super) fn timed_out(&self) {}
}

pub(crate) struct Hold;

impl Hold {
    pub(crate) fn new(_: &Name, _: bool) -> Self {
        Self
    }

    pub(crate) fn ended(&self, _: Option<&'static str>, _: Duration) {}
}

pub(crate) fn lease_remaining(_: Duration) {}

pub(crate) fn describe() {}
