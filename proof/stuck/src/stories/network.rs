//! Services, budgets, autoscalers and dead nodes.

use steersman_why::Code;

use crate::{Run, Step, Story, Truth};

pub(super) const STORIES: &[Story] = &[
    Story {
        question: 11,
        title: "a label of the selector is misspelled",
        run: Run::All,
        steps: &[Step::Apply(
            r#"apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web, tier: frontend}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web, tier: front}
    spec:
      
      containers: [{name: main, image: registry/web:1}]
"#,
        )],
        about: ("service", "web"),
        truth: Truth::Cause(Code::NoPodSelected, "differs in tier", "labels of the pods"),
    },
    Story {
        question: 11,
        title: "no pod of the Service is ready",
        run: Run::All,
        steps: &[Step::Apply(
            r#"apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
      annotations: {simulate.steersman.dev/behaviour: never-ready}
    spec:
      
      containers: [{name: main, image: registry/web:1}]
"#,
        )],
        about: ("service", "web"),
        truth: Truth::Cause(
            Code::PodNotReady,
            "Readiness probe failed",
            "owner of the container's program and of its probes",
        ),
    },
    Story {
        question: 11,
        title: "no container has the named port",
        run: Run::All,
        steps: &[Step::Apply(
            r#"apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: http}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
    spec:
      
      containers: [{name: main, image: registry/web:1}]
"#,
        )],
        about: ("service", "web"),
        truth: Truth::Cause(Code::PortMissing, "named target port", "pod template"),
    },
    Story {
        question: 11,
        title: "the Deployment behind the Service has no replicas",
        run: Run::All,
        steps: &[Step::Apply(
            r#"apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
    spec:
      containers: [{name: main, image: registry/web:1}]
"#,
        )],
        about: ("service", "web"),
        truth: Truth::Cause(
            Code::NoReplicas,
            "Deployment web makes such pods, and has 0 replicas",
            "owner of Deployment default/web",
        ),
    },
    Story {
        question: 11,
        title: "the Service has no selector",
        run: Run::All,
        steps: &[Step::Apply(
            r#"apiVersion: v1
kind: Service
metadata: {name: web}
spec: {ports: [{port: 80}]}
"#,
        )],
        about: ("service", "web"),
        truth: Truth::Moves(Code::NoSelector),
    },
    Story {
        question: 11,
        title: "the Service has endpoints",
        run: Run::All,
        steps: &[Step::Apply(
            r#"apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
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
        )],
        about: ("service", "web"),
        truth: Truth::Fine,
    },
    Story {
        question: 15,
        title: "all pods must stay healthy",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"apiVersion: apps/v1
kind: Deployment
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
            Step::Wait(30),
            Step::Apply(
                r#"apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 2, selector: {matchLabels: {app: web}}}
"#,
            ),
        ],
        about: ("pdb", "web"),
        truth: Truth::Cause(Code::DisruptionBlocked, "never allows", "budget"),
    },
    Story {
        question: 15,
        title: "a pod is not healthy",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
      annotations: {simulate.steersman.dev/behaviour: never-ready}
    spec:
      
      containers: [{name: main, image: registry/web:1}]
"#,
            ),
            Step::Wait(30),
            Step::Apply(
                r#"apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
"#,
            ),
        ],
        about: ("pdb", "web"),
        truth: Truth::Cause(
            Code::DisruptionBlocked,
            "0 of 2 pods are healthy",
            "not healthy",
        ),
    },
    Story {
        question: 15,
        title: "the budget selects a pod without a controller",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"apiVersion: v1
kind: Pod
metadata: {name: lone, labels: {app: web}}
spec: {containers: [{name: main, image: registry/web:1}]}
"#,
            ),
            Step::Wait(30),
            Step::Apply(
                r#"apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: web}}}
"#,
            ),
        ],
        about: ("pdb", "web"),
        truth: Truth::Cause(Code::UnmanagedPods, "lone", "minAvailable"),
    },
    Story {
        question: 15,
        title: "a label of the budget's selector is misspelled",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"apiVersion: apps/v1
kind: Deployment
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
            Step::Wait(30),
            Step::Apply(
                r#"apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 1, selector: {matchLabels: {app: wbe}}}
"#,
            ),
        ],
        about: ("pdb", "web"),
        truth: Truth::Cause(Code::DisruptionBlocked, "matches no pods", "budget"),
    },
    Story {
        question: 15,
        title: "the budget allows an eviction",
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
            Step::Apply(
                r#"apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 2, selector: {matchLabels: {app: web}}}
"#,
            ),
        ],
        about: ("pdb", "web"),
        truth: Truth::Fine,
    },
    Story {
        question: 2,
        title: "the target does not exist",
        run: Run::All,
        steps: &[Step::Apply(
            r#"apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: nothing}
  minReplicas: 1
  maxReplicas: 5
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]
"#,
        )],
        about: ("hpa", "web"),
        truth: Truth::Cause(
            Code::ScaleTargetMissing,
            "FailedGetScale",
            "Deployment default/nothing",
        ),
    },
    Story {
        question: 2,
        title: "the containers have no CPU request",
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
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 1
  maxReplicas: 5
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]
"#,
        )],
        about: ("hpa", "web"),
        truth: Truth::Cause(Code::MetricsFailed, "", ""),
    },
    Story {
        question: 2,
        title: "the target has no replicas",
        run: Run::All,
        steps: &[Step::Apply(
            r#"apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 0
  
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
    spec:
      
      containers: [{name: main, image: registry/web:1}]
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 1
  maxReplicas: 5
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]
"#,
        )],
        about: ("hpa", "web"),
        truth: Truth::Cause(
            Code::ScalingDisabled,
            "ScalingDisabled",
            "Deployment default/web",
        ),
    },
    Story {
        question: 2,
        title: "two autoscalers select the same pods",
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
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 1
  maxReplicas: 5
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: other}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 1
  maxReplicas: 5
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]
"#,
        )],
        about: ("hpa", "web"),
        truth: Truth::Cause(Code::AmbiguousSelector, "other", "autoscalers"),
    },
    Story {
        question: 14,
        title: "the pod tolerates the taint of its dead node for ever",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"apiVersion: v1
kind: Pod
metadata: {name: app}
spec:
  nodeName: node-0
  tolerations: [{operator: Exists}]
  containers: [{name: main, image: registry/web:1}]
"#,
            ),
            Step::Wait(20),
            Step::Patch(
                "nodes",
                "",
                "node-0",
                r#"{"metadata":{"annotations":{"simulate.steersman.dev/behaviour":"dead"}}}"#,
            ),
            Step::Wait(120),
        ],
        about: ("pod", "app"),
        truth: Truth::Cause(Code::NodeNotReady, "node-0", "node-0"),
    },
    Story {
        question: 14,
        title: "the pod is evicted five minutes after the taint",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"apiVersion: v1
kind: Pod
metadata: {name: app}
spec:
  nodeName: node-0
  containers: [{name: main, image: registry/web:1}]
"#,
            ),
            Step::Wait(20),
            Step::Patch(
                "nodes",
                "",
                "node-0",
                r#"{"metadata":{"annotations":{"simulate.steersman.dev/behaviour":"dead"}}}"#,
            ),
            Step::Wait(60),
        ],
        about: ("pod", "app"),
        truth: Truth::Cause(Code::NodeNotReady, "node-0", "node-0"),
    },
    Story {
        question: 14,
        title: "no node of the cluster reports",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"apiVersion: v1
kind: Pod
metadata: {name: app}
spec:
  nodeName: node-0
  containers: [{name: main, image: registry/web:1}]
"#,
            ),
            Step::Wait(20),
            Step::Patch(
                "nodes",
                "",
                "node-0",
                r#"{"metadata":{"annotations":{"simulate.steersman.dev/behaviour":"dead"}}}"#,
            ),
            Step::Patch(
                "nodes",
                "",
                "node-1",
                r#"{"metadata":{"annotations":{"simulate.steersman.dev/behaviour":"dead"}}}"#,
            ),
            Step::Wait(60),
        ],
        about: ("pod", "app"),
        truth: Truth::Inside(
            Code::ZoneStopped,
            "no node of the cluster is ready",
            "network between them and the control plane",
        ),
    },
    Story {
        question: 14,
        title: "too many nodes of a small zone do not report",
        run: Run::All,
        steps: &[
            Step::Load(
                r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "rack-1"}, "status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-28T12:00:05Z"}]}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "rack-2"}, "status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-28T12:00:05Z"}]}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "rack-3"}, "status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-28T12:00:05Z"}]}}
---
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "app", "namespace": "default", "uid": "a-1", "creationTimestamp": "2026-11-28T12:00:05Z"}, "spec": {"nodeName": "rack-3", "containers": [{"name": "main"}]}, "status": {"phase": "Running", "startTime": "2026-11-28T12:00:05Z", "conditions": [{"type": "Ready", "status": "True"}]}}
"#,
            ),
            Step::Wait(60),
        ],
        about: ("pod", "app"),
        truth: Truth::Inside(
            Code::ZoneStopped,
            "the zone is small",
            "administrator of the nodes",
        ),
    },
    Story {
        question: 14,
        title: "the node reports",
        run: Run::All,
        steps: &[Step::Apply(
            r#"apiVersion: v1
kind: Pod
metadata: {name: app}
spec:
  nodeName: node-0
  containers: [{name: main, image: registry/web:1}]
"#,
        )],
        about: ("pod", "app"),
        truth: Truth::Fine,
    },
];
