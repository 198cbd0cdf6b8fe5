//! Creates the ServiceAccount `default` in each active namespace.
//!
//! Namespace events and deletions of accounts -> queue of namespaces -> sync -> POST
//!
//! Pods need this account: the API server refuses pods of a namespace without it. An account that
//! exists is never changed.
//!
//! Upstream: `pkg/controller/serviceaccount/serviceaccounts_controller.go`. Difference: a sync waits
//! until the cache shows the account that it created before.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde_json::json;
use steersman_client::{ApiClient, ApiError, Target};
use steersman_objects::{DecodeError, Namespace, Object, ObjectKey, ServiceAccount};
use steersman_runtime::consistency::TrackedCache;
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::informer::{Change, Store};
use steersman_runtime::keyed::{Keyed, ObjectSyncer};
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;
use steersman_runtime::workers::Requeue;

/// The service account controller.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &["serviceaccount"],
    enabled_by_default: true,
    summary: "Creates the ServiceAccount `default` in each active namespace",
    identity: "service-account-controller",
    reads: &[Read::of::<Namespace>(), Read::of::<ServiceAccount>()],
    rules: &[Rule::new(&[""], &["serviceaccounts"], &["create"])],
    init,
};

const NAME: &str = "serviceaccount-controller";

/// Number of workers, as upstream, which has no flag for it.
const WORKERS: usize = 1;

/// The account of pods that name none. Upstream: `DefaultServiceAccountsControllerOptions`.
const ACCOUNT: &str = "default";

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let mut keyed = Keyed::<Namespace>::new(ctx, NAME, "serviceaccount");
    let accounts = ctx.informers.shared::<ServiceAccount>();
    let queue = keyed.queue();
    keyed.objects().add_handler(move |change| match change {
        Change::Added { object, .. } | Change::Updated { new: object, .. } => {
            queue.add(object.key());
        }
        Change::Deleted { .. } => {}
    });
    let queue = keyed.queue();
    accounts.add_handler(move |change| {
        if let Change::Deleted { object, .. } = change {
            queue.add(ObjectKey::new("", &object.meta.namespace));
        }
    });
    let syncer = ServiceAccounts {
        accounts: accounts.store(),
        cache: keyed.tracked(&accounts),
        client: ctx.client(DESCRIPTOR.identity),
    };
    Ok(keyed.boxed(WORKERS, syncer))
}

/// The operation of a sync that failed.
#[derive(Debug, thiserror::Error)]
enum SyncError {
    /// The account could not be created.
    #[error("{0}")]
    Create(#[source] ApiError),
    /// The answer of the API server is no object.
    #[error("{0}")]
    Answer(#[source] DecodeError),
}

/// Syncs namespaces.
struct ServiceAccounts {
    accounts: Store<ServiceAccount>,
    cache: TrackedCache,
    client: ApiClient,
}

impl ObjectSyncer for ServiceAccounts {
    type Object = Namespace;
    type Error = SyncError;

    async fn sync(&self, key: &ObjectKey, namespace: Arc<Namespace>) -> Result<Requeue, SyncError> {
        let account = ObjectKey::new(&key.name, ACCOUNT);
        if !namespace.is_active() || self.accounts.get(&account).is_some() {
            return Ok(Requeue::Never);
        }
        let body = json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": ACCOUNT, "namespace": key.name},
        });
        let target = Target::collection::<ServiceAccount>(&key.name);
        match self.client.create(target, &body).await {
            Ok(created) => {
                let recorded = self.cache.wrote_answer(key, &created);
                recorded.map_err(SyncError::Answer)?;
            }
            Err(error) if error.is_already_exists() || error.has_cause("NamespaceTerminating") => {}
            Err(error) => return Err(SyncError::Create(error)),
        }
        Ok(Requeue::Never)
    }
}
