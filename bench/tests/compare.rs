//! The comparison beside the peers that `make test` installs anyway.

use std::process::Command;

#[test]
fn every_peer_hands_its_lock_over() {
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
            let rate: f64 = cell.split(' ').next().and_then(|rate| rate.parse().ok()).expect("a rate");
            assert!(rate > 0.0, "{speed}");
        }
    }
}
