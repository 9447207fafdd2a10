//! The names of keys in ZooKeeper: one directory a key, which an operator can read.

use zklock_recipe::Child;

use crate::node::RECORDS_SUFFIX;
use crate::path::is_allowed;
use crate::text::is_harmful;

/// Returns the name of a key's directory. Each key has another name.
///
/// Most keys are their own names. As in a URL, `%2F` stands for a slash, and so on for each byte that a name cannot have.
/// If a name would mean something else in a directory (it is `..`, or ends like a contender's, or like that of the
/// records of slots), its last byte is written so, too. `%` alone is the empty key.
pub(super) fn encode(key: &str) -> String {
    if key.is_empty() {
        return "%".to_owned();
    }
    let mut name = String::with_capacity(key.len());
    let seen = key.len() - key.trim_start().len()..key.trim_end().len();
    for (index, character) in key.char_indices() {
        // Nobody sees a blank at an end.
        let is_seen = seen.contains(&index) && !is_harmful(character);
        if matches!(character, '/' | '%') || !is_allowed(character) || !is_seen {
            escape(&mut name, character);
        } else {
            name.push(character);
        }
    }
    if has_a_meaning(&name)
        && let Some(last) = name.pop()
    {
        escape(&mut name, last);
    }
    name
}

fn escape(name: &mut String, character: char) {
    for byte in character.encode_utf8(&mut [0; 4]).bytes() {
        name.push_str(&format!("%{byte:02X}"));
    }
}

fn has_a_meaning(name: &str) -> bool {
    matches!(name, "." | "..") || name.ends_with(RECORDS_SUFFIX) || Child::of(name) != Child::Other
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::path::LockPath;

    /// The key of a name.
    fn decode(name: &str) -> String {
        let mut bytes = Vec::new();
        let mut rest = name.bytes();
        while let Some(byte) = rest.next() {
            let digits = (byte == b'%').then(|| rest.by_ref().take(2).map(char::from).collect::<String>());
            match digits.filter(|digits| !digits.is_empty()) {
                Some(digits) => bytes.push(u8::from_str_radix(&digits, 16).unwrap()),
                None if byte == b'%' => {}
                None => bytes.push(byte),
            }
        }
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn names_are_readable() {
        for (key, name) in [
            ("42", "42"),
            ("customer 7: Zo\u{eb}", "customer 7: Zo\u{eb}"),
            ("eu/1", "eu%2F1"),
            ("100%", "100%25"),
            ("", "%"),
            ("..", ".%2E"),
            ("a\nb", "a%0Ab"),
            (" a b ", "%20a b%20"),
            ("a\u{200b}", "a%E2%80%8B"),
            ("\u{1f512}", "%F0%9F%94%92"),
            ("nightly.once", "nightly.onc%65"),
            ("4006381333931", "400638133393%31"),
            ("lock-0000000042", "lock-000000004%32"),
        ] {
            assert_eq!(encode(key), name);
        }
    }

    proptest! {
        #[test]
        fn each_key_has_a_name_of_its_own(key in "(\\PC|[%/.0-9]|\\.once|[0-9]{10}|\u{1f512}|\n){0,12}") {
            let name = encode(&key);
            prop_assert_eq!(decode(&name), key);
            let path = format!("/lock/{name}");
            prop_assert!(LockPath::parse(&path, "").is_ok(), "{}", path);
            prop_assert_eq!(Child::of(&name), Child::Other);
        }
    }
}
