//! The manager itself.

use steersman_why::Code;

use crate::{Run, Step, Story, Truth};

const DEPLOYMENT: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: registry/web:1}]}
"#;

pub(super) const STORIES: &[Story] = &[
    Story {
        question: 16,
        title: "the deployment controller is switched off",
        run: Run::Without("deployment-controller"),
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
        truth: Truth::Inside(
            Code::ControllerOff,
            "deployment-controller",
            "--controllers",
        ),
    },
    Story {
        question: 16,
        title: "the controller lacks a right",
        run: Run::All,
        steps: &[
            Step::Reject(
                "create",
                "pods",
                403,
                "Forbidden",
                "pods is forbidden: User \"system:serviceaccount:kube-system:replicaset-controller\" cannot create resource \"pods\" in API group \"\"",
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
        truth: Truth::Cause(Code::Forbidden, "cannot create resource", "RBAC"),
    },
    Story {
        question: 16,
        title: "the API server fails to create ReplicaSets",
        run: Run::All,
        steps: &[
            Step::Reject(
                "create",
                "replicasets",
                500,
                "InternalError",
                "etcdserver: request timed out",
            ),
            Step::Apply(DEPLOYMENT),
        ],
        about: ("deployment", "web"),
        truth: Truth::Cause(Code::RequestFailed, "etcdserver", "API server"),
    },
    Story {
        question: 16,
        title: "the API server fails to create EndpointSlices",
        run: Run::All,
        steps: &[
            Step::Reject(
                "create",
                "endpointslices",
                500,
                "InternalError",
                "etcdserver: request timed out",
            ),
            Step::Apply(DEPLOYMENT),
            Step::Apply(
                r#"
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
"#,
            ),
        ],
        about: ("service", "web"),
        truth: Truth::Inside(Code::RequestFailed, "etcdserver", "API server"),
    },
    Story {
        question: 16,
        title: "no controller manager holds the Lease",
        run: Run::Nothing,
        steps: &[
            Step::Load(
                r#"{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "kube-controller-manager", "namespace": "kube-system"}, "spec": {"holderIdentity": "node-a_1", "leaseDurationSeconds": 15, "renewTime": "2026-11-28T11:00:00.000000Z"}}
"#,
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
        truth: Truth::Cause(Code::NoLeader, "node-a_1", "controller manager"),
    },
];
