//! Claims, volumes and their attachments.

use steersman_why::Code;

use crate::{Run, Step, Story, Truth};

pub(super) const STORIES: &[Story] = &[
    Story {
        question: 13,
        title: "the class does not exist",
        run: Run::All,
        steps: &[Step::Apply(
            r#"apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {storageClassName: fast, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"#,
        )],
        about: ("pvc", "data"),
        truth: Truth::Cause(Code::ClassMissing, "fast", "StorageClass fast"),
    },
    Story {
        question: 13,
        title: "the provisioner of the class does not run",
        run: Run::All,
        steps: &[Step::Apply(
            r#"apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: nfs}
provisioner: kubernetes.io/nfs-legacy
volumeBindingMode: Immediate
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {storageClassName: nfs, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"#,
        )],
        about: ("pvc", "data"),
        truth: Truth::Cause(Code::ProvisionerPending, "", "provisioner"),
    },
    Story {
        question: 13,
        title: "the class provisions nothing and no volume fits",
        run: Run::All,
        steps: &[Step::Apply(
            r#"apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: Immediate
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {storageClassName: local, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"#,
        )],
        about: ("pvc", "data"),
        truth: Truth::Cause(Code::NoMatchingVolume, "local", "PersistentVolume"),
    },
    Story {
        question: 13,
        title: "the requested volume is too small",
        run: Run::All,
        steps: &[Step::Apply(
            r#"apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], storageClassName: manual, hostPath: {path: /data}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {storageClassName: manual, volumeName: disk, accessModes: [ReadWriteOnce], resources: {requests: {storage: 5Gi}}}
"#,
        )],
        about: ("pvc", "data"),
        truth: Truth::Cause(Code::NoMatchingVolume, "too small", "PersistentVolume"),
    },
    Story {
        question: 13,
        title: "the class waits for the first pod",
        run: Run::All,
        steps: &[Step::Apply(
            r#"apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: zonal}
provisioner: simulated.example.com
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {storageClassName: zonal, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"#,
        )],
        about: ("pvc", "data"),
        truth: Truth::Moves(Code::WaitsForConsumer),
    },
    Story {
        question: 13,
        title: "the claim is bound",
        run: Run::All,
        steps: &[Step::Apply(
            r#"apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"#,
        )],
        about: ("pvc", "data"),
        truth: Truth::Fine,
    },
    Story {
        question: 7,
        title: "another node still has the volume",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db-0", "namespace": "default", "creationTimestamp": "2026-11-28T11:50:00Z"}, "spec": {"nodeName": "node-b", "containers": [{"name": "main"}], "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}, "status": {"phase": "Pending", "startTime": "2026-11-28T11:50:00Z"}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-b"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
---
{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "default"}, "spec": {"volumeName": "disk", "accessModes": ["ReadWriteOnce"]}, "status": {"phase": "Bound"}}
---
{"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "csi-1", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"attacher": "csi.example.com", "nodeName": "node-a", "source": {"persistentVolumeName": "disk"}}, "status": {"attached": true}}
"#,
        )],
        about: ("pod", "db-0"),
        truth: Truth::Cause(Code::AttachedElsewhere, "attached to node node-a", "node"),
    },
    Story {
        question: 7,
        title: "the storage driver cannot attach the volume",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db-0", "namespace": "default", "creationTimestamp": "2026-11-28T11:50:00Z"}, "spec": {"nodeName": "node-b", "containers": [{"name": "main"}], "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}, "status": {"phase": "Pending", "startTime": "2026-11-28T11:50:00Z"}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-b"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
---
{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "default"}, "spec": {"volumeName": "disk", "accessModes": ["ReadWriteOnce"]}, "status": {"phase": "Bound"}}
---
{"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "csi-1", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"attacher": "csi.example.com", "nodeName": "node-b", "source": {"persistentVolumeName": "disk"}}, "status": {"attached": false, "attachError": {"message": "rpc error: too many volumes"}}}
"#,
        )],
        about: ("pod", "db-0"),
        truth: Truth::Cause(Code::AttachPending, "too many volumes", "csi.example.com"),
    },
    Story {
        question: 7,
        title: "the storage driver has not answered",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db-0", "namespace": "default", "creationTimestamp": "2026-11-28T11:50:00Z"}, "spec": {"nodeName": "node-b", "containers": [{"name": "main"}], "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}, "status": {"phase": "Pending", "startTime": "2026-11-28T11:50:00Z"}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-b"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
---
{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "default"}, "spec": {"volumeName": "disk", "accessModes": ["ReadWriteOnce"]}, "status": {"phase": "Bound"}}
---
{"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "csi-1", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"attacher": "csi.example.com", "nodeName": "node-b", "source": {"persistentVolumeName": "disk"}}, "status": {"attached": false}}
"#,
        )],
        about: ("pod", "db-0"),
        truth: Truth::Cause(Code::AttachPending, "has not attached", "csi.example.com"),
    },
    Story {
        question: 7,
        title: "the storage driver cannot detach the volume from the old node",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db-0", "namespace": "default", "creationTimestamp": "2026-11-28T11:50:00Z"}, "spec": {"nodeName": "node-b", "containers": [{"name": "main"}], "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}, "status": {"phase": "Pending", "startTime": "2026-11-28T11:50:00Z"}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-b"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
---
{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "default"}, "spec": {"volumeName": "disk", "accessModes": ["ReadWriteOnce"]}, "status": {"phase": "Bound"}}
---
{"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "csi-1", "creationTimestamp": "2026-11-28T11:00:00Z", "deletionTimestamp": "2026-11-28T11:51:00Z", "finalizers": ["external-attacher/csi-example-com"]}, "spec": {"attacher": "csi.example.com", "nodeName": "node-a", "source": {"persistentVolumeName": "disk"}}, "status": {"attached": true, "detachError": {"message": "rpc error: the disk is busy"}}}
"#,
        )],
        about: ("pod", "db-0"),
        truth: Truth::Cause(Code::AttachedElsewhere, "the disk is busy", "node"),
    },
    Story {
        question: 7,
        title: "the volume is attached, and the pod starts",
        run: Run::Nothing,
        steps: &[Step::Load(
            r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db-0", "namespace": "default", "creationTimestamp": "2026-11-28T11:50:00Z"}, "spec": {"nodeName": "node-b", "containers": [{"name": "main"}], "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}, "status": {"phase": "Pending", "startTime": "2026-11-28T11:50:00Z"}}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-b"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
---
{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "default"}, "spec": {"volumeName": "disk", "accessModes": ["ReadWriteOnce"]}, "status": {"phase": "Bound"}}
---
{"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "csi-1", "creationTimestamp": "2026-11-28T11:00:00Z"}, "spec": {"attacher": "csi.example.com", "nodeName": "node-b", "source": {"persistentVolumeName": "disk"}}, "status": {"attached": true}}
"#,
        )],
        about: ("pod", "db-0"),
        truth: Truth::Moves(Code::PodStarting),
    },
];
