//! The states of the thirteenth blind test in which `why` did not tell the whole cause, and states near them.

use steersman_why::Code;

use crate::{Run, Step, Story, Truth};

pub(super) const STORIES: &[Story] = &[
    Story {
        question: 11,
        title: "the Secret of an Ingress is in another namespace",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "portal", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001301", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"ingressClassName": "nginx", "tls": [{"hosts": ["portal.example.com"], "secretName": "wildcard"}], "rules": []}, "status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.9"}]}}}
---
{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "wildcard", "namespace": "ingress-nginx", "uid": "6d1f4c5e-0000-4000-8000-000000001302", "creationTimestamp": "2026-11-28T11:00:00Z"}, "type": "kubernetes.io/tls", "data": {"tls.crt": "eA==", "tls.key": "eA=="}}
"#,
        )],
        about: ("ingress", "portal"),
        truth: Truth::Cause(
            Code::CertificateMissing,
            "Secret default/wildcard of spec.tls does not exist; one of this name is in namespace ingress-nginx, and an Ingress uses the Secrets of its own namespace alone",
            "creator of Secret default/wildcard, or owner of the Ingress (spec.tls)",
        ),
    },
    Story {
        question: 11,
        title: "the Secret of an Ingress has no private key",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "press", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001303", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"ingressClassName": "nginx", "tls": [{"hosts": ["press.example.com"], "secretName": "press-tls"}], "rules": []}, "status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.9"}]}}}
---
{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "press-tls", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001304", "creationTimestamp": "2026-11-28T11:00:00Z"}, "type": "Opaque", "data": {"ca.crt": "eA==", "tls.crt": "eA=="}}
"#,
        )],
        about: ("ingress", "press"),
        truth: Truth::Cause(
            Code::CertificateMissing,
            "Secret default/press-tls of spec.tls has no key tls.key (there are ca.crt, tls.crt)",
            "owner of Secret default/press-tls",
        ),
    },
    Story {
        question: 11,
        title: "the Secret of an Ingress has its certificate",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "blog", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001305", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"ingressClassName": "nginx", "tls": [{"hosts": ["blog.example.com"], "secretName": "blog-tls"}], "rules": []}, "status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.9"}]}}}
---
{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "blog-tls", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001306", "creationTimestamp": "2026-11-28T11:00:00Z"}, "type": "kubernetes.io/tls", "data": {"tls.crt": "eA==", "tls.key": "eA=="}}
"#,
        )],
        about: ("ingress", "blog"),
        truth: Truth::Fine,
    },
    Story {
        question: 4,
        title: "the last Job of a CronJob lacks a right, and a RoleBinding names the account of another namespace",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "uid": "6d1f4c5e-0000-4000-8000-000000001309", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-1"}}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
---
{"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "restart", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001307", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"schedule": "13 10 * * *", "concurrencyPolicy": "Allow", "suspend": false, "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1, "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "registry/app:1"}]}}}}}, "status": {"lastScheduleTime": "2026-11-28T10:13:00Z"}}
---
{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "restart-1", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001308", "creationTimestamp": "2026-11-28T10:13:00Z", "ownerReferences": [{"apiVersion": "batch/v1", "kind": "CronJob", "name": "restart", "uid": "6d1f4c5e-0000-4000-8000-000000001307", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"completions": 1, "parallelism": 1, "backoffLimit": 0, "completionMode": "NonIndexed", "suspend": false, "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "6d1f4c5e-0000-4000-8000-000000001308"}}, "template": {"metadata": {"labels": {"batch.kubernetes.io/controller-uid": "6d1f4c5e-0000-4000-8000-000000001308"}}, "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "registry/app:1"}]}}}, "status": {"conditions": [{"type": "FailureTarget", "status": "True", "reason": "BackoffLimitExceeded", "message": "Job has reached the specified backoff limit", "lastTransitionTime": "2026-11-28T10:13:00Z"}, {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "Job has reached the specified backoff limit", "lastTransitionTime": "2026-11-28T10:13:00Z"}], "startTime": "2026-11-28T10:13:00Z", "uncountedTerminatedPods": {}, "failed": 1}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "restart-1-a", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001310", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "restart-1"}, "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "restart-1", "uid": "6d1f4c5e-0000-4000-8000-000000001308", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"nodeName": "node-1", "restartPolicy": "Never", "containers": [{"name": "main", "image": "registry/app:1"}]}, "status": {"phase": "Failed", "startTime": "2026-11-28T11:00:00Z", "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "Ready", "status": "False", "reason": "PodFailed", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": false, "restartCount": 0, "image": "registry/app:1", "imageID": "", "state": {"terminated": {"exitCode": 1, "reason": "Error", "message": "Error from server (Forbidden): deployments.apps \"catalog\" is forbidden: User \"system:serviceaccount:default:restarter\" cannot get resource \"deployments\" in API group \"apps\" in the namespace \"default\"", "finishedAt": "2026-11-28T10:14:00Z"}}}]}}
---
{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "restarter", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001311", "creationTimestamp": "2026-11-28T11:00:00Z"}, "subjects": [{"kind": "ServiceAccount", "name": "restarter", "namespace": "shop"}], "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "restarter"}}
"#,
        )],
        about: ("cronjob", "restart"),
        truth: Truth::Cause(
            Code::PodFailed,
            "RoleBinding default/restarter (Role restarter) names ServiceAccount shop/restarter, and the account is default/restarter",
            "owner of RoleBinding default/restarter (namespace of its subject), or administrator of the RBAC rules (ServiceAccount default/restarter: get deployments in namespace default)",
        ),
    },
    Story {
        question: 4,
        title: "the last Job of a CronJob is complete, and an older one has failed",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "report", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001312", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"schedule": "13 10 * * *", "concurrencyPolicy": "Allow", "suspend": false, "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1, "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "registry/app:1"}]}}}}}, "status": {"lastScheduleTime": "2026-11-28T10:13:00Z"}}
---
{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "report-1", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001313", "creationTimestamp": "2026-11-27T10:13:00Z", "ownerReferences": [{"apiVersion": "batch/v1", "kind": "CronJob", "name": "report", "uid": "6d1f4c5e-0000-4000-8000-000000001312", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"completions": 1, "parallelism": 1, "backoffLimit": 0, "completionMode": "NonIndexed", "suspend": false, "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "6d1f4c5e-0000-4000-8000-000000001313"}}, "template": {"metadata": {"labels": {"batch.kubernetes.io/controller-uid": "6d1f4c5e-0000-4000-8000-000000001313"}}, "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "registry/app:1"}]}}}, "status": {"conditions": [{"type": "FailureTarget", "status": "True", "reason": "BackoffLimitExceeded", "message": "Job has reached the specified backoff limit", "lastTransitionTime": "2026-11-27T10:13:00Z"}, {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "Job has reached the specified backoff limit", "lastTransitionTime": "2026-11-27T10:13:00Z"}], "startTime": "2026-11-27T10:13:00Z", "uncountedTerminatedPods": {}, "failed": 1}}
---
{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "report-2", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001314", "creationTimestamp": "2026-11-28T10:13:00Z", "ownerReferences": [{"apiVersion": "batch/v1", "kind": "CronJob", "name": "report", "uid": "6d1f4c5e-0000-4000-8000-000000001312", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"completions": 1, "parallelism": 1, "backoffLimit": 0, "completionMode": "NonIndexed", "suspend": false, "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "6d1f4c5e-0000-4000-8000-000000001314"}}, "template": {"metadata": {"labels": {"batch.kubernetes.io/controller-uid": "6d1f4c5e-0000-4000-8000-000000001314"}}, "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "registry/app:1"}]}}}, "status": {"conditions": [{"type": "SuccessCriteriaMet", "status": "True", "reason": "CompletionsReached", "message": "", "lastTransitionTime": "2026-11-28T10:13:00Z"}, {"type": "Complete", "status": "True", "reason": "CompletionsReached", "message": "", "lastTransitionTime": "2026-11-28T10:13:00Z"}], "startTime": "2026-11-28T10:13:00Z", "uncountedTerminatedPods": {}, "succeeded": 1, "completionTime": "2026-11-28T10:13:00Z"}}
"#,
        )],
        about: ("cronjob", "report"),
        truth: Truth::Moves(Code::NextRun),
    },
    Story {
        question: 3,
        title: "no NetworkPolicy of a pod opens its way to the DNS",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "uid": "6d1f4c5e-0000-4000-8000-000000001315", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-1"}}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
---
{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "kube-dns", "namespace": "kube-system", "uid": "6d1f4c5e-0000-4000-8000-000000001316", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10"], "ports": [{"name": "dns", "port": 53, "targetPort": 1053, "protocol": "UDP"}], "selector": {"k8s-app": "kube-dns"}}}
---
{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "metadata": {"name": "kube-dns-1", "namespace": "kube-system", "uid": "6d1f4c5e-0000-4000-8000-000000001317", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/service-name": "kube-dns"}}, "ports": [{"name": "dns", "port": 1053, "protocol": "UDP"}], "endpoints": [{"addresses": ["10.0.0.9"], "conditions": {"ready": true}}]}
---
{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "default-deny", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001318", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"podSelector": {}, "policyTypes": ["Egress"]}}
---
{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "order", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001319", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"podSelector": {"matchLabels": {"app": "order"}}, "policyTypes": ["Egress"], "egress": [{"to": [{"podSelector": {"matchLabels": {"app": "order-db"}}}], "ports": [{"protocol": "TCP", "port": 5432}]}]}}
---
{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "other", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001320", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"podSelector": {"matchLabels": {"app": "other"}}, "policyTypes": ["Egress"], "egress": [{}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "order-1", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001321", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "order"}}, "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "registry/app:1"}]}, "status": {"phase": "Running", "startTime": "2026-11-28T11:00:00Z", "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": false, "restartCount": 6, "image": "registry/app:1", "imageID": "", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}}, "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": "2026-11-28T11:58:00Z", "message": "hostname resolving error: lookup order-db on 10.96.0.10:53: read udp 10.1.0.12:52820->10.96.0.10:53: i/o timeout"}}}]}}
"#,
        )],
        about: ("pod", "order-1"),
        truth: Truth::Cause(
            Code::ContainerCrash,
            "i/o timeout; the NetworkPolicies of the pod close its egress, and none of them (default-deny, order) opens port 53/UDP; it was restarted 6 times",
            "owner of NetworkPolicy default-deny, order in default (egress to port 53/UDP)",
        ),
    },
    Story {
        question: 3,
        title: "the DNS does not answer, and a NetworkPolicy opens the port of its pods",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "uid": "6d1f4c5e-0000-4000-8000-000000001322", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-1"}}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
---
{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "kube-dns", "namespace": "kube-system", "uid": "6d1f4c5e-0000-4000-8000-000000001323", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10"], "ports": [{"name": "dns", "port": 53, "targetPort": 1053, "protocol": "UDP"}], "selector": {"k8s-app": "kube-dns"}}}
---
{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "metadata": {"name": "kube-dns-1", "namespace": "kube-system", "uid": "6d1f4c5e-0000-4000-8000-000000001324", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/service-name": "kube-dns"}}, "ports": [{"name": "dns", "port": 1053, "protocol": "UDP"}], "endpoints": [{"addresses": ["10.0.0.9"], "conditions": {"ready": true}}]}
---
{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "default-deny", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001325", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"podSelector": {}, "policyTypes": ["Egress"]}}
---
{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "dns", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001326", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"podSelector": {}, "policyTypes": ["Egress"], "egress": [{"ports": [{"protocol": "UDP", "port": 1053}]}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stock-1", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001327", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "stock"}}, "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "registry/app:1"}]}, "status": {"phase": "Running", "startTime": "2026-11-28T11:00:00Z", "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": false, "restartCount": 6, "image": "registry/app:1", "imageID": "", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}}, "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": "2026-11-28T11:58:00Z", "message": "hostname resolving error: lookup order-db on 10.96.0.10:53: read udp 10.1.0.12:52820->10.96.0.10:53: i/o timeout"}}}]}}
"#,
        )],
        about: ("pod", "stock-1"),
        truth: Truth::Cause(
            Code::ContainerCrash,
            "i/o timeout; it was restarted 6 times",
            "owner of the container's program",
        ),
    },
    Story {
        question: 13,
        title: "the snapshot for a claim is in another namespace",
        run: Run::Nothing,
        steps: &[
            Step::Apply(concat!(crd!(
                "snapshot.storage.k8s.io",
                "VolumeSnapshot",
                "volumesnapshots",
                "Namespaced"
            ),)),
            Step::Wait(5),
            Step::Load(
                r#"{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "ebs", "uid": "6d1f4c5e-0000-4000-8000-000000001399", "creationTimestamp": "2026-11-28T11:00:00Z"}, "provisioner": "ebs.csi.aws.com", "volumeBindingMode": "Immediate", "reclaimPolicy": "Delete"}
---
{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "restore", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001328", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}, "storageClassName": "ebs", "dataSource": {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "nightly"}, "dataSourceRef": {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "nightly"}}, "status": {"phase": "Pending"}}
---
{"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot", "metadata": {"name": "nightly", "namespace": "crm", "uid": "6d1f4c5e-0000-4000-8000-000000001329", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"source": {"persistentVolumeClaimName": "data"}}, "status": {"readyToUse": true}}
"#,
            ),
        ],
        about: ("pvc", "restore"),
        truth: Truth::Cause(
            Code::SourceMissing,
            "spec.dataSourceRef names VolumeSnapshot default/nightly, which does not exist; one of this name is in namespace crm",
            "owner of the claim (spec.dataSourceRef), or creator of VolumeSnapshot default/nightly",
        ),
    },
    Story {
        question: 9,
        title: "the image has no variant for the architecture of a node",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-7", "uid": "6d1f4c5e-0000-4000-8000-000000001330", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-7", "kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64"}}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "inventory-7", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001331", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "inventory"}}, "spec": {"nodeName": "node-7", "containers": [{"name": "main", "image": "registry/app:1"}]}, "status": {"phase": "Pending", "startTime": "2026-11-28T11:00:00Z", "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": false, "restartCount": 0, "image": "registry/app:1", "imageID": "", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image \"registry/app:1\": ErrImagePull: rpc error: code = NotFound desc = failed to pull and unpack image \"registry/app:1\": no match for platform in manifest: not found"}}}]}}
"#,
        )],
        about: ("pod", "inventory-7"),
        truth: Truth::Cause(
            Code::ImagePull,
            "no match for platform in manifest: not found; node node-7 is linux/arm64",
            "owner of the image (a build for linux/arm64), or owner of the pod template (nodeSelector kubernetes.io/arch)",
        ),
    },
    Story {
        question: 3,
        title: "the file system of the container runtime is read-only on one node",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-5", "uid": "6d1f4c5e-0000-4000-8000-000000001333", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"kubernetes.io/hostname": "node-5"}}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "ReadonlyFilesystem", "status": "True", "reason": "FilesystemIsReadOnly", "message": "EXT4-fs (nvme1n1): Remounting filesystem read-only", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pdf-1", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001332", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "pdf"}}, "spec": {"nodeName": "node-5", "containers": [{"name": "main", "image": "registry/app:1"}]}, "status": {"phase": "Pending", "startTime": "2026-11-28T11:00:00Z", "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": false, "restartCount": 0, "image": "registry/app:1", "imageID": "", "state": {"waiting": {"reason": "ContainerCreating"}}}]}}
---
{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "pdf-1.failedcreatepodsandbox", "namespace": "default", "creationTimestamp": "2026-11-28T11:50:00Z"}, "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "pdf-1", "uid": "6d1f4c5e-0000-4000-8000-000000001332"}, "reason": "FailedCreatePodSandBox", "message": "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to create containerd container: mkdir /var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/91: read-only file system", "type": "Warning", "count": 5, "firstTimestamp": "2026-11-28T11:50:00Z", "lastTimestamp": "2026-11-28T11:59:30Z", "source": {"component": "kubelet"}}
"#,
        )],
        about: ("pod", "pdf-1"),
        truth: Truth::Cause(
            Code::SandboxFailed,
            "read-only file system; the node is node-5; ReadonlyFilesystem of node-5 is True (FilesystemIsReadOnly): EXT4-fs (nvme1n1): Remounting filesystem read-only",
            "administrator of node node-5 (its disk and file system)",
        ),
    },
    Story {
        question: 2,
        title: "a trigger of a ScaledObject cannot log in",
        run: Run::Nothing,
        steps: &[
            Step::Apply(concat!(
                crd!("keda.sh", "ScaledObject", "scaledobjects", "Namespaced"),
                crd!(
                    "keda.sh",
                    "TriggerAuthentication",
                    "triggerauthentications",
                    "Namespaced"
                ),
            )),
            Step::Wait(5),
            Step::Load(
                r#"{"apiVersion": "keda.sh/v1", "kind": "ScaledObject", "metadata": {"name": "outbox", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001334", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"scaleTargetRef": {"name": "outbox"}, "triggers": [{"type": "rabbitmq", "authenticationRef": {"name": "rabbitmq"}}]}, "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "TriggerError", "message": "Triggers defined in ScaledObject are not working correctly", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "Active", "status": "False", "reason": "ScalerNotActive", "message": "Scaling is not performed because triggers are not active", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
---
{"apiVersion": "keda.sh/v1", "kind": "TriggerAuthentication", "metadata": {"name": "rabbitmq", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001335", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"secretTargetRef": [{"parameter": "host", "name": "rabbitmq-keda", "key": "host"}]}}
---
{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "outbox.kedascalerfailed", "namespace": "default", "creationTimestamp": "2026-11-28T11:50:00Z"}, "involvedObject": {"apiVersion": "keda.sh/v1", "kind": "ScaledObject", "namespace": "default", "name": "outbox", "uid": "6d1f4c5e-0000-4000-8000-000000001334"}, "reason": "KEDAScalerFailed", "message": "error establishing rabbitmq connection: Exception (403) Reason: \"username or password not allowed\"", "type": "Warning", "count": 5, "firstTimestamp": "2026-11-28T11:50:00Z", "lastTimestamp": "2026-11-28T11:59:30Z", "source": {"component": "keda-operator"}}
"#,
            ),
        ],
        about: ("scaledobject", "outbox"),
        truth: Truth::Cause(
            Code::MetricsFailed,
            "KEDAScalerFailed: error establishing rabbitmq connection: Exception (403) Reason: \"username or password not allowed\"; trigger rabbitmq uses TriggerAuthentication rabbitmq, with Secret default/rabbitmq-keda",
            "owner of Secret default/rabbitmq-keda, or owner of scaledobject",
        ),
    },
    Story {
        question: 2,
        title: "the ScaledObject that owns the autoscaler of an idle target cannot log in",
        run: Run::Nothing,
        steps: &[
            Step::Apply(concat!(
                crd!("keda.sh", "ScaledObject", "scaledobjects", "Namespaced"),
                crd!(
                    "keda.sh",
                    "TriggerAuthentication",
                    "triggerauthentications",
                    "Namespaced"
                ),
            )),
            Step::Wait(5),
            Step::Load(
                r#"{"apiVersion": "keda.sh/v1", "kind": "ScaledObject", "metadata": {"name": "mails", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001337", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"scaleTargetRef": {"name": "mails"}, "triggers": [{"type": "rabbitmq", "authenticationRef": {"name": "rabbitmq"}}]}, "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "TriggerError", "message": "Triggers defined in ScaledObject are not working correctly", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "Active", "status": "False", "reason": "ScalerNotActive", "message": "Scaling is not performed because triggers are not active", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
---
{"apiVersion": "keda.sh/v1", "kind": "TriggerAuthentication", "metadata": {"name": "rabbitmq", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001338", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"secretTargetRef": [{"parameter": "host", "name": "rabbitmq-keda", "key": "host"}]}}
---
{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "mails.kedascalerfailed", "namespace": "default", "creationTimestamp": "2026-11-28T11:50:00Z"}, "involvedObject": {"apiVersion": "keda.sh/v1", "kind": "ScaledObject", "namespace": "default", "name": "mails", "uid": "6d1f4c5e-0000-4000-8000-000000001337"}, "reason": "KEDAScalerFailed", "message": "error establishing rabbitmq connection: Exception (403) Reason: \"username or password not allowed\"", "type": "Warning", "count": 5, "firstTimestamp": "2026-11-28T11:50:00Z", "lastTimestamp": "2026-11-28T11:59:30Z", "source": {"component": "keda-operator"}}
---
{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "keda-hpa-mails", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001340", "creationTimestamp": "2026-11-28T11:00:00Z", "ownerReferences": [{"apiVersion": "keda.sh/v1", "kind": "ScaledObject", "name": "mails", "uid": "6d1f4c5e-0000-4000-8000-000000001337", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "mails"}, "minReplicas": 1, "maxReplicas": 9, "metrics": [{"type": "External", "external": {"metric": {"name": "s0-rabbitmq"}, "target": {"type": "AverageValue", "averageValue": "20"}}}]}, "status": {"currentReplicas": 0, "desiredReplicas": 0, "conditions": [{"type": "AbleToScale", "status": "True", "reason": "SucceededGetScale", "message": "the HPA controller was able to get the target's current scale", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "ScalingActive", "status": "False", "reason": "ScalingDisabled", "message": "scaling is disabled since the replica count of the target is zero", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
---
{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "mails", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001341", "creationTimestamp": "2026-11-28T11:00:00Z", "generation": 1}, "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "mails"}}, "template": {"metadata": {"labels": {"app": "mails"}}, "spec": {"containers": [{"name": "main", "image": "registry/app:1"}]}}}, "status": {"observedGeneration": 1}}
"#,
            ),
        ],
        about: ("hpa", "keda-hpa-mails"),
        truth: Truth::Cause(
            Code::MetricsFailed,
            "KEDAScalerFailed: error establishing rabbitmq connection: Exception (403) Reason: \"username or password not allowed\"; trigger rabbitmq uses TriggerAuthentication rabbitmq, with Secret default/rabbitmq-keda",
            "owner of Secret default/rabbitmq-keda, or owner of scaledobject",
        ),
    },
    Story {
        question: 2,
        title: "a ScaledObject keeps an idle target at 0",
        run: Run::Nothing,
        steps: &[
            Step::Apply(concat!(
                crd!("keda.sh", "ScaledObject", "scaledobjects", "Namespaced"),
                crd!(
                    "keda.sh",
                    "TriggerAuthentication",
                    "triggerauthentications",
                    "Namespaced"
                ),
            )),
            Step::Wait(5),
            Step::Load(
                r#"{"apiVersion": "keda.sh/v1", "kind": "ScaledObject", "metadata": {"name": "idle", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001342", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"scaleTargetRef": {"name": "idle"}, "triggers": [{"type": "rabbitmq", "authenticationRef": {"name": "rabbitmq"}}]}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "ScaledObjectReady", "message": "ScaledObject is defined correctly and is ready for scaling", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "Active", "status": "False", "reason": "ScalerNotActive", "message": "Scaling is not performed because triggers are not active", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
---
{"apiVersion": "keda.sh/v1", "kind": "TriggerAuthentication", "metadata": {"name": "rabbitmq", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001343", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"secretTargetRef": [{"parameter": "host", "name": "rabbitmq-keda", "key": "host"}]}}
---
{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "keda-hpa-idle", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001345", "creationTimestamp": "2026-11-28T11:00:00Z", "ownerReferences": [{"apiVersion": "keda.sh/v1", "kind": "ScaledObject", "name": "idle", "uid": "6d1f4c5e-0000-4000-8000-000000001342", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "idle"}, "minReplicas": 1, "maxReplicas": 9, "metrics": [{"type": "External", "external": {"metric": {"name": "s0-rabbitmq"}, "target": {"type": "AverageValue", "averageValue": "20"}}}]}, "status": {"currentReplicas": 0, "desiredReplicas": 0, "conditions": [{"type": "AbleToScale", "status": "True", "reason": "SucceededGetScale", "message": "the HPA controller was able to get the target's current scale", "lastTransitionTime": "2026-11-28T11:00:00Z"}, {"type": "ScalingActive", "status": "False", "reason": "ScalingDisabled", "message": "scaling is disabled since the replica count of the target is zero", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
---
{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "idle", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001346", "creationTimestamp": "2026-11-28T11:00:00Z", "generation": 1}, "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "idle"}}, "template": {"metadata": {"labels": {"app": "idle"}}, "spec": {"containers": [{"name": "main", "image": "registry/app:1"}]}}}, "status": {"observedGeneration": 1}}
"#,
            ),
        ],
        about: ("hpa", "keda-hpa-idle"),
        truth: Truth::Moves(Code::ScaledBy),
    },
    Story {
        question: 5,
        title: "a LimitRange refuses the claim of the first pod",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "kafka", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001347", "creationTimestamp": "2026-11-28T11:00:00Z", "generation": 1}, "spec": {"replicas": 3, "serviceName": "kafka", "podManagementPolicy": "OrderedReady", "updateStrategy": {"type": "RollingUpdate"}, "selector": {"matchLabels": {"app": "kafka"}}, "template": {"metadata": {"labels": {"app": "kafka"}}, "spec": {"containers": [{"name": "main", "image": "registry/app:1", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}]}}, "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "100Gi"}}}}]}, "status": {"observedGeneration": 1, "replicas": 0, "currentRevision": "kafka-1", "updateRevision": "kafka-1"}}
---
{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "kafka", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001348", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"clusterIP": "None", "selector": {"app": "kafka"}, "ports": [{"port": 9092}]}}
---
{"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "tenant-pods", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001349", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"limits": [{"type": "Pod", "max": {"memory": "50Gi"}}]}}
---
{"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "tenant-storage", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001350", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"limits": [{"type": "PersistentVolumeClaim", "max": {"storage": "50Gi"}}]}}
---
{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "kafka.failedcreate", "namespace": "default", "creationTimestamp": "2026-11-28T11:50:00Z"}, "involvedObject": {"apiVersion": "apps/v1", "kind": "StatefulSet", "namespace": "default", "name": "kafka", "uid": "6d1f4c5e-0000-4000-8000-000000001347"}, "reason": "FailedCreate", "message": "create Claim data-kafka-0 for Pod kafka-0 in StatefulSet kafka failed error: persistentvolumeclaims \"data-kafka-0\" is forbidden: maximum storage usage per PersistentVolumeClaim is 50Gi, but request is 100Gi", "type": "Warning", "count": 5, "firstTimestamp": "2026-11-28T11:50:00Z", "lastTimestamp": "2026-11-28T11:59:30Z", "source": {"component": "statefulset-controller"}}
"#,
        )],
        about: ("statefulset", "kafka"),
        truth: Truth::Cause(
            Code::LimitRangeViolated,
            "maximum storage usage per PersistentVolumeClaim is 50Gi, but request is 100Gi; LimitRange default/tenant-storage",
            "owner of LimitRange default/tenant-storage (max)",
        ),
    },
    Story {
        question: 8,
        title: "the webhook of a removed program refuses the pods",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "metadata": {"name": "istio-injector", "uid": "6d1f4c5e-0000-4000-8000-000000001351"}, "webhooks": [{"name": "namespace.sidecar-injector.istio.io", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail", "clientConfig": {"service": {"namespace": "istio-system", "name": "istiod", "path": "/inject"}}, "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]}]}
---
{"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "seats", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000001352", "creationTimestamp": "2026-11-28T11:00:00Z", "generation": 1}, "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "seats"}}, "template": {"metadata": {"labels": {"app": "seats"}}, "spec": {"containers": [{"name": "main", "image": "registry/app:1"}]}}}, "status": {"replicas": 0, "observedGeneration": 1, "conditions": [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "Internal error occurred: failed calling webhook \"namespace.sidecar-injector.istio.io\": failed to call webhook: Post \"https://istiod.istio-system.svc:443/inject?timeout=10s\": service \"istiod\" not found", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
"#,
        )],
        about: ("replicaset", "seats"),
        truth: Truth::Cause(
            Code::WebhookUnreachable,
            "namespace istio-system of its Service does not exist, so MutatingWebhookConfiguration istio-injector is left over from a removed program",
            "administrator of the cluster (delete MutatingWebhookConfiguration istio-injector, or install the program in istio-system again)",
        ),
    },
];
