//! The simulated provisioner: it gives each claim a volume, and deletes the volume after the claim.
//!
//! claims, classes, volumes (informers) -> queue -> volume, then claim; each write is repeatable
//!
//! The default StorageClass binds at once, because every simulated node reaches every simulated
//! volume. Claims of other classes get simulated volumes, too, because their provisioners are
//! absent from such a cluster. Volumes that exist already are left to the PersistentVolume binder.
//!
//! Upstream: `pkg/controller/volume/persistentvolume`, and the external provisioner and resizer of
//! CSI drivers.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use steersman_runtime::client::{ApiClient, ApiError, PatchKind, Target};
use steersman_runtime::informer::{Change, InformerFactory, SharedInformer, Store};
use steersman_runtime::object::{DecodeError, Meta, Object, ObjectKey, ObjectMetadata, Uid};
use steersman_runtime::resource::ResourceType;
use steersman_runtime::workers::{Requeue, Syncer};
use steersman_runtime::workqueue::WorkQueue;

use super::pod::UsedClaim;

/// Name of the default StorageClass.
pub const DEFAULT_CLASS: &str = "standard";
/// The provisioner of the default StorageClass, and the CSI driver of its volumes.
pub const PROVISIONER: &str = "simulate.steersman.dev/volumes";
/// The provisioner of classes with volumes that users create.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
/// Annotation with the node that the scheduler has chosen for the first pod of a claim.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Annotation with the provisioner of a volume.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// Older form of `spec.storageClassName`.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

const fn storage_type(
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    namespaced: bool,
) -> ResourceType {
    ResourceType {
        group: Cow::Borrowed(group),
        version: Cow::Borrowed("v1"),
        kind: Cow::Borrowed(kind),
        plural: Cow::Borrowed(plural),
        namespaced,
    }
}

static CLAIMS: ResourceType =
    storage_type("", "PersistentVolumeClaim", "persistentvolumeclaims", true);
static VOLUMES: ResourceType = storage_type("", "PersistentVolume", "persistentvolumes", false);
static CLASSES: ResourceType =
    storage_type("storage.k8s.io", "StorageClass", "storageclasses", false);

/// A PersistentVolumeClaim with the fields that provisioning reads.
#[derive(Debug)]
pub(super) struct SimClaim {
    meta: Meta,
    annotations: HashMap<String, String>,
    spec: ClaimSpec,
    status: ClaimStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaimSpec {
    access_modes: Value,
    resources: Requests,
    storage_class_name: Option<String>,
    volume_mode: Option<String>,
    volume_name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Requests {
    requests: Storage,
}

/// The entry `storage` of a list of quantities.
#[derive(Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
struct Storage {
    storage: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClaimStatus {
    phase: String,
    capacity: Storage,
}

impl SimClaim {
    /// Whether pods can use its volume.
    fn is_bound(&self) -> bool {
        !self.spec.volume_name.is_empty() && self.status.phase == "Bound"
    }

    /// Name of its class; empty without one.
    fn class(&self) -> &str {
        let older = self.annotations.get(CLASS_ANNOTATION);
        older
            .or(self.spec.storage_class_name.as_ref())
            .map_or("", String::as_str)
    }

    /// Name of the volume that the provisioner creates for it.
    fn volume(&self) -> String {
        format!("pvc-{}", self.meta.uid)
    }
}

/// A PersistentVolume with the fields that reclaiming reads.
#[derive(Debug)]
struct SimVolume {
    meta: Meta,
    annotations: HashMap<String, String>,
    spec: VolumeSpec,
    status: VolumeStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct VolumeSpec {
    claim_ref: ClaimRef,
    persistent_volume_reclaim_policy: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClaimRef {
    namespace: String,
    name: String,
    uid: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct VolumeStatus {
    phase: String,
}

/// A StorageClass with the fields that provisioning reads.
#[derive(Debug)]
struct SimClass {
    meta: Meta,
    wire: ClassWire,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClassWire {
    provisioner: String,
    reclaim_policy: Option<String>,
    volume_binding_mode: Option<String>,
    mount_options: Option<Value>,
}

impl SimClass {
    fn waits_for_pod(&self) -> bool {
        self.wire.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer")
    }
}

/// The annotations of an object. The runtime's views of metadata drop them.
#[derive(Deserialize)]
struct Annotated {
    #[serde(default)]
    annotations: HashMap<String, String>,
}

/// Decodes the parts of an object that share one form: metadata, annotations, spec and status.
fn parts<S, T>(
    json: &[u8],
    kind: &'static str,
) -> Result<(Meta, HashMap<String, String>, S, T), DecodeError>
where
    S: serde::de::DeserializeOwned + Default,
    T: serde::de::DeserializeOwned + Default,
{
    #[derive(Deserialize)]
    struct Wire<S, T> {
        metadata: Annotated,
        spec: Option<S>,
        status: Option<T>,
    }
    let wire: Wire<S, T> =
        serde_json::from_slice(json).map_err(|source| DecodeError::Json { kind, source })?;
    Ok((
        ObjectMetadata::decode(json)?.meta,
        wire.metadata.annotations,
        wire.spec.unwrap_or_default(),
        wire.status.unwrap_or_default(),
    ))
}

impl Object for SimClaim {
    const RESOURCE: &'static ResourceType = &CLAIMS;

    fn decode(json: &[u8]) -> Result<Self, DecodeError> {
        let (meta, annotations, spec, status) = parts(json, "PersistentVolumeClaim")?;
        Ok(Self {
            meta,
            annotations,
            spec,
            status,
        })
    }

    fn meta(&self) -> &Meta {
        &self.meta
    }
}

impl Object for SimVolume {
    const RESOURCE: &'static ResourceType = &VOLUMES;

    fn decode(json: &[u8]) -> Result<Self, DecodeError> {
        let (meta, annotations, spec, status) = parts(json, "PersistentVolume")?;
        Ok(Self {
            meta,
            annotations,
            spec,
            status,
        })
    }

    fn meta(&self) -> &Meta {
        &self.meta
    }
}

impl Object for SimClass {
    const RESOURCE: &'static ResourceType = &CLASSES;

    fn decode(json: &[u8]) -> Result<Self, DecodeError> {
        Ok(Self {
            meta: ObjectMetadata::decode(json)?.meta,
            wire: serde_json::from_slice(json).map_err(|source| DecodeError::Json {
                kind: "StorageClass",
                source,
            })?,
        })
    }

    fn meta(&self) -> &Meta {
        &self.meta
    }
}

/// The default StorageClass.
pub(super) fn default_class() -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": DEFAULT_CLASS,
            "annotations": { "storageclass.kubernetes.io/is-default-class": "true" }
        },
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
        "allowVolumeExpansion": true
    })
}

/// Creates the default StorageClass, unless it exists.
pub(super) async fn create_default_class(client: &ApiClient) -> Result<(), ApiError> {
    let target = target(&CLASSES, None, None);
    match client.create(target, &default_class()).await {
        Err(error) if !error.is_already_exists() => Err(error),
        _ => Ok(()),
    }
}

/// A pod's claims, as the scheduler sees them.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    /// All are bound.
    Bound,
    /// The provisioner will bind the claims with these names after they get a node.
    NeedNode(Vec<ObjectKey>),
    /// The provisioner is about to bind them.
    Soon,
    /// One of them is missing or has no provisioner; the text says which.
    Missing(String),
}

/// The caches of claims and classes.
#[derive(Clone)]
pub(super) struct Claims {
    claims: Store<SimClaim>,
    classes: Store<SimClass>,
}

impl Claims {
    /// Whether these claims let a pod start.
    pub(super) fn readiness<'a>(
        &self,
        namespace: &str,
        used: impl Iterator<Item = UsedClaim<'a>>,
    ) -> Readiness {
        let (mut need_node, mut soon) = (Vec::new(), false);
        for UsedClaim { name, is_ephemeral } in used {
            let key = ObjectKey::new(namespace, &name);
            let Some(claim) = self.claims.get(&key) else {
                return Readiness::Missing(if is_ephemeral {
                    format!(
                        "waiting for ephemeral volume controller to create the persistentvolumeclaim {name:?}"
                    )
                } else {
                    format!("persistentvolumeclaim {name:?} not found")
                });
            };
            if claim.status.phase == "Lost" {
                return Readiness::Missing(format!(
                    "persistentvolumeclaim {name:?} bound to non-existent persistentvolume {:?}",
                    claim.spec.volume_name
                ));
            }
            if claim.meta.is_terminating() {
                return Readiness::Missing(format!(
                    "persistentvolumeclaim {name:?} is being deleted"
                ));
            }
            if claim.is_bound() {
                continue;
            }
            match self.class_of(&claim) {
                Some(class) if !class.waits_for_pod() => soon = true,
                Some(_) if claim.annotations.contains_key(SELECTED_NODE) => soon = true,
                Some(_) => need_node.push(key),
                None => {
                    return Readiness::Missing(
                        "pod has unbound immediate PersistentVolumeClaims".to_owned(),
                    );
                }
            }
        }
        match (need_node.is_empty(), soon) {
            (false, _) => Readiness::NeedNode(need_node),
            (true, true) => Readiness::Soon,
            (true, false) => Readiness::Bound,
        }
    }

    /// The class of a claim, if the provisioner serves it.
    fn class_of(&self, claim: &SimClaim) -> Option<Arc<SimClass>> {
        let class = self.classes.get(&ObjectKey::new("", claim.class()))?;
        (class.wire.provisioner != NO_PROVISIONER).then_some(class)
    }
}

/// Chooses the node of a claim, for a class that waits for the first pod.
pub(super) async fn select_node(
    client: &ApiClient,
    claim: &ObjectKey,
    node: &str,
) -> Result<(), ApiError> {
    let target = target(&CLAIMS, Some(claim.namespace.as_str()), Some(&claim.name));
    let body = json!({ "metadata": { "annotations": { SELECTED_NODE: node } } });
    client.patch(target, PatchKind::Merge, &body).await?;
    Ok(())
}

fn target<'a>(
    resource: &'a ResourceType,
    namespace: Option<&'a str>,
    name: Option<&'a str>,
) -> Target<'a> {
    Target {
        resource,
        namespace,
        name,
        subresource: None,
    }
}

/// A key of the provisioner's queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Work {
    Claim(ObjectKey),
    Volume(ObjectKey),
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claim(key) | Self::Volume(key) => key.fmt(f),
        }
    }
}

/// Binds claims, resizes them, and reclaims the volumes of deleted claims.
pub(super) struct Provisioner {
    client: ApiClient,
    claims: Claims,
    volumes: Store<SimVolume>,
}

impl Provisioner {
    /// Requests the caches, and queues changed objects. `claim_changed` gets the key of every
    /// claim that changes.
    pub(super) fn new(
        client: ApiClient,
        informers: &InformerFactory,
        queue: &WorkQueue<Work>,
        claim_changed: impl Fn(&ObjectKey) + Send + Sync + 'static,
    ) -> Self {
        let claims = informers.shared::<SimClaim>();
        let classes = informers.shared::<SimClass>();
        let volumes = informers.shared::<SimVolume>();
        let queued = queue.clone();
        claims.add_handler(move |change| {
            let claim = change.object();
            match change {
                Change::Deleted { .. } => {
                    queued.add(Work::Volume(ObjectKey::new("", &claim.spec.volume_name)));
                }
                _ => queued.add(Work::Claim(claim.key())),
            }
            claim_changed(&claim.key());
        });
        let queued = queue.clone();
        volumes.add_handler(move |change| queued.add(Work::Volume(change.object().key())));
        enqueue_claims_of_new_classes(&classes, claims.store(), queue);
        Self {
            client,
            claims: Claims {
                claims: claims.store(),
                classes: classes.store(),
            },
            volumes: volumes.store(),
        }
    }

    /// The caches for the scheduler.
    pub(super) fn claims(&self) -> Claims {
        self.claims.clone()
    }

    /// Creates the volume of an unbound claim and binds both, or grants a larger request.
    async fn sync_claim(&self, key: &ObjectKey) -> Result<(), ApiError> {
        let Some(claim) = self.claims.claims.get(key) else {
            return Ok(());
        };
        let own = claim.volume();
        let is_foreign = !claim.spec.volume_name.is_empty() && claim.spec.volume_name != own;
        if claim.meta.is_terminating() || is_foreign {
            return Ok(());
        }
        let request = &claim.spec.resources.requests.storage;
        if claim.is_bound() {
            if *request != claim.status.capacity.storage {
                self.resize(&claim, request).await?;
            }
            return Ok(());
        }
        let Some(class) = self.claims.class_of(&claim) else {
            return Ok(());
        };
        if class.waits_for_pod() && !claim.annotations.contains_key(SELECTED_NODE) {
            return Ok(());
        }
        let created = self
            .client
            .create(target(&VOLUMES, None, None), &volume(&claim, &class))
            .await;
        match created {
            Err(error) if !error.is_already_exists() => return Err(error),
            _ => {}
        }
        self.patch(
            &VOLUMES,
            None,
            &own,
            "status",
            json!({ "status": { "phase": "Bound" } }),
        )
        .await?;
        let bound = json!({
            "metadata": {
                "uid": claim.meta.uid.to_string(),
                "annotations": {
                    "pv.kubernetes.io/bind-completed": "yes",
                    "pv.kubernetes.io/bound-by-controller": "yes",
                    "volume.kubernetes.io/storage-provisioner": class.wire.provisioner
                }
            },
            "spec": { "volumeName": own }
        });
        self.patch_claim(&claim, "", bound).await?;
        let status = json!({ "status": {
            "phase": "Bound", "accessModes": claim.spec.access_modes, "capacity": { "storage": request }
        }});
        self.patch_claim(&claim, "status", status).await
    }

    /// Grants the requested size.
    async fn resize(&self, claim: &SimClaim, request: &str) -> Result<(), ApiError> {
        let capacity = json!({ "capacity": { "storage": request } });
        self.patch(
            &VOLUMES,
            None,
            &claim.volume(),
            "",
            json!({ "spec": capacity }),
        )
        .await?;
        self.patch_claim(claim, "status", json!({ "status": capacity }))
            .await
    }

    async fn patch_claim(
        &self,
        claim: &SimClaim,
        subresource: &'static str,
        body: Value,
    ) -> Result<(), ApiError> {
        let namespace = Some(claim.meta.namespace.as_str());
        self.patch(&CLAIMS, namespace, &claim.meta.name, subresource, body)
            .await
    }

    async fn patch(
        &self,
        resource: &ResourceType,
        namespace: Option<&str>,
        name: &str,
        subresource: &'static str,
        body: Value,
    ) -> Result<(), ApiError> {
        let at = Target {
            subresource: Some(subresource).filter(|part| !part.is_empty()),
            ..target(resource, namespace, Some(name))
        };
        self.client.patch(at, PatchKind::Merge, &body).await?;
        Ok(())
    }

    /// Reclaims a provisioned volume after its claim.
    async fn sync_volume(&self, key: &ObjectKey) -> Result<(), ApiError> {
        let Some(volume) = self.volumes.get(key) else {
            return Ok(());
        };
        let claim = &volume.spec.claim_ref;
        let is_ours = volume.annotations.contains_key(PROVISIONED_BY)
            && *volume.meta.name == *format!("pvc-{}", claim.uid);
        if !is_ours || volume.meta.is_terminating() || self.exists(claim).await? {
            return Ok(());
        }
        if volume.spec.persistent_volume_reclaim_policy == "Delete" {
            let options = json!({ "preconditions": { "uid": volume.meta.uid.to_string() } });
            let at = target(&VOLUMES, None, Some(&key.name));
            return match self.client.delete(at, &options).await {
                Err(error) if !error.is_not_found() => Err(error),
                _ => Ok(()),
            };
        }
        if volume.status.phase == "Released" {
            return Ok(());
        }
        let released = json!({ "status": { "phase": "Released" } });
        self.patch(&VOLUMES, None, &key.name, "status", released)
            .await
    }

    /// Whether the claim of a volume exists. The cache alone may be late, and deletion destroys
    /// data, so a live read confirms that it is gone.
    async fn exists(&self, claim: &ClaimRef) -> Result<bool, ApiError> {
        let key = ObjectKey::new(&claim.namespace, &claim.name);
        let has_uid = |uid: &Uid| uid.to_string() == claim.uid;
        let cached = self.claims.claims.get(&key);
        if cached.is_some_and(|cached| has_uid(&cached.meta.uid)) {
            return Ok(true);
        }
        let at = target(&CLAIMS, Some(&claim.namespace), Some(&claim.name));
        match self.client.get(at).await {
            Ok(found) => Ok(SimClaim::decode(&found).is_ok_and(|found| has_uid(&found.meta.uid))),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Queues the claims of a class that appears after them.
fn enqueue_claims_of_new_classes(
    classes: &SharedInformer<SimClass>,
    claims: Store<SimClaim>,
    queue: &WorkQueue<Work>,
) {
    let queue = queue.clone();
    classes.add_handler(move |change| {
        let Change::Added { object: class, .. } = change else {
            return;
        };
        let waits =
            |claim: &&Arc<SimClaim>| claim.class() == &*class.meta.name && !claim.is_bound();
        for claim in claims.list().iter().filter(waits) {
            queue.add(Work::Claim(claim.key()));
        }
    });
}

impl Syncer<Work> for Provisioner {
    type Error = ApiError;

    async fn sync(&self, work: &Work) -> Result<Requeue, ApiError> {
        match work {
            Work::Claim(key) => self.sync_claim(key).await?,
            Work::Volume(key) => self.sync_volume(key).await?,
        }
        Ok(Requeue::Never)
    }
}

/// The volume of a claim, as an external provisioner creates it.
fn volume(claim: &SimClaim, class: &SimClass) -> Value {
    let (meta, name) = (&claim.meta, claim.volume());
    let mut volume = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": { "name": name, "annotations": { PROVISIONED_BY: class.wire.provisioner } },
        "spec": {
            "capacity": claim.spec.resources.requests.json(),
            "accessModes": claim.spec.access_modes,
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": meta.namespace.as_str(),
                "name": &*meta.name,
                "uid": meta.uid.to_string(),
                "resourceVersion": meta.resource_version.to_string()
            },
            "csi": { "driver": "simulate.steersman.dev", "volumeHandle": name },
            "persistentVolumeReclaimPolicy": class.wire.reclaim_policy.as_deref().unwrap_or("Delete"),
            "storageClassName": claim.class(),
            "volumeMode": claim.spec.volume_mode.as_deref().unwrap_or("Filesystem")
        }
    });
    if let Some(options) = &class.wire.mount_options {
        volume["spec"]["mountOptions"] = options.clone();
    }
    volume
}

impl Storage {
    fn json(&self) -> Value {
        json!({ "storage": self.storage })
    }
}
