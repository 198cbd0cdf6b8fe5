//! Verifies the certificates of webhooks, with Go's rules and words.
//!
//! Unlike webpki, Go trusts a server whose own certificate is among the trusted ones, even if it is
//! the certificate of an authority. Upstream: `crypto/x509` of Go.

use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use rustls::CertificateError::{Other, UnknownIssuer};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, OtherError, RootCertStore, SignatureScheme};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The servers that a `caBundle` vouches for.
#[derive(Debug)]
pub(super) struct Verifier {
    trusted: Vec<CertificateDer<'static>>,
    /// `None` without any trusted certificate.
    issuers: Option<Arc<WebPkiServerVerifier>>,
    algorithms: WebPkiSupportedAlgorithms,
    /// Whether all servers are trusted.
    trusts_all: bool,
}

/// A problem in Go's words.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Words(String);

fn problem(words: String) -> CertificateError {
    Other(OtherError(Arc::new(Words(words))))
}

/// A problem in Go's words, as far as they are known.
pub(super) fn shown(problem: &CertificateError) -> String {
    match problem {
        UnknownIssuer => "certificate signed by unknown authority".to_owned(),
        Other(words) => words.0.to_string(),
        other => other.to_string(),
    }
}

impl Verifier {
    /// Trusts these certificates. The error tells that one of them is malformed.
    pub(super) fn new(
        trusted: Vec<CertificateDer<'static>>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, rustls::Error> {
        let mut roots = RootCertStore::empty();
        for certificate in &trusted {
            roots.add(certificate.clone())?;
        }
        let builder = || {
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
                .build()
                .map_err(|why| rustls::Error::General(why.to_string()))
        };
        let issuers = (!trusted.is_empty()).then(builder).transpose()?;
        Ok(Self {
            trusted,
            issuers,
            algorithms: provider.signature_verification_algorithms,
            trusts_all: false,
        })
    }

    /// Trusts all servers, with any name.
    pub(super) fn of_all(provider: &Arc<CryptoProvider>) -> Self {
        Self {
            trusted: Vec::new(),
            issuers: None,
            algorithms: provider.signature_verification_algorithms,
            trusts_all: true,
        }
    }

    fn verify(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let parsed = X509Certificate::from_der(leaf);
        let (_, certificate) = parsed.map_err(|_| CertificateError::BadEncoding)?;
        check_dates(&certificate, now)?;
        if verify_server_name(&ParsedCertificate::try_from(leaf)?, name).is_err() {
            return Err(wrong_name(&certificate, &name.to_str()).into());
        }
        if self.trusted.contains(leaf) {
            return Ok(ServerCertVerified::assertion());
        }
        match &self.issuers {
            Some(issuers) => issuers.verify_server_cert(leaf, intermediates, name, &[], now),
            None => Err(UnknownIssuer.into()),
        }
    }
}

fn check_dates(certificate: &X509Certificate<'_>, now: UnixTime) -> Result<(), CertificateError> {
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let validity = certificate.validity();
    let shown = |seconds: i64| {
        Timestamp::from_second(seconds).map_or_else(|_| seconds.to_string(), |at| at.to_string())
    };
    let from = validity.not_before.timestamp();
    let until = validity.not_after.timestamp();
    let (word, limit) = match now {
        now if now < from => ("before", from),
        now if now > until => ("after", until),
        _ => return Ok(()),
    };
    Err(problem(format!(
        "certificate has expired or is not yet valid: current time {} is {word} {}",
        shown(now),
        shown(limit)
    )))
}

/// The problem of a certificate for other names than `wanted`.
fn wrong_name(certificate: &X509Certificate<'_>, wanted: &str) -> CertificateError {
    let names = certificate.subject_alternative_name().ok().flatten();
    let names = names.map_or(&[][..], |names| names.value.general_names.as_slice());
    let is_address = wanted.parse::<IpAddr>().is_ok();
    let valid: Vec<String> = names
        .iter()
        .filter_map(|name| match name {
            GeneralName::DNSName(name) if !is_address => Some((*name).to_owned()),
            GeneralName::IPAddress(bytes) if is_address => address(bytes),
            _ => None,
        })
        .collect();
    let mut common = certificate.subject().iter_common_name();
    let is_common = common.any(|name| name.as_str().is_ok_and(|name| name == wanted));
    problem(match &*valid.join(", ") {
        "" if names.is_empty() && is_common => {
            "certificate relies on legacy Common Name field, use SANs instead".to_owned()
        }
        "" if is_address => format!(
            "cannot validate certificate for {wanted} because it doesn't contain any IP SANs"
        ),
        "" => format!("certificate is not valid for any names, but wanted to match {wanted}"),
        valid => format!("certificate is valid for {valid}, not {wanted}"),
    })
}

fn address(bytes: &[u8]) -> Option<String> {
    let address = match bytes.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?),
        _ => IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?),
    };
    Some(address.to_string())
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.trusts_all {
            return Ok(ServerCertVerified::assertion());
        }
        self.verify(leaf, intermediates, name, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
