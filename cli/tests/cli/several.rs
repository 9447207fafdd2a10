//! `zklock run --lock A --lock B`: several locks at once.

use std::process::Stdio;

use zklock::{FencingToken, Sequencer, Session};
use zklock_testcontainers::Link;
use zookeeper_client::Acls;

use crate::support::looker::{authorized, set_acl};
use crate::support::witness::Witness;
use crate::support::{
    at, ended, finished, lose_no_count, output, run_on, until_queued, with_session, zklock,
};
use zklock_test_support::{make, own_server, server, session, until_nothing_is_left};

const BOTH: [&str; 4] = ["--lock", "/lock/a", "--lock", "/lock/b"];

#[tokio::test]
async fn the_command_finds_a_line_for_each_lock() {
    let (server, servers) = at(own_server().await);
    let program = env!("CARGO_BIN_EXE_zklock");
    let options = ["--shared-lock", "/lock/c", "--lock", "/lock/b", "--lock", "/lock/a"];
    let script = format!(
        r#"printf '%s\n' "$ZKLOCK_TOKEN" "$ZKLOCK_PATH" "$ZKLOCK_ACCESS" "$ZKLOCK_SEQUENCER"; '{program}' verify -v "$ZKLOCK_SEQUENCER""#
    );
    let ran = output(run_on(&servers, &options, &script)).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.stderr.matches(" stands\n").count(), 3, "{ran:?}");
    let text = &ran.stdout;
    let lines = text.lines().collect::<Vec<_>>();
    assert_eq!(lines.len(), 10, "{text}");
    assert_eq!(lines[1..4], ["/lock/b", "/lock/a", "/lock/c"]);
    assert_eq!(lines[4..7], ["exclusive", "exclusive", "shared"]);
    let claims = lines[7..].iter().map(|claim| claim.parse::<Sequencer>().unwrap()).collect::<Vec<_>>();
    assert_eq!(claims.iter().map(Sequencer::path).collect::<Vec<_>>(), ["/lock/b", "/lock/a", "/lock/c"]);
    let token = lines[0].parse::<FencingToken>().unwrap();
    assert!(claims.iter().all(|claim| claim.token() == token), "one token for all: {text}");
    // The claims are outdated now. One of them is enough for the answer.
    let session = session(&server).await;
    let guard = session.lock("/lock/a").unwrap().acquire().await.unwrap();
    for claims in [lines[7..].join("\n"), format!("{}\n{}", guard.sequencer().unwrap(), lines[7])] {
        let mut verify = zklock(&servers);
        verify.args(["verify", &claims]);
        assert_eq!(output(verify).await.code, 1);
    }
    until_queued(&session, "/lock/b", 0).await;
}

#[tokio::test]
async fn those_who_name_the_locks_in_another_order_do_not_wait_for_each_other() {
    let server = server().await;
    let shells: [&[&str]; 3] = [
        &["-q", "--lock", "/lock/a", "--lock", "/lock/b"],
        &["-q", "--lock", "/lock/b", "--lock", "/lock/a"],
        // One lock of them is enough to be kept out.
        &["-q", "/lock/b"],
    ];
    lose_no_count(&server.connect_string(), 12, &shells).await;
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn readers_may_share_one_of_them() {
    let (_server, servers, session) = with_session(server().await).await;
    let reading = session.rw_lock("/lock/prices").unwrap().read().await.unwrap();
    let options = ["-t", "0", "--lock", "/lock/report", "--shared-lock", "/lock/prices"];
    let beside = output(run_on(&servers, &options, "echo in")).await;
    assert_eq!(beside.stdout, "in\n", "{beside:?}");
    let options = ["-t", "0", "--lock", "/lock/report", "--lock", "/lock/prices"];
    assert_eq!(output(run_on(&servers, &options, "echo in")).await.code, 75);
    assert!(reading.is_held());
}

#[tokio::test]
async fn the_warden_ends_the_command_with_the_lease() {
    let server = server().await;
    let link = Link::start(server.address()).await.unwrap();
    let options = [&BOTH[..], &["--session-timeout", "10s", "--kill-after", "1500ms"]].concat();
    let (mut running, mut next) = (Witness::new(), Witness::new());
    let mut program =
        run_on(&server.at(link.address()), &options, &running.of(r#"trap "" TERM; sleep 1000 & sleep 1000"#));
    let holder = program.stderr(Stdio::piped()).spawn().unwrap();
    running.began().await;
    let session = Session::connect(server.connect_string()).await.unwrap();
    let mut waiter =
        run_on(&server.connect_string(), &["/lock/b"], &next.after(&running, ":")).spawn().unwrap();
    until_queued(&session, "/lock/b", 2).await;
    link.black_hole();
    running.gone().await;
    next.began().await;
    let output = finished(holder).await;
    output.is(76, "", "/lock/a and /lock/b are about to be lost: ");
    assert!(ended(&mut waiter).await.success(), "the next one began before all was gone");
}

#[tokio::test]
async fn one_that_refuses_is_named_and_nothing_is_left() {
    let (server, servers, session) = with_session(server().await).await;
    let stranger = authorized(&server).await;
    make(&stranger, "/lock/b").await;
    set_acl(&stranger, "/lock/b", &Acls::creator_all()).await;
    let refused = output(run_on(&servers, &BOTH, "echo in")).await;
    refused.is(77, "", "no permission to queue at /lock/b;");
    until_queued(&session, "/lock/a", 0).await;
}
