//! The user's key for tokens of ServiceAccounts, from `--service-account-private-key-file`. The
//! embedded API server accepts the tokens that the manager signs with it.

use std::path::Path;

use steersman_client::files::{self, ReadError};
use steersman_devcluster::DevCluster;
use steersman_devcluster::auth::KeyError as ServerError;
use steersman_pki::keys::{KeyError, PrivateKey};

use crate::config::Config;

/// The key cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum AccountKeyError {
    #[error("--service-account-private-key-file: {0}")]
    File(#[from] ReadError),
    #[error("--service-account-private-key-file {file}: {source}")]
    Content { file: String, source: KeyError },
    #[error(
        "--service-account-private-key-file {file}: the API server cannot verify its tokens: {source}"
    )]
    Server { file: String, source: ServerError },
}

/// Makes the public key of the flag known to the API server of `cluster`. Does nothing without the
/// flag, and without the controller that signs tokens.
pub(super) fn share(config: &Config, cluster: &DevCluster) -> Result<(), AccountKeyError> {
    let file = config.options().text("service-account-private-key-file");
    if file.is_empty() || config.controllers.tokens.is_none() {
        return Ok(());
    }
    let key = match PrivateKey::from_pem(&files::read(Path::new(&file))?) {
        Ok(key) => key,
        Err(source) => return Err(AccountKeyError::Content { file, source }),
    };
    let added = cluster.add_service_account_keys(&key.public_key_pem());
    added.map_err(|source| AccountKeyError::Server { file, source })
}
