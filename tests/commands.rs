//! kubectl as people type it: every command at least once, by what people are after.
//! `support::script` tells how to read `commands/*.txt`.

use crate::harness::Cluster;

/// A Deployment and two ConfigMaps, with a label that tells that they belong together.
const SET: &str = include_str!("commands/set.yaml");

/// What is left of it in the end.
const LESS: &str = include_str!("commands/less.yaml");

fn cluster() -> Option<Cluster> {
    let cluster = Cluster::start()?;
    cluster.file("set.yaml", SET);
    cluster.file("less.yaml", LESS);
    Some(cluster)
}

#[test]
fn manifests_are_applied_compared_pruned_and_replaced() {
    let Some(cluster) = cluster() else { return };
    cluster.file(
        "unknown.yaml",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: odd}, datta: {a: b}}\n",
    );
    cluster.file(
        "kustomization.yaml",
        "resources: [less.yaml]\nnamePrefix: built-\n",
    );
    cluster.script(include_str!("commands/apply.txt"));
}

#[test]
fn objects_are_changed_in_every_way() {
    let Some(cluster) = cluster() else { return };
    cluster.file("negative.sed", "s/^  replicas: 2/  replicas: -2/");
    cluster.file("three.sed", "s/^  replicas: 2/  replicas: 3/");
    cluster.script(include_str!("commands/change.txt"));
}

#[test]
fn a_rollout_is_followed_paused_and_undone_to_a_revision() {
    let Some(cluster) = cluster() else { return };
    cluster.script(include_str!("commands/rollout.txt"));
}

#[test]
fn what_there_is_is_shown_in_every_form() {
    let Some(cluster) = cluster() else { return };
    cluster.script(include_str!("commands/show.txt"));
}

#[test]
fn what_happens_is_watched_and_waited_for() {
    let Some(cluster) = cluster() else { return };
    cluster.apply(SET);
    let pods = cluster.watch("get pods -w");
    let changes = cluster.watch("get deployments -w --output-watch-events");
    let names = cluster.watch("get configmaps -w -o name");
    let events = cluster.watch("events -w --for deployment/web");
    pods.until("1/1 Running");
    names.until("configmap/two");
    changes.until("ADDED web");
    cluster.script(include_str!("commands/watch.txt"));
    changes.until("MODIFIED web 3/3");
    events.until("Scaled up replica set");
    cluster.script(include_str!("commands/delete.txt"));
}

#[test]
fn nodes_are_cordoned_and_drained_as_budgets_allow() {
    let reason = "other tests use the nodes of this cluster, and no controller of ours counts what budgets allow";
    let Some(cluster) = cluster().and_then(|cluster| cluster.embedded(reason)) else {
        return;
    };
    cluster.script(include_str!("commands/nodes.txt"));
}

#[test]
fn certificates_are_approved_and_roles_brought_up_to_date() {
    let Some(cluster) = cluster() else { return };
    let files = [
        ("request.yaml", include_str!("commands/request.yaml")),
        ("role.yaml", include_str!("commands/role.yaml")),
    ];
    for (name, content) in files {
        cluster.file(name, &content.replace("NAMESPACE", cluster.namespace()));
    }
    cluster.script(include_str!("commands/access.txt"));
}

#[test]
fn roles_are_the_sum_of_others() {
    let Some(cluster) =
        cluster().and_then(|cluster| cluster.with_controllers("aggregates ClusterRoles"))
    else {
        return;
    };
    cluster.script(include_str!("commands/aggregation.txt"));
}

#[test]
fn what_needs_a_real_node_says_so() {
    let reason = "a real API server passes these on to kubelets, and says what came of that";
    let Some(cluster) = cluster().and_then(|cluster| cluster.embedded(reason)) else {
        return;
    };
    cluster.script(include_str!("commands/unsupported.txt"));
}
