//! TLS of the server: certificates, protocol versions, cipher suites and key exchange groups.
//!
//! rustls offers secure suites only. Flags that name others are accepted with a warning, so that
//! the arguments of an existing installation work. Upstream:
//! `k8s.io/apiserver/pkg/server/options/serving.go`.

mod certificate;
mod fingerprint;
mod resolver;

use std::path::PathBuf;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};
use steersman_values::clock::Clock;

use crate::access::AnyClient;
use crate::config::Tls;
pub(crate) use fingerprint::Fingerprint;
pub(crate) use resolver::Resolver;

/// The server cannot offer TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be written.
    #[error("{}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        problem: String,
    },
    /// A certificate cannot be generated.
    #[error("generate a serving certificate: {0}")]
    Generate(#[from] rcgen::Error),
    /// Certificate or key are unreadable, or do not belong together.
    #[error("unable to load server certificate: {0}")]
    Pair(String),
    /// TLS settings that rustls rejects.
    #[error("TLS settings: {0}")]
    Rustls(#[from] rustls::Error),
    /// An unknown cipher suite; upstream's text.
    #[error("Cipher suite {0} not supported or doesn't exist")]
    CipherSuite(String),
    /// No configured key exchange group is supported.
    #[error(
        "none of the key exchange groups {0:?} is supported; 23 (P-256), 24 (P-384) and 29 (X25519) are"
    )]
    Groups(Vec<u16>),
}

/// Returns the settings of the TLS acceptor, and the resolver to refresh before each handshake.
/// With `ask_for_certificates`, the server requests client certificates.
pub(crate) fn server_config(
    tls: &Tls,
    clock: &Clock,
    ask_for_certificates: bool,
) -> Result<(ServerConfig, Arc<Resolver>), TlsError> {
    let provider = Arc::new(provider(tls)?);
    let resolver = Arc::new(Resolver::new(tls, clock, Arc::clone(&provider))?);
    let versions: &[&rustls::SupportedProtocolVersion] = match tls.min_version.as_str() {
        "VersionTLS13" => &[&rustls::version::TLS13],
        // TLS 1.0 and 1.1 are valid flag values, but rustls does not implement them.
        _ => &[&rustls::version::TLS13, &rustls::version::TLS12],
    };
    let builder = ServerConfig::builder_with_provider(provider).with_protocol_versions(versions)?;
    let builder = if ask_for_certificates {
        builder.with_client_cert_verifier(Arc::new(AnyClient::new()))
    } else {
        builder.with_no_client_auth()
    };
    let mut config = builder.with_cert_resolver(Arc::clone(&resolver) as Arc<_>);
    config.alpn_protocols = if tls.http2 {
        vec![b"h2".to_vec(), b"http/1.1".to_vec()]
    } else {
        vec![b"http/1.1".to_vec()]
    };
    Ok((config, resolver))
}

/// Cipher suites that Go knows but rustls omits as insecure: RSA key exchange, CBC, RC4 and 3DES.
const NOT_IMPLEMENTED: [&str; 16] = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
];

/// The cipher suites and groups that the flags name. As in upstream, TLS 1.3 suites cannot be
/// configured. Insecure suites are omitted with a warning.
fn provider(tls: &Tls) -> Result<CryptoProvider, TlsError> {
    let mut provider = ring::default_provider();
    if !tls.cipher_suites.is_empty() {
        let known = |name: &str| {
            NOT_IMPLEMENTED.contains(&name)
                || provider
                    .cipher_suites
                    .iter()
                    .any(|suite| is_called(suite, name))
        };
        if let Some(unknown) = tls.cipher_suites.iter().find(|name| !known(name)) {
            return Err(TlsError::CipherSuite(unknown.clone()));
        }
        let left_out: Vec<&str> = NOT_IMPLEMENTED
            .into_iter()
            .filter(|name| tls.cipher_suites.iter().any(|asked| asked == name))
            .collect();
        if !left_out.is_empty() {
            tracing::warn!(
                suites = left_out.join(","),
                "insecure cipher suites are not offered"
            );
        }
        let asked = |suite: &rustls::SupportedCipherSuite| {
            tls.cipher_suites.iter().any(|name| is_called(suite, name))
        };
        provider
            .cipher_suites
            .retain(|suite| suite.tls13().is_some() || asked(suite));
    }
    if !tls.groups.is_empty() {
        provider
            .kx_groups
            .retain(|group| tls.groups.contains(&u16::from(group.name())));
        if provider.kx_groups.is_empty() {
            return Err(TlsError::Groups(tls.groups.clone()));
        }
    }
    Ok(provider)
}

/// Whether the flag value `name` means this suite.
fn is_called(suite: &rustls::SupportedCipherSuite, name: &str) -> bool {
    let full = format!("{:?}", suite.suite());
    // Go accepts two suites without their suffix `_SHA256`, too.
    full.replacen("TLS13_", "TLS_", 1) == name
        || full == format!("{name}_SHA256") && name.ends_with("CHACHA20_POLY1305")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Certificate, Pair};

    fn config(change: impl FnOnce(&mut Tls)) -> Result<ServerConfig, TlsError> {
        let mut tls = Tls {
            http2: true,
            ..Tls::default()
        };
        change(&mut tls);
        server_config(&tls, &Clock::system(), false).map(|(config, _)| config)
    }

    #[test]
    fn a_generated_pair_is_used_and_kept_in_its_directory() {
        assert_eq!(
            config(|_| {}).unwrap().alpn_protocols,
            [b"h2".to_vec(), b"http/1.1".to_vec()]
        );
        let directory = tempfile::tempdir().unwrap();
        let inside = directory.path().join("pki");
        let from_directory =
            || config(|tls| tls.certificate = Certificate::Directory(inside.clone())).map(drop);
        from_directory().unwrap();
        let first = std::fs::read(inside.join("kube-controller-manager.crt")).unwrap();
        from_directory().unwrap();
        assert_eq!(
            std::fs::read(inside.join("kube-controller-manager.crt")).unwrap(),
            first
        );
    }

    #[test]
    fn errors_name_the_file_or_the_setting() {
        let missing = Pair {
            certificate: "/nowhere/tls.crt".into(),
            key: "/nowhere/tls.key".into(),
        };
        let error = config(|tls| tls.certificate = Certificate::Files(missing))
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with(
                "unable to load server certificate: open /nowhere/tls.crt: no such file"
            ),
            "{error}"
        );
        let error = config(|tls| tls.cipher_suites = vec!["TLS_NO".into()])
            .unwrap_err()
            .to_string();
        assert_eq!(error, "Cipher suite TLS_NO not supported or doesn't exist");
        assert!(matches!(
            config(|tls| tls.groups = vec![25]),
            Err(TlsError::Groups(_))
        ));
    }

    #[test]
    fn only_configured_suites_and_groups_are_offered() {
        let config = config(|tls| {
            tls.cipher_suites = vec!["TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305".into()];
            tls.groups = vec![29];
        });
        let provider = config.unwrap().crypto_provider().clone();
        let old = provider
            .cipher_suites
            .iter()
            .filter(|suite| suite.tls13().is_none())
            .count();
        assert_eq!((old, provider.kx_groups.len()), (1, 1));
    }
}
