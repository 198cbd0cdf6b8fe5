//! Scenarios of the SELinux warning controller. It writes Events alone, so its metric of conflicts is
//! compared, too. The user plays the binder and the kubelet.

use serde_json::{Value, json};
use steersman_controllers::selinuxwarning;
use steersman_perturb::rules::TRUE_WARNINGS;
use steersman_perturb::{Scenario, State, Step};

use crate::objects::{BLANK, delete, is_gone, patch, until_caches_are_current};

const BASE: Scenario = Scenario {
    controller: "selinux-warning",
    controllers: &[selinuxwarning::DESCRIPTOR],
    final_rules: &[TRUE_WARNINGS],
    gauges: &["selinux_warning_controller_selinux_volume_conflict"],
    ..BLANK
};

const DRIVER: &str = "csi.example.com";

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "labels",
            steps: labels,
            ..BASE
        },
        Scenario {
            name: "late-claim",
            steps: late_claim,
            ..BASE
        },
        Scenario {
            name: "driver",
            steps: changed_driver,
            ..BASE
        },
        Scenario {
            name: "namesake",
            steps: namesake,
            // The Event about the first pod names it, and another pod has this name at the end.
            final_rules: &[],
            ..BASE
        },
    ]
}

fn driver() -> Step {
    Step::Create(json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": DRIVER},
        "spec": {"seLinuxMount": true},
    }))
}

/// A claim, and the volume to which it is bound.
fn bound(claim: &str) -> [Step; 2] {
    let uid = format!("uid-of-{claim}");
    let spec = json!({
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"],
        "csi": {"driver": DRIVER, "volumeHandle": claim},
        "claimRef": {"namespace": "default", "name": claim, "uid": uid},
    });
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": format!("volume-of-{claim}"), "uid": format!("volume-{uid}")},
        "spec": spec, "status": {"phase": "Bound"},
    });
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": claim, "namespace": "default", "uid": uid},
        "spec": {
            "accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}},
            "volumeName": volume["metadata"]["name"], "storageClassName": "",
        },
        "status": {"phase": "Bound"},
    });
    [Step::Load(volume), Step::Load(claim)]
}

/// A running pod that uses the claim with an SELinux level.
fn pod(name: &str, level: &str, claim: &str) -> Step {
    Step::Load(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-of-{name}-{claim}")},
        "spec": {
            "nodeName": "node", "restartPolicy": "Never",
            "securityContext": {"seLinuxOptions": {"level": level}},
            "containers": [{
                "name": "main", "image": "web:1",
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            }],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
        },
        "status": {"phase": "Running"},
    }))
}

/// Waits until one of the pods, at least, has an Event of a conflict. A fault may lose another one.
fn until_told(pods: &'static [&'static str]) -> Step {
    Step::until("told", move |state: &State| {
        let is_told = |event: &Value| {
            let pod = event["involvedObject"]["name"].as_str();
            event["reason"] == "SELinuxLabelConflict" && pod.is_some_and(|pod| pods.contains(&pod))
        };
        state.all("events").any(is_told)
    })
}

/// Two pods with different labels use one volume.
fn conflict() -> Vec<Step> {
    let mut steps = vec![driver()];
    steps.extend(bound("shared"));
    steps.extend([
        pod("a", "s0:c1", "shared"),
        pod("b", "s0:c2", "shared"),
        until_told(&["a", "b"]),
    ]);
    steps
}

/// One of three pods with different labels finishes.
fn labels() -> Vec<Step> {
    let mut steps = conflict();
    steps.extend([
        pod("c", "s0:c3", "shared"),
        until_told(&["c"]),
        until_caches_are_current(),
        patch(
            "pods",
            "b/status",
            json!({"status": {"phase": "Succeeded"}}),
        ),
        until_caches_are_current(),
    ]);
    steps
}

/// Claim, volume and driver come after the pods.
fn late_claim() -> Vec<Step> {
    let mut steps = vec![
        pod("a", "s0:c1", "shared"),
        pod("b", "s0:c2", "shared"),
        pod("c", "s0:c1", "other"),
    ];
    steps.extend(bound("other"));
    steps.extend(bound("shared"));
    steps.extend([
        driver(),
        until_told(&["a", "b"]),
        until_caches_are_current(),
    ]);
    steps
}

/// The driver loses its support of labels, and gets it back.
fn changed_driver() -> Vec<Step> {
    let mounts = |mounts: bool| {
        let spec = json!({"spec": {"seLinuxMount": mounts}});
        patch("csidrivers", DRIVER, spec)
    };
    let mut steps = conflict();
    steps.extend([
        mounts(false),
        until_caches_are_current(),
        pod("c", "s0:c3", "shared"),
        until_caches_are_current(),
        mounts(true),
        until_told(&["c"]),
        until_caches_are_current(),
    ]);
    steps
}

/// A pod with the same name uses another claim.
fn namesake() -> Vec<Step> {
    let mut steps = conflict();
    steps.extend(bound("other"));
    steps.extend([
        delete("pods", "a", json!({"gracePeriodSeconds": 0})),
        is_gone("pods", "default/a"),
        pod("a", "s0:c1", "other"),
        // A fault may lose the only Event about this pod, so nothing waits for it.
        pod("c", "s0:c3", "other"),
        until_caches_are_current(),
    ]);
    steps
}
