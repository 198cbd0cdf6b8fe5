//! Loads serving certificates from files, or generates them.
//!
//! Upstream: `MaybeDefaultWithSelfSignedCerts` in `k8s.io/apiserver/pkg/server/options`, and
//! `k8s.io/client-go/util/cert`.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use steersman_client::reload::Reloading;
use steersman_values::clock::Clock;

use super::TlsError;
use crate::config::Pair;
use crate::version::COMPONENT;

/// A certificate chain and its private key, in PEM.
struct Pem {
    chain: String,
    key: String,
}

/// Generates a pair that exists only in memory.
pub(super) fn generated(
    clock: &Clock,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TlsError> {
    let pem = generate(clock)?;
    certified(pem.chain.as_bytes(), pem.key.as_bytes(), provider).map_err(TlsError::Pair)
}

/// Loads the pair from files, and reloads it when they change.
pub(super) fn in_files(
    pair: &Pair,
    provider: &CryptoProvider,
) -> Result<Reloading<CertifiedKey>, TlsError> {
    let provider = provider.clone();
    let files = vec![pair.certificate.clone(), pair.key.clone()];
    Reloading::new(files, move |files| {
        certified(&files[0], &files[1], &provider)
    })
    .map_err(TlsError::Pair)
}

/// Parses a pair, and checks that certificate and key belong together.
fn certified(chain: &[u8], key: &[u8], provider: &CryptoProvider) -> Result<CertifiedKey, String> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
        .collect::<Result<_, _>>()
        .map_err(|e| format!("certificate: {e}"))?;
    if chain.is_empty() {
        return Err("tls: failed to find any PEM data in certificate input".to_owned());
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|e| format!("private key: {e}"))?;
    CertifiedKey::from_der(chain, key, provider).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            "tls: private key does not match public key".to_owned()
        }
        other => other.to_string(),
    })
}

/// The pair in `directory`; it is generated if a file is missing.
pub(super) fn in_directory(directory: &Path, clock: &Clock) -> Result<Pair, TlsError> {
    let pair = Pair {
        certificate: directory.join(format!("{COMPONENT}.crt")),
        key: directory.join(format!("{COMPONENT}.key")),
    };
    if !pair.certificate.exists() || !pair.key.exists() {
        let pem = generate(clock)?;
        let wrong = |path: &Path| {
            let path = path.to_owned();
            move |e: std::io::Error| TlsError::File {
                path,
                problem: e.to_string(),
            }
        };
        std::fs::create_dir_all(directory).map_err(wrong(directory))?;
        std::fs::write(&pair.certificate, &pem.chain).map_err(wrong(&pair.certificate))?;
        write_secret(&pair.key, &pem.key).map_err(wrong(&pair.key))?;
    }
    Ok(pair)
}

/// Writes a file that only the owner can read.
fn write_secret(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(text.as_bytes())
}

/// Generates a certificate for `localhost` and its authority, with upstream's names and validity.
/// The keys are ECDSA; upstream's are RSA.
fn generate(clock: &Clock) -> Result<Pem, TlsError> {
    let now = clock.now().as_second();
    // Valid from one hour ago, so that clients with a slow clock accept it. Upstream does the same.
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
    ca.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyEncipherment,
        KeyUsagePurpose::KeyCertSign,
    ];
    let ca_certificate = ca.self_signed(&ca_key)?;

    let key = KeyPair::generate()?;
    let mut leaf = params(format!("localhost@{now}"), vec!["localhost".to_owned()])?;
    leaf.subject_alt_names
        .push(SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    leaf.is_ca = IsCa::ExplicitNoCa;
    leaf.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyEncipherment,
    ];
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let certificate = leaf.signed_by(&key, &Issuer::from_params(&ca, &ca_key))?;
    Ok(Pem {
        chain: certificate.pem() + &ca_certificate.pem(),
        key: key.serialize_pem(),
    })
}
