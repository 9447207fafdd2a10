//! A minute of torture with a fixed seed.

use serde_json::Value;

/// Which faults there are in a minute does not depend on the seed, only when they come.
const KINDS: [&str; 20] = [
    "isolate_follower",
    "isolate_leader",
    "lose_quorum",
    "stall_server",
    "pause_server",
    "kill_server",
    "black_hole",
    "cut_connections",
    "lose_reply",
    "stop_shortly",
    "stop_long",
    "kill_client",
    "slew_clock",
    "move_session",
    "neglect",
    "write_waiter",
    "delete_holder",
    "close_holder",
    "delete_waiter",
    "close_waiter",
];

#[test]
fn a_minute_of_torture_breaks_no_promise() {
    let picture = std::env::temp_dir().join(format!("torture-{}.svg", std::process::id()));
    let drawn = picture.to_str().expect("a path");
    let output = crate::proof(&[
        "torture",
        "--seconds",
        "60",
        "--clients",
        "5",
        "--seed",
        "7",
        "--json",
        "--report",
        drawn,
    ]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}\n{said}", output.status);
    println!("{said}");
    let report: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(report["passed"], true);
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    // It must have been a torture, or it proves nothing: a minute without any fault has thousands of holds.
    for kind in KINDS {
        let seen = number(&report["faults"][kind]) + number(&report["omitted"][kind]);
        assert!(seen > 0, "{kind} was not even tried");
    }
    let faults: u64 = KINDS.iter().map(|kind| number(&report["faults"][kind])).sum();
    let omitted: u64 = KINDS.iter().map(|kind| number(&report["omitted"][kind])).sum();
    assert!(faults >= 12 && omitted <= 8, "{faults} faults, no occasion for {omitted}");
    assert!(number(&report["holds"]) >= 30, "{} holds", report["holds"]);
    assert!(number(&report["ends"]["released"]) > 0);
    assert!(number(&report["ends"]["lost"]) > 0, "no fault cost anybody the lock");
    // Each of these needs an occasion, and not every one of the eight that are planned has it.
    let occasional = ["slew_clock", "move_session", "neglect", "write_waiter"];
    let met: u64 = occasional.iter().map(|kind| number(&report["faults"][kind])).sum();
    assert!(met >= 4, "{met} of {occasional:?}");
    let marks = ["slewed", "neglected", "requeued"].map(|mark| number(&report[mark]));
    assert!(marks.iter().sum::<u64>() > 0, "no clock was slewed and no acquisition neglected: {marks:?}");
    assert!(number(&report["writes"]) >= number(&report["ends"]["released"]));

    let drawing = std::fs::read_to_string(&picture).expect("a picture");
    std::fs::remove_file(&picture).expect("its removal");
    assert!(drawing.starts_with("<svg") && drawing.contains("server 3") && drawing.contains("client 5"));
}
