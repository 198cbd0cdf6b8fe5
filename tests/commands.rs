//! Every kubectl command, by task. `support::script` describes the format of `commands/*.txt`.

use crate::harness::Cluster;

/// A Deployment and two ConfigMaps with a common label.
const SET: &str = include_str!("commands/set.yaml");

/// The objects of `SET` without those that pruning must delete.
const LESS: &str = include_str!("commands/less.yaml");

/// The reason why stories of nodes and volumes need the embedded cluster.
const OWN_NODES: &str = "the nodes and volumes of this cluster may differ";

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
fn objects_are_changed_by_every_command() {
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
fn stateful_sets_are_rolled_out_undone_restarted_and_scaled() {
    let Some(cluster) = cluster().and_then(|cluster| cluster.embedded(OWN_NODES)) else {
        return;
    };
    cluster.file("workloads.yaml", include_str!("commands/workloads.yaml"));
    cluster.script(include_str!("commands/statefulset.txt"));
}

#[test]
fn daemon_sets_are_rolled_out_undone_restarted_and_placed() {
    let Some(cluster) = cluster().and_then(|cluster| cluster.embedded(OWN_NODES)) else {
        return;
    };
    cluster.file("workloads.yaml", include_str!("commands/workloads.yaml"));
    cluster.script(include_str!("commands/daemonset.txt"));
}

#[test]
fn jobs_are_created_from_cron_jobs_and_waited_for() {
    let Some(cluster) = cluster().and_then(Cluster::with_simulated_nodes) else {
        return;
    };
    let failing = include_str!("commands/failing-job.yaml");
    cluster.file("failing-job.yaml", failing);
    cluster.script(include_str!("commands/job.txt"));
}

#[test]
fn objects_are_shown_in_every_output_format() {
    let Some(cluster) = cluster() else { return };
    cluster.script(include_str!("commands/show.txt"));
}

#[test]
fn changes_are_watched_and_waited_for() {
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
    let reason = "other tests use the nodes of this cluster";
    let Some(cluster) = cluster().and_then(|cluster| cluster.embedded(reason)) else {
        return;
    };
    cluster.script(include_str!("commands/nodes.txt"));
}

#[test]
fn services_have_endpoints_with_addresses_of_the_nodes() {
    let Some(cluster) = cluster().and_then(|cluster| cluster.embedded(OWN_NODES)) else {
        return;
    };
    cluster.script(include_str!("commands/network.txt"));
}

#[test]
fn nodes_fail_by_annotation_and_come_back() {
    let Some(cluster) = cluster().and_then(|cluster| cluster.embedded(OWN_NODES)) else {
        return;
    };
    cluster.file(
        "node.yaml",
        "{apiVersion: v1, kind: Node, metadata: {name: new}}\n",
    );
    cluster.script(include_str!("commands/failing-nodes.txt"));
}

#[test]
fn certificates_are_approved_and_roles_reconciled() {
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
fn aggregated_roles_contain_the_rules_of_others() {
    let Some(cluster) = cluster() else { return };
    cluster.script(include_str!("commands/aggregation.txt"));
}

#[test]
fn a_deployment_is_autoscaled_by_its_load() {
    let reason = "the load of this cluster is measured";
    let Some(cluster) = cluster().and_then(|cluster| cluster.embedded(reason)) else {
        return;
    };
    cluster.script(include_str!("commands/autoscale.txt"));
}

#[test]
fn claims_are_bound_expanded_and_deleted_with_their_volumes() {
    let Some(cluster) = cluster().and_then(|cluster| cluster.embedded(OWN_NODES)) else {
        return;
    };
    let manifest = include_str!("commands/volumes.yaml");
    cluster.file(
        "volumes.yaml",
        &manifest.replace("NAMESPACE", cluster.namespace()),
    );
    cluster.script(include_str!("commands/volumes.txt"));
}

#[test]
fn requests_that_need_a_real_kubelet_report_that() {
    let reason = "a real API server forwards these requests to kubelets";
    let Some(cluster) = cluster().and_then(|cluster| cluster.embedded(reason)) else {
        return;
    };
    cluster.script(include_str!("commands/unsupported.txt"));
}
