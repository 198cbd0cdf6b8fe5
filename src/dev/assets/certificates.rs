//! The files of kube-apiserver's flags: its serving certificate, authorities and keys.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use steersman_client::files::{self, ReadError};
use steersman_devcluster::DevCluster;
use steersman_devcluster::auth::KeyError as ServerError;
use steersman_pki::keys::PrivateKey;

use super::flags::Given;
use crate::dev::kubeconfig::write_private;

/// kube-apiserver's default of `--cert-dir`.
const FOLDER: &str = "/var/run/kubernetes";

/// A file of a flag cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    #[error("--{flag}: {source}")]
    Read {
        flag: &'static str,
        source: ReadError,
    },
    #[error("--{flag} {}: it is no text", path.display())]
    Text { flag: &'static str, path: PathBuf },
    #[error("--tls-cert-file and --tls-private-key-file need each other")]
    Half,
    #[error("make a serving certificate: {0}")]
    Generate(String),
    #[error("--cert-dir: write {}: {source}", path.display())]
    Write {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("--service-account-key-file {file}: {source}")]
    Key { file: String, source: ServerError },
}

/// The text of the file that `flag` names; `None` without the flag.
pub(super) fn text(given: &Given, flag: &'static str) -> Result<Option<String>, FileError> {
    match given.last(flag).filter(|path| !path.is_empty()) {
        Some(path) => read(flag, Path::new(path)).map(Some),
        None => Ok(None),
    }
}

fn read(flag: &'static str, path: &Path) -> Result<String, FileError> {
    let bytes = files::read(path).map_err(|source| FileError::Read { flag, source })?;
    String::from_utf8(bytes.to_vec()).map_err(|_| FileError::Text {
        flag,
        path: path.to_owned(),
    })
}

/// The serving certificate and its key, as PEM: those of `--tls-cert-file`, else `apiserver.crt` and
/// `apiserver.key` of `--cert-dir`. Missing ones are made and written there, since clients read the
/// authority from the file, as with kube-apiserver.
pub(super) fn serving(
    given: &Given,
    cluster: &DevCluster,
    host: &str,
) -> Result<(String, String), FileError> {
    match (
        text(given, "tls-cert-file")?,
        text(given, "tls-private-key-file")?,
    ) {
        (Some(certificate), Some(key)) => return Ok((certificate, key)),
        (None, None) => {}
        _ => return Err(FileError::Half),
    }
    const FLAG: &str = "cert-dir";
    let folder = Path::new(given.last(FLAG).unwrap_or(FOLDER));
    let certificate = folder.join("apiserver.crt");
    let key = folder.join("apiserver.key");
    if certificate.exists() && key.exists() {
        return Ok((read(FLAG, &certificate)?, read(FLAG, &key)?));
    }
    let made = cluster
        .serving_certificate(host)
        .map_err(|error| FileError::Generate(error.to_string()))?;
    let written = std::fs::create_dir_all(folder)
        .map_err(|source| (folder.to_owned(), source))
        .and_then(|()| place(&certificate, &made.0))
        .and_then(|()| place(&key, &made.1));
    match written {
        // Without the flag, clients do not look for the files, and few users may write there.
        Err((_, source))
            if given.last(FLAG).is_none() && source.kind() == ErrorKind::PermissionDenied => {}
        Err((path, source)) => return Err(FileError::Write { path, source }),
        Ok(()) => {}
    }
    Ok(made)
}

/// Writes a file that only its owner can read.
fn place(path: &Path, content: &str) -> Result<(), (PathBuf, std::io::Error)> {
    // A half of a pair that is left over fits no other half.
    let removed = match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    removed
        .and_then(|()| write_private(path, content))
        .map_err(|source| (path.to_owned(), source))
}

/// Makes the keys of `--service-account-key-file` known to the API server. A file has a public key, a
/// certificate, or a private key, as with kube-apiserver.
pub(super) fn share_account_keys(given: &Given, cluster: &DevCluster) -> Result<(), FileError> {
    const FLAG: &str = "service-account-key-file";
    for file in given.all(FLAG) {
        let pem = read(FLAG, Path::new(file))?;
        let key = PrivateKey::from_pem(pem.as_bytes());
        let public = key.map_or(pem, |key| key.public_key_pem());
        let added = cluster.add_service_account_keys(&public);
        added.map_err(|source| FileError::Key {
            file: file.clone(),
            source,
        })?;
    }
    Ok(())
}
