//! The states of a ninth blind test in which `why` named no cause, half of it, or the wrong one to act, and
//! states near them.

use steersman_why::Code;

use crate::{Run, Step, Story, Truth};

pub(super) const STORIES: &[Story] = &[
    Story {
        question: 1,
        title: "a pod that must not be disrupted keeps a node that is being deleted",
        run: Run::Nothing,
        steps: &[
            Step::Apply(
                r#"apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: nodeclaims.karpenter.sh}
spec:
  group: karpenter.sh
  scope: Cluster
  names: {plural: nodeclaims, singular: nodeclaim, kind: NodeClaim, listKind: NodeClaimList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
"#,
            ),
            Step::Wait(5),
            Step::Load(
                r#"{"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "spot-a1", "uid": "6d1f4c5e-0000-4000-8000-000000000902", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"expireAfter": "24h"}, "status": {"nodeName": "node-3"}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-3", "uid": "6d1f4c5e-0000-4000-8000-000000000901", "creationTimestamp": "2026-11-28T11:00:00Z", "finalizers": ["karpenter.sh/termination"], "deletionTimestamp": "2026-11-28T11:10:00Z", "deletionGracePeriodSeconds": 0, "ownerReferences": [{"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": "spot-a1", "uid": "6d1f4c5e-0000-4000-8000-000000000902", "blockOwnerDeletion": true}]}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "render-x7k2p", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000905", "creationTimestamp": "2026-11-28T11:00:00Z", "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "render", "uid": "6d1f4c5e-0000-4000-8000-000000000903", "controller": true, "blockOwnerDeletion": true}], "annotations": {"karpenter.sh/do-not-disrupt": "true"}}, "spec": {"containers": [{"name": "main", "image": "registry/app:7"}], "nodeName": "node-3"}, "status": {"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": true, "restartCount": 0, "image": "registry/app:7", "imageID": "", "state": {"running": {"startedAt": "2026-11-28T11:00:00Z"}}}], "startTime": "2026-11-28T11:00:00Z"}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "agent-1", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000906", "creationTimestamp": "2026-11-28T11:00:00Z", "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "6d1f4c5e-0000-4000-8000-000000000904", "controller": true, "blockOwnerDeletion": true}], "annotations": {"karpenter.sh/do-not-disrupt": "true"}}, "spec": {"containers": [{"name": "main", "image": "registry/app:7"}], "nodeName": "node-3"}, "status": {"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": true, "restartCount": 0, "image": "registry/app:7", "imageID": "", "state": {"running": {"startedAt": "2026-11-28T11:00:00Z"}}}], "startTime": "2026-11-28T11:00:00Z"}}
"#,
            ),
        ],
        about: ("node", "node-3"),
        truth: Truth::Cause(
            Code::DrainHeld,
            "the drain waits for pod default/render-x7k2p of job default/render: its annotation karpenter.sh/do-not-disrupt is true",
            "owner of job default/render",
        ),
    },
    Story {
        question: 2,
        title: "the container of the metric has another name in the pods",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "encoder", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000909", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "encoder"}, "minReplicas": 1, "maxReplicas": 9, "metrics": [{"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "encode", "target": {"type": "Utilization", "averageUtilization": 70}}}]}, "status": {"currentReplicas": 1, "desiredReplicas": 1, "conditions": [{"type": "AbleToScale", "status": "True", "reason": "SucceededGetScale", "message": "the HPA controller was able to get the target's current scale"}, {"type": "ScalingActive", "status": "False", "reason": "FailedGetContainerResourceMetric", "message": "the HPA was unable to compute the replica count: failed to get cpu utilization: did not receive metrics for targeted pods (pods might be unready)", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
---
{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "encoder", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000910", "creationTimestamp": "2026-11-28T11:00:00Z", "generation": 1}, "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "encoder"}}, "template": {"metadata": {"labels": {"app": "encoder"}}, "spec": {"containers": [{"name": "main", "image": "registry/app:7"}]}}}, "status": {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "encoder-1", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000911", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "encoder"}}, "spec": {"containers": [{"name": "main", "image": "registry/app:7"}, {"name": "mesh", "image": "registry/app:7"}], "nodeName": "node-1"}, "status": {"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": true, "restartCount": 0, "image": "registry/app:7", "imageID": "", "state": {"running": {"startedAt": "2026-11-28T11:00:00Z"}}}, {"name": "mesh", "ready": true, "restartCount": 0, "image": "registry/app:7", "imageID": "", "state": {"running": {"startedAt": "2026-11-28T11:00:00Z"}}}], "startTime": "2026-11-28T11:00:00Z"}}
"#,
        )],
        about: ("hpa", "encoder"),
        truth: Truth::Cause(
            Code::MetricsFailed,
            "has the container \"encode\" of the metric cpu (ContainerResource); the containers are main, mesh",
            "spec.metrics[0].containerResource.container",
        ),
    },
    Story {
        question: 2,
        title: "the container of the metric is one that admission adds to the pods",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "upload", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000912", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "upload"}, "minReplicas": 1, "maxReplicas": 9, "metrics": [{"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "mesh", "target": {"type": "Utilization", "averageUtilization": 70}}}]}, "status": {"currentReplicas": 1, "desiredReplicas": 1, "conditions": [{"type": "AbleToScale", "status": "True", "reason": "SucceededGetScale", "message": "the HPA controller was able to get the target's current scale"}, {"type": "ScalingActive", "status": "True", "reason": "ValidMetricFound", "message": "the HPA was able to successfully calculate a replica count from cpu container resource utilization (percentage of request)", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
---
{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "upload", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000913", "creationTimestamp": "2026-11-28T11:00:00Z", "generation": 1}, "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "upload"}}, "template": {"metadata": {"labels": {"app": "upload"}}, "spec": {"containers": [{"name": "main", "image": "registry/app:7"}]}}}, "status": {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "upload-1", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000914", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "upload"}}, "spec": {"containers": [{"name": "main", "image": "registry/app:7"}, {"name": "mesh", "image": "registry/app:7"}], "nodeName": "node-1"}, "status": {"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": true, "restartCount": 0, "image": "registry/app:7", "imageID": "", "state": {"running": {"startedAt": "2026-11-28T11:00:00Z"}}}, {"name": "mesh", "ready": true, "restartCount": 0, "image": "registry/app:7", "imageID": "", "state": {"running": {"startedAt": "2026-11-28T11:00:00Z"}}}], "startTime": "2026-11-28T11:00:00Z"}}
"#,
        )],
        about: ("hpa", "upload"),
        truth: Truth::Moves(Code::WithinTolerance),
    },
    Story {
        question: 3,
        title: "the old pod keeps a claim for one pod, and stays until the new one is available",
        run: Run::All,
        steps: &[
            Step::Load(
                r#"{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pages-1", "uid": "6d1f4c5e-0000-4000-8000-000000000916", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOncePod"], "persistentVolumeReclaimPolicy": "Retain", "storageClassName": "manual", "volumeMode": "Filesystem", "hostPath": {"path": "/data"}, "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": "pages", "uid": "6d1f4c5e-0000-4000-8000-000000000915"}}, "status": {"phase": "Bound"}}
---
{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "pages", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000915", "creationTimestamp": "2026-11-28T11:00:00Z", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"accessModes": ["ReadWriteOncePod"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "manual", "volumeName": "pages-1", "volumeMode": "Filesystem"}, "status": {"phase": "Bound", "accessModes": ["ReadWriteOncePod"], "capacity": {"storage": "1Gi"}}}
"#,
            ),
            Step::Apply(
                r#"apiVersion: apps/v1
kind: Deployment
metadata: {name: wiki}
spec:
  replicas: 1
  selector: {matchLabels: {app: wiki}}
  template:
    metadata: {labels: {app: wiki}}
    spec:
      containers: [{name: main, image: registry/wiki:1}]
      volumes: [{name: pages, persistentVolumeClaim: {claimName: pages}}]
"#,
            ),
            Step::Wait(30),
            Step::Patch(
                "deployments",
                "default",
                "wiki",
                r#"{"spec":{"template":{"metadata":{"annotations":{"version":"2"}}}}}"#,
            ),
        ],
        about: ("deployment", "wiki"),
        truth: Truth::Cause(
            Code::RolloutDeadlock,
            "the new pod waits for claim pages (ReadWriteOncePod), which pod wiki-",
            "strategy Recreate",
        ),
    },
    Story {
        question: 3,
        title: "the old pod gives its claim for one pod to the new one",
        run: Run::All,
        steps: &[
            Step::Load(
                r#"{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pages-1", "uid": "6d1f4c5e-0000-4000-8000-000000000918", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOncePod"], "persistentVolumeReclaimPolicy": "Retain", "storageClassName": "manual", "volumeMode": "Filesystem", "hostPath": {"path": "/data"}, "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": "pages", "uid": "6d1f4c5e-0000-4000-8000-000000000917"}}, "status": {"phase": "Bound"}}
---
{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "pages", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000917", "creationTimestamp": "2026-11-28T11:00:00Z", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"accessModes": ["ReadWriteOncePod"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "manual", "volumeName": "pages-1", "volumeMode": "Filesystem"}, "status": {"phase": "Bound", "accessModes": ["ReadWriteOncePod"], "capacity": {"storage": "1Gi"}}}
"#,
            ),
            Step::Apply(
                r#"apiVersion: apps/v1
kind: Deployment
metadata: {name: wiki}
spec:
  replicas: 1
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 1}}
  selector: {matchLabels: {app: wiki}}
  template:
    metadata: {labels: {app: wiki}}
    spec:
      containers: [{name: main, image: registry/wiki:1}]
      volumes: [{name: pages, persistentVolumeClaim: {claimName: pages}}]
"#,
            ),
            Step::Wait(30),
            Step::Patch(
                "deployments",
                "default",
                "wiki",
                r#"{"spec":{"template":{"metadata":{"annotations":{"version":"2"}}}}}"#,
            ),
        ],
        about: ("deployment", "wiki"),
        truth: Truth::Fine,
    },
    Story {
        question: 7,
        title: "the old pod keeps the volume on its node, and stays until the new one is available",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "git", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000920", "creationTimestamp": "2026-11-28T11:00:00Z", "generation": 2}, "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "git"}}, "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}, "template": {"metadata": {"labels": {"app": "git"}}, "spec": {"containers": [{"name": "main", "image": "registry/git:2"}], "volumes": [{"name": "r", "persistentVolumeClaim": {"claimName": "repos"}}]}}}, "status": {"observedGeneration": 2, "replicas": 2, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1, "unavailableReplicas": 1}}
---
{"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "git-77a", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000921", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "git", "pod-template-hash": "77a"}, "generation": 1, "annotations": {"deployment.kubernetes.io/revision": "1", "deployment.kubernetes.io/desired-replicas": "1", "deployment.kubernetes.io/max-replicas": "2"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "git", "uid": "6d1f4c5e-0000-4000-8000-000000000920", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "git", "pod-template-hash": "77a"}}, "template": {"metadata": {"labels": {"app": "git", "pod-template-hash": "77a"}}, "spec": {"containers": [{"name": "main", "image": "registry/git:1"}], "volumes": [{"name": "r", "persistentVolumeClaim": {"claimName": "repos"}}]}}}, "status": {"replicas": 1, "fullyLabeledReplicas": 1, "readyReplicas": 1, "availableReplicas": 1, "observedGeneration": 1}}
---
{"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "git-88b", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000922", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "git", "pod-template-hash": "88b"}, "generation": 1, "annotations": {"deployment.kubernetes.io/revision": "2", "deployment.kubernetes.io/desired-replicas": "1", "deployment.kubernetes.io/max-replicas": "2"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "git", "uid": "6d1f4c5e-0000-4000-8000-000000000920", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "git", "pod-template-hash": "88b"}}, "template": {"metadata": {"labels": {"app": "git", "pod-template-hash": "88b"}}, "spec": {"containers": [{"name": "main", "image": "registry/git:2"}], "volumes": [{"name": "r", "persistentVolumeClaim": {"claimName": "repos"}}]}}}, "status": {"replicas": 1, "fullyLabeledReplicas": 1, "readyReplicas": 0, "availableReplicas": 0, "observedGeneration": 1}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "git-77a-aaaaa", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000923", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "git", "pod-template-hash": "77a"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "git-77a", "uid": "6d1f4c5e-0000-4000-8000-000000000921", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"containers": [{"name": "main", "image": "registry/app:7"}], "nodeName": "node-1", "volumes": [{"name": "r", "persistentVolumeClaim": {"claimName": "repos"}}]}, "status": {"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": true, "restartCount": 0, "image": "registry/app:7", "imageID": "", "state": {"running": {"startedAt": "2026-11-28T11:00:00Z"}}}], "startTime": "2026-11-28T11:00:00Z"}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "git-88b-bbbbb", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000924", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "git", "pod-template-hash": "88b"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "git-88b", "uid": "6d1f4c5e-0000-4000-8000-000000000922", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"containers": [{"name": "main", "image": "registry/app:7"}], "nodeName": "node-2", "volumes": [{"name": "r", "persistentVolumeClaim": {"claimName": "repos"}}]}, "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": false, "restartCount": 0, "image": "registry/git:2", "imageID": "", "state": {"waiting": {"reason": "ContainerCreating"}}}], "startTime": "2026-11-28T11:00:00Z"}}
---
{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "repos", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000919", "creationTimestamp": "2026-11-28T11:00:00Z", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "manual", "volumeName": "pv-repos", "volumeMode": "Filesystem"}, "status": {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}}
---
{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "git-88b-bbbbb.924", "namespace": "default"}, "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "git-88b-bbbbb", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000924"}, "type": "Warning", "reason": "FailedAttachVolume", "message": "Multi-Attach error for volume \"pv-repos\" Volume is already used by pod(s) git-77a-aaaaa", "source": {"component": "attachdetach-controller"}, "firstTimestamp": "2026-11-28T11:00:00Z", "lastTimestamp": "2026-11-28T11:59:00Z", "count": 20}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "labels": {"kubernetes.io/hostname": "node-1"}}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-2", "labels": {"kubernetes.io/hostname": "node-2"}}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
"#,
        )],
        about: ("deployment", "git"),
        truth: Truth::Cause(
            Code::RolloutDeadlock,
            "claim repos (ReadWriteOnce), which pod git-77a-aaaaa of the old ReplicaSet git-77a uses",
            "strategy Recreate",
        ),
    },
    Story {
        question: 13,
        title: "two workloads want one claim for one pod",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "import-0", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000927", "creationTimestamp": "2026-11-28T11:00:00Z", "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "import", "uid": "6d1f4c5e-0000-4000-8000-000000000926", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"containers": [{"name": "main", "image": "registry/app:7"}], "nodeName": "node-1", "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "ledger"}}]}, "status": {"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": true, "restartCount": 0, "image": "registry/app:7", "imageID": "", "state": {"running": {"startedAt": "2026-11-28T11:00:00Z"}}}], "startTime": "2026-11-28T11:00:00Z"}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "report", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000929", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "report"}}, "spec": {"containers": [{"name": "main", "image": "registry/app:7"}], "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "ledger"}}]}, "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available: 1 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod.", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
---
{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "ledger", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000925", "creationTimestamp": "2026-11-28T11:00:00Z", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"accessModes": ["ReadWriteOncePod"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "manual", "volumeName": "pv-ledger", "volumeMode": "Filesystem"}, "status": {"phase": "Bound", "accessModes": ["ReadWriteOncePod"], "capacity": {"storage": "1Gi"}}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "labels": {"kubernetes.io/hostname": "node-1"}}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
"#,
        )],
        about: ("pod", "report"),
        truth: Truth::Cause(
            Code::ClaimTaken,
            "claim ledger has the access mode ReadWriteOncePod, which one pod may use, and pod import-0 of statefulset default/import on node-1 uses it",
            "owner of statefulset default/import",
        ),
    },
    Story {
        question: 4,
        title: "each run takes longer than the interval, and the next one replaces it",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"apiVersion: batch/v1
kind: CronJob
metadata: {name: invoices}
spec:
  schedule: "*/1 * * * *"
  concurrencyPolicy: Replace
  successfulJobsHistoryLimit: 1
  jobTemplate:
    spec:
      template:
        metadata: {annotations: {simulate.steersman.dev/run-time: 3m}}
        spec:
          restartPolicy: Never
          containers: [{name: main, image: registry/task:1}]
"#,
            ),
            Step::Wait(300),
        ],
        about: ("cronjob", "invoices"),
        truth: Truth::Cause(
            Code::RunsReplaced,
            "the next run replaces it: job invoices-",
            "concurrencyPolicy Forbid",
        ),
    },
    Story {
        question: 4,
        title: "the policy is Replace, and each run ends before the next one",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"apiVersion: batch/v1
kind: CronJob
metadata: {name: thumbnails}
spec:
  schedule: "*/1 * * * *"
  concurrencyPolicy: Replace
  successfulJobsHistoryLimit: 1
  jobTemplate:
    spec:
      template:
        metadata: {annotations: {simulate.steersman.dev/run-time: 20s}}
        spec:
          restartPolicy: Never
          containers: [{name: main, image: registry/task:1}]
"#,
            ),
            Step::Wait(400),
        ],
        about: ("cronjob", "thumbnails"),
        truth: Truth::Moves(Code::NextRun),
    },
    Story {
        question: 5,
        title: "no scheduler of the name in the pod template runs",
        run: Run::All,
        steps: &[Step::Apply(
            r#"apiVersion: apps/v1
kind: StatefulSet
metadata: {name: search}
spec:
  replicas: 2
  serviceName: search
  selector: {matchLabels: {app: search}}
  template:
    metadata: {labels: {app: search}}
    spec: {schedulerName: volcano, containers: [{name: main, image: registry/search:1}]}
"#,
        )],
        about: ("statefulset", "search"),
        truth: Truth::Cause(
            Code::PodUnscheduled,
            "no scheduler has looked at the pod; it asks for \"volcano\"",
            "schedulerName",
        ),
    },
    Story {
        question: 9,
        title: "the node of a daemon pod runs as many pods as it takes",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "probe", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000930", "creationTimestamp": "2026-11-28T11:00:00Z", "generation": 1}, "spec": {"selector": {"matchLabels": {"app": "probe"}}, "template": {"metadata": {"labels": {"app": "probe"}}, "spec": {"containers": [{"name": "main", "image": "registry/probe:1"}]}}}, "status": {"observedGeneration": 1, "desiredNumberScheduled": 1, "currentNumberScheduled": 1, "updatedNumberScheduled": 1, "numberUnavailable": 1, "numberReady": 0, "numberMisscheduled": 0}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe-1", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000931", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "probe"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "probe", "uid": "6d1f4c5e-0000-4000-8000-000000000930", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"containers": [{"name": "main", "image": "registry/app:7"}], "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}]}}}}, "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available: 1 Too many pods. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "resize-0", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000933", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"pod-template-hash": "9d"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "resize-9d", "uid": "6d1f4c5e-0000-4000-8000-000000000932", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"containers": [{"name": "main", "image": "registry/app:7"}], "nodeName": "node-1"}, "status": {"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": true, "restartCount": 0, "image": "registry/app:7", "imageID": "", "state": {"running": {"startedAt": "2026-11-28T11:00:00Z"}}}], "startTime": "2026-11-28T11:00:00Z"}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "resize-1", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000935", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"pod-template-hash": "9d"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "resize-9d", "uid": "6d1f4c5e-0000-4000-8000-000000000934", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"containers": [{"name": "main", "image": "registry/app:7"}], "nodeName": "node-1"}, "status": {"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": true, "restartCount": 0, "image": "registry/app:7", "imageID": "", "state": {"running": {"startedAt": "2026-11-28T11:00:00Z"}}}], "startTime": "2026-11-28T11:00:00Z"}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "queue-0", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000937", "creationTimestamp": "2026-11-28T11:00:00Z", "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "queue", "uid": "6d1f4c5e-0000-4000-8000-000000000936", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"containers": [{"name": "main", "image": "registry/app:7"}], "nodeName": "node-1"}, "status": {"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": true, "restartCount": 0, "image": "registry/app:7", "imageID": "", "state": {"running": {"startedAt": "2026-11-28T11:00:00Z"}}}], "startTime": "2026-11-28T11:00:00Z"}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "labels": {"kubernetes.io/hostname": "node-1"}}, "status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "2", "memory": "2Gi", "pods": "3"}}}
"#,
        )],
        about: ("daemonset", "probe"),
        truth: Truth::Cause(
            Code::PodUnscheduled,
            "its only node node-1 takes 3 pods, and runs 3: 2 of deployment default/resize, 1 of statefulset default/queue",
            "owner of daemonset default/probe (priorityClassName), administrator of node node-1 (max pods)",
        ),
    },
    Story {
        question: 11,
        title: "no grant lets a route use a Service of another namespace",
        run: Run::Nothing,
        steps: &[
            Step::Apply(
                r#"apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: httproutes.gateway.networking.k8s.io, annotations: {api-approved.kubernetes.io: "https://github.com/kubernetes-sigs/gateway-api/pull/2455"}}
spec:
  group: gateway.networking.k8s.io
  scope: Namespaced
  names: {plural: httproutes, singular: httproute, kind: HTTPRoute, listKind: HTTPRouteList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: referencegrants.gateway.networking.k8s.io, annotations: {api-approved.kubernetes.io: "https://github.com/kubernetes-sigs/gateway-api/pull/2455"}}
spec:
  group: gateway.networking.k8s.io
  scope: Namespaced
  names: {plural: referencegrants, singular: referencegrant, kind: ReferenceGrant, listKind: ReferenceGrantList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
"#,
            ),
            Step::Wait(5),
            Step::Load(
                r#"{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": "login", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000938", "creationTimestamp": "2026-11-28T11:00:00Z", "generation": 1}, "spec": {"parentRefs": [{"name": "edge", "namespace": "gateways"}], "rules": [{"backendRefs": [{"name": "accounts", "namespace": "bank", "port": 80}]}]}, "status": {"parents": [{"controllerName": "example.com/gateway", "parentRef": {"name": "edge", "namespace": "gateways"}, "conditions": [{"type": "Accepted", "status": "True", "reason": "Accepted", "message": "Route is accepted", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "ResolvedRefs", "status": "False", "reason": "RefNotPermitted", "message": "a backend reference is not permitted by any ReferenceGrant.", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}]}}
---
{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "ReferenceGrant", "metadata": {"name": "routes", "namespace": "bank", "uid": "6d1f4c5e-0000-4000-8000-000000000939", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"from": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "partners"}], "to": [{"group": "", "kind": "Service"}]}}
"#,
            ),
        ],
        about: ("httproute", "login"),
        truth: Truth::Cause(
            Code::ConditionBad,
            "ResolvedRefs is False (RefNotPermitted) for Gateway gateways/edge: a backend reference is not permitted by any ReferenceGrant; no ReferenceGrant in bank allows HTTPRoute of default to use Service accounts (routes allows HTTPRoute of partners)",
            "owner of namespace bank",
        ),
    },
    Story {
        question: 11,
        title: "a route works, and has a condition of unknown meaning",
        run: Run::Nothing,
        steps: &[
            Step::Apply(
                r#"apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: httproutes.gateway.networking.k8s.io, annotations: {api-approved.kubernetes.io: "https://github.com/kubernetes-sigs/gateway-api/pull/2455"}}
spec:
  group: gateway.networking.k8s.io
  scope: Namespaced
  names: {plural: httproutes, singular: httproute, kind: HTTPRoute, listKind: HTTPRouteList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: referencegrants.gateway.networking.k8s.io, annotations: {api-approved.kubernetes.io: "https://github.com/kubernetes-sigs/gateway-api/pull/2455"}}
spec:
  group: gateway.networking.k8s.io
  scope: Namespaced
  names: {plural: referencegrants, singular: referencegrant, kind: ReferenceGrant, listKind: ReferenceGrantList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
"#,
            ),
            Step::Wait(5),
            Step::Load(
                r#"{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": "login", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000940", "creationTimestamp": "2026-11-28T11:00:00Z", "generation": 1}, "spec": {"parentRefs": [{"name": "edge", "namespace": "gateways"}], "rules": [{"backendRefs": [{"name": "accounts", "namespace": "bank", "port": 80}]}]}, "status": {"parents": [{"controllerName": "example.com/gateway", "parentRef": {"name": "edge", "namespace": "gateways"}, "conditions": [{"type": "Accepted", "status": "True", "reason": "Accepted", "message": "Route is accepted", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "ResolvedRefs", "status": "True", "reason": "ResolvedRefs", "message": "", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "example.com/Mirrored", "status": "False", "reason": "Off", "message": "mirroring is off", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}]}}
---
{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "ReferenceGrant", "metadata": {"name": "routes", "namespace": "bank", "uid": "6d1f4c5e-0000-4000-8000-000000000941", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"from": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "default"}], "to": [{"group": "", "kind": "Service"}]}}
"#,
            ),
        ],
        about: ("httproute", "login"),
        truth: Truth::Moves(Code::ConditionOpen),
    },
    Story {
        question: 3,
        title: "the issuer of the certificate that a pod mounts does not exist",
        run: Run::Nothing,
        steps: &[
            Step::Apply(
                r#"apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: certificates.cert-manager.io}
spec:
  group: cert-manager.io
  scope: Namespaced
  names: {plural: certificates, singular: certificate, kind: Certificate, listKind: CertificateList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: certificaterequests.cert-manager.io}
spec:
  group: cert-manager.io
  scope: Namespaced
  names: {plural: certificaterequests, singular: certificaterequest, kind: CertificateRequest, listKind: CertificateRequestList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: issuers.cert-manager.io}
spec:
  group: cert-manager.io
  scope: Namespaced
  names: {plural: issuers, singular: issuer, kind: Issuer, listKind: IssuerList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
"#,
            ),
            Step::Wait(5),
            Step::Load(
                r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "ingress", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000943", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"containers": [{"name": "main", "image": "registry/app:7"}], "nodeName": "node-1", "volumes": [{"name": "tls", "secret": {"secretName": "ingress-tls"}}]}, "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": false, "restartCount": 0, "image": "registry/app:7", "imageID": "", "state": {"waiting": {"reason": "ContainerCreating"}}}], "startTime": "2026-11-28T11:00:00Z"}}
---
{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "ingress.943", "namespace": "default"}, "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "ingress", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000943"}, "type": "Warning", "reason": "FailedMount", "message": "MountVolume.SetUp failed for volume \"tls\" : secret \"ingress-tls\" not found", "source": {"component": "kubelet"}, "firstTimestamp": "2026-11-28T11:00:00Z", "lastTimestamp": "2026-11-28T11:59:00Z", "count": 20}
---
{"apiVersion": "cert-manager.io/v1", "kind": "Certificate", "metadata": {"name": "ingress-cert", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000942", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"secretName": "ingress-tls", "issuerRef": {"name": "internal-ca", "kind": "Issuer"}}, "status": {"conditions": [{"type": "Issuing", "status": "True", "reason": "DoesNotExist", "message": "Issuing certificate as Secret does not exist", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "Ready", "status": "False", "reason": "DoesNotExist", "message": "Issuing certificate as Secret does not exist", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
---
{"apiVersion": "cert-manager.io/v1", "kind": "CertificateRequest", "metadata": {"name": "ingress-cert-1", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000944", "creationTimestamp": "2026-11-28T11:00:00Z", "ownerReferences": [{"apiVersion": "cert-manager.io/v1", "kind": "Certificate", "name": "ingress-cert", "uid": "6d1f4c5e-0000-4000-8000-000000000942", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"issuerRef": {"name": "internal-ca", "kind": "Issuer"}}, "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Pending", "message": "Referenced \"Issuer\" not found: issuer.cert-manager.io \"internal-ca\" not found", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
---
{"apiVersion": "cert-manager.io/v1", "kind": "Issuer", "metadata": {"name": "internal", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000945", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"selfSigned": {}}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Signing", "message": "", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "labels": {"kubernetes.io/hostname": "node-1"}}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
"#,
            ),
        ],
        about: ("pod", "ingress"),
        truth: Truth::Cause(
            Code::ConditionBad,
            "issuer.cert-manager.io \"internal-ca\" not found; Issuer internal-ca does not exist (there is internal)",
            "owner of certificate default/ingress-cert (spec.issuerRef), or creator of Issuer internal-ca",
        ),
    },
    Story {
        question: 3,
        title: "the store of the secret that a pod mounts refuses the login",
        run: Run::Nothing,
        steps: &[
            Step::Apply(
                r#"apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: externalsecrets.external-secrets.io}
spec:
  group: external-secrets.io
  scope: Namespaced
  names: {plural: externalsecrets, singular: externalsecret, kind: ExternalSecret, listKind: ExternalSecretList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: secretstores.external-secrets.io}
spec:
  group: external-secrets.io
  scope: Namespaced
  names: {plural: secretstores, singular: secretstore, kind: SecretStore, listKind: SecretStoreList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
"#,
            ),
            Step::Wait(5),
            Step::Load(
                r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "mailer", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000946", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"containers": [{"name": "main", "image": "registry/app:7"}], "nodeName": "node-1", "volumes": [{"name": "smtp", "secret": {"secretName": "smtp"}}]}, "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": false, "restartCount": 0, "image": "registry/app:7", "imageID": "", "state": {"waiting": {"reason": "ContainerCreating"}}}], "startTime": "2026-11-28T11:00:00Z"}}
---
{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "mailer.946", "namespace": "default"}, "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "mailer", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000946"}, "type": "Warning", "reason": "FailedMount", "message": "MountVolume.SetUp failed for volume \"smtp\" : secret \"smtp\" not found", "source": {"component": "kubelet"}, "firstTimestamp": "2026-11-28T11:00:00Z", "lastTimestamp": "2026-11-28T11:59:00Z", "count": 20}
---
{"apiVersion": "external-secrets.io/v1", "kind": "ExternalSecret", "metadata": {"name": "smtp", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000947", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"secretStoreRef": {"name": "vault", "kind": "SecretStore"}}, "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "SecretSyncedError", "message": "could not get secret data from provider", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
---
{"apiVersion": "external-secrets.io/v1", "kind": "SecretStore", "metadata": {"name": "vault", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000948", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "InvalidProviderConfig", "message": "unable to log in to Vault: permission denied", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "labels": {"kubernetes.io/hostname": "node-1"}}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
"#,
            ),
        ],
        about: ("pod", "mailer"),
        truth: Truth::Cause(
            Code::ConditionBad,
            "unable to log in to Vault: permission denied",
            "owner of secretstore default/vault",
        ),
    },
    Story {
        question: 12,
        title: "the priority class of the Job does not exist",
        run: Run::All,
        steps: &[Step::Apply(
            r#"apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: nightly}
value: 100
---
apiVersion: batch/v1
kind: Job
metadata: {name: reindex}
spec:
  template:
    spec:
      priorityClassName: nightly-batch
      restartPolicy: Never
      containers: [{name: main, image: registry/task:1}]
"#,
        )],
        about: ("job", "reindex"),
        truth: Truth::Cause(
            Code::ReferenceMissing,
            "no PriorityClass with name nightly-batch was found",
            "creator of PriorityClass nightly-batch, or owner of the Job",
        ),
    },
    Story {
        question: 8,
        title: "the runtime class of the pod template does not exist",
        run: Run::All,
        steps: &[
            Step::Reject(
                "create",
                "pods",
                403,
                "Forbidden",
                "pods \"sandbox-\" is forbidden: pod rejected: RuntimeClass \"gvisor\" not found",
            ),
            Step::Apply(
                r#"apiVersion: apps/v1
kind: Deployment
metadata: {name: sandbox}
spec:
  replicas: 1
  selector: {matchLabels: {app: sandbox}}
  template:
    metadata: {labels: {app: sandbox}}
    spec: {runtimeClassName: gvisor, containers: [{name: main, image: registry/app:1}]}
"#,
            ),
        ],
        about: ("deployment", "sandbox"),
        truth: Truth::Cause(
            Code::ReferenceMissing,
            "pod rejected: RuntimeClass",
            "creator of RuntimeClass gvisor, or owner of the pod template (runtimeClassName)",
        ),
    },
];
