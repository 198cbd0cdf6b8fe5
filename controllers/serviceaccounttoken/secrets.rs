//! One sync of one Secret: it gets the parts that it lacks, or goes with its account. The reference
//! of an account to a deleted Secret is removed.

use std::sync::Arc;

use serde_json::{Map, Value};
use steersman_client::live;
use steersman_client::writes::Delete;
use steersman_client::{ApiError, Target, is_path_name};
use steersman_objects::{Object, ObjectKey, ServiceAccount, TokenSecret};
use steersman_runtime::workers::{Requeue, Retry, Syncer};

use super::Shared;
use super::error::SyncError;
use super::keys::SecretKey;
use super::needs::{Needs, RootCa};
use super::token::{Claims, Signer};

/// Syncs Secrets.
pub(super) struct Secrets {
    pub(super) shared: Shared,
    pub(super) signer: Signer,
    pub(super) root_ca: RootCa,
}

impl Syncer<SecretKey> for Secrets {
    type Error = SyncError;

    async fn sync(&self, key: &SecretKey) -> Result<Requeue, SyncError> {
        let cached = self.shared.secrets.get(&key.object());
        match cached.filter(|secret| secret.meta.uid == key.uid) {
            None if self.shared.cached_account(key).is_some() => {
                self.remove_reference(key).await?;
            }
            None => {}
            // The event that moved the Secret to another account has enqueued its new key. An
            // action on the old account would delete the Secret, or take it back.
            Some(secret) if !key.is_of(&secret) => {}
            Some(secret) => match self.account(key, &secret).await? {
                Some(account) => self.populate(&secret, &account).await?,
                None => self.shared.delete(&secret).await?,
            },
        }
        Ok(Requeue::Never)
    }

    fn retry(&self, error: &SyncError, failures: u32) -> Retry {
        error.retry(failures)
    }
}

impl Shared {
    /// The account of a Secret, in the cache.
    fn cached_account(&self, key: &SecretKey) -> Option<Arc<ServiceAccount>> {
        let account = self
            .accounts
            .get(&ObjectKey::new(&key.namespace, &key.account));
        account.filter(|account| key.is_for(account))
    }

    /// The account of a Secret, as the API server has it.
    async fn live_account(
        &self,
        key: &SecretKey,
    ) -> Result<Option<Arc<ServiceAccount>>, SyncError> {
        if !is_path_name(&key.account) {
            return Err(SyncError::AccountName(key.account.clone()));
        }
        let live = live::object::<ServiceAccount>(&self.client, &key.namespace, &key.account).await;
        let live = live.map_err(SyncError::Account)?;
        Ok(live.filter(|account| key.is_for(account)).map(Arc::new))
    }

    /// Deletes a Secret, unless it has changed since.
    pub(super) async fn delete(&self, secret: &TokenSecret) -> Result<(), SyncError> {
        let meta = &secret.meta;
        let options = Delete::exactly(meta).unchanged_since(meta.resource_version);
        let target = Target::of::<TokenSecret>(meta);
        match self.client.delete(target, &options).await {
            Err(error) if error.is_object_not_found() => Ok(()),
            // A conflict is no success: the next sync sees the change, or deletes.
            deleted => deleted.map(drop).map_err(SyncError::Secret),
        }
    }
}

impl Secrets {
    /// The account of `secret`. The API server confirms that it is gone. It also confirms the account
    /// of a token that is to be made, if the Secret has no UID: the cache may show an account that
    /// another one of its name has replaced.
    async fn account(
        &self,
        key: &SecretKey,
        secret: &TokenSecret,
    ) -> Result<Option<Arc<ServiceAccount>>, SyncError> {
        let is_certain =
            key.account_uid.is_some() || Needs::of(&secret.data, &self.root_ca).is_none();
        match self.shared.cached_account(key).filter(|_| is_certain) {
            Some(account) => Ok(Some(account)),
            None => self.shared.live_account(key).await,
        }
    }

    /// Writes the parts that the Secret lacks. The API server's copy decides, because the cache may
    /// lack a token that a former leader wrote.
    async fn populate(
        &self,
        cached: &TokenSecret,
        account: &ServiceAccount,
    ) -> Result<(), SyncError> {
        if Needs::of(&cached.data, &self.root_ca).is_none() {
            return Ok(());
        }
        let target = Target::of::<TokenSecret>(&cached.meta);
        let live = match self.shared.client.get(target).await {
            Err(error) if error.is_object_not_found() => return Ok(()),
            live => live.map_err(SyncError::Secret)?,
        };
        let secret = TokenSecret::decode(&live).map_err(SyncError::Answer)?;
        if secret.meta.resource_version != cached.meta.resource_version {
            tracing::debug!("the Secret has changed, and its event is on the way");
            return Ok(());
        }
        let Some(needs) = Needs::of(&secret.data, &self.root_ca) else {
            return Ok(());
        };
        let token = needs.token.then(|| {
            self.signer.sign(&Claims {
                namespace: &account.meta.namespace,
                secret: &secret.meta.name,
                account: &account.meta.name,
                account_uid: &account.meta.uid.to_string(),
            })
        });
        let token = token.transpose().map_err(SyncError::Sign)?;
        let body = needs.filled(object(&live)?, account, token.as_deref(), &self.root_ca);
        match self.shared.client.replace(target, &body).await {
            Err(error) if error.is_object_not_found() => Ok(()),
            // A conflict is no success: the next sync sees the change, or writes.
            replaced => replaced.map(drop).map_err(SyncError::Secret),
        }
    }

    /// Removes the reference of the account to a Secret that is gone.
    async fn remove_reference(&self, key: &SecretKey) -> Result<(), SyncError> {
        let target = Target::named::<ServiceAccount>(&key.namespace, &key.account);
        let is_gone = |error: &ApiError| error.is_object_not_found();
        let live = match self.shared.client.get(target).await {
            Err(error) if is_gone(&error) => return Ok(()),
            live => live.map_err(SyncError::Reference)?,
        };
        let account = ServiceAccount::decode(&live).map_err(SyncError::Answer)?;
        let is_listed = account
            .secrets
            .iter()
            .any(|listed| listed.name[..] == key.name[..]);
        if !is_listed || !key.is_for(&account) {
            return Ok(());
        }
        let mut body = object(&live)?;
        if let Some(Value::Array(listed)) = body.get_mut("secrets") {
            listed.retain(|secret| secret["name"] != *key.name);
        }
        match self.shared.client.replace(target, &body).await {
            Err(error) if is_gone(&error) => Ok(()),
            replaced => replaced.map(drop).map_err(SyncError::Reference),
        }
    }
}

/// The JSON object in an answer. The error does not quote the answer, which may be a Secret.
fn object(answer: &[u8]) -> Result<Map<String, Value>, SyncError> {
    serde_json::from_slice(answer).map_err(|_| SyncError::Json)
}
