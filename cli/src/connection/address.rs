//! The addresses in the connect string.

use std::fmt;

use rustls::pki_types::ServerName;

use crate::failure::Failure;

/// The port of an address without one.
const DEFAULT_PORT: u16 = 2181;

/// The schemes of an address, with TLS and without.
pub(super) const TLS: &str = "tcp+tls://";
const PLAIN: &str = "tcp://";

/// The address of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) tls: bool,
}

impl Address {
    /// A connect string for this server alone.
    pub(crate) fn connect_string(&self) -> String {
        format!("{}{self}", if self.tls { TLS } else { PLAIN })
    }

    fn parse(text: &str) -> Result<Self, &'static str> {
        let (tls, text) = match (text.strip_prefix(TLS), text.strip_prefix(PLAIN)) {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            (None, None) => (false, text),
        };
        if text.contains("://") {
            return Err("a scheme is neither tcp:// nor tcp+tls://");
        }
        if !text.starts_with('[') && text.matches(':').count() > 1 {
            return Err("an IPv6 address needs brackets: [::1]:2181");
        }
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => rest.split_once(']').ok_or("a bracket is not closed")?,
            None => text.find(':').map_or((text, ""), |colon| text.split_at(colon)),
        };
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => DEFAULT_PORT,
            Some("") => DEFAULT_PORT,
            Some(port) => {
                port.parse().ok().filter(|port| *port > 0).ok_or("a port is not a number from 1 to 65535")?
            }
            None => return Err("something other than a port follows a bracket"),
        };
        if host.is_empty() {
            return Err("a host is missing");
        }
        if host.contains(|character: char| character.is_whitespace() || character.is_control()) {
            return Err("a host contains a blank");
        }
        // The client does not check that a certificate can have such a name.
        if tls && ServerName::try_from(host).is_err() {
            return Err("a certificate cannot have this host name");
        }
        Ok(Self { host: host.to_owned(), port, tls })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// The chroot of a connect string; `/` if it has none.
pub(super) fn chroot(connect_string: &str) -> String {
    let (_, chroot) = split(connect_string.rsplit(',').next().unwrap_or_default());
    if chroot.is_empty() { "/".to_owned() } else { chroot.to_owned() }
}

/// Splits a server from the chroot behind it. The slashes of a scheme begin no chroot.
fn split(server: &str) -> (&str, &str) {
    let scheme = server.find("://").map_or(0, |at| at + "://".len());
    server.split_at(server[scheme..].find('/').map_or(server.len(), |slash| scheme + slash))
}

/// The servers that a connect string names. The library reads connect strings by the same rules.
pub(super) fn parse(connect_string: &str) -> Result<Vec<Address>, Failure> {
    addresses(connect_string).map_err(|problem| {
        Failure::usage(format_args!(
            "the connect string {connect_string:?} is malformed ({problem}); write host:port,host:port/chroot"
        ))
    })
}

fn addresses(connect_string: &str) -> Result<Vec<Address>, &'static str> {
    let (mut servers, mut chroot) = (Vec::new(), "");
    for server in connect_string.split(',').map(str::trim) {
        if !chroot.is_empty() {
            return Err("the chroot stands once, after the last server");
        }
        let (address, below) = split(server);
        servers.push(Address::parse(address)?);
        chroot = below;
    }
    Ok(servers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(host: &str, port: u16, tls: bool) -> Address {
        Address { host: host.to_owned(), port, tls }
    }

    #[test]
    fn a_port_and_a_scheme_may_be_left_out() {
        let servers = parse("zk1,tcp://zk2:2182,tcp+tls://zk3:,[::1]:2281,[::2]/app/locks").unwrap();
        let expected = [
            address("zk1", 2181, false),
            address("zk2", 2182, false),
            address("zk3", 2181, true),
            address("::1", 2281, false),
            address("::2", 2181, false),
        ];
        assert_eq!(servers, expected);
        assert_eq!(servers[2].connect_string(), "tcp+tls://zk3:2181");
        assert_eq!(servers[3].connect_string(), "tcp://[::1]:2281");
    }

    #[test]
    fn a_chroot_stands_behind_the_last_server() {
        for (text, expected) in
            [("zk1,zk2", "/"), ("tcp+tls://zk1", "/"), ("zk1,tcp://zk2:1/app/locks", "/app/locks")]
        {
            assert_eq!(chroot(text), expected, "{text}");
        }
    }

    #[tokio::test]
    async fn what_is_malformed_is_refused_by_program_and_library_alike() {
        let well = ["zk1", " zk1 , zk2:2182 ", "tcp://zk1:,[::1]:2281", "[::1]/app/locks"];
        let malformed = [
            ("", "a host is missing"),
            (",", "a host is missing"),
            ("zk1,,zk2", "a host is missing"),
            ("zk1,", "a host is missing"),
            (":2181", "a host is missing"),
            ("[]:1", "a host is missing"),
            ("/app", "a host is missing"),
            ("zk1:0", "a port is not a number from 1 to 65535"),
            ("zk1:65536", "a port is not a number from 1 to 65535"),
            ("zk1:port/app", "a port is not a number from 1 to 65535"),
            ("[::1", "a bracket is not closed"),
            ("[::1]2181", "something other than a port follows a bracket"),
            ("[::1]x:2181", "something other than a port follows a bracket"),
            ("::1", "an IPv6 address needs brackets: [::1]:2181"),
            ("zk1,fe80::1:2181", "an IPv6 address needs brackets: [::1]:2181"),
            ("zk 1", "a host contains a blank"),
            ("zk1 zk2:2181", "a host contains a blank"),
            ("http://zk1:2181", "a scheme is neither tcp:// nor tcp+tls://"),
            ("zk1/app,zk2", "the chroot stands once, after the last server"),
            ("zk1:2181/app,zk2:2181/app", "the chroot stands once, after the last server"),
        ];
        let cases = well.into_iter().map(|text| (text, None));
        for (text, expected) in cases.chain(malformed.map(|(text, cause)| (text, Some(cause)))) {
            assert_eq!(addresses(text).err(), expected, "{text:?}");
            let library = match zklock::Session::builder(text).connect_lazy() {
                Ok(_) => None,
                Err(zklock::ConnectError::Servers { cause, .. }) => Some(cause),
                Err(error) => panic!("{text:?}: {error}"),
            };
            assert_eq!(library.as_deref(), expected, "{text:?}");
        }
        for text in ["tcp+tls://zk..example", "tcp+tls://127.1", "tcp+tls://[fe80::1%eth0]"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}
