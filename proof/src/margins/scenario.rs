//! All scenarios, in the order of the table.

use std::time::Duration;

use futures::FutureExt;
use futures::future::LocalBoxFuture;

use super::late_create::Caller;
use super::operator::{DELAY, closes_session, deletes_node};
use super::{cut_off, differing_servers, late_create, operator, rolling_restart, stalled_server};
use crate::harness::Row;

pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// Repeats it so often. Panics if two hold the lock.
    pub(crate) play: fn(usize) -> LocalBoxFuture<'static, Vec<Row>>,
}

macro_rules! scenarios {
    ($($name:ident: $file:ident::$play:ident($($argument:expr),*),)*) => {
        pub(crate) const SCENARIOS: &[Scenario] = &[$(Scenario {
            name: stringify!($name),
            play: |times| $file::$play(times, $($argument),*).boxed_local(),
        },)*];
    };
}

include!("table.rs");
