//! Deployments, ReplicaSets, StatefulSets and DaemonSets.

use steersman_why::Code;

use crate::{Run, Step, Story, Truth};

pub(super) const STORIES: &[Story] = &[
    Story {
        question: 3,
        title: "a ResourceQuota allows one of three pods",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"apiVersion: v1
kind: ResourceQuota
metadata: {name: team}
spec: {hard: {pods: "1"}}
"#,
            ),
            Step::Wait(5),
            Step::Apply(
                r#"apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
    spec:
      
      containers: [{name: main, image: registry/web:1}]
"#,
            ),
        ],
        about: ("deployment", "web"),
        truth: Truth::Cause(
            Code::QuotaExceeded,
            "exceeded quota: team",
            "ResourceQuota default/team",
        ),
    },
    Story {
        question: 3,
        title: "the new version crashes",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
    spec:
      
      containers: [{name: main, image: registry/web:1}]
"#,
            ),
            Step::Wait(30),
            Step::Patch(
                "deployments",
                "default",
                "web",
                r#"{"spec":{"template":{"metadata":{"annotations":{"simulate.steersman.dev/behaviour":"fail"}}}}}"#,
            ),
        ],
        about: ("deployment", "web"),
        truth: Truth::Cause(Code::ContainerCrash, "exit code", "program"),
    },
    Story {
        question: 3,
        title: "the roll-out is paused",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
    spec:
      
      containers: [{name: main, image: registry/web:1}]
"#,
            ),
            Step::Wait(30),
            Step::Patch(
                "deployments",
                "default",
                "web",
                r#"{"spec":{"paused":true,"template":{"metadata":{"annotations":{"version":"2"}}}}}"#,
            ),
        ],
        about: ("deployment", "web"),
        truth: Truth::Cause(Code::Paused, "spec.paused", "rollout resume"),
    },
    Story {
        question: 3,
        title: "the readiness probe of the new version never passes",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
    spec:
      
      containers: [{name: main, image: registry/web:1}]
"#,
            ),
            Step::Wait(30),
            Step::Patch(
                "deployments",
                "default",
                "web",
                r#"{"spec":{"template":{"metadata":{"annotations":{"simulate.steersman.dev/behaviour":"never-ready"}}}}}"#,
            ),
        ],
        about: ("deployment", "web"),
        truth: Truth::Cause(Code::PodNotReady, "", "program"),
    },
    Story {
        question: 3,
        title: "no node has the label of the node selector",
        run: Run::All,
        steps: &[Step::Apply(
            r#"apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
    spec:
      nodeSelector: {disk: fast}
      containers: [{name: main, image: registry/web:1}]
"#,
        )],
        about: ("deployment", "web"),
        truth: Truth::Cause(Code::PodUnscheduled, "node", "nodes"),
    },
    Story {
        question: 3,
        title: "strategy Recreate waits for a pod on a dead node",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  strategy: {type: Recreate}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeName: node-0
      tolerations: [{operator: Exists}]
      containers: [{name: main, image: registry/web:1}]
"#,
            ),
            Step::Wait(30),
            Step::Patch(
                "nodes",
                "",
                "node-0",
                r#"{"metadata":{"annotations":{"simulate.steersman.dev/behaviour":"dead"}}}"#,
            ),
            Step::Wait(120),
            Step::Patch(
                "deployments",
                "default",
                "web",
                r#"{"spec":{"template":{"metadata":{"annotations":{"version":"2"}}}}}"#,
            ),
        ],
        about: ("deployment", "web"),
        truth: Truth::Cause(Code::NodeNotReady, "node-0", "node node-0"),
    },
    Story {
        question: 3,
        title: "the roll-out is complete",
        run: Run::All,
        steps: &[Step::Apply(
            r#"apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
    spec:
      
      containers: [{name: main, image: registry/web:1}]
"#,
        )],
        about: ("deployment", "web"),
        truth: Truth::Fine,
    },
    Story {
        question: 8,
        title: "a ResourceQuota is used up",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"apiVersion: v1
kind: ResourceQuota
metadata: {name: team}
spec: {hard: {pods: "0"}}
"#,
            ),
            Step::Wait(5),
            Step::Apply(
                r#"apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web}
spec:
  replicas: 2
  
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
    spec:
      
      containers: [{name: main, image: registry/web:1}]
"#,
            ),
        ],
        about: ("replicaset", "web"),
        truth: Truth::Cause(
            Code::QuotaExceeded,
            "exceeded quota: team",
            "ResourceQuota default/team",
        ),
    },
    Story {
        question: 8,
        title: "the ServiceAccount of the template does not exist",
        run: Run::All,
        steps: &[Step::Apply(
            r#"apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web}
spec:
  replicas: 2
  
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
    spec:
      serviceAccountName: robot
      containers: [{name: main, image: registry/web:1}]
"#,
        )],
        about: ("replicaset", "web"),
        truth: Truth::Cause(
            Code::ServiceAccountMissing,
            "robot",
            "ServiceAccount default/robot",
        ),
    },
    Story {
        question: 8,
        title: "an admission webhook denies the pods",
        run: Run::All,
        steps: &[
            Step::Reject(
                "create",
                "pods",
                400,
                "BadRequest",
                "admission webhook \"labels.example.com\" denied the request: a team label is missing",
            ),
            // The API server of the story refuses by itself, so this one never calls the webhook.
            Step::Apply(
                r#"apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: company-labels}
webhooks:
- name: labels.example.com
  admissionReviewVersions: [v1]
  clientConfig: {url: "https://127.0.0.1:1"}
  rules: [{apiGroups: [none.example.com], apiVersions: [v1], operations: [CREATE], resources: [things]}]
  sideEffects: None
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
    spec:
      
      containers: [{name: main, image: registry/web:1}]
"#,
            ),
        ],
        about: ("deployment", "web"),
        truth: Truth::Cause(
            Code::WebhookRefused,
            "a team label is missing",
            "ValidatingWebhookConfiguration company-labels",
        ),
    },
    Story {
        question: 8,
        title: "an admission webhook cannot be reached",
        run: Run::All,
        steps: &[
            Step::Reject(
                "create",
                "pods",
                500,
                "InternalError",
                "Internal error occurred: failed calling webhook \"pods.example.com\": failed to call webhook: connection refused",
            ),
            Step::Apply(
                r#"apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
    spec:
      
      containers: [{name: main, image: registry/web:1}]
"#,
            ),
        ],
        about: ("deployment", "web"),
        truth: Truth::Cause(
            Code::WebhookUnreachable,
            "connection refused",
            "pods.example.com",
        ),
    },
    Story {
        question: 8,
        title: "a LimitRange refuses the containers",
        run: Run::All,
        steps: &[
            Step::Reject(
                "create",
                "pods",
                403,
                "Forbidden",
                "pods \"web\" is forbidden: maximum cpu usage per Container is 1, but limit is 2",
            ),
            Step::Apply(
                r#"apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
    spec:
      
      containers: [{name: main, image: registry/web:1}]
"#,
            ),
        ],
        about: ("deployment", "web"),
        truth: Truth::Cause(Code::LimitRangeViolated, "maximum cpu", "LimitRange"),
    },
    Story {
        question: 8,
        title: "all pods exist",
        run: Run::All,
        steps: &[Step::Apply(
            r#"apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web}
spec:
  replicas: 2
  
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
    spec:
      
      containers: [{name: main, image: registry/web:1}]
"#,
        )],
        about: ("replicaset", "web"),
        truth: Truth::Fine,
    },
    Story {
        question: 5,
        title: "the first pod is never ready",
        run: Run::All,
        steps: &[Step::Apply(
            r#"apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 3
  
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata:
      labels: {app: db}
      annotations: {simulate.steersman.dev/behaviour: never-ready}
    spec:
      
      containers: [{name: main, image: registry/web:1}]
"#,
        )],
        about: ("statefulset", "db"),
        truth: Truth::Cause(Code::PodNotReady, "", "program"),
    },
    Story {
        question: 5,
        title: "the claim of the first pod has a class that does not exist",
        run: Run::All,
        steps: &[Step::Apply(
            r#"apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata:
      labels: {app: db}
    spec:
      
      containers: [{name: main, image: registry/web:1}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {storageClassName: fast, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"#,
        )],
        about: ("statefulset", "db"),
        truth: Truth::Cause(Code::ClassMissing, "fast", "StorageClass fast"),
    },
    Story {
        question: 5,
        title: "a ResourceQuota refuses the second pod",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"apiVersion: v1
kind: ResourceQuota
metadata: {name: team}
spec: {hard: {pods: "1"}}
"#,
            ),
            Step::Wait(5),
            Step::Apply(
                r#"apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata:
      labels: {app: db}
    spec:
      
      containers: [{name: main, image: registry/web:1}]
"#,
            ),
        ],
        about: ("statefulset", "db"),
        truth: Truth::Cause(
            Code::QuotaExceeded,
            "exceeded quota: team",
            "ResourceQuota default/team",
        ),
    },
    Story {
        question: 5,
        title: "the ServiceAccount of the pods does not exist",
        run: Run::All,
        steps: &[Step::Apply(
            r#"apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata:
      labels: {app: db}
    spec:
      serviceAccountName: dba
      containers: [{name: main, image: registry/web:1}]
"#,
        )],
        about: ("statefulset", "db"),
        truth: Truth::Cause(
            Code::ServiceAccountMissing,
            "dba",
            "ServiceAccount default/dba",
        ),
    },
    Story {
        question: 5,
        title: "a partition keeps the old revision",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 1}}
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata:
      labels: {app: db}
    spec:
      
      containers: [{name: main, image: registry/web:1}]
"#,
            ),
            Step::Wait(60),
            Step::Patch(
                "statefulsets",
                "default",
                "db",
                r#"{"spec":{"template":{"metadata":{"annotations":{"version":"2"}}}}}"#,
            ),
        ],
        about: ("statefulset", "db"),
        truth: Truth::Moves(Code::PartitionHolds),
    },
    Story {
        question: 5,
        title: "all pods are available",
        run: Run::All,
        steps: &[Step::Apply(
            r#"apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata:
      labels: {app: db}
    spec:
      
      containers: [{name: main, image: registry/web:1}]
"#,
        )],
        about: ("statefulset", "db"),
        truth: Truth::Fine,
    },
    Story {
        question: 9,
        title: "the pods do not tolerate the taint of a node",
        run: Run::All,
        steps: &[
            Step::Patch(
                "nodes",
                "",
                "node-0",
                r#"{"spec":{"taints":[{"key":"gpu","effect":"NoSchedule"}]}}"#,
            ),
            Step::Apply(
                r#"apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  
  selector: {matchLabels: {app: agent}}
  template:
    metadata:
      labels: {app: agent}
    spec:
      
      containers: [{name: main, image: registry/web:1}]
"#,
            ),
        ],
        about: ("daemonset", "agent"),
        truth: Truth::Moves(Code::NodeExcluded),
    },
    Story {
        question: 9,
        title: "no node has the label of the node selector",
        run: Run::All,
        steps: &[Step::Apply(
            r#"apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  
  selector: {matchLabels: {app: agent}}
  template:
    metadata:
      labels: {app: agent}
    spec:
      nodeSelector: {disk: fast}
      containers: [{name: main, image: registry/web:1}]
"#,
        )],
        about: ("daemonset", "agent"),
        truth: Truth::Moves(Code::NodeExcluded),
    },
    Story {
        question: 9,
        title: "the pods crash on every node",
        run: Run::All,
        steps: &[Step::Apply(
            r#"apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  
  selector: {matchLabels: {app: agent}}
  template:
    metadata:
      labels: {app: agent}
      annotations: {simulate.steersman.dev/behaviour: fail}
    spec:
      
      containers: [{name: main, image: registry/web:1}]
"#,
        )],
        about: ("daemonset", "agent"),
        truth: Truth::Cause(Code::ContainerCrash, "exit code", "program"),
    },
    Story {
        question: 9,
        title: "a ResourceQuota refuses the second pod",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"apiVersion: v1
kind: ResourceQuota
metadata: {name: team}
spec: {hard: {pods: "1"}}
"#,
            ),
            Step::Wait(5),
            Step::Apply(
                r#"apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  
  selector: {matchLabels: {app: agent}}
  template:
    metadata:
      labels: {app: agent}
    spec:
      
      containers: [{name: main, image: registry/web:1}]
"#,
            ),
        ],
        about: ("daemonset", "agent"),
        truth: Truth::Cause(
            Code::QuotaExceeded,
            "exceeded quota: team",
            "ResourceQuota default/team",
        ),
    },
    Story {
        question: 9,
        title: "an admission webhook denies the daemon pods",
        run: Run::All,
        steps: &[
            Step::Reject(
                "create",
                "pods",
                403,
                "Forbidden",
                "admission webhook \"host.example.com\" denied the request: hostPath is not allowed",
            ),
            Step::Apply(
                r#"apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata:
      labels: {app: agent}
    spec:
      containers: [{name: main, image: registry/web:1}]
"#,
            ),
        ],
        about: ("daemonset", "agent"),
        truth: Truth::Cause(
            Code::WebhookRefused,
            "hostPath is not allowed",
            "host.example.com",
        ),
    },
    Story {
        question: 9,
        title: "the daemon pods never become ready",
        run: Run::All,
        steps: &[Step::Apply(
            r#"apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata:
      labels: {app: agent}
      annotations: {simulate.steersman.dev/behaviour: never-ready}
    spec:
      containers: [{name: main, image: registry/web:1}]
"#,
        )],
        about: ("daemonset", "agent"),
        truth: Truth::Cause(Code::PodNotReady, "", "program"),
    },
    Story {
        question: 9,
        title: "every node has its pod",
        run: Run::All,
        steps: &[Step::Apply(
            r#"apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  
  selector: {matchLabels: {app: agent}}
  template:
    metadata:
      labels: {app: agent}
    spec:
      
      containers: [{name: main, image: registry/web:1}]
"#,
        )],
        about: ("daemonset", "agent"),
        truth: Truth::Fine,
    },
];
