//! The states of the twelfth blind test in which `why` did not tell the whole cause, and states near them.

use steersman_why::Code;

use crate::{Run, Step, Story, Truth};

pub(super) const STORIES: &[Story] = &[
    Story {
        question: 3,
        title: "a subPath names a key that the ConfigMap lacks, and the image has a file there",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "uid": "6d1f4c5e-0000-4000-8000-000000001201", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-1"}}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
---
{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "portal-nginx", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001202", "creationTimestamp": "2026-11-28T11:00:00Z"}, "data": {"default.conf": "server {}"}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "portal-1", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001203", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "portal"}}, "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "registry/app:1", "volumeMounts": [{"name": "config", "mountPath": "/etc/nginx/conf.d/default.conf", "subPath": "nginx.conf"}]}], "volumes": [{"name": "config", "configMap": {"name": "portal-nginx"}}]}, "status": {"phase": "Running", "startTime": "2026-11-28T11:00:00Z", "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": false, "restartCount": 6, "image": "registry/app:1", "imageID": "", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}}, "lastState": {"terminated": {"exitCode": 128, "reason": "StartError", "finishedAt": "2026-11-28T11:58:00Z", "message": "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: error mounting \"/var/lib/kubelet/pods/x/volume-subpaths/config/nginx/0\" to rootfs at \"/etc/nginx/conf.d/default.conf\": not a directory: unknown: Are you trying to mount a directory onto a file (or vice-versa)? Check if the specified host path exists and is the expected type"}}}]}}
"#,
        )],
        about: ("pod", "portal-1"),
        truth: Truth::Cause(
            Code::ContainerCrash,
            "container main: its mount /etc/nginx/conf.d/default.conf (subPath nginx.conf of volume config) is an empty directory, because ConfigMap default/portal-nginx has no key nginx.conf (there is default.conf); it ended with exit code 128 (StartError)",
            "owner of the pod template (subPath of volume config), or owner of ConfigMap default/portal-nginx",
        ),
    },
    Story {
        question: 3,
        title: "a program reads a directory, because a subPath names a key that the Secret lacks",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "uid": "6d1f4c5e-0000-4000-8000-000000001204", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-1"}}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
---
{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mailer", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001205", "creationTimestamp": "2026-11-28T11:00:00Z"}, "data": {"smtp.yml": "eA=="}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "mailer-1", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001206", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "mailer"}}, "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "registry/app:1", "volumeMounts": [{"name": "config", "mountPath": "/app/smtp.yaml", "subPath": "smtp.yaml"}]}], "volumes": [{"name": "config", "secret": {"secretName": "mailer"}}]}, "status": {"phase": "Running", "startTime": "2026-11-28T11:00:00Z", "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": false, "restartCount": 6, "image": "registry/app:1", "imageID": "", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}}, "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": "2026-11-28T11:58:00Z", "message": "read /app/smtp.yaml: is a directory"}}}]}}
"#,
        )],
        about: ("pod", "mailer-1"),
        truth: Truth::Cause(
            Code::ContainerCrash,
            "because Secret default/mailer has no key smtp.yaml (there is smtp.yml); it ended with exit code 1 (Error): read /app/smtp.yaml: is a directory",
            "owner of Secret default/mailer (its keys); or owner of the container's program",
        ),
    },
    Story {
        question: 3,
        title: "a program fails, and the ConfigMap has the keys of its mounts",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "uid": "6d1f4c5e-0000-4000-8000-000000001207", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-1"}}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
---
{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ledger", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001208", "creationTimestamp": "2026-11-28T11:00:00Z"}, "data": {"app.yaml": "x"}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "ledger-1", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001209", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "ledger"}}, "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "registry/app:1", "volumeMounts": [{"name": "config", "mountPath": "/app/app.yaml", "subPath": "app.yaml"}]}], "volumes": [{"name": "config", "configMap": {"name": "ledger", "items": [{"key": "app.yaml", "path": "app.yaml"}]}}]}, "status": {"phase": "Running", "startTime": "2026-11-28T11:00:00Z", "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": false, "restartCount": 6, "image": "registry/app:1", "imageID": "", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}}, "lastState": {"terminated": {"exitCode": 2, "reason": "Error", "finishedAt": "2026-11-28T11:58:00Z", "message": "cannot reach the ledger"}}}]}}
"#,
        )],
        about: ("pod", "ledger-1"),
        truth: Truth::Cause(
            Code::ContainerCrash,
            "container main ended with exit code 2 (Error): cannot reach the ledger",
            "owner of the container's program",
        ),
    },
    Story {
        question: 3,
        title: "a variable names a key that the Secret lacks",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "uid": "6d1f4c5e-0000-4000-8000-000000001210", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-1"}}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
---
{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "orders-db", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001211", "creationTimestamp": "2026-11-28T11:00:00Z"}, "data": {"host": "eA==", "password": "eA=="}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "orders-1", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001212", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "orders"}}, "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "registry/app:1", "env": [{"name": "DATABASE_URL", "valueFrom": {"secretKeyRef": {"name": "orders-db", "key": "dsn"}}}]}]}, "status": {"phase": "Pending", "startTime": "2026-11-28T11:00:00Z", "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": false, "restartCount": 0, "image": "registry/app:1", "imageID": "", "state": {"waiting": {"reason": "CreateContainerConfigError", "message": "couldn't find key dsn in Secret default/orders-db"}}}]}}
"#,
        )],
        about: ("pod", "orders-1"),
        truth: Truth::Cause(
            Code::ContainerConfig,
            "Secret default/orders-db has no key dsn (there are host, password), which the variable DATABASE_URL asks for",
            "owner of Secret default/orders-db (key dsn), or owner of the pod template (env DATABASE_URL)",
        ),
    },
    Story {
        question: 3,
        title: "an item of a volume names a key that the ConfigMap lacks",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "uid": "6d1f4c5e-0000-4000-8000-000000001214", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-1"}}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
---
{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "search", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001215", "creationTimestamp": "2026-11-28T11:00:00Z"}, "data": {"stopwords.txt": "x"}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "search-1", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001213", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "search"}}, "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "registry/app:1", "volumeMounts": [{"name": "config", "mountPath": "/etc/search"}]}], "volumes": [{"name": "config", "configMap": {"name": "search", "items": [{"key": "synonyms.txt", "path": "synonyms.txt"}]}}]}, "status": {"phase": "Pending", "startTime": "2026-11-28T11:00:00Z", "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": false, "restartCount": 0, "image": "registry/app:1", "imageID": "", "state": {"waiting": {"reason": "ContainerCreating"}}}]}}
---
{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "search-1.failedmount", "namespace": "default", "creationTimestamp": "2026-11-28T11:50:00Z"}, "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "search-1", "uid": "6d1f4c5e-0000-4000-8000-000000001213"}, "reason": "FailedMount", "message": "MountVolume.SetUp failed for volume \"config\" : references non-existent config key: synonyms.txt", "type": "Warning", "count": 5, "firstTimestamp": "2026-11-28T11:50:00Z", "lastTimestamp": "2026-11-28T11:59:30Z", "source": {"component": "kubelet"}}
"#,
        )],
        about: ("pod", "search-1"),
        truth: Truth::Cause(
            Code::VolumeMount,
            "ConfigMap default/search has no key synonyms.txt (there is stopwords.txt), which an item of the volume asks for; its containers: main",
            "owner of ConfigMap default/search (key synonyms.txt), or owner of the pod template (items of volume config)",
        ),
    },
    Story {
        question: 3,
        title: "the requests of another workload fill the nodes of a pool",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a", "uid": "6d1f4c5e-0000-4000-8000-000000001216", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-a", "pool": "compute"}}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "64", "memory": "250Gi", "pods": "110"}}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-b", "uid": "6d1f4c5e-0000-4000-8000-000000001217", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-b", "pool": "compute"}}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "64", "memory": "250Gi", "pods": "110"}}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-c", "uid": "6d1f4c5e-0000-4000-8000-000000001218", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-c", "pool": "compute"}}, "spec": {"taints": [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "64", "memory": "250Gi", "pods": "110"}}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-d", "uid": "6d1f4c5e-0000-4000-8000-000000001219", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-d"}}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "64", "memory": "250Gi", "pods": "110"}}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "spark-77aa-1", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001220", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "spark", "pod-template-hash": "77aa"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "spark-77aa", "uid": "6d1f4c5e-0000-4000-8000-0000000077aa", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"nodeName": "node-a", "containers": [{"name": "main", "image": "registry/app:1", "resources": {"requests": {"memory": "230Gi"}}}]}, "status": {"phase": "Running", "startTime": "2026-11-28T11:00:00Z", "podIP": "10.0.0.7", "podIPs": [{"ip": "10.0.0.7"}], "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": true, "restartCount": 0, "image": "registry/app:1", "imageID": "", "state": {"running": {"startedAt": "2026-11-28T11:00:00Z"}}}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "spark-77aa-2", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001221", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "spark", "pod-template-hash": "77aa"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "spark-77aa", "uid": "6d1f4c5e-0000-4000-8000-0000000077aa", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"nodeName": "node-b", "containers": [{"name": "main", "image": "registry/app:1", "resources": {"requests": {"memory": "230Gi"}}}]}, "status": {"phase": "Running", "startTime": "2026-11-28T11:00:00Z", "podIP": "10.0.0.7", "podIPs": [{"ip": "10.0.0.7"}], "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": true, "restartCount": 0, "image": "registry/app:1", "imageID": "", "state": {"running": {"startedAt": "2026-11-28T11:00:00Z"}}}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "agent-1", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001222", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "agent"}}, "spec": {"nodeName": "node-b", "containers": [{"name": "main", "image": "registry/app:1", "resources": {"requests": {"memory": "1Gi"}}}]}, "status": {"phase": "Running", "startTime": "2026-11-28T11:00:00Z", "podIP": "10.0.0.7", "podIPs": [{"ip": "10.0.0.7"}], "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": true, "restartCount": 0, "image": "registry/app:1", "imageID": "", "state": {"running": {"startedAt": "2026-11-28T11:00:00Z"}}}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "risk-1", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001223", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "risk"}}, "spec": {"nodeSelector": {"pool": "compute"}, "containers": [{"name": "main", "image": "registry/app:1", "resources": {"requests": {"memory": "48Gi"}}}]}, "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/4 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint(s), 2 Insufficient memory. preemption: 0/4 nodes are available: 2 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling.", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
"#,
        )],
        about: ("pod", "risk-1"),
        truth: Truth::Cause(
            Code::PodUnscheduled,
            "the 2 nodes that admit it (node-a, node-b) have 500Gi memory, and their pods request 461Gi: 460Gi of deployment default/spark, 1Gi of pod default/agent-1; at most 20Gi is left on one of them",
            "owner of pod default/risk-1 (requests), administrator of the nodes (one more), or owners of deployment default/spark, pod default/agent-1",
        ),
    },
    Story {
        question: 1,
        title: "the cloud cannot delete the load balancer of a deleted Service",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "b2b", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001224", "creationTimestamp": "2026-11-28T11:00:00Z", "deletionTimestamp": "2026-11-28T11:40:00Z", "deletionGracePeriodSeconds": 0, "finalizers": ["service.kubernetes.io/load-balancer-cleanup"]}, "spec": {"type": "LoadBalancer", "clusterIP": "10.96.0.40", "selector": {"app": "b2b"}, "ports": [{"name": "https", "port": 443, "targetPort": 8443, "protocol": "TCP"}]}, "status": {"loadBalancer": {"ingress": [{"hostname": "b2b.elb.example.com"}]}}}
---
{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "b2b.deletingloadbalancer", "namespace": "default", "creationTimestamp": "2026-11-28T11:50:00Z"}, "involvedObject": {"apiVersion": "v1", "kind": "Service", "namespace": "default", "name": "b2b", "uid": "6d1f4c5e-0000-4000-8000-000000001224"}, "reason": "DeletingLoadBalancer", "message": "Deleting load balancer", "type": "Normal", "count": 5, "firstTimestamp": "2026-11-28T11:50:00Z", "lastTimestamp": "2026-11-28T11:59:30Z", "source": {"component": "service-controller"}}
---
{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "b2b.syncloadbalancerfailed", "namespace": "default", "creationTimestamp": "2026-11-28T11:50:00Z"}, "involvedObject": {"apiVersion": "v1", "kind": "Service", "namespace": "default", "name": "b2b", "uid": "6d1f4c5e-0000-4000-8000-000000001224"}, "reason": "SyncLoadBalancerFailed", "message": "Error syncing load balancer: failed to delete load balancer: timed out deleting ELB: b2b. Could not delete security groups sg-0b7c", "type": "Warning", "count": 5, "firstTimestamp": "2026-11-28T11:50:00Z", "lastTimestamp": "2026-11-28T11:39:58Z", "source": {"component": "service-controller"}}
"#,
        )],
        about: ("service", "b2b"),
        truth: Truth::Cause(
            Code::ForeignFinalizer,
            "timed out deleting ELB: b2b. Could not delete security groups sg-0b7c",
            "administrator of the cloud account, by these words; or operator of cloud-controller-manager; without the finalizer, the load balancer stays",
        ),
    },
    Story {
        question: 1,
        title: "the cloud deletes the load balancer of a deleted Service, and an old failure was about its nodes",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "depot", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001225", "creationTimestamp": "2026-11-28T11:00:00Z", "deletionTimestamp": "2026-11-28T11:40:00Z", "deletionGracePeriodSeconds": 0, "finalizers": ["service.kubernetes.io/load-balancer-cleanup"]}, "spec": {"type": "LoadBalancer", "clusterIP": "10.96.0.40", "selector": {"app": "b2b"}, "ports": [{"name": "https", "port": 443, "targetPort": 8443, "protocol": "TCP"}]}, "status": {"loadBalancer": {"ingress": [{"hostname": "b2b.elb.example.com"}]}}}
---
{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "depot.unavailableloadbalancer", "namespace": "default", "creationTimestamp": "2026-11-28T11:50:00Z"}, "involvedObject": {"apiVersion": "v1", "kind": "Service", "namespace": "default", "name": "depot", "uid": "6d1f4c5e-0000-4000-8000-000000001225"}, "reason": "UnAvailableLoadBalancer", "message": "There are no available nodes for LoadBalancer", "type": "Warning", "count": 5, "firstTimestamp": "2026-11-28T11:50:00Z", "lastTimestamp": "2026-11-28T11:20:00Z", "source": {"component": "service-controller"}}
---
{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "depot.deletingloadbalancer", "namespace": "default", "creationTimestamp": "2026-11-28T11:50:00Z"}, "involvedObject": {"apiVersion": "v1", "kind": "Service", "namespace": "default", "name": "depot", "uid": "6d1f4c5e-0000-4000-8000-000000001225"}, "reason": "DeletingLoadBalancer", "message": "Deleting load balancer", "type": "Normal", "count": 5, "firstTimestamp": "2026-11-28T11:50:00Z", "lastTimestamp": "2026-11-28T11:59:30Z", "source": {"component": "service-controller"}}
"#,
        )],
        about: ("service", "depot"),
        truth: Truth::Cause(
            Code::ForeignFinalizer,
            "is left; no controller of this manager removes it; service-controller: DeletingLoadBalancer: Deleting load balancer",
            "administrator of the cloud account",
        ),
    },
    Story {
        question: 14,
        title: "the network plugin of a ready node crashes, and its condition keeps pods away",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-5", "uid": "6d1f4c5e-0000-4000-8000-000000001227", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-5"}}, "spec": {"taints": [{"key": "node.kubernetes.io/network-unavailable", "effect": "NoSchedule"}]}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "NetworkUnavailable", "status": "True", "reason": "CalicoIsDown", "message": "Calico is shutting down on this node", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
---
{"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "calico-node", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001226", "creationTimestamp": "2026-11-28T11:00:00Z", "generation": 1}, "spec": {"selector": {"matchLabels": {"k8s-app": "calico-node"}}, "template": {"metadata": {"labels": {"k8s-app": "calico-node"}}, "spec": {"tolerations": [{"operator": "Exists"}], "containers": [{"name": "calico-node", "image": "calico/node:v3"}]}}}, "status": {"observedGeneration": 1, "currentNumberScheduled": 1, "desiredNumberScheduled": 1, "numberMisscheduled": 0, "numberReady": 0}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "calico-node-b", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001228", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"k8s-app": "calico-node"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "calico-node", "uid": "6d1f4c5e-0000-4000-8000-000000001226", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"nodeName": "node-5", "containers": [{"name": "calico-node", "image": "calico/node:v3"}], "tolerations": [{"operator": "Exists"}]}, "status": {"phase": "Running", "startTime": "2026-11-28T11:00:00Z", "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "calico-node", "ready": false, "restartCount": 6, "image": "calico/node:v3", "imageID": "", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}}, "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": "2026-11-28T11:58:00Z", "message": "no interface eth0"}}}]}}
"#,
        )],
        about: ("node", "node-5"),
        truth: Truth::Cause(
            Code::NodePressure,
            "NetworkUnavailable is True (CalicoIsDown): Calico is shutting down on this node; the node takes no new pods as long as it lasts; the pod of DaemonSet default/calico-node, which installs the network plugin, does not run",
            "",
        ),
    },
    Story {
        question: 14,
        title: "the cloud has made no route to a node yet",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-5", "uid": "6d1f4c5e-0000-4000-8000-000000001230", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-5"}}, "spec": {"taints": [{"key": "node.kubernetes.io/network-unavailable", "effect": "NoSchedule"}]}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "NetworkUnavailable", "status": "True", "reason": "NoRouteCreated", "message": "Node created without a route", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
---
{"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "calico-node", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001229", "creationTimestamp": "2026-11-28T11:00:00Z", "generation": 1}, "spec": {"selector": {"matchLabels": {"k8s-app": "calico-node"}}, "template": {"metadata": {"labels": {"k8s-app": "calico-node"}}, "spec": {"tolerations": [{"operator": "Exists"}], "containers": [{"name": "calico-node", "image": "calico/node:v3"}]}}}, "status": {"observedGeneration": 1, "currentNumberScheduled": 1, "desiredNumberScheduled": 1, "numberMisscheduled": 0, "numberReady": 0}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "calico-node-b", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001231", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"k8s-app": "calico-node"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "calico-node", "uid": "6d1f4c5e-0000-4000-8000-000000001229", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"nodeName": "node-5", "containers": [{"name": "calico-node", "image": "calico/node:v3"}], "tolerations": [{"operator": "Exists"}]}, "status": {"phase": "Running", "startTime": "2026-11-28T11:00:00Z", "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "calico-node", "ready": false, "restartCount": 6, "image": "calico/node:v3", "imageID": "", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}}, "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": "2026-11-28T11:58:00Z", "message": "no interface eth0"}}}]}}
"#,
        )],
        about: ("node", "node-5"),
        truth: Truth::Cause(
            Code::NodePressure,
            "Node created without a route",
            "administrator of node node-5, or operator of its network plugin or of the routes of the cloud",
        ),
    },
    Story {
        question: 11,
        title: "no container declares the target port of the Service",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "uid": "6d1f4c5e-0000-4000-8000-000000001233", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-1"}}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
---
{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "points", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001234", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"type": "ClusterIP", "clusterIP": "10.96.0.41", "selector": {"app": "points"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}]}}
---
{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "metadata": {"name": "points-1", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001235", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/service-name": "points"}}, "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}], "endpoints": [{"addresses": ["10.0.0.7"], "conditions": {"ready": true}, "targetRef": {"kind": "Pod", "namespace": "default", "name": "points-1", "uid": "6d1f4c5e-0000-4000-8000-000000001232"}}]}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "points-1", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001232", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "points"}}, "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "registry/app:1", "ports": [{"name": "http", "containerPort": 3000, "protocol": "TCP"}]}]}, "status": {"phase": "Running", "startTime": "2026-11-28T11:00:00Z", "podIP": "10.0.0.7", "podIPs": [{"ip": "10.0.0.7"}], "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": true, "restartCount": 0, "image": "registry/app:1", "imageID": "", "state": {"running": {"startedAt": "2026-11-28T11:00:00Z"}}}]}}
"#,
        )],
        about: ("service", "points"),
        truth: Truth::Moves(Code::PortUndeclared),
    },
    Story {
        question: 11,
        title: "the EndpointSlice of a Service whose pod is not ready",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "uid": "6d1f4c5e-0000-4000-8000-000000001238", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-1"}}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
---
{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "stock", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001239", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"type": "ClusterIP", "clusterIP": "10.96.0.42", "selector": {"app": "stock"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}]}}
---
{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "metadata": {"name": "stock-1", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001237", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/service-name": "stock"}}, "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}], "endpoints": [{"addresses": ["10.0.0.7"], "conditions": {"ready": false}, "targetRef": {"kind": "Pod", "namespace": "default", "name": "stock-7", "uid": "6d1f4c5e-0000-4000-8000-000000001236"}}]}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stock-7", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001236", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "stock"}}, "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "registry/app:1"}]}, "status": {"phase": "Running", "startTime": "2026-11-28T11:00:00Z", "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": false, "restartCount": 6, "image": "registry/app:1", "imageID": "", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}}, "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": "2026-11-28T11:58:00Z", "message": "no database"}}}], "podIP": "10.0.0.7", "podIPs": [{"ip": "10.0.0.7"}]}}
"#,
        )],
        about: ("endpointslice", "stock-1"),
        truth: Truth::Cause(
            Code::ContainerCrash,
            "container main ended with exit code 1 (Error): no database",
            "owner of the container's program",
        ),
    },
    Story {
        question: 2,
        title: "the memory asks for the current size, which the idle CPU alone would lower",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "pricing", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001240", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "pricing"}, "minReplicas": 2, "maxReplicas": 12, "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}}, {"type": "Resource", "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 80}}}]}, "status": {"currentReplicas": 5, "desiredReplicas": 5, "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 3, "averageValue": "1"}}}, {"type": "Resource", "resource": {"name": "memory", "current": {"averageUtilization": 70, "averageValue": "1"}}}], "conditions": [{"type": "AbleToScale", "status": "True", "reason": "ReadyForNewScale", "message": "recommended size matches current size", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "ScalingActive", "status": "True", "reason": "ValidMetricFound", "message": "the HPA was able to successfully calculate a replica count from memory resource utilization (percentage of request)", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "ScalingLimited", "status": "False", "reason": "DesiredWithinRange", "message": "the desired count is within the acceptable range", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
"#,
        )],
        about: ("hpa", "pricing"),
        truth: Truth::Moves(Code::MetricHolds),
    },
    Story {
        question: 11,
        title: "the listener of a Gateway takes only routes of its own namespace",
        run: Run::Nothing,
        steps: &[
            Step::Apply(concat!(
                crd!(
                    "gateway.networking.k8s.io",
                    "HTTPRoute",
                    "httproutes",
                    "Namespaced"
                ),
                crd!(
                    "gateway.networking.k8s.io",
                    "Gateway",
                    "gateways",
                    "Namespaced"
                ),
            )),
            Step::Wait(5),
            Step::Load(
                r#"{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "public", "namespace": "edge", "uid": "6d1f4c5e-0000-4000-8000-000000001241", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"gatewayClassName": "envoy", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": "Same"}}}]}, "status": {"conditions": [{"type": "Accepted", "status": "True", "reason": "Accepted", "message": "", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "Programmed", "status": "True", "reason": "Programmed", "message": "", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
---
{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": "magazine", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001242", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"parentRefs": [{"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "public", "namespace": "edge"}], "rules": []}, "status": {"parents": [{"parentRef": {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "public", "namespace": "edge"}, "controllerName": "gateway.envoyproxy.io/gatewayclass-controller", "conditions": [{"type": "Accepted", "status": "False", "reason": "NotAllowedByListeners", "message": "No listeners included by this parent ref allowed this attachment.", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}]}}
"#,
            ),
        ],
        about: ("httproute", "magazine"),
        truth: Truth::Cause(
            Code::ConditionBad,
            "No listeners included by this parent ref allowed this attachment; listener http takes routes of namespace edge alone (allowedRoutes.namespaces.from: Same)",
            "owner of Gateway edge/public (allowedRoutes)",
        ),
    },
    Story {
        question: 11,
        title: "the namespace of a route lacks the label that the listener of a Gateway asks for",
        run: Run::Nothing,
        steps: &[
            Step::Apply(concat!(
                crd!(
                    "gateway.networking.k8s.io",
                    "HTTPRoute",
                    "httproutes",
                    "Namespaced"
                ),
                crd!(
                    "gateway.networking.k8s.io",
                    "Gateway",
                    "gateways",
                    "Namespaced"
                ),
            )),
            Step::Wait(5),
            Step::Load(
                r#"{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "public", "namespace": "edge", "uid": "6d1f4c5e-0000-4000-8000-000000001243", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"gatewayClassName": "envoy", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": "Selector", "selector": {"matchLabels": {"edge": "public"}}}}}]}, "status": {"conditions": [{"type": "Accepted", "status": "True", "reason": "Accepted", "message": "", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "Programmed", "status": "True", "reason": "Programmed", "message": "", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
---
{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": "press", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001244", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"parentRefs": [{"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "public", "namespace": "edge"}], "rules": []}, "status": {"parents": [{"parentRef": {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "public", "namespace": "edge"}, "controllerName": "gateway.envoyproxy.io/gatewayclass-controller", "conditions": [{"type": "Accepted", "status": "False", "reason": "NotAllowedByListeners", "message": "No listeners included by this parent ref allowed this attachment.", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}]}}
"#,
            ),
        ],
        about: ("httproute", "press"),
        truth: Truth::Cause(
            Code::ConditionBad,
            "listener http takes routes of namespaces with edge=public alone (allowedRoutes.namespaces.from: Selector), and namespace default is none of them",
            "owner of Gateway edge/public (allowedRoutes), or owner of namespace default (its labels)",
        ),
    },
];
