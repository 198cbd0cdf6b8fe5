//! Takeover of checked policies, of StorageVersions, and of finished and admitted migrations.

use serde_json::{Value, json};
use steersman_devcluster::definitions::definition;

use crate::testing::world::World;
use crate::{storageversiongc, storageversionmigrator, validatingadmissionpolicystatus};

const GROUPS: [(&str, &str, &str); 2] = [
    ("internal.apiserver.k8s.io", "v1alpha1", "StorageVersion"),
    (
        "storagemigration.k8s.io",
        "v1beta1",
        "StorageVersionMigration",
    ),
];

pub(super) fn of_spec(
    api_version: &str,
    kind: &str,
    name: &str,
    spec: Value,
    status: Value,
) -> Value {
    json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {"name": name, "uid": format!("uid-of-{name}"), "generation": 1},
        "spec": spec, "status": status,
    })
}

pub(super) fn migration(name: &str, conditions: &[(&str, &str)], version: &str) -> Value {
    let condition = |(kind, status): &(&str, &str)| json!({"type": kind, "status": status, "reason": "R", "message": "", "lastTransitionTime": "2026-11-21T02:59:00Z"});
    let conditions: Vec<Value> = conditions.iter().map(condition).collect();
    of_spec(
        "storagemigration.k8s.io/v1beta1",
        "StorageVersionMigration",
        name,
        json!({"resource": {"group": "", "resource": "configmaps"}}),
        json!({"conditions": conditions, "resourceVersion": version}),
    )
}

/// A cluster with the kinds of storage versions and with these objects, after the takeover.
async fn taken_over(objects: Vec<Value>) -> World {
    let mut world = World::bare().await;
    for (group, version, kind) in GROUPS {
        world
            .create(definition(group, kind, &[version], "Cluster"))
            .await;
    }
    for object in objects {
        world.cluster.load(object).unwrap();
    }
    world
        .restart(&[
            storageversiongc::DESCRIPTOR,
            storageversionmigrator::DESCRIPTOR,
            validatingadmissionpolicystatus::DESCRIPTOR,
        ])
        .await;
    world.a_minute().await;
    world
}

/// The writes of the three controllers.
fn writes(world: &World) -> Vec<String> {
    let identities = [
        storageversiongc::DESCRIPTOR.identity,
        storageversionmigrator::DESCRIPTOR.identity,
        validatingadmissionpolicystatus::DESCRIPTOR.identity,
    ];
    let requests = identities.iter().flat_map(|name| world.requests_of(name));
    requests
        .filter(|line| {
            !["get ", "list ", "watch "]
                .iter()
                .any(|verb| line.starts_with(verb))
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn policies_and_storage_versions_at_rest_stay_as_they_are() {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {
            "name": "server", "namespace": "kube-system", "uid": "uid-of-server",
            "labels": {"apiserver.kubernetes.io/identity": "kube-apiserver"},
        },
    });
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
        json!({"observedGeneration": 1, "typeChecking": {"expressionWarnings": [
            {"fieldRef": "spec.validations[0].expression", "warning": "by upstream"},
        ]}}),
    );
    let version = of_spec(
        "internal.apiserver.k8s.io/v1alpha1",
        "StorageVersion",
        "apps.deployments",
        json!({}),
        json!({"storageVersions": [{"apiServerID": "server", "encodingVersion": "apps/v1"}]}),
    );
    let finished = migration("m", &[("Running", "False"), ("Succeeded", "True")], "7");
    let world = taken_over(vec![lease, policy, version, finished]).await;
    assert!(writes(&world).is_empty(), "{:#?}", writes(&world));
}

/// The next manager rewrites all objects again, and ends the migration.
#[tokio::test(start_paused = true)]
async fn an_admitted_migration_is_finished() {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "default", "uid": "uid-of-a"},
    });
    let admitted = migration("m", &[("Running", "True")], "1000000");
    let world = taken_over(vec![map, admitted]).await;
    let writes = writes(&world);
    let of = |part: &str| writes.iter().filter(|line| line.contains(part)).count();
    assert_eq!(
        (of("/configmaps/a?"), of("/m/status")),
        (1, 2),
        "{writes:#?}"
    );
}
