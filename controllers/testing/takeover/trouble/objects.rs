//! Objects in general: deletions that wait, quotas that are exceeded, metrics and migrations that
//! fail.

use serde_json::{Value, json};
use steersman_devcluster::faults::{Matcher, internal_error};

use super::super::policies::{migration, of_spec};
use super::{CHANGED, Trouble, cluster_object, is_condition, object};
use crate::{
    garbagecollector, namespace, podautoscaler, resourcequota, storageversiongc,
    storageversionmigrator, validatingadmissionpolicystatus,
};

pub(super) fn troubles() -> Vec<Trouble> {
    vec![
        namespaces(),
        owners(),
        quotas(),
        autoscalers(),
        migrations(),
        storage_versions(),
        policies(),
    ]
}

/// A namespace keeps an object with a finalizer.
fn namespaces() -> Trouble {
    let mut map = object(
        "v1",
        "ConfigMap",
        "held",
        json!({"metadata": {"finalizers": ["example.com/hold"]}}),
    );
    map["metadata"]["namespace"] = json!("shop");
    let shop = cluster_object(
        "v1",
        "Namespace",
        "shop",
        json!({
            "metadata": {"deletionTimestamp": CHANGED, "labels": {"kubernetes.io/metadata.name": "shop"}},
            "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Terminating"},
        }),
    );
    Trouble::new("a namespace does not go", &[namespace::DESCRIPTOR])
        .with([shop, map])
        .reached(|world| {
            is_condition(
                world,
                "namespaces",
                "shop",
                (
                    "NamespaceFinalizersRemaining",
                    "True",
                    "SomeFinalizersRemain",
                ),
            )
        })
}

/// A foreground deletion waits for a dependent, and an orphan has a finalizer.
fn owners() -> Trouble {
    let owned = |name: &str, owner: &str, finalizers: Value| {
        object(
            "v1",
            "ConfigMap",
            name,
            json!({"metadata": {"finalizers": finalizers, "ownerReferences": [{
                "apiVersion": "v1", "kind": "Secret", "name": owner,
                "uid": format!("uid-of-Secret-{owner}"), "blockOwnerDeletion": true,
            }]}}),
        )
    };
    let owner = object(
        "v1",
        "Secret",
        "owner",
        json!({"type": "Opaque", "metadata": {
            "deletionTimestamp": CHANGED, "deletionGracePeriodSeconds": 0,
            "finalizers": ["foregroundDeletion"],
        }}),
    );
    Trouble::new(
        "owners wait for dependents",
        &[garbagecollector::DESCRIPTOR],
    )
    .with([
        owner,
        owned("dependent", "owner", json!(["example.com/hold"])),
        owned("orphan", "gone", json!(["example.com/hold"])),
    ])
    .reached(|world| {
        ["dependent", "orphan"].iter().all(|name| {
            world.find("configmaps", name).unwrap()["metadata"]["deletionTimestamp"].is_string()
        })
    })
}

/// More is used than a quota allows, and the status of another one cannot be written.
fn quotas() -> Trouble {
    let quota = |name: &str, hard: Value| {
        object("v1", "ResourceQuota", name, json!({"spec": {"hard": hard}}))
    };
    Trouble::new("quotas are exceeded", &[resourcequota::DESCRIPTOR])
        .with([
            object("v1", "ConfigMap", "one", json!({})),
            object("v1", "ConfigMap", "two", json!({})),
            quota("exceeded", json!({"count/configmaps": "1"})),
            quota("refused", json!({"count/configmaps": "9"})),
        ])
        .refusing(
            Matcher::new("update", "resourcequotas")
                .subresource("status")
                .name("refused"),
            internal_error(),
        )
        .reached(|world| {
            world.find("resourcequotas", "exceeded").unwrap()["status"]["used"]["count/configmaps"]
                == "2"
        })
}

/// Metrics are missing, and the target of a second autoscaler is.
fn autoscalers() -> Trouble {
    let autoscaler = |name: &str, target: &str| {
        object(
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            name,
            json!({"spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": target},
                "minReplicas": 1, "maxReplicas": 4,
                "metrics": [{"type": "Resource", "resource": {
                    "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50},
                }}],
            }}),
        )
    };
    let target = object(
        "apps/v1",
        "ReplicaSet",
        "web",
        json!({"spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {}}}),
    );
    Trouble::new("autoscalers lack metrics", &[podautoscaler::DESCRIPTOR])
        .with([
            target,
            autoscaler("blind", "web"),
            autoscaler("aimless", "gone"),
        ])
        .reached(|world| {
            is_condition(
                world,
                "horizontalpodautoscalers",
                "blind",
                ("ScalingActive", "False", "FailedGetResourceMetric"),
            ) && is_condition(
                world,
                "horizontalpodautoscalers",
                "aimless",
                ("AbleToScale", "False", "FailedGetScale"),
            )
        })
}

/// A migration that failed stays, and another one cannot write its status.
fn migrations() -> Trouble {
    Trouble::new("migrations fail", &[storageversionmigrator::DESCRIPTOR])
        .defining(
            "storagemigration.k8s.io",
            "StorageVersionMigration",
            "v1beta1",
        )
        .with([
            migration("failed", &[("Running", "False"), ("Failed", "True")], "7"),
            migration("refused", &[], ""),
        ])
        .refusing(
            Matcher::new("update", "storageversionmigrations").subresource("status"),
            internal_error(),
        )
        .refusing(
            Matcher::new("patch", "storageversionmigrations").subresource("status"),
            internal_error(),
        )
}

/// The entry of an API server that is gone cannot be removed.
fn storage_versions() -> Trouble {
    let version = of_spec(
        "internal.apiserver.k8s.io/v1alpha1",
        "StorageVersion",
        "apps.deployments",
        json!({}),
        json!({"storageVersions": [{"apiServerID": "gone", "encodingVersion": "apps/v1"}]}),
    );
    Trouble::new("an API server is gone", &[storageversiongc::DESCRIPTOR])
        .defining("internal.apiserver.k8s.io", "StorageVersion", "v1alpha1")
        .with([version])
        .refusing(Matcher::new("delete", "storageversions"), internal_error())
        .refusing(
            Matcher::new("update", "storageversions").subresource("status"),
            internal_error(),
        )
}

/// Warnings of a policy cannot be written.
fn policies() -> Trouble {
    let rule = json!({
        "apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["deployments"],
    });
    let policy = of_spec(
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicy",
        "p",
        json!({
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": "object.spec.no == 1"}],
        }),
        json!({}),
    );
    Trouble::new(
        "a policy has errors",
        &[validatingadmissionpolicystatus::DESCRIPTOR],
    )
    .with([policy])
    .refusing(
        Matcher::new("patch", "validatingadmissionpolicies").subresource("status"),
        internal_error(),
    )
}
