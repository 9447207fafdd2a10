//! What a server is configured with: `zoo.cfg`, system properties, and files that it starts from.

use crate::{Backend, Error};

/// ZooKeeper knows by the ends of these names what the files contain.
const IDENTITY: &str = "server.pem";
const CLIENTS: &str = "clients.pem";

/// Options of a server or an ensemble, as its builder collected them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(crate) properties: Vec<(String, String)>,
    /// Properties of one server of an ensemble, by its index.
    pub(crate) properties_of: Vec<(usize, String, String)>,
    /// The servers without a vote, by their index.
    pub(crate) observers: Vec<usize>,
    pub(crate) java_properties: Vec<(String, String)>,
    pub(crate) data_files: Vec<(String, Vec<u8>)>,
    /// The certificate and key to speak TLS with.
    pub(crate) tls: Option<Vec<u8>>,
    /// The authorities. Clients that speak TLS need a certificate of one of them.
    pub(crate) tls_clients: Option<Vec<u8>>,
    pub(crate) backend: Option<Backend>,
}

/// Where one server keeps its files and where it listens, in its own view.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// The directory of `zoo.cfg` and of the files that it names.
    pub(crate) conf: String,
    pub(crate) data: String,
    pub(crate) data_log: String,
    pub(crate) client_host: String,
    pub(crate) client_port: u16,
    /// The `server.N` lines of the ensemble. A standalone server has none.
    pub(crate) members: Vec<Member>,
}

/// Where one member of the ensemble is found, in the view of the server whose configuration it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) id: usize,
    pub(crate) host: String,
    pub(crate) quorum_port: u16,
    pub(crate) election_port: u16,
}

impl Member {
    /// All members of the ensemble in the order of their ids; none if there are no peers, for a standalone server.
    pub(crate) fn among(self, peers: &[Self]) -> Vec<Self> {
        let mut members = peers.to_vec();
        if !peers.is_empty() {
            members.push(self);
            members.sort_by_key(|member| member.id);
        }
        members
    }
}

impl Options {
    /// Refuses options with which the server would fail or, worse, that it would misread.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let invalid = |text: String| Err(Error::InvalidOption(text));
        let of_one = self.properties_of.iter().map(|(_, key, value)| (key, value));
        for (key, value) in self.properties.iter().map(|(key, value)| (key, value)).chain(of_one) {
            if key.is_empty() || key.contains(['=', '\n']) || value.contains('\n') {
                return invalid(format!("property {key:?} = {value:?} is no line of zoo.cfg"));
            }
            if key == "tickTime" && value == "0" {
                return invalid("tick_time must be at least 1 ms".into());
            }
        }
        for (key, value) in &self.java_properties {
            if key.is_empty() || key.contains('=') || format!("{key}{value}").contains(char::is_whitespace) {
                return invalid(format!("system property {key:?} = {value:?}: blanks cannot be passed on"));
            }
        }
        if self.tls_clients.is_some() && self.tls.is_none() {
            return invalid("tls_clients is for servers that speak TLS; give them a certificate, too".into());
        }
        for (name, _) in &self.data_files {
            if name.is_empty() || name.contains('/') || name.starts_with('.') {
                return invalid(format!("data file {name:?} must be a plain name such as snapshot.0"));
            }
        }
        Ok(())
    }

    /// The options of server `index`: its own properties replace those of all.
    pub(crate) fn of(&self, index: usize) -> Self {
        let mut options = self.clone();
        let own = options.properties_of.drain(..).filter(|(server, ..)| *server == index);
        options.properties.extend(own.map(|(_, key, value)| (key, value)));
        options
    }

    /// The text of `zoo.cfg`. A property that the user sets replaces the default of the same name.
    pub(crate) fn zoo_cfg(&self, layout: &Layout) -> String {
        let mut lines: Vec<(String, String)> = Vec::new();
        let mut set = |key: &str, value: String| {
            lines.retain(|(it, _)| it != key);
            lines.push((key.to_owned(), value));
        };
        set("tickTime", "2000".into());
        set("initLimit", "10".into());
        set("syncLimit", "5".into());
        set("dataDir", layout.data.clone());
        set("dataLogDir", layout.data_log.clone());
        set("clientPort", layout.client_port.to_string());
        set("clientPortAddress", layout.client_host.clone());
        set("maxClientCnxns", "0".into());
        set("standaloneEnabled", layout.members.is_empty().to_string());
        set("admin.enableServer", "false".into());
        set("4lw.commands.whitelist", "*".into());
        for member in &layout.members {
            let Member { id, host, quorum_port, election_port } = member;
            let role = if self.observers.contains(&(id - 1)) { ":observer" } else { "" };
            set(&format!("server.{id}"), format!("{host}:{quorum_port}:{election_port}{role}"));
        }
        if self.tls.is_some() {
            // The default factory, NIO, has no TLS.
            set("serverCnxnFactory", "org.apache.zookeeper.server.NettyServerCnxnFactory".into());
            set("client.portUnification", "true".into());
            set("ssl.keyStore.location", format!("{}/{IDENTITY}", layout.conf));
            set("ssl.clientAuth", if self.tls_clients.is_some() { "need" } else { "none" }.into());
        }
        if self.tls_clients.is_some() {
            set("ssl.trustStore.location", format!("{}/{CLIENTS}", layout.conf));
            set("authProvider.x509", "org.apache.zookeeper.server.auth.X509AuthenticationProvider".into());
        }
        for (key, value) in &self.properties {
            set(key, value.clone());
        }
        lines.into_iter().map(|(key, value)| format!("{key}={value}\n")).collect()
    }

    /// The files that belong beside `zoo.cfg`.
    pub(crate) fn conf_files(&self) -> impl Iterator<Item = (&'static str, &[u8])> {
        let files = [(IDENTITY, &self.tls), (CLIENTS, &self.tls_clients)];
        files.into_iter().filter_map(|(name, bytes)| Some((name, bytes.as_deref()?)))
    }

    /// Flags for the Java machine. It is small, starts fast, and does not wait for disks. The user's properties follow.
    pub(crate) fn jvm_flags(&self) -> Vec<String> {
        let mut flags: Vec<String> = [
            "-Xmx256m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Dzookeeper.forceSync=no",
            "-Dzookeeper.preAllocSize=1024",
        ]
        .map(String::from)
        .into();
        // If a property is given twice, Java takes the last.
        flags.extend(self.java_properties.iter().map(|(key, value)| format!("-D{key}={value}")));
        flags
    }
}
