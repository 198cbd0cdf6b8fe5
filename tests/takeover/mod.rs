//! A settled cluster is handed over from one manager to another and back. All objects stay as they are,
//! and no Event is written. Both managers run all controllers of Steersman, with the flags of kubeadm.
//!
//! This proves that a user can replace kube-controller-manager by Steersman, and return, without
//! restarting a pod. `KUBEBUILDER_ASSETS` selects a real control plane, of any known release, and the other
//! manager is the kube-controller-manager of that folder, if it has one. Otherwise the other manager is Steersman, too.
//! `STEERSMAN_TAKEOVER_OTHER`, which `scripts/takeover.sh --other PATH` sets, selects another program.
//!
//! kube-controller-manager is also restarted first. The test names the fields that each of its starts writes.
//! Steersman may write none.

mod manifests;
mod scene;
mod snapshot;
mod states;

use std::process::Command;

use serde_json::{Value, json};
use steersman_releases::{Gate, Release};

use crate::harness::{Cluster, assets};
use crate::support::{skip, steersman};
use manifests::{
    CLUSTER, ELSEWHERE, MANAGED, STORAGE, WORKLOADS, certificate_requests, gated, hashed,
    manifests, owned, served,
};
use scene::{Manager, Scene, make_due, other, other_program, release};
use snapshot::Resource;
use states::{
    AT_REST, CLASS_AT_REST, CLUSTER_AT_REST, COMPLETE, MIGRATION_AT_REST, STORAGE_AT_REST,
    wait_for_all,
};

/// Commands that leave workloads on their way.
const CHANGES: [&str; 5] = [
    "set image statefulset/half main=app:v2",
    r#"patch statefulset/stuck -p {"spec":{"template":{"metadata":{"annotations":{"simulate.steersman.dev/behaviour":"never-ready"}}}}}"#,
    "set image statefulset/manual main=app:v2",
    r#"patch daemonset/agent-stuck -p {"spec":{"template":{"metadata":{"annotations":{"simulate.steersman.dev/behaviour":"never-ready"}}}}}"#,
    "set image daemonset/agent-manual main=app:v2",
];

/// Feature gates of kinds that API servers do not serve by default, and of what Jobs create of them.
const GATES: [&str; 11] = [
    "APIServerIdentity",
    "ClusterTrustBundle",
    "ClusterTrustBundleProjection",
    "DRADeviceTaintRules",
    "DRADeviceTaints",
    "DRAResourcePoolStatus",
    "GenericWorkload",
    "InformerResourceVersion",
    "StorageVersionAPI",
    "StorageVersionMigrator",
    "WorkloadWithJob",
];

/// Waits until these Deployments are rolled out.
fn rolled_out(cluster: &Cluster, names: &[&str]) {
    for name in names {
        cluster.kubectl(&format!("rollout status deployment/{name} --timeout=90s"));
    }
}

/// Waits until the condition Progressing of the Deployment has this reason.
fn wait_for_progressing_reason(cluster: &Cluster, name: &str, reason: &str) {
    let path = "{.status.observedGeneration}={.metadata.generation}={.status.conditions[?(@.type==\"Progressing\")].reason}";
    cluster.eventually(
        &format!("get deployment {name} -o jsonpath={path}"),
        |said| {
            let [observed, generation, said] = said.split('=').collect::<Vec<_>>()[..] else {
                return false;
            };
            observed == generation && said == reason
        },
    );
}

/// Answers the VolumeAttachment of storage.yaml, as the attacher of its driver does.
fn attach(cluster: &Cluster) {
    let names = "get volumeattachments -o name";
    let name = cluster.eventually(names, |names| names.lines().count() == 1);
    cluster.kubectl(&format!(
        "patch {} --subresource=status --type=merge -p {}",
        name.trim(),
        json!({"status": {"attached": true}})
    ));
    cluster.eventually(
        "get nodes -o jsonpath={.items[*].status.volumesAttached[*].name}",
        |names| !names.is_empty(),
    );
}

/// Hands a cluster with objects of all kinds from the other manager to Steersman, and back.
fn hand_over(scene: &Scene) {
    let cluster = &scene.cluster;
    let list =
        |items: Vec<Value>| json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    cluster.apply(&list(manifests()));
    cluster.apply(&list(
        hashed().into_iter().map(|(manifest, _)| manifest).collect(),
    ));

    cluster.apply(WORKLOADS);
    let storage = STORAGE.replace("NAMESPACE", cluster.namespace());
    cluster.apply(&served(&storage, &scene.resources));
    cluster.apply(CLUSTER);
    for command in ELSEWHERE {
        cluster.kubectl(command);
    }
    certificate_requests(cluster);
    owned(cluster);
    for manifest in gated(&scene.resources) {
        cluster.apply(&manifest.to_string());
    }
    cluster.kubectl(&format!("annotate nodes --all {MANAGED}=true"));

    let first = Manager::start(scene, other());
    wait_for_all(cluster, &COMPLETE);
    for change in CHANGES {
        cluster.kubectl(change);
    }
    make_due(cluster, "yearly");
    rolled_out(
        cluster,
        &[
            "adopted",
            "complete",
            "rolled",
            "undone",
            "recreated",
            "endless",
            "paused",
            "zero",
            "odd",
        ],
    );
    for name in ["rolled", "undone", "recreated"] {
        cluster.kubectl(&format!("set image deployment/{name} main=app:v2"));
    }
    rolled_out(cluster, &["rolled", "undone", "recreated"]);
    cluster.kubectl("rollout undo deployment/undone");
    cluster.kubectl("rollout pause deployment/paused");
    cluster.kubectl("set image deployment/paused main=app:v2");
    rolled_out(cluster, &["undone"]);
    for name in ["born-paused", "paused"] {
        wait_for_progressing_reason(cluster, name, "DeploymentPaused");
    }
    wait_for_progressing_reason(cluster, "stalled", "ProgressDeadlineExceeded");
    for (kind, name, pods) in [
        ("rs", "set", "2"),
        ("rc", "controller", "2"),
        ("rc", "patient", "1"),
    ] {
        cluster.eventually(
            &format!("get {kind} {name} -o jsonpath={{.status.availableReplicas}}"),
            |count| count == pods,
        );
    }
    // Each release adds fields to the templates of pods, and so changes their hashes.
    let has_known_hashes = release(cluster) == Release::DEFAULT;
    let prefix = |(manifest, hash): (Value, String)| {
        let name = manifest["metadata"]["name"].as_str().expect("a name");
        let hash = if has_known_hashes {
            hash
        } else {
            String::new()
        };
        format!("{name}-{hash}")
    };
    let prefixes: Vec<String> = hashed().into_iter().map(prefix).collect();
    cluster.eventually(
        "get replicasets -o jsonpath={.items[*].metadata.name}",
        |names| {
            let exists = |prefix: &String| names.split(' ').any(|name| name.starts_with(prefix));
            prefixes.iter().all(exists)
        },
    );
    attach(cluster);
    wait_for_all(cluster, &AT_REST);
    wait_for_all(cluster, &STORAGE_AT_REST);
    if scene.serves("volumeattributesclasses.storage.k8s.io") {
        wait_for_all(cluster, &CLASS_AT_REST);
    }
    if scene.serves("storageversionmigrations.storagemigration.k8s.io") {
        wait_for_all(cluster, &MIGRATION_AT_REST);
    }
    wait_for_all(cluster, &CLUSTER_AT_REST);
    scene.at_rest();
    assert_eq!(
        scene.missing(),
        Vec::<&Resource>::new(),
        "kinds of which no object exists"
    );
    first.end();

    let release = release(cluster);
    if other_program().is_some() {
        let restarted = scene.take_over(other(), "sentinel-zero", Some(release));
        scene.at_rest();
        restarted.end();
    }

    let ours = scene.take_over(steersman(&[]), "sentinel-one", None);
    cluster.kubectl("set image deployment/complete main=app:v2");
    cluster.kubectl("annotate deployment/odd touched=yes");
    cluster.kubectl("scale deployment/rolled rs/set rc/controller --replicas=3");
    cluster.kubectl("rollout resume deployment/paused");
    cluster.kubectl("rollout pause deployment/endless");
    cluster.kubectl("set image statefulset/ordered daemonset/agent main=app:v2");
    cluster.kubectl("scale statefulset/half --replicas=3");
    cluster.kubectl("create job extra --from=cronjob/paused");
    cluster.kubectl(r#"patch job/suspended -p {"spec":{"suspend":false}}"#);
    cluster.kubectl("rollout status statefulset/ordered --timeout=90s");
    cluster.kubectl("rollout status daemonset/agent --timeout=90s");
    cluster.kubectl("wait --for=condition=complete job/suspended job/extra --timeout=90s");
    wait_for_all(
        cluster,
        &[("statefulset/half", "{.status.availableReplicas}", "3")],
    );
    rolled_out(cluster, &["complete", "odd", "rolled", "paused"]);
    for (kind, name) in [("rs", "set"), ("rc", "controller")] {
        cluster.eventually(
            &format!("get {kind} {name} -o jsonpath={{.status.availableReplicas}}"),
            |count| count == "3",
        );
    }
    scene.at_rest();
    ours.end();

    scene
        .take_over(other(), "sentinel-two", other_program().and(Some(release)))
        .end();
}

#[test]
fn a_handover_between_managers_changes_no_object() {
    let cluster = Cluster::start_without_manager().and_then(Cluster::with_simulated_nodes);
    if let Some(cluster) = cluster {
        hand_over(&Scene::new(cluster, &[]));
    }
}

#[test]
fn a_handover_with_feature_gates_changes_no_object() {
    let Some(folder) = assets() else {
        return skip("the embedded API server does not serve the kinds of these gates");
    };
    let program = Command::new(folder.join("kube-apiserver"))
        .arg("--version")
        .output();
    let version = String::from_utf8(program.unwrap().stdout).unwrap();
    let release = Release::in_version(version.trim_start_matches("Kubernetes ")).unwrap();
    if release < Release::of_minor(34) {
        return skip(
            "the API server of 1.33 serves most of these kinds in older versions than the manifests have",
        );
    }
    let is_free = |gate: &&&str| Gate::find(gate).is_some_and(|gate| gate.is_free_in(release));
    let gates: Vec<String> = GATES
        .iter()
        .filter(is_free)
        .map(|gate| format!("{gate}=true"))
        .collect();
    let gates = format!("--feature-gates={}", gates.join(","));
    let flags = [gates.clone(), "--runtime-config=api/all=true".to_owned()];
    let cluster = Cluster::start_without_manager_with(&flags);
    if let Some(cluster) = cluster.and_then(Cluster::with_simulated_nodes) {
        hand_over(&Scene::new(cluster, &[gates]));
    }
}
