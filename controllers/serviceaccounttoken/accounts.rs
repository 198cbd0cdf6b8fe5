//! One sync of one account: the Secrets of a gone account are deleted.

use steersman_runtime::object::{Object, ObjectKey};
use steersman_runtime::workers::{Requeue, Retry, Syncer};
use steersman_runtime::workqueue::WorkQueue;

use super::Shared;
use super::error::SyncError;
use super::keys::{AccountKey, SecretKey};

/// Syncs accounts.
pub(super) struct Accounts {
    pub(super) shared: Shared,
    pub(super) secret_queue: WorkQueue<SecretKey>,
}

impl Syncer<AccountKey> for Accounts {
    type Error = SyncError;

    async fn sync(&self, key: &AccountKey) -> Result<Requeue, SyncError> {
        let Shared {
            accounts, secrets, ..
        } = &self.shared;
        let cached = accounts.get(&ObjectKey::new(&key.namespace, &key.name));
        if cached.is_some_and(|account| account.meta.uid == key.uid) {
            return Ok(Requeue::Never);
        }
        let mut failed = None;
        for secret in secrets.in_namespace(&key.namespace) {
            let Some(secret_key) =
                SecretKey::of(&secret).filter(|own| own.account[..] == key.name[..])
            else {
                continue;
            };
            match &secret_key.account_uid {
                Some(uid) if *uid == key.uid => {
                    tracing::debug!(secret = %secret.key(), "the account of the Secret is gone");
                    if let Err(error) = self.shared.delete(&secret).await {
                        failed.get_or_insert(error);
                    }
                }
                Some(_) => {}
                // The Secret may be for a new account of that name, so its own sync decides.
                None => self.secret_queue.add(secret_key),
            }
        }
        failed.map_or(Ok(Requeue::Never), Err)
    }

    fn retry(&self, error: &SyncError, failures: u32) -> Retry {
        error.retry(failures)
    }
}
