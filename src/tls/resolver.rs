//! Selects the certificate for a client: by the requested server name (SNI), with the current
//! content of the files.
//!
//! rustls resolves certificates synchronously, so files are read before the handshake, by
//! [`Resolver::refresh`]. Upstream: `k8s.io/apiserver/pkg/server/dynamiccertificates`.

use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use steersman_client::reload::Reloading;
use steersman_values::clock::Clock;

use super::{Fingerprint, TlsError, certificate};
use crate::config::{Certificate, Pair, Tls};

/// The certificates of the server.
pub(crate) struct Resolver {
    default: Source,
    /// Certificates for particular names, with these names.
    named: Vec<(Reloading<CertifiedKey>, Vec<String>)>,
    /// The loaded certificates, the default as the last one.
    shown: RwLock<Vec<Shown>>,
}

/// The source of the default certificate.
enum Source {
    Memory(Arc<CertifiedKey>),
    Files(Reloading<CertifiedKey>),
}

/// A loaded certificate.
struct Shown {
    /// Server names; empty means the names in the certificate.
    names: Vec<String>,
    key: Arc<CertifiedKey>,
}

impl Shown {
    /// Tells people the fingerprint, so that they can recognise the server. Upstream logs the line at
    /// `-v=2`, with other fields.
    fn log(&self) {
        if let Some(leaf) = self.key.cert.first() {
            tracing::info!(sha256 = %Fingerprint::of(leaf), "Loaded serving cert");
        }
    }
}

impl Resolver {
    /// Loads all certificates. Fails if any of them cannot be used.
    pub(super) fn new(
        tls: &Tls,
        clock: &Clock,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, TlsError> {
        let (default, key) = match &tls.certificate {
            Certificate::Generated => {
                let key = Arc::new(certificate::generated(clock, &provider)?);
                (Source::Memory(Arc::clone(&key)), key)
            }
            Certificate::Directory(directory) => {
                files(&certificate::in_directory(directory, clock)?, &provider)?
            }
            Certificate::Files(pair) => files(pair, &provider)?,
        };
        let mut named = Vec::new();
        let mut shown = Vec::new();
        for pair in &tls.named {
            let source = certificate::in_files(&pair.pair, &provider)?;
            shown.push(Shown {
                names: pair.names.clone(),
                key: source.latest(),
            });
            named.push((source, pair.names.clone()));
        }
        shown.push(Shown {
            names: Vec::new(),
            key,
        });
        shown.iter().for_each(Shown::log);
        Ok(Self {
            default,
            named,
            shown: RwLock::new(shown),
        })
    }

    /// Loads changed files. Returns whether a certificate has changed. Call it before each
    /// handshake.
    pub(crate) async fn refresh(&self) -> bool {
        let mut shown = Vec::with_capacity(self.named.len() + 1);
        for (source, names) in &self.named {
            shown.push(Shown {
                names: names.clone(),
                key: source.current().await,
            });
        }
        let key = match &self.default {
            Source::Memory(_) if self.named.is_empty() => return false,
            Source::Memory(key) => Arc::clone(key),
            Source::Files(source) => source.current().await,
        };
        shown.push(Shown {
            names: Vec::new(),
            key,
        });
        let mut now = self.shown.write();
        let pairs = now.iter().zip(&shown);
        let changed = pairs.filter(|(was, is)| !Arc::ptr_eq(&was.key, &is.key));
        let changed = changed.map(|(_, is)| is.log()).count() > 0;
        *now = shown;
        changed
    }

    /// The certificate for the server name `name`: one for exactly this name, else one with a
    /// matching wildcard, else the default.
    fn choose(&self, name: Option<&str>) -> Option<Arc<CertifiedKey>> {
        let shown = self.shown.read();
        let (default, named) = shown.split_last()?;
        let name = name.unwrap_or_default().to_lowercase();
        let wildcard = name
            .split_once('.')
            .map(|(_, parent)| format!("*.{parent}"))
            .unwrap_or_default();
        let found = named
            .iter()
            .find(|shown| shown.names.contains(&name))
            .or_else(|| {
                named.iter().find(|shown| {
                    if shown.names.is_empty() {
                        is_valid_for(&shown.key, &name)
                    } else {
                        shown.names.contains(&wildcard)
                    }
                })
            });
        Some(Arc::clone(&found.unwrap_or(default).key))
    }
}

/// Whether the names in the certificate include `name`.
fn is_valid_for(key: &CertifiedKey, name: &str) -> bool {
    let certificate = key.end_entity_cert().and_then(ParsedCertificate::try_from);
    match (certificate, ServerName::try_from(name)) {
        (Ok(certificate), Ok(name)) => verify_server_name(&certificate, &name).is_ok(),
        _ => false,
    }
}

/// Loads the pair from files.
fn files(pair: &Pair, provider: &CryptoProvider) -> Result<(Source, Arc<CertifiedKey>), TlsError> {
    let source = certificate::in_files(pair, provider)?;
    let key = source.latest();
    Ok((Source::Files(source), key))
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.choose(hello.server_name())
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;

    use super::*;
    use crate::config::NamedPair;

    /// Writes a self-signed pair for `names` to two files.
    fn pair(directory: &Path, name: &str, names: &[&str]) -> Pair {
        let made = rcgen::generate_simple_self_signed(
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>(),
        )
        .unwrap();
        let pair = Pair {
            certificate: directory.join(format!("{name}.crt")),
            key: directory.join(format!("{name}.key")),
        };
        std::fs::write(&pair.certificate, made.cert.pem()).unwrap();
        std::fs::write(&pair.key, made.signing_key.serialize_pem()).unwrap();
        pair
    }

    fn resolver(tls: &Tls) -> Result<Resolver, TlsError> {
        Resolver::new(
            tls,
            &Clock::system(),
            Arc::new(rustls::crypto::ring::default_provider()),
        )
    }

    fn files(pair: &Pair) -> Tls {
        Tls {
            certificate: Certificate::Files(pair.clone()),
            ..Tls::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_server_name_selects_the_certificate() {
        let directory = tempfile::tempdir().unwrap();
        let make = |name: &str, names: &[&str]| pair(directory.path(), name, names);
        let named = |pair: Pair, names: &[&str]| NamedPair {
            pair,
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        };
        let pairs = [
            make("default", &["localhost"]),
            make("wild", &["x"]),
            make("exact", &["y"]),
            make("own", &["own.example"]),
        ];
        let [default, wild, exact, own] = pairs.clone();
        let resolver = resolver(&Tls {
            named: vec![
                named(wild, &["*.a.example"]),
                named(exact, &["b.a.example"]),
                named(own, &[]),
            ],
            ..files(&default)
        });
        let resolver = resolver.unwrap();
        let leaves = pairs.map(|pair| std::fs::read_to_string(pair.certificate).unwrap());
        let cases = [
            (None, 0),
            (Some("unknown.example"), 0),
            (Some("c.a.example"), 1),
            (Some("d.c.a.example"), 0),
            (Some("B.a.example"), 2),
            (Some("own.example"), 3),
        ];
        for refreshed in [false, true] {
            for (name, expected) in cases {
                let shown = resolver.choose(name).unwrap();
                let der = CertificateDer::from_pem_slice(leaves[expected].as_bytes()).unwrap();
                assert_eq!(shown.cert[0], der, "{name:?}, refreshed: {refreshed}");
            }
            resolver.refresh().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewed_pair_is_used_once_both_files_match() {
        let directory = tempfile::tempdir().unwrap();
        let old = pair(directory.path(), "tls", &["localhost"]);
        let new = pair(directory.path(), "new", &["localhost"]);
        let resolver = resolver(&files(&old)).unwrap();
        let before = resolver.choose(None).unwrap().cert.clone();
        let refresh = async || {
            tokio::time::advance(std::time::Duration::from_secs(1)).await;
            let changed = resolver.refresh().await;
            (changed, resolver.choose(None).unwrap().cert == before)
        };
        assert_eq!(refresh().await, (false, true));
        std::fs::copy(&new.certificate, &old.certificate).unwrap();
        assert_eq!(
            refresh().await,
            (false, true),
            "the key still belongs to the old certificate"
        );
        std::fs::copy(&new.key, &old.key).unwrap();
        assert_eq!(refresh().await, (true, false));
        assert_eq!(refresh().await, (false, false));
    }

    #[test]
    fn a_key_of_another_certificate_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let mut one = pair(directory.path(), "one", &["x"]);
        let other = pair(directory.path(), "other", &["x"]);
        one.key = other.key;
        let error = resolver(&files(&one)).unwrap_err().to_string();
        assert!(
            error.starts_with("unable to load server certificate: "),
            "{error}"
        );
        assert!(
            error.ends_with("tls: private key does not match public key"),
            "{error}"
        );
    }
}
