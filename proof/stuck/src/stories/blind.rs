//! The states of two blind tests in which `why` named no cause, a wrong one, or half of it. The person who
//! staged them knew the other stories and the person who asked did not know the causes.

use steersman_why::Code;

use crate::{Run, Step, Story, Truth};

pub(super) const STORIES: &[Story] = &[
    Story {
        question: 1,
        title: "the program of a finalizer is gone, and its definition is deleted too",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: backups.storage.example.com}
spec:
  group: storage.example.com
  scope: Namespaced
  names: {plural: backups, singular: backup, kind: Backup, listKind: BackupList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
"#,
            ),
            Step::Wait(5),
            Step::Apply(
                r#"apiVersion: storage.example.com/v1
kind: Backup
metadata: {name: weekly, finalizers: [storage.example.com/snapshots]}
"#,
            ),
            Step::Delete(
                "customresourcedefinitions",
                "",
                "backups.storage.example.com",
            ),
        ],
        about: ("customresourcedefinition", "backups.storage.example.com"),
        truth: Truth::Cause(
            Code::ForeignFinalizer,
            "storage.example.com/snapshots",
            "storage.example.com",
        ),
    },
    Story {
        question: 2,
        title: "the use is above its target, and within the tolerance",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web", "namespace": "default", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "minReplicas": 2, "maxReplicas": 10, "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]}, "status": {"currentReplicas": 3, "desiredReplicas": 3, "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 54, "averageValue": "54m"}}}], "conditions": [{"type": "AbleToScale", "status": "True", "reason": "ReadyForNewScale", "message": "recommended size matches current size"}, {"type": "ScalingActive", "status": "True", "reason": "ValidMetricFound", "message": "the HPA was able to successfully calculate a replica count from cpu resource utilization (percentage of request)"}, {"type": "ScalingLimited", "status": "False", "reason": "DesiredWithinRange", "message": "the desired count is within the acceptable range"}]}}
"#,
        )],
        about: ("hpa", "web"),
        truth: Truth::Moves(Code::WithinTolerance),
    },
    Story {
        question: 3,
        title: "anti-affinity keeps new pods from the nodes of old ones, which must stay",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"apiVersion: apps/v1
kind: Deployment
metadata: {name: gateway}
spec:
  replicas: 2
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}
  selector: {matchLabels: {app: gateway}}
  template:
    metadata: {labels: {app: gateway}}
    spec:
      containers: [{name: main, image: registry/gateway:1}]
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: gateway}}}
"#,
            ),
            Step::Wait(30),
            Step::Patch(
                "deployments",
                "default",
                "gateway",
                r#"{"spec":{"template":{"metadata":{"annotations":{"version":"2"}}}}}"#,
            ),
        ],
        about: ("deployment", "gateway"),
        truth: Truth::Cause(
            Code::RolloutDeadlock,
            "maxUnavailable 0",
            "maxUnavailable 1",
        ),
    },
    Story {
        question: 5,
        title: "a broken template was rolled back, and its pod still waits",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"apiVersion: apps/v1
kind: StatefulSet
metadata: {name: queue}
spec:
  replicas: 2
  serviceName: queue
  selector: {matchLabels: {app: queue}}
  template:
    metadata: {labels: {app: queue}}
    spec:
      containers: [{name: main, image: registry/queue:1}]
"#,
            ),
            Step::Wait(60),
            Step::Patch(
                "statefulsets",
                "default",
                "queue",
                r#"{"spec":{"template":{"metadata":{"annotations":{"simulate.steersman.dev/behaviour":"never-ready"}}}}}"#,
            ),
            Step::Wait(120),
            Step::Patch(
                "statefulsets",
                "default",
                "queue",
                r#"{"spec":{"template":{"metadata":{"annotations":null}}}}"#,
            ),
        ],
        about: ("statefulset", "queue"),
        truth: Truth::Cause(
            Code::RevisionBroken,
            "pod queue-1",
            "kubectl delete pod queue-1",
        ),
    },
    Story {
        question: 7,
        title: "the only node that reaches the volume is cordoned",
        run: Run::All,
        steps: &[
            Step::Patch("nodes", "", "node-1", r#"{"spec":{"unschedulable":true}}"#),
            Step::Apply(
                r#"apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: manual
  local: {path: /data}
  nodeAffinity:
    required:
      nodeSelectorTerms:
      - matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node-1]}]
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {storageClassName: manual, volumeName: disk, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: db}
spec:
  containers: [{name: main, image: registry/db:1}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
"#,
            ),
        ],
        about: ("pod", "db"),
        truth: Truth::Cause(
            Code::VolumeUnreachable,
            "cordoned: node-1",
            "kubectl uncordon node-1",
        ),
    },
    Story {
        question: 13,
        title: "the volume still belongs to an earlier claim of the same name",
        run: Run::All,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "wiki", "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}}, "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "manual", "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": "/data"}, "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": "wiki", "uid": "11111111-1111-1111-1111-111111111111"}}, "status": {"phase": "Released"}}
---
{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "wiki", "namespace": "default", "uid": "22222222-2222-2222-2222-222222222222"}, "spec": {"storageClassName": "manual", "volumeName": "wiki", "volumeMode": "Filesystem", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}, "status": {"phase": "Pending"}}
"#,
        )],
        about: ("pvc", "wiki"),
        truth: Truth::Cause(
            Code::NoMatchingVolume,
            "an earlier claim of this name",
            "remove spec.claimRef",
        ),
    },
    Story {
        question: 15,
        title: "two budgets select the same pods",
        run: Run::All,
        steps: &[Step::Apply(
            r#"apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web, tier: front}}
    spec: {containers: [{name: main, image: registry/web:1}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: web}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: front}
spec: {maxUnavailable: 1, selector: {matchLabels: {tier: front}}}
"#,
        )],
        about: ("pdb", "web"),
        truth: Truth::Cause(Code::BudgetsOverlap, "budget front", "narrow a selector"),
    },
    Story {
        question: 1,
        title: "nobody removes the finalizer of a claim without users",
        run: Run::Without("persistentvolumeclaim-protection-controller"),
        steps: &[
            Step::Apply(
                r#"apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: cache}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"#,
            ),
            Step::Wait(5),
            Step::Delete("persistentvolumeclaims", "default", "cache"),
        ],
        about: ("pvc", "cache"),
        truth: Truth::Cause(
            Code::Finalizer,
            "has not removed the finalizer",
            "operator of the controller manager",
        ),
    },
    Story {
        question: 2,
        title: "an autoscaler undoes the replicas that a person sets",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"apiVersion: apps/v1
kind: Deployment
metadata: {name: api}
spec:
  replicas: 2
  selector: {matchLabels: {app: api}}
  template:
    metadata: {labels: {app: api}}
    spec: {containers: [{name: main, image: registry/api:1}]}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: backend}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: api}
  minReplicas: 1
  maxReplicas: 2
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]
"#,
            ),
            Step::Wait(30),
            Step::Patch(
                "deployments",
                "default",
                "api",
                r#"{"spec":{"replicas":4}}"#,
            ),
        ],
        about: ("deployment", "api"),
        truth: Truth::Moves(Code::ScaledBy),
    },
    Story {
        question: 8,
        title: "the template of a resource claim does not exist",
        run: Run::All,
        steps: &[Step::Apply(
            r#"apiVersion: v1
kind: Pod
metadata: {name: train}
spec:
  resourceClaims: [{name: gpu, resourceClaimTemplateName: one-a100}]
  containers: [{name: main, image: registry/train:1, resources: {claims: [{name: gpu}]}}]
"#,
        )],
        about: ("pod", "train"),
        truth: Truth::Cause(
            Code::DeviceClaimMissing,
            "one-a100",
            "ResourceClaimTemplate default/one-a100",
        ),
    },
    Story {
        question: 9,
        title: "another pod has the host port on one node",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"apiVersion: v1
kind: Pod
metadata: {name: proxy}
spec:
  nodeName: node-0
  containers: [{name: main, image: registry/proxy:1, ports: [{containerPort: 9100, hostPort: 9100}]}]
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
    spec:
      containers: [{name: main, image: registry/agent:1, ports: [{containerPort: 9100, hostPort: 9100}]}]
"#,
            ),
        ],
        about: ("daemonset", "agent"),
        truth: Truth::Cause(
            Code::PortTaken,
            "host port 9100 of node-0",
            "pod default/proxy",
        ),
    },
    Story {
        question: 11,
        title: "no load balancer of the class runs",
        run: Run::All,
        steps: &[Step::Apply(
            r#"apiVersion: apps/v1
kind: Deployment
metadata: {name: front}
spec:
  replicas: 2
  selector: {matchLabels: {app: front}}
  template:
    metadata: {labels: {app: front}}
    spec: {containers: [{name: main, image: registry/front:1}]}
---
apiVersion: v1
kind: Service
metadata: {name: front}
spec:
  type: LoadBalancer
  loadBalancerClass: metallb.io/metallb
  selector: {app: front}
  ports: [{port: 80}]
"#,
        )],
        about: ("service", "front"),
        truth: Truth::Cause(
            Code::LoadBalancerPending,
            "metallb.io/metallb",
            "operator of the load balancer metallb.io/metallb",
        ),
    },
    Story {
        question: 13,
        title: "the volume of the class lacks the access mode",
        run: Run::All,
        steps: &[Step::Apply(
            r#"apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: manual}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: Immediate
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec: {capacity: {storage: 5Gi}, accessModes: [ReadWriteOnce], storageClassName: manual, hostPath: {path: /data}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: uploads}
spec: {storageClassName: manual, accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}
"#,
        )],
        about: ("pvc", "uploads"),
        truth: Truth::Cause(
            Code::NoMatchingVolume,
            "volume disk has no access mode ReadWriteMany",
            "owner of the claim",
        ),
    },
    Story {
        question: 13,
        title: "the storage driver cannot enlarge the volume",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "pg", "namespace": "default", "uid": "33333333-3333-3333-3333-333333333333", "annotations": {"volume.kubernetes.io/storage-provisioner": "ssd.csi.example.com"}}, "spec": {"storageClassName": "ssd", "volumeName": "pv-1", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "40Gi"}}}, "status": {"phase": "Bound", "capacity": {"storage": "10Gi"}}}
---
{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "pg.1", "namespace": "default"}, "type": "Warning", "reason": "VolumeResizeFailed", "message": "resize volume pv-1 failed: rpc error: quota of the pool is used up", "count": 3, "involvedObject": {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "pg", "uid": "33333333-3333-3333-3333-333333333333"}, "firstTimestamp": "2026-11-28T11:50:00Z", "lastTimestamp": "2026-11-28T11:59:00Z"}
"#,
        )],
        about: ("pvc", "pg"),
        truth: Truth::Cause(
            Code::ResizePending,
            "quota of the pool is used up",
            "ssd.csi.example.com",
        ),
    },
];
