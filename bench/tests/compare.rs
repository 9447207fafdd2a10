//! The comparison beside the peers that `make test` installs anyway.

use std::process::Command;

#[test]
fn every_peer_is_measured() {
    let peers = ["zookeeper-client", "Curator", "kazoo", "go-zookeeper", "Redis, published"];
    let output = Command::new(env!("CARGO_BIN_EXE_zklock-bench"))
        .args(["compare", "--peers", "zookeeper-client,curator,kazoo,go,redis"])
        .args(["--clients", "2", "--turn", "0.1", "--repetitions", "0"])
        .output()
        .expect("the program");
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{errors}");
    for peer in ["zklock"].iter().chain(&peers) {
        let speeds: Vec<_> =
            text.lines().filter(|line| line.starts_with(&format!("| {peer} |"))).skip(1).collect();
        assert_eq!(speeds.len(), 2, "without and with a round trip: {text}{errors}");
        for speed in speeds {
            let (_, cell) = speed.rsplit_once(&format!("{peer} | ")).expect("a cell");
            // Handovers a second, or `HANDOVERS of ACQUISITIONS`: on a busy machine one client may have it all the time.
            let (rates, _) = cell.split_once(" (").expect("what it took");
            let rates: Vec<f64> = rates.split(" of ").map(|rate| rate.parse().expect("a rate")).collect();
            assert!(rates.iter().any(|rate| *rate > 0.0), "{speed}");
        }
    }
}
