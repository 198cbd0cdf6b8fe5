//! The states of a fifth blind test in which `why` named no cause, a wrong one, or half of it, and states
//! like them in which nothing is wrong.

use steersman_why::Code;

use crate::{Run, Step, Story, Truth};

pub(super) const STORIES: &[Story] = &[
    Story {
        question: 2,
        title: "the rules of the autoscaler switch off scaling down",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "checkout", "namespace": "default", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "checkout"}, "minReplicas": 2, "maxReplicas": 20, "behavior": {"scaleDown": {"selectPolicy": "Disabled", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}}, "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}}]}, "status": {"currentReplicas": 8, "desiredReplicas": 8, "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 10, "averageValue": "20m"}}}], "conditions": [{"type": "AbleToScale", "status": "True", "reason": "ReadyForNewScale", "message": "recommended size matches current size"}, {"type": "ScalingActive", "status": "True", "reason": "ValidMetricFound", "message": "the HPA was able to successfully calculate a replica count from cpu resource utilization (percentage of request)"}, {"type": "ScalingLimited", "status": "True", "reason": "ScaleDownLimit", "message": "the desired replica count is decreasing faster than the maximum scale rate", "lastTransitionTime": "2026-11-28T11:10:00Z"}]}}
"#,
        )],
        about: ("hpa", "checkout"),
        truth: Truth::Cause(
            Code::DirectionDisabled,
            "spec.behavior.scaleDown.selectPolicy is Disabled",
            "spec.behavior.scaleDown.selectPolicy",
        ),
    },
    Story {
        question: 2,
        title: "a policy lets the autoscaler remove one pod in ten minutes",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "search", "namespace": "default", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "search"}, "minReplicas": 2, "maxReplicas": 20, "behavior": {"scaleDown": {"selectPolicy": "Max", "policies": [{"type": "Pods", "value": 1, "periodSeconds": 600}]}}, "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}}]}, "status": {"currentReplicas": 8, "desiredReplicas": 8, "lastScaleTime": "2026-11-28T11:58:00Z", "conditions": [{"type": "AbleToScale", "status": "True", "reason": "ReadyForNewScale", "message": "recommended size matches current size"}, {"type": "ScalingActive", "status": "True", "reason": "ValidMetricFound", "message": "the HPA was able to successfully calculate a replica count from cpu resource utilization (percentage of request)"}, {"type": "ScalingLimited", "status": "True", "reason": "ScaleDownLimit", "message": "the desired replica count is decreasing faster than the maximum scale rate", "lastTransitionTime": "2026-11-28T11:10:00Z"}]}}
"#,
        )],
        about: ("hpa", "search"),
        truth: Truth::Moves(Code::ScalingLimited),
    },
    Story {
        question: 11,
        title: "the pods of the selector are in another namespace",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"apiVersion: v1
kind: Namespace
metadata: {name: backend}
"#,
            ),
            Step::Wait(5),
            Step::Apply(
                r#"apiVersion: v1
kind: Service
metadata: {name: catalog}
spec: {selector: {app: catalog, tier: api}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: catalog, namespace: backend}
spec:
  replicas: 2
  selector: {matchLabels: {app: catalog}}
  template:
    metadata: {labels: {app: catalog, tier: api}}
    spec: {containers: [{name: main, image: registry/catalog:1}]}
"#,
            ),
        ],
        about: ("service", "catalog"),
        truth: Truth::Cause(
            Code::NoPodSelected,
            "are in namespace backend (2)",
            "their namespace",
        ),
    },
    Story {
        question: 11,
        title: "the Deployment of the Service is refused its pods, and one of the same labels has no replicas",
        run: Run::All,
        steps: &[Step::Apply(
            r#"apiVersion: v1
kind: ResourceQuota
metadata: {name: none}
spec: {hard: {pods: "0"}}
---
apiVersion: v1
kind: Service
metadata: {name: front}
spec: {selector: {app: front}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: front-blue}
spec:
  replicas: 0
  selector: {matchLabels: {app: front, colour: blue}}
  template:
    metadata: {labels: {app: front, colour: blue}}
    spec: {containers: [{name: main, image: registry/front:1}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: front-green}
spec:
  replicas: 2
  selector: {matchLabels: {app: front, colour: green}}
  template:
    metadata: {labels: {app: front, colour: green}}
    spec: {containers: [{name: main, image: registry/front:2}]}
"#,
        )],
        about: ("service", "front"),
        truth: Truth::Cause(
            Code::QuotaExceeded,
            "exceeded quota: none",
            "ResourceQuota default/none",
        ),
    },
    Story {
        question: 12,
        title: "a pod on a dead node holds the place of its replacement",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "namespace": "default", "uid": "7a000000-0000-4000-8000-000000000001", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimit": 10, "podReplacementPolicy": "Failed", "podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}, "selector": {"matchLabels": {"job-name": "train"}}, "template": {"metadata": {"labels": {"job-name": "train"}}, "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "registry/train:1"}]}}}, "status": {"active": 1, "ready": 1, "terminating": 1, "startTime": "2026-11-28T11:00:00Z"}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train-0-aaaaa", "namespace": "default", "uid": "7a000000-0000-4000-8000-000000000002", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"job-name": "train"}, "annotations": {"batch.kubernetes.io/job-completion-index": "0"}, "finalizers": ["batch.kubernetes.io/job-tracking"], "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "7a000000-0000-4000-8000-000000000001", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"nodeName": "node-4", "restartPolicy": "Never", "containers": [{"name": "main", "image": "registry/train:1"}]}, "status": {"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}], "containerStatuses": [{"name": "main", "ready": true, "restartCount": 0, "image": "registry/train:1", "imageID": "", "state": {"running": {"startedAt": "2026-11-28T11:00:02Z"}}}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train-1-bbbbb", "namespace": "default", "uid": "7a000000-0000-4000-8000-000000000003", "creationTimestamp": "2026-11-28T11:00:00Z", "deletionTimestamp": "2026-11-28T11:30:30Z", "deletionGracePeriodSeconds": 30, "labels": {"job-name": "train"}, "annotations": {"batch.kubernetes.io/job-completion-index": "1"}, "finalizers": ["batch.kubernetes.io/job-tracking"], "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "7a000000-0000-4000-8000-000000000001", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"nodeName": "node-5", "restartPolicy": "Never", "containers": [{"name": "main", "image": "registry/train:1"}]}, "status": {"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}, {"type": "Ready", "status": "False", "lastTransitionTime": "2026-11-28T11:25:00Z"}]}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-4"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-5"}, "status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status.", "lastTransitionTime": "2026-11-28T11:25:00Z"}]}}
"#,
        )],
        about: ("job", "train"),
        truth: Truth::Cause(
            Code::NodeNotReady,
            "node node-5 is not ready",
            "administrator of node node-5",
        ),
    },
    Story {
        question: 12,
        title: "a pod ends within its grace period, and then gets its replacement",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "render", "namespace": "default", "uid": "7a000000-0000-4000-8000-000000000004", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"completions": 1, "parallelism": 1, "backoffLimit": 6, "podReplacementPolicy": "Failed", "selector": {"matchLabels": {"job-name": "render"}}, "template": {"metadata": {"labels": {"job-name": "render"}}, "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "registry/render:1"}]}}}, "status": {"active": 0, "ready": 0, "terminating": 1, "startTime": "2026-11-28T11:00:00Z"}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "render-ccccc", "namespace": "default", "uid": "7a000000-0000-4000-8000-000000000005", "creationTimestamp": "2026-11-28T11:00:00Z", "deletionTimestamp": "2026-11-28T12:05:00Z", "deletionGracePeriodSeconds": 600, "labels": {"job-name": "render"}, "finalizers": ["batch.kubernetes.io/job-tracking"], "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "render", "uid": "7a000000-0000-4000-8000-000000000004", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"nodeName": "node-4", "restartPolicy": "Never", "containers": [{"name": "main", "image": "registry/render:1"}]}, "status": {"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}]}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-4"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
"#,
        )],
        about: ("job", "render"),
        truth: Truth::Moves(Code::PodEndAwaited),
    },
    Story {
        question: 8,
        title: "a quota demands limits of a container that a policy adds",
        run: Run::Nothing,
        steps: &[
            Step::Patch(
                "namespaces",
                "",
                "default",
                r#"{"metadata":{"labels":{"mesh.example.com/inject":"enabled"}}}"#,
            ),
            Step::Load(
                r#"{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy", "metadata": {"name": "mesh-sidecars"}, "spec": {"failurePolicy": "Fail", "reinvocationPolicy": "Never", "matchConstraints": {"namespaceSelector": {"matchLabels": {"mesh.example.com/inject": "enabled"}}, "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]}, "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: \"add\", path: \"/spec/containers/-\", value: Object.spec.containers{name: \"mesh-proxy\", image: \"registry/mesh:1\"}}]"}}]}}
---
{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": "mesh-sidecars"}, "spec": {"policyName": "mesh-sidecars"}}
---
{"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "invoices", "namespace": "default", "uid": "7a000000-0000-4000-8000-000000000011", "generation": 1, "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "invoices"}}, "template": {"metadata": {"labels": {"app": "invoices"}}, "spec": {"containers": [{"name": "main", "image": "registry/invoices:1", "resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "64Mi"}}}]}}}, "status": {"replicas": 0, "observedGeneration": 1, "conditions": [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "pods \"invoices-7k2x1\" is forbidden: failed quota: compute: must specify limits.memory for: mesh-proxy; requests.cpu for: mesh-proxy", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
"#,
            ),
        ],
        about: ("replicaset", "invoices"),
        truth: Truth::Cause(
            Code::QuotaDemands,
            "container mesh-proxy is not in the pod template, so admission adds it: MutatingAdmissionPolicy mesh-sidecars",
            "operator of MutatingAdmissionPolicy mesh-sidecars",
        ),
    },
    Story {
        question: 8,
        title: "the Deployment behind an admission webhook has no replicas",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "policies"}, "webhooks": [{"name": "validate.policies.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail", "clientConfig": {"service": {"namespace": "default", "name": "policies", "path": "/validate"}}, "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]}]}
---
{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "policies", "namespace": "default", "uid": "7a000000-0000-4000-8000-000000000021"}, "spec": {"clusterIP": "10.96.0.7", "ports": [{"port": 443}], "selector": {"app": "policies"}}}
---
{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "policies", "namespace": "default", "uid": "7a000000-0000-4000-8000-000000000022", "generation": 1}, "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "policies"}}, "template": {"metadata": {"labels": {"app": "policies"}}, "spec": {"containers": [{"name": "main", "image": "registry/policies:1"}]}}}, "status": {"observedGeneration": 1}}
---
{"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "shop", "namespace": "default", "uid": "7a000000-0000-4000-8000-000000000023", "generation": 1, "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "shop"}}, "template": {"metadata": {"labels": {"app": "shop"}}, "spec": {"containers": [{"name": "main", "image": "registry/shop:1"}]}}}, "status": {"replicas": 0, "observedGeneration": 1, "conditions": [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "Internal error occurred: failed calling webhook \"validate.policies.example.com\": failed to call webhook: Post \"https://policies.default.svc:443/validate?timeout=10s\": no endpoints available for service \"policies\"", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
"#,
        )],
        about: ("replicaset", "shop"),
        truth: Truth::Cause(
            Code::NoReplicas,
            "Deployment policies makes such pods, and has 0 replicas",
            "owner of Deployment default/policies",
        ),
    },
    Story {
        question: 13,
        title: "the file system of an enlarged volume waits for a pod of a Deployment without replicas",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "uploads", "namespace": "default", "uid": "7a000000-0000-4000-8000-000000000031", "annotations": {"volume.kubernetes.io/storage-provisioner": "ssd.csi.example.com"}}, "spec": {"storageClassName": "ssd", "volumeName": "pv-1", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "50Gi"}}}, "status": {"phase": "Bound", "capacity": {"storage": "20Gi"}, "allocatedResources": {"storage": "50Gi"}, "allocatedResourceStatuses": {"storage": "NodeResizePending"}, "conditions": [{"type": "FileSystemResizePending", "status": "True", "message": "Waiting for user to (re-)start a pod to finish file system resize of volume on node.", "lastTransitionTime": "2026-11-28T11:30:00Z"}]}}
---
{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "gallery", "namespace": "default", "uid": "7a000000-0000-4000-8000-000000000032", "generation": 2}, "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "gallery"}}, "template": {"metadata": {"labels": {"app": "gallery"}}, "spec": {"containers": [{"name": "main", "image": "registry/gallery:1"}], "volumes": [{"name": "uploads", "persistentVolumeClaim": {"claimName": "uploads"}}]}}}, "status": {"observedGeneration": 2}}
"#,
        )],
        about: ("pvc", "uploads"),
        truth: Truth::Cause(
            Code::ClaimUnused,
            "no pod uses the claim; Deployment gallery mounts it, and has 0 replicas",
            "owner of Deployment default/gallery",
        ),
    },
    Story {
        question: 13,
        title: "a kubelet enlarges the file system of a mounted volume",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "cache", "namespace": "default", "uid": "7a000000-0000-4000-8000-000000000041"}, "spec": {"storageClassName": "ssd", "volumeName": "pv-2", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "50Gi"}}}, "status": {"phase": "Bound", "capacity": {"storage": "20Gi"}, "conditions": [{"type": "FileSystemResizePending", "status": "True", "message": "Waiting for user to (re-)start a pod to finish file system resize of volume on node.", "lastTransitionTime": "2026-11-28T11:59:30Z"}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "cache-0", "namespace": "default", "uid": "7a000000-0000-4000-8000-000000000042", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "registry/cache:1"}], "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "cache"}}]}, "status": {"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}], "containerStatuses": [{"name": "main", "ready": true, "restartCount": 0, "image": "registry/cache:1", "imageID": "", "state": {"running": {"startedAt": "2026-11-28T11:00:02Z"}}}]}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
"#,
        )],
        about: ("pvc", "cache"),
        truth: Truth::Moves(Code::SyncQueued),
    },
    Story {
        question: 10,
        title: "the Deployment behind the conversion webhook of a left type has no replicas",
        run: Run::Nothing,
        steps: &[
            Step::Apply(
                r#"apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: backends.gateway.example.com}
spec:
  group: gateway.example.com
  scope: Namespaced
  names: {plural: backends, singular: backend, kind: Backend, listKind: BackendList}
  conversion:
    strategy: Webhook
    webhook:
      conversionReviewVersions: [v1]
      clientConfig: {service: {namespace: gateway, name: converter, path: /convert}}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
"#,
            ),
            Step::Wait(5),
            Step::Load(
                r#"{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "preview", "uid": "7a000000-0000-4000-8000-000000000051", "deletionTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Terminating", "conditions": [{"type": "NamespaceDeletionContentFailure", "status": "True", "reason": "ContentDeletionFailed", "message": "Failed to delete all resource types, 1 remaining: conversion webhook for gateway.example.com/v1alpha1, Kind=Backend failed: Post \"https://converter.gateway.svc:443/convert?timeout=30s\": no endpoints available for service \"converter\"", "lastTransitionTime": "2026-11-28T11:00:10Z"}]}}
---
{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "converter", "namespace": "gateway", "uid": "7a000000-0000-4000-8000-000000000052"}, "spec": {"clusterIP": "10.96.0.8", "ports": [{"port": 443}], "selector": {"app": "converter"}}}
---
{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "converter", "namespace": "gateway", "uid": "7a000000-0000-4000-8000-000000000053", "generation": 1}, "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "converter"}}, "template": {"metadata": {"labels": {"app": "converter"}}, "spec": {"containers": [{"name": "main", "image": "registry/converter:1"}]}}}, "status": {"observedGeneration": 1}}
"#,
            ),
        ],
        about: ("namespace", "preview"),
        truth: Truth::Cause(
            Code::NoReplicas,
            "Deployment converter makes such pods, and has 0 replicas",
            "owner of Deployment gateway/converter",
        ),
    },
    Story {
        question: 5,
        title: "a snapshot that is not taken holds the claim of the next pod",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: volumesnapshots.snapshot.storage.k8s.io, annotations: {api-approved.kubernetes.io: "https://github.com/kubernetes-csi/external-snapshotter/pull/814"}}
spec:
  group: snapshot.storage.k8s.io
  scope: Namespaced
  names: {plural: volumesnapshots, singular: volumesnapshot, kind: VolumeSnapshot, listKind: VolumeSnapshotList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: orders}
spec:
  replicas: 1
  serviceName: orders
  selector: {matchLabels: {app: orders}}
  template:
    metadata: {labels: {app: orders}}
    spec: {containers: [{name: main, image: registry/postgres:17}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], storageClassName: ssd, resources: {requests: {storage: 1Gi}}}
"#,
            ),
            Step::Wait(5),
            Step::Apply(
                r#"apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshot
metadata: {name: before-resync}
spec: {source: {persistentVolumeClaimName: data-orders-0}}
"#,
            ),
            Step::Patch(
                "persistentvolumeclaims",
                "default",
                "data-orders-0",
                r#"{"metadata":{"finalizers":["snapshot.storage.kubernetes.io/pvc-as-source-protection"]}}"#,
            ),
            Step::Delete("persistentvolumeclaims", "default", "data-orders-0"),
            Step::Delete("pods", "default", "orders-0"),
        ],
        about: ("statefulset", "orders"),
        truth: Truth::Cause(
            Code::ForeignFinalizer,
            "VolumeSnapshot default/before-resync takes its data from the claim",
            "owner of VolumeSnapshot default/before-resync",
        ),
    },
    Story {
        question: 9,
        title: "another pod takes the memory of the node of a daemon pod",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"apiVersion: v1
kind: Pod
metadata: {name: buffer}
spec:
  nodeName: node-1
  containers: [{name: main, image: registry/buffer:1, resources: {requests: {memory: 254Gi}}}]
"#,
            ),
            Step::Wait(10),
            Step::Apply(
                r#"apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: main, image: registry/agent:2, resources: {requests: {memory: 3584Mi}}}]}
"#,
            ),
        ],
        about: ("daemonset", "agent"),
        truth: Truth::Cause(
            Code::PodUnscheduled,
            "its only node node-1 has 256Gi memory, and its pods request 254Gi: 254Gi of pod default/buffer",
            "administrator of node node-1",
        ),
    },
    Story {
        question: 16,
        title: "the signer of kubelets refuses a request of another program",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "webhook-tls", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"request": "eA==", "signerName": "kubernetes.io/kubelet-serving", "username": "admin", "usages": ["digital signature", "server auth"]}, "status": {"conditions": [{"type": "Approved", "status": "True", "reason": "KubectlApprove", "message": "This CSR was approved by kubectl certificate approve.", "lastUpdateTime": "2026-11-28T11:01:00Z"}, {"type": "Failed", "status": "True", "reason": "SignerValidationFailure", "message": "subject organization is not system:nodes", "lastUpdateTime": "2026-11-28T11:01:01Z"}]}}
"#,
        )],
        about: ("csr", "webhook-tls"),
        truth: Truth::Cause(
            Code::SignerRefused,
            "this signer signs only serving certificates of kubelets",
            "a new one for another signer",
        ),
    },
];
