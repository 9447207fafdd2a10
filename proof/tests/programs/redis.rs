//! The Redis locks have two holders where they must, and zklock has not.

/// Of a run that proves too little.
const UNPROVEN: i32 = 3;

/// zklock is strict in each run. The faults hit the Redis locks by their timing, which a busy machine may spoil.
#[test]
fn redis_locks_have_two_holders_and_zklock_has_one() {
    for _ in 0..3 {
        let output = crate::proof(&["redis", "--runs", "1"]);
        println!("{}", String::from_utf8_lossy(&output.stdout));
        if output.status.code() != Some(UNPROVEN) {
            assert!(output.status.success(), "zklock was not strict: {}", output.status);
            return;
        }
    }
    panic!("no double hold where there must be one, three times");
}
