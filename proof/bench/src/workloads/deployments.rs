//! The loads of Deployments: creation, roll-out, scaling and deletion, in one namespace.

use anyhow::Result;
use serde_json::{Value, json};
use steersman_objects::Deployment;

use super::{Workloads, name};
use crate::run::Bench;

impl Workloads {
    pub(super) async fn deployments(
        &self,
        count: usize,
        replicas: usize,
        bench: &mut Bench<'_>,
    ) -> Result<()> {
        let settled = async || self.rolled_out(count, replicas).await;
        let size = (count, count * replicas);
        self.life_cycle(&self.deployments, &spec(replicas), size, settled, bench)
            .await
    }

    /// Doubles the pods of each Deployment, and halves them again.
    pub(super) async fn scaling(
        &self,
        count: usize,
        replicas: usize,
        bench: &mut Bench<'_>,
    ) -> Result<()> {
        self.create_deployments(count, replicas).await?;
        for (phase, size) in [("scale up", 2 * replicas), ("scale down", replicas)] {
            let patch = json!({"spec": {"replicas": size}});
            bench
                .phase(phase, count * replicas, async {
                    self.patch_all(&self.deployments, count, &patch).await?;
                    self.rolled_out(count, size).await
                })
                .await?;
        }
        self.delete(&self.deployments).await
    }

    /// Only creates Deployments: with the default throttle, each further phase takes as long.
    pub(super) async fn throttled(
        &self,
        count: usize,
        replicas: usize,
        bench: &mut Bench<'_>,
    ) -> Result<()> {
        let pods = count * replicas;
        bench
            .phase("create", pods, self.create_deployments(count, replicas))
            .await?;
        self.delete(&self.deployments).await
    }

    async fn create_deployments(&self, count: usize, replicas: usize) -> Result<()> {
        self.create_labelled::<Deployment>(count, &spec(replicas))
            .await?;
        self.rolled_out(count, replicas).await
    }
}

/// A Deployment of ordinary size: two containers with probes, resources, environment and volumes.
pub(super) fn spec(replicas: usize) -> Value {
    let app = name(0);
    let env: Vec<Value> = (0..8)
        .map(|n| json!({"name": format!("SETTING_{n}"), "value": format!("value-{n}")}))
        .collect();
    let container = |name: &str| {
        json!({
            "name": name, "image": format!("registry.example/{app}/{name}:v1"), "env": env,
            "ports": [{"containerPort": 8080, "name": format!("{name}-http")}],
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"cpu": "500m", "memory": "512Mi"}},
            "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}, "periodSeconds": 5},
            "livenessProbe": {"httpGet": {"path": "/live", "port": 8080}},
            "volumeMounts": [{"name": "config", "mountPath": "/etc/app"}, {"name": "tmp", "mountPath": "/tmp"}]
        })
    };
    json!({
        "replicas": replicas,
        "selector": {"matchLabels": {}},
        "template": {
            "metadata": {"labels": {"app.kubernetes.io/part-of": "bench"}},
            "spec": {
                "containers": [container("main"), container("proxy")],
                // The ConfigMap is absent; the simulated kubelet would wait for it otherwise.
                "volumes": [{"name": "config", "configMap": {"name": app, "optional": true}}, {"name": "tmp", "emptyDir": {}}]
            }
        }
    })
}
