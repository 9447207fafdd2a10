//! An authority that certifies servers and clients, and the files that it gives to clients.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;

/// An authority to trust.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key, as PEM.
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = params(name, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().expect("a key");
        Self { issuer: CertifiedIssuer::self_signed(params, key).expect("a certificate") }
    }

    /// Its own certificate, as PEM.
    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Certifies a server or a client with these addresses.
    pub(crate) fn certify(&self, name: &str, addresses: &[&str]) -> Identity {
        self.certified(params(name, addresses))
    }

    /// The same, and the certificate has expired.
    pub(crate) fn certify_no_more(&self, name: &str, addresses: &[&str]) -> Identity {
        let mut params = params(name, addresses);
        (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1));
        self.certified(params)
    }

    fn certified(&self, mut params: CertificateParams) -> Identity {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        Identity { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

impl Identity {
    /// The certificate and the key, in the form that servers take.
    pub(crate) fn pem(&self) -> String {
        format!("{}{}", self.certificate, self.key)
    }
}

/// The files that a client is given.
pub(crate) struct Files(TempDir);

impl Files {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    pub(crate) fn directory(&self) -> &str {
        self.0.path().to_str().expect("a name")
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = format!("{}/{name}", self.directory());
        std::fs::write(&path, text).expect("a file");
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("a file");
        path
    }

    /// The files of a new certificate and its key.
    pub(crate) fn certify(&self, authority: &Authority, name: &str) -> (String, String) {
        let Identity { certificate, key } = authority.certify(name, &[]);
        (self.write(&format!("{name}.pem"), &certificate), self.write(&format!("{name}.key"), &key))
    }
}

fn params(name: &str, addresses: &[&str]) -> CertificateParams {
    let addresses = addresses.iter().map(|&address| address.to_owned()).collect::<Vec<_>>();
    let mut params = CertificateParams::new(addresses).expect("addresses");
    params.distinguished_name.push(DnType::CommonName, name);
    params
}
