//! Ending a client's session from outside, as an operator would.
//!
//! ZooKeeper has no command for it. But a client that knows a session's id and password may resume the session, and a
//! server derives the password from the id alone.

use std::{io, time::Duration};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use zklock_ensemble::password;

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
    // `RequestHeader` with the number 1; there is nothing behind it.
    let close = [1_i32.to_be_bytes(), CLOSE_SESSION.to_be_bytes()].concat();
    let conversation = async {
        let mut stream = TcpStream::connect(address).await?;
        // In one piece: the session's own client, which the server may drop now, must not resume it in between.
        stream.write_all(&[frame(&handshake(id)), frame(&close)].concat()).await?;
        if granted_timeout(&read_frame(&mut stream).await?)? <= 0 {
            return Ok(Closing::Unknown);
        }
        read_frame(&mut stream).await.map(|_| Closing::Closed)
    };
    timeout(ANSWER, conversation).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// `ConnectRequest`: protocol, last zxid, session timeout, id, password, and whether a read-only server will do.
fn handshake(id: i64) -> Vec<u8> {
    let password = password(id);
    let length = password.len() as u32;
    let (timeout, id) = (10_000_i32.to_be_bytes(), id.to_be_bytes());
    [&[0; 4 + 8][..], &timeout, &id, &length.to_be_bytes(), &password, &[0]].concat()
}

/// From `ConnectResponse`: zero or less if the server knows no such session.
fn granted_timeout(response: &[u8]) -> io::Result<i32> {
    let field = response.get(4..8).and_then(|bytes| bytes.try_into().ok());
    field.map(i32::from_be_bytes).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn frame(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u32).to_be_bytes()[..], message].concat()
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
