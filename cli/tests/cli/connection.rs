//! The options that all commands share, from flags, the environment and files.

use std::fs;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;
use zklock::{Acl, LockOptions, Session};
use zklock_testcontainers::{ZooKeeper, ZooKeeperBuilder};

use crate::support::authority::{Authority, Files};
use crate::support::{Ran, at, codes, output, program_of};
use zklock_test_support::{own_server, server};

const SECRET: &str = "alice:wonder:land";

/// The report of `zklock doctor` with these variables and arguments.
async fn report(variables: &[(&str, &str)], arguments: &[&str]) -> Value {
    doctor(variables, arguments).await.report()
}

async fn doctor(variables: &[(&str, &str)], arguments: &[&str]) -> Ran {
    ran(variables, &["doctor", "--json"], arguments).await
}

/// `zklock` with these variables, and no other ones.
async fn ran(variables: &[(&str, &str)], command: &[&str], arguments: &[&str]) -> Ran {
    // An empty variable is none.
    let mut program = program_of("", &[command, arguments].concat());
    program.envs(variables.iter().copied());
    output(program).await
}

/// The identities that the server knows the client by.
fn identities(report: &Value) -> Vec<&str> {
    let identities = report["servers"][0]["identities"].as_array().expect("identities");
    identities.iter().filter_map(Value::as_str).filter(|identity| !identity.starts_with("ip:")).collect()
}

const SASL_PROVIDER: &str = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider";

/// A server that knows the user of the secret by SASL, if it asks for that.
fn with_jaas(files: &Files) -> ZooKeeperBuilder {
    let users =
        "Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_alice=\"wonder:land\"; };";
    ZooKeeper::builder().java_property("java.security.auth.login.config", files.write("jaas.conf", users))
}

#[tokio::test]
async fn the_environment_is_honoured_and_flags_win() {
    let (_server, servers) = at(server().await);
    let variables = [
        ("ZKLOCK_SERVERS", servers.as_str()),
        ("ZKLOCK_SESSION_TIMEOUT", "5s"),
        ("ZKLOCK_TICK", "100ms"),
        ("ZKLOCK_CONNECT_TIMEOUT", "20s"),
    ];
    let session = &report(&variables, &[]).await["session"];
    assert_eq!((&session["timeout_ms"], &session["tick_ms"]), (&5000.0.into(), &100.0.into()));
    let session = &report(&variables, &["--session-timeout", "7s", "--tick", "200ms"]).await["session"];
    assert_eq!((&session["timeout_ms"], &session["tick_ms"]), (&7000.0.into(), &200.0.into()));
    let nobody = report(&variables, &["--servers", "127.0.0.1:9"]).await;
    assert_eq!(nobody["servers"][0]["address"], "127.0.0.1:9");
    // Options may stand before and behind the command.
    let before =
        ran(&[("ZKLOCK_TICK", "1s")], &["--tick", "100ms", "doctor"], &["--json", "-s", &servers]).await;
    assert_eq!(before.report()["session"]["tick_ms"], 100.0);
    // Blanks between servers are no part of them.
    let server = own_server().await;
    let report = report(&[], &["--servers", &format!("{0} , {0}", server.connect_string())]).await;
    assert_eq!(report["servers"][1]["address"], server.connect_string().as_str());
}

#[tokio::test]
async fn an_empty_variable_is_none() {
    let (_server, servers) = at(server().await);
    let others = [
        "ZKLOCK_SESSION_TIMEOUT",
        "ZKLOCK_CONNECT_TIMEOUT",
        "ZKLOCK_TICK",
        "ZKLOCK_DIGEST",
        "ZKLOCK_DIGEST_FILE",
        "ZKLOCK_SASL",
        "ZKLOCK_TLS_CA",
        "ZKLOCK_TLS_CERT",
        "ZKLOCK_TLS_KEY",
    ]
    .map(|name| (name, ""));
    let report = report(&others, &["-s", &servers]).await;
    assert_eq!(report["session"]["timeout_ms"], 10_000.0);
    assert_eq!(report["servers"][0]["tls"], false);
    let nobody = doctor(&[("ZKLOCK_SERVERS", "")], &["--connect-timeout", "1s"]).await.report();
    assert_eq!(nobody["servers"][0]["address"], "localhost:2181");
    let help = ran(&[("ZKLOCK_TICK", "")], &["--help"], &[]).await;
    assert!(help.stdout.contains("ZKLOCK_TICK"), "{help:?}");
}

#[tokio::test]
async fn digest_credentials_come_from_the_environment_or_a_file() {
    let (_server, servers) = at(server().await);
    let files = Files::new();
    let bob = files.write("bob", "bob:builder\n");
    let carol = files.write("carol", "carol:x\r\n");
    let mut variables = vec![("ZKLOCK_SERVERS", servers.as_str())];
    assert_eq!(identities(&report(&variables, &[]).await), [""; 0]);
    variables.push(("ZKLOCK_DIGEST", SECRET));
    assert_eq!(identities(&report(&variables, &[]).await), ["digest:alice"]);
    // A file wins over the environment, and a flag over both.
    variables.push(("ZKLOCK_DIGEST_FILE", &bob));
    assert_eq!(identities(&report(&variables, &[]).await), ["digest:bob"]);
    assert_eq!(identities(&report(&variables, &["--digest-file", &carol]).await), ["digest:carol"]);
    let report = report(&variables, &[]).await;
    assert!(codes(&report).contains(&"digest-in-plain"), "{report}");
    assert!(!report.to_string().contains("builder"), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_open_a_lock_that_others_may_not_see() {
    let (_server, servers) = at(server().await);
    let session = Session::builder(&*servers).auth("digest", SECRET).connect().await.unwrap();
    let options = LockOptions::new().acl(Acl::creator_only());
    let guard = session.lock("/closed").unwrap().with_options(options).unwrap().acquire().await.unwrap();
    let claim = guard.sequencer().unwrap().to_string();
    let files = Files::new();
    let alice = files.write("alice", &format!("{SECRET}\n"));
    let mallory = files.write("mallory", "alice:wonder");
    for (file, mode) in [(&alice, 0o644), (&mallory, 0o640)] {
        std::fs::set_permissions(file, Permissions::from_mode(mode)).unwrap();
    }
    // The commands differ in what they ask.
    for command in [["show", "/closed"], ["verify", &claim]] {
        for (variables, arguments, code) in [
            (&[("ZKLOCK_DIGEST", SECRET)][..], &[][..], 0),
            (&[], &["--digest-file", &alice], 0),
            (&[("ZKLOCK_DIGEST_FILE", &alice)], &[], 0),
            (&[], &[], 77),
            (&[], &["--digest-file", &mallory], 77),
        ] {
            let ran = ran(variables, &command, &[&["-s", &servers], arguments].concat()).await;
            assert_eq!(ran.code, code, "{command:?} {variables:?} {arguments:?}: {ran:?}");
            let advice = "give credentials that the ACL names: --digest-file (or ZKLOCK_DIGEST)";
            assert_eq!(ran.stderr.contains(advice), code == 77, "{command:?}: {ran:?}");
            // Only one of the files may be read by everybody.
            let warns = ran.stderr.contains(&format!("run `chmod 600 {alice}`"));
            assert_eq!(warns, format!("{variables:?}{arguments:?}").contains(&alice), "{ran:?}");
            assert!(!ran.stderr.contains(&mallory), "{ran:?}");
        }
    }
    assert!(guard.is_held());
}

#[tokio::test]
async fn what_cannot_be_used_is_a_matter_of_usage() {
    let files = Files::new();
    let junk = &files.write("junk", "no credentials, no certificate, no key");
    let empty = &files.write("empty", "\n");
    let binary = &files.write("binary", "");
    fs::write(binary, [0xff, 0xfe, 0]).unwrap();
    let directory = files.directory();
    let absent = &format!("{binary}.absent");
    let authority = Authority::new("an authority");
    let ca = &files.write("ca.pem", &authority.pem());
    let (cert, _) = &files.certify(&authority, "ours");
    let (_, key) = &files.certify(&authority, "theirs");
    let cases: &[&[&str]] = &[
        &["--digest-file", absent],
        &["--digest-file", directory],
        &["--digest-file", junk],
        &["--digest-file", empty],
        &["--digest-file", binary],
        &["--tls-ca", absent],
        &["--tls-ca", junk],
        &["--tls-ca", binary],
        &["--tls-ca", ca, "--tls-cert", cert, "--tls-key", junk],
        &["--tls-ca", ca, "--tls-cert", junk, "--tls-key", key],
        // This is the key of another certificate.
        &["--tls-ca", ca, "--tls-cert", cert, "--tls-key", key],
        &["--tls-ca", ca, "--servers", "zk..example"],
        &["--tls-ca", ca, "--servers", "zk1.example,tcp://zk2.example"],
    ];
    for arguments in cases {
        // These are refused before any server is asked.
        println!("{arguments:?}");
        doctor(&[], arguments).await.says(64, "zklock: ");
    }
    for (digest, said) in [("alice:a\nbob:b", "more than one line"), (":secret", "no user before the colon")]
    {
        let run = doctor(&[("ZKLOCK_DIGEST", digest)], &[]).await.says(64, said);
        assert!(!run.stderr.contains("secret"), "{run:?}");
    }
    let run = doctor(&[("ZKLOCK_DIGEST", "wonderland")], &[]).await.says(64, "ZKLOCK_DIGEST");
    assert!(!run.stderr.contains("wonder"), "{run:?}");
}

#[tokio::test]
async fn credentials_that_the_server_cannot_check_are_rejected() {
    let server = ZooKeeper::builder()
        .java_property("zookeeper.DigestAuthenticationProvider.enabled", "false")
        .start()
        .await
        .unwrap();
    let servers = server.connect_string();
    let run = doctor(&[("ZKLOCK_DIGEST", SECRET)], &["-s", &servers]).await;
    assert_eq!(run.says(77, "reject the credentials").report()["error"]["code"], 77);
    let show = ran(&[("ZKLOCK_DIGEST", SECRET)], &["show", "/lock"], &["-s", &servers]).await;
    show.is(77, "", "reject the credentials");
    assert!(matches!(doctor(&[], &["-s", &servers]).await.code, 0 | 1), "without any it can be had");
}

#[tokio::test]
async fn a_server_may_demand_credentials() {
    let server = ZooKeeper::builder()
        .java_property("zookeeper.enforce.auth.enabled", "true")
        .java_property("zookeeper.enforce.auth.schemes", "digest")
        .start()
        .await
        .unwrap();
    let servers = server.connect_string();
    doctor(&[], &["-s", &servers]).await.says(77, "demand credentials");
    let run = doctor(&[("ZKLOCK_DIGEST", SECRET)], &["-s", &servers]).await;
    assert_eq!((run.code, identities(&run.report())), (1, vec!["digest:alice"]), "{run:?}");
}

#[tokio::test]
async fn a_server_may_demand_sasl() {
    let files = Files::new();
    let server = with_jaas(&files)
        .property("authProvider.1", SASL_PROVIDER)
        .java_property("zookeeper.sessionRequireClientSASLAuth", "true");
    let server = server.start().await.unwrap();
    let servers = server.connect_string();
    let alice = ("ZKLOCK_DIGEST", SECRET);
    let sasl = ("ZKLOCK_SASL", "digest-md5");
    for (variables, said) in [
        (&[][..], "if the servers demand SASL, add --sasl digest-md5"),
        (&[alice], "whether they demand SASL: then add --sasl digest-md5"),
        (&[("ZKLOCK_DIGEST", "alice:wonder"), sasl], "the servers' JAAS file"),
    ] {
        ran(variables, &["show", "/lock"], &["-s", &servers]).await.is(77, "", said);
    }
    let report = report(&[alice], &["-s", &servers]).await;
    assert_eq!(codes(&report), ["digest-in-plain", "credentials-rejected"]);
    // The password is not sent.
    let run = doctor(&[alice, sasl], &["-s", &servers]).await;
    assert_eq!((run.code, identities(&run.report())), (0, vec!["sasl:alice"]), "{run:?}");
    let creator = ["run", "--acl", "creator", "-s", &servers, "/lock", "--", "true"];
    ran(&[alice, sasl], &creator, &[]).await.says(0, "");
}

/// Such a server answers the first message of SASL as if it were the last one, and serves the client as anybody.
#[tokio::test]
async fn servers_that_take_no_sasl_credentials_are_refused() {
    let (_server, servers) = at(server().await);
    let variables = [("ZKLOCK_DIGEST", SECRET), ("ZKLOCK_SASL", "digest-md5"), ("ZKLOCK_SERVERS", &servers)];
    for command in
        [&["run", "--acl", "creator", "/lock", "--", "true"][..], &["show", "/lock"], &["ls"], &["doctor"]]
    {
        let said = "the server of this session took no SASL credentials (";
        ran(&variables, command, &[]).await.says(77, said).says(77, "leave out --sasl");
    }
}

/// The server of the session decides, and `doctor` looks at each one.
#[tokio::test]
async fn servers_that_serve_sasl_clients_without_a_name_are_told_apart() {
    let files = Files::new();
    let lenient = with_jaas(&files)
        .property("authProvider.1", SASL_PROVIDER)
        .java_property("zookeeper.allowSaslFailedClients", "true");
    let (lenient, nameless) = tokio::join!(lenient.start(), with_jaas(&files).start());
    for (server, digest, said) in
        [(lenient, "alice:wrong", "or they are wrong"), (nameless, SECRET, "authProvider.1")]
    {
        let server = server.unwrap();
        let servers = server.connect_string();
        let variables = [("ZKLOCK_DIGEST", digest), ("ZKLOCK_SASL", "digest-md5")];
        ran(&variables, &["show", "/lock"], &["-s", &servers]).await.is(77, "", said);
        let doctor = doctor(&variables, &["-s", &servers]).await;
        let findings = doctor.report()["findings"].to_string();
        assert!(codes(&doctor.report()).contains(&"no-sasl") && findings.contains(said), "{doctor:?}");
    }
}

/// A pipe can be read only once.
#[tokio::test]
async fn credentials_may_come_from_a_pipe() {
    let (_server, servers) = at(server().await);
    let (reader, mut writer) = std::io::pipe().unwrap();
    std::io::Write::write_all(&mut writer, "\u{feff}alice:wonder\n".as_bytes()).unwrap();
    drop(writer);
    let mut program = program_of(&servers, "doctor --json --digest-file /dev/stdin");
    program.stdin(reader);
    assert_eq!(identities(&output(program).await.report()), ["digest:alice"]);
}
