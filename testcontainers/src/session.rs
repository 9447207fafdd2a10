//! Ending a client's session from outside, as an operator would.
//!
//! ZooKeeper has no command for it. But a client that knows a session's id and password may resume the session, and a
//! server derives the password from the id alone: by `java.util.Random`, seeded with the id and a constant of ZooKeeper's
//! source (`ZooKeeperServer.superSecret`).

use std::{io, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// `ZooKeeperServer.superSecret`.
const SECRET: u64 = 0xB341_5C00;
const PASSWORD_LENGTH: usize = 16;
const CLOSE_SESSION: i32 = -11;
/// A server without a leader takes the connection and answers nothing.
const ANSWER: Duration = Duration::from_secs(5);
/// Answers to a handshake and to `closeSession` are far shorter.
const LONGEST: usize = 1024;

/// What a server answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    /// The session existed, and is closed.
    Closed,
    /// The server knows no such session.
    Unknown,
}

/// Resumes session `id` at the server at `address`, and closes it. After an error, it may be closed or not.
pub(crate) async fn close(address: &str, id: i64) -> io::Result<Closing> {
    let conversation = async {
        let mut stream = TcpStream::connect(address).await?;
        // In one piece: the session's own client, which the server may drop now, must not resume it in between.
        stream.write_all(&[frame(&handshake(id)), frame(&close_request())].concat()).await?;
        if granted_timeout(&read_frame(&mut stream).await?)? <= 0 {
            return Ok(Closing::Unknown);
        }
        read_frame(&mut stream).await.map(|_| Closing::Closed)
    };
    timeout(ANSWER, conversation).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// `ConnectRequest`.
fn handshake(id: i64) -> Vec<u8> {
    let (protocol, last_zxid, session_timeout, read_only) = (0_i32, 0_i64, 10_000_i32, 0_u8);
    let mut request = Vec::new();
    request.extend(protocol.to_be_bytes());
    request.extend(last_zxid.to_be_bytes());
    request.extend(session_timeout.to_be_bytes());
    request.extend(id.to_be_bytes());
    request.extend((PASSWORD_LENGTH as i32).to_be_bytes());
    request.extend(password(id));
    request.push(read_only);
    request
}

/// `RequestHeader`; there is nothing behind it.
fn close_request() -> Vec<u8> {
    let xid = 1_i32;
    [xid.to_be_bytes(), CLOSE_SESSION.to_be_bytes()].concat()
}

/// From `ConnectResponse`: zero or less if the server knows no such session.
fn granted_timeout(response: &[u8]) -> io::Result<i32> {
    let field = response.get(4..8).and_then(|bytes| bytes.try_into().ok());
    field.map(i32::from_be_bytes).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn frame(message: &[u8]) -> Vec<u8> {
    let mut frame = (message.len() as u32).to_be_bytes().to_vec();
    frame.extend(message);
    frame
}

async fn read_frame(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let length = stream.read_u32().await? as usize;
    if length > LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut message = vec![0; length];
    stream.read_exact(&mut message).await?;
    Ok(message)
}

/// `ZooKeeperServer.generatePasswd`.
fn password(id: i64) -> [u8; PASSWORD_LENGTH] {
    let mut random = Random::seeded(id as u64 ^ SECRET);
    let mut password = [0; PASSWORD_LENGTH];
    for four in password.chunks_mut(4) {
        four.copy_from_slice(&random.next().to_le_bytes());
    }
    password
}

/// `java.util.Random`, which Java's documentation defines to the bit.
struct Random(u64);

impl Random {
    const MULTIPLIER: u64 = 0x5_DEEC_E66D;
    const MASK: u64 = (1 << 48) - 1;

    fn seeded(seed: u64) -> Self {
        Self((seed ^ Self::MULTIPLIER) & Self::MASK)
    }

    /// `next(32)`.
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(Self::MULTIPLIER).wrapping_add(0xB) & Self::MASK;
        (self.0 >> 16) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_those_java_generates() {
        let hex = |id| password(id).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        // By `new java.util.Random(id ^ 0xB3415C00L).nextBytes(new byte[16])` on OpenJDK 17.
        assert_eq!(hex(1), "054cc74a37327db215e702e20c73f005");
        assert_eq!(hex(0x0100_0000_abcd_0000), "29c1a79902465990af66c1981b3b90cd");
        assert_eq!(hex(0x0300_0123_4567_89ab), "237710bc62d77989a42e8da77022789d");
        assert_eq!(hex(-1), "20f62cb5648dc2d771471c8a2486a9ee");
    }
}
