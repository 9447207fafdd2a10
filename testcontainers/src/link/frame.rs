//! ZooKeeper's framing: four bytes of length, then that many bytes.

/// A larger number is not a length. Then the stream is a four-letter word, TLS, or something else that is not framed.
const LONGEST: usize = 64 * 1024 * 1024;

/// Cuts a stream of bytes into frames, however the bytes arrive.
#[derive(Clone, Debug, Default)]
pub(crate) struct Framer {
    buffer: Vec<u8>,
    start: usize,
    unframed: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// A whole frame with its length in front.
    Frame(Vec<u8>),
    /// Bytes of a stream that is not framed.
    Unframed(Vec<u8>),
}

impl Framer {
    /// For a stream that has no frames.
    pub(crate) fn unframed() -> Self {
        Self { unframed: true, ..Self::default() }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    pub(super) fn next(&mut self) -> Option<Piece> {
        let rest = self.buffer.get(self.start..).unwrap_or_default();
        if !self.unframed
            && let Some(length) = int(rest, 0)
        {
            match usize::try_from(length) {
                Ok(length) if length <= LONGEST => {
                    if let Some(frame) = rest.get(..4 + length) {
                        let frame = frame.to_vec();
                        self.start += frame.len();
                        return Some(Piece::Frame(frame));
                    }
                }
                _ => self.unframed = true,
            }
        }
        if self.unframed && !rest.is_empty() {
            let bytes = rest.to_vec();
            self.start = self.buffer.len();
            return Some(Piece::Unframed(bytes));
        }
        self.buffer.drain(..self.start);
        self.start = 0;
        None
    }
}

/// The big-endian i32 at `offset`, if there are that many bytes.
pub(super) fn int(bytes: &[u8], offset: usize) -> Option<i32> {
    let bytes = bytes.get(offset..offset + 4)?;
    Some(i32::from_be_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    proptest! {
        #[test]
        fn any_frames_come_out_whole_and_any_bytes_in_order(
            messages in vec(vec(any::<u8>(), 0..6), 0..4),
            rest in vec(any::<u8>(), 0..12),
            size in 1..30_usize,
        ) {
            let frames = messages.into_iter().map(|message| [&(message.len() as u32).to_be_bytes()[..], &message].concat());
            let frames = frames.collect::<Vec<_>>();
            let stream = [frames.concat(), rest].concat();
            let mut framer = Framer::default();
            let mut pieces = Vec::new();
            for chunk in stream.chunks(size) {
                framer.push(chunk);
                pieces.extend(std::iter::from_fn(|| framer.next()));
            }
            let frames = frames.into_iter().map(Piece::Frame).collect::<Vec<_>>();
            prop_assert!(pieces.starts_with(&frames), "{:?}", pieces);
            let bytes = pieces.into_iter().flat_map(|(Piece::Frame(bytes) | Piece::Unframed(bytes))| bytes);
            prop_assert_eq!(bytes.chain(framer.buffer).collect::<Vec<_>>(), stream);
        }
    }
}
