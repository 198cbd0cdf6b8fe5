//! Deletions, the garbage collector and namespaces.

use steersman_why::Code;

use crate::{Run, Step, Story, Truth};

pub(super) const STORIES: &[Story] = &[
    Story {
        question: 1,
        title: "the program of a finalizer is gone",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"apiVersion: v1
kind: ConfigMap
metadata: {name: notes, finalizers: [example.com/backup]}
"#,
            ),
            Step::Delete("configmaps", "default", "notes"),
        ],
        about: ("configmap", "notes"),
        truth: Truth::Cause(Code::ForeignFinalizer, "example.com/backup", "example.com"),
    },
    Story {
        question: 1,
        title: "a pod still uses the claim",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: reader}
spec:
  containers: [{name: main, image: registry/web:1}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
"#,
            ),
            Step::Wait(60),
            Step::Delete("persistentvolumeclaims", "default", "data"),
        ],
        about: ("pvc", "data"),
        truth: Truth::Cause(Code::ClaimInUse, "reader", "pods"),
    },
    Story {
        question: 1,
        title: "the volume is bound to a claim",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: manual
  hostPath: {path: /data}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {storageClassName: manual, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"#,
            ),
            Step::Wait(60),
            Step::Delete("persistentvolumes", "", "disk"),
        ],
        about: ("pv", "disk"),
        truth: Truth::Cause(Code::VolumeBound, "default/data", "default/data"),
    },
    Story {
        question: 1,
        title: "the node of the pod does not report",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"apiVersion: v1
kind: Pod
metadata: {name: lost}
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
            Step::Delete("pods", "default", "lost"),
        ],
        about: ("pod", "lost"),
        truth: Truth::Cause(Code::NodeNotReady, "node-0", "node node-0"),
    },
    Story {
        question: 1,
        title: "a controller of this manager removes the finalizer of the claim",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"#,
            ),
            Step::Wait(30),
            Step::Delete("persistentvolumeclaims", "default", "data"),
        ],
        about: ("pvc", "data"),
        truth: Truth::Fine,
    },
    Story {
        question: 6,
        title: "a dependent with a finalizer blocks foreground deletion",
        run: Run::All,
        steps: &[
            Step::Load(
                r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "parent", "namespace": "default", "uid": "11111111-1111-1111-1111-111111111111"}}
---
{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "child", "namespace": "default", "finalizers": ["example.com/hold"], "uid": "22222222-2222-2222-2222-222222222222", "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "parent", "uid": "11111111-1111-1111-1111-111111111111", "blockOwnerDeletion": true, "controller": true}]}}
"#,
            ),
            Step::Wait(30),
            Step::DeleteForeground("configmaps", "default", "parent"),
        ],
        about: ("configmap", "parent"),
        truth: Truth::Cause(Code::ForeignFinalizer, "example.com/hold", "example.com"),
    },
    Story {
        question: 6,
        title: "foreground deletion names the dependents it waits for",
        run: Run::All,
        steps: &[
            Step::Load(
                r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "parent", "namespace": "default", "uid": "11111111-1111-1111-1111-111111111111"}}
---
{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "child", "namespace": "default", "finalizers": ["example.com/hold"], "uid": "22222222-2222-2222-2222-222222222222", "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "parent", "uid": "11111111-1111-1111-1111-111111111111", "blockOwnerDeletion": true, "controller": true}]}}
"#,
            ),
            Step::Wait(30),
            Step::DeleteForeground("configmaps", "default", "parent"),
        ],
        about: ("configmap", "parent"),
        truth: Truth::Cause(
            Code::ForeignFinalizer,
            "finalizer example.com/hold",
            "operator of the controller of example.com",
        ),
    },
    Story {
        question: 6,
        title: "the type of the owner is not served",
        run: Run::All,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "child", "namespace": "default", "uid": "22222222-2222-2222-2222-222222222222", "ownerReferences": [{"apiVersion": "example.com/v1", "kind": "Widget", "name": "parent", "uid": "11111111-1111-1111-1111-111111111111", "blockOwnerDeletion": true, "controller": true}]}}
"#,
        )],
        about: ("configmap", "child"),
        truth: Truth::Cause(
            Code::OwnerUnresolvable,
            "Widget",
            "CustomResourceDefinition",
        ),
    },
    Story {
        question: 6,
        title: "the owner is in another namespace",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "child", "namespace": "default", "uid": "22222222-2222-2222-2222-222222222222", "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "parent", "uid": "11111111-1111-1111-1111-111111111111"}]}}
---
{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "child.1", "namespace": "default"}, "type": "Warning", "reason": "OwnerRefInvalidNamespace", "message": "ownerRef [v1/ConfigMap, namespace: default, name: parent] does not exist in namespace \"default\"", "involvedObject": {"kind": "ConfigMap", "namespace": "default", "name": "child", "uid": "22222222-2222-2222-2222-222222222222"}, "lastTimestamp": "2026-11-28T11:59:00Z"}"#,
        )],
        about: ("configmap", "child"),
        truth: Truth::Cause(Code::OwnerElsewhere, "namespace", "same namespace"),
    },
    Story {
        question: 6,
        title: "the owner exists",
        run: Run::All,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "parent", "namespace": "default", "uid": "11111111-1111-1111-1111-111111111111"}}
---
{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "child", "namespace": "default", "uid": "22222222-2222-2222-2222-222222222222", "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "parent", "uid": "11111111-1111-1111-1111-111111111111", "blockOwnerDeletion": true, "controller": true}]}}
"#,
        )],
        about: ("configmap", "child"),
        truth: Truth::Fine,
    },
    Story {
        question: 10,
        title: "an object with a finalizer is left",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"{apiVersion: v1, kind: Namespace, metadata: {name: team}}
"#,
            ),
            Step::Wait(5),
            Step::Apply(
                r#"apiVersion: v1
kind: ConfigMap
metadata: {name: notes, namespace: team, finalizers: [example.com/backup]}
"#,
            ),
            Step::Delete("namespaces", "", "team"),
        ],
        about: ("namespace", "team"),
        truth: Truth::Cause(Code::ForeignFinalizer, "example.com/backup", "example.com"),
    },
    Story {
        question: 10,
        title: "the aggregated API server of a group is down",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"{apiVersion: v1, kind: Namespace, metadata: {name: team}}
"#,
            ),
            Step::Wait(5),
            Step::Hide("metrics.k8s.io"),
            Step::Delete("namespaces", "", "team"),
        ],
        about: ("namespace", "team"),
        truth: Truth::Cause(Code::DiscoveryFailed, "metrics.k8s.io", "APIService"),
    },
    Story {
        question: 10,
        title: "a webhook denies the deletion of the content",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"{apiVersion: v1, kind: Namespace, metadata: {name: team}}
"#,
            ),
            Step::Wait(5),
            Step::Apply(
                r#"apiVersion: v1
kind: ConfigMap
metadata: {name: notes, namespace: team}
"#,
            ),
            Step::Reject(
                "deletecollection",
                "configmaps",
                403,
                "Forbidden",
                "admission webhook \"keep.example.com\" denied the request: archived",
            ),
            Step::Reject(
                "delete",
                "configmaps",
                403,
                "Forbidden",
                "admission webhook \"keep.example.com\" denied the request: archived",
            ),
            Step::Delete("namespaces", "", "team"),
        ],
        about: ("namespace", "team"),
        truth: Truth::Cause(Code::WebhookRefused, "archived", "keep.example.com"),
    },
    Story {
        question: 10,
        title: "another program has its own finalizer in the spec",
        run: Run::All,
        steps: &[
            Step::Apply(
                r#"{apiVersion: v1, kind: Namespace, metadata: {name: team}, spec: {finalizers: [kubernetes, example.com/billing]}}
"#,
            ),
            Step::Wait(5),
            Step::Delete("namespaces", "", "team"),
        ],
        about: ("namespace", "team"),
        truth: Truth::Cause(
            Code::NamespaceFinalizer,
            "example.com/billing",
            "example.com/billing",
        ),
    },
    Story {
        question: 10,
        title: "the namespace is in use",
        run: Run::All,
        steps: &[Step::Apply(
            r#"{apiVersion: v1, kind: Namespace, metadata: {name: team}}
"#,
        )],
        about: ("namespace", "team"),
        truth: Truth::Fine,
    },
];
