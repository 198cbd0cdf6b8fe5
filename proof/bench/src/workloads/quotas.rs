//! The load `quotas`: pods come and go in namespaces with a quota.
//!
//! No scheduler binds the pods, so only the quota controller and the API server work for them.

use std::sync::Arc;

use anyhow::{Context, Result};
use serde_json::json;
use steersman_client::{ApiClient, ApiError, Target};
use steersman_objects::{Namespace, Pod, ResourceQuota};
use steersman_runtime::informer::{InformerFactory, SharedInformer};
use tokio::sync::Notify;

use super::objects;
use super::waiting::{each, wait, watched};
use crate::run::Bench;

/// Prefix of the names of the namespaces.
const PREFIX: &str = "bench-quota-";
/// Name of the quotas.
const NAME: &str = "default";

/// Caches of the quotas and namespaces, and a client to change them.
pub(crate) struct Quotas {
    client: ApiClient,
    namespaces: SharedInformer<Namespace>,
    quotas: SharedInformer<ResourceQuota>,
    changed: Arc<Notify>,
}

impl Quotas {
    /// Watches the cluster behind `client` through `informers`, which the caller starts afterwards.
    pub(crate) fn new(client: ApiClient, informers: &InformerFactory) -> Self {
        let changed = Arc::new(Notify::new());
        Self {
            client,
            namespaces: watched(informers, &changed),
            quotas: watched(informers, &changed),
            changed,
        }
    }

    /// Creates `namespaces` with a quota each, and lets pods in them come and go.
    pub(crate) async fn run(
        &self,
        namespaces: usize,
        per_namespace: usize,
        bench: &mut Bench<'_>,
    ) -> Result<()> {
        let pods = per_namespace * namespaces;
        bench
            .phase("create", 0, async {
                each(namespaces, |index| self.create_namespace(index)).await?;
                self.used(namespaces, 0).await
            })
            .await?;
        bench
            .phase("come", pods, async {
                each(pods, |index| self.create_pod(index % namespaces, index)).await?;
                self.used(namespaces, per_namespace).await
            })
            .await?;
        bench
            .phase("go", pods, async {
                each(pods, |index| self.delete_pod(index % namespaces, index)).await?;
                self.used(namespaces, 0).await
            })
            .await?;
        bench
            .phase("delete", 0, async {
                each(namespaces, |index| self.delete_namespace(index)).await?;
                let quotas = self.quotas.store();
                let namespaces = self.namespaces.store();
                let has_prefix =
                    |namespace: &Arc<Namespace>| namespace.meta.name.starts_with(PREFIX);
                let are_gone = || {
                    !quotas.list().iter().any(|quota| is_ours(quota))
                        && !namespaces.list().iter().any(has_prefix)
                };
                wait(&self.changed, are_gone)
                    .await
                    .context("quotas or namespaces are left")
            })
            .await
    }

    /// Waits until the quotas of all namespaces show this number of pods.
    async fn used(&self, namespaces: usize, pods: usize) -> Result<()> {
        let store = self.quotas.store();
        let wanted = pods.to_string();
        let is_counted = |quota: &ResourceQuota| {
            let used = quota.status.used.as_ref();
            let used = used.and_then(|used| used.get("pods"));
            used.is_some_and(|used| **used == *wanted)
        };
        let counted = || {
            let all = store.list();
            let ours = all.iter().filter(|quota| is_ours(quota));
            ours.filter(|quota| is_counted(quota)).count()
        };
        wait(&self.changed, || counted() == namespaces)
            .await
            .with_context(|| format!("{} of {namespaces} quotas show {pods} pods", counted()))
    }

    /// Creates a namespace with its quota.
    async fn create_namespace(&self, index: usize) -> Result<(), ApiError> {
        let namespace = namespace(index);
        objects::create_namespace(&self.client, &namespace).await?;
        let hard = json!({"pods": "1k", "requests.cpu": "1k", "limits.memory": "1Ti", "count/configmaps": "1k"});
        let spec = json!({"spec": {"hard": hard}});
        objects::create::<ResourceQuota>(&self.client, &namespace, NAME, spec).await
    }

    async fn create_pod(&self, place: usize, index: usize) -> Result<(), ApiError> {
        let resources = json!({"requests": {"cpu": "10m"}, "limits": {"memory": "16Mi"}});
        let container = json!({"name": "main", "image": "main", "resources": resources});
        let spec = json!({
            "schedulerName": "absent", "automountServiceAccountToken": false, "containers": [container],
        });
        let namespace = namespace(place);
        let name = pod_name(index);
        let pod = json!({ "spec": spec });
        objects::create::<Pod>(&self.client, &namespace, &name, pod).await
    }

    async fn delete_pod(&self, place: usize, index: usize) -> Result<(), ApiError> {
        let namespace = namespace(place);
        let name = pod_name(index);
        let target = Target::named::<Pod>(&namespace, &name);
        let at_once = json!({"gracePeriodSeconds": 0});
        self.client.delete(target, &at_once).await.map(drop)
    }

    /// Deletes a quota and its namespace. The namespace ends when its controller runs.
    async fn delete_namespace(&self, index: usize) -> Result<(), ApiError> {
        let namespace = namespace(index);
        let quota = Target::named::<ResourceQuota>(&namespace, NAME);
        self.client.delete(quota, &json!({})).await?;
        objects::delete_namespace(&self.client, &namespace).await
    }
}

fn is_ours(quota: &ResourceQuota) -> bool {
    quota.meta.namespace.starts_with(PREFIX)
}

fn namespace(index: usize) -> String {
    format!("{PREFIX}{index}")
}

fn pod_name(index: usize) -> String {
    format!("pod-{index}")
}
