//! As much of Redis's protocol as it takes to tell one command from the next.

/// The first command in a buffer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) name: String,
    /// How many bytes it takes.
    pub(crate) length: usize,
}

/// The first command, if all of it is there. Clients send each as an array of strings: `*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n`.
pub(crate) fn first(buffer: &[u8]) -> Option<Command> {
    let (strings, mut length) = number(buffer, b'*')?;
    let mut name = None;
    for _ in 0..strings {
        let (bytes, header) = number(buffer.get(length..)?, b'$')?;
        let string = buffer.get(length + header..)?.get(..bytes)?;
        name.get_or_insert_with(|| String::from_utf8_lossy(string).into_owned());
        length += header + bytes + 2;
    }
    (buffer.len() >= length).then_some(Command { name: name?, length })
}

/// The number in a line that begins with `mark`, and how long the line is.
fn number(buffer: &[u8], mark: u8) -> Option<(usize, usize)> {
    let end = buffer.windows(2).position(|pair| pair == b"\r\n")?;
    let text = std::str::from_utf8(buffer.get(..end)?.strip_prefix(&[mark])?).ok()?;
    Some((text.parse().ok()?, end + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_apart() {
        let both = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\n\r\n\r\n*1\r\n$4\r\nPING\r\n";
        let set = Command { name: "SET".into(), length: 28 };
        assert_eq!(first(both), Some(set));
        assert_eq!(first(&both[28..]), Some(Command { name: "PING".into(), length: 14 }));
        for short in 0..28 {
            assert_eq!(first(&both[..short]), None, "{short} bytes");
        }
    }
}
