//! The keys that a change enqueues.
//!
//! Upstream enqueues all accounts, and a sync of a living account does nothing. Only a deletion
//! matters, also one that the watch missed because the account was created again.

use steersman_objects::{ServiceAccount, TokenSecret};
use steersman_runtime::informer::{Change, SharedInformer};
use steersman_runtime::workqueue::WorkQueue;

use super::keys::{AccountKey, SecretKey};

/// Registers the handlers of accounts and Secrets.
pub(super) fn register(
    accounts: &SharedInformer<ServiceAccount>,
    secrets: &SharedInformer<TokenSecret>,
    account_queue: &WorkQueue<AccountKey>,
    secret_queue: &WorkQueue<SecretKey>,
) {
    let queue = account_queue.clone();
    accounts.add_handler(move |change| match change {
        Change::Deleted { object, .. } => queue.add(AccountKey::of(object)),
        Change::Updated { old, new } if old.meta.uid != new.meta.uid => {
            queue.add(AccountKey::of(old));
        }
        Change::Added { .. } | Change::Updated { .. } => {}
    });
    let queue = secret_queue.clone();
    secrets.add_handler(move |change| {
        if let Some(key) = SecretKey::of(change.object()) {
            queue.add(key);
        }
    });
}
