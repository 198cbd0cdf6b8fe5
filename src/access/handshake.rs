//! Client certificates in the TLS handshake: any chain within the bounds is accepted.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    WebPkiSupportedAlgorithms, ring as provider, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, OtherError, SignatureScheme,
};

use super::chain;

/// Requests a client certificate during the TLS handshake, requires none, and accepts any within the
/// bounds of chains.
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
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let chain: Vec<_> = std::iter::once(leaf).chain(intermediates).collect();
        match chain::check(&chain) {
            Ok(()) => Ok(ClientCertVerified::assertion()),
            Err(error) => {
                let error = CertificateError::Other(OtherError(Arc::new(error)));
                Err(rustls::Error::InvalidCertificate(error))
            }
        }
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
