//! Volumes that do not come off their nodes, are not made, or are deleted while they are used.

use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use steersman_devcluster::faults::{Matcher, internal_error};

use super::super::volumes::{claim, volume};
use super::{CHANGED, Trouble, cluster_object, merge, object};
use crate::{
    attachdetach, ephemeralvolume, expand, persistentvolume, protection, resourceclaim,
    resourcepoolstatusrequest, selinuxwarning,
};

const DRIVER: &str = "csi.example.com";

pub(super) fn troubles() -> Vec<Trouble> {
    vec![
        detaching(),
        attaching(),
        claims(),
        deleted(),
        ephemeral(),
        devices(),
        device_report(),
        labels(),
    ]
}

/// A node on which kubelet mounts the volume `pv` of the driver.
fn node(name: &str, volumes: &[&str]) -> Value {
    let unique = |volume: &&str| format!("kubernetes.io/csi/{DRIVER}^{volume}");
    let in_use: Vec<String> = volumes.iter().map(unique).collect();
    let attached: Vec<Value> = in_use
        .iter()
        .map(|name| json!({"name": name, "devicePath": ""}))
        .collect();
    cluster_object(
        "v1",
        "Node",
        name,
        json!({
            "metadata": {"annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}},
            "status": {
                "conditions": [{"type": "Ready", "status": "True"}],
                "volumesAttached": attached, "volumesInUse": in_use,
            },
        }),
    )
}

fn attachment(volume: &str, node: &str, fields: Value) -> Value {
    // As upstream's `getAttachmentName`.
    let digest = digest(&SHA256, format!("{volume}{DRIVER}{node}").as_bytes());
    let digits = digest.as_ref().iter().map(|byte| format!("{byte:02x}"));
    let name = format!("csi-{}", digits.collect::<String>());
    let mut attachment = cluster_object(
        "storage.k8s.io/v1",
        "VolumeAttachment",
        &name,
        json!({
            "metadata": {"finalizers": ["external-attacher/csi"]},
            "spec": {
                "attacher": DRIVER, "nodeName": node, "source": {"persistentVolumeName": volume},
            },
            "status": {"attached": true},
        }),
    );
    merge(&mut attachment, fields);
    attachment
}

fn bound(name: &str) -> [Value; 2] {
    let mut volume = volume(name, "Bound", json!({}));
    volume["spec"]["claimRef"] = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": name,
        "uid": format!("uid-{name}"), "resourceVersion": "1",
    });
    let annotations = json!({
        "pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes",
    });
    [volume, claim_of(name, annotations)]
}

fn claim_of(name: &str, annotations: Value) -> Value {
    let mut claim = claim(name, "Bound", annotations, json!({"volumeName": name}));
    // Volumes and claims of one name have different UIDs.
    claim["metadata"]["uid"] = json!(format!("uid-{name}"));
    claim
}

fn pod(name: &str, node: &str, claim: &str) -> Value {
    object(
        "v1",
        "Pod",
        name,
        json!({
            "spec": {
                "nodeName": node, "containers": [{"name": "main", "image": "i"}],
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
            },
            "status": {
                "phase": "Running",
                "containerStatuses": [{"name": "main", "state": {"running": {}}}],
            },
        }),
    )
}

/// The attacher fails to detach one volume, and a second one is still mounted without a pod.
fn detaching() -> Trouble {
    let failed = json!({
        "metadata": {"deletionTimestamp": CHANGED, "deletionGracePeriodSeconds": 0},
        "status": {"attached": true, "detachError": {"time": CHANGED, "message": "busy"}},
    });
    let mut unmounted = node("n1", &["stuck", "mounted"]);
    unmounted["status"]["volumesInUse"] = json!([format!("kubernetes.io/csi/{DRIVER}^mounted")]);
    Trouble::new("volumes are detaching", &[attachdetach::DESCRIPTOR])
        .with(bound("stuck"))
        .with(bound("mounted"))
        .with([
            unmounted,
            node("n2", &[]),
            attachment("stuck", "n1", failed),
            attachment("mounted", "n1", json!({})),
        ])
        .reached(|world| {
            let node = world.find("nodes", "n1").unwrap();
            node["status"]["volumesAttached"].as_array().map(Vec::len) == Some(1)
        })
        .settled_after(20)
        .listing(
            "delete /apis/storage.k8s.io/v1/volumeattachments/",
            "`nestedpendingoperations`: the back-off of the detachment starts anew",
        )
}

/// The attacher fails to attach a volume, and another one is on its old node.
fn attaching() -> Trouble {
    let failed = json!({
        "status": {"attached": false, "attachError": {"time": CHANGED, "message": "no"}},
    });
    Trouble::new("volumes are attaching", &[attachdetach::DESCRIPTOR])
        .with(bound("failed"))
        .with(bound("moving"))
        .with([
            node("n1", &["moving"]),
            node("n2", &[]),
            attachment("failed", "n2", failed),
            attachment("moving", "n1", json!({})),
            pod("waits", "n2", "failed"),
            pod("moves", "n2", "moving"),
            pod("stays", "n1", "moving"),
        ])
        .settled_after(20)
        .listing(
            "Event FailedAttachVolume Pod moves",
            "`reportMultiAttachError`: `multiAttachErrorReported` is false",
        )
}

/// Claims that find no volume, a volume that cannot be deleted, and a claim without its volume.
fn claims() -> Trouble {
    let class = cluster_object(
        "storage.k8s.io/v1",
        "StorageClass",
        "fast",
        json!({"provisioner": DRIVER, "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}),
    );
    let mut gone = volume(
        "outside",
        "Bound",
        json!({"persistentVolumeReclaimPolicy": "Delete"}),
    );
    gone["spec"]["csi"] = Value::Null;
    gone["spec"]["hostPath"] = json!({"path": "/outside"});
    gone["spec"]["claimRef"] = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": "gone",
        "uid": "uid-gone", "resourceVersion": "1",
    });
    let lost = json!({"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"});
    Trouble::new(
        "claims and volumes wait",
        &[persistentvolume::DESCRIPTOR, expand::DESCRIPTOR],
    )
    .with([
        class,
        gone,
        claim("lost", "Bound", lost, json!({"volumeName": "missing"})),
        claim(
            "waits",
            "Pending",
            json!({}),
            json!({"storageClassName": "fast"}),
        ),
        claim(
            "large",
            "Pending",
            json!({}),
            json!({"resources": {"requests": {"storage": "9Gi"}}}),
        ),
    ])
    .reached(|world| {
        world.find("persistentvolumeclaims", "lost").unwrap()["status"]["phase"] == "Lost"
            && world.find("persistentvolumes", "outside").unwrap()["status"]["phase"] == "Failed"
    })
}

/// Objects that are deleted while they are used, and one whose finalizer cannot be removed.
fn deleted() -> Trouble {
    let deleted = |mut object: Value, finalizer: &str| {
        merge(
            &mut object,
            json!({"metadata": {
                "deletionTimestamp": CHANGED, "deletionGracePeriodSeconds": 0, "finalizers": [finalizer],
            }}),
        );
        object
    };
    let [mut volume, claim] = bound("used");
    volume["spec"]["volumeAttributesClassName"] = json!("gold");
    let class = cluster_object(
        "storage.k8s.io/v1",
        "VolumeAttributesClass",
        "gold",
        json!({"driverName": DRIVER}),
    );
    let free = claim_of("free", json!({}));
    Trouble::new(
        "volumes are deleted while they are used",
        &[
            protection::claims::DESCRIPTOR,
            protection::classes::DESCRIPTOR,
            protection::volumes::DESCRIPTOR,
            protection::pod_groups::DESCRIPTOR,
        ],
    )
    .defining("scheduling.k8s.io", "PodGroup", "v1alpha2")
    .with([
        deleted(volume, "kubernetes.io/pv-protection"),
        deleted(claim, "kubernetes.io/pvc-protection"),
        deleted(class, "kubernetes.io/vac-protection"),
        deleted(free, "kubernetes.io/pvc-protection"),
        pod("user", "n1", "used"),
    ])
    .refusing(
        Matcher::new("update", "persistentvolumeclaims").name("free"),
        internal_error(),
    )
    .refusing(
        Matcher::new("patch", "persistentvolumeclaims").name("free"),
        internal_error(),
    )
}

/// The claim of an ephemeral volume belongs to another owner, and that of a second pod is refused.
fn ephemeral() -> Trouble {
    let pod = |name: &str| {
        object(
            "v1",
            "Pod",
            name,
            json!({
                "spec": {
                    "nodeName": "n1", "containers": [{"name": "main", "image": "i"}],
                    "volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}],
                },
                "status": {"phase": "Pending"},
            }),
        )
    };
    Trouble::new("claims of pods are missing", &[ephemeralvolume::DESCRIPTOR])
        .with([
            pod("taken"),
            pod("refused"),
            claim("taken-scratch", "Pending", json!({}), json!({})),
        ])
        .refusing(
            Matcher::new("create", "persistentvolumeclaims"),
            internal_error(),
        )
}

/// Claims of devices: one that a deleted pod reserved, one of a template that is missing.
fn devices() -> Trouble {
    let device = json!({"request": "r", "driver": "d", "pool": "p", "device": "x"});
    let stuck = object(
        "resource.k8s.io/v1",
        "ResourceClaim",
        "stuck",
        json!({
            "metadata": {
                "deletionTimestamp": CHANGED, "deletionGracePeriodSeconds": 0,
                "finalizers": ["resource.kubernetes.io/delete-protection"],
            },
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}},
            "status": {
                "allocation": {"devices": {"results": [device]}},
                "reservedFor": [{"resource": "pods", "name": "user", "uid": "uid-of-Pod-user"}],
            },
        }),
    );
    let pod = |name: &str, claims: Value| {
        object(
            "v1",
            "Pod",
            name,
            json!({
                "spec": {
                    "nodeName": "n1", "containers": [{"name": "main", "image": "i"}],
                    "resourceClaims": claims,
                },
                "status": {"phase": "Running"},
            }),
        )
    };
    Trouble::new("claims of devices wait", &[resourceclaim::DESCRIPTOR]).with([
        stuck,
        pod("user", json!([{"name": "r", "resourceClaimName": "stuck"}])),
        pod(
            "waits",
            json!([{"name": "r", "resourceClaimTemplateName": "missing"}]),
        ),
    ])
}

/// A report about a pool with a missing slice.
fn device_report() -> Trouble {
    let slice = cluster_object(
        "resource.k8s.io/v1",
        "ResourceSlice",
        "slice",
        json!({"spec": {
            "driver": "d", "nodeName": "n1", "devices": [{"name": "x"}],
            "pool": {"name": "p", "generation": 0, "resourceSliceCount": 2},
        }}),
    );
    let request = cluster_object(
        "resource.k8s.io/v1alpha3",
        "ResourcePoolStatusRequest",
        "report",
        json!({"spec": {"driver": "d"}}),
    );
    Trouble::new(
        "a pool of devices is incomplete",
        &[resourcepoolstatusrequest::DESCRIPTOR],
    )
    .defining("resource.k8s.io", "ResourcePoolStatusRequest", "v1alpha3")
    .with([slice, request])
}

/// Two pods mount one volume with different labels. The controller writes Events only.
fn labels() -> Trouble {
    let labelled = |name: &str, level: &str| {
        let mut pod = pod(name, "n1", "shared");
        pod["spec"]["securityContext"] = json!({"seLinuxOptions": {"level": level}});
        pod["spec"]["containers"][0]["volumeMounts"] =
            json!([{"name": "data", "mountPath": "/data"}]);
        pod
    };
    Trouble::new("labels conflict", &[selinuxwarning::DESCRIPTOR])
        .with(bound("shared"))
        .with([
            cluster_object(
                "storage.k8s.io/v1",
                "CSIDriver",
                DRIVER,
                json!({"spec": {"seLinuxMount": true}}),
            ),
            labelled("first", "s0:c1"),
            labelled("second", "s0:c2"),
        ])
        .reached(|world| !world.event_counts().is_empty())
        .listing(
            "Event SELinuxLabelConflict",
            "`syncPod`: the volume cache is empty",
        )
}
