//! A live restore: the admin server puts an old snapshot in place of the tree, under sessions that go on (ZooKeeper 3.9).

use std::io;
use std::time::Duration;

use support::{eventually, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zklock::{LostReason, Session};
use zklock_testcontainers::testcontainers::core::{ContainerPort, IntoContainerPort};
use zklock_testcontainers::testcontainers::runners::AsyncRunner;
use zklock_testcontainers::testcontainers::{ContainerAsync, ImageExt};
use zklock_testcontainers::{Backend, ZooKeeper, ZooKeeperImage};

const ADMIN: u16 = 8080;

async fn address(server: &ContainerAsync<ZooKeeperImage>, port: ContainerPort) -> String {
    let port = server.get_host_port_ipv4(port).await.unwrap();
    format!("{}:{port}", server.get_host().await.unwrap())
}

/// Sends a command to the admin server. Returns the body of its answer.
async fn command(server: &ContainerAsync<ZooKeeperImage>, command: &str, body: &[u8]) -> Vec<u8> {
    let answer = exchange(server, command, body).await.unwrap();
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
    let (head, body) = answer.split_at(end + 4);
    let head = String::from_utf8_lossy(head);
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    body.to_vec()
}

async fn exchange(
    server: &ContainerAsync<ZooKeeperImage>,
    command: &str,
    body: &[u8],
) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address(server, ADMIN.tcp()).await).await?;
    let length = body.len();
    let head = format!(
        "{command} HTTP/1.0\r\nAuthorization: digest operator:secret\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(&[head.as_bytes(), body].concat()).await?;
    let mut answer = Vec::new();
    within("the answer", stream.read_to_end(&mut answer)).await?;
    Ok(answer)
}

/// The restored tree numbers its contenders as before, so another contender gets the name of the holder's node. The
/// holder's watches are gone, and its connection is not.
#[tokio::test]
async fn a_holder_whose_name_another_contender_got_by_a_restore_hears_of_it_at_a_heartbeat() {
    if ZooKeeper::start().await.unwrap().backend() == Backend::Local {
        eprintln!("no containers here: a restore is not tested");
        return;
    }
    let options = ZooKeeper::builder()
        .property("admin.enableServer", "true")
        .property("admin.serverPort", ADMIN.to_string());
    let server = ZooKeeperImage::from(options)
        .with_mapped_port(0, ZooKeeperImage::CLIENT_PORT)
        .with_mapped_port(0, ADMIN.tcp())
        // A stand-in of the official image has this file, and not among the classes of the server.
        .with_env_var("SERVER_JVMFLAGS", "-Xbootclasspath/a:/usr/share/java/servlet-api.jar")
        .start()
        .await
        .unwrap();
    eventually("the admin server", async || exchange(&server, "GET /commands/ruok", b"").await.is_ok()).await;
    let client = address(&server, ZooKeeperImage::CLIENT_PORT).await;
    let connect = async || Session::builder(&client).session_timeout(Duration::from_secs(10)).connect().await;
    let (one, other) = (connect().await.unwrap(), connect().await.unwrap());
    let (lock, others) = (one.lock("/lock/orders").unwrap(), other.lock("/lock/orders").unwrap());
    // The directory is in the snapshot.
    lock.acquire().await.unwrap().release().await.unwrap();
    let snapshot = command(&server, "GET /commands/snapshot?streaming=true", b"").await;
    let guard = lock.acquire().await.unwrap();
    eventually("the holder's watch", async || {
        let counts = command(&server, "GET /commands/monitor", b"").await;
        String::from_utf8_lossy(&counts).contains("\"watch_count\" : 1,")
    })
    .await;
    command(&server, "POST /commands/restore", &snapshot).await;
    let next = within("the next guard", others.acquire()).await.unwrap();
    assert_eq!(next.node(), guard.node());
    // A server that was restored expires every session of before, after a session timeout.
    assert_eq!(within("the loss", guard.lost()).await, LostReason::NodeDeleted);
    assert!(next.is_held());
}
