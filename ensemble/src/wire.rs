//! Jute, the encoding of ZooKeeper's messages: integers are big-endian, and lengths are 32 bits.

/// A message ends too early, or has a field that cannot be read.
#[derive(Debug)]
pub(crate) struct Malformed;

type Read<T> = Result<T, Malformed>;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Read<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        self.take(N)?.try_into().map_err(|_| Malformed)
    }

    pub(crate) fn bool(&mut self) -> Read<bool> {
        Ok(self.array::<1>()? != [0])
    }

    pub(crate) fn int(&mut self) -> Read<i32> {
        self.array().map(i32::from_be_bytes)
    }

    pub(crate) fn long(&mut self) -> Read<i64> {
        self.array().map(i64::from_be_bytes)
    }

    /// A buffer. The length -1 stands for none; ZooKeeper's clients mean an empty one by it.
    pub(crate) fn buffer(&mut self) -> Read<Vec<u8>> {
        match self.int()? {
            -1 => Ok(Vec::new()),
            length => self.take(usize::try_from(length).map_err(|_| Malformed)?).map(<[u8]>::to_vec),
        }
    }

    pub(crate) fn string(&mut self) -> Read<String> {
        String::from_utf8(self.buffer()?).map_err(|_| Malformed)
    }

    pub(crate) fn vector<T>(&mut self, mut item: impl FnMut(&mut Self) -> Read<T>) -> Read<Vec<T>> {
        (0..self.int()?).map(|_| item(self)).collect()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Frame(Vec<u8>);

impl Frame {
    pub(crate) fn new() -> Self {
        Self(vec![0; 4])
    }

    /// A reply's header, and the header of an event.
    pub(crate) fn reply(xid: i32, zxid: i64, error: i32) -> Self {
        let mut frame = Self::new();
        frame.int(xid).long(zxid).int(error);
        frame
    }

    pub(crate) fn bool(&mut self, value: bool) -> &mut Self {
        self.0.push(u8::from(value));
        self
    }

    pub(crate) fn int(&mut self, value: i32) -> &mut Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(crate) fn long(&mut self, value: i64) -> &mut Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(crate) fn buffer(&mut self, value: &[u8]) -> &mut Self {
        self.length(value.len());
        self.0.extend(value);
        self
    }

    pub(crate) fn string(&mut self, value: &str) -> &mut Self {
        self.buffer(value.as_bytes())
    }

    pub(crate) fn length(&mut self, length: usize) -> &mut Self {
        self.int(i32::try_from(length).expect("a message has less than 2 GB"))
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        let length = u32::try_from(self.0.len() - 4).expect("a message has less than 4 GB");
        self.0[..4].copy_from_slice(&length.to_be_bytes());
        self.0
    }
}
