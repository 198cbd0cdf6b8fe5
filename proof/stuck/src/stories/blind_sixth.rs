//! The states of a sixth blind test in which `why` named half of the cause, and a state like them with another cause.

use steersman_why::Code;

use crate::{Run, Step, Story, Truth};

pub(super) const STORIES: &[Story] = &[
    Story {
        question: 3,
        title: "the liveness probe ends the container before its program has started",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "auth", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000061", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "registry/auth:7", "livenessProbe": {"httpGet": {"path": "/live", "port": 8080}}}]}, "status": {"phase": "Running", "startTime": "2026-11-28T11:00:00Z", "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": false, "started": true, "restartCount": 4, "image": "registry/auth:7", "imageID": "", "state": {"running": {"startedAt": "2026-11-28T11:59:00Z"}}, "lastState": {"terminated": {"exitCode": 143, "reason": "Error", "finishedAt": "2026-11-28T11:58:00Z"}}}]}}
---
{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "auth.1", "namespace": "default"}, "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "auth", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000061", "fieldPath": "spec.containers{main}"}, "type": "Warning", "reason": "Unhealthy", "message": "Liveness probe failed: Get \"http://10.0.0.7:8080/live\": dial tcp 10.0.0.7:8080: connect: connection refused", "source": {"component": "kubelet"}, "firstTimestamp": "2026-11-28T11:00:30Z", "lastTimestamp": "2026-11-28T11:58:00Z", "count": 12}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
"#,
        )],
        about: ("pod", "auth"),
        truth: Truth::Cause(Code::ProbeKills, "its livenessProbe fails", "livenessProbe"),
    },
    Story {
        question: 3,
        title: "the program ends with an error, beside an old failure of its readiness probe",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "auth", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000062", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "registry/auth:7"}]}, "status": {"phase": "Running", "startTime": "2026-11-28T11:00:00Z", "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": false, "restartCount": 4, "image": "registry/auth:7", "imageID": "", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"exitCode": 137, "reason": "Error", "finishedAt": "2026-11-28T11:58:00Z"}}}]}}
---
{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "auth.1", "namespace": "default"}, "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "auth", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000062", "fieldPath": "spec.containers{main}"}, "type": "Warning", "reason": "Unhealthy", "message": "Readiness probe failed: HTTP probe failed with statuscode: 503", "source": {"component": "kubelet"}, "firstTimestamp": "2026-11-28T11:00:30Z", "lastTimestamp": "2026-11-28T11:58:00Z", "count": 12}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
"#,
        )],
        about: ("pod", "auth"),
        truth: Truth::Cause(
            Code::ContainerCrash,
            "ended with exit code 137",
            "owner of the container's program",
        ),
    },
    Story {
        question: 3,
        title: "the image pull secret has no credentials for the registry",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "ledger", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000063", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"nodeName": "node-1", "imagePullSecrets": [{"name": "regcred"}], "containers": [{"name": "main", "image": "registry/ledger:7"}]}, "status": {"phase": "Pending", "startTime": "2026-11-28T11:00:00Z", "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": false, "restartCount": 0, "image": "registry/ledger:7", "imageID": "", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image \"registry/ledger:7\": ErrImagePull: pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed"}}}]}}
---
{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "regcred", "namespace": "default"}, "type": "kubernetes.io/dockerconfigjson"}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
"#,
        )],
        about: ("pod", "ledger"),
        truth: Truth::Cause(
            Code::ImagePull,
            "the credentials are those of Secret default/regcred",
            "an entry for the image's registry",
        ),
    },
    Story {
        question: 1,
        title: "the container runtime of a ready node cannot end the container",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "render", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000064", "creationTimestamp": "2026-11-28T10:00:00Z", "deletionTimestamp": "2026-11-28T11:00:30Z", "deletionGracePeriodSeconds": 30}, "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "registry/render:7"}]}, "status": {"phase": "Running", "startTime": "2026-11-28T10:00:00Z", "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-28T10:00:10Z"}], "containerStatuses": [{"name": "main", "ready": true, "restartCount": 0, "image": "registry/render:7", "imageID": "", "state": {"running": {"startedAt": "2026-11-28T10:00:05Z"}}}]}}
---
{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "render.1", "namespace": "default"}, "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "render", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000064"}, "type": "Warning", "reason": "FailedKillPod", "message": "error killing pod: failed to \"KillContainer\" for \"main\" with KillContainerError: \"rpc error: code = DeadlineExceeded desc = context deadline exceeded\"", "source": {"component": "kubelet"}, "firstTimestamp": "2026-11-28T11:01:00Z", "lastTimestamp": "2026-11-28T11:59:00Z", "count": 30}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
"#,
        )],
        about: ("pod", "render"),
        truth: Truth::Cause(
            Code::KubeletSilent,
            "KillContainerError",
            "container runtime",
        ),
    },
    Story {
        question: 11,
        title: "the address pool of the load balancer is used up",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "front", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000065", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"type": "LoadBalancer", "clusterIP": "10.96.0.7", "ports": [{"port": 80}]}, "status": {"loadBalancer": {}}}
---
{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "front.1", "namespace": "default"}, "involvedObject": {"apiVersion": "v1", "kind": "Service", "name": "front", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000065"}, "type": "Warning", "reason": "AllocationFailed", "message": "Failed to allocate IP for \"default/front\": no available IPs", "source": {"component": "metallb-controller"}, "firstTimestamp": "2026-11-28T11:00:01Z", "lastTimestamp": "2026-11-28T11:59:00Z", "count": 3}
"#,
        )],
        about: ("service", "front"),
        truth: Truth::Cause(
            Code::LoadBalancerPending,
            "no available IPs",
            "operator of metallb-controller",
        ),
    },
    Story {
        question: 5,
        title: "the Service of serviceName does not exist, and the program looks for the name of its pod",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "broker", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000066", "generation": 1, "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"replicas": 3, "serviceName": "broker-nodes", "selector": {"matchLabels": {"app": "broker"}}, "updateStrategy": {"type": "RollingUpdate"}, "template": {"metadata": {"labels": {"app": "broker"}}, "spec": {"containers": [{"name": "main", "image": "registry/broker:7"}]}}}, "status": {"observedGeneration": 1, "replicas": 1, "currentReplicas": 1, "updatedReplicas": 1, "currentRevision": "broker-1", "updateRevision": "broker-1"}}
---
{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "broker-headless", "namespace": "default"}, "spec": {"clusterIP": "None", "selector": {"app": "broker"}, "ports": [{"port": 5672}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "broker-0", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000166", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "broker", "controller-revision-hash": "broker-1", "statefulset.kubernetes.io/pod-name": "broker-0", "apps.kubernetes.io/pod-index": "0"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "broker", "uid": "6d1f4c5e-0000-4000-8000-000000000066", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"nodeName": "node-1", "hostname": "broker-0", "subdomain": "broker-nodes", "containers": [{"name": "main", "image": "registry/broker:7"}]}, "status": {"phase": "Running", "startTime": "2026-11-28T11:00:00Z", "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "containers with unready status: [main]", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": false, "started": true, "restartCount": 0, "image": "registry/broker:7", "imageID": "", "state": {"running": {"startedAt": "2026-11-28T11:00:05Z"}}}]}}
---
{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "broker-0.1", "namespace": "default"}, "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "broker-0", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000166", "fieldPath": "spec.containers{main}"}, "type": "Warning", "reason": "Unhealthy", "message": "Readiness probe failed: the node is not up\n\nmost common reasons:\n * a firewall\n\nunable to reach broker-0.broker-nodes.default.svc.cluster.local: no such host\n", "source": {"component": "kubelet"}, "firstTimestamp": "2026-11-28T11:00:30Z", "lastTimestamp": "2026-11-28T11:59:00Z", "count": 300}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
"#,
        )],
        about: ("statefulset", "broker"),
        truth: Truth::Cause(
            Code::GoverningServiceMissing,
            "Service default/broker-nodes of spec.serviceName does not exist",
            "creator of Service default/broker-nodes",
        ),
    },
    Story {
        question: 5,
        title: "the Service of serviceName does not exist, and the program fails for another reason",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "broker", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000067", "generation": 1, "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"replicas": 3, "serviceName": "broker-nodes", "selector": {"matchLabels": {"app": "broker"}}, "updateStrategy": {"type": "RollingUpdate"}, "template": {"metadata": {"labels": {"app": "broker"}}, "spec": {"containers": [{"name": "main", "image": "registry/broker:7"}]}}}, "status": {"observedGeneration": 1, "replicas": 1, "currentReplicas": 1, "updatedReplicas": 1, "currentRevision": "broker-1", "updateRevision": "broker-1"}}
---
{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "broker-headless", "namespace": "default"}, "spec": {"clusterIP": "None", "selector": {"app": "broker"}, "ports": [{"port": 5672}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "broker-0", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000167", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "broker", "controller-revision-hash": "broker-1", "statefulset.kubernetes.io/pod-name": "broker-0", "apps.kubernetes.io/pod-index": "0"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "broker", "uid": "6d1f4c5e-0000-4000-8000-000000000067", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"nodeName": "node-1", "hostname": "broker-0", "subdomain": "broker-nodes", "containers": [{"name": "main", "image": "registry/broker:7"}]}, "status": {"phase": "Running", "startTime": "2026-11-28T11:00:00Z", "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "containers with unready status: [main]", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": false, "started": true, "restartCount": 0, "image": "registry/broker:7", "imageID": "", "state": {"running": {"startedAt": "2026-11-28T11:00:05Z"}}}]}}
---
{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "broker-0.1", "namespace": "default"}, "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "broker-0", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000167", "fieldPath": "spec.containers{main}"}, "type": "Warning", "reason": "Unhealthy", "message": "Readiness probe failed: HTTP probe failed with statuscode: 503", "source": {"component": "kubelet"}, "firstTimestamp": "2026-11-28T11:00:30Z", "lastTimestamp": "2026-11-28T11:59:00Z", "count": 300}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
"#,
        )],
        about: ("statefulset", "broker"),
        truth: Truth::Cause(
            Code::PodNotReady,
            "HTTP probe failed with statuscode: 503",
            "owner of the container's program",
        ),
    },
    Story {
        question: 2,
        title: "the selector of the scaled Deployment matches the pods of another one",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "catalog", "namespace": "default", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "catalog"}, "minReplicas": 2, "maxReplicas": 10, "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}}]}, "status": {"currentReplicas": 3, "desiredReplicas": 3, "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 61, "averageValue": "305m"}}}], "conditions": [{"type": "AbleToScale", "status": "True", "reason": "ReadyForNewScale", "message": "recommended size matches current size"}, {"type": "ScalingActive", "status": "True", "reason": "ValidMetricFound", "message": "the HPA was able to successfully calculate a replica count from cpu resource utilization (percentage of request)"}, {"type": "ScalingLimited", "status": "False", "reason": "DesiredWithinRange", "message": "the desired count is within the acceptable range"}]}}
---
{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "catalog", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000068", "generation": 1, "creationTimestamp": "2026-11-28T10:00:00Z"}, "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "catalog"}}, "template": {"metadata": {"labels": {"app": "catalog", "part": "api"}}, "spec": {"containers": [{"name": "main", "image": "registry/catalog:7"}]}}}, "status": {"observedGeneration": 1, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3, "availableReplicas": 3, "conditions": [{"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"}, {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}]}}
---
{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "indexer", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000069", "generation": 1, "creationTimestamp": "2026-11-28T10:00:00Z"}, "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "catalog", "part": "indexer"}}, "template": {"metadata": {"labels": {"app": "catalog", "part": "indexer"}}, "spec": {"containers": [{"name": "main", "image": "registry/indexer:7"}]}}}, "status": {"observedGeneration": 1, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3, "availableReplicas": 3, "conditions": [{"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"}, {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}]}}
"#,
        )],
        about: ("hpa", "catalog"),
        truth: Truth::Moves(Code::PodsOfOthers),
    },
];
