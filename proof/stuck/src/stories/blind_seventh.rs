//! The states of a seventh blind test in which `why` named no cause or half of it, and states like them.

use steersman_why::Code;

use crate::{Run, Step, Story, Truth};

pub(super) const STORIES: &[Story] = &[
    Story {
        question: 1,
        title: "the finalizer of an Ingress stays, because its controller refuses the deletion",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "shop", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000701", "creationTimestamp": "2026-11-28T11:00:00Z", "finalizers": ["ingress.k8s.aws/resources"], "deletionTimestamp": "2026-11-28T11:10:00Z", "deletionGracePeriodSeconds": 0}, "spec": {"ingressClassName": "alb", "rules": []}}
---
{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "shop.1", "namespace": "default"}, "involvedObject": {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "shop", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000701"}, "type": "Warning", "reason": "FailedBuildModel", "message": "deletion_protection is enabled, cannot delete the load balancer", "source": {"component": "ingress"}, "firstTimestamp": "2026-11-28T11:00:00Z", "lastTimestamp": "2026-11-28T11:59:00Z", "count": 20}
"#,
        )],
        about: ("ingress", "shop"),
        truth: Truth::Cause(
            Code::ForeignFinalizer,
            "FailedBuildModel: deletion_protection is enabled",
            "owner of the object",
        ),
    },
    Story {
        question: 3,
        title: "the program that the template names is not in the image",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "api", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000702", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"containers": [{"name": "main", "image": "registry/app:7"}], "nodeName": "node-1"}, "status": {"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": false, "restartCount": 0, "image": "registry/app:7", "imageID": "", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}}, "lastState": {"terminated": {"exitCode": 128, "reason": "StartError", "message": "failed to create containerd task: exec: \"gunicorn\": executable file not found in $PATH", "finishedAt": "2026-11-28T11:58:00Z"}}}], "startTime": "2026-11-28T11:00:00Z"}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "labels": {"topology.kubernetes.io/zone": "zone-a"}}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
"#,
        )],
        about: ("pod", "api"),
        truth: Truth::Cause(
            Code::ContainerCrash,
            "executable file not found",
            "or of the image",
        ),
    },
    Story {
        question: 3,
        title: "the autoscaler of nodes adds none, because its group is full",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "model", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000703", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"containers": [{"name": "main", "image": "registry/app:7", "resources": {"requests": {"cpu": "2500m"}}}]}, "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available: 1 Insufficient cpu.", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
---
{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "model.3", "namespace": "default"}, "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "model", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000703"}, "type": "Normal", "reason": "NotTriggerScaleUp", "message": "pod didn't trigger scale-up: 1 max node group size reached", "source": {"component": "cluster-autoscaler"}, "firstTimestamp": "2026-11-28T11:00:00Z", "lastTimestamp": "2026-11-28T11:59:00Z", "count": 20}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "labels": {"topology.kubernetes.io/zone": "zone-a"}}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
"#,
        )],
        about: ("pod", "model"),
        truth: Truth::Cause(
            Code::PodUnscheduled,
            "max node group size reached",
            "operator of cluster-autoscaler",
        ),
    },
    Story {
        question: 5,
        title: "the volume of a claim is in a zone without nodes",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv-db", "uid": "6d1f4c5e-0000-4000-8000-000000000714"}, "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "claimRef": {"name": "data-db-0", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000713"}, "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"}, "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-c"]}]}]}}}, "status": {"phase": "Bound"}}
---
{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data-db-0", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000713", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeName": "pv-db"}, "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db-0", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000704", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"containers": [{"name": "main", "image": "registry/app:7"}], "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}]}, "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available: 1 node(s) had volume node affinity conflict.", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "labels": {"topology.kubernetes.io/zone": "zone-a"}}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
"#,
        )],
        about: ("pod", "db-0"),
        truth: Truth::Cause(
            Code::VolumeUnreachable,
            "topology.kubernetes.io/zone in (zone-c)",
            "a node with these labels",
        ),
    },
    Story {
        question: 3,
        title: "the node lacks the program that mounts NFS",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "wiki", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000705", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"containers": [{"name": "main", "image": "registry/app:7"}], "volumes": [{"name": "uploads", "nfs": {"server": "10.0.0.50", "path": "/exports/wiki"}}], "nodeName": "node-1"}, "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": false, "restartCount": 0, "image": "registry/app:7", "imageID": "", "state": {"waiting": {"reason": "ContainerCreating"}}}], "startTime": "2026-11-28T11:00:00Z"}}
---
{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "wiki.5", "namespace": "default"}, "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "wiki", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000705"}, "type": "Warning", "reason": "FailedMount", "message": "MountVolume.SetUp failed for volume \"uploads\" : mount failed: exit status 32\nMounting command: mount\nMounting arguments: -t nfs 10.0.0.50:/exports/wiki /var/lib/kubelet/pods/x\nOutput: mount: bad option; for several filesystems (e.g. nfs, cifs) you might need a /sbin/mount.<type> helper program.\n       dmesg(1) may have more information after failed mount system call.", "source": {"component": "kubelet"}, "firstTimestamp": "2026-11-28T11:00:00Z", "lastTimestamp": "2026-11-28T11:59:00Z", "count": 20}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "labels": {"topology.kubernetes.io/zone": "zone-a"}}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
"#,
        )],
        about: ("pod", "wiki"),
        truth: Truth::Cause(
            Code::VolumeMount,
            "/sbin/mount.<type> helper program",
            "administrator of node node-1",
        ),
    },
    Story {
        question: 4,
        title: "the Job of a CronJob waits for a ConfigMap that does not exist",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "report", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000706", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"schedule": "23 1 * * *", "concurrencyPolicy": "Replace", "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "registry/app:7"}]}}}}}, "status": {"lastScheduleTime": "2026-11-28T01:23:00Z", "active": [{"apiVersion": "batch/v1", "kind": "Job", "name": "report-1", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000707"}]}}
---
{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "report-1", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000707", "creationTimestamp": "2026-11-28T11:00:00Z", "ownerReferences": [{"apiVersion": "batch/v1", "kind": "CronJob", "name": "report", "uid": "6d1f4c5e-0000-4000-8000-000000000706", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"parallelism": 1, "completions": 1, "backoffLimit": 6, "selector": {"matchLabels": {"job-name": "report-1"}}, "template": {"metadata": {"labels": {"job-name": "report-1"}}, "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "registry/app:7"}]}}}, "status": {"active": 1, "ready": 0, "startTime": "2026-11-28T11:00:00Z"}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "report-1-a", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000708", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"job-name": "report-1"}, "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "report-1", "uid": "6d1f4c5e-0000-4000-8000-000000000707", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"containers": [{"name": "main", "image": "registry/app:7"}], "restartPolicy": "Never", "volumes": [{"name": "config", "configMap": {"name": "report-config"}}], "nodeName": "node-1"}, "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": false, "restartCount": 0, "image": "registry/app:7", "imageID": "", "state": {"waiting": {"reason": "ContainerCreating"}}}], "startTime": "2026-11-28T11:00:00Z"}}
---
{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "report-1-a.8", "namespace": "default"}, "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "report-1-a", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000708"}, "type": "Warning", "reason": "FailedMount", "message": "MountVolume.SetUp failed for volume \"config\" : configmap \"report-config\" not found", "source": {"component": "kubelet"}, "firstTimestamp": "2026-11-28T11:00:00Z", "lastTimestamp": "2026-11-28T11:59:00Z", "count": 20}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "labels": {"topology.kubernetes.io/zone": "zone-a"}}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
"#,
        )],
        about: ("cronjob", "report"),
        truth: Truth::Cause(
            Code::VolumeMount,
            "configmap \"report-config\" not found",
            "creator of ConfigMap default/report-config",
        ),
    },
    Story {
        question: 11,
        title: "an Ingress names no class, and no class is the default",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "blog", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000709", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"rules": [{"host": "blog.example.com", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "blog", "port": {"number": 80}}}}]}}]}, "status": {}}
---
{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "blog", "namespace": "default"}, "spec": {"clusterIP": "None", "ports": [{"port": 80}]}}
---
{"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": {"name": "nginx", "annotations": {}}, "spec": {"controller": "example.com/nginx"}}
---
{"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": {"name": "alb", "annotations": {}}, "spec": {"controller": "example.com/alb"}}
"#,
        )],
        about: ("ingress", "blog"),
        truth: Truth::Cause(
            Code::IngressClassMissing,
            "no IngressClass is the default (there are alb, nginx)",
            "spec.ingressClassName",
        ),
    },
    Story {
        question: 11,
        title: "an Ingress names a class that does not exist",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "blog", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000710", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"rules": [{"host": "blog.example.com", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "blog", "port": {"number": 80}}}}]}}], "ingressClassName": "ngnix"}, "status": {}}
---
{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "blog", "namespace": "default"}, "spec": {"clusterIP": "None", "ports": [{"port": 80}]}}
---
{"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": {"name": "nginx", "annotations": {}}, "spec": {"controller": "example.com/nginx"}}
"#,
        )],
        about: ("ingress", "blog"),
        truth: Truth::Cause(
            Code::IngressClassMissing,
            "IngressClass ngnix does not exist (there is nginx)",
            "spec.ingressClassName",
        ),
    },
    Story {
        question: 11,
        title: "the Service of an Ingress does not exist",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "blog", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000711", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"rules": [{"host": "blog.example.com", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "blog", "port": {"number": 80}}}}]}}], "ingressClassName": "nginx"}, "status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.9"}]}}}
---
{"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": {"name": "nginx", "annotations": {}}, "spec": {"controller": "example.com/nginx"}}
"#,
        )],
        about: ("ingress", "blog"),
        truth: Truth::Cause(
            Code::BackendMissing,
            "Service default/blog does not exist",
            "backend blog",
        ),
    },
    Story {
        question: 11,
        title: "an Ingress of the default class has an address",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "blog", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000712", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"rules": [{"host": "blog.example.com", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "blog", "port": {"number": 80}}}}]}}]}, "status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.9"}]}}}
---
{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "blog", "namespace": "default"}, "spec": {"clusterIP": "None", "ports": [{"port": 80}]}}
---
{"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": {"name": "nginx", "annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}}, "spec": {"controller": "example.com/nginx"}}
"#,
        )],
        about: ("ingress", "blog"),
        truth: Truth::Fine,
    },
    Story {
        question: 14,
        title: "the image of the network plugin cannot be pulled on a new node",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "cni", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000720", "creationTimestamp": "2026-11-28T11:00:00Z", "generation": 1}, "spec": {"selector": {"matchLabels": {"app": "cni"}}, "template": {"metadata": {"labels": {"app": "cni"}}, "spec": {"tolerations": [{"operator": "Exists"}], "containers": [{"name": "main", "image": "registry/cni:3"}], "volumes": [{"name": "net", "hostPath": {"path": "/etc/cni/net.d"}}]}}}, "status": {"observedGeneration": 1, "currentNumberScheduled": 1, "desiredNumberScheduled": 1, "numberMisscheduled": 0, "numberReady": 0}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}, "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "cni-a", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000721", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"app": "cni"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "cni", "uid": "6d1f4c5e-0000-4000-8000-000000000720", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"containers": [{"name": "main", "image": "registry/app:7"}], "tolerations": [{"operator": "Exists"}], "nodeName": "node-1"}, "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": false, "restartCount": 0, "image": "registry/app:7", "imageID": "", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image \"registry/cni:3\": 429 Too Many Requests - toomanyrequests: rate limit"}}}], "startTime": "2026-11-28T11:00:00Z"}}
"#,
        )],
        about: ("node", "node-1"),
        truth: Truth::Cause(Code::ImagePull, "toomanyrequests", "registry"),
    },
];
