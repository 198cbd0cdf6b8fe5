//! The states of blind tests in which `why` named no cause, a wrong one, or half of it. The person who
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
        question: 3,
        title: "anti-affinity keeps a new pod from the node of an old one, which goes next",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"apiVersion: apps/v1
kind: Deployment
metadata: {name: proxy}
spec:
  replicas: 2
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 1}}
  minReadySeconds: 300
  selector: {matchLabels: {app: proxy}}
  template:
    metadata: {labels: {app: proxy}}
    spec:
      containers: [{name: main, image: registry/gateway:1}]
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: proxy}}}
"#,
            ),
            Step::Wait(330),
            Step::Patch(
                "deployments",
                "default",
                "proxy",
                r#"{"spec":{"template":{"metadata":{"annotations":{"version":"2"}}}}}"#,
            ),
        ],
        about: ("deployment", "proxy"),
        truth: Truth::Moves(Code::OldPodsRunning),
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
    Story {
        question: 4,
        title: "no month of the schedule has the day",
        run: Run::All,
        steps: &[Step::Apply(
            r#"apiVersion: batch/v1
kind: CronJob
metadata: {name: month-end}
spec:
  schedule: "30 23 31 2,4,6,9,11 *"
  jobTemplate:
    spec:
      template:
        spec: {restartPolicy: Never, containers: [{name: main, image: registry/report:1}]}
"#,
        )],
        about: ("cronjob", "month-end"),
        truth: Truth::Cause(Code::ScheduleInvalid, "no date", "spec.schedule"),
    },
    Story {
        question: 8,
        title: "a webhook refuses the ServiceAccount default of the namespace",
        run: Run::All,
        steps: &[
            Step::Reject(
                "create",
                "serviceaccounts",
                500,
                "InternalError",
                "Internal error occurred: failed calling webhook \"pull-secrets.example.com\": failed to call webhook: connection refused",
            ),
            Step::Delete("serviceaccounts", "default", "default"),
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
"#,
            ),
        ],
        about: ("deployment", "api"),
        truth: Truth::Inside(
            Code::WebhookUnreachable,
            "connection refused",
            "pull-secrets.example.com",
        ),
    },
    Story {
        question: 10,
        title: "a Service with a finalizer holds the namespace after its last pod",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "staging", "uid": "44444444-4444-4444-4444-444444444444", "deletionTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Terminating", "conditions": [{"type": "NamespaceDeletionContentFailure", "status": "True", "reason": "ContentDeletionFailed", "message": "Failed to delete all resource types, 1 remaining: unexpected items still remain in namespace: staging for gvr: /v1, Resource=pods"}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-0", "namespace": "staging", "uid": "55555555-5555-5555-5555-555555555555", "deletionTimestamp": "2026-11-28T11:00:30Z", "deletionGracePeriodSeconds": 30}, "spec": {"nodeName": "node-0", "containers": [{"name": "web", "image": "registry/web:1"}]}, "status": {"phase": "Running"}}
---
{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "staging", "uid": "66666666-6666-6666-6666-666666666666", "deletionTimestamp": "2026-11-28T10:50:00Z", "finalizers": ["service.kubernetes.io/load-balancer-cleanup"]}, "spec": {"type": "LoadBalancer", "clusterIP": "10.96.0.9", "ports": [{"port": 80}], "selector": {"app": "web"}}}
"#,
        )],
        about: ("namespace", "staging"),
        truth: Truth::Cause(
            Code::ForeignFinalizer,
            "service.kubernetes.io/load-balancer-cleanup",
            "cloud-controller-manager",
        ),
    },
    Story {
        question: 11,
        title: "no program fulfils the readiness gate of the pods",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      containers: [{name: main, image: registry/shop:1}]
      readinessGates: [{conditionType: target-health.elbv2.k8s.aws/shop}]
---
apiVersion: v1
kind: Service
metadata: {name: shop}
spec: {selector: {app: shop}, ports: [{port: 80}]}
"#,
            ),
            Step::Wait(60),
        ],
        about: ("service", "shop"),
        truth: Truth::Cause(
            Code::ReadinessGate,
            "no program has set it",
            "target-health.elbv2.k8s.aws",
        ),
    },
    Story {
        question: 12,
        title: "the work takes longer than the deadline of the Job",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"apiVersion: batch/v1
kind: Job
metadata: {name: reindex}
spec:
  activeDeadlineSeconds: 20
  template:
    metadata: {annotations: {simulate.steersman.dev/behaviour: hang}}
    spec: {restartPolicy: Never, containers: [{name: main, image: registry/reindex:1}]}
"#,
            ),
            Step::Wait(40),
        ],
        about: ("job", "reindex"),
        truth: Truth::Cause(
            Code::JobFailed,
            "activeDeadlineSeconds 20",
            "activeDeadlineSeconds",
        ),
    },
    Story {
        question: 13,
        title: "the storage driver cannot delete the released volume",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv-7", "uid": "77777777-7777-7777-7777-777777777777", "annotations": {"pv.kubernetes.io/provisioned-by": "ssd.csi.example.com"}}, "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "ssd", "persistentVolumeReclaimPolicy": "Delete", "csi": {"driver": "ssd.csi.example.com", "volumeHandle": "7"}, "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "db", "name": "scratch", "uid": "88888888-8888-8888-8888-888888888888"}}, "status": {"phase": "Released", "lastPhaseTransitionTime": "2026-11-28T11:30:00Z"}}
---
{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "pv-7.1", "namespace": "default"}, "type": "Warning", "reason": "VolumeFailedDelete", "message": "rpc error: the disk has snapshots", "count": 5, "involvedObject": {"kind": "PersistentVolume", "name": "pv-7", "uid": "77777777-7777-7777-7777-777777777777"}, "firstTimestamp": "2026-11-28T11:31:00Z", "lastTimestamp": "2026-11-28T11:59:00Z"}
"#,
        )],
        about: ("pv", "pv-7"),
        truth: Truth::Cause(
            Code::ReclaimPending,
            "the disk has snapshots",
            "ssd.csi.example.com",
        ),
    },
    Story {
        question: 15,
        title: "the pods of the budget belong to a Job, which has no scale",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"apiVersion: batch/v1
kind: Job
metadata: {name: crunch}
spec:
  parallelism: 3
  completions: 3
  template:
    metadata:
      labels: {app: crunch}
      annotations: {simulate.steersman.dev/behaviour: hang}
    spec: {restartPolicy: Never, containers: [{name: main, image: registry/crunch:1}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: crunch}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: crunch}}}
"#,
            ),
            Step::Wait(30),
        ],
        about: ("pdb", "crunch"),
        truth: Truth::Cause(Code::SyncFailed, "scale subresource", "minAvailable"),
    },
    Story {
        question: 8,
        title: "an admission webhook refuses its own pods",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: policies}
webhooks:
- name: validate.policies.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {service: {namespace: default, name: policies, path: /validate}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods], scope: Namespaced}]
"#,
            ),
            Step::Reject(
                "create",
                "pods",
                500,
                "InternalError",
                "Internal error occurred: failed calling webhook \"validate.policies.example.com\": failed to call webhook: Post \"https://policies.default.svc:443/validate?timeout=10s\": no endpoints available for service \"policies\"",
            ),
            Step::Apply(
                r#"apiVersion: v1
kind: Service
metadata: {name: policies}
spec: {selector: {app: policies}, ports: [{port: 443}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: policies}
spec:
  replicas: 1
  selector: {matchLabels: {app: policies}}
  template:
    metadata: {labels: {app: policies}}
    spec: {containers: [{name: main, image: registry/policies:1}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec: {containers: [{name: main, image: registry/shop:1}]}
"#,
            ),
        ],
        about: ("deployment", "shop"),
        truth: Truth::Cause(
            Code::WebhookUnreachable,
            "refuses its own pods",
            "ValidatingWebhookConfiguration policies",
        ),
    },
    Story {
        question: 16,
        title: "the signer of an approved request is another program, which does not run",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "shop-tls", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"request": "eA==", "signerName": "ca.example.com/server", "usages": ["digital signature", "server auth"]}, "status": {"conditions": [{"type": "Approved", "status": "True", "reason": "KubectlApprove", "message": "This CSR was approved by kubectl certificate approve.", "lastUpdateTime": "2026-11-28T11:01:00Z"}]}}
"#,
        )],
        about: ("csr", "shop-tls"),
        truth: Truth::Cause(
            Code::SignerElsewhere,
            "ca.example.com/server",
            "operator of signer ca.example.com/server",
        ),
    },
    Story {
        question: 16,
        title: "no program has approved a request for a certificate",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "csr-x7", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"request": "eA==", "signerName": "kubernetes.io/kubelet-serving", "usages": ["digital signature", "server auth"]}}
"#,
        )],
        about: ("csr", "csr-x7"),
        truth: Truth::Cause(
            Code::ApprovalPending,
            "has approved the request",
            "kubectl certificate approve csr-x7",
        ),
    },
    Story {
        question: 11,
        title: "the slice of a Service without a selector has a wrong label",
        run: Run::All,
        steps: &[Step::Apply(
            r#"apiVersion: v1
kind: Service
metadata: {name: database}
spec: {ports: [{port: 5432}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: database-1, labels: {endpointslice.kubernetes.io/service-name: database}}
addressType: IPv4
ports: [{port: 5432}]
endpoints: [{addresses: [10.20.0.15]}]
"#,
        )],
        about: ("service", "database"),
        truth: Truth::Cause(
            Code::SliceUnlabelled,
            "database-1 lacks it",
            "owner of EndpointSlice database-1",
        ),
    },
    Story {
        question: 5,
        title: "a pod of another owner has the name of the next pod",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"apiVersion: v1
kind: Pod
metadata: {name: cache-0, labels: {run: rescue}}
spec: {containers: [{name: main, image: registry/cache:1}]}
"#,
            ),
            Step::Wait(20),
            Step::Apply(
                r#"apiVersion: apps/v1
kind: StatefulSet
metadata: {name: cache}
spec:
  replicas: 2
  serviceName: cache
  selector: {matchLabels: {app: cache}}
  template:
    metadata: {labels: {app: cache}}
    spec: {containers: [{name: main, image: registry/cache:2}]}
"#,
            ),
        ],
        about: ("statefulset", "cache"),
        truth: Truth::Cause(
            Code::NameTaken,
            "lacks the label app=cache",
            "owner of pod cache-0",
        ),
    },
    Story {
        question: 2,
        title: "one metric of two has no value, so the size never falls",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "worker", "namespace": "default", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "worker"}, "minReplicas": 2, "maxReplicas": 10, "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}}, {"type": "External", "external": {"metric": {"name": "queue_length"}, "target": {"type": "AverageValue", "averageValue": "30"}}}]}, "status": {"currentReplicas": 6, "desiredReplicas": 0, "conditions": [{"type": "AbleToScale", "status": "True", "reason": "SucceededGetScale", "message": "the HPA controller was able to get the target's current scale"}, {"type": "ScalingActive", "status": "False", "reason": "FailedGetExternalMetric", "message": "the HPA was unable to compute the replica count: unable to get external metric default/queue_length/nil: no metrics returned from external metrics API", "lastTransitionTime": "2026-11-28T11:10:00Z"}]}}
"#,
        )],
        about: ("hpa", "worker"),
        truth: Truth::Cause(
            Code::MetricsFailed,
            "the size rises and never falls",
            "source of the metric",
        ),
    },
    Story {
        question: 12,
        title: "the program of a Job has ended, and its sidecar goes on",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "migrate", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000001", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"completions": 1, "parallelism": 1, "backoffLimit": 6, "selector": {"matchLabels": {"job-name": "migrate"}}, "template": {"metadata": {"labels": {"job-name": "migrate"}}, "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "registry/migrate:1"}, {"name": "mesh-proxy", "image": "registry/mesh:1"}]}}}, "status": {"active": 1, "ready": 0, "startTime": "2026-11-28T11:00:00Z"}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "migrate-b7x2q", "namespace": "default", "creationTimestamp": "2026-11-28T11:00:00Z", "labels": {"job-name": "migrate"}, "finalizers": ["batch.kubernetes.io/job-tracking"], "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "migrate", "uid": "6d1f4c5e-0000-4000-8000-000000000001", "controller": true, "blockOwnerDeletion": true}]}, "spec": {"nodeName": "node-1", "restartPolicy": "Never", "containers": [{"name": "main", "image": "registry/migrate:1"}, {"name": "mesh-proxy", "image": "registry/mesh:1"}]}, "status": {"phase": "Running", "startTime": "2026-11-28T11:00:00Z", "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "containers with unready status: [main]", "lastTransitionTime": "2026-11-28T11:05:00Z"}], "containerStatuses": [{"name": "main", "ready": false, "restartCount": 0, "image": "registry/migrate:1", "imageID": "", "state": {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": "2026-11-28T11:05:00Z"}}}, {"name": "mesh-proxy", "ready": true, "started": true, "restartCount": 0, "image": "registry/mesh:1", "imageID": "", "state": {"running": {"startedAt": "2026-11-28T11:00:02Z"}}}]}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
"#,
        )],
        about: ("job", "migrate"),
        truth: Truth::Cause(
            Code::SidecarRuns,
            "container mesh-proxy still runs",
            "restartPolicy Always",
        ),
    },
    Story {
        question: 13,
        title: "the template names the node, so no scheduler chooses one for the claim",
        run: Run::All,
        steps: &[Step::Apply(
            r#"apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: late}
provisioner: csi.example.com
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: uploads}
spec: {accessModes: [ReadWriteOnce], storageClassName: late, resources: {requests: {storage: 1Gi}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: cms}
spec:
  replicas: 1
  selector: {matchLabels: {app: cms}}
  template:
    metadata: {labels: {app: cms}, annotations: {simulate.steersman.dev/behaviour: hang}}
    spec:
      nodeName: node-1
      containers: [{name: main, image: registry/cms:1}]
      volumes: [{name: uploads, persistentVolumeClaim: {claimName: uploads}}]
"#,
        )],
        about: ("pvc", "uploads"),
        truth: Truth::Cause(
            Code::SchedulerBypassed,
            "past the scheduler",
            "nodeSelector",
        ),
    },
    Story {
        question: 14,
        title: "the network plug-in's DaemonSet does not tolerate the taint of a new node",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-2", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}, "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized", "lastTransitionTime": "2026-11-28T11:00:00Z"}]}}
---
{"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "mesh-net", "namespace": "kube-system", "generation": 1}, "spec": {"selector": {"matchLabels": {"app": "mesh-net"}}, "updateStrategy": {"type": "RollingUpdate"}, "template": {"metadata": {"labels": {"app": "mesh-net"}}, "spec": {"hostNetwork": true, "containers": [{"name": "main", "image": "registry/mesh-net:1"}], "volumes": [{"name": "cni", "hostPath": {"path": "/etc/cni/net.d"}}]}}}, "status": {"observedGeneration": 1}}
"#,
        )],
        about: ("node", "node-2"),
        truth: Truth::Cause(
            Code::NodeNotReady,
            "do not tolerate the taint node.kubernetes.io/not-ready:NoSchedule",
            "owner of DaemonSet kube-system/mesh-net",
        ),
    },
    Story {
        question: 3,
        title: "the image pull secret does not exist in this namespace",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "api", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000002", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"nodeName": "node-1", "imagePullSecrets": [{"name": "registry-login"}], "containers": [{"name": "main", "image": "registry/api:7"}, {"name": "agent", "image": "registry/agent:1", "resources": {"limits": {"memory": "16Mi"}}}]}, "status": {"phase": "Pending", "startTime": "2026-11-28T11:00:00Z", "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "main", "ready": false, "restartCount": 0, "image": "registry/api:7", "imageID": "", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image: 401 Unauthorized"}}}, {"name": "agent", "ready": false, "restartCount": 2, "image": "registry/agent:1", "imageID": "", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-11-28T11:55:00Z"}}}]}}
---
{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "api.1", "namespace": "default"}, "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "api", "namespace": "default", "uid": "6d1f4c5e-0000-4000-8000-000000000002"}, "type": "Warning", "reason": "FailedToRetrieveImagePullSecret", "message": "Unable to retrieve some image pull secrets (registry-login); attempting to pull the image may not succeed.", "source": {"component": "kubelet"}, "firstTimestamp": "2026-11-28T11:00:00Z", "lastTimestamp": "2026-11-28T11:59:00Z", "count": 9}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
"#,
        )],
        about: ("pod", "api"),
        truth: Truth::Cause(
            Code::ImagePull,
            "Secret default/registry-login",
            "creator of Secret default/registry-login",
        ),
    },
    Story {
        question: 3,
        title: "a container needs more memory than its limit",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "agent", "namespace": "default", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"nodeName": "node-1", "containers": [{"name": "agent", "image": "registry/agent:1", "resources": {"limits": {"memory": "16Mi"}}}]}, "status": {"phase": "Running", "startTime": "2026-11-28T11:00:00Z", "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": "2026-11-28T11:00:00Z"}], "containerStatuses": [{"name": "agent", "ready": false, "restartCount": 2, "image": "registry/agent:1", "imageID": "", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-11-28T11:55:00Z"}}}]}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
"#,
        )],
        about: ("pod", "agent"),
        truth: Truth::Cause(
            Code::ContainerCrash,
            "memory limit of 16Mi; it was restarted 2 times",
            "limits.memory of container agent",
        ),
    },
    Story {
        question: 9,
        title: "a LimitRange adds a memory limit below the request of the template",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"apiVersion: v1
kind: LimitRange
metadata: {name: defaults}
spec: {limits: [{type: Container, default: {memory: 256Mi}, defaultRequest: {memory: 128Mi}}]}
"#,
            ),
            Step::Wait(2),
            Step::Apply(
                r#"apiVersion: apps/v1
kind: DaemonSet
metadata: {name: collector}
spec:
  selector: {matchLabels: {app: collector}}
  template:
    metadata: {labels: {app: collector}}
    spec: {containers: [{name: main, image: registry/collector:1, resources: {requests: {memory: 512Mi}}}]}
"#,
            ),
        ],
        about: ("daemonset", "collector"),
        truth: Truth::Cause(
            Code::ObjectInvalid,
            "LimitRange default/defaults",
            "LimitRange default/defaults (default)",
        ),
    },
];
