//! Prepared data for servers to start from.

/// The tree that a server starts from, in ZooKeeper's own snapshot format. It is for states that take too long to reach by
/// requests, such as a sequence number near its end.
///
/// ```no_run
/// # async fn example() -> Result<(), zklock_testcontainers::Error> {
/// use zklock_testcontainers::{Snapshot, ZooKeeper};
///
/// let snapshot = Snapshot::new().node("/lock", b"", 2_000_000_000);
/// let server = ZooKeeper::builder().data_file(Snapshot::FILE, snapshot.encode()).start().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Snapshot {
    nodes: Vec<(String, Vec<u8>, i32)>,
}

impl Snapshot {
    /// The name of the file, for [`data_file`](crate::ZooKeeperBuilder::data_file).
    pub const FILE: &'static str = "snapshot.0";

    /// A tree with nothing but the servers' own nodes.
    pub fn new() -> Self {
        Self { nodes: Vec::new() }.node("", b"", 0).node("/zookeeper", b"", 0).node(
            "/zookeeper/quota",
            b"",
            0,
        )
    }

    /// Adds a persistent node, open to everybody. Add its parent before it. `cversion` is the number that its first
    /// sequential child gets. Clients see it in the node's stat, doubled, less the number of children.
    #[must_use]
    pub fn node(mut self, path: &str, data: &[u8], cversion: i32) -> Self {
        self.nodes.push((path.to_owned(), data.to_owned(), cversion));
        self
    }

    /// The file's content.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(b"ZKSN");
        out.extend(2_i32.to_be_bytes()); // version
        out.extend((-1_i64).to_be_bytes()); // database
        out.extend(0_i32.to_be_bytes()); // sessions
        out.extend(0_i32.to_be_bytes()); // access control lists
        for (path, data, cversion) in &self.nodes {
            buffer(&mut out, path.as_bytes());
            buffer(&mut out, data);
            out.extend((-1_i64).to_be_bytes()); // open to everybody
            out.extend([0; 4 * 8]); // czxid, mzxid, ctime, mtime
            out.extend(0_i32.to_be_bytes()); // version
            out.extend(cversion.to_be_bytes());
            out.extend(0_i32.to_be_bytes()); // aversion
            out.extend([0; 2 * 8]); // ephemeralOwner, pzxid
        }
        buffer(&mut out, b"/");
        out.extend(i64::from(adler32(&out)).to_be_bytes());
        buffer(&mut out, b"/");
        out
    }
}

impl Default for Snapshot {
    fn default() -> Self {
        Self::new()
    }
}

/// Writes bytes behind their length. The server refuses a file in which one of them is longer than 2 GiB.
fn buffer(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend(i32::try_from(bytes.len()).unwrap_or(i32::MAX).to_be_bytes());
    out.extend(bytes);
}

fn adler32(bytes: &[u8]) -> u32 {
    let (a, b) = bytes.iter().fold((1_u32, 0_u32), |(a, b), byte| {
        let a = (a + u32::from(*byte)) % 65_521;
        (a, (b + a) % 65_521)
    });
    (b << 16) | a
}
