//! The addresses in a connect string.

use std::fmt;

use crate::path::check_visible;
use crate::text::is_harmful;
use crate::wire::error::ConnectError;

/// The schemes of an address, without TLS and with it.
const PLAIN: &str = "tcp://";
const TLS: &str = "tcp+tls://";

/// The port of an address without one.
const DEFAULT_PORT: u16 = 2181;

/// The address of one server in a connect string. It is written as `host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerAddress {
    /// The host, without the brackets of an IPv6 address.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Whether the server is reached over TLS.
    pub tls: bool,
}

impl ServerAddress {
    /// Reads a connect string, as [`Session::connect`](crate::Session::connect) does: the servers in their order, and the chroot, which
    /// is empty if there is none. An address without a scheme has TLS if `tls` is true.
    ///
    /// # Errors
    ///
    /// [`ConnectError::Servers`]
    pub fn parse(connect_string: &str, tls: bool) -> Result<(Vec<Self>, String), ConnectError> {
        read(connect_string, tls)
            .map_err(|cause| ConnectError::Servers { servers: without_secrets(connect_string), cause })
    }

    /// Returns a connect string for this server alone, with its scheme and without a chroot.
    pub fn connect_string(&self) -> String {
        format!("{}{self}", if self.tls { TLS } else { PLAIN })
    }

    fn of(text: &str, tls: bool) -> Result<Self, &'static str> {
        let (tls, text) = match (text.strip_prefix(TLS), text.strip_prefix(PLAIN)) {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            (None, None) => (tls, text),
        };
        if text.contains("://") {
            return Err("a scheme is neither tcp:// nor tcp+tls://");
        }
        if text.contains(|character: char| character.is_whitespace() || character == ';') {
            return Err("an address contains a blank or a semicolon; commas separate servers");
        }
        if text.contains(['"', '\'', '`', '\u{201c}', '\u{201d}']) {
            return Err("an address contains a quotation mark; leave it out");
        }
        if text.contains('@') {
            return Err("an address contains '@'; give credentials apart from the servers");
        }
        if text.contains(is_harmful) {
            return Err("an address contains a character that nobody sees; leave it out");
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
        if host.contains(['[', ']']) {
            return Err("a host contains a bracket; brackets stand around an IPv6 address: [::1]:2181");
        }
        Ok(Self { host: host.to_owned(), port, tls })
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

fn read(text: &str, tls: bool) -> Result<(Vec<ServerAddress>, String), String> {
    let mut servers = Vec::new();
    let mut chroot = "";
    for server in text.split(',').map(str::trim) {
        if !chroot.is_empty() {
            return Err("the chroot stands once, after the last server".to_owned());
        }
        let (address, below) = split(server);
        servers.push(ServerAddress::of(address, tls)?);
        chroot = below;
    }
    if !chroot.is_empty() {
        check_visible(chroot).map_err(|problem| format!("the chroot is no path: {problem}"))?;
    }
    Ok((servers, chroot.trim_end_matches('/').to_owned()))
}

/// The text without what stands before an `@`, which may be a password.
fn without_secrets(text: &str) -> String {
    let hidden =
        |server: &str| server.rsplit_once('@').map_or(server.to_owned(), |(_, host)| format!("…@{host}"));
    text.split(',').map(hidden).collect::<Vec<_>>().join(",")
}

/// Splits a server from the chroot behind it. The slashes of a scheme begin no chroot.
fn split(server: &str) -> (&str, &str) {
    let scheme = server.find("://").map_or(0, |at| at + "://".len());
    server.split_at(server[scheme..].find('/').map_or(server.len(), |slash| scheme + slash))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_port_a_scheme_and_a_chroot_may_be_left_out() {
        let read = |text: &str, tls| {
            let (servers, chroot) = ServerAddress::parse(text, tls).unwrap();
            (servers.iter().map(ServerAddress::connect_string).collect::<Vec<_>>().join(" "), chroot)
        };
        for (text, tls, servers, chroot) in [
            ("zk1", false, "tcp://zk1:2181", ""),
            (" zk1 , tcp://zk2: ,[::1]:1", false, "tcp://zk1:2181 tcp://zk2:2181 tcp://[::1]:1", ""),
            ("tcp+tls://zk1/", false, "tcp+tls://zk1:2181", ""),
            ("zk1:1,tcp://zk2/app/locks", true, "tcp+tls://zk1:1 tcp://zk2:2181", "/app/locks"),
        ] {
            assert_eq!(read(text, tls), (servers.to_owned(), chroot.to_owned()), "{text:?}");
        }
    }

    #[test]
    fn what_is_malformed_is_refused() {
        for (text, expected) in [
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
            ("a]b:2181", "a host contains a bracket; brackets stand around an IPv6 address: [::1]:2181"),
            ("zk[1", "a host contains a bracket; brackets stand around an IPv6 address: [::1]:2181"),
            ("[[::1]:2181", "a host contains a bracket; brackets stand around an IPv6 address: [::1]:2181"),
            ("::1", "an IPv6 address needs brackets: [::1]:2181"),
            ("zk1,fe80::1:2181", "an IPv6 address needs brackets: [::1]:2181"),
            ("zk 1", "an address contains a blank"),
            ("zk1:2181; zk2:2181", "an address contains a blank or a semicolon; commas separate servers"),
            ("user:pw@zk1:2181", "an address contains '@'; give credentials apart from the servers"),
            ("\"zk1:2181\"", "an address contains a quotation mark; leave it out"),
            ("zk1,'zk2'", "an address contains a quotation mark; leave it out"),
            ("zk1\u{200b}:2181", "an address contains a character that nobody sees; leave it out"),
            ("zk1\u{7}", "an address contains a character that nobody sees; leave it out"),
            ("http://zk1:2181", "a scheme is neither tcp:// nor tcp+tls://"),
            ("zk1/app,zk2", "the chroot stands once, after the last server"),
            ("zk1:2181/app,zk2:2181/app", "the chroot stands once, after the last server"),
            ("zk1/app/", "the chroot is no path"),
            ("zk1/app\u{200b}", "the chroot is no path"),
        ] {
            let error = ServerAddress::parse(text, false).unwrap_err();
            let ConnectError::Servers { servers, cause } = error else { panic!("{error}") };
            assert!(servers == without_secrets(text) && cause.starts_with(expected), "{text:?}: {cause}");
            assert!(!servers.contains("pw"), "{servers}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_names_servers_whose_own_text_names_them(
            text in prop_oneof![any::<String>(), "((tcp(\\+tls)?)?://)?[\\[\\]a-z0-9:.%, ]{1,9}(/[a-z.]{0,3}){0,2}"],
            tls: bool,
        ) {
            if let Ok((servers, chroot)) = ServerAddress::parse(&text, tls) {
                prop_assert!(servers.iter().all(|server| !server.host.contains(['[', ']', ' ', ',', '/'])));
                let texts = servers.iter().map(ServerAddress::connect_string).collect::<Vec<_>>().join(",");
                let again = ServerAddress::parse(&format!("{texts}{chroot}"), !tls);
                prop_assert_eq!(again.unwrap(), (servers, chroot));
            }
        }
    }
}
