//! The states of the fourteenth blind test in which `why` did not tell the whole cause, and states near them.

use steersman_why::Code;

use crate::{Run, Step, Story, Truth};

pub(super) const STORIES: &[Story] = &[
    Story {
        question: 3,
        title: "the kubelet evicts the pods of a ReplicaSet one by one, and the new one waits for their node",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-5", "uid": "6d1f4c5e-0000-4000-8000-000000001402", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-5", "pool": "reports"}}, "spec": {"taints": [{"key": "node.kubernetes.io/memory-pressure", "effect": "NoSchedule"}]}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "MemoryPressure", "status": "True", "reason": "KubeletHasInsufficientMemory", "message": "kubelet has insufficient memory available", "lastTransitionTime": "2026-11-28T11:58:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
---
{"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "reports", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001401", "creationTimestamp": "2026-11-28T08:00:00Z", "generation": 1}, "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "reports"}}, "template": {"metadata": {"labels": {"app": "reports"}}, "spec": {"containers": [{"name": "main", "image": "registry/app:1", "resources": {"requests": {"memory": "512Mi"}}}], "nodeSelector": {"pool": "reports"}}}}, "status": {"replicas": 1, "observedGeneration": 1}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "reports-1", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001403", "creationTimestamp": "2026-11-28T11:20:00Z", "labels": {"app": "reports"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "reports", "uid": "6d1f4c5e-0000-4000-8000-000000001401", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"nodeName": "node-5", "nodeSelector": {"pool": "reports"}, "containers": [{"name": "main", "image": "registry/app:1", "resources": {"requests": {"memory": "512Mi"}}}]}, "status": {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory. Threshold quantity: 100Mi, available: 61284Ki. Container main was using 14263508Ki, request is 512Mi, has larger consumption of memory. ", "startTime": "2026-11-28T11:20:00Z", "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet", "message": "The node was low on resource: memory. Threshold quantity: 100Mi, available: 61284Ki. Container main was using 14263508Ki, request is 512Mi, has larger consumption of memory. ", "lastTransitionTime": "2026-11-28T11:20:00Z"}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "reports-2", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001404", "creationTimestamp": "2026-11-28T11:40:00Z", "labels": {"app": "reports"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "reports", "uid": "6d1f4c5e-0000-4000-8000-000000001401", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"nodeName": "node-5", "nodeSelector": {"pool": "reports"}, "containers": [{"name": "main", "image": "registry/app:1", "resources": {"requests": {"memory": "512Mi"}}}]}, "status": {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory. Threshold quantity: 100Mi, available: 61284Ki. Container main was using 14263508Ki, request is 512Mi, has larger consumption of memory. ", "startTime": "2026-11-28T11:40:00Z", "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet", "message": "The node was low on resource: memory. Threshold quantity: 100Mi, available: 61284Ki. Container main was using 14263508Ki, request is 512Mi, has larger consumption of memory. ", "lastTransitionTime": "2026-11-28T11:40:00Z"}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "reports-3", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001405", "creationTimestamp": "2026-11-28T11:58:00Z", "labels": {"app": "reports"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "reports", "uid": "6d1f4c5e-0000-4000-8000-000000001401", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"nodeName": "node-5", "nodeSelector": {"pool": "reports"}, "containers": [{"name": "main", "image": "registry/app:1", "resources": {"requests": {"memory": "512Mi"}}}]}, "status": {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory. Threshold quantity: 100Mi, available: 61284Ki. Container main was using 14263508Ki, request is 512Mi, has larger consumption of memory. ", "startTime": "2026-11-28T11:58:00Z", "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet", "message": "The node was low on resource: memory. Threshold quantity: 100Mi, available: 61284Ki. Container main was using 14263508Ki, request is 512Mi, has larger consumption of memory. ", "lastTransitionTime": "2026-11-28T11:58:00Z"}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "reports-4", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001406", "creationTimestamp": "2026-11-28T11:58:10Z", "labels": {"app": "reports"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "reports", "uid": "6d1f4c5e-0000-4000-8000-000000001401", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"nodeSelector": {"pool": "reports"}, "containers": [{"name": "main", "image": "registry/app:1", "resources": {"requests": {"memory": "512Mi"}}}]}, "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available: 1 node(s) had untolerated taint(s).", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
"#,
        )],
        about: ("replicaset", "reports"),
        truth: Truth::Cause(
            Code::PodsEvicted,
            "3 pods were evicted within the last hour, the newest one (reports-3) from node-5: The node was low on resource: memory. Threshold quantity: 100Mi, available: 61284Ki. Container main was using 14263508Ki, request is 512Mi, has larger consumption of memory.",
            "owner of the pod template (requests and limits.memory of container main that fit its use), or administrator of node node-5",
        ),
    },
    Story {
        question: 3,
        title: "one pod of a ReplicaSet was evicted, others hours ago, and the new one starts",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "uid": "6d1f4c5e-0000-4000-8000-000000001408", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-1"}}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
---
{"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "thumbs", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001407", "creationTimestamp": "2026-11-28T08:00:00Z", "generation": 1}, "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "thumbs"}}, "template": {"metadata": {"labels": {"app": "thumbs"}}, "spec": {"containers": [{"name": "main", "image": "registry/app:1"}]}}}, "status": {"replicas": 1, "observedGeneration": 1}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "thumbs-1", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001409", "creationTimestamp": "2026-11-28T09:20:00Z", "labels": {"app": "thumbs"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "thumbs", "uid": "6d1f4c5e-0000-4000-8000-000000001407", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "registry/app:1"}]}, "status": {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory. Threshold quantity: 100Mi, available: 61284Ki. Container main was using 14263508Ki, request is 512Mi, has larger consumption of memory. ", "startTime": "2026-11-28T09:20:00Z", "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet", "message": "The node was low on resource: memory. Threshold quantity: 100Mi, available: 61284Ki. Container main was using 14263508Ki, request is 512Mi, has larger consumption of memory. ", "lastTransitionTime": "2026-11-28T09:20:00Z"}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "thumbs-2", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001410", "creationTimestamp": "2026-11-28T09:40:00Z", "labels": {"app": "thumbs"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "thumbs", "uid": "6d1f4c5e-0000-4000-8000-000000001407", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "registry/app:1"}]}, "status": {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory. Threshold quantity: 100Mi, available: 61284Ki. Container main was using 14263508Ki, request is 512Mi, has larger consumption of memory. ", "startTime": "2026-11-28T09:40:00Z", "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet", "message": "The node was low on resource: memory. Threshold quantity: 100Mi, available: 61284Ki. Container main was using 14263508Ki, request is 512Mi, has larger consumption of memory. ", "lastTransitionTime": "2026-11-28T09:40:00Z"}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "thumbs-3", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001411", "creationTimestamp": "2026-11-28T12:00:50Z", "labels": {"app": "thumbs"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "thumbs", "uid": "6d1f4c5e-0000-4000-8000-000000001407", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "registry/app:1"}]}, "status": {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory. Threshold quantity: 100Mi, available: 61284Ki. Container main was using 14263508Ki, request is 512Mi, has larger consumption of memory. ", "startTime": "2026-11-28T12:00:50Z", "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet", "message": "The node was low on resource: memory. Threshold quantity: 100Mi, available: 61284Ki. Container main was using 14263508Ki, request is 512Mi, has larger consumption of memory. ", "lastTransitionTime": "2026-11-28T12:00:50Z"}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "thumbs-4", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001412", "creationTimestamp": "2026-11-28T12:01:00Z", "labels": {"app": "thumbs"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "thumbs", "uid": "6d1f4c5e-0000-4000-8000-000000001407", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "registry/app:1"}]}, "status": {"phase": "Pending", "startTime": "2026-11-28T12:01:00Z", "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-28T12:01:00Z"}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": "2026-11-28T12:01:00Z"}], "containerStatuses": [{"name": "main", "ready": false, "restartCount": 0, "image": "registry/app:1", "imageID": "", "state": {"waiting": {"reason": "ContainerCreating"}}}]}}
"#,
        )],
        about: ("replicaset", "thumbs"),
        truth: Truth::Moves(Code::PodStarting),
    },
    Story {
        question: 3,
        title: "a container is killed at a memory limit that a LimitRange has given to it",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "uid": "6d1f4c5e-0000-4000-8000-000000001413", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-1"}}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
---
{"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "container-defaults", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001414", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"limits": [{"type": "Container", "default": {"memory": "256Mi"}, "defaultRequest": {"memory": "128Mi"}}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "login", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001415", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "login"}, "annotations": {"kubernetes.io/limit-ranger": "LimitRanger plugin set: memory request for container main; memory limit for container main"}}, "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "registry/app:1", "resources": {"requests": {"memory": "128Mi"}, "limits": {"memory": "256Mi"}}}]}, "status": {"phase": "Running", "startTime": "2026-11-28T11:00:00Z", "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": false, "restartCount": 5, "image": "registry/app:1", "imageID": "", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}}, "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-11-28T11:58:00Z"}}}]}}
"#,
        )],
        about: ("pod", "login"),
        truth: Truth::Cause(
            Code::ContainerCrash,
            "container main ended with exit code 137 (OOMKilled) at its memory limit of 256Mi, which is the default of LimitRange default/container-defaults (annotation kubernetes.io/limit-ranger); it was restarted 5 times",
            "owner of the pod template (limits.memory of container main), or of LimitRange default/container-defaults (default)",
        ),
    },
    Story {
        question: 3,
        title: "a container is killed at its own memory limit, which is that of a LimitRange, too",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "uid": "6d1f4c5e-0000-4000-8000-000000001416", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-1"}}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
---
{"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "container-defaults", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001417", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"limits": [{"type": "Container", "default": {"memory": "256Mi"}, "defaultRequest": {"memory": "128Mi"}}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "logout", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001418", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "logout"}}, "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "registry/app:1", "resources": {"requests": {"memory": "128Mi"}, "limits": {"memory": "256Mi"}}}]}, "status": {"phase": "Running", "startTime": "2026-11-28T11:00:00Z", "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": false, "restartCount": 5, "image": "registry/app:1", "imageID": "", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}}, "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-11-28T11:58:00Z"}}}]}}
"#,
        )],
        about: ("pod", "logout"),
        truth: Truth::Cause(
            Code::ContainerCrash,
            "(OOMKilled) at its memory limit of 256Mi; it was restarted 5 times",
            "owner of the pod template (limits.memory of container main)",
        ),
    },
    Story {
        question: 3,
        title: "a pod does not fit by a request that a LimitRange has given to it",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "uid": "6d1f4c5e-0000-4000-8000-000000001419", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-1"}}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "2", "memory": "4Gi", "pods": "110"}}}
---
{"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "container-defaults", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001420", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"limits": [{"type": "Container", "default": {"memory": "8Gi"}, "defaultRequest": {"memory": "8Gi"}}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "crawl", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001421", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "crawl"}, "annotations": {"kubernetes.io/limit-ranger": "LimitRanger plugin set: memory request for container main; memory limit for container main"}}, "spec": {"containers": [{"name": "main", "image": "registry/app:1", "resources": {"requests": {"memory": "8Gi"}, "limits": {"memory": "8Gi"}}}]}, "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available: 1 Insufficient memory.", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
"#,
        )],
        about: ("pod", "crawl"),
        truth: Truth::Cause(
            Code::PodUnscheduled,
            "the pod asks for 8Gi memory, and the largest node has 4Gi; the request of container main is the default of LimitRange default/container-defaults (annotation kubernetes.io/limit-ranger)",
            "or owner of LimitRange default/container-defaults (defaultRequest)",
        ),
    },
    Story {
        question: 2,
        title: "the target counts cores, and its author means percent",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "uid": "6d1f4c5e-0000-4000-8000-000000001427", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-1"}}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
---
{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "images", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001422", "creationTimestamp": "2026-11-28T11:00:00Z", "generation": 1, "annotations": {"deployment.kubernetes.io/revision": "1"}}, "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "images"}}, "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}, "template": {"metadata": {"labels": {"app": "images"}}, "spec": {"containers": [{"name": "main", "image": "registry/app:1", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}}]}}}, "status": {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2, "conditions": []}}
---
{"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "images-5d", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001423", "creationTimestamp": "2026-11-28T08:00:00Z", "generation": 1, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "images", "uid": "6d1f4c5e-0000-4000-8000-000000001422", "controller": true, "blockOwnerDeletion": true}], "labels": {"app": "images", "pod-template-hash": "5d"}, "annotations": {"deployment.kubernetes.io/revision": "1"}}, "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "images", "pod-template-hash": "5d"}}, "template": {"metadata": {"labels": {"app": "images", "pod-template-hash": "5d"}}, "spec": {"containers": [{"name": "main", "image": "registry/app:1", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}}]}}}, "status": {"replicas": 2, "observedGeneration": 1, "readyReplicas": 2, "availableReplicas": 2, "fullyLabeledReplicas": 2}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "images-5d-a", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001424", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "images", "pod-template-hash": "5d"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "images-5d", "uid": "6d1f4c5e-0000-4000-8000-000000001423", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "registry/app:1", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}}]}, "status": {"phase": "Running", "startTime": "2026-11-28T11:00:00Z", "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": true, "restartCount": 0, "image": "registry/app:1", "imageID": "", "state": {"running": {"startedAt": "2026-11-28T11:00:00Z"}}}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "images-5d-b", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001425", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "images", "pod-template-hash": "5d"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "images-5d", "uid": "6d1f4c5e-0000-4000-8000-000000001423", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "registry/app:1", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}}]}, "status": {"phase": "Running", "startTime": "2026-11-28T11:00:00Z", "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": true, "restartCount": 0, "image": "registry/app:1", "imageID": "", "state": {"running": {"startedAt": "2026-11-28T11:00:00Z"}}}]}}
---
{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "images", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001426", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "images"}, "minReplicas": 2, "maxReplicas": 12, "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "80"}}}]}, "status": {"currentReplicas": 2, "desiredReplicas": 2, "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageValue": "950m", "averageUtilization": 95}}}], "conditions": [{"type": "AbleToScale", "status": "True", "reason": "ReadyForNewScale", "message": "recommended size matches current size", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "ScalingActive", "status": "True", "reason": "ValidMetricFound", "message": "the HPA was able to successfully calculate a replica count from cpu resource", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "ScalingLimited", "status": "True", "reason": "TooFewReplicas", "message": "the desired replica count is less than the minimum replica count", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
"#,
        )],
        about: ("hpa", "images"),
        truth: Truth::Cause(
            Code::TargetUnreachable,
            "the target of cpu is 80 cores for each pod (AverageValue), and the limits of a pod allow 1 core, so the autoscaler never scales up; a percentage of the requests is a target of type Utilization (averageUtilization 80)",
            "owner of the autoscaler (spec.metrics[0].resource.target: type Utilization, or a smaller averageValue)",
        ),
    },
    Story {
        question: 2,
        title: "the target counts cores that the pods can use, and they use less",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "uid": "6d1f4c5e-0000-4000-8000-000000001433", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-1"}}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
---
{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "pages", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001428", "creationTimestamp": "2026-11-28T11:00:00Z", "generation": 1, "annotations": {"deployment.kubernetes.io/revision": "1"}}, "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "pages"}}, "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}, "template": {"metadata": {"labels": {"app": "pages"}}, "spec": {"containers": [{"name": "main", "image": "registry/app:1", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}}]}}}, "status": {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2, "conditions": []}}
---
{"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "pages-5d", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001429", "creationTimestamp": "2026-11-28T08:00:00Z", "generation": 1, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "pages", "uid": "6d1f4c5e-0000-4000-8000-000000001428", "controller": true, "blockOwnerDeletion": true}], "labels": {"app": "pages", "pod-template-hash": "5d"}, "annotations": {"deployment.kubernetes.io/revision": "1"}}, "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "pages", "pod-template-hash": "5d"}}, "template": {"metadata": {"labels": {"app": "pages", "pod-template-hash": "5d"}}, "spec": {"containers": [{"name": "main", "image": "registry/app:1", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}}]}}}, "status": {"replicas": 2, "observedGeneration": 1, "readyReplicas": 2, "availableReplicas": 2, "fullyLabeledReplicas": 2}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pages-5d-a", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001430", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "pages", "pod-template-hash": "5d"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "pages-5d", "uid": "6d1f4c5e-0000-4000-8000-000000001429", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "registry/app:1", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}}]}, "status": {"phase": "Running", "startTime": "2026-11-28T11:00:00Z", "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": true, "restartCount": 0, "image": "registry/app:1", "imageID": "", "state": {"running": {"startedAt": "2026-11-28T11:00:00Z"}}}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pages-5d-b", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001431", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "pages", "pod-template-hash": "5d"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "pages-5d", "uid": "6d1f4c5e-0000-4000-8000-000000001429", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "registry/app:1", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}}]}, "status": {"phase": "Running", "startTime": "2026-11-28T11:00:00Z", "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": true, "restartCount": 0, "image": "registry/app:1", "imageID": "", "state": {"running": {"startedAt": "2026-11-28T11:00:00Z"}}}]}}
---
{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "pages", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001432", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "pages"}, "minReplicas": 2, "maxReplicas": 12, "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "800m"}}}]}, "status": {"currentReplicas": 2, "desiredReplicas": 2, "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageValue": "350m", "averageUtilization": 95}}}], "conditions": [{"type": "AbleToScale", "status": "True", "reason": "ReadyForNewScale", "message": "recommended size matches current size", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "ScalingActive", "status": "True", "reason": "ValidMetricFound", "message": "the HPA was able to successfully calculate a replica count from cpu resource", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "ScalingLimited", "status": "True", "reason": "TooFewReplicas", "message": "the desired replica count is less than the minimum replica count", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
"#,
        )],
        about: ("hpa", "pages"),
        truth: Truth::Moves(Code::ScalingLimited),
    },
    Story {
        question: 13,
        title: "the claim names no class, and no class is the default",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "gp3", "uid": "6d1f4c5e-0000-4000-8000-000000001434", "creationTimestamp": "2026-11-28T11:00:00Z"}, "provisioner": "ebs.csi.aws.com", "volumeBindingMode": "Immediate"}
---
{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "gp2", "uid": "6d1f4c5e-0000-4000-8000-000000001435", "creationTimestamp": "2026-11-28T11:00:00Z"}, "provisioner": "ebs.csi.aws.com", "volumeBindingMode": "Immediate"}
---
{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "shared", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001436", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}}, "status": {"phase": "Pending"}}
"#,
        )],
        about: ("pvc", "shared"),
        truth: Truth::Cause(
            Code::NoMatchingVolume,
            "no storage class is set; no StorageClass is the default (gp2, gp3 exist)",
            "administrator of the cluster (one StorageClass as the default: annotation storageclass.kubernetes.io/is-default-class), creator of a PersistentVolume that fits, or owner of the claim (storageClassName)",
        ),
    },
    Story {
        question: 13,
        title: "the claim asks for no class",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "gp3", "uid": "6d1f4c5e-0000-4000-8000-000000001437", "creationTimestamp": "2026-11-28T11:00:00Z"}, "provisioner": "ebs.csi.aws.com", "volumeBindingMode": "Immediate"}
---
{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "static", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001438", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}, "storageClassName": ""}, "status": {"phase": "Pending"}}
"#,
        )],
        about: ("pvc", "static"),
        truth: Truth::Cause(
            Code::NoMatchingVolume,
            "no storage class is set",
            "creator of a PersistentVolume that fits, or owner of the claim (storageClassName)",
        ),
    },
    Story {
        question: 15,
        title: "the missing pod of a budget waits for a node that an earlier drain left cordoned",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-0", "uid": "6d1f4c5e-0000-4000-8000-000000001442", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-0", "pool": "zookeeper"}}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "uid": "6d1f4c5e-0000-4000-8000-000000001443", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-1", "pool": "zookeeper"}}, "spec": {"unschedulable": true, "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-2", "uid": "6d1f4c5e-0000-4000-8000-000000001444", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-2", "pool": "zookeeper"}}, "spec": {"unschedulable": true, "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
---
{"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "zk", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001439", "creationTimestamp": "2026-11-28T11:00:00Z", "generation": 1}, "spec": {"replicas": 3, "serviceName": "zk", "podManagementPolicy": "OrderedReady", "selector": {"matchLabels": {"app": "zk"}}, "template": {"metadata": {"labels": {"app": "zk"}}, "spec": {"containers": [{"name": "main", "image": "registry/app:1"}], "nodeSelector": {"pool": "zookeeper"}, "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": {"matchLabels": {"app": "zk"}}, "topologyKey": "kubernetes.io/hostname"}]}}}}}, "status": {"observedGeneration": 1, "replicas": 3, "readyReplicas": 2}}
---
{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "zk", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001441", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"clusterIP": "None", "selector": {"app": "zk"}, "ports": [{"port": 2181}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "zk-0", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001445", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "zk"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "zk", "uid": "6d1f4c5e-0000-4000-8000-000000001439", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"nodeName": "node-0", "nodeSelector": {"pool": "zookeeper"}, "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": {"matchLabels": {"app": "zk"}}, "topologyKey": "kubernetes.io/hostname"}]}}, "containers": [{"name": "main", "image": "registry/app:1"}]}, "status": {"phase": "Running", "startTime": "2026-11-28T11:00:00Z", "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": true, "restartCount": 0, "image": "registry/app:1", "imageID": "", "state": {"running": {"startedAt": "2026-11-28T11:00:00Z"}}}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "zk-1", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001446", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "zk"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "zk", "uid": "6d1f4c5e-0000-4000-8000-000000001439", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"nodeSelector": {"pool": "zookeeper"}, "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": {"matchLabels": {"app": "zk"}}, "topologyKey": "kubernetes.io/hostname"}]}}, "containers": [{"name": "main", "image": "registry/app:1"}]}, "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available: 1 node(s) didn't match pod anti-affinity rules, 2 node(s) were unschedulable.", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "zk-2", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001447", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "zk"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "zk", "uid": "6d1f4c5e-0000-4000-8000-000000001439", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"nodeName": "node-2", "nodeSelector": {"pool": "zookeeper"}, "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": {"matchLabels": {"app": "zk"}}, "topologyKey": "kubernetes.io/hostname"}]}}, "containers": [{"name": "main", "image": "registry/app:1"}]}, "status": {"phase": "Running", "startTime": "2026-11-28T11:00:00Z", "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": true, "restartCount": 0, "image": "registry/app:1", "imageID": "", "state": {"running": {"startedAt": "2026-11-28T11:00:00Z"}}}]}}
---
{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "zk", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001440", "creationTimestamp": "2026-11-28T11:00:00Z", "generation": 1}, "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "zk"}}}, "status": {"observedGeneration": 1, "currentHealthy": 2, "desiredHealthy": 2, "disruptionsAllowed": 0, "expectedPods": 3, "conditions": [{"type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
"#,
        )],
        about: ("pdb", "zk"),
        truth: Truth::Cause(
            Code::PodUnscheduled,
            "node-1 is cordoned, and it would take the pod otherwise",
            "administrator of the nodes (kubectl uncordon node-1)",
        ),
    },
    Story {
        question: 15,
        title: "the missing pod of a budget fits on none of the cordoned nodes",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-0", "uid": "6d1f4c5e-0000-4000-8000-000000001451", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-0", "pool": "zookeeper"}}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "uid": "6d1f4c5e-0000-4000-8000-000000001452", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-1", "pool": "general"}}, "spec": {"unschedulable": true, "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-2", "uid": "6d1f4c5e-0000-4000-8000-000000001453", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-2", "pool": "zookeeper"}}, "spec": {"unschedulable": true, "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
---
{"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "etcd", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001448", "creationTimestamp": "2026-11-28T11:00:00Z", "generation": 1}, "spec": {"replicas": 3, "serviceName": "etcd", "podManagementPolicy": "OrderedReady", "selector": {"matchLabels": {"app": "etcd"}}, "template": {"metadata": {"labels": {"app": "etcd"}}, "spec": {"containers": [{"name": "main", "image": "registry/app:1"}], "nodeSelector": {"pool": "zookeeper"}, "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": {"matchLabels": {"app": "etcd"}}, "topologyKey": "kubernetes.io/hostname"}]}}}}}, "status": {"observedGeneration": 1, "replicas": 3, "readyReplicas": 2}}
---
{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "etcd", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001450", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"clusterIP": "None", "selector": {"app": "etcd"}, "ports": [{"port": 2181}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "etcd-0", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001454", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "etcd"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "etcd", "uid": "6d1f4c5e-0000-4000-8000-000000001448", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"nodeName": "node-0", "nodeSelector": {"pool": "zookeeper"}, "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": {"matchLabels": {"app": "etcd"}}, "topologyKey": "kubernetes.io/hostname"}]}}, "containers": [{"name": "main", "image": "registry/app:1"}]}, "status": {"phase": "Running", "startTime": "2026-11-28T11:00:00Z", "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": true, "restartCount": 0, "image": "registry/app:1", "imageID": "", "state": {"running": {"startedAt": "2026-11-28T11:00:00Z"}}}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "etcd-1", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001455", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "etcd"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "etcd", "uid": "6d1f4c5e-0000-4000-8000-000000001448", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"nodeSelector": {"pool": "zookeeper"}, "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": {"matchLabels": {"app": "etcd"}}, "topologyKey": "kubernetes.io/hostname"}]}}, "containers": [{"name": "main", "image": "registry/app:1"}]}, "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available: 1 node(s) didn't match pod anti-affinity rules, 2 node(s) were unschedulable.", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "etcd-2", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001456", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "etcd"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "etcd", "uid": "6d1f4c5e-0000-4000-8000-000000001448", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"nodeName": "node-2", "nodeSelector": {"pool": "zookeeper"}, "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": {"matchLabels": {"app": "etcd"}}, "topologyKey": "kubernetes.io/hostname"}]}}, "containers": [{"name": "main", "image": "registry/app:1"}]}, "status": {"phase": "Running", "startTime": "2026-11-28T11:00:00Z", "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": true, "restartCount": 0, "image": "registry/app:1", "imageID": "", "state": {"running": {"startedAt": "2026-11-28T11:00:00Z"}}}]}}
---
{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "etcd", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001449", "creationTimestamp": "2026-11-28T11:00:00Z", "generation": 1}, "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "etcd"}}}, "status": {"observedGeneration": 1, "currentHealthy": 2, "desiredHealthy": 2, "disruptionsAllowed": 0, "expectedPods": 3, "conditions": [{"type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
"#,
        )],
        about: ("pdb", "etcd"),
        truth: Truth::Cause(
            Code::PodUnscheduled,
            "2 node(s) were unschedulable; the pod asks for no pod with app=etcd",
            "owner of the pod template (preferred in place of required anti-affinity",
        ),
    },
    Story {
        question: 3,
        title: "a pod runs as the account default, and another account has the role of the cloud",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "uid": "6d1f4c5e-0000-4000-8000-000000001460", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-1"}}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
---
{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001461", "creationTimestamp": "2026-11-28T11:00:00Z"}}
---
{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "pay", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001457", "creationTimestamp": "2026-11-28T11:00:00Z", "annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::123456789012:role/checkout"}}}
---
{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "mail", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001458", "creationTimestamp": "2026-11-28T11:00:00Z", "annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::123456789012:role/checkout"}}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pay", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001459", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "pay"}}, "spec": {"nodeName": "node-1", "serviceAccountName": "default", "containers": [{"name": "main", "image": "registry/app:1"}]}, "status": {"phase": "Pending", "startTime": "2026-11-28T11:00:00Z", "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": false, "restartCount": 0, "image": "registry/app:1", "imageID": "", "state": {"waiting": {"reason": "ContainerCreating"}}}]}}
---
{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "pay.failedmount", "namespace": "default", "creationTimestamp": "2026-11-28T11:00:00Z"}, "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "pay", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001459"}, "reason": "FailedMount", "message": "MountVolume.SetUp failed for volume \"secrets\" : rpc error: code = Unknown desc = failed to mount secrets store objects for pod default/pay, err: rpc error: code = Unknown desc = eu-west-1: An IAM role must be associated with service account default (namespace: default)", "type": "Warning", "source": {"component": "kubelet"}, "firstTimestamp": "2026-11-28T11:00:00Z", "lastTimestamp": "2026-11-28T12:00:00Z", "count": 6}
"#,
        )],
        about: ("pod", "pay"),
        truth: Truth::Cause(
            Code::VolumeMount,
            "(namespace: default); the pod runs as ServiceAccount default/default, and ServiceAccount pay has the annotation eks.amazonaws.com/role-arn",
            "owner of the pod template (serviceAccountName: pay), or of ServiceAccount default/default (the annotation eks.amazonaws.com/role-arn)",
        ),
    },
    Story {
        question: 3,
        title: "a pod runs as the account default, and no account of its workload has a role of the cloud",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "uid": "6d1f4c5e-0000-4000-8000-000000001466", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-1"}}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
---
{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001467", "creationTimestamp": "2026-11-28T11:00:00Z"}}
---
{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "ship", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001462", "creationTimestamp": "2026-11-28T11:00:00Z"}}
---
{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "mail", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001463", "creationTimestamp": "2026-11-28T11:00:00Z", "annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::123456789012:role/checkout"}}}
---
{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "tax", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001464", "creationTimestamp": "2026-11-28T11:00:00Z", "annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::123456789012:role/checkout"}}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "ship", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001465", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "ship"}}, "spec": {"nodeName": "node-1", "serviceAccountName": "default", "containers": [{"name": "main", "image": "registry/app:1"}]}, "status": {"phase": "Pending", "startTime": "2026-11-28T11:00:00Z", "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": false, "restartCount": 0, "image": "registry/app:1", "imageID": "", "state": {"waiting": {"reason": "ContainerCreating"}}}]}}
---
{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "ship.failedmount", "namespace": "default", "creationTimestamp": "2026-11-28T11:00:00Z"}, "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "ship", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001465"}, "reason": "FailedMount", "message": "MountVolume.SetUp failed for volume \"secrets\" : rpc error: code = Unknown desc = failed to mount secrets store objects for pod default/ship, err: rpc error: code = Unknown desc = eu-west-1: An IAM role must be associated with service account default (namespace: default)", "type": "Warning", "source": {"component": "kubelet"}, "firstTimestamp": "2026-11-28T11:00:00Z", "lastTimestamp": "2026-11-28T12:00:00Z", "count": 6}
"#,
        )],
        about: ("pod", "ship"),
        truth: Truth::Cause(
            Code::VolumeMount,
            "An IAM role must be associated with service account default",
            "owner of the ServiceAccount in these words (its role in the cloud), or of the pod template (serviceAccountName)",
        ),
    },
    Story {
        question: 3,
        title: "a program lacks a right, because its pod runs as the account default",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "uid": "6d1f4c5e-0000-4000-8000-000000001468", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-1"}}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
---
{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001469", "creationTimestamp": "2026-11-28T11:00:00Z"}}
---
{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "restarter", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001470", "creationTimestamp": "2026-11-28T11:00:00Z"}}
---
{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "restarter", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001471", "creationTimestamp": "2026-11-28T11:00:00Z"}, "subjects": [{"kind": "ServiceAccount", "name": "restarter", "namespace": "default"}], "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "restarter"}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "restarter", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001472", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "restarter"}}, "spec": {"nodeName": "node-1", "serviceAccountName": "default", "containers": [{"name": "main", "image": "registry/app:1"}]}, "status": {"phase": "Running", "startTime": "2026-11-28T11:00:00Z", "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": false, "restartCount": 6, "image": "registry/app:1", "imageID": "", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}}, "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "message": "Error from server (Forbidden): deployments.apps \"catalog\" is forbidden: User \"system:serviceaccount:default:default\" cannot get resource \"deployments\" in API group \"apps\" in the namespace \"default\"", "finishedAt": "2026-11-28T11:58:00Z"}}}]}}
"#,
        )],
        about: ("pod", "restarter"),
        truth: Truth::Cause(
            Code::ContainerCrash,
            "no RoleBinding in default names ServiceAccount default/default; the pod runs as ServiceAccount default/default, and RoleBinding default/restarter (Role restarter) names default/restarter",
            "owner of the pod template (serviceAccountName: restarter), or administrator of the RBAC rules (ServiceAccount default/default",
        ),
    },
    Story {
        question: 3,
        title: "the program of an image is one for other machines",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "uid": "6d1f4c5e-0000-4000-8000-000000001473", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-1", "kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64"}}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "search", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001474", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "search"}}, "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "registry/app:1"}]}, "status": {"phase": "Running", "startTime": "2026-11-28T11:00:00Z", "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": false, "restartCount": 5, "image": "registry/app:1", "imageID": "", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}}, "lastState": {"terminated": {"exitCode": 128, "reason": "StartError", "message": "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: exec /app/server: exec format error", "finishedAt": "2026-11-28T11:58:00Z"}}}]}}
"#,
        )],
        about: ("pod", "search"),
        truth: Truth::Cause(
            Code::ContainerCrash,
            "exec /app/server: exec format error; the program is a script without #!, or one for other machines; node node-1 is linux/arm64; it was restarted 5 times",
            "owner of the image (a build for linux/arm64), or owner of the pod template (nodeSelector kubernetes.io/arch)",
        ),
    },
    Story {
        question: 3,
        title: "the program of an image ends with an error on a node for other machines",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "uid": "6d1f4c5e-0000-4000-8000-000000001475", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-1", "kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64"}}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "index", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001476", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "index"}}, "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "registry/app:1"}]}, "status": {"phase": "Running", "startTime": "2026-11-28T11:00:00Z", "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": false, "restartCount": 5, "image": "registry/app:1", "imageID": "", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}}, "lastState": {"terminated": {"exitCode": 2, "reason": "Error", "message": "panic: no index", "finishedAt": "2026-11-28T11:58:00Z"}}}]}}
"#,
        )],
        about: ("pod", "index"),
        truth: Truth::Cause(
            Code::ContainerCrash,
            "ended with exit code 2 (Error): panic: no index; it was restarted 5 times",
            "owner of the container's program",
        ),
    },
    Story {
        question: 1,
        title: "a program cannot delete the bucket of a cloud behind its object",
        run: Run::Nothing,
        steps: &[
            Step::Apply(crd!("s3.aws.crossplane.io", "Bucket", "buckets", "Cluster")),
            Step::Load(
                r#"{"apiVersion": "s3.aws.crossplane.io/v1", "kind": "Bucket", "metadata": {"name": "photos", "uid": "6d1f4c5e-0000-4000-8000-000000001477", "creationTimestamp": "2026-11-28T11:00:00Z", "finalizers": ["finalizer.managedresource.crossplane.io"], "deletionTimestamp": "2026-11-28T11:30:00Z", "deletionGracePeriodSeconds": 0}, "spec": {"deletionPolicy": "Delete"}, "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Deleting", "lastTransitionTime": "2026-11-28T11:30:00Z"}, {"type": "Synced", "status": "False", "reason": "ReconcileError", "message": "delete failed: operation error S3: DeleteBucket, https response error StatusCode: 409, api error BucketNotEmpty: The bucket you tried to delete is not empty. You must delete all versions in the bucket.", "lastTransitionTime": "2026-11-28T11:30:00Z"}]}}
---
{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "photos.cannotdeleteexternalresource", "namespace": "default", "creationTimestamp": "2026-11-28T11:00:00Z"}, "involvedObject": {"apiVersion": "s3.aws.crossplane.io/v1", "kind": "Bucket", "name": "photos", "uid": "6d1f4c5e-0000-4000-8000-000000001477"}, "reason": "CannotDeleteExternalResource", "message": "operation error S3: DeleteBucket, https response error StatusCode: 409, api error BucketNotEmpty: The bucket you tried to delete is not empty. You must delete all versions in the bucket.", "type": "Warning", "source": {"component": "managed/bucket.s3.aws.crossplane.io"}, "firstTimestamp": "2026-11-28T11:00:00Z", "lastTimestamp": "2026-11-28T12:00:00Z", "count": 6}
"#,
            ),
        ],
        about: ("bucket", "photos"),
        truth: Truth::Cause(
            Code::ForeignFinalizer,
            "CannotDeleteExternalResource: operation error S3: DeleteBucket",
            "owner of the object, by these words",
        ),
    },
    Story {
        question: 3,
        title: "a custom resource is not ready",
        run: Run::Nothing,
        steps: &[
            Step::Apply(crd!("sqs.example.com", "Queue", "queues", "Namespaced")),
            Step::Load(
                r#"{"apiVersion": "sqs.example.com/v1", "kind": "Queue", "metadata": {"name": "mails", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001478", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "QuotaExceeded", "message": "the quota of queues is used up", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
"#,
            ),
        ],
        about: ("queue", "mails"),
        truth: Truth::Cause(
            Code::ConditionBad,
            "Ready is False (QuotaExceeded): the quota of queues is used up",
            "owner of queue default/mails",
        ),
    },
    Story {
        question: 3,
        title: "a custom resource is ready",
        run: Run::Nothing,
        steps: &[
            Step::Apply(crd!("sqs.example.com", "Queue", "queues", "Namespaced")),
            Step::Load(
                r#"{"apiVersion": "sqs.example.com/v1", "kind": "Queue", "metadata": {"name": "invoices", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001479", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Available", "message": "the queue exists", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
"#,
            ),
        ],
        about: ("queue", "invoices"),
        truth: Truth::Fine,
    },
];
