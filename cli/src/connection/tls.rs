//! TLS settings from PEM files: the authorities to trust, and the client's own certificate.

use std::fmt::Display;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use zklock::session::TlsOptions;

use crate::failure::Failure;

/// The same settings in three forms.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    /// For sessions.
    pub(crate) session: TlsOptions,
    /// For clients beside them.
    pub(crate) client: zookeeper_client::TlsOptions,
    /// For four-letter words.
    pub(crate) config: Arc<ClientConfig>,
}

/// Reads the files, and finds what is wrong with them. The client would report such an error as its own, or as the
/// servers'.
pub(super) fn read_settings(ca: &Path, identity: Option<(&Path, &Path)>) -> Result<Tls, Failure> {
    // More than one cryptography provider may be compiled in, so one is chosen. Only the first call has an effect.
    let _chosen = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let authorities = read_text(ca)?;
    let client = zookeeper_client::TlsOptions::new().with_pem_ca(&authorities).map_err(unusable(ca))?;
    let roots = CertificateDer::pem_slice_iter(authorities.as_bytes());
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(roots.collect::<Result<Vec<_>, _>>().map_err(unusable(ca))?);
    let revoked = CertificateRevocationListDer::pem_slice_iter(authorities.as_bytes());
    let revoked = revoked.collect::<Result<Vec<_>, _>>().map_err(unusable(ca))?;
    let verifier = WebPkiServerVerifier::builder(Arc::new(store)).with_crls(revoked).build();
    let builder = ClientConfig::builder().with_webpki_verifier(verifier.map_err(unusable(ca))?);
    let Some((cert, key)) = identity else {
        let session = TlsOptions::from_pem(&authorities, None).map_err(|error| unusable(ca)(error.reason))?;
        return Ok(Tls { session, client, config: Arc::new(builder.with_no_client_auth()) });
    };
    let ours = read_text(cert)?;
    let secret = read_text(key)?;
    let client = client.with_pem_identity(&ours, &secret).map_err(unusable(key))?;
    let chain = CertificateDer::pem_slice_iter(ours.as_bytes()).collect::<Result<Vec<_>, _>>();
    let private = PrivateKeyDer::from_pem_slice(secret.as_bytes()).map_err(unusable(key))?;
    let config = builder.with_client_auth_cert(chain.map_err(unusable(cert))?, private).map_err(|error| {
        Failure::usage(format_args!(
            "{} and {} cannot be used together: {error}; name the key that belongs to the certificate",
            cert.display(),
            key.display()
        ))
    })?;
    let session = TlsOptions::from_pem(&authorities, Some((&ours, &secret)));
    let session = session.map_err(|error| unusable(key)(error.reason))?;
    Ok(Tls { session, client, config: Arc::new(config) })
}

/// The text of a file that an option names.
pub(super) fn read_text(file: &Path) -> Result<String, Failure> {
    fs::read_to_string(file)
        .map_err(|error| Failure::usage(format_args!("{} cannot be read: {error}", file.display())))
}

fn unusable<E: Display>(file: &Path) -> impl Fn(E) -> Failure {
    move |error| Failure::usage(format_args!("{} cannot be used: {error}", file.display()))
}
