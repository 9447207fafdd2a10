//! Running the program as a person does who looks at queues.

use super::Ran;
use zklock::{LockOptions, Session};
use zookeeper_client::{Acl, Acls, Client, CreateMode};

use zklock_test_support::Server;
use zklock_test_support::monitored;

/// Credentials in the form of ZKLOCK_DIGEST.
pub(crate) const DIGEST: &str = "operator:secret";

/// Runs the program on these servers, without a terminal.
pub(crate) async fn zklock(servers: &str, arguments: &[&str]) -> Ran {
    run(servers, "", arguments).await
}

/// As [`zklock`], with credentials.
pub(crate) async fn zklock_as(servers: &str, digest: &str, arguments: &[&str]) -> Ran {
    run(servers, digest, arguments).await
}

async fn run(servers: &str, digest: &str, arguments: &[&str]) -> Ran {
    let mut command = super::zklock(servers);
    command.env("ZKLOCK_DIGEST", digest).args(arguments);
    super::output(command).await
}

/// An address on which no server listens. No program gets this port by chance.
pub(crate) const NOBODY: &str = "127.0.0.1:1";

/// A session of its own, for an owner.
pub(crate) async fn session_of(server: &Server) -> Session {
    Session::connect(server.connect_string()).await.expect("a session")
}

pub(crate) fn owner(text: &str) -> LockOptions {
    LockOptions::new().owner(text)
}

/// A plain client with credentials.
pub(crate) async fn authorized(server: &Server) -> Client {
    let connector = Client::connector().with_auth("digest", DIGEST.as_bytes());
    connector.connect(&server.connect_string()).await.expect("a client")
}

/// Joins a lock's queue as kazoo does. Returns the path of the node.
pub(crate) async fn contend_as_kazoo(client: &Client, path: &str) -> String {
    let prefix = format!("{path}/1ef3b5a40e4f4cd59a397a9d3a6b7f10__lock__");
    let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let (_, sequence) = client.create(&prefix, b"", &options).await.expect("a node");
    format!("{prefix}{sequence}")
}

/// Sets a node's ACL.
pub(crate) async fn set_acl(client: &Client, path: &str, acls: &[Acl]) {
    client.set_acl(path, acls, None).await.expect("the ACL is set");
}

/// How many sessions the servers keep.
pub(crate) async fn sessions(server: &Server) -> u64 {
    monitored(server, "zk_global_sessions").await
}
