//! The objects in the states that a handover finds: object, path, value.

use crate::harness::Cluster;

/// A value that is not empty.
pub(super) const ANY: &str = "any value";

/// Objects of workloads.yaml before the changes of [`super::CHANGES`]: object, path, value.
pub(super) const COMPLETE: [(&str, &str, &str); 8] = [
    ("statefulset/ordered", "{.status.availableReplicas}", "2"),
    ("statefulset/half", "{.status.availableReplicas}", "2"),
    ("statefulset/stuck", "{.status.availableReplicas}", "2"),
    ("statefulset/manual", "{.status.availableReplicas}", "1"),
    ("daemonset/agent", "{.status.numberAvailable}", "3"),
    ("daemonset/agent-stuck", "{.status.numberAvailable}", "3"),
    ("daemonset/agent-manual", "{.status.numberAvailable}", "3"),
    ("cronjob/yearly", "{.metadata.name}", "yearly"),
];

/// Objects of workloads.yaml at rest: object, path, value.
pub(super) const AT_REST: [(&str, &str, &str); 19] = [
    (
        "statefulset/half",
        "{.status.updatedReplicas}/{.status.availableReplicas}",
        "1/2",
    ),
    (
        "statefulset/stuck",
        "{.status.updatedReplicas}/{.status.replicas}/{.status.readyReplicas}",
        "1/2/1",
    ),
    (
        "statefulset/manual",
        "{.status.observedGeneration}/{.status.availableReplicas}",
        "2/1",
    ),
    (
        "pvc/data-claims-5",
        "{.metadata.ownerReferences[*].kind}",
        "StatefulSet",
    ),
    (
        "daemonset/agent-stuck",
        "{.status.updatedNumberScheduled}/{.status.numberReady}",
        "1/2",
    ),
    (
        "daemonset/agent-manual",
        "{.status.observedGeneration}/{.status.numberReady}",
        "2/3",
    ),
    (
        "job/done",
        "{.status.conditions[?(@.type==\"Complete\")].status}",
        "True",
    ),
    (
        "job/failed",
        "{.status.conditions[?(@.type==\"Failed\")].status}",
        "True",
    ),
    (
        "job/indexed",
        "{.status.conditions[?(@.type==\"Complete\")].status}",
        "True",
    ),
    ("job/running", "{.status.ready}/{.status.active}", "2/2"),
    (
        "job/suspended",
        "{.status.conditions[?(@.type==\"Suspended\")].status}",
        "True",
    ),
    ("cronjob/yearly", "{.status.active[*].kind}", "Job"),
    (
        "pdb/ordered",
        "{.status.disruptionsAllowed}/{.status.currentHealthy}",
        "1/2",
    ),
    (
        "pdb/complete",
        "{.status.disruptionsAllowed}/{.status.currentHealthy}",
        "2/3",
    ),
    ("endpoints/ordered", "{.subsets[0].ports[*].name}", "http"),
    (
        "endpoints/complete",
        "{.subsets[0].addresses[*].targetRef.kind}",
        "Pod Pod Pod",
    ),
    ("endpoints/empty", "{.metadata.name}", "empty"),
    (
        "endpointslices -l kubernetes.io/service-name=ordered",
        "{.items[0].endpoints[*].conditions.ready}",
        "true true",
    ),
    (
        "endpointslices -l kubernetes.io/service-name=external",
        "{.items[0].metadata.labels.site}",
        "b",
    ),
];

/// Objects of storage.yaml at rest: object, path, value.
pub(super) const STORAGE_AT_REST: [(&str, &str, &str); 8] = [
    ("pvc/data-claims-5", "{.status.phase}", "Bound"),
    ("pvc/attached", "{.status.phase}", "Bound"),
    ("pod/ephemeral", "{.status.phase}", "Running"),
    ("pv/released", "{.status.phase}", "Released"),
    ("pod/device", "{.status.phase}", "Running"),
    (
        "hpa/zero",
        "{.status.conditions[?(@.type==\"ScalingActive\")].reason}",
        "ScalingDisabled",
    ),
    (
        "validatingadmissionpolicy/mistyped",
        "{.status.observedGeneration}",
        "1",
    ),
    (
        "quota/controllers",
        "{.status.used.replicationcontrollers}",
        "2",
    ),
];

/// The VolumeAttributesClass of storage.yaml, which 1.33 does not have, at rest: object, path, value.
pub(super) const CLASS_AT_REST: [(&str, &str, &str); 1] = [(
    "vac/gold",
    "{.metadata.finalizers[*]}",
    "kubernetes.io/vac-protection",
)];

/// The migration of [`super::manifests::gated`] at rest: object, path, value. kube-controller-manager begins it once
/// its cache of ConfigMaps is new enough, which a bookmark may tell after a minute.
pub(super) const MIGRATION_AT_REST: [(&str, &str, &str); 1] = [(
    "storageversionmigration/gated",
    "{.status.conditions[?(@.type==\"Succeeded\")].status}",
    "True",
)];

/// Objects of cluster.yaml, the requests for certificates and the custom object, at rest: object, path, value.
pub(super) const CLUSTER_AT_REST: [(&str, &str, &str); 11] = [
    ("secret/robot-token", "{.data.token}", ANY),
    (
        "configmap/cluster-info -n kube-public",
        "{.data.jws-kubeconfig-abcdef}",
        ANY,
    ),
    ("configmap/kube-root-ca.crt", "{.data.ca\\.crt}", ANY),
    ("clusterrole/takeover-sum", "{.rules[*].verbs[*]}", "get"),
    (
        "servicecidr/more",
        "{.status.conditions[?(@.type==\"Ready\")].status}",
        "True",
    ),
    ("pod/ended", "{.status.phase}", "Succeeded"),
    ("csr/kubelet", "{.status.certificate}", ANY),
    (
        "csr/wrong",
        "{.status.conditions[*].type}",
        "Approved Failed",
    ),
    ("csr/denied", "{.status.conditions[*].type}", "Denied"),
    ("csr/pending", "{.status.conditions[*].type}", ""),
    (
        "gadget/owned",
        "{.metadata.ownerReferences[*].name}",
        "owner",
    ),
];

/// The sentinel when each controller has done its part: object, path, value.
pub(super) const DONE: [(&str, &str, &str); 20] = [
    ("deployment/SENTINEL", "{.status.availableReplicas}", "1"),
    ("statefulset/SENTINEL", "{.status.availableReplicas}", "1"),
    ("daemonset/SENTINEL", "{.status.numberAvailable}", "3"),
    (
        "job/SENTINEL",
        "{.status.conditions[?(@.type==\"Complete\")].status}",
        "True",
    ),
    ("pdb/SENTINEL", "{.status.currentHealthy}", "1"),
    ("endpoints/SENTINEL", "{.subsets[0].ports[0].port}", "80"),
    (
        "endpointslices -l kubernetes.io/service-name=SENTINEL",
        "{.items[0].endpoints[*].conditions.ready}",
        "true",
    ),
    (
        "endpointslices -l kubernetes.io/service-name=SENTINEL-external",
        "{.items[0].endpoints[*].addresses[0]}",
        "192.0.2.1",
    ),
    ("pvc/SENTINEL", "{.status.phase}", "Bound"),
    ("pod/SENTINEL-device", "{.status.phase}", "Running"),
    (
        "hpa/SENTINEL",
        "{.status.conditions[?(@.type==\"ScalingActive\")].reason}",
        "ScalingDisabled",
    ),
    (
        "validatingadmissionpolicy/SENTINEL",
        "{.status.observedGeneration}",
        "1",
    ),
    (
        "quota/SENTINEL",
        "{.status.used.count/ingresses\\.networking\\.k8s\\.io}",
        "0",
    ),
    (
        "serviceaccount/default -n SENTINEL",
        "{.metadata.name}",
        "default",
    ),
    (
        "configmap/kube-root-ca.crt -n SENTINEL",
        "{.data.ca\\.crt}",
        ANY,
    ),
    ("secret/SENTINEL", "{.data.token}", ANY),
    ("clusterrole/SENTINEL", "{.rules[*].verbs[*]}", "get"),
    (
        "servicecidr/SENTINEL",
        "{.status.conditions[?(@.type==\"Ready\")].status}",
        "True",
    ),
    ("csr/SENTINEL", "{.status.certificate}", ANY),
    // Its owner is missing.
    (
        "configmap/SENTINEL --ignore-not-found",
        "{.metadata.name}",
        "",
    ),
];

/// Waits until each object has its value at the path.
pub(super) fn wait_for_all(cluster: &Cluster, states: &[(&str, &str, &str)]) {
    for (object, path, value) in states {
        cluster.eventually(&format!("get {object} -o jsonpath={path}"), |said| {
            said == *value || (*value == ANY && !said.is_empty())
        });
    }
}
