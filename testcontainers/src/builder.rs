//! Options of servers and ensembles, and how they are started.

use std::time::Duration;

use crate::{Backend, Ensemble, Error, ZooKeeper, ZooKeeperImage, config::Options};

macro_rules! builder {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        #[must_use = "a builder does nothing until it is started"]
        pub struct $name {
            options: Options,
            size: usize,
        }

        impl $name {
            /// The length of a tick; 2 s unless set, as in ZooKeeper's own documentation.
            ///
            /// Servers grant session timeouts of 2 to 20 ticks, unless [`min_session_timeout`](Self::min_session_timeout) and
            /// [`max_session_timeout`](Self::max_session_timeout) are set. With ticks of 200 ms, a client that asks for 10 s
            /// gets 4 s: see [short ticks](crate#short-ticks). A follower that hears nothing from its leader, and a leader that
            /// hears nothing from a quorum, give up after `syncLimit` = 5 ticks.
            pub fn tick_time(self, tick: Duration) -> Self {
                self.property("tickTime", tick.as_millis().to_string())
            }

            /// The shortest session timeout that servers grant; two ticks unless set.
            pub fn min_session_timeout(self, timeout: Duration) -> Self {
                self.property("minSessionTimeout", timeout.as_millis().to_string())
            }

            /// The longest session timeout that servers grant; twenty ticks unless set.
            pub fn max_session_timeout(self, timeout: Duration) -> Self {
                self.property("maxSessionTimeout", timeout.as_millis().to_string())
            }

            /// Any line of `zoo.cfg`. It replaces the default of the same name.
            pub fn property(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
                self.options.properties.push((key.into(), value.into()));
                self
            }

            /// A Java system property, given as `-Dkey=value`. Examples are `readonlymode.enabled` and
            /// `znode.container.checkIntervalMs`. Neither part may contain blanks.
            pub fn java_property(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
                self.options.java_properties.push((key.into(), value.into()));
                self
            }

            /// A file, such as a prepared [`Snapshot`](crate::Snapshot), that every server finds among its data when it first
            /// starts.
            pub fn data_file(mut self, name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
                self.options.data_files.push((name.into(), bytes.into()));
                self
            }

            /// Servers speak TLS with this certificate and its private key (PKCS #8, not encrypted), both PEM, one after the
            /// other.
            ///
            /// Servers speak TLS at their usual address, and still accept clients without TLS there ([port unification][ssl]).
            /// They use Netty, because ZooKeeper's other network layer, its default, has no TLS.
            ///
            /// [ssl]: https://zookeeper.apache.org/doc/r3.9.3/zookeeperAdmin.html#sc_authOptions
            pub fn tls(mut self, identity: impl Into<Vec<u8>>) -> Self {
                self.options.tls = Some(identity.into());
                self
            }

            /// Servers that speak TLS demand a certificate of each client that does. One of these authorities (PEM) must have
            /// signed it. Its subject is the client's identity of scheme `x509`.
            pub fn tls_clients(mut self, authorities: impl Into<Vec<u8>>) -> Self {
                self.options.tls_clients = Some(authorities.into());
                self
            }

            /// How servers are run. The choice of `ZKLOCK_TEST_BACKEND` does not count then.
            pub fn backend(mut self, backend: Backend) -> Self {
                self.options.backend = Some(backend);
                self
            }
        }
    };
}

builder! {
    /// Options for one server; from [`ZooKeeper::builder`].
    ZooKeeperBuilder
}

builder! {
    /// Options for an ensemble; from [`Ensemble::builder`].
    EnsembleBuilder
}

impl ZooKeeper {
    /// Options for a server.
    pub fn builder() -> ZooKeeperBuilder {
        ZooKeeperBuilder { options: Options::default(), size: 1 }
    }
}

impl Ensemble {
    /// Options for an ensemble of `size` servers.
    pub fn builder(size: usize) -> EnsembleBuilder {
        EnsembleBuilder { options: Options::default(), size }
    }
}

impl ZooKeeperBuilder {
    /// Starts the server and waits until it serves.
    ///
    /// # Errors
    /// When neither backend works on this machine, an option cannot work, or the server does not serve within a minute.
    pub async fn start(self) -> Result<ZooKeeper, Error> {
        Ensemble::start_with(self.size, &self.options).await.map(ZooKeeper::new)
    }
}

/// The image with these options, but for [`backend`](ZooKeeperBuilder::backend): the runner's engine runs it.
impl From<ZooKeeperBuilder> for ZooKeeperImage {
    fn from(builder: ZooKeeperBuilder) -> Self {
        Self::new(1, Vec::new(), builder.options, true)
    }
}

impl EnsembleBuilder {
    /// Any line of the `zoo.cfg` of server `index` alone. It replaces a [`property`](Self::property) or default of the same
    /// name. It is for servers that differ, for instance in `maxSessionTimeout`.
    pub fn property_of(mut self, index: usize, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.properties_of.push((index, key.into(), value.into()));
        self
    }

    /// Makes server `index` an observer: it serves clients, and has no vote.
    pub fn observer(mut self, index: usize) -> Self {
        self.options.observers.push(index);
        self.property_of(index, "peerType", "observer")
    }

    /// Starts the servers and waits until all of them serve.
    ///
    /// # Errors
    /// When neither backend works on this machine, an option cannot work, or a server does not serve within a minute.
    pub async fn start(self) -> Result<Ensemble, Error> {
        Ensemble::start_with(self.size, &self.options).await
    }
}
