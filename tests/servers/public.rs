//! The public futures of the library, as its sources have them: so that no table of the tests forgets one.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Returns the name of each, such as `Lock::acquire`.
pub(super) fn futures() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut directories = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else {
                found.extend(futures_in(&fs::read_to_string(path).unwrap()));
            }
        }
    }
    found
}

/// It knows rustfmt's layout: a public method is indented by four blanks, and its signature ends with a line's last brace.
fn futures_in(source: &str) -> Vec<String> {
    let (mut found, mut owner, mut signature) = (Vec::new(), "", None);
    for line in source.lines() {
        if let Some(header) = line.strip_prefix("impl") {
            let named =
                if header.starts_with('<') { header.split_once("> ").unwrap().1 } else { header.trim() };
            owner = named.split(|it: char| !it.is_alphanumeric()).next().unwrap();
        }
        if line.starts_with("    pub fn ") || line.starts_with("    pub async fn ") {
            signature = Some(String::new());
        }
        if let Some(text) = &mut signature {
            text.push_str(line);
            if line.ends_with('{') {
                let name = text.split_once("fn ").unwrap().1.split(['(', '<']).next().unwrap();
                if text.contains("async fn ") || text.contains("-> impl Future") {
                    found.push(format!("{owner}::{name}"));
                }
                signature = None;
            }
        }
    }
    found
}
