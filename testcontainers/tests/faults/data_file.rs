//! A server that starts from a prepared snapshot.

use crate::common::connect;
use zklock_testcontainers::{Ensemble, Snapshot};

#[tokio::test]
async fn every_server_of_an_ensemble_finds_it() {
    let prepared = Snapshot::new().node("/prepared", b"yes", 1_000).encode();
    let ensemble = Ensemble::builder(3).data_file(Snapshot::FILE, prepared).start().await.unwrap();
    for index in 0..3 {
        let client = connect(&ensemble.address(index)).await;
        let (data, stat) = client.get_data("/prepared").await.unwrap();
        // Clients see creations and deletions, the snapshot has creations only.
        assert_eq!((&data[..], stat.cversion), (&b"yes"[..], 2_000));
    }
}
