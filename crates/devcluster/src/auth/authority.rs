//! The certificate authority of a cluster: it vouches for the server to clients, and for clients to the server.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::User;
use super::user::AUTHENTICATED;

/// Names that the server's certificate is for, besides the address of its door.
const SERVER_NAMES: [&str; 6] = ["localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];

/// What a client shows over TLS to be a user.
#[derive(Clone)]
pub struct ClientCertificate {
    /// The certificate.
    pub certificate_pem: String,
    /// Its private key.
    pub key_pem: String,
}

impl std::fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientCertificate").field("certificate_pem", &self.certificate_pem).finish_non_exhaustive()
    }
}

/// Why there is no certificate for a user.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The library that makes certificates knows one organization in a name.
    #[error("user {0:?} is in several groups, but a certificate can name one; give the user a token instead")]
    Groups(String),
    /// Keys or signatures could not be made.
    #[error(transparent)]
    Signature(#[from] rcgen::Error),
}

/// Signs certificates. Its own never changes while the cluster lives.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Authority").finish_non_exhaustive()
    }
}

impl Authority {
    pub(crate) fn generate() -> Result<Self, rcgen::Error> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name = named("steersman-dev-ca", None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        Ok(Self(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?))
    }

    /// Its certificate as PEM.
    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// Its certificate.
    pub(crate) fn der(&self) -> CertificateDer<'static> {
        CertificateDer::from(self.0.der().to_vec())
    }

    /// A certificate for a server at `host`, and its key.
    pub(crate) fn server_certificate(
        &self,
        host: &str,
    ) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), Box<dyn std::error::Error + Send + Sync>> {
        let mut names = SERVER_NAMES.map(str::to_owned).to_vec();
        if !names.iter().any(|name| name == host) {
            names.push(host.to_owned());
        }
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name = named("kube-apiserver", None);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.0)?;
        Ok((certificate.der().clone(), PrivateKeyDer::try_from(key.serialize_der())?))
    }

    /// A certificate for a user: the name becomes the common name, the group the organization.
    pub(crate) fn client_certificate(&self, user: &User) -> Result<ClientCertificate, CertificateError> {
        let mut groups = user.groups.iter().map(String::as_str).filter(|group| *group != AUTHENTICATED);
        let group = groups.next();
        if groups.next().is_some() {
            return Err(CertificateError::Groups(user.name.clone()));
        }
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name = named(&user.name, group);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.0)?;
        Ok(ClientCertificate { certificate_pem: certificate.pem(), key_pem: key.serialize_pem() })
    }
}

fn named(common_name: &str, organization: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    if let Some(organization) = organization {
        name.push(DnType::OrganizationName, organization);
    }
    name
}
