//! Which of the library's events of `tracing` a run has reached: each tells of a situation, to an operator at `--verbose` too. An event
//! that no run reaches is a situation that no check has ever seen.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::{Debug, Write};
use std::path::Path;
use std::{fs, io};

use tracing::Event;
use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};

/// Beginnings of events that ten minutes need not reach, each with the reason.
const RARE: [(&str, &str); 18] = [
    ("a contender cannot tell which node is its own", TOUCHED),
    ("an acquisition cannot tell which node is its own", TOUCHED),
    ("zklock cannot tell to which contender a node of this session belongs", TOUCHED),
    ("a search finds a node of this session whose contender nobody can tell", TOUCHED),
    ("an observer looks behind a sync", FORGOTTEN),
    ("an observer sees that the data went back", FORGOTTEN),
    ("somebody has deleted the directory of permits and made it again", FORGOTTEN),
    ("the server refuses an observer's read", ALLOWED),
    ("the server refuses to delete a contender's node", ALLOWED),
    ("the record may say that the run has begun", ALLOWED),
    ("the record says that the run has begun", ALLOWED),
    ("a server has a longer tick", TOLD),
    ("the servers have different ticks", TOLD),
    ("the servers' limits fit two ticks", TOLD),
    ("the server grants a session timeout that is too short", TOLD),
    ("no other ZooKeeper session can be opened", TOLD),
    ("a run has failed, but", "no work fails here"),
    ("zookeeper-client's task has died", "no thread dies here"),
];

const TOUCHED: &str = "an operator writes to the node of a create in the moment in which its answer is lost";
const FORGOTTEN: &str = "one ensemble in ten forgets, and an observer or a pool must be there just then";
const ALLOWED: &str = "everybody may do everything, except for announcements";
const TOLD: &str = "the tick is told to zklock, and every server grants enough";

#[derive(Default)]
struct Reached {
    callsites: Vec<Identifier>,
    messages: BTreeSet<String>,
}

thread_local! {
    static REACHED: RefCell<Reached> = RefCell::default();
}

/// Notes that the library has told of this.
pub(crate) fn note(event: &Event<'_>) {
    let metadata = event.metadata();
    // Of an event with a reason, each reason counts by itself.
    let has_reason = metadata.fields().field("reason").is_some();
    REACHED.with_borrow_mut(|reached| {
        let is_library = metadata.target() == "zklock" || metadata.target().starts_with("zklock::");
        let is_new = !reached.callsites.contains(&metadata.callsite());
        if is_library && (is_new || has_reason) {
            if is_new {
                reached.callsites.push(metadata.callsite());
            }
            let mut message = Message::default();
            event.record(&mut message);
            let Message { text, reason } = message;
            reached.messages.insert(text + &reason);
        }
    });
}

/// The messages that were reached since the last call.
pub(crate) fn take() -> BTreeSet<String> {
    let mut messages = REACHED.take().messages;
    messages.retain(|message| !message.is_empty());
    messages
}

#[derive(Default)]
struct Message {
    text: String,
    reason: String,
}

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // A string takes everything.
        let _ = match field.name() {
            "message" => write!(self.text, "{value:?}"),
            "reason" => write!(self.reason, ": {value:?}"),
            _ => Ok(()),
        };
    }
}

/// The messages of all events in the library's source.
fn known() -> io::Result<BTreeSet<String>> {
    let mut known = BTreeSet::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                known.extend(messages(&fs::read_to_string(path)?));
            }
        }
    }
    Ok(known)
}

/// The messages of the events in this source: the last text of each macro call.
fn messages(source: &str) -> Vec<String> {
    let calls = ["debug!(", "info!(", "warn!("].iter().flat_map(|call| source.split(call).skip(1));
    let message = |call: &str| {
        let call = &call[..call.find(");").or(call.find("),")).unwrap_or(call.len())];
        let text = call.rsplit('"').nth(1)?;
        Some(text.split("\\\n").map(str::trim_start).collect::<String>())
    };
    calls.filter_map(message).collect()
}

/// What a run of ten minutes should have reached, and has not.
pub fn unreached(reached: impl Fn(&str) -> bool) -> io::Result<Vec<String>> {
    let is_rare = |message: &str| RARE.iter().any(|(rare, _)| message.starts_with(rare));
    Ok(known()?.into_iter().filter(|message| !reached(message) && !is_rare(message)).collect())
}
