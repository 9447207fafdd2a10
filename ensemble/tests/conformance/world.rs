//! A server as its clients see it: a real one here, a simulated one in [`net`](crate::net).

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A real server that says nothing for so long is stuck.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) trait World {
    /// Opens a connection to a server, and names it.
    fn open(&mut self, server: usize) -> u64;
    fn send(&mut self, connection: u64, bytes: &[u8]);
    /// The next frame without its length; `None` once the server has closed the connection.
    fn receive(&mut self, connection: u64) -> Option<Vec<u8>>;
    fn close(&mut self, connection: u64);
}

pub(crate) struct Real {
    addresses: Vec<String>,
    connections: BTreeMap<u64, TcpStream>,
    next: u64,
}

impl Real {
    pub(crate) fn new(addresses: Vec<String>) -> Self {
        Self { addresses, connections: BTreeMap::new(), next: 0 }
    }

    /// What a server answers to a four-letter word.
    pub(crate) fn ask(&self, server: usize, word: &str) -> String {
        let mut stream = TcpStream::connect(&self.addresses[server]).expect("a connection");
        stream.write_all(word.as_bytes()).expect("the server reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }

    /// Whether a connection has nothing to read for so long.
    pub(crate) fn is_quiet(&self, connection: u64, time: Duration) -> bool {
        let stream = &self.connections[&connection];
        stream.set_read_timeout(Some(time)).expect("a socket");
        let quiet = matches!(stream.peek(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock);
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        quiet
    }

    /// The last transaction that a server has applied.
    pub(crate) fn zxid(&self, server: usize) -> i64 {
        let answer = self.ask(server, "srvr");
        let zxid = answer.lines().find_map(|line| line.strip_prefix("Zxid: 0x")).expect("a zxid");
        i64::from_str_radix(zxid, 16).expect("a number")
    }
}

impl World for Real {
    fn open(&mut self, server: usize) -> u64 {
        let stream = TcpStream::connect(&self.addresses[server]).expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        self.next += 1;
        self.connections.insert(self.next, stream);
        self.next
    }

    fn send(&mut self, connection: u64, bytes: &[u8]) {
        // The server may have closed the connection. Then `receive` says so.
        let stream = self.connections.get_mut(&connection).expect("it is open");
        let _ = stream.write_all(bytes);
    }

    fn receive(&mut self, connection: u64) -> Option<Vec<u8>> {
        let stream = self.connections.get_mut(&connection)?;
        let mut read = |length: usize| {
            let mut bytes = vec![0; length];
            match stream.read_exact(&mut bytes) {
                Ok(()) => Some(bytes),
                Err(error)
                    if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) =>
                {
                    None
                }
                Err(error) => panic!("the server is stuck: {error}"),
            }
        };
        let length = u32::from_be_bytes(*read(4)?.first_chunk().expect("four bytes"));
        read(length as usize)
    }

    fn close(&mut self, connection: u64) {
        self.connections.remove(&connection);
    }
}
