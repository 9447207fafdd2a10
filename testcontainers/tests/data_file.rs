//! A server that starts from a prepared snapshot.
#![allow(clippy::unwrap_used)]

mod common;

use common::connect;
use zklock_testcontainers::{Ensemble, ZooKeeper};

/// A snapshot with the nodes `(path, data, cversion)`, parents first, in ZooKeeper's own format.
fn snapshot(nodes: &[(&str, &[u8], i32)]) -> Vec<u8> {
    let mut out = Vec::new();
    let bytes = |out: &mut Vec<u8>, bytes: &[u8]| {
        out.extend(i32::try_from(bytes.len()).unwrap().to_be_bytes());
        out.extend(bytes);
    };
    out.extend(b"ZKSN");
    out.extend(2_i32.to_be_bytes()); // version
    out.extend((-1_i64).to_be_bytes()); // database
    out.extend(0_i32.to_be_bytes()); // sessions
    out.extend(0_i32.to_be_bytes()); // access control lists
    for (path, data, cversion) in nodes {
        bytes(&mut out, path.as_bytes());
        bytes(&mut out, data);
        out.extend((-1_i64).to_be_bytes()); // open to everybody
        out.extend([0; 4 * 8]); // czxid, mzxid, ctime, mtime
        out.extend(0_i32.to_be_bytes()); // version
        out.extend(cversion.to_be_bytes());
        out.extend(0_i32.to_be_bytes()); // aversion
        out.extend([0; 2 * 8]); // ephemeralOwner, pzxid
    }
    bytes(&mut out, b"/");
    out.extend(i64::from(adler32(&out)).to_be_bytes());
    bytes(&mut out, b"/");
    out
}

fn adler32(bytes: &[u8]) -> u32 {
    let (a, b) = bytes.iter().fold((1_u32, 0_u32), |(a, b), byte| {
        let a = (a + u32::from(*byte)) % 65_521;
        (a, (b + a) % 65_521)
    });
    (b << 16) | a
}

const NODES: &[(&str, &[u8], i32)] =
    &[("", b"", 0), ("/zookeeper", b"", 0), ("/zookeeper/quota", b"", 0), ("/prepared", b"yes", 1_000)];

#[tokio::test]
async fn one_server_finds_it() {
    let zk = ZooKeeper::builder().data_file("snapshot.0", snapshot(NODES)).start().await.unwrap();
    let (data, stat) = connect(&zk.connect_string()).await.get_data("/prepared").await.unwrap();
    // Clients see creations and deletions, the snapshot has creations only.
    assert_eq!((&data[..], stat.cversion), (&b"yes"[..], 2_000));
}

#[tokio::test]
async fn every_server_of_an_ensemble_finds_it() {
    let ensemble = Ensemble::builder(3).data_file("snapshot.0", snapshot(NODES)).start().await.unwrap();
    for index in 0..3 {
        let client = connect(&ensemble.address(index)).await;
        assert_eq!(client.get_data("/prepared").await.unwrap().0, b"yes");
    }
}
