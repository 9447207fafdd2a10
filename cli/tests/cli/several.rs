//! `zklock run --lock A --lock B`: several locks at once.

use zklock::{FencingToken, Sequencer};

use crate::support::{at, output, run_on, until_queued, zklock};
use zklock_test_support::{own_server, session};

#[tokio::test]
async fn the_command_finds_a_line_for_each_lock() {
    let (server, servers) = at(own_server().await);
    let program = env!("CARGO_BIN_EXE_zklock");
    let options = ["--shared-lock", "/lock/c", "--lock", "/lock/b", "--lock", "/lock/a"];
    let script = format!(
        r#"printf '%s\n' "$ZKLOCK_TOKEN" "$ZKLOCK_PATH" "$ZKLOCK_ACCESS" "$ZKLOCK_SEQUENCER"; '{program}' verify -v "$ZKLOCK_SEQUENCER""#
    );
    let ran = output(run_on(&servers, &options, &script)).await.says(0, "");
    assert_eq!(ran.stderr.matches(" is valid: its holder holds the lock\n").count(), 3, "{ran:?}");
    let lines = ran.stdout.lines().collect::<Vec<_>>();
    assert_eq!(lines.len(), 10, "{ran:?}");
    assert_eq!(lines[1..4], ["/lock/b", "/lock/a", "/lock/c"]);
    assert_eq!(lines[4..7], ["exclusive", "exclusive", "shared"]);
    let claims = lines[7..].iter().map(|claim| claim.parse::<Sequencer>().unwrap()).collect::<Vec<_>>();
    assert_eq!(claims.iter().map(Sequencer::path).collect::<Vec<_>>(), ["/lock/b", "/lock/a", "/lock/c"]);
    let token = lines[0].parse::<FencingToken>().unwrap();
    assert!(claims.iter().all(|claim| claim.token() == token), "one token for all: {ran:?}");
    // The claims are outdated now. One of them is enough for the answer.
    let session = session(&server).await;
    let guard = session.lock("/lock/a").unwrap().acquire().await.unwrap();
    for claims in [lines[7..].join("\n"), format!("{}\n{}", guard.sequencer().unwrap(), lines[7])] {
        zklock(&servers, &["verify", &claims]).await.is(1, "", "outdated");
    }
    until_queued(&session, "/lock/b", 0).await;
}
