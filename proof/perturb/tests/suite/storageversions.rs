//! Scenarios of the controllers of storage versions. Their kinds are custom kinds here, because the
//! embedded API server lacks them.

use serde_json::{Value, json};
use steersman_controllers::{storageversiongc, storageversionmigrator};
use steersman_devcluster::definitions::definition;
use steersman_perturb::rules::{LIVE_SERVERS, ONE_MIGRATION};
use steersman_perturb::{Scenario, State, Step};

use crate::objects::{BLANK, config_map, has_condition, is_gone, until_caches_are_current};

const GC: Scenario = Scenario {
    controller: "storage-version-gc",
    controllers: &[storageversiongc::DESCRIPTOR],
    rules: &[LIVE_SERVERS],
    ..BLANK
};

const MIGRATOR: Scenario = Scenario {
    controller: "svm",
    controllers: &[storageversionmigrator::DESCRIPTOR],
    rules: &[ONE_MIGRATION],
    ..BLANK
};

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "server-gone",
            steps: server_gone,
            ..GC
        },
        Scenario {
            name: "all-gone",
            steps: all_gone,
            ..GC
        },
        Scenario {
            name: "unknown-server",
            steps: unknown_server,
            ..GC
        },
        Scenario {
            name: "built-in",
            steps: built_in,
            ..MIGRATOR
        },
        Scenario {
            name: "in-turn",
            steps: in_turn,
            ..MIGRATOR
        },
        Scenario {
            name: "custom",
            steps: custom,
            ..MIGRATOR
        },
    ]
}

/// API servers, and a StorageVersion with their entries.
fn servers(names: &[&str]) -> Vec<Step> {
    let lease = |name: &&str| {
        Step::Load(json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {
                "name": name, "namespace": "kube-system", "uid": format!("uid-of-{name}"),
                "labels": {"apiserver.kubernetes.io/identity": "kube-apiserver"},
            },
        }))
    };
    let kind = definition(
        "internal.apiserver.k8s.io",
        "StorageVersion",
        &["v1alpha1"],
        "Cluster",
    );
    let mut steps = vec![Step::Create(kind)];
    steps.extend(names.iter().map(lease));
    steps.push(Step::Load(json!({
        "apiVersion": "internal.apiserver.k8s.io/v1alpha1", "kind": "StorageVersion",
        "metadata": {"name": "apps.deployments", "uid": "version"}, "spec": {},
        "status": {"storageVersions": entries(names)},
    })));
    steps.push(until_caches_are_current());
    steps
}

fn entries(names: &[&str]) -> Value {
    let entry = |name: &&str| json!({"apiServerID": name, "encodingVersion": "apps/v1"});
    names.iter().map(entry).collect()
}

fn remove_lease(name: &str) -> Step {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{name}");
    Step::Delete(path, json!({}))
}

fn has_entries(names: &'static [&'static str]) -> Step {
    Step::until("entries", move |state: &State| {
        let version = state.get("storageversions", "apps.deployments");
        version.is_some_and(|version| version["status"]["storageVersions"] == entries(names))
    })
}

fn server_gone() -> Vec<Step> {
    let mut steps = servers(&["a", "b", "c"]);
    steps.extend([
        remove_lease("b"),
        has_entries(&["a", "c"]),
        remove_lease("a"),
        has_entries(&["c"]),
    ]);
    steps
}

fn all_gone() -> Vec<Step> {
    let mut steps = servers(&["a", "b"]);
    steps.extend([
        remove_lease("a"),
        remove_lease("b"),
        is_gone("storageversions", "apps.deployments"),
    ]);
    steps
}

fn unknown_server() -> Vec<Step> {
    let mut steps = servers(&["a"]);
    let path = "/apis/internal.apiserver.k8s.io/v1alpha1/storageversions/apps.deployments/status";
    let status = json!({"status": {"storageVersions": entries(&["gone", "a"])}});
    steps.extend([Step::Patch(path.to_owned(), status), has_entries(&["a"])]);
    steps
}

fn migrations() -> Step {
    let group = "storagemigration.k8s.io";
    Step::Create(definition(
        group,
        "StorageVersionMigration",
        &["v1beta1"],
        "Cluster",
    ))
}

fn migration(name: &str, group: &str, resource: &str) -> Step {
    Step::Create(json!({
        "apiVersion": "storagemigration.k8s.io/v1beta1", "kind": "StorageVersionMigration",
        "metadata": {"name": name},
        "spec": {"resource": {"group": group, "resource": resource}},
    }))
}

fn completed(name: &'static str) -> Step {
    Step::until("completed", move |state: &State| {
        let migration = state.get("storageversionmigrations", name);
        migration.is_some_and(|migration| {
            has_condition(migration, "Succeeded", "True", "")
                && has_condition(migration, "Running", "False", "")
        })
    })
}

fn built_in() -> Vec<Step> {
    vec![
        migrations(),
        Step::Create(config_map("a")),
        Step::Create(config_map("b")),
        migration("m", "", "configmaps"),
        completed("m"),
    ]
}

/// Three migrations of one resource, and one of another.
fn in_turn() -> Vec<Step> {
    vec![
        migrations(),
        Step::Create(config_map("a")),
        migration("first", "", "configmaps"),
        migration("second", "", "configmaps"),
        migration("other", "", "secrets"),
        completed("first"),
        completed("second"),
        completed("other"),
        migration("third", "", "configmaps"),
        completed("third"),
    ]
}

/// The old version leaves the list of stored versions.
fn custom() -> Vec<Step> {
    let carts = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/carts.shop.io".to_owned();
    let spec = definition("shop.io", "Cart", &["v1", "v2"], "Cluster")["spec"]["versions"].take();
    let cart = json!({"apiVersion": "shop.io/v1", "kind": "Cart", "metadata": {"name": "c"}});
    vec![
        migrations(),
        Step::Create(definition("shop.io", "Cart", &["v1"], "Cluster")),
        Step::Create(cart),
        Step::Patch(carts, json!({"spec": {"versions": spec}})),
        migration("m", "shop.io", "carts"),
        completed("m"),
        Step::until("one stored version", |state: &State| {
            let carts = state.get("customresourcedefinitions", "carts.shop.io");
            carts.is_some_and(|carts| carts["status"]["storedVersions"] == json!(["v2"]))
        }),
    ]
}
