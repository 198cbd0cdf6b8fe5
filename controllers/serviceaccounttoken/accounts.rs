//! One sync of one account: the Secrets of a gone account are enqueued. The sync of a Secret asks the
//! API server for the account before it deletes anything.

use std::convert::Infallible;

use steersman_objects::ObjectKey;
use steersman_runtime::workers::{Requeue, Syncer};
use steersman_runtime::workqueue::WorkQueue;

use super::Shared;
use super::keys::{AccountKey, SecretKey};

/// Syncs accounts.
pub(super) struct Accounts {
    pub(super) shared: Shared,
    pub(super) secret_queue: WorkQueue<SecretKey>,
}

impl Syncer<AccountKey> for Accounts {
    type Error = Infallible;

    async fn sync(&self, key: &AccountKey) -> Result<Requeue, Infallible> {
        let Shared {
            accounts, secrets, ..
        } = &self.shared;
        let cached = accounts.get(&ObjectKey::new(&key.namespace, &key.name));
        if cached.is_some_and(|account| account.meta.uid == key.uid) {
            return Ok(Requeue::Never);
        }
        for secret in secrets.in_namespace(&key.namespace) {
            let Some(of_secret) = SecretKey::of(&secret) else {
                continue;
            };
            let is_of_account = of_secret.account[..] == key.name[..]
                && of_secret
                    .account_uid
                    .as_ref()
                    .is_none_or(|uid| *uid == key.uid);
            if is_of_account {
                self.secret_queue.add(of_secret);
            }
        }
        Ok(Requeue::Never)
    }
}
