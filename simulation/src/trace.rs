//! What happens in a run, line by line.

use std::cell::RefCell;
use std::fmt::{self, Debug, Write};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Metadata, Subscriber};

/// Where the lines of this thread go.
#[derive(Debug)]
enum Sink {
    Nowhere,
    Lines(String),
    Stdout,
}

thread_local! {
    static SINK: RefCell<Sink> = const { RefCell::new(Sink::Nowhere) };
}

/// Writes down what happens on this thread until it is dropped.
pub struct Trace(#[expect(dead_code, reason = "it is dropped with the trace")] DefaultGuard);

impl Trace {
    /// Keeps the lines.
    pub fn keep() -> Self {
        Self::to(Sink::Lines(String::new()))
    }

    /// Prints the lines.
    pub fn print() -> Self {
        Self::to(Sink::Stdout)
    }

    fn to(sink: Sink) -> Self {
        SINK.replace(sink);
        Self(tracing::subscriber::set_default(Lines))
    }

    /// Returns the lines that were kept.
    pub fn lines(self) -> String {
        match SINK.replace(Sink::Nowhere) {
            Sink::Lines(lines) => lines,
            Sink::Nowhere | Sink::Stdout => String::new(),
        }
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        SINK.replace(Sink::Nowhere);
    }
}

/// Writes a line, if somebody wants it.
pub(crate) fn note(who: impl fmt::Display, what: impl fmt::Display) {
    SINK.with_borrow_mut(|sink| {
        let now = world::now();
        let (seconds, nanoseconds) = (now / world::SECOND, now % world::SECOND);
        match sink {
            Sink::Nowhere => {}
            Sink::Lines(lines) => {
                // A string takes everything.
                let _ = writeln!(lines, "{seconds:>6}.{nanoseconds:09} {who}: {what}");
            }
            Sink::Stdout => println!("{seconds:>6}.{nanoseconds:09} {who}: {what}"),
        }
    });
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
