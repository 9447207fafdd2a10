//! The comparison beside the peers that `make test` installs anyway.

#[test]
fn every_peer_is_measured() {
    let peers = [
        "zklock",
        "zookeeper-client",
        "Curator",
        "kazoo",
        "go-zookeeper",
        "Redisson",
        "a semaphore of eight",
    ];
    let output = crate::proof(&[
        "compare",
        "--peers=zookeeper-client,curator,kazoo,go,redisson,permits",
        "--clients=2",
        "--turn=0.1",
        "--repetitions=0",
    ]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", output.status);
    for peer in peers {
        let speeds: Vec<_> =
            text.lines().filter(|line| line.starts_with(&format!("| {peer} |"))).skip(1).collect();
        assert_eq!(speeds.len(), 2, "without and with a round trip: {text}");
        for speed in speeds {
            let (_, cell) = speed.rsplit_once(&format!("{peer} | ")).expect("a cell");
            // Handovers a second, or `HANDOVERS of ACQUISITIONS`: on a busy machine one client may have it all the time.
            let (rates, _) = cell.split_once(" (").expect("what it took");
            let rates: Vec<f64> = rates.split(" of ").map(|rate| rate.parse().expect("a rate")).collect();
            assert!(rates.iter().any(|rate| *rate > 0.0), "{speed}");
        }
    }
}
