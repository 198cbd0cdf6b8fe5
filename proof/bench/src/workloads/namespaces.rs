//! The load `namespaces`: each new namespace gets its account and its ConfigMap.

use std::sync::Arc;

use anyhow::{Context, Result};
use serde_json::json;
use steersman_client::{ApiClient, ApiError};
use steersman_objects::{Namespace, RootCaConfigMap, ServiceAccount};
use steersman_runtime::informer::{InformerFactory, SharedInformer};
use tokio::sync::Notify;

use super::objects;
use super::waiting::{each, wait, watched};
use crate::run::Bench;

/// Prefix of the names of the namespaces.
const PREFIX: &str = "bench-namespace-";

/// Caches of the objects of the load, and a client to change them.
pub(crate) struct Namespaces {
    client: ApiClient,
    namespaces: SharedInformer<Namespace>,
    accounts: SharedInformer<ServiceAccount>,
    maps: SharedInformer<RootCaConfigMap>,
    changed: Arc<Notify>,
}

impl Namespaces {
    /// Watches the cluster behind `client` through `informers`, which the caller starts afterwards.
    pub(crate) fn new(client: ApiClient, informers: &InformerFactory) -> Self {
        let changed = Arc::new(Notify::new());
        Self {
            client,
            namespaces: watched(informers, &changed),
            accounts: watched(informers, &changed),
            maps: watched(informers, &changed),
            changed,
        }
    }

    /// Creates `count` namespaces, waits until they are complete, and deletes them.
    pub(crate) async fn run(&self, count: usize, bench: &mut Bench<'_>) -> Result<()> {
        let accounts = self.accounts.store();
        let maps = self.maps.store();
        let is_ours = |namespace: &str| namespace.starts_with(PREFIX);
        let complete = || {
            let with_account = accounts.list().into_iter();
            let with_account = with_account
                .filter(|account| *account.meta.name == *"default")
                .filter(|account| is_ours(&account.meta.namespace));
            let with_map = maps.list().into_iter();
            let with_map = with_map.filter(|map| is_ours(&map.meta.namespace));
            (with_account.count(), with_map.count())
        };
        bench
            .phase("create", 0, async {
                each(count, |index| self.create(index)).await?;
                wait(&self.changed, || complete() == (count, count))
                    .await
                    .with_context(|| format!("accounts and ConfigMaps: {:?}", complete()))
            })
            .await?;
        let store = self.namespaces.store();
        let left = || {
            let all = store.list().into_iter();
            all.filter(|namespace| is_ours(&namespace.meta.name))
                .count()
        };
        bench
            .phase("delete", 0, async {
                each(count, |index| self.delete(index)).await?;
                wait(&self.changed, || left() == 0)
                    .await
                    .with_context(|| format!("{} namespaces are left", left()))
            })
            .await
    }

    async fn create(&self, index: usize) -> Result<(), ApiError> {
        let name = format!("{PREFIX}{index}");
        objects::create::<Namespace>(&self.client, "", &name, json!({})).await
    }

    async fn delete(&self, index: usize) -> Result<(), ApiError> {
        objects::delete_namespace(&self.client, &format!("{PREFIX}{index}")).await
    }
}
