//! A session that does nothing and pings as ZooKeeper's Java client does, so as Curator's sessions do. It costs little
//! itself, so that ten thousand fit beside their servers on a small machine.

use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A ping: its length, its id -2, its type 11.
const PING: [u8; 12] = [0, 0, 0, 8, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 11];

/// Replies are far shorter.
const LONGEST: i32 = 1024;

pub(super) struct Pinging {
    stream: TcpStream,
    timeout: Duration,
}

impl Pinging {
    /// Opens a session of this timeout.
    pub(super) async fn open(address: &str, timeout: Duration) -> anyhow::Result<Self> {
        let mut stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let milliseconds = i32::try_from(timeout.as_millis())?;
        let mut request = 45_i32.to_be_bytes().to_vec();
        request.extend([0; 12]); // the protocol's version, and the last zxid seen
        request.extend(milliseconds.to_be_bytes());
        request.extend([0; 8]); // no session yet
        request.extend(16_i32.to_be_bytes());
        request.extend([0; 17]); // no password, and not read-only
        stream.write_all(&request).await?;
        let answer = read(&mut stream).await?;
        let granted = answer.get(4..8).context("a short answer")?;
        let granted = i32::from_be_bytes(granted.try_into()?);
        ensure!(granted == milliseconds, "a session timeout of {granted} ms was granted");
        Ok(Self { stream, timeout })
    }

    /// Pings after a third of the session timeout without traffic (`ClientCnxn.SendThread`: half of `readTimeout`, which
    /// is two thirds of the timeout), and at least every 10 s, until a ping is not answered.
    pub(super) async fn ping(mut self) -> anyhow::Result<()> {
        let pause = (self.timeout / 3).min(Duration::from_secs(10));
        loop {
            tokio::time::sleep(pause).await;
            self.stream.write_all(&PING).await?;
            read(&mut self.stream).await?;
        }
    }
}

async fn read(stream: &mut TcpStream) -> anyhow::Result<Vec<u8>> {
    let length = stream.read_i32().await?;
    ensure!((0..=LONGEST).contains(&length), "a reply of {length} bytes");
    let mut frame = vec![0; usize::try_from(length)?];
    stream.read_exact(&mut frame).await?;
    Ok(frame)
}
