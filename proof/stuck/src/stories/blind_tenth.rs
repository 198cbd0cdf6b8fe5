//! States of the tenth blind test, and more of their kinds: chains of custom resources, nodes that keep pods away, and
//! programs of other projects that do not run.

use steersman_why::Code;

use crate::{Run, Step, Story, Truth};

/// The stories.
pub(super) const STORIES: &[Story] = &[
    Story {
        question: 3,
        title: "all nodes of a zone have a taint, and a spread constraint counts them",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "front-3", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001001", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "front"}}, "spec": {"containers": [{"name": "main", "image": "registry/app:1"}], "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "front"}}}]}, "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/4 nodes are available: 2 node(s) didn't match pod topology spread constraints, 2 node(s) had untolerated taint(s).", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "front-1", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001002", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "front"}}, "spec": {"nodeName": "node-a", "containers": [{"name": "main", "image": "registry/app:1"}]}, "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "reason": "", "message": "", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "PodScheduled", "status": "True", "reason": "", "message": "", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": true, "restartCount": 0, "image": "", "imageID": "", "state": {"running": {"startedAt": "2026-11-28T11:00:00Z"}}}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "front-2", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001003", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "front"}}, "spec": {"nodeName": "node-b", "containers": [{"name": "main", "image": "registry/app:1"}]}, "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "reason": "", "message": "", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "PodScheduled", "status": "True", "reason": "", "message": "", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": true, "restartCount": 0, "image": "", "imageID": "", "state": {"running": {"startedAt": "2026-11-28T11:00:00Z"}}}]}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a", "uid": "6d1f4c5e-0000-4000-8000-000000001004", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-a", "topology.kubernetes.io/zone": "a"}}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-b", "uid": "6d1f4c5e-0000-4000-8000-000000001005", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-b", "topology.kubernetes.io/zone": "b"}}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-c", "uid": "6d1f4c5e-0000-4000-8000-000000001006", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-c", "topology.kubernetes.io/zone": "c"}}, "spec": {"taints": [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-d", "uid": "6d1f4c5e-0000-4000-8000-000000001007", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-d", "topology.kubernetes.io/zone": "c"}}, "spec": {"taints": [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
"#,
        )],
        about: ("pod", "front-3"),
        truth: Truth::Cause(
            Code::PodUnscheduled,
            "zone c has the fewest (0 pods), so each other zone takes at most 1; the pod does not tolerate the taints of all nodes there, dedicated=batch:NoSchedule (node-c, node-d)",
            "nodeTaintsPolicy Honor",
        ),
    },
    Story {
        question: 5,
        title: "the node with the local volume of the pod lacks disk space",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "es-1", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001010", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "x"}}, "spec": {"containers": [{"name": "main", "image": "registry/app:1"}], "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data-es-1"}}]}, "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity, 1 node(s) had untolerated taint(s).", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
---
{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "ssd-node-d", "uid": "6d1f4c5e-0000-4000-8000-000000001008", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"], "local": {"path": "/ssd"}, "storageClassName": "local", "persistentVolumeReclaimPolicy": "Retain", "claimRef": {"namespace": "default", "name": "data-es-1", "uid": "6d1f4c5e-0000-4000-8000-000000001099"}, "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-d"]}]}]}}}, "status": {"phase": "Bound"}}
---
{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data-es-1", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001099", "creationTimestamp": "2026-11-28T11:00:00Z", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}, "storageClassName": "local", "volumeName": "ssd-node-d"}, "status": {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "10Gi"}}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a", "uid": "6d1f4c5e-0000-4000-8000-000000001011", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-a"}}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-d", "uid": "6d1f4c5e-0000-4000-8000-000000001012", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-d"}}, "spec": {"taints": [{"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}]}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "DiskPressure", "status": "True", "reason": "KubeletHasDiskPressure", "message": "kubelet has disk pressure", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
"#,
        )],
        about: ("pod", "es-1"),
        truth: Truth::Cause(
            Code::VolumeUnreachable,
            "claim data-es-1 is bound to volume ssd-node-d, which node-d alone reaches; the pod does not tolerate node.kubernetes.io/disk-pressure:NoSchedule of node-d",
            "administrator of node node-d",
        ),
    },
    Story {
        question: 14,
        title: "the kubelet reports too little disk space",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-d", "uid": "6d1f4c5e-0000-4000-8000-000000001013", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-d"}}, "spec": {"taints": [{"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}]}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "DiskPressure", "status": "True", "reason": "KubeletHasDiskPressure", "message": "kubelet has disk pressure", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
"#,
        )],
        about: ("node", "node-d"),
        truth: Truth::Cause(
            Code::NodePressure,
            "DiskPressure is True (KubeletHasDiskPressure): kubelet has disk pressure",
            "administrator of node node-d (free disk space",
        ),
    },
    Story {
        question: 3,
        title: "the challenge behind a Certificate finds no DNS record of its host",
        run: Run::Nothing,
        steps: &[
            Step::Apply(concat!(
                crd!(
                    "cert-manager.io",
                    "Certificate",
                    "certificates",
                    "Namespaced"
                ),
                crd!(
                    "cert-manager.io",
                    "CertificateRequest",
                    "certificaterequests",
                    "Namespaced"
                ),
                crd!("acme.cert-manager.io", "Order", "orders", "Namespaced"),
                crd!(
                    "acme.cert-manager.io",
                    "Challenge",
                    "challenges",
                    "Namespaced"
                ),
            )),
            Step::Wait(5),
            Step::Load(
                r#"{"apiVersion": "cert-manager.io/v1", "kind": "Certificate", "metadata": {"name": "outlet", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001014", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"dnsNames": ["outlet.example.com"], "secretName": "outlet", "issuerRef": {"kind": "ClusterIssuer", "name": "le"}}, "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "DoesNotExist", "message": "Issuing certificate as Secret does not exist", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "Issuing", "status": "True", "reason": "DoesNotExist", "message": "Issuing certificate as Secret does not exist", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
---
{"apiVersion": "cert-manager.io/v1", "kind": "CertificateRequest", "metadata": {"name": "outlet-1", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001015", "creationTimestamp": "2026-11-28T11:00:00Z", "ownerReferences": [{"apiVersion": "cert-manager.io/v1", "kind": "Certificate", "name": "outlet", "uid": "6d1f4c5e-0000-4000-8000-000000001014", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"issuerRef": {"kind": "ClusterIssuer", "name": "le"}}, "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Pending", "message": "Waiting on certificate issuance from order default/outlet-1-30981: \"pending\"", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
---
{"apiVersion": "acme.cert-manager.io/v1", "kind": "Order", "metadata": {"name": "outlet-1-30981", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001016", "creationTimestamp": "2026-11-28T11:00:00Z", "ownerReferences": [{"apiVersion": "cert-manager.io/v1", "kind": "CertificateRequest", "name": "outlet-1", "uid": "6d1f4c5e-0000-4000-8000-000000001015", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"issuerRef": {"kind": "ClusterIssuer", "name": "le"}}, "status": {"state": "pending", "url": "https://acme.example.org/order/1"}}
---
{"apiVersion": "acme.cert-manager.io/v1", "kind": "Challenge", "metadata": {"name": "outlet-1-30981-118", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001017", "creationTimestamp": "2026-11-28T11:00:00Z", "ownerReferences": [{"apiVersion": "acme.cert-manager.io/v1", "kind": "Order", "name": "outlet-1-30981", "uid": "6d1f4c5e-0000-4000-8000-000000001016", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"dnsName": "outlet.example.com", "type": "HTTP-01"}, "status": {"state": "pending", "presented": true, "processing": true, "reason": "Waiting for HTTP-01 challenge propagation: failed to perform self check GET request: dial tcp: lookup outlet.example.com on 10.96.0.10:53: no such host"}}
"#,
            ),
        ],
        about: ("certificate", "outlet"),
        truth: Truth::Cause(
            Code::ConditionBad,
            "lookup outlet.example.com on 10.96.0.10:53: no such host",
            "owner of the DNS record of outlet.example.com, which is missing; or owner of certificate default/outlet",
        ),
    },
    Story {
        question: 3,
        title: "the repository behind a HelmRelease refuses the login",
        run: Run::Nothing,
        steps: &[
            Step::Apply(concat!(
                crd!(
                    "helm.toolkit.fluxcd.io",
                    "HelmRelease",
                    "helmreleases",
                    "Namespaced"
                ),
                crd!(
                    "source.toolkit.fluxcd.io",
                    "HelmRepository",
                    "helmrepositories",
                    "Namespaced"
                ),
                crd!(
                    "source.toolkit.fluxcd.io",
                    "HelmChart",
                    "helmcharts",
                    "Namespaced"
                ),
                crd!(
                    "source.toolkit.fluxcd.io",
                    "GitRepository",
                    "gitrepositories",
                    "Namespaced"
                ),
                crd!(
                    "kustomize.toolkit.fluxcd.io",
                    "Kustomization",
                    "kustomizations",
                    "Namespaced"
                ),
            )),
            Step::Wait(5),
            Step::Load(
                r#"{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "flux"}, "status": {"phase": "Active"}}
---
{"apiVersion": "helm.toolkit.fluxcd.io/v1", "kind": "HelmRelease", "metadata": {"name": "gateway", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001020", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"chart": {"spec": {"chart": "gateway", "sourceRef": {"kind": "HelmRepository", "name": "charts", "namespace": "flux"}}}}, "status": {"helmChart": "flux/default-gateway", "conditions": [{"type": "Ready", "status": "False", "reason": "SourceNotReady", "message": "HelmChart 'flux/default-gateway' is not ready: no artifact available for HelmRepository source 'charts'", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
---
{"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "HelmChart", "metadata": {"name": "default-gateway", "namespace": "flux", "uid": "6d1f4c5e-0000-4000-8000-000000001019", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"chart": "gateway", "sourceRef": {"kind": "HelmRepository", "name": "charts"}}, "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "NoSourceArtifact", "message": "no artifact available for HelmRepository source 'charts'", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
---
{"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "HelmRepository", "metadata": {"name": "charts", "namespace": "flux", "uid": "6d1f4c5e-0000-4000-8000-000000001018", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"url": "https://charts.example.com", "secretRef": {"name": "charts-auth"}}, "status": {"conditions": [{"type": "Reconciling", "status": "True", "reason": "ProgressingWithRetry", "message": "building artifact: failed to fetch Helm repository index: failed to fetch https://charts.example.com/index.yaml : 401 Unauthorized", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "Ready", "status": "False", "reason": "Failed", "message": "failed to fetch Helm repository index: failed to fetch https://charts.example.com/index.yaml : 401 Unauthorized", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "FetchFailed", "status": "True", "reason": "Failed", "message": "failed to fetch Helm repository index: failed to fetch https://charts.example.com/index.yaml : 401 Unauthorized", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
"#,
            ),
        ],
        about: ("helmrelease", "gateway"),
        truth: Truth::Cause(
            Code::ConditionBad,
            "401 Unauthorized; its credentials are those of Secret flux/charts-auth (spec.secretRef)",
            "owner of Secret flux/charts-auth (spec.secretRef) or of helmrepository flux/charts",
        ),
    },
    Story {
        question: 3,
        title: "the source of a Kustomization on which another one depends has a branch that does not exist",
        run: Run::Nothing,
        steps: &[
            Step::Apply(concat!(
                crd!(
                    "helm.toolkit.fluxcd.io",
                    "HelmRelease",
                    "helmreleases",
                    "Namespaced"
                ),
                crd!(
                    "source.toolkit.fluxcd.io",
                    "HelmRepository",
                    "helmrepositories",
                    "Namespaced"
                ),
                crd!(
                    "source.toolkit.fluxcd.io",
                    "HelmChart",
                    "helmcharts",
                    "Namespaced"
                ),
                crd!(
                    "source.toolkit.fluxcd.io",
                    "GitRepository",
                    "gitrepositories",
                    "Namespaced"
                ),
                crd!(
                    "kustomize.toolkit.fluxcd.io",
                    "Kustomization",
                    "kustomizations",
                    "Namespaced"
                ),
            )),
            Step::Wait(5),
            Step::Load(
                r#"{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "flux"}, "status": {"phase": "Active"}}
---
{"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "metadata": {"name": "apps", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001022", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"sourceRef": {"kind": "GitRepository", "name": "fleet", "namespace": "flux"}, "dependsOn": [{"name": "infra", "namespace": "flux"}]}, "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "DependencyNotReady", "message": "dependency 'flux/infra' is not ready", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
---
{"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "metadata": {"name": "infra", "namespace": "flux", "uid": "6d1f4c5e-0000-4000-8000-000000001023", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"sourceRef": {"kind": "GitRepository", "name": "fleet"}}, "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "ArtifactFailed", "message": "Source artifact not found, retrying in 30s", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
---
{"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository", "metadata": {"name": "fleet", "namespace": "flux", "uid": "6d1f4c5e-0000-4000-8000-000000001021", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"url": "ssh://git@example.com/fleet"}, "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "GitOperationFailed", "message": "failed to checkout and determine revision: couldn't find remote ref \"refs/heads/mian\"", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
"#,
            ),
        ],
        about: ("kustomization", "apps"),
        truth: Truth::Cause(
            Code::ConditionBad,
            "couldn't find remote ref",
            "owner of gitrepository flux/fleet, by these words; or operator of source-controller of Flux",
        ),
    },
    Story {
        question: 3,
        title: "the cloud controller manager that should initialize the only fitting node is scaled to zero",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "model-1", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001025", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "x"}}, "spec": {"containers": [{"name": "main", "image": "registry/app:1"}], "nodeSelector": {"pool": "gpu"}}, "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint(s).", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a", "uid": "6d1f4c5e-0000-4000-8000-000000001026", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-a"}}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-g", "uid": "6d1f4c5e-0000-4000-8000-000000001027", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-g", "pool": "gpu"}}, "spec": {"taints": [{"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"}]}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
---
{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "openstack-cloud-controller-manager", "namespace": "kube-system", "uid": "6d1f4c5e-0000-4000-8000-000000001024", "creationTimestamp": "2026-11-28T11:00:00Z", "generation": 1, "annotations": {"deployment.kubernetes.io/revision": "1"}}, "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "openstack-cloud-controller-manager"}}, "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}, "template": {"metadata": {"labels": {"app": "openstack-cloud-controller-manager"}}, "spec": {"containers": [{"name": "main", "image": "registry.k8s.io/provider-os/openstack-cloud-controller-manager:v1.31.1"}]}}}, "status": {"observedGeneration": 1, "replicas": 0, "updatedReplicas": 0, "readyReplicas": 0, "availableReplicas": 0, "conditions": [{"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable", "message": "Deployment has minimum availability.", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
"#,
        )],
        about: ("pod", "model-1"),
        truth: Truth::Cause(
            Code::NodeUninitialized,
            "until the cloud controller manager removes it; deployment kube-system/openstack-cloud-controller-manager has 0 replicas",
            "operator of the cloud controller manager",
        ),
    },
    Story {
        question: 1,
        title: "the program of a finalizer is not installed any more",
        run: Run::Nothing,
        steps: &[
            Step::Apply(concat!(crd!(
                "cert-manager.io",
                "Certificate",
                "certificates",
                "Namespaced"
            ),)),
            Step::Wait(5),
            Step::Load(
                r#"{"apiVersion": "cert-manager.io/v1", "kind": "Certificate", "metadata": {"name": "gone", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001028", "creationTimestamp": "2026-11-28T11:00:00Z", "deletionTimestamp": "2026-11-28T11:30:00Z", "finalizers": ["acme.cert-manager.io/finalizer"]}, "spec": {"secretName": "gone"}}
"#,
            ),
        ],
        about: ("certificate", "gone"),
        truth: Truth::Cause(
            Code::ForeignFinalizer,
            "no Deployment, StatefulSet or DaemonSet in the cluster has cert-manager in its name or image",
            "operator of cert-manager (start it again), or owner of the object (remove the finalizer)",
        ),
    },
    Story {
        question: 1,
        title: "the operator of a finalizer has no replicas",
        run: Run::Nothing,
        steps: &[
            Step::Apply(concat!(crd!(
                "databases.example.com",
                "Database",
                "databases",
                "Namespaced"
            ),)),
            Step::Wait(5),
            Step::Load(
                r#"{"apiVersion": "databases.example.com/v1", "kind": "Database", "metadata": {"name": "orders", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001029", "creationTimestamp": "2026-11-28T11:00:00Z", "deletionTimestamp": "2026-11-28T11:30:00Z", "finalizers": ["databases.example.com/cleanup"]}, "spec": {"size": 1}}
---
{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ops"}, "status": {"phase": "Active"}}
---
{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "database-operator", "namespace": "ops", "uid": "6d1f4c5e-0000-4000-8000-000000001030", "creationTimestamp": "2026-11-28T11:00:00Z", "generation": 1, "annotations": {"deployment.kubernetes.io/revision": "1"}}, "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "database-operator"}}, "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}, "template": {"metadata": {"labels": {"app": "database-operator"}}, "spec": {"containers": [{"name": "main", "image": "registry/dbo:1"}]}}}, "status": {"observedGeneration": 1, "replicas": 0, "updatedReplicas": 0, "readyReplicas": 0, "availableReplicas": 0, "conditions": [{"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable", "message": "Deployment has minimum availability.", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
"#,
            ),
        ],
        about: ("database", "orders"),
        truth: Truth::Cause(
            Code::ForeignFinalizer,
            "deployment ops/database-operator has 0 replicas",
            "operator of the controller of databases.example.com",
        ),
    },
    Story {
        question: 3,
        title: "no program looks at a Certificate, because cert-manager does not run",
        run: Run::Nothing,
        steps: &[
            Step::Apply(concat!(crd!(
                "cert-manager.io",
                "Certificate",
                "certificates",
                "Namespaced"
            ),)),
            Step::Wait(5),
            Step::Load(
                r#"{"apiVersion": "cert-manager.io/v1", "kind": "Certificate", "metadata": {"name": "silent", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001031", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"secretName": "silent", "issuerRef": {"name": "le"}}}
"#,
            ),
        ],
        about: ("certificate", "silent"),
        truth: Truth::Cause(
            Code::ProgramDown,
            "it has no status, which cert-manager would set",
            "operator of cert-manager",
        ),
    },
    Story {
        question: 11,
        title: "the class of a Gateway does not exist",
        run: Run::Nothing,
        steps: &[
            Step::Apply(concat!(
                crd!(
                    "gateway.networking.k8s.io",
                    "Gateway",
                    "gateways",
                    "Namespaced"
                ),
                crd!(
                    "gateway.networking.k8s.io",
                    "GatewayClass",
                    "gatewayclasses",
                    "Cluster"
                ),
            )),
            Step::Wait(5),
            Step::Load(
                r#"{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "public", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001032", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"gatewayClassName": "envoy", "listeners": []}, "status": {"conditions": [{"type": "Accepted", "status": "Unknown", "reason": "Pending", "message": "Waiting for controller", "lastTransitionTime": "1970-01-01T00:00:00Z"}, {"type": "Programmed", "status": "Unknown", "reason": "Pending", "message": "Waiting for controller", "lastTransitionTime": "1970-01-01T00:00:00Z"}]}}
---
{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "eg", "uid": "6d1f4c5e-0000-4000-8000-000000001033", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"controllerName": "gateway.envoyproxy.io/gatewayclass-controller"}, "status": {"conditions": [{"type": "Accepted", "status": "True", "reason": "Accepted", "message": "Valid GatewayClass", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
"#,
            ),
        ],
        about: ("gateway", "public"),
        truth: Truth::Cause(
            Code::ReferenceMissing,
            "it names GatewayClass envoy, which does not exist (there is eg)",
            "owner of gateway default/public, or creator of GatewayClass envoy",
        ),
    },
    Story {
        question: 3,
        title: "Argo CD cannot read the repository of an application",
        run: Run::Nothing,
        steps: &[
            Step::Apply(concat!(crd!(
                "argoproj.io",
                "Application",
                "applications",
                "Namespaced"
            ),)),
            Step::Wait(5),
            Step::Load(
                r#"{"apiVersion": "argoproj.io/v1", "kind": "Application", "metadata": {"name": "blog", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001036", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"destination": {"namespace": "default"}}, "status": {"health": {"status": "Healthy"}, "sync": {"status": "Unknown"}, "conditions": [{"type": "ComparisonError", "message": "Failed to load target state: failed to generate manifest for source 1 of 1: rpc error: code = Unknown desc = authentication required", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
"#,
            ),
        ],
        about: ("application", "blog"),
        truth: Truth::Cause(
            Code::ConditionBad,
            "ComparisonError: Failed to load target state",
            "owner of application default/blog, by these words; or operator of Argo CD application controller",
        ),
    },
    Story {
        question: 8,
        title: "the operator of a custom resource lacks a right",
        run: Run::Nothing,
        steps: &[
            Step::Apply(concat!(
                crd!("example.com", "Widget", "widgets", "Namespaced"),
                crd!("example.com", "Rack", "racks", "Namespaced"),
            )),
            Step::Wait(5),
            Step::Load(
                r#"{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001037", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "ReconcileError", "message": "failed to create Service: services is forbidden: User \"system:serviceaccount:ops:widget-operator\" cannot create resource \"services\" in API group \"\" in the namespace \"default\"", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
"#,
            ),
        ],
        about: ("widget", "w"),
        truth: Truth::Cause(
            Code::ConditionBad,
            "cannot create resource \"services\"",
            "administrator of the RBAC rules (ServiceAccount ops/widget-operator: create services in namespace default)",
        ),
    },
    Story {
        question: 3,
        title: "a custom resource works, and the objects that it names do not",
        run: Run::Nothing,
        steps: &[
            Step::Apply(concat!(
                crd!("example.com", "Widget", "widgets", "Namespaced"),
                crd!("example.com", "Rack", "racks", "Namespaced"),
            )),
            Step::Wait(5),
            Step::Load(
                r#"{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001038", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"rackRef": {"kind": "Rack", "name": "r"}, "otherRef": {"kind": "Rack", "name": "later"}}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Done", "message": "", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
---
{"apiVersion": "example.com/v1", "kind": "Rack", "metadata": {"name": "r", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001039", "creationTimestamp": "2026-11-28T11:00:00Z"}, "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Broken", "message": "the rack is broken", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
"#,
            ),
        ],
        about: ("widget", "w"),
        truth: Truth::Fine,
    },
    Story {
        question: 3,
        title: "two custom resources wait for each other",
        run: Run::Nothing,
        steps: &[
            Step::Apply(concat!(
                crd!("example.com", "Widget", "widgets", "Namespaced"),
                crd!("example.com", "Rack", "racks", "Namespaced"),
            )),
            Step::Wait(5),
            Step::Load(
                r#"{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001040", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"rackRef": {"kind": "Rack", "name": "r"}}, "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Waits", "message": "rack 'r' is not ready", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
---
{"apiVersion": "example.com/v1", "kind": "Rack", "metadata": {"name": "r", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001041", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"widgetRef": {"kind": "Widget", "name": "w"}}, "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Waits", "message": "widget 'w' is not ready", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
"#,
            ),
        ],
        about: ("widget", "w"),
        truth: Truth::Cause(
            Code::ConditionBad,
            "widget 'w' is not ready",
            "owner of rack default/r",
        ),
    },
    Story {
        question: 11,
        title: "an init container waits for a Service that selects no pod",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "api", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001043", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "x"}}, "spec": {"containers": [{"name": "main", "image": "registry/app:1"}], "nodeName": "node-a", "initContainers": [{"name": "wait-db", "image": "busybox", "command": ["sh", "-c", "until nc -z postgres 5432; do sleep 2; done"]}]}, "status": {"phase": "Pending", "startTime": "2026-11-28T11:00:00Z", "conditions": [{"type": "PodScheduled", "status": "True", "reason": "", "message": "", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "containers with unready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": false, "restartCount": 0, "image": "registry/app:1", "imageID": "", "state": {"waiting": {"reason": "PodInitializing"}}}], "initContainerStatuses": [{"name": "wait-db", "ready": false, "restartCount": 0, "image": "busybox", "imageID": "", "state": {"running": {"startedAt": "2026-11-28T11:00:00Z"}}}]}}
---
{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "postgres", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001042", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"type": "ClusterIP", "selector": {"app": "postgres"}, "ports": [{"port": 5432}]}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a", "uid": "6d1f4c5e-0000-4000-8000-000000001044", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-a"}}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
"#,
        )],
        about: ("pod", "api"),
        truth: Truth::Cause(
            Code::NoPodSelected,
            "no pod in default has the labels app=postgres",
            "owner of the Service",
        ),
    },
    Story {
        question: 13,
        title: "the only volume that fits still belongs to the former claim of the name",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "old-disk", "uid": "6d1f4c5e-0000-4000-8000-000000001045", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteOnce"], "nfs": {"server": "10.0.0.1", "path": "/x"}, "storageClassName": "manual", "persistentVolumeReclaimPolicy": "Retain", "claimRef": {"namespace": "default", "name": "data", "uid": "11111111-2222-3333-4444-555555555555"}}, "status": {"phase": "Released"}}
---
{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001046", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}, "storageClassName": "manual"}, "status": {"phase": "Pending"}}
"#,
        )],
        about: ("pvc", "data"),
        truth: Truth::Cause(
            Code::ClassMissing,
            "nearest: volume old-disk is Released, since spec.claimRef still has the UID of its former claim default/data",
            "administrator of volume old-disk (remove spec.claimRef)",
        ),
    },
    Story {
        question: 11,
        title: "the controller of an IngressClass has no replicas",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ingress-nginx"}, "status": {"phase": "Active"}}
---
{"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": {"name": "nginx", "uid": "6d1f4c5e-0000-4000-8000-000000001047", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"controller": "k8s.io/ingress-nginx"}}
---
{"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "site", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001048", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"ingressClassName": "nginx", "rules": []}, "status": {}}
---
{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "ingress-nginx-controller", "namespace": "ingress-nginx", "uid": "6d1f4c5e-0000-4000-8000-000000001049", "creationTimestamp": "2026-11-28T11:00:00Z", "generation": 1, "annotations": {"deployment.kubernetes.io/revision": "1"}}, "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "ingress-nginx-controller"}}, "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}, "template": {"metadata": {"labels": {"app": "ingress-nginx-controller"}}, "spec": {"containers": [{"name": "main", "image": "registry.k8s.io/ingress-nginx/controller:v1"}]}}}, "status": {"observedGeneration": 1, "replicas": 0, "updatedReplicas": 0, "readyReplicas": 0, "availableReplicas": 0, "conditions": [{"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable", "message": "Deployment has minimum availability.", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
"#,
        )],
        about: ("ingress", "site"),
        truth: Truth::Cause(
            Code::ProgramDown,
            "deployment ingress-nginx/ingress-nginx-controller has 0 replicas",
            "operator of k8s.io/ingress-nginx",
        ),
    },
    Story {
        question: 3,
        title: "the only node of a pod's selector is cordoned",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pinned", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001050", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "x"}}, "spec": {"containers": [{"name": "main", "image": "registry/app:1"}], "nodeSelector": {"disk": "ssd"}}, "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes are available: 1 node(s) were unschedulable, 1 node(s) didn't match Pod's node affinity/selector.", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a", "uid": "6d1f4c5e-0000-4000-8000-000000001051", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-a"}}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-s", "uid": "6d1f4c5e-0000-4000-8000-000000001052", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-s", "disk": "ssd"}}, "spec": {"taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
"#,
        )],
        about: ("pod", "pinned"),
        truth: Truth::Cause(
            Code::PodUnscheduled,
            "node-s is cordoned, and it would take the pod otherwise",
            "administrator of the nodes (kubectl uncordon node-s)",
        ),
    },
    Story {
        question: 3,
        title: "a pod must run beside a pod that does not exist",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "near", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001053", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "x"}}, "spec": {"containers": [{"name": "main", "image": "registry/app:1"}], "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "cache"}}}]}}}, "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available: 1 node(s) didn't match pod affinity rules.", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a", "uid": "6d1f4c5e-0000-4000-8000-000000001054", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-a"}}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
"#,
        )],
        about: ("pod", "near"),
        truth: Truth::Cause(
            Code::PodUnscheduled,
            "the pod asks for a pod with app=cache in its kubernetes.io/hostname (podAffinity), and none runs on a node in namespace default",
            "owner of the pod template (podAffinity)",
        ),
    },
    Story {
        question: 3,
        title: "the device class of a resource claim does not exist",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "infer", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001055", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "x"}}, "spec": {"containers": [{"name": "main", "image": "registry/app:1"}], "resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}, "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available: 1 cannot allocate all claims.", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
---
{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "gpu", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001056", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a", "uid": "6d1f4c5e-0000-4000-8000-000000001057", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-a"}}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
"#,
        )],
        about: ("pod", "infer"),
        truth: Truth::Cause(
            Code::PodUnscheduled,
            "resource claim gpu asks for DeviceClass gpu.example.com, which does not exist (there is none)",
            "creator of DeviceClass gpu.example.com",
        ),
    },
    Story {
        question: 13,
        title: "the class of a claim allows only zones that no node is in",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "z", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001060", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "x"}}, "spec": {"containers": [{"name": "main", "image": "registry/app:1"}], "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "zonal"}}]}, "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind.", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
---
{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "zonal", "uid": "6d1f4c5e-0000-4000-8000-000000001058", "creationTimestamp": "2026-11-28T11:00:00Z"}, "provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer", "allowedTopologies": [{"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": ["z9"]}]}]}
---
{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "zonal", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001059", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}, "storageClassName": "zonal"}, "status": {"phase": "Pending"}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a", "uid": "6d1f4c5e-0000-4000-8000-000000001061", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-a", "topology.kubernetes.io/zone": "z1"}}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
"#,
        )],
        about: ("pod", "z"),
        truth: Truth::Cause(
            Code::PodUnscheduled,
            "class zonal of claim zonal makes volumes for nodes with topology.kubernetes.io/zone in (z9) (allowedTopologies), which no node has",
            "owner of StorageClass zonal (allowedTopologies)",
        ),
    },
];
