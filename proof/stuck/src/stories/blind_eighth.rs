//! The states of an eighth blind test in which `why` named half of the cause, or the wrong one to act.

use steersman_why::Code;

use crate::{Run, Step, Story, Truth};

pub(super) const STORIES: &[Story] = &[
    Story {
        question: 1,
        title: "a budget keeps a node that is being deleted",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-9", "uid": "6d1f4c5e-0000-4000-8000-000000000801", "creationTimestamp": "2026-11-28T11:00:00Z", "finalizers": ["karpenter.sh/termination"], "deletionTimestamp": "2026-11-28T11:10:00Z", "deletionGracePeriodSeconds": 0}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "front", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000802", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "front"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "front-1", "uid": "6d1f4c5e-0000-4000-8000-000000000803", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"containers": [{"name": "main", "image": "registry/app:7"}], "nodeName": "node-9"}, "status": {"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": true, "restartCount": 0, "image": "registry/app:7", "imageID": "", "state": {"running": {"startedAt": "2026-11-28T11:00:00Z"}}}], "startTime": "2026-11-28T11:00:00Z"}}
---
{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "front", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000804", "creationTimestamp": "2026-11-28T11:00:00Z", "generation": 1}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "front"}}}, "status": {"observedGeneration": 1, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1, "disruptionsAllowed": 0}}
"#,
        )],
        about: ("node", "node-9"),
        truth: Truth::Cause(
            Code::DisruptionBlocked,
            "1 of 1 pods must stay healthy",
            "owner of the budget",
        ),
    },
    Story {
        question: 3,
        title: "the image runs as root, and the template forbids it",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "api", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000805", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"containers": [{"name": "main", "image": "registry/app:7"}], "nodeName": "node-1"}, "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": false, "restartCount": 0, "image": "registry/app:7", "imageID": "", "state": {"waiting": {"reason": "CreateContainerConfigError", "message": "container has runAsNonRoot and image will run as root (pod: \"api_default\", container: main)"}}}], "startTime": "2026-11-28T11:00:00Z"}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "labels": {"topology.kubernetes.io/zone": "zone-a"}}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
"#,
        )],
        about: ("pod", "api"),
        truth: Truth::Cause(Code::ContainerConfig, "image will run as root", "runAsUser"),
    },
    Story {
        question: 9,
        title: "a folder that a daemon pod mounts is missing on one node",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "agent", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000806", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"containers": [{"name": "main", "image": "registry/app:7"}], "volumes": [{"name": "logs", "hostPath": {"path": "/var/lib/docker/containers", "type": "Directory"}}], "nodeName": "node-1"}, "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": false, "restartCount": 0, "image": "registry/app:7", "imageID": "", "state": {"waiting": {"reason": "ContainerCreating"}}}], "startTime": "2026-11-28T11:00:00Z"}}
---
{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "agent.6", "namespace": "default"}, "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "agent", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000806"}, "type": "Warning", "reason": "FailedMount", "message": "MountVolume.SetUp failed for volume \"logs\" : hostPath type check failed: /var/lib/docker/containers is not a directory", "source": {"component": "kubelet"}, "firstTimestamp": "2026-11-28T11:00:00Z", "lastTimestamp": "2026-11-28T11:59:00Z", "count": 20}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "labels": {"topology.kubernetes.io/zone": "zone-a"}}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
"#,
        )],
        about: ("pod", "agent"),
        truth: Truth::Cause(
            Code::VolumeMount,
            "is not a directory",
            "administrator of node node-1",
        ),
    },
    Story {
        question: 7,
        title: "the storage driver has no pod on a tainted node",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "efs-node", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000807", "creationTimestamp": "2026-11-28T11:00:00Z", "generation": 1}, "spec": {"selector": {"matchLabels": {"app": "efs"}}, "template": {"metadata": {"labels": {"app": "efs"}}, "spec": {"containers": [{"name": "main", "image": "registry/efs:1"}], "volumes": [{"name": "plugin", "hostPath": {"path": "/var/lib/kubelet/plugins/efs.csi.aws.com/"}}]}}}, "status": {"observedGeneration": 1}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}, "spec": {"taints": [{"key": "dedicated", "value": "research", "effect": "NoSchedule"}]}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "lab", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000808", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"containers": [{"name": "main", "image": "registry/app:7"}], "volumes": [{"name": "home", "persistentVolumeClaim": {"claimName": "home"}}], "nodeName": "node-1"}, "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": false, "restartCount": 0, "image": "registry/app:7", "imageID": "", "state": {"waiting": {"reason": "ContainerCreating"}}}], "startTime": "2026-11-28T11:00:00Z"}}
---
{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "lab.8", "namespace": "default"}, "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "lab", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000808"}, "type": "Warning", "reason": "FailedMount", "message": "MountVolume.MountDevice failed for volume \"efs-home\" : kubernetes.io/csi: attacher.MountDevice failed to create newCsiDriverClient: driver name efs.csi.aws.com not found in the list of registered CSI drivers", "source": {"component": "kubelet"}, "firstTimestamp": "2026-11-28T11:00:00Z", "lastTimestamp": "2026-11-28T11:59:00Z", "count": 20}
"#,
        )],
        about: ("pod", "lab"),
        truth: Truth::Cause(
            Code::VolumeMount,
            "DaemonSet default/efs-node, which registers the driver, has no pod on node-1: the pods do not tolerate the taint",
            "owner of DaemonSet default/efs-node",
        ),
    },
    Story {
        question: 4,
        title: "an image that is never pulled is not on the node",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "backup", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000809", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"containers": [{"name": "main", "image": "registry/app:7"}], "nodeName": "node-1"}, "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": false, "restartCount": 0, "image": "registry/app:7", "imageID": "", "state": {"waiting": {"reason": "ErrImageNeverPull", "message": "Container image \"registry/app:7\" is not present with pull policy of Never"}}}], "startTime": "2026-11-28T11:00:00Z"}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "labels": {"topology.kubernetes.io/zone": "zone-a"}}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
"#,
        )],
        about: ("pod", "backup"),
        truth: Truth::Cause(
            Code::ImagePull,
            "is not on the node (ErrImageNeverPull)",
            "imagePullPolicy",
        ),
    },
    Story {
        question: 12,
        title: "no device plugin reports the device that a pod asks for",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}, "status": {"allocatable": {"cpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000810", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"containers": [{"name": "main", "image": "registry/app:7", "resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}}}]}, "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
"#,
        )],
        about: ("pod", "train"),
        truth: Truth::Cause(
            Code::PodUnscheduled,
            "1 nvidia.com/gpu, which no device plugin reports on any node",
            "the device plugin",
        ),
    },
    Story {
        question: 2,
        title: "the adapter of custom metrics does not know the metric",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "shop", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000811", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}, "minReplicas": 2, "maxReplicas": 9, "metrics": [{"type": "Pods", "pods": {"metric": {"name": "http_requests_per_second"}, "target": {"type": "AverageValue", "averageValue": "10"}}}]}, "status": {"currentReplicas": 2, "desiredReplicas": 0, "conditions": [{"type": "AbleToScale", "status": "True", "reason": "SucceededGetScale", "message": "the HPA controller was able to get the target's current scale"}, {"type": "ScalingActive", "status": "False", "reason": "FailedGetPodsMetric", "message": "the HPA was unable to compute the replica count: unable to get metric http_requests_per_second: unable to fetch metrics from custom metrics API: the server could not find the metric http_requests_per_second for pods *", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
"#,
        )],
        about: ("hpa", "shop"),
        truth: Truth::Cause(
            Code::MetricsFailed,
            "could not find the metric",
            "owner of the autoscaler (name of the metric)",
        ),
    },
    Story {
        question: 11,
        title: "the controller of cloud load balancers finds no subnet",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "edge", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000812", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"type": "LoadBalancer", "clusterIP": "10.96.0.12", "ports": [{"port": 80}]}, "status": {"loadBalancer": {}}}
---
{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "edge.12", "namespace": "default"}, "involvedObject": {"apiVersion": "v1", "kind": "Service", "name": "edge", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000812"}, "type": "Warning", "reason": "FailedBuildModel", "message": "Failed build model due to unable to resolve at least one subnet (0 match VPC and tags: [kubernetes.io/role/elb])", "source": {"component": "service"}, "firstTimestamp": "2026-11-28T11:00:00Z", "lastTimestamp": "2026-11-28T11:59:00Z", "count": 20}
"#,
        )],
        about: ("service", "edge"),
        truth: Truth::Cause(
            Code::LoadBalancerPending,
            "unable to resolve at least one subnet",
            "administrator of the cloud account",
        ),
    },
];
