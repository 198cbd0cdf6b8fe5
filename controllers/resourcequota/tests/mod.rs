//! Whole syncs against the in-memory API server, which leaves the usage of quotas to the controller.

mod discovered;
mod status;
mod stories;

use std::time::Duration;

use serde_json::{Value, json};
use steersman_devcluster::Admission;
use steersman_options::features::{FeatureGates, Gate};

use super::DESCRIPTOR;
use crate::testing::NAMESPACE;
use crate::testing::world::World;

/// Longer than the wait of a recount, and shorter than the full resync and a discovery.
const SOON: Duration = Duration::from_secs(5);

/// Path of the quota `q`.
const QUOTA: &str = "/api/v1/namespaces/default/resourcequotas/q";

/// A cluster in which only this controller counts.
async fn world() -> World {
    let mut world = bare().await;
    world.restart(&[DESCRIPTOR]).await;
    world
}

/// The same with the feature gate `off` off in the controller.
async fn without(off: Gate) -> World {
    let mut world = bare().await;
    world
        .restart_with(&[DESCRIPTOR], |mut context| {
            context.features = FeatureGates::new(|name| name != off.name);
            context
        })
        .await;
    world
}

/// The same without the controller.
async fn bare() -> World {
    let admission = Admission {
        quota_controller: true,
        ..Admission::default()
    };
    World::with_admission(admission).await
}

fn object(api_version: &str, kind: &str, name: &str, fields: Value) -> Value {
    let mut object = json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
    });
    for (field, value) in fields.as_object().into_iter().flatten() {
        object[field] = value.clone();
    }
    object
}

/// The quota `q` with these limits.
fn quota(hard: Value) -> Value {
    quota_of(json!({ "hard": hard }))
}

fn quota_of(spec: Value) -> Value {
    object("v1", "ResourceQuota", "q", json!({ "spec": spec }))
}

/// A pod on a node that does not exist, so that only the test changes it.
fn pod(name: &str, cpu: &str) -> Value {
    let resources = json!({"requests": {"cpu": cpu, "memory": "1Gi"}});
    let container = json!({"name": "main", "image": "i", "resources": resources});
    let spec = json!({"nodeName": "absent", "containers": [container]});
    object("v1", "Pod", name, json!({ "spec": spec }))
}

fn config_map(name: &str) -> Value {
    object("v1", "ConfigMap", name, json!({}))
}

impl World {
    /// The usage in the status of the quota `q`.
    fn used(&self) -> Value {
        let quota = self.find("resourcequotas", "q").unwrap();
        quota["status"]["used"].clone()
    }

    /// Waits until the usage is `expected`.
    async fn until_used(&self, expected: Value) {
        let wait = self.until("the usage", |_| self.used() == expected);
        let limited = tokio::time::timeout(Duration::from_secs(900), wait).await;
        assert!(limited.is_ok(), "{} in place of {expected}", self.used());
    }

    /// The writes of the controller to the quota `q`: their status codes.
    fn counts(&self) -> Vec<String> {
        let path = format!("update {QUOTA}/status ");
        let writes = self.writes_by(super::NAME).into_iter();
        writes
            .filter_map(|write| Some(write.strip_prefix(&path)?.to_owned()))
            .collect()
    }
}
