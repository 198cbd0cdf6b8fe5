//! The user that a client certificate names.

use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::User;
use super::tokens::CREDENTIAL;

/// Common name and organizations as name and groups; nothing for a certificate without a common name. Who signed it has been checked
/// already.
pub(crate) fn user_of(certificate: &CertificateDer<'_>) -> Option<User> {
    let digest = ring::digest::digest(&ring::digest::SHA256, certificate);
    let fingerprint: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().next()?.as_str().ok().filter(|name| !name.is_empty())?;
    let groups = subject.iter_organization().filter_map(|group| group.as_str().ok());
    let mut user = User::new(name, groups);
    user.extra.insert(CREDENTIAL.to_owned(), vec![format!("X509SHA256={fingerprint}")]);
    Some(user)
}
