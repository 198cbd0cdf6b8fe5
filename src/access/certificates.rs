//! Client certificates: verification against trusted authorities, and the user of a certificate.
//!
//! The TLS layer accepts any client certificate if the client has its private key. The chain is
//! verified later, for each request, because the trusted authorities can change while a connection
//! is open. Upstream: `k8s.io/apiserver/pkg/authentication/request/x509`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use ring::digest::{SHA256, digest};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    WebPkiSupportedAlgorithms, ring as provider, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};
use steersman_runtime::x509;

use super::user::User;

/// The attribute that upstream uses for the UID of a user.
const UID: x509::ObjectIdentifier = x509::ObjectIdentifier::new_unwrap("1.3.6.1.4.1.57683.2");

/// A bundle of certificate authorities that client certificates are verified against.
#[derive(Debug)]
pub(crate) struct Authorities(Arc<dyn ClientCertVerifier>);

impl Authorities {
    /// Reads a PEM bundle. The error does not name the source of the bundle; callers add it.
    pub(crate) fn parse(pem: &[u8]) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| format!("not PEM: {error}"))?;
            roots
                .add(certificate)
                .map_err(|error| format!("not the certificate of an authority: {error}"))?;
        }
        if roots.is_empty() {
            return Err("data does not contain any valid RSA or ECDSA certificates".to_owned());
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(
            Arc::new(roots),
            Arc::new(provider::default_provider()),
        );
        verifier
            .build()
            .map(Self)
            .map_err(|error| error.to_string())
    }

    /// Verifies that `chain`, leaf first, leads to one of the authorities, is valid at `now`, and
    /// permits client authentication.
    pub(super) fn verify(
        &self,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        let (leaf, intermediates) = chain
            .split_first()
            .ok_or(rustls::Error::NoCertificatesPresented)?;
        self.0
            .verify_client_cert(leaf, intermediates, now)
            .map(drop)
    }
}

/// The fields of a certificate that identify its holder.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) common_name: String,
    organizations: Vec<String>,
    uids: Vec<String>,
    /// End of validity, in seconds since the Unix epoch.
    pub(super) not_after: i64,
    /// SHA-256 of the DER encoding, in hexadecimal.
    fingerprint: String,
}

impl Holder {
    /// Reads a certificate without verifying it. Do not trust the result before
    /// [`Authorities::verify`] has succeeded.
    pub(super) fn of(certificate: &CertificateDer<'_>) -> Result<Self, String> {
        let x509::Certificate {
            subject, not_after, ..
        } = x509::Certificate::read(certificate)?;
        let mut holder = Self {
            common_name: subject.common_name().to_owned(),
            organizations: subject.organizations().map(str::to_owned).collect(),
            uids: subject.values(UID).map(str::to_owned).collect(),
            not_after,
            fingerprint: String::new(),
        };
        for byte in digest(&SHA256, certificate).as_ref() {
            let _ = write!(holder.fingerprint, "{byte:02x}");
        }
        Ok(holder)
    }

    /// The user: the common name is the user name, organizations are groups. `None` if the common
    /// name is empty.
    pub(super) fn user(self) -> Result<Option<User>, String> {
        if self.common_name.is_empty() {
            return Ok(None);
        }
        let uid = match &self.uids[..] {
            [] => String::new(),
            [uid] if !uid.is_empty() => uid.clone(),
            [_] => return Err("UID cannot be an empty string".to_owned()),
            several => {
                return Err(format!(
                    "expected 1 UID, but found multiple: [{}]",
                    several.join(" ")
                ));
            }
        };
        let credential = format!("X509SHA256={}", self.fingerprint);
        let extra = BTreeMap::from([(
            "authentication.kubernetes.io/credential-id".to_owned(),
            vec![credential],
        )]);
        Ok(Some(User {
            name: self.common_name,
            uid,
            groups: self.organizations,
            extra,
        }))
    }
}

/// Requests a client certificate during the TLS handshake, requires none, and accepts any.
#[derive(Debug)]
pub(crate) struct AnyClient(WebPkiSupportedAlgorithms);

impl AnyClient {
    pub(crate) fn new() -> Self {
        Self(provider::default_provider().signature_verification_algorithms)
    }
}

impl ClientCertVerifier for AnyClient {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // Without hints, a client offers its certificate whichever authority issued it.
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
