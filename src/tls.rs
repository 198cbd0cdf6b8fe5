//! TLS of the server: where its certificate comes from, and what is offered.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use steersman_runtime::clock::Clock;

use crate::config::{Certificate, Tls};
use crate::version::COMPONENT;

/// The server cannot offer TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read or written, or is no PEM.
    #[error("{}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A certificate cannot be made.
    #[error("generate a serving certificate: {0}")]
    Generate(#[from] rcgen::Error),
    /// Certificate, key and settings do not go together.
    #[error("serving certificate: {0}")]
    Rustls(#[from] rustls::Error),
    /// No cipher suite of that name; upstream's text.
    #[error("Cipher suite {0} not supported or doesn't exist")]
    CipherSuite(String),
    /// No key exchange group of that number.
    #[error("none of the key exchange groups {0:?} is supported")]
    Groups(Vec<u16>),
}

type Pair = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// What the acceptor needs.
pub(crate) fn server_config(tls: &Tls, clock: &Clock) -> Result<ServerConfig, TlsError> {
    let (chain, key) = match &tls.certificate {
        Certificate::Generated => read(&generate(clock)?)?,
        Certificate::Files { certificate, key } => read_files(certificate, key)?,
        Certificate::Directory(directory) => from_directory(directory, clock)?,
    };
    let versions: &[&rustls::SupportedProtocolVersion] = match tls.min_version.as_str() {
        "VersionTLS13" => &[&rustls::version::TLS13],
        // Older versions than 1.2 can be named but are not spoken.
        _ => &[&rustls::version::TLS13, &rustls::version::TLS12],
    };
    let builder = ServerConfig::builder_with_provider(Arc::new(provider(tls)?)).with_protocol_versions(versions)?;
    let mut config = builder.with_no_client_auth().with_single_cert(chain, key)?;
    config.alpn_protocols = if tls.http2 { vec![b"h2".to_vec(), b"http/1.1".to_vec()] } else { vec![b"http/1.1".to_vec()] };
    Ok(config)
}

/// Cipher suites and groups as asked for. Suites of TLS 1.3 are not for configuring, as in upstream.
fn provider(tls: &Tls) -> Result<CryptoProvider, TlsError> {
    let mut provider = ring::default_provider();
    if !tls.cipher_suites.is_empty() {
        let known = |name: &str| provider.cipher_suites.iter().any(|suite| is_called(suite, name));
        if let Some(unknown) = tls.cipher_suites.iter().find(|name| !known(name)) {
            return Err(TlsError::CipherSuite(unknown.clone()));
        }
        let asked = |suite: &rustls::SupportedCipherSuite| tls.cipher_suites.iter().any(|name| is_called(suite, name));
        provider.cipher_suites.retain(|suite| suite.tls13().is_some() || asked(suite));
    }
    if !tls.groups.is_empty() {
        provider.kx_groups.retain(|group| tls.groups.contains(&u16::from(group.name())));
        if provider.kx_groups.is_empty() {
            return Err(TlsError::Groups(tls.groups.clone()));
        }
    }
    Ok(provider)
}

fn is_called(suite: &rustls::SupportedCipherSuite, name: &str) -> bool {
    let full = format!("{:?}", suite.suite());
    // Go still knows two suites under a shorter name.
    full.replacen("TLS13_", "TLS_", 1) == name || full == format!("{name}_SHA256") && name.ends_with("CHACHA20_POLY1305")
}

/// A chain and its key in PEM.
struct Pem {
    chain: String,
    key: String,
}

fn read(pem: &Pem) -> Result<Pair, TlsError> {
    let wrong =
        |problem: rustls::pki_types::pem::Error| TlsError::File { path: "(generated)".into(), problem: problem.to_string() };
    let chain = CertificateDer::pem_slice_iter(pem.chain.as_bytes()).collect::<Result<_, _>>().map_err(wrong)?;
    Ok((chain, PrivateKeyDer::from_pem_slice(pem.key.as_bytes()).map_err(wrong)?))
}

fn read_files(certificate: &Path, key: &Path) -> Result<Pair, TlsError> {
    let wrong = |path: &Path, problem: String| TlsError::File { path: path.to_owned(), problem };
    let chain = CertificateDer::pem_file_iter(certificate).map_err(|e| wrong(certificate, e.to_string()))?;
    let chain: Vec<_> = chain.collect::<Result<_, _>>().map_err(|e| wrong(certificate, e.to_string()))?;
    if chain.is_empty() {
        return Err(wrong(certificate, "holds no certificate".to_owned()));
    }
    Ok((chain, PrivateKeyDer::from_pem_file(key).map_err(|e| wrong(key, e.to_string()))?))
}

/// The pair that lies in `directory`; when there is none it is made.
fn from_directory(directory: &Path, clock: &Clock) -> Result<Pair, TlsError> {
    let (certificate, key) = (directory.join(format!("{COMPONENT}.crt")), directory.join(format!("{COMPONENT}.key")));
    if !certificate.exists() || !key.exists() {
        let pem = generate(clock)?;
        let wrong = |path: &Path| {
            let path = path.to_owned();
            move |e: std::io::Error| TlsError::File { path, problem: e.to_string() }
        };
        std::fs::create_dir_all(directory).map_err(wrong(directory))?;
        std::fs::write(&certificate, &pem.chain).map_err(wrong(&certificate))?;
        write_secret(&key, &pem.key).map_err(wrong(&key))?;
    }
    read_files(&certificate, &key)
}

/// Readable by the owner only.
fn write_secret(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(text.as_bytes())
}

/// A certificate for `localhost` and its own authority, with upstream's names and times. The keys are ECDSA, not RSA.
fn generate(clock: &Clock) -> Result<Pem, TlsError> {
    let now = clock.now().as_second();
    let start = Duration::from_secs(u64::try_from(now).unwrap_or(0).saturating_sub(3600));
    let not_before = rcgen::date_time_ymd(1970, 1, 1) + start;
    let params = |name: String, names: Vec<String>| -> Result<CertificateParams, TlsError> {
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.not_before = not_before;
        params.not_after = not_before + Duration::from_secs(365 * 24 * 3600);
        Ok(params)
    };

    let ca_key = KeyPair::generate()?;
    let mut ca = params(format!("localhost-ca@{now}"), Vec::new())?;
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment, KeyUsagePurpose::KeyCertSign];
    let ca_certificate = ca.self_signed(&ca_key)?;

    let key = KeyPair::generate()?;
    let mut leaf = params(format!("localhost@{now}"), vec!["localhost".to_owned()])?;
    leaf.subject_alt_names.push(SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    leaf.is_ca = IsCa::ExplicitNoCa;
    leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let certificate = leaf.signed_by(&key, &Issuer::from_params(&ca, &ca_key))?;
    Ok(Pem { chain: certificate.pem() + &ca_certificate.pem(), key: key.serialize_pem() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(change: impl FnOnce(&mut Tls)) -> Result<ServerConfig, TlsError> {
        let mut tls = Tls { http2: true, ..Tls::default() };
        change(&mut tls);
        server_config(&tls, &Clock::system())
    }

    #[test]
    fn a_generated_pair_works_and_one_in_a_directory_is_kept() {
        assert_eq!(config(|_| {}).unwrap().alpn_protocols, [b"h2".to_vec(), b"http/1.1".to_vec()]);
        let directory = tempfile::tempdir().unwrap();
        let inside = directory.path().join("pki");
        let from_directory = || config(|tls| tls.certificate = Certificate::Directory(inside.clone())).map(drop);
        from_directory().unwrap();
        let first = std::fs::read(inside.join("kube-controller-manager.crt")).unwrap();
        from_directory().unwrap();
        assert_eq!(std::fs::read(inside.join("kube-controller-manager.crt")).unwrap(), first);
    }

    #[test]
    fn what_cannot_be_offered_is_named() {
        let missing = Certificate::Files { certificate: "/nowhere/tls.crt".into(), key: "/nowhere/tls.key".into() };
        let error = config(|tls| tls.certificate = missing).unwrap_err().to_string();
        assert!(error.starts_with("/nowhere/tls.crt: "), "{error}");
        let error = config(|tls| tls.cipher_suites = vec!["TLS_NO".into()]).unwrap_err().to_string();
        assert_eq!(error, "Cipher suite TLS_NO not supported or doesn't exist");
        assert!(matches!(config(|tls| tls.groups = vec![1]), Err(TlsError::Groups(_))));
    }

    #[test]
    fn suites_and_groups_are_limited_to_those_asked_for() {
        let config = config(|tls| {
            tls.cipher_suites = vec!["TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305".into()];
            tls.groups = vec![29];
        });
        let provider = config.unwrap().crypto_provider().clone();
        let old = provider.cipher_suites.iter().filter(|suite| suite.tls13().is_none()).count();
        assert_eq!((old, provider.kx_groups.len()), (1, 1));
    }
}
