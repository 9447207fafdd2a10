//! TLS: which servers the program trusts, and how it proves who it is.

use std::time::Duration;

use zklock::Session;
use zklock_testcontainers::ZooKeeper;

use crate::support;
use crate::support::authority::{Authority, Files};
use crate::support::program::{Run, codes, run, zklock};

/// A server that is certified for these addresses.
async fn server(authority: &Authority, addresses: &[&str]) -> ZooKeeper {
    let identity = authority.certify("server", addresses).pem();
    ZooKeeper::builder().tls(identity).start().await.expect("a ZooKeeper server")
}

fn port(server: &ZooKeeper) -> String {
    server.connect_string().rsplit(':').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_client_trusts_whom_it_is_told_to() {
    let (authority, files) = (Authority::new("one"), Files::new());
    let server = server(&authority, &["127.0.0.1", "localhost"]).await;
    let (servers, ca) = (server.connect_string(), files.write("ca.pem", &authority.pem()));

    let run = support::program::run(&["doctor", "--json", "--tls-ca", &ca, "-s", &servers]);
    let report = run.json();
    assert_eq!(codes(&report), ["single-server"], "{run:?}");
    // The four-letter words went over TLS, too.
    let seen = &report["servers"][0];
    assert_eq!((&seen["tls"], &seen["mode"]), (&true.into(), &"standalone".into()), "{report}");

    // By name, with options from the environment, and with credentials, which TLS keeps secret.
    let run = Run::of(
        zklock(&["doctor", "--json"])
            .env("ZKLOCK_SERVERS", format!("tcp+tls://localhost:{}", port(&server)))
            .env("ZKLOCK_TLS_CA", &ca)
            .env("ZKLOCK_DIGEST", "alice:wonderland"),
    );
    let report = run.json();
    assert_eq!(codes(&report), ["single-server"], "{run:?}");
    let identities = report["servers"][0]["identities"].as_array().unwrap();
    assert!(identities.contains(&"digest:alice".into()), "{report}");

    // Another authority of the same name.
    let other = files.write("other.pem", &Authority::new("one").pem());
    refused(&["--tls-ca", &other, "-s", &servers], "certificate");
    // A server without TLS.
    let other = ZooKeeper::start().await.unwrap();
    refused(&["--tls-ca", &ca, "-s", &other.connect_string()], "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_may_ask_who_we_are() {
    let (authority, files) = (Authority::new("one"), Files::new());
    let identity = authority.certify("server", &["127.0.0.1"]).pem();
    let server = ZooKeeper::builder().tls(identity).tls_clients(authority.pem()).start().await.unwrap();
    let (servers, ca) = (server.connect_string(), files.write("ca.pem", &authority.pem()));

    let (cert, key) = files.certify(&authority, "worker");
    let run =
        run(&["doctor", "--json", "--tls-ca", &ca, "--tls-cert", &cert, "--tls-key", &key, "-s", &servers]);
    let report = run.json();
    assert_eq!(codes(&report), ["single-server"], "{run:?}");
    let identities = report["servers"][0]["identities"].as_array().unwrap();
    assert!(identities.contains(&"x509:CN=worker".into()), "{report}");

    // Other commands present the certificate, too.
    let session = Session::connect(&servers).await.unwrap();
    let guard = session.lock("/lock").unwrap().acquire().await.unwrap();
    let options = ["--tls-ca", &ca, "--tls-cert", &cert, "--tls-key", &key, "--connect-timeout", "5s"];
    for command in [["verify", &guard.sequencer().unwrap().to_string()], ["show", "/lock"]] {
        let run = support::program::run(&[command.as_slice(), &options, &["-s", &servers]].concat());
        assert_eq!(run.code, Some(0), "{run:?}");
        let run = support::program::run(
            &[command.as_slice(), &options[..2], &["--connect-timeout", "500ms", "-s", &servers]].concat(),
        );
        assert_eq!(run.code, Some(69), "without a certificate: {run:?}");
    }

    // The certificate is an identity, so a lock's nodes may belong to it.
    let belongs = ["run", "--acl", "creator", "/owned"];
    let command = ["--", "sh", "-c", "exit 3"];
    let run = support::program::run(&[&belongs, &options[..], &["-s", &servers], &command].concat());
    assert_eq!(run.code, Some(3), "{run:?}");
    let run = support::program::run(&[&belongs, &["-s", &servers][..], &command].concat());
    assert_eq!(run.code, Some(64), "without a certificate: {run:?}");

    let (cert, key) = files.certify(&Authority::new("another"), "stranger");
    refused(&["--tls-ca", &ca, "--tls-cert", &cert, "--tls-key", &key, "-s", &servers], "");
    refused(&["--tls-ca", &ca, "-s", &servers], "alert");
}

#[tokio::test]
async fn a_certificate_has_to_be_for_the_server() {
    let (authority, files) = (Authority::new("one"), Files::new());
    let server = server(&authority, &["localhost"]).await;
    let ca = files.write("ca.pem", &authority.pem());
    let by_name = run(&["doctor", "--tls-ca", &ca, "-s", &format!("localhost:{}", port(&server))]);
    assert!(matches!(by_name.code, Some(0 | 1)), "{by_name:?}");
    assert!(by_name.stdout.contains("Session timeout            10s"), "{by_name:?}");
    refused(&["--tls-ca", &ca, "-s", &server.connect_string()], "certificate");
}

/// The doctor gets no session within the connect timeout. Its finding is that TLS failed, for this reason.
#[track_caller]
fn refused(options: &[&str], problem: &str) {
    let arguments = ["doctor", "--json", "--connect-timeout", "5s"];
    let run = support::program::run(&[&arguments, options].concat());
    assert_eq!(run.code, Some(69), "{run:?}");
    assert!(run.took < Duration::from_secs(20), "{run:?}");
    let report = run.json();
    let told = report["servers"][0]["problem"].as_str().unwrap_or_default();
    assert!(codes(&report) == ["tls-failed"] && told.contains(problem), "{problem:?}: {report}");
}
