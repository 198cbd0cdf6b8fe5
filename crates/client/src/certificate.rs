//! Client certificates: a pair of files that may change, and separate connections for each
//! certificate.
//!
//! A connection keeps the certificate of its TLS handshake. So a rotated certificate takes effect
//! only on new connections. Upstream: `client-go/transport/cert_rotation.go`.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use http::{Request, Response};
use kube::client::Body;
use kube::config::AuthInfo;
use parking_lot::Mutex;
use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::sign::CertifiedKey;
use tower::{BoxError, Service};

use crate::reload::Reloading;

/// Parses a certificate chain and its key, both in PEM. The error names the invalid part.
pub(super) fn pair(certificate: &[u8], key: &[u8]) -> Result<CertifiedKey, String> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
    let chain = chain.map_err(|error| format!("certificate: {error}"))?;
    if chain.is_empty() {
        return Err("no certificate".to_owned());
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("key: {error}"))?;
    CertifiedKey::from_der(chain, key, &rustls::crypto::ring::default_provider())
        .map_err(|error| error.to_string())
}

/// Keeps a service for the current certificate. A new certificate gets a new service with its own
/// connections. Pending requests finish on the old connections.
pub(super) struct PerCertificate<S> {
    make: Box<dyn Fn() -> S + Send + Sync>,
    current: Mutex<Option<(Option<CertificateDer<'static>>, S)>>,
}

impl<S: Clone> PerCertificate<S> {
    pub(super) fn new(make: impl Fn() -> S + Send + Sync + 'static) -> Self {
        Self {
            make: Box::new(make),
            current: Mutex::default(),
        }
    }

    /// The service with connections that use the certificate `leaf`.
    pub(super) fn showing(&self, leaf: Option<&CertificateDer<'static>>) -> S {
        let mut current = self.current.lock();
        match &*current {
            Some((shown, service)) if shown.as_ref() == leaf => service.clone(),
            _ => current.insert((leaf.cloned(), (self.make)())).1.clone(),
        }
    }
}

/// A certificate and its key in two files. They are read before a request, at most once a second.
/// Invalid files are ignored.
pub(super) struct CertificateFiles(Reloading<CertifiedKey>);

impl CertificateFiles {
    /// The two files in `auth`. `None` if one of them is missing or inline data: as in client-go,
    /// such a pair stays the same. Fails if the files are unreadable or invalid now.
    pub(super) fn of(auth: &AuthInfo) -> Result<Option<Self>, String> {
        let AuthInfo {
            client_certificate,
            client_certificate_data,
            client_key,
            client_key_data,
            ..
        } = auth;
        let (Some(certificate), None, Some(key), None) = (
            client_certificate,
            client_certificate_data,
            client_key,
            client_key_data,
        ) else {
            return Ok(None);
        };
        let files = [certificate, key].map(PathBuf::from).to_vec();
        Reloading::new(files, |files| pair(&files[0], &files[1])).map(|files| Some(Self(files)))
    }

    /// A service that sends each request with the current certificate. `make` creates the service
    /// for a new certificate.
    pub(super) fn over<S, B>(
        self: Arc<Self>,
        make: impl Fn() -> S + Send + Sync + 'static,
    ) -> impl Service<Request<Body>, Response = Response<B>, Error = BoxError, Future: Send> + Clone
    where
        S: Service<Request<Body>, Response = Response<B>, Error: Into<BoxError>, Future: Send>
            + Clone
            + Send
            + 'static,
        B: Send,
    {
        let services = Arc::new(PerCertificate::new(make));
        tower::service_fn(move |request: Request<Body>| {
            let files = Arc::clone(&self);
            let services = Arc::clone(&services);
            async move {
                let pair = files.0.current().await;
                let mut service = services.showing(pair.cert.first());
                service.call(request).await.map_err(Into::into)
            }
        })
    }
}

impl ResolvesClientCert for CertificateFiles {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.0.latest())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

impl fmt::Debug for CertificateFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateFiles").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn pem() -> (String, String) {
        let made = rcgen::generate_simple_self_signed(vec!["client".to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[tokio::test(start_paused = true)]
    async fn a_changed_certificate_is_used_on_new_connections() {
        let directory = tempfile::tempdir().unwrap();
        let certificate = directory.path().join("tls.crt");
        let key = directory.path().join("tls.key");
        let old = pem();
        let new = pem();
        let write = |certificate_pem: &str, key_pem: &str| {
            std::fs::write(&certificate, certificate_pem).unwrap();
            std::fs::write(&key, key_pem).unwrap();
        };
        let path = |path: &PathBuf| Some(path.to_str().unwrap().to_owned());
        let auth = AuthInfo {
            client_certificate: path(&certificate),
            client_key: path(&key),
            ..AuthInfo::default()
        };
        let error = CertificateFiles::of(&auth).unwrap_err();
        assert!(error.contains("tls.crt: no such file"), "{error}");

        write(&old.0, &old.1);
        let files = Arc::new(CertificateFiles::of(&auth).unwrap().unwrap());
        let connections = Arc::new(Mutex::new(0));
        let made = Arc::clone(&connections);
        let mut service = Arc::clone(&files).over(move || {
            *made.lock() += 1;
            tower::service_fn(|_: Request<Body>| async { Ok::<_, Infallible>(Response::new(())) })
        });
        // (content of the files, the new pair is used, connections so far)
        let cases = [
            ((&old.0, &old.1), false, 1),
            ((&new.0, &old.1), false, 1),
            ((&new.0, &new.1), true, 2),
            ((&new.0, &new.1), true, 2),
            ((&"nonsense".to_owned(), &new.1), true, 2),
        ];
        for (step, ((certificate_pem, key_pem), is_new, count)) in cases.into_iter().enumerate() {
            write(certificate_pem, key_pem);
            tokio::time::advance(std::time::Duration::from_secs(1)).await;
            service.call(Request::new(Body::empty())).await.unwrap();
            let expected = pair(
                (if is_new { &new } else { &old }).0.as_bytes(),
                if is_new { &new } else { &old }.1.as_bytes(),
            );
            assert_eq!(
                files.resolve(&[], &[]).unwrap().cert,
                expected.unwrap().cert,
                "step {step}"
            );
            assert_eq!(*connections.lock(), count, "step {step}");
        }
    }

    #[test]
    fn only_pairs_of_two_files_are_reloaded() {
        let auth = |change: fn(&mut AuthInfo)| {
            let mut auth = AuthInfo {
                client_certificate: Some("/nowhere/tls.crt".to_owned()),
                ..AuthInfo::default()
            };
            change(&mut auth);
            CertificateFiles::of(&auth).map(|files| files.is_some())
        };
        assert_eq!(auth(|_| {}), Ok(false));
        assert_eq!(
            auth(|auth| auth.client_key_data = Some("key".to_owned().into())),
            Ok(false)
        );
        assert!(auth(|auth| auth.client_key = Some("/nowhere/tls.key".to_owned())).is_err());
    }
}
