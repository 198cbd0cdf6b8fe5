//! Claims, classes and volumes, as the simulated scheduler and the simulated CSI driver see them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use steersman_runtime::client::{ApiClient, ApiError, PatchKind, Target};
use steersman_runtime::informer::Store;
use steersman_runtime::object::{DecodeError, Meta, Object, ObjectKey, ObjectMetadata};
use steersman_runtime::resource::ResourceType;

use super::pod::UsedClaim;

/// Name of the default StorageClass.
pub const DEFAULT_CLASS: &str = "standard";
/// The provisioner of the default StorageClass, and the CSI driver of its volumes.
pub const PROVISIONER: &str = "simulate.steersman.dev/volumes";
/// The provisioner of classes with volumes that users create.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
/// Annotation with the node that the scheduler has chosen for the first pod of a claim.
pub(super) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Annotation with the provisioner of a volume.
pub(super) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
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

pub(super) static CLAIMS: ResourceType =
    storage_type("", "PersistentVolumeClaim", "persistentvolumeclaims", true);
pub(super) static VOLUMES: ResourceType =
    storage_type("", "PersistentVolume", "persistentvolumes", false);
static CLASSES: ResourceType =
    storage_type("storage.k8s.io", "StorageClass", "storageclasses", false);

/// A PersistentVolumeClaim with the fields that provisioning reads.
#[derive(Debug)]
pub(super) struct SimClaim {
    pub(super) meta: Meta,
    pub(super) annotations: HashMap<String, String>,
    pub(super) spec: ClaimSpec,
    pub(super) status: ClaimStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ClaimSpec {
    pub(super) access_modes: Value,
    pub(super) resources: Requests,
    pub(super) storage_class_name: Option<String>,
    pub(super) volume_mode: Option<String>,
    pub(super) volume_name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Requests {
    pub(super) requests: Storage,
}

/// The entry `storage` of a list of quantities.
#[derive(Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub(super) struct Storage {
    pub(super) storage: String,
}

impl Storage {
    /// The list of quantities.
    pub(super) fn json(&self) -> Value {
        json!({ "storage": self.storage })
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ClaimStatus {
    pub(super) phase: String,
    pub(super) capacity: Storage,
}

impl SimClaim {
    /// Whether pods can use its volume.
    pub(super) fn is_bound(&self) -> bool {
        !self.spec.volume_name.is_empty() && self.status.phase == "Bound"
    }

    /// Name of its class; empty without one.
    pub(super) fn class(&self) -> &str {
        let older = self.annotations.get(CLASS_ANNOTATION);
        older
            .or(self.spec.storage_class_name.as_ref())
            .map_or("", String::as_str)
    }

    /// Name of the volume that the provisioner creates for it.
    pub(super) fn volume(&self) -> String {
        format!("pvc-{}", self.meta.uid)
    }
}

/// A PersistentVolume with the fields that reclaiming reads.
#[derive(Debug)]
pub(super) struct SimVolume {
    pub(super) meta: Meta,
    pub(super) annotations: HashMap<String, String>,
    pub(super) spec: VolumeSpec,
    pub(super) status: VolumeStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct VolumeSpec {
    pub(super) claim_ref: ClaimRef,
    pub(super) persistent_volume_reclaim_policy: String,
    pub(super) storage_class_name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ClaimRef {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct VolumeStatus {
    pub(super) phase: String,
}

/// A StorageClass with the fields that provisioning reads.
#[derive(Debug)]
pub(super) struct SimClass {
    pub(super) meta: Meta,
    pub(super) annotations: HashMap<String, String>,
    pub(super) wire: ClassWire,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ClassWire {
    pub(super) provisioner: String,
    pub(super) reclaim_policy: Option<String>,
    pub(super) volume_binding_mode: Option<String>,
    pub(super) mount_options: Option<Value>,
}

impl SimClass {
    pub(super) fn waits_for_pod(&self) -> bool {
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
        let kind = "StorageClass";
        let wire = serde_json::from_slice(json);
        let (meta, annotations, IgnoredAny, IgnoredAny) = parts(json, kind)?;
        Ok(Self {
            meta,
            annotations,
            wire: wire.map_err(|source| DecodeError::Json { kind, source })?,
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
    pub(super) claims: Store<SimClaim>,
    pub(super) classes: Store<SimClass>,
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
    pub(super) fn class_of(&self, claim: &SimClaim) -> Option<Arc<SimClass>> {
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

pub(super) fn target<'a>(
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
