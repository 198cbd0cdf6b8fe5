//! The authorities that sign: a certificate and its key, in files that may change.
//!
//! Upstream: `ca_provider.go`, and `k8s.io/apiserver/pkg/server/dynamiccertificates`.

use std::fmt::Display;
use std::path::PathBuf;

use steersman_client::reload::{OpenError, Reloading};
use steersman_options::Options;
use steersman_pki::keys::PrivateKey;
use steersman_pki::x509::{self, Certificate};

use super::signer::{self, Files, Signer};

/// The certificate of an authority, and its key.
#[derive(Debug)]
pub(super) struct Authority {
    pub(super) certificate: Certificate,
    pub(super) key: PrivateKey,
}

/// The current content of a pair of files. A pair that fits together can still be unusable; then
/// signing fails until the files are changed. Upstream: `currentCA`, which returns the error of
/// `setCA` while the new pair is unusable.
pub(super) type Current = Reloading<Result<Authority, String>>;

/// An authority cannot be used from the start.
#[derive(Debug, thiserror::Error)]
#[error("failed to init {signer} certificate controller: {reason}")]
pub(super) struct AuthorityError {
    signer: &'static str,
    reason: String,
}

/// The signers that run, with their authorities. Signers with the same files share them. An empty
/// list means that the controller is off.
pub(super) fn of_signers(options: &Options) -> Result<Vec<(Signer, Current)>, AuthorityError> {
    let running = signer::running(options);
    if running.is_empty() {
        tracing::info!("Skipping CSR signer controller because no csr cert/key was specified");
        return Ok(Vec::new());
    }
    let mut authorities: Vec<(Signer, Files, Current)> = Vec::new();
    for signer in Signer::ALL {
        // The common pair serves all signers, so only flags of some signers lead here.
        let Some((_, files)) = running.iter().find(|(running, _)| *running == signer) else {
            tracing::info!(
                signer = signer.name(),
                "Skipping CSR signer controller because specific files were specified for other signers and not this one"
            );
            continue;
        };
        let same = authorities.iter().find(|(_, known, _)| known == files);
        let current = match same {
            Some((_, _, current)) => current.clone(),
            None => files.open().map_err(|reason| AuthorityError {
                signer: signer.name(),
                reason,
            })?,
        };
        authorities.push((signer, files.clone(), current));
    }
    let without_files = |(signer, _, current)| (signer, current);
    Ok(authorities.into_iter().map(without_files).collect())
}

impl Files {
    /// Reads the files now, and again after they change.
    fn open(&self) -> Result<Current, String> {
        let Self { certificate, key } = self;
        let failed =
            |reason: String| format!("error reading CA cert file {certificate:?}: {reason}");
        // A half pair in the flags of a signer ends the start of the manager, as in upstream.
        if certificate.is_empty() || key.is_empty() {
            return Err(failed("missing filename for serving cert".to_owned()));
        }
        let name = format!("csr-controller::{certificate}::{key}");
        let paths = [certificate, key].map(PathBuf::from).to_vec();
        let current = Reloading::open(paths, move |content| {
            authority(&name, &content[0], &content[1])
        });
        let current = current.map_err(|error| match error {
            OpenError::Read(error) => failed(error.to_string()),
            OpenError::Content { reason, .. } => failed(reason),
        })?;
        // At the start, an unusable pair is an error. Later it only makes signing fail.
        match &*current.latest() {
            Ok(_) => Ok(current),
            Err(reason) => Err(reason.clone()),
        }
    }
}

/// The authority in the contents of the two files. The outer error means that the contents do not
/// fit together, and the inner one that they fit and cannot be used. The outer error keeps the
/// former pair in effect. Upstream has the same two stages: the dynamic content and `setCA`.
fn authority(
    name: &str,
    certificate: &[u8],
    key: &[u8],
) -> Result<Result<Authority, String>, String> {
    if certificate.is_empty() || key.is_empty() {
        return Err(format!("missing content for serving cert {name:?}"));
    }
    let (leaf, _) = x509::key_pair(certificate, key)?;
    let unusable = |part, reason: &dyn Display| {
        Ok(Err(format!(
            "error reading CA {part} file {name:?}: {reason}"
        )))
    };
    // The pair fits by its first certificate. A chain would leave open which one signs.
    match x509::certificates_without_headers(certificate) {
        0 => {
            let reason = "data does not contain any valid RSA or ECDSA certificates";
            return unusable("cert", &reason);
        }
        1 => {}
        count => {
            let reason = format!("expected 1 certificate, found {count}");
            return unusable("cert", &reason);
        }
    }
    match PrivateKey::from_pem(key) {
        Ok(key) => Ok(Ok(Authority {
            certificate: leaf,
            key,
        })),
        Err(error) => unusable("key", &error),
    }
}
