//! The certificate authorities of a cluster. They sign certificates of servers, users and front
//! proxies.
//!
//! Every cluster generates its own authorities. Kubeadm has the same two: `ca` and
//! `front-proxy-ca`.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, PublicKeyData,
};
use rustls::pki_types::CertificateDer;

use super::User;
use super::certificate::{FRONT_PROXY, FRONT_PROXY_CA};
use super::user::AUTHENTICATED;

/// Names in the certificate of the server, besides the host of its HTTPS address.
const SERVER_NAMES: [&str; 6] = [
    "localhost",
    "127.0.0.1",
    "::1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
];

/// A certificate and key with which a client authenticates over TLS.
#[derive(Clone)]
pub struct ClientCertificate {
    /// The certificate.
    pub certificate_pem: String,
    /// Its private key.
    pub key_pem: String,
}

impl std::fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientCertificate")
            .field("certificate_pem", &self.certificate_pem)
            .finish_non_exhaustive()
    }
}

/// The reason that a user gets no certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The certificate library puts only one organization into a name.
    #[error(
        "user {0:?} is in several groups, but a certificate can name one; give the user a token instead"
    )]
    Groups(String),
    /// A key or signature could not be made.
    #[error(transparent)]
    Signature(#[from] rcgen::Error),
}

/// Signs certificates. One authority is for users and servers, the other for front proxies. Both
/// stay the same for the life of the cluster.
pub(crate) struct Authority {
    users: CertifiedIssuer<'static, KeyPair>,
    proxies: CertifiedIssuer<'static, KeyPair>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl Authority {
    pub(crate) fn generate() -> Result<Self, rcgen::Error> {
        Ok(Self {
            users: issuer("steersman-dev-ca")?,
            proxies: issuer(FRONT_PROXY_CA)?,
        })
    }

    /// The certificate of the authority for users and servers, as PEM.
    pub(crate) fn pem(&self) -> String {
        self.users.pem()
    }

    /// The private key of the authority for users and servers, as PEM.
    pub(crate) fn key_pem(&self) -> String {
        self.users.key().serialize_pem()
    }

    /// The SHA-256 digest of the public key of the authority, with which `kubeadm join` pins it.
    pub(crate) fn pin(&self) -> String {
        let key = self.users.key().subject_public_key_info();
        let digest = ring::digest::digest(&ring::digest::SHA256, &key);
        let bytes = digest.as_ref().iter();
        bytes.map(|byte| format!("{byte:02x}")).collect()
    }

    /// The certificate of the authority for proxies, as PEM.
    pub(crate) fn front_proxy_pem(&self) -> String {
        self.proxies.pem()
    }

    /// The certificates of both authorities, which the server trusts for clients.
    pub(crate) fn client_roots(&self) -> [CertificateDer<'static>; 2] {
        [&self.users, &self.proxies].map(|issuer| CertificateDer::from(issuer.der().to_vec()))
    }

    /// A certificate for a server at `host` with that of the authority behind it, and its key, as
    /// PEM.
    pub(crate) fn server_certificate(&self, host: &str) -> Result<(String, String), rcgen::Error> {
        let mut names = SERVER_NAMES.map(str::to_owned).to_vec();
        if !names.iter().any(|name| name == host) {
            names.push(host.to_owned());
        }
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name = named("kube-apiserver", None);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.users)?;
        Ok((certificate.pem() + &self.pem(), key.serialize_pem()))
    }

    /// A certificate for a user: the name becomes the common name, the group the organization.
    pub(crate) fn client_certificate(
        &self,
        user: &User,
    ) -> Result<ClientCertificate, CertificateError> {
        let mut groups = user
            .groups
            .iter()
            .map(String::as_str)
            .filter(|group| *group != AUTHENTICATED);
        let group = groups.next();
        if groups.next().is_some() {
            return Err(CertificateError::Groups(user.name.clone()));
        }
        Ok(client(named(&user.name, group), &self.users)?)
    }

    /// The certificate of the front proxy, which passes on users in headers.
    pub(crate) fn front_proxy_certificate(&self) -> Result<ClientCertificate, CertificateError> {
        Ok(client(named(FRONT_PROXY, None), &self.proxies)?)
    }
}

/// A new self-signed authority.
fn issuer(name: &str) -> Result<CertifiedIssuer<'static, KeyPair>, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = named(name, None);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    CertifiedIssuer::self_signed(params, KeyPair::generate()?)
}

/// A new client certificate and key, signed by `issuer`.
fn client(
    name: DistinguishedName,
    issuer: &CertifiedIssuer<'static, KeyPair>,
) -> Result<ClientCertificate, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = name;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, issuer)?;
    Ok(ClientCertificate {
        certificate_pem: certificate.pem(),
        key_pem: key.serialize_pem(),
    })
}

fn named(common_name: &str, organization: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    if let Some(organization) = organization {
        name.push(DnType::OrganizationName, organization);
    }
    name
}
