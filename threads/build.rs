//! Copies the library's files, with other locks, clocks and threads in them, and with the broken orders that a test switches on.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// Text of the library, and what stands in its place: what the library imports, and what the tests must see.
const IMPORTS: [(&str, &str); 14] = [
    ("std::sync::", "crate::world::sync::"),
    ("std::time::", "crate::world::time::"),
    ("std::thread", "crate::world::thread"),
    ("std::process", "crate::world::process"),
    ("tokio::", "crate::world::tokio::"),
    ("use rustix::time::", "use crate::world::clock::"),
    ("added.recv_timeout(", "crate::world::recv_timeout(added, "),
    ("writes.recv_timeout(", "crate::world::recv_timeout(&writes, "),
    (
        "opening.spawn_on(open(dialer, runtime.clone(), patience), &runtime)",
        "opening.spawn(open(dialer, runtime, patience))",
    ),
    ("cfg(test)", "cfg(any())"),
    ("pub(super)", "pub(crate)"),
    ("\nmod ", "\npub(crate) mod "),
    ("    fn dialer(self)", "    pub(crate) fn dialer(self)"),
    ("    fn new(\n        id: i64", "    pub(crate) fn new(\n        id: i64"),
];

/// Orders of steps that are wrong, where a test switches them on: the file, its text, and the text in its place.
const BREAKS: [(&str, &str, &str); 7] = [
    // Each run of a test has its own, which goes with the run.
    (
        "guard/hold/fail_stop.rs",
        "static WATCHED: Mutex<Option<(u32, Sender<Arc<Turn>>)>> = Mutex::new(None);",
        "shuttle::lazy_static! { static ref WATCHED: Mutex<Option<(u32, Sender<Arc<Turn>>)>> = Mutex::new(None); }",
    ),
    (
        "guard/hold/fail_stop.rs",
        "    let loss = turn.held.find_loss()",
        "    let early = crate::tests::breaks(crate::tests::KEPT_BEFORE_LOSS);
             let early = early.then(|| turn.stops_process.load(Ordering::Acquire));
             let loss = turn.held.find_loss()",
    ),
    (
        "guard/hold/fail_stop.rs",
        "&& turn.stops_process.load(Ordering::Acquire);",
        "&& early.unwrap_or_else(|| turn.stops_process.load(Ordering::Acquire));",
    ),
    (
        "guard/hold/mod.rs",
        "        let Some(told) = self.told.lock().take() else { return };",
        "        let Some(told) = self.told.lock().take() else { return };
        crate::tests::end_is_told();",
    ),
    (
        "guard/hold/mod.rs",
        "        if passes {\n            self.fate.send_if_modified(|fate| {",
        "        let slot = if crate::tests::breaks(crate::tests::PASSED_OUTSIDE) { drop(slot); None } else { Some(slot) };
                 if passes {\n            self.fate.send_if_modified(|fate| {",
    ),
    (
        "guard/hold/mod.rs",
        "        *self.told.lock() = Some(told);",
        "        if crate::tests::breaks(crate::tests::LOOK_BEFORE_TOLD) {
                     self.lost_by_now();
                     *self.told.lock() = Some(told);
                     return;
                 }
                 *self.told.lock() = Some(told);",
    ),
    (
        "guard/hold/mod.rs",
        "            let timer = self.session().sleep(pause);",
        "            if crate::tests::breaks(crate::tests::SUBSCRIBED_LATE) {
                         fate.mark_unchanged();
                         lease.mark_unchanged();
                     }
                     let timer = self.session().sleep(pause);",
    ),
];

fn main() {
    println!("cargo::rerun-if-changed=../src");
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    copy(Path::new("../src"), &out);
    for (file, text, other) in BREAKS {
        let file = out.join(file);
        let before = fs::read_to_string(&file).unwrap();
        assert_eq!(before.matches(text).count(), 1, "{}: {text}", file.display());
        fs::write(file, before.replace(text, other)).unwrap();
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let copied = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &copied);
            continue;
        }
        let mut text = fs::read_to_string(&path).unwrap();
        if path.ends_with("src/lib.rs") {
            // What an included file cannot have: documentation and attributes of the crate.
            let items = text.lines().filter(|line| !line.starts_with("//!"));
            text = items.filter(|line| !line.starts_with("#![")).flat_map(|line| [line, "\n"]).collect();
            text.truncate(text.find("/// Compiles the examples").unwrap());
        }
        text = IMPORTS.iter().fold(text, |text, (import, other)| text.replace(import, other));
        fs::write(copied, text).unwrap();
    }
}
