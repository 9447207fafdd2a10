//! Frames as a client writes and reads them.

/// A frame that is being written. The client puts its length before it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frame(pub(crate) Vec<u8>);

impl Frame {
    pub(crate) fn int(mut self, value: i32) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(crate) fn long(mut self, value: i64) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(crate) fn bool(mut self, value: bool) -> Self {
        self.0.push(value.into());
        self
    }

    pub(crate) fn bytes(self, value: &[u8]) -> Self {
        let mut frame = self.int(value.len() as i32);
        frame.0.extend(value);
        frame
    }

    pub(crate) fn string(self, value: &str) -> Self {
        self.bytes(value.as_bytes())
    }

    pub(crate) fn strings(self, values: &[String]) -> Self {
        values.iter().fold(self.int(values.len() as i32), |frame, value| frame.string(value))
    }

    pub(crate) fn with(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// The frame with its length before it.
    pub(crate) fn finish(self) -> Vec<u8> {
        let mut bytes = (self.0.len() as u32).to_be_bytes().to_vec();
        bytes.extend(self.0);
        bytes
    }
}

pub(crate) struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn is_over(&self) -> bool {
        self.at >= self.bytes.len()
    }

    pub(crate) fn skip(&mut self, length: usize) {
        self.at += length;
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let array = self.bytes[self.at..].first_chunk().copied().expect("a reply is long enough");
        self.at += N;
        array
    }

    pub(crate) fn bool(&mut self) -> bool {
        self.array::<1>() != [0]
    }

    pub(crate) fn int(&mut self) -> i32 {
        i32::from_be_bytes(self.array())
    }

    pub(crate) fn long(&mut self) -> i64 {
        i64::from_be_bytes(self.array())
    }

    pub(crate) fn buffer(&mut self) -> &'a [u8] {
        let length = self.int().max(0) as usize;
        self.at += length;
        &self.bytes[self.at - length..self.at]
    }
}
