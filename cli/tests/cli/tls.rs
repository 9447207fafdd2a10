//! TLS: which servers the program trusts, and how it proves who it is.

use std::time::Duration;

use zklock::Session;
use zklock_testcontainers::ZooKeeper;

use crate::support::authority::{Authority, Files};
use crate::support::{Running, codes, output, program_of, run, zklock};

/// A server that is certified for these addresses.
async fn server(authority: &Authority, addresses: &[&str]) -> ZooKeeper {
    let identity = authority.certify("server", addresses).pem();
    ZooKeeper::builder().tls(identity).start().await.expect("a ZooKeeper server")
}

#[tokio::test]
async fn a_client_trusts_whom_it_is_told_to() {
    let authority = Authority::new("one");
    let files = Files::new();
    let server = server(&authority, &["127.0.0.1", "localhost"]).await;
    let servers = server.connect_string();
    let ca = files.write("ca.pem", &authority.pem());

    let report = zklock(&servers, &["doctor", "--json", "--tls-ca", &ca]).await.report();
    assert_eq!(codes(&report), [""; 0]);
    // The four-letter words went over TLS, too.
    let seen = &report["servers"][0];
    assert_eq!((&seen["tls"], &seen["mode"]), (&true.into(), &"standalone".into()), "{report}");

    // By name, with options from the environment, and with credentials, which TLS keeps secret.
    let port = servers.rsplit(':').next().unwrap();
    let mut doctor = program_of(&format!("tcp+tls://localhost:{port}"), "doctor --json");
    doctor.env("ZKLOCK_TLS_CA", &ca).env("ZKLOCK_DIGEST", "alice:wonderland");
    let report = output(doctor).await.report();
    assert_eq!(codes(&report), [""; 0]);
    let identities = report["servers"][0]["identities"].as_array().unwrap();
    assert!(identities.contains(&"digest:alice".into()), "{report}");

    // The certificate is for other addresses.
    let elsewhere = self::server(&authority, &["localhost"]).await;
    refused(&elsewhere.connect_string(), &["--tls-ca", &ca], "certificate").await;
    // Another authority of the same name.
    let other = files.write("other.pem", &Authority::new("one").pem());
    refused(&servers, &["--tls-ca", &other], "certificate").await;
    // A server without TLS.
    let other = ZooKeeper::start().await.unwrap();
    refused(&other.connect_string(), &["--tls-ca", &ca], "").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_may_ask_who_we_are() {
    let authority = Authority::new("one");
    let files = Files::new();
    let identity = authority.certify("server", &["127.0.0.1"]).pem();
    let server = ZooKeeper::builder().tls(identity).tls_clients(authority.pem()).start().await.unwrap();
    let servers = server.connect_string();
    let ca = files.write("ca.pem", &authority.pem());

    let (cert, key) = files.certify(&authority, "worker");
    let options = ["--tls-ca", &ca, "--tls-cert", &cert, "--tls-key", &key, "--connect-timeout", "5s"];
    let report = zklock(&servers, &[&["doctor", "--json"], &options[..]].concat()).await.report();
    assert_eq!(codes(&report), [""; 0]);
    let identities = report["servers"][0]["identities"].as_array().unwrap();
    assert!(identities.contains(&"x509:CN=worker".into()), "{report}");

    // Other commands present the certificate, too.
    let session = Session::connect(&servers).await.unwrap();
    let guard = session.lock("/lock").unwrap().acquire().await.unwrap();
    for command in [["verify", &guard.sequencer().unwrap().to_string()], ["show", "/lock"]] {
        zklock(&servers, &[&command[..], &options].concat()).await.says(0, "");
        let without = [&command[..], &options[..2], &["--connect-timeout", "500ms"]].concat();
        assert_eq!(zklock(&servers, &without).await.code, 69, "{without:?}");
    }

    // The certificate is an identity, so a lock's nodes may belong to it.
    let belongs = ["run", "--acl", "creator", "/owned"];
    let command = ["--", "sh", "-c", "exit 3"];
    zklock(&servers, &[&belongs, &options[..], &command].concat()).await.says(3, "");
    // Without a certificate there is none.
    zklock(&servers, &[&belongs[..], &command].concat()).await.says(64, "");

    let (cert, key) = files.certify(&Authority::new("another"), "stranger");
    refused(&servers, &["--tls-ca", &ca, "--tls-cert", &cert, "--tls-key", &key], "").await;
    refused(&servers, &["--tls-ca", &ca], "alert").await;
}

/// A command may change its directory, and a pipe can be read only once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_reaches_the_servers_that_its_zklock_was_given_as_options() {
    let authority = Authority::new("one");
    let files = Files::new();
    let identity = authority.certify("server", &["127.0.0.1"]).pem();
    let server = ZooKeeper::builder().tls(identity).tls_clients(authority.pem()).start().await.unwrap();
    files.write("ca.pem", &authority.pem());
    files.write("alice", "alice:wonderland");
    files.certify(&authority, "worker");
    let servers = server.connect_string();
    let options =
        ["-s", &servers, "--tls-ca", "ca.pem", "--tls-cert", "worker.pem", "--tls-key", "worker.key"];
    let verify = format!("cd / && exec '{}' verify \"$ZKLOCK_SEQUENCER\"", env!("CARGO_BIN_EXE_zklock"));
    let within = |more: &[&str], script: &str| {
        let mut program = run("", &[&options, more].concat(), "/lock", script);
        program.current_dir(files.directory());
        program
    };
    let owned = ["--digest-file", "alice", "--acl", "creator"];
    output(within(&owned, &verify)).await.says(0, "");
    let (reader, writer) = std::io::pipe().unwrap();
    std::io::Write::write_all(&mut &writer, b"alice:wonderland").unwrap();
    drop(writer);
    let mut piped = within(&["--digest-file", "/dev/stdin"], "echo \"${ZKLOCK_DIGEST_FILE-none}\"");
    piped.stdin(reader);
    output(piped).await.is(0, "none\n", "");
}

/// The doctor gets no session within the connect timeout. Its finding is that TLS failed, for this reason.
async fn refused(servers: &str, options: &[&str], problem: &str) {
    let run = zklock(servers, &[&["doctor", "--json", "--connect-timeout", "5s"], options].concat()).await;
    assert!(run.took < Duration::from_secs(20), "{run:?}");
    let report = run.finds(69, &["tls-failed"]);
    let told = report["servers"][0]["problem"].as_str().unwrap_or_default();
    assert!(told.contains(problem), "{problem:?}: {report}");
    for cause in ["uses TLS at this port", "has not expired", "demands a certificate"] {
        assert!(run.stderr.contains(cause), "{cause}: {run:?}");
    }
}

#[tokio::test]
async fn a_certificate_that_has_expired_is_told_by_every_command() {
    let authority = Authority::new("one");
    let files = Files::new();
    let identity = authority.certify_no_more("server", &["127.0.0.1"]).pem();
    let Ok(server) = ZooKeeper::builder().tls(identity).start().await else { panic!("no server") };
    let servers = server.connect_string();
    let ca = files.write("ca.pem", &authority.pem());
    for command in [&["show", "/lock"][..], &["run", "-q", "/lock", "--", "true"], &["ls"]] {
        let options = ["--tls-ca", &ca, "--connect-timeout", "3s"];
        let refused = zklock(&servers, &[&options, command].concat()).await;
        refused.is(69, "", "certificate expired");
        refused.is(69, "", &format!(": TLS with {} failed: ", servers.trim_start_matches("tcp+tls://")));
    }
    let export = ["export", "--listen", "127.0.0.1:0", "--tls-ca", &ca, "--connect-timeout", "3s"];
    let mut exporting = Running::start(program_of(&servers, &export));
    while !exporting.tells().await.contains("certificate expired") {}
}

/// Others renew the certificates of the servers, the authorities, and the client's certificate before its key.
#[tokio::test]
async fn certificates_that_are_renewed_on_disk_are_read_again() {
    let former = Authority::new("former");
    let next = Authority::new("next");
    let files = Files::new();
    let identity = |authority: &Authority| authority.certify("server", &["127.0.0.1"]).pem();
    let at_the_server = |authority: &Authority| {
        let trusted = files.write("clients.pem", &authority.pem());
        (files.write("server.pem", &identity(authority)), trusted)
    };
    let (certificate, trusted) = at_the_server(&former);
    let server = ZooKeeper::builder().tls(identity(&former)).tls_clients(former.pem());
    let server =
        server.property("ssl.keyStore.location", certificate).property("ssl.trustStore.location", trusted);
    let server = server.start().await.unwrap();
    let ca = files.write("ca.pem", &former.pem());
    let (cert, key) = files.certify(&former, "worker");
    let options =
        ["--restart", "--session-timeout", "4s", "--tls-ca", &ca, "--tls-cert", &cert, "--tls-key", &key];
    let daemon = run(&server.connect_string(), &options, "/lock", "echo up; exec sleep 1000");
    let mut daemon = Running::start(daemon);
    assert_eq!(daemon.prints().await, "up");

    let renewed = next.certify("worker", &[]);
    server.kill().await.unwrap();
    files.write("worker.pem", &renewed.certificate);
    while !daemon.tells().await.contains("zklock waits for /lock again") {}
    server.restart().await.unwrap();
    assert_eq!(daemon.prints().await, "up", "the former pair is kept");

    server.kill().await.unwrap();
    at_the_server(&next);
    server.restart().await.unwrap();
    while !daemon.tells().await.ends_with("zklock goes on trying") {}
    while !daemon.tells().await.starts_with("zklock: TLS with 127.0.0.1:") {}

    files.write("worker.key", &renewed.key);
    files.write("ca.pem", &next.pem());
    assert_eq!(daemon.prints().await, "up");
}
