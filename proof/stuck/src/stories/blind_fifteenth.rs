//! The states of the fifteenth blind test in which `why` did not tell the whole cause, and states in which an answer named
//! a wrong one.

use steersman_why::Code;

use crate::{Run, Step, Story, Truth};

pub(super) const STORIES: &[Story] = &[
    Story {
        question: 3,
        title: "two pods of a ReplicaSet were evicted an hour ago, and a new one starts",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "uid": "6d1f4c5e-0000-4000-8000-000000001502", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-1"}}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
---
{"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "resize", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001501", "creationTimestamp": "2026-11-28T08:00:00Z", "generation": 1}, "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "resize"}}, "template": {"metadata": {"labels": {"app": "resize"}}, "spec": {"containers": [{"name": "main", "image": "registry/app:1"}]}}}, "status": {"replicas": 1, "observedGeneration": 1}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "resize-1", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001503", "creationTimestamp": "2026-11-28T11:08:00Z", "labels": {"app": "resize"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "resize", "uid": "6d1f4c5e-0000-4000-8000-000000001501", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "registry/app:1"}]}, "status": {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory. Threshold quantity: 100Mi, available: 61284Ki. Container main was using 14263508Ki, request is 512Mi, has larger consumption of memory. ", "startTime": "2026-11-28T11:08:00Z", "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet", "message": "The node was low on resource: memory. Threshold quantity: 100Mi, available: 61284Ki. Container main was using 14263508Ki, request is 512Mi, has larger consumption of memory. ", "lastTransitionTime": "2026-11-28T11:08:00Z"}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "resize-2", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001504", "creationTimestamp": "2026-11-28T11:09:00Z", "labels": {"app": "resize"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "resize", "uid": "6d1f4c5e-0000-4000-8000-000000001501", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "registry/app:1"}]}, "status": {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory. Threshold quantity: 100Mi, available: 61284Ki. Container main was using 14263508Ki, request is 512Mi, has larger consumption of memory. ", "startTime": "2026-11-28T11:09:00Z", "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet", "message": "The node was low on resource: memory. Threshold quantity: 100Mi, available: 61284Ki. Container main was using 14263508Ki, request is 512Mi, has larger consumption of memory. ", "lastTransitionTime": "2026-11-28T11:09:00Z"}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "resize-5", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001506", "creationTimestamp": "2026-11-28T12:01:00Z", "labels": {"app": "resize"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "resize", "uid": "6d1f4c5e-0000-4000-8000-000000001501", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "registry/app:1"}]}, "status": {"phase": "Pending", "startTime": "2026-11-28T12:01:00Z", "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-28T12:01:00Z"}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": "2026-11-28T12:01:00Z"}], "containerStatuses": [{"name": "main", "ready": false, "restartCount": 0, "image": "registry/app:1", "imageID": "", "state": {"waiting": {"reason": "ContainerCreating"}}}]}}
"#,
        )],
        about: ("replicaset", "resize"),
        truth: Truth::Moves(Code::PodStarting),
    },
    Story {
        question: 3,
        title: "a pod of a ReplicaSet was evicted an hour ago, and the image of a later one does not exist",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "uid": "6d1f4c5e-0000-4000-8000-000000001508", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-1"}}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
---
{"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "albums", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001507", "creationTimestamp": "2026-11-28T08:00:00Z", "generation": 1}, "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "albums"}}, "template": {"metadata": {"labels": {"app": "albums"}}, "spec": {"containers": [{"name": "main", "image": "registry/app:1"}]}}}, "status": {"replicas": 1, "observedGeneration": 1}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "albums-1", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001509", "creationTimestamp": "2026-11-28T11:05:00Z", "labels": {"app": "albums"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "albums", "uid": "6d1f4c5e-0000-4000-8000-000000001507", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "registry/app:1"}]}, "status": {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory. Threshold quantity: 100Mi, available: 61284Ki. Container main was using 14263508Ki, request is 512Mi, has larger consumption of memory. ", "startTime": "2026-11-28T11:05:00Z", "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet", "message": "The node was low on resource: memory. Threshold quantity: 100Mi, available: 61284Ki. Container main was using 14263508Ki, request is 512Mi, has larger consumption of memory. ", "lastTransitionTime": "2026-11-28T11:05:00Z"}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "albums-4", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001512", "creationTimestamp": "2026-11-28T11:50:00Z", "labels": {"app": "albums"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "albums", "uid": "6d1f4c5e-0000-4000-8000-000000001507", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "registry/app:2x"}]}, "status": {"phase": "Pending", "startTime": "2026-11-28T11:50:00Z", "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-28T11:50:00Z"}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": "2026-11-28T11:50:00Z"}], "containerStatuses": [{"name": "main", "ready": false, "restartCount": 0, "image": "registry/app:2x", "imageID": "", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image \"registry/app:2x\": ErrImagePull: registry/app:2x: not found"}}}]}}
"#,
        )],
        about: ("replicaset", "albums"),
        truth: Truth::Cause(
            Code::ImagePull,
            "registry/app:2x",
            "owner of the pod template, or of the registry",
        ),
    },
    Story {
        question: 3,
        title: "a pod asks for more GPUs than a node has, and a cordoned node has none",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "uid": "6d1f4c5e-0000-4000-8000-000000001513", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-1"}}, "spec": {"unschedulable": true, "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-2", "uid": "6d1f4c5e-0000-4000-8000-000000001514", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-2"}}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110", "nvidia.com/gpu": "1"}}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001515", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"containers": [{"name": "main", "image": "registry/app:1", "resources": {"requests": {"nvidia.com/gpu": "2"}, "limits": {"nvidia.com/gpu": "2"}}}]}, "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) were unschedulable.", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
"#,
        )],
        about: ("pod", "train"),
        truth: Truth::Cause(
            Code::PodUnscheduled,
            "the pod asks for 2 nvidia.com/gpu, and the largest node has 1",
            "owner of the pod template (resources.requests)",
        ),
    },
    Story {
        question: 3,
        title: "the hook of an application of Argo CD gets no pod",
        run: Run::Nothing,
        steps: &[
            Step::Apply(crd!(
                "argoproj.io",
                "Application",
                "applications",
                "Namespaced"
            )),
            Step::Load(
                r#"{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "webshop-db-migrate", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001516", "creationTimestamp": "2026-11-28T11:00:00Z", "generation": 1}, "spec": {"parallelism": 1, "completions": 1, "backoffLimit": 6, "completionMode": "NonIndexed", "suspend": false, "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "6d1f4c5e-0000-4000-8000-000000001516"}}, "template": {"metadata": {"labels": {"batch.kubernetes.io/controller-uid": "6d1f4c5e-0000-4000-8000-000000001516"}}, "spec": {"restartPolicy": "Never", "serviceAccountName": "webshop", "containers": [{"name": "main", "image": "registry/app:1"}]}}}, "status": {"startTime": "2026-11-28T11:00:00Z", "uncountedTerminatedPods": {}}}
---
{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "migrate.failed", "namespace": "default", "creationTimestamp": "2026-11-28T11:00:00Z"}, "involvedObject": {"apiVersion": "batch/v1", "kind": "Job", "name": "webshop-db-migrate", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001516"}, "reason": "FailedCreate", "message": "Error creating: pods \"webshop-db-migrate-\" is forbidden: error looking up service account default/webshop: serviceaccount \"webshop\" not found", "type": "Warning", "source": {"component": "job-controller"}, "firstTimestamp": "2026-11-28T11:00:00Z", "lastTimestamp": "2026-11-28T12:00:00Z", "count": 6}
---
{"apiVersion": "argoproj.io/v1", "kind": "Application", "metadata": {"name": "webshop", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001517", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"destination": {"server": "https://kubernetes.default.svc", "namespace": "default"}}, "status": {"sync": {"status": "OutOfSync"}, "health": {"status": "Missing"}, "operationState": {"phase": "Running", "message": "waiting for completion of hook batch/Job/webshop-db-migrate", "startedAt": "2026-11-28T11:00:00Z"}}}
"#,
            ),
        ],
        about: ("application", "webshop"),
        truth: Truth::Cause(
            Code::ServiceAccountMissing,
            "error looking up service account default/webshop",
            "creator of ServiceAccount default/webshop",
        ),
    },
    Story {
        question: 3,
        title: "the hook of an application of Argo CD runs",
        run: Run::Nothing,
        steps: &[
            Step::Apply(crd!(
                "argoproj.io",
                "Application",
                "applications",
                "Namespaced"
            )),
            Step::Load(
                r#"{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "shop-db-migrate", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001531", "creationTimestamp": "2026-11-28T11:00:00Z", "generation": 1}, "spec": {"parallelism": 1, "completions": 1, "backoffLimit": 6, "completionMode": "NonIndexed", "suspend": false, "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "6d1f4c5e-0000-4000-8000-000000001531"}}, "template": {"metadata": {"labels": {"batch.kubernetes.io/controller-uid": "6d1f4c5e-0000-4000-8000-000000001531"}}, "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "registry/app:1"}]}}}, "status": {"startTime": "2026-11-28T11:00:00Z", "active": 1, "ready": 1, "uncountedTerminatedPods": {}}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "shop-db-migrate-x", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001532", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"batch.kubernetes.io/controller-uid": "6d1f4c5e-0000-4000-8000-000000001531"}, "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "shop-db-migrate", "uid": "6d1f4c5e-0000-4000-8000-000000001531", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"nodeName": "node-1", "restartPolicy": "Never", "containers": [{"name": "main", "image": "registry/app:1"}]}, "status": {"phase": "Running", "startTime": "2026-11-28T11:00:00Z", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
---
{"apiVersion": "argoproj.io/v1", "kind": "Application", "metadata": {"name": "shop", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001533", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"destination": {"server": "https://kubernetes.default.svc", "namespace": "default"}}, "status": {"sync": {"status": "OutOfSync"}, "health": {"status": "Missing"}, "resources": [{"kind": "ServiceAccount", "name": "shop", "namespace": "default", "version": "v1", "status": "OutOfSync", "health": {"status": "Missing"}}], "operationState": {"phase": "Running", "message": "waiting for completion of hook batch/Job/shop-db-migrate", "startedAt": "2026-11-28T11:00:00Z"}}}
"#,
            ),
        ],
        about: ("application", "shop"),
        truth: Truth::Moves(Code::ConditionOpen),
    },
    Story {
        question: 8,
        title: "a quota is used up, for the most part by another workload",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team-risk", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001524", "creationTimestamp": "2026-11-28T08:00:00Z"}, "spec": {"hard": {"limits.memory": "12Gi"}}, "status": {"hard": {"limits.memory": "12Gi"}, "used": {"limits.memory": "12Gi"}}}
---
{"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "scoring", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001519", "creationTimestamp": "2026-11-28T08:00:00Z", "generation": 1}, "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "scoring"}}, "template": {"metadata": {"labels": {"app": "scoring"}}, "spec": {"containers": [{"name": "main", "image": "registry/app:1", "resources": {"limits": {"memory": "4Gi"}, "requests": {"memory": "1Gi"}}}]}}}, "status": {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1, "observedGeneration": 1, "conditions": [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "pods \"scoring-x\" is forbidden: exceeded quota: team-risk, requested: limits.memory=4Gi, used: limits.memory=12Gi, limited: limits.memory=12Gi", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "scoring-0", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001520", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "scoring"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "scoring", "uid": "6d1f4c5e-0000-4000-8000-000000001519", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "registry/app:1", "resources": {"limits": {"memory": "4Gi"}, "requests": {"memory": "1Gi"}}}]}, "status": {"phase": "Running", "startTime": "2026-11-28T11:00:00Z", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
---
{"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "scoring-loadtest", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001521", "creationTimestamp": "2026-11-28T08:00:00Z", "generation": 1}, "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "scoring-loadtest"}}, "template": {"metadata": {"labels": {"app": "scoring-loadtest"}}, "spec": {"containers": [{"name": "main", "image": "registry/app:1", "resources": {"limits": {"memory": "4Gi"}, "requests": {"memory": "1Gi"}}}]}}}, "status": {"replicas": 2, "readyReplicas": 2, "availableReplicas": 2, "observedGeneration": 1}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "scoring-loadtest-0", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001522", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "scoring-loadtest"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "scoring-loadtest", "uid": "6d1f4c5e-0000-4000-8000-000000001521", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "registry/app:1", "resources": {"limits": {"memory": "4Gi"}, "requests": {"memory": "1Gi"}}}]}, "status": {"phase": "Running", "startTime": "2026-11-28T11:00:00Z", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "scoring-loadtest-1", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001523", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "scoring-loadtest"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "scoring-loadtest", "uid": "6d1f4c5e-0000-4000-8000-000000001521", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "registry/app:1", "resources": {"limits": {"memory": "4Gi"}, "requests": {"memory": "1Gi"}}}]}, "status": {"phase": "Running", "startTime": "2026-11-28T11:00:00Z", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
"#,
        )],
        about: ("replicaset", "scoring"),
        truth: Truth::Cause(
            Code::QuotaExceeded,
            "limited: limits.memory=12Gi; the largest parts are 8Gi of replicaset default/scoring-loadtest, 4Gi of replicaset default/scoring",
            "owner of ResourceQuota default/team-risk",
        ),
    },
];
