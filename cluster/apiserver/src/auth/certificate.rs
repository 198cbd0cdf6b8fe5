//! Client certificates: each identifies a user, or a front proxy that passes on its users in
//! headers.
//!
//! Upstream: `k8s.io/apiserver/pkg/authentication/request/x509` and `.../headerrequest`.

use std::sync::Arc;

use http::HeaderMap;
use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::x509::X509Name;

use super::User;
use super::user::CREDENTIAL;
use crate::route::percent_decode;

/// Name of the authority that signs certificates of front proxies.
pub(super) const FRONT_PROXY_CA: &str = "steersman-dev-front-proxy-ca";
/// The only common name that a front proxy can have.
pub(crate) const FRONT_PROXY: &str = "front-proxy-client";

/// The attribute of a subject that contains the user's UID.
const UID: &str = "1.3.6.1.4.1.57683.2";

/// Header with the user's name.
pub(crate) const USER_HEADER: &str = "X-Remote-User";
/// Header with the user's UID.
pub(crate) const UID_HEADER: &str = "X-Remote-Uid";
/// Header with one of the user's groups.
pub(crate) const GROUP_HEADER: &str = "X-Remote-Group";
/// Prefix of headers with extra fields of the user.
pub(crate) const EXTRA_HEADERS: &str = "X-Remote-Extra-";

/// The client of a TLS connection.
#[derive(Debug, Clone)]
pub(crate) enum Peer {
    /// A user.
    User(Arc<User>),
    /// A front proxy. Its headers name the user of each request.
    FrontProxy,
}

impl Peer {
    /// Reads a certificate that TLS has already verified. The common name becomes the user, and
    /// organizations become groups. `None` without a common name, and for a malformed UID.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let digest = ring::digest::digest(&ring::digest::SHA256, certificate);
        let fingerprint: String = digest
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
        let subject = certificate.subject();
        let name = common_name(subject)?;
        if common_name(certificate.issuer()) == Some(FRONT_PROXY_CA) {
            return (name == FRONT_PROXY).then_some(Self::FrontProxy);
        }
        let groups = subject
            .iter_organization()
            .filter_map(|group| group.as_str().ok());
        let mut user = User::new(name, groups).with_uid(uid(subject)?);
        // Upstream's x509 authenticator adds the fingerprint under this key, too.
        user.extra.insert(
            CREDENTIAL.to_owned(),
            vec![format!("X509SHA256={fingerprint}")],
        );
        Some(Self::User(Arc::new(user)))
    }

    /// The user of a request, or `None` if a proxy names none.
    pub(super) fn user(&self, headers: &HeaderMap) -> Option<Arc<User>> {
        match self {
            Self::User(user) => Some(user.clone()),
            Self::FrontProxy => user_of_proxy_headers(headers).map(Arc::new),
        }
    }
}

/// The last common name, if it is not empty.
fn common_name<'a>(name: &'a X509Name<'_>) -> Option<&'a str> {
    name.iter_common_name()
        .last()?
        .as_str()
        .ok()
        .filter(|name| !name.is_empty())
}

/// The UID in a subject; empty without one. `None` for an empty UID, or for several.
fn uid<'a>(name: &'a X509Name<'_>) -> Option<&'a str> {
    let attributes = name.iter_attributes();
    let mut uids = attributes.filter(|attribute| attribute.attr_type().to_id_string() == UID);
    match (uids.next(), uids.next()) {
        (None, _) => Some(""),
        (Some(uid), None) => uid.as_str().ok().filter(|uid| !uid.is_empty()),
        _ => None,
    }
}

/// The user in the headers of a front proxy; `None` without a user name.
fn user_of_proxy_headers(headers: &HeaderMap) -> Option<User> {
    let texts = |name: &str| {
        headers
            .get_all(name)
            .iter()
            .filter_map(|value| value.to_str().ok())
    };
    let name = texts(USER_HEADER).next().filter(|name| !name.is_empty())?;
    let mut user =
        User::new(name, texts(GROUP_HEADER)).with_uid(texts(UID_HEADER).next().unwrap_or_default());
    let prefix = EXTRA_HEADERS.to_lowercase();
    for (header, value) in headers {
        if let Some(key) = header.as_str().strip_prefix(&prefix)
            && let Ok(value) = value.to_str()
        {
            user.extra
                .entry(percent_decode(key))
                .or_default()
                .push(value.to_owned());
        }
    }
    Some(user)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    use super::*;

    #[test]
    fn subjects_become_users() {
        let user = |uid: Option<&str>| {
            let mut params = CertificateParams::default();
            params.distinguished_name = DistinguishedName::new();
            let name = &mut params.distinguished_name;
            name.push(DnType::CommonName, "system:node:a");
            name.push(DnType::OrganizationName, "system:nodes");
            if let Some(uid) = uid {
                let oid = UID.split('.').map(|part| part.parse().unwrap());
                name.push(DnType::CustomDnType(oid.collect()), uid);
            }
            let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
            match Peer::of(certificate.der()) {
                Some(Peer::User(user)) => Some((user.name.clone(), user.uid.clone())),
                _ => None,
            }
        };
        let expected = |uid: &str| Some(("system:node:a".to_owned(), uid.to_owned()));
        assert_eq!(user(None), expected(""));
        assert_eq!(user(Some("u-1")), expected("u-1"));
        assert_eq!(user(Some("")), None);
    }
}
