//! The identity of a manager's server, and the credentials that it may get.
//!
//! A server that gets a token or a password can use it. So only two kinds of servers get one: a
//! server that an authority vouches for, and one whose certificate the caller has named. A client
//! certificate reveals no secret: its signature holds for one connection to one server key.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use kube::config::AuthInfo;
use parking_lot::Mutex;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use crate::tls::Fingerprint;

/// The proof that a server has to give.
#[derive(Debug)]
pub(super) enum Proof {
    /// A certificate of one of these authorities, for one of the names.
    Authorities(Option<Arc<WebPkiServerVerifier>>, Vec<ServerName<'static>>),
    /// This certificate.
    Certificate(Fingerprint),
}

impl Proof {
    /// The proof by the authorities in `file`, else by those of the cluster and the system.
    pub(super) fn by_authorities(
        config: &kube::Config,
        file: Option<&Path>,
        names: Vec<ServerName<'static>>,
    ) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        match file {
            Some(path) => {
                let wrong = |problem: &dyn fmt::Display| {
                    format!("--manager-ca {}: {problem}", path.display())
                };
                let pem = std::fs::read(path).map_err(|error| wrong(&error))?;
                let certificates = CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok);
                roots.add_parsable_certificates(certificates);
                if roots.is_empty() {
                    return Err(wrong(&"it contains no certificate"));
                }
            }
            None => {
                let of_cluster = config.root_cert.iter().flatten();
                roots.add_parsable_certificates(of_cluster.cloned().map(CertificateDer::from));
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        let provider = Arc::new(ring::default_provider());
        if roots.is_empty() {
            return Ok(Self::Authorities(None, names));
        }
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|error| format!("authorities of the manager: {error}"))?;
        Ok(Self::Authorities(Some(verifier), names))
    }

    fn check(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        match self {
            Self::Certificate(expected) if Fingerprint::of(leaf) == *expected => Ok(()),
            Self::Certificate(_) => Err(Error::General("it has another fingerprint".to_owned())),
            Self::Authorities(None, _) => Err(Error::General("no authority is known".to_owned())),
            Self::Authorities(Some(verifier), names) => {
                let mut problem = Error::General("the server has no name".to_owned());
                for name in names {
                    match verifier.verify_server_cert(leaf, intermediates, name, &[], now) {
                        Ok(_) => return Ok(()),
                        Err(error) => problem = error,
                    }
                }
                Err(problem)
            }
        }
    }
}

/// A certificate that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) fingerprint: Fingerprint,
    pub(super) problem: String,
}

/// Demands a proof in each handshake, and remembers the last refusal.
#[derive(Debug)]
pub(super) struct Verifier {
    proof: Proof,
    refusal: Mutex<Option<Refusal>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    pub(super) fn new(proof: Proof) -> Arc<Self> {
        Arc::new(Self {
            proof,
            refusal: Mutex::default(),
            algorithms: ring::default_provider().signature_verification_algorithms,
        })
    }

    /// The refusal in the last handshake.
    pub(super) fn refusal(&self) -> Option<Refusal> {
        self.refusal.lock().clone()
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let checked = self.proof.check(leaf, intermediates, now);
        *self.refusal.lock() = checked.as_ref().err().map(|error| Refusal {
            fingerprint: Fingerprint::of(leaf),
            problem: match error {
                Error::General(problem) => problem.clone(),
                other => other.to_string(),
            },
        });
        checked.map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// The credentials that any server may get: the client certificate. `None` if `auth` has secrets
/// and no certificate; without them, the caller would be a stranger to the manager.
///
/// An exec plugin counts as a secret, because it may print a token.
pub(super) fn without_secrets(auth: &AuthInfo) -> Option<AuthInfo> {
    let has_certificate = (auth.client_certificate.is_some()
        || auth.client_certificate_data.is_some())
        && (auth.client_key.is_some() || auth.client_key_data.is_some());
    let has_secret = auth.token.is_some()
        || auth.token_file.is_some()
        || auth.username.is_some()
        || auth.password.is_some()
        || auth.auth_provider.is_some()
        || auth.exec.is_some();
    if has_secret && !has_certificate {
        return None;
    }
    Some(AuthInfo {
        client_certificate: auth.client_certificate.clone(),
        client_certificate_data: auth.client_certificate_data.clone(),
        client_key: auth.client_key.clone(),
        client_key_data: auth.client_key_data.clone(),
        ..AuthInfo::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_stay_here_and_certificates_may_go() {
        let certificate = AuthInfo {
            client_certificate_data: Some("cert".to_owned()),
            client_key_data: Some("key".to_owned().into()),
            ..AuthInfo::default()
        };
        let secrets = [
            AuthInfo {
                token: Some("t".to_owned().into()),
                ..AuthInfo::default()
            },
            AuthInfo {
                token_file: Some("f".to_owned()),
                ..AuthInfo::default()
            },
            AuthInfo {
                username: Some("u".to_owned()),
                password: Some("p".to_owned().into()),
                ..AuthInfo::default()
            },
            AuthInfo {
                exec: Some(kube::config::ExecConfig {
                    command: Some("plugin".to_owned()),
                    ..serde_json::from_str("{}").unwrap()
                }),
                ..AuthInfo::default()
            },
        ];
        for secret in secrets {
            assert!(without_secrets(&secret).is_none(), "{secret:?}");
            let both = AuthInfo {
                client_certificate_data: certificate.client_certificate_data.clone(),
                client_key_data: certificate.client_key_data.clone(),
                ..secret
            };
            let sent = without_secrets(&both).unwrap();
            assert!(sent.client_key_data.is_some());
            assert!(sent.token.is_none() && sent.token_file.is_none());
            assert!(sent.username.is_none() && sent.password.is_none() && sent.exec.is_none());
        }
        assert!(without_secrets(&AuthInfo::default()).is_some());
    }
}
