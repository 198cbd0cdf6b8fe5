//! Support for tests of all controllers, and tests that involve several controllers.
//!
//! This file has builders of cached views, for tests of decisions. Each builder starts with a small
//! valid object; a test sets only the fields that matter for it. Templates differ only by their
//! image, so by default a ReplicaSet is the new one of a Deployment.

mod actions;
pub(crate) mod batch;
pub(crate) mod builder;
mod chains;
mod features;
pub(crate) mod gate;
mod golden;
mod latency;
pub(crate) mod log;
pub(crate) mod pods;
mod replay;
mod restore;
mod rights;
mod scale;
mod staleness;
mod takeover;
pub(crate) mod tokens;
pub(crate) mod world;

use serde_json::{Value, json};
use steersman_objects::{DaemonSet, Deployment, ReplicaSet, StatefulSet, Uid};

use builder::Builder;

/// Builds a DaemonSet.
pub(crate) type DaemonSetBuilder = Builder<DaemonSet>;
/// Builds a Deployment.
pub(crate) type DeploymentBuilder = Builder<Deployment>;
/// Builds a ReplicaSet.
pub(crate) type ReplicaSetBuilder = Builder<ReplicaSet>;

/// Builds a StatefulSet.
pub(crate) type StatefulSetBuilder = Builder<StatefulSet>;

/// The namespace of all objects.
pub(crate) const NAMESPACE: &str = "default";

/// The RFC 3339 text of a time, in seconds since the epoch.
pub(crate) fn time(second: i64) -> String {
    jiff::Timestamp::from_second(second).unwrap().to_string()
}

/// A condition with both times at `second`.
pub(crate) fn condition(kind: &str, status: &str, reason: &str, second: i64) -> Value {
    json!({
        "type": kind, "status": status, "reason": reason, "message": "",
        "lastUpdateTime": time(second), "lastTransitionTime": time(second),
    })
}

fn template(image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": image}]},
    })
}

/// A Deployment with one replica and limits of 25%/25%, without a deadline and history limit.
pub(crate) fn deployment(name: &str) -> DeploymentBuilder {
    Builder::new(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": name, "namespace": NAMESPACE, "uid": format!("uid-of-{name}"), "resourceVersion": "1", "generation": 1,
            "annotations": {},
        },
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "template": template("nginx"),
        },
        "status": {"observedGeneration": 1},
    }))
}

impl DeploymentBuilder {
    /// Sets the strategy RollingUpdate with these limits.
    pub(crate) fn rolling(
        mut self,
        max_surge: impl Into<Value>,
        max_unavailable: impl Into<Value>,
    ) -> Self {
        let limits =
            json!({"maxSurge": max_surge.into(), "maxUnavailable": max_unavailable.into()});
        self.0["spec"]["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": limits});
        self
    }

    /// Sets the strategy Recreate.
    pub(crate) fn recreate(mut self) -> Self {
        self.0["spec"]["strategy"] = json!({"type": "Recreate"});
        self
    }
}

/// A ReplicaSet of size 0 without an owner. It was created at second 0, and its status is observed.
pub(crate) fn replica_set(name: &str) -> ReplicaSetBuilder {
    Builder::new(json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": name, "namespace": NAMESPACE, "uid": format!("uid-of-{name}"), "resourceVersion": "1", "generation": 1,
            "creationTimestamp": time(0), "labels": {"app": "web"}, "annotations": {},
        },
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template("nginx"),
        },
        "status": {"replicas": 0, "observedGeneration": 1, "terminatingReplicas": 0},
    }))
}

impl ReplicaSetBuilder {
    /// Replaces the template by one with this image.
    pub(crate) fn image(mut self, image: &str) -> Self {
        self.0["spec"]["template"] = template(image);
        self
    }

    /// Adds a controller reference.
    pub(crate) fn owned_by(self, api_version: &str, kind: &str, name: &str, uid: &Uid) -> Self {
        let reference = json!({
            "apiVersion": api_version, "kind": kind, "name": name, "uid": uid.to_string(),
            "controller": true, "blockOwnerDeletion": true,
        });
        self.metadata("ownerReferences", json!([reference]))
    }

    /// Sets the counters of the status; available pods are ready too.
    pub(crate) fn pods(self, replicas: i32, available: i32) -> Self {
        self.status("replicas", replicas)
            .status("readyReplicas", available)
            .status("availableReplicas", available)
    }
}

/// An ordered StatefulSet with one replica and rolling updates, without claims.
pub(crate) fn stateful_set(name: &str) -> StatefulSetBuilder {
    Builder::new(json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {
            "name": name, "namespace": NAMESPACE, "uid": format!("uid-of-{name}"), "resourceVersion": "1", "generation": 1,
        },
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "web"}},
            "serviceName": "svc",
            "podManagementPolicy": "OrderedReady",
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "revisionHistoryLimit": 10,
            "template": template("nginx"),
        },
        "status": {"observedGeneration": 1, "replicas": 0, "availableReplicas": 0},
    }))
}

impl StatefulSetBuilder {
    /// Adds claim templates with these names.
    pub(crate) fn claims(self, names: &[&str]) -> Self {
        let claim = |name: &&str| json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"]}});
        self.spec(
            "volumeClaimTemplates",
            names.iter().map(claim).collect::<Vec<_>>(),
        )
    }

    /// Replaces the update strategy.
    pub(crate) fn update_strategy(self, strategy: Value) -> Self {
        self.spec("updateStrategy", strategy)
    }

    /// Sets the retention policy of claims, when deleted and when scaled.
    pub(crate) fn retention(self, deleted: &str, scaled: &str) -> Self {
        let policy = json!({"whenDeleted": deleted, "whenScaled": scaled});
        self.spec("persistentVolumeClaimRetentionPolicy", policy)
    }
}

/// A DaemonSet with the strategy OnDelete and no constraints on its nodes.
pub(crate) fn daemon_set(name: &str) -> DaemonSetBuilder {
    Builder::new(json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {
            "name": name, "namespace": NAMESPACE, "uid": format!("uid-of-{name}"), "resourceVersion": "1", "generation": 1,
            "annotations": {},
        },
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "updateStrategy": {"type": "OnDelete"},
            "template": template("nginx"),
        },
        "status": {"observedGeneration": 1},
    }))
}

impl DaemonSetBuilder {
    /// Sets fields in the spec of the pod template.
    pub(crate) fn pod_spec(mut self, fields: Value) -> Self {
        for (field, value) in fields.as_object().into_iter().flatten() {
            self.0["spec"]["template"]["spec"][field] = value.clone();
        }
        self
    }

    /// Sets the strategy RollingUpdate with these limits.
    pub(crate) fn rolling_update(
        self,
        max_surge: impl Into<Value>,
        max_unavailable: impl Into<Value>,
    ) -> Self {
        let limits =
            json!({"maxSurge": max_surge.into(), "maxUnavailable": max_unavailable.into()});
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": limits});
        self.spec("updateStrategy", strategy)
    }
}
