//! How connections are secured: TLS, and credentials.

#[cfg(feature = "tls")]
use rustls::{
    ClientConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};
#[cfg(feature = "tls")]
use zookeeper_client as zk;
use zookeeper_client::{Client, Connector};

/// How a connection is secured, for [`SessionBuilder::secured_by`](crate::SessionBuilder::secured_by).
#[derive(Clone)]
#[must_use = "it does nothing until a session connects with it"]
pub struct Security {
    pub(crate) connector: Connector,
    /// Whether it has TLS.
    pub(super) tls: bool,
}

impl Security {
    /// No TLS, and no credentials.
    pub fn new() -> Self {
        Self { connector: Client::connector(), tls: false }
    }

    /// See [`SessionBuilder::auth`](crate::SessionBuilder::auth).
    pub fn auth(self, scheme: &str, credentials: impl AsRef<[u8]>) -> Self {
        Self { connector: self.connector.with_auth(scheme, credentials.as_ref()), ..self }
    }

    /// See [`SessionBuilder::tls`](crate::SessionBuilder::tls).
    #[cfg(feature = "tls")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tls")))]
    pub fn tls(self, options: TlsOptions) -> Self {
        Self { connector: self.connector.with_tls(options.client_options()), tls: true }
    }

    /// See [`SessionBuilder::sasl`](crate::SessionBuilder::sasl).
    #[cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))]
    #[cfg_attr(docsrs, doc(cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))))]
    pub fn sasl(self, options: SaslOptions) -> Self {
        Self { connector: self.connector.with_sasl(options.client_options()), ..self }
    }
}

impl Default for Security {
    fn default() -> Self {
        Self::new()
    }
}

debug_shows!(Security, it, { tls: it.tls });

/// What a session trusts, and how it identifies itself, over TLS. Clones share it, so that certificates can be renewed while
/// the session lives. [`SessionBuilder::secured_by`](crate::SessionBuilder::secured_by) reads files again by itself.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use zklock::{Session, session::TlsOptions};
///
/// let read = |file| std::fs::read_to_string(file);
/// let tls = TlsOptions::from_pem(&read("ca.pem")?, Some((&read("client.pem")?, &read("client.key")?)))?;
/// let session = Session::builder("zk1:2281,zk2:2281").tls(tls.clone()).connect().await?;
///
/// // Once the files have changed:
/// tls.renew(&read("ca.pem")?, Some((&read("client.pem")?, &read("client.key")?)))?;
/// # drop(session);
/// # Ok(())
/// # }
/// ```
#[cfg(feature = "tls")]
#[cfg_attr(docsrs, doc(cfg(feature = "tls")))]
#[derive(Clone, Debug)]
pub struct TlsOptions(zk::TlsDynamicCerts);

#[cfg(feature = "tls")]
impl TlsOptions {
    /// Trusts the certificate authorities in this PEM text, except for what its revocation lists name. `identity` is the client's
    /// own certificate, with its chain, and its private key, in PEM text, too.
    ///
    /// # Errors
    ///
    /// [`InvalidPem`] if the text has no usable authority, or no certificate and key that belong together.
    ///
    /// # Panics
    ///
    /// If the program has several cryptography providers of rustls, and has installed none as the default (see `CryptoProvider` of
    /// rustls). It would panic at the first connection otherwise.
    pub fn from_pem(authorities: &str, identity: Option<(&str, &str)>) -> Result<Self, InvalidPem> {
        Ok(Self(zk::TlsDynamicCerts::new(certificates(authorities, identity)?)))
    }

    /// Takes other certificates, in the form of [`from_pem`](Self::from_pem), for each connection that is opened from now on. The present
    /// connection stays as it is.
    ///
    /// # Errors
    ///
    /// As those of [`from_pem`](Self::from_pem). The former certificates stay.
    pub fn renew(&self, authorities: &str, identity: Option<(&str, &str)>) -> Result<(), InvalidPem> {
        self.0.update(certificates(authorities, identity)?);
        Ok(())
    }

    fn client_options(self) -> zk::TlsOptions {
        zk::TlsOptions::new().with_certs(self.0)
    }
}

#[cfg(feature = "tls")]
fn certificates(authorities: &str, identity: Option<(&str, &str)>) -> Result<zk::TlsCerts, InvalidPem> {
    let certificates = zk::TlsCerts::builder().with_ca(zk::TlsCa::from_pem(authorities).map_err(invalid)?);
    let certificates = match identity {
        Some((certificate, key)) => {
            check_identity(certificate, key)?;
            certificates.with_identity(zk::TlsIdentity::from_pem(certificate, key).map_err(invalid)?)
        }
        None => certificates,
    };
    certificates.build().map_err(invalid)
}

/// Refuses a key that does not belong to its certificate. zookeeper-client would find it at the next connection, and open none.
#[cfg(feature = "tls")]
fn check_identity(certificate: &str, key: &str) -> Result<(), InvalidPem> {
    let chain = CertificateDer::pem_slice_iter(certificate.as_bytes()).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(invalid)?;
    if chain.is_empty() {
        return Err(invalid("there is no certificate"));
    }
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(invalid)?;
    let provider = ClientConfig::builder().crypto_provider().clone();
    CertifiedKey::from_der(chain, key, &provider).map(drop).map_err(invalid)
}

#[cfg(feature = "tls")]
fn invalid(error: impl std::fmt::Display) -> InvalidPem {
    InvalidPem { reason: error.to_string() }
}

/// Certificates or a key that [`TlsOptions`] cannot use.
#[cfg(feature = "tls")]
#[cfg_attr(docsrs, doc(cfg(feature = "tls")))]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the PEM text cannot be used: {reason}")]
#[non_exhaustive]
pub struct InvalidPem {
    /// What is wrong with it.
    pub reason: String,
}

/// Credentials of SASL. Their `Debug` shows no password.
#[cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))]
#[cfg_attr(docsrs, doc(cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))))]
#[derive(Clone)]
pub struct SaslOptions(zookeeper_client::SaslOptions);

#[cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))]
impl SaslOptions {
    /// A user and a password, by DIGEST-MD5. The password is not sent as it is.
    ///
    /// ```
    /// let options = zklock::session::SaslOptions::digest_md5("billing", "secret");
    /// assert!(!format!("{options:?}").contains("secret"));
    /// ```
    #[cfg(feature = "sasl-digest-md5")]
    #[cfg_attr(docsrs, doc(cfg(feature = "sasl-digest-md5")))]
    pub fn digest_md5(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self(zookeeper_client::SaslOptions::digest_md5(user.into(), password.into()).into())
    }

    /// A ticket of Kerberos from the ticket cache, for the service `service/host`, mostly of the service `zookeeper`. Without a
    /// `host`, the ticket is for the host of each server in the connect string.
    #[cfg(feature = "sasl-gssapi")]
    #[cfg_attr(docsrs, doc(cfg(feature = "sasl-gssapi")))]
    pub fn gssapi(service: impl Into<String>, host: Option<String>) -> Self {
        let options = zookeeper_client::SaslOptions::gssapi().with_username(service.into());
        Self(match host {
            Some(host) => options.with_hostname(host).into(),
            None => options.into(),
        })
    }

    fn client_options(self) -> zookeeper_client::SaslOptions {
        self.0
    }
}

#[cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))]
impl std::fmt::Debug for SaslOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SaslOptions").finish_non_exhaustive()
    }
}
