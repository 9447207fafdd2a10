//! What happens in a run, line by line.

use std::cell::Cell;
use std::fmt::{self, Debug, Write};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Metadata, Subscriber};

use crate::probes;

thread_local! {
    static IS_PRINTED: Cell<bool> = const { Cell::new(false) };
}

/// From now on this thread prints what happens.
pub fn print_trace() {
    IS_PRINTED.set(true);
}

/// Has `tracing` on for this thread until the answer is dropped, whether or not lines are printed. So a run takes the same
/// steps with a trace as without one.
pub(crate) fn listen() -> DefaultGuard {
    tracing::subscriber::set_default(Lines)
}

/// Prints a line, if lines are printed.
pub(crate) fn note(who: impl fmt::Display, what: impl fmt::Display) {
    if IS_PRINTED.get() {
        let now = world::now();
        println!("{:>6}.{:09} {who}: {what}", now / world::SECOND, now % world::SECOND);
    }
}

/// Writes the events of `tracing` as lines.
struct Lines;

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::DEBUG
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        probes::note(event);
        if !IS_PRINTED.get() {
            return;
        }
        let mut text = String::new();
        event.record(&mut Fields(&mut text));
        note(format_args!("{} {}", world::current(), event.metadata().target()), text);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // A string takes everything.
        let _ = match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}
