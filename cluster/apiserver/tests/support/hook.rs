//! A webhook over HTTPS on this machine. Its tests run in real time: a paused clock does not wait for
//! sockets, so a slow machine would see timeouts.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{OwnedRwLockWriteGuard, RwLock, watch};
use tokio_rustls::TlsAcceptor;

/// Makes the answer to a review.
pub(crate) type Respond = fn(&Value) -> Value;

/// The certificate of a webhook, for `127.0.0.1` and the Service `hook`.
pub(crate) struct Certificate {
    /// PEM of the authorities that vouch for it.
    trusted: String,
    der: CertificateDer<'static>,
    key: KeyPair,
}

impl Certificate {
    fn params(names: &[&str]) -> CertificateParams {
        let names = names.iter().map(|name| (*name).to_owned());
        CertificateParams::new(names.collect::<Vec<_>>()).unwrap()
    }

    /// Signed by an authority.
    pub(crate) fn issued() -> Self {
        let mut authority = Self::params(&[]);
        authority.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority =
            CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let params = Self::params(&["127.0.0.1", "hook.default.svc"]);
        let certificate = params.signed_by(&key, &authority).unwrap();
        Self {
            trusted: authority.pem(),
            der: certificate.der().clone(),
            key,
        }
    }

    /// The server side of TLS with this certificate.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        self.acceptor_with(WebPkiClientVerifier::no_client_auth())
    }

    /// The same for clients with a certificate of an authority in `pem`.
    pub(crate) fn acceptor_for(&self, pem: &str) -> TlsAcceptor {
        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            roots.add(authority.unwrap()).unwrap();
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        self.acceptor_with(verifier.build().unwrap())
    }

    fn acceptor_with(&self, clients: Arc<dyn ClientCertVerifier>) -> TlsAcceptor {
        let private = PrivateKeyDer::try_from(self.key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(clients)
            .with_single_cert(vec![self.der.clone()], private)
            .unwrap();
        TlsAcceptor::from(Arc::new(tls))
    }

    /// The `caBundle`.
    pub(crate) fn bundle(&self) -> String {
        STANDARD.encode(&self.trusted)
    }

    /// Signed by itself, after `change`.
    pub(crate) fn self_signed(change: impl FnOnce(&mut CertificateParams)) -> Self {
        let mut params = Self::params(&["127.0.0.1"]);
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Self {
            trusted: certificate.pem(),
            der: certificate.der().clone(),
            key,
        }
    }
}

/// A running webhook.
pub(crate) struct Hook {
    pub(crate) port: u16,
    /// The `caBundle`.
    pub(crate) authority: String,
    /// The requests so far.
    seen: Arc<Mutex<Vec<Value>>>,
    /// The number of requests so far.
    asked: watch::Receiver<usize>,
    /// Answers wait for it.
    gate: Arc<RwLock<()>>,
}

impl Hook {
    pub(crate) async fn start(respond: Respond) -> Self {
        Self::with(Certificate::issued(), respond).await
    }

    pub(crate) async fn with(certificate: Certificate, respond: Respond) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (count, asked) = watch::channel(0);
        let hook = Self {
            port: listener.local_addr().unwrap().port(),
            authority: certificate.bundle(),
            seen: Arc::default(),
            asked,
            gate: Arc::default(),
        };
        let acceptor = certificate.acceptor();
        let seen = hook.seen.clone();
        let gate = hook.gate.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let acceptor = acceptor.clone();
                let seen = seen.clone();
                let gate = gate.clone();
                let count = count.clone();
                tokio::spawn(async move {
                    // A client that does not trust the certificate ends the handshake.
                    let Ok(stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let service = service_fn(move |request: http::Request<Incoming>| {
                        let seen = seen.clone();
                        let gate = gate.clone();
                        let count = count.clone();
                        async move {
                            let body = request.into_body().collect().await?.to_bytes();
                            let review: Value = serde_json::from_slice(&body).unwrap();
                            let answer = respond(&review);
                            seen.lock().push(review["request"].clone());
                            count.send_modify(|count| *count += 1);
                            drop(gate.read().await);
                            let body = Full::new(Bytes::from(answer.to_string()));
                            Ok::<_, hyper::Error>(http::Response::new(body))
                        }
                    });
                    let http = hyper::server::conn::http1::Builder::new();
                    let _closed = http.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        hook
    }

    /// The `clientConfig` with the address of this webhook.
    pub(crate) fn client(&self) -> Value {
        json!({"url": format!("https://127.0.0.1:{}/x", self.port), "caBundle": self.authority})
    }

    /// Delays all answers until the guard is dropped.
    pub(crate) async fn hold(&self) -> OwnedRwLockWriteGuard<()> {
        self.gate.clone().write_owned().await
    }

    /// Waits until the webhook has this many requests.
    pub(crate) async fn asked(&self, count: usize) {
        let mut asked = self.asked.clone();
        asked.wait_for(|found| *found >= count).await.unwrap();
    }

    pub(crate) fn requests(&self) -> Vec<Value> {
        self.seen.lock().clone()
    }
}
