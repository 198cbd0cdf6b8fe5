//! The load on the manager: Deployments that are created, patched and deleted, and waits for the
//! cluster to settle. Waits read informers, because polling would load the API server.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use steersman_runtime::client::{ApiClient, PatchKind, Target};
use steersman_runtime::informer::{InformerFactory, SharedInformer};
use steersman_runtime::object::{Deployment, Identity, ObjectKey, Pod};
use steersman_runtime::resource::{DEPLOYMENTS, PODS, REPLICA_SETS, ResourceType};
use tokio::sync::Notify;

/// Namespace of all objects of the benchmark.
const NAMESPACE: &str = "bench";

/// Caches of Deployments and pods, and a client to change them.
pub(crate) struct World {
    client: ApiClient,
    deployments: SharedInformer<Deployment>,
    pods: SharedInformer<Pod>,
    changed: Arc<Notify>,
}

impl World {
    /// Watches the cluster behind `client` through `informers`, which the caller starts afterwards.
    pub(crate) fn new(client: ApiClient, informers: &InformerFactory) -> Self {
        let changed = Arc::new(Notify::new());
        let (deployments, pods) = (informers.shared::<Deployment>(), informers.shared::<Pod>());
        let wake = Arc::clone(&changed);
        deployments.add_handler(move |_| wake.notify_one());
        let wake = Arc::clone(&changed);
        pods.add_handler(move |_| wake.notify_one());
        Self {
            client,
            deployments,
            pods,
            changed,
        }
    }

    /// Creates `count` Deployments with `replicas` pods each, and their namespace if it is missing.
    pub(crate) async fn create(&self, count: usize, replicas: usize) -> Result<()> {
        let namespaces = Target {
            resource: &steersman_runtime::resource::NAMESPACES,
            namespace: None,
            name: None,
            subresource: None,
        };
        let body =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } });
        match self.client.create(namespaces, &body).await {
            Err(error) if !error.is_already_exists() => {
                return Err(error).context("create the namespace");
            }
            _ => {}
        }
        for index in 0..count {
            let at = target(None);
            self.client
                .create(at, &deployment(index, replicas))
                .await
                .context("create a Deployment")?;
        }
        Ok(())
    }

    /// Applies `patch` to every Deployment, and waits until the caches of [`World::settled`] show
    /// the changes.
    pub(crate) async fn patch_all(&self, count: usize, patch: &Value) -> Result<()> {
        let mut version = 0;
        for index in 0..count {
            let name = name(index);
            let answer = self
                .client
                .patch(target(Some(&name)), PatchKind::Strategic, patch)
                .await;
            let answer = answer.context("patch a Deployment")?;
            version = Identity::decode(&answer)?.resource_version;
        }
        let deployments = self.deployments.store();
        self.wait(|| deployments.resource_version() >= version)
            .await
            .context("the cache does not show the patches")
    }

    /// Deletes every Deployment in the background; the garbage collector deletes the rest.
    pub(crate) async fn delete_deployments(&self) -> Result<()> {
        self.delete_all(&DEPLOYMENTS).await
    }

    async fn delete_all(&self, resource: &ResourceType) -> Result<()> {
        let options = json!({ "propagationPolicy": "Background" });
        let all = Target {
            resource,
            namespace: Some(NAMESPACE),
            name: None,
            subresource: None,
        };
        self.client
            .delete(all, &options)
            .await
            .with_context(|| format!("delete all {resource}"))?;
        Ok(())
    }

    /// Waits until all `count` Deployments are rolled out with `replicas` pods each, and all other
    /// pods are gone.
    pub(crate) async fn settled(&self, count: usize, replicas: usize) -> Result<()> {
        let (deployments, pods) = (self.deployments.store(), self.pods.store());
        let wanted = i32::try_from(replicas)?;
        self.wait(|| {
            let ready = |index: usize| {
                let found = deployments.get(&ObjectKey::new(NAMESPACE, &name(index)));
                found.is_some_and(|d| {
                    let s = &d.status;
                    s.observed_generation >= d.meta.generation
                        && [
                            s.replicas,
                            s.updated_replicas,
                            s.available_replicas,
                            d.spec.replicas,
                        ] == [wanted; 4]
                })
            };
            pods.len() == count * replicas && (0..count).all(ready)
        })
        .await
        .with_context(|| {
            let complete = deployments
                .list()
                .iter()
                .filter(|d| d.status.available_replicas == wanted)
                .count();
            format!(
                "{complete} of {count} Deployments available, {} pods",
                pods.len()
            )
        })
    }

    /// Waits until all Deployments and pods are gone. If the number of pods stays the same for 5 s,
    /// it deletes ReplicaSets and pods itself, because then no garbage collector runs.
    pub(crate) async fn empty(&self) -> Result<()> {
        let (deployments, pods) = (self.deployments.store(), self.pods.store());
        let collect = async {
            let mut before = pods.len();
            loop {
                tokio::time::sleep(Duration::from_secs(5)).await;
                if pods.len() == before {
                    self.delete_all(&REPLICA_SETS).await?;
                    self.delete_all(&PODS).await?;
                }
                before = pods.len();
            }
        };
        tokio::select! {
            waited = self.wait(|| deployments.is_empty() && pods.is_empty()) => waited.context("objects are left"),
            failed = collect => failed,
        }
    }

    async fn wait(&self, holds: impl Fn() -> bool) -> Result<()> {
        let until = async {
            while !holds() {
                self.changed.notified().await;
                // A check walks all Deployments. With more frequent checks, the benchmark would
                // measure itself.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(600), until)
            .await
            .context("not settled after ten minutes")
    }
}

fn name(index: usize) -> String {
    format!("app-{index:04}")
}

fn target(name: Option<&str>) -> Target<'_> {
    Target {
        resource: &DEPLOYMENTS,
        namespace: Some(NAMESPACE),
        name,
        subresource: None,
    }
}

/// A Deployment of ordinary size: two containers with probes, resources, environment and volumes.
fn deployment(index: usize, replicas: usize) -> Value {
    let app = name(index);
    let env: Vec<Value> = (0..8)
        .map(|n| json!({ "name": format!("SETTING_{n}"), "value": format!("value-{n}") }))
        .collect();
    let container = |name: &str| {
        json!({
            "name": name, "image": format!("registry.example/{app}/{name}:v1"), "env": env,
            "ports": [{ "containerPort": 8080, "name": format!("{name}-http") }],
            "resources": { "requests": { "cpu": "100m", "memory": "128Mi" }, "limits": { "cpu": "500m", "memory": "512Mi" } },
            "readinessProbe": { "httpGet": { "path": "/ready", "port": 8080 }, "periodSeconds": 5 },
            "livenessProbe": { "httpGet": { "path": "/live", "port": 8080 } },
            "volumeMounts": [{ "name": "config", "mountPath": "/etc/app" }, { "name": "tmp", "mountPath": "/tmp" }]
        })
    };
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": app, "labels": { "app.kubernetes.io/name": app } },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app.kubernetes.io/name": app } },
            "template": {
                "metadata": { "labels": { "app.kubernetes.io/name": app, "app.kubernetes.io/part-of": "bench" } },
                "spec": {
                    "containers": [container("main"), container("proxy")],
                    "volumes": [{ "name": "config", "configMap": { "name": app } }, { "name": "tmp", "emptyDir": {} }]
                }
            }
        }
    })
}
