//! The CA (certificate authority) of the API server, from a file that may change.
//!
//! A handshake starts a read of the file, at most once a minute, and itself uses the previous
//! content. The read has a thread of its own, because a slow file system must not delay the only
//! thread of the manager. So the first connection after a change of the CA may fail; its retry uses
//! the new one. Upstream (`client-go/transport/ca_rotation.go`) waits for the read.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use prometheus::IntCounterVec;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::Instant;

/// The shortest time between two reads of the file.
const INTERVAL: Duration = Duration::from_secs(60);

/// Verifies servers with the latest valid content of the file.
#[derive(Debug)]
pub(super) struct Authority(Arc<File>);

#[derive(Debug)]
struct File {
    path: PathBuf,
    reloads: IntCounterVec,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    pem: Vec<u8>,
    verifier: Arc<WebPkiServerVerifier>,
    checked: Instant,
}

impl Authority {
    /// Reads the file. Fails if it is unreadable or invalid now. `reloads` counts later reads by
    /// `result` and `reason`.
    pub(super) fn new(path: PathBuf, reloads: IntCounterVec) -> Result<Self, String> {
        let pem = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let verifier = verifier(&pem).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(Arc::new(File {
            path,
            reloads,
            state: Mutex::new(State {
                pem,
                verifier,
                checked: Instant::now(),
            }),
        })))
    }

    fn current(&self) -> Arc<WebPkiServerVerifier> {
        drop(self.refresh());
        Arc::clone(&self.0.state().verifier)
    }

    /// Starts to read the file, if the last read is old enough.
    fn refresh(&self) -> Option<JoinHandle<()>> {
        let mut state = self.0.state();
        if state.checked.elapsed() < INTERVAL {
            return None;
        }
        state.checked = Instant::now();
        let file = Arc::clone(&self.0);
        Some(spawn_blocking(move || file.reload()))
    }
}

impl File {
    fn reload(&self) {
        let read = std::fs::read(&self.path);
        let (result, reason) = self.state().take(read);
        self.reloads.with_label_values(&[result, reason]).inc();
        if result == "failure" {
            tracing::error!(caFile = %self.path.display(), reason, "cannot reload the authority of the API server");
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    /// Uses the new content if it is valid. Returns the labels of upstream's metric.
    fn take(&mut self, read: std::io::Result<Vec<u8>>) -> (&'static str, &'static str) {
        let Ok(pem) = read else {
            return ("failure", "read_error");
        };
        if pem.is_empty() {
            return ("failure", "empty");
        }
        if pem == self.pem {
            return ("success", "unchanged");
        }
        let Ok(verifier) = verifier(&pem) else {
            return ("failure", "ca_parse_error");
        };
        self.pem = pem;
        self.verifier = verifier;
        ("success", "updated")
    }
}

/// As in Go, invalid certificates are ignored if at least one is valid.
fn verifier(pem: &[u8]) -> Result<Arc<WebPkiServerVerifier>, String> {
    let mut roots = RootCertStore::empty();
    let (_, ignored) =
        roots.add_parsable_certificates(CertificateDer::pem_slice_iter(pem).filter_map(Result::ok));
    if ignored > 0 {
        tracing::warn!(
            ignored,
            "some certificates of the authority of the API server cannot be read"
        );
    }
    if roots.is_empty() {
        return Err("it contains no CA certificate".to_owned());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| error.to_string())
}

impl ServerCertVerifier for Authority {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.current()
            .verify_server_cert(leaf, intermediates, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.current()
            .verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.current()
            .verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.current().supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use prometheus::Opts;

    use super::*;

    /// A PEM block that is no certificate.
    const UNREADABLE: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

    #[tokio::test(start_paused = true)]
    async fn a_changed_file_is_used_and_an_invalid_file_is_ignored() {
        let pair = |name: &str| rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
        let old = pair("old");
        let new = pair("new");
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ca.crt");
        std::fs::write(&path, old.cert.pem()).unwrap();
        let reloads = IntCounterVec::new(Opts::new("n", "."), &["result", "reason"]).unwrap();
        let authority = Authority::new(path.clone(), reloads.clone()).unwrap();
        let trusts = |pair: &rcgen::CertifiedKey<rcgen::KeyPair>, name: &str| {
            let name = ServerName::try_from(name.to_owned()).unwrap();
            authority
                .verify_server_cert(pair.cert.der(), &[], &name, &[], UnixTime::now())
                .is_ok()
        };
        let count = |result: &str, reason: &str| reloads.with_label_values(&[result, reason]).get();

        std::fs::write(&path, new.cert.pem()).unwrap();
        assert!(
            trusts(&old, "old") && !trusts(&new, "new"),
            "the file is read at most once a minute"
        );
        // (content of the file, result, reason, the new CA is trusted)
        let cases = [
            (Some(old.cert.pem()), "success", "unchanged", false),
            (
                Some(UNREADABLE.to_owned()),
                "failure",
                "ca_parse_error",
                false,
            ),
            (Some(String::new()), "failure", "empty", false),
            (None, "failure", "read_error", false),
            (
                Some(format!("{UNREADABLE}{}", new.cert.pem())),
                "success",
                "updated",
                true,
            ),
        ];
        for (content, result, reason, is_new) in cases {
            match content {
                Some(content) => std::fs::write(&path, content).unwrap(),
                None => std::fs::remove_file(&path).unwrap(),
            }
            tokio::time::advance(INTERVAL).await;
            authority
                .refresh()
                .expect("a minute has passed")
                .await
                .unwrap();
            assert_eq!(
                (trusts(&new, "new"), trusts(&old, "old")),
                (is_new, !is_new),
                "{reason}"
            );
            assert_eq!(count(result, reason), 1, "{reason}");
        }
        tokio::time::advance(INTERVAL).await;
        assert!(trusts(&new, "new"));
        assert!(authority.refresh().is_none(), "the handshake starts a read");
        let error = Authority::new(directory.path().join("no.crt"), reloads).unwrap_err();
        assert!(error.contains("no.crt: No such file"), "{error}");
    }
}
