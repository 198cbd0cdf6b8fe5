//! The keys of both queues.
//!
//! A key has UIDs, because a deleted object and a new one of its name need different work. A change
//! of the annotations makes another key, as upstream.

use std::fmt;
use std::sync::Arc;

use steersman_objects::{ObjectKey, ServiceAccount, TokenSecret, Uid};
use steersman_values::intern::Sym;

/// A ServiceAccount.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct AccountKey {
    pub(super) namespace: Sym,
    pub(super) name: Arc<str>,
    pub(super) uid: Uid,
}

impl AccountKey {
    pub(super) fn of(account: &ServiceAccount) -> Self {
        Self {
            namespace: account.meta.namespace.clone(),
            name: Arc::clone(&account.meta.name),
            uid: account.meta.uid.clone(),
        }
    }
}

impl fmt::Display for AccountKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A token Secret, with its account at the time of the event.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct SecretKey {
    pub(super) namespace: Sym,
    pub(super) name: Arc<str>,
    pub(super) uid: Uid,
    /// Name of the account.
    pub(super) account: Box<str>,
    /// UID of the account; `None` without the annotation.
    pub(super) account_uid: Option<Uid>,
}

impl SecretKey {
    /// The key of a Secret; `None` if it names no account. Such a Secret is left alone.
    pub(super) fn of(secret: &TokenSecret) -> Option<Self> {
        let annotations = &secret.annotations;
        let uid = Some(&*annotations.account_uid).filter(|uid| !uid.is_empty());
        (!annotations.account.is_empty()).then(|| Self {
            namespace: secret.meta.namespace.clone(),
            name: Arc::clone(&secret.meta.name),
            uid: secret.meta.uid.clone(),
            account: annotations.account.clone(),
            account_uid: uid.map(Uid::new),
        })
    }

    /// The key of the Secret in the cache.
    pub(super) fn object(&self) -> ObjectKey {
        ObjectKey {
            namespace: self.namespace.clone(),
            name: Arc::clone(&self.name),
        }
    }

    /// Whether the Secret still names the account of this key.
    pub(super) fn is_of(&self, secret: &TokenSecret) -> bool {
        Self::of(secret).is_some_and(|key| key == *self)
    }

    /// Whether `account` is the one that the Secret is for. Without a UID the name decides.
    pub(super) fn is_for(&self, account: &ServiceAccount) -> bool {
        let uid = self.account_uid.as_ref();
        uid.is_none_or(|uid| *uid == account.meta.uid)
    }
}

impl fmt::Display for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
