//! Claims, classes and volumes, as the simulated scheduler and the simulated CSI driver see them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use steersman_client::{ApiClient, ApiError, PatchKind, Target};
use steersman_helpers::scheduling::NodeSelector;
use steersman_objects::{DecodeError, Meta, Node, Object, ObjectKey, ObjectMetadata};
use steersman_runtime::informer::Store;
use steersman_values::intern::Sym;
use steersman_values::labels::Labels;
use steersman_values::resource::ResourceType;

use super::pod::SimPod;

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

    /// Whether one pod may use it at once.
    fn is_exclusive(&self) -> bool {
        let modes = self.spec.access_modes.as_array();
        modes.is_some_and(|modes| modes.iter().any(|mode| mode == "ReadWriteOncePod"))
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
    node_affinity: VolumeNodeAffinity,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct VolumeNodeAffinity {
    required: Option<NodeSelector>,
}

impl SimVolume {
    /// Whether the node is one of those that can use it.
    pub(super) fn reaches(&self, node: &Node) -> bool {
        let required = self.spec.node_affinity.required.as_ref();
        required.is_none_or(|required| required.matches(node))
    }
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
    allowed_topologies: Vec<TopologyTerm>,
}

/// A term of `allowedTopologies`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TopologyTerm {
    match_label_expressions: Vec<TopologyRequirement>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TopologyRequirement {
    key: Sym,
    values: Vec<Sym>,
}

impl SimClass {
    pub(super) fn waits_for_pod(&self) -> bool {
        self.wire.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer")
    }

    /// Whether its claims get volumes that a provisioner creates.
    fn is_provisioned(&self) -> bool {
        self.wire.provisioner != NO_PROVISIONER
    }

    /// Whether a new volume of the class can be used on the node. Upstream:
    /// `MatchTopologySelectorTerms`.
    pub(super) fn provisions_for(&self, node: &Node) -> bool {
        let allowed = &self.wire.allowed_topologies;
        let is_met = |one: &TopologyRequirement| {
            let label = node.meta.labels.get(&one.key);
            label.is_some_and(|label| one.values.contains(label))
        };
        let mut terms = allowed.iter().map(|term| &term.match_label_expressions);
        let is_allowed =
            allowed.is_empty() || terms.any(|all| !all.is_empty() && all.iter().all(is_met));
        self.is_provisioned() && is_allowed
    }
}

/// The annotations and labels of an object. The runtime's views of metadata drop them.
#[derive(Deserialize)]
struct Annotated {
    #[serde(default)]
    annotations: HashMap<String, String>,
    #[serde(default)]
    labels: HashMap<String, String>,
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
    let labels = wire.metadata.labels.iter();
    let meta = Meta {
        labels: Labels::new(labels.map(|(key, value)| (&**key, &**value))),
        ..ObjectMetadata::decode(json)?.meta
    };
    Ok((
        meta,
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

/// The volumes of a pod, as far as they restrict its node.
#[derive(Debug, Default)]
pub(super) struct VolumeDemand {
    /// Claims that one pod may use at once.
    pub(super) exclusive: Vec<ObjectKey>,
    /// The volumes of bound claims.
    pub(super) bound: Vec<Arc<SimVolume>>,
    /// The classes of claims that get a volume after their first pod has a node.
    pub(super) unbound: Vec<Arc<SimClass>>,
}

/// The claims of a pod that can be placed.
#[derive(Debug, Default)]
pub(super) struct Prospect {
    /// Their demands on the node.
    pub(super) demand: VolumeDemand,
    /// The claims that the provisioner binds after they get a node.
    pub(super) need_node: Vec<ObjectKey>,
}

/// The reason for which a pod is not placed now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// The provisioner is about to bind a claim, whose node is chosen.
    Soon,
    /// No node can take the pod; the text says why.
    Unresolvable(String),
}

/// The caches of claims, classes and volumes.
#[derive(Clone)]
pub(super) struct Claims {
    pub(super) claims: Store<SimClaim>,
    pub(super) classes: Store<SimClass>,
    pub(super) volumes: Store<SimVolume>,
}

impl Claims {
    /// The prospect of a pod with these claims. Upstream: `PreFilter` of the plugins
    /// VolumeRestrictions, VolumeBinding and VolumeZone, in this order.
    pub(super) fn prospect(&self, pod: &SimPod) -> Result<Prospect, Obstacle> {
        let mut prospect = Prospect::default();
        let mut is_soon = false;
        let mut gone = None;
        for (key, claim) in self.of(pod).map_err(Obstacle::Unresolvable)? {
            if claim.is_exclusive() {
                prospect.demand.exclusive.push(key.clone());
            }
            let volume = &claim.spec.volume_name;
            if claim.is_bound() {
                match self.volumes.get(&ObjectKey::new("", volume)) {
                    Some(volume) => prospect.demand.bound.push(volume),
                    None => gone = gone.or_else(|| Some(volume.clone())),
                }
                continue;
            }
            let class = self.class(&claim).filter(|class| class.waits_for_pod());
            match class {
                Some(_) if claim.annotations.contains_key(SELECTED_NODE) => is_soon = true,
                Some(class) if volume.is_empty() => {
                    prospect.demand.unbound.push(class);
                    prospect.need_node.push(key);
                }
                _ => {
                    let why = "pod has unbound immediate PersistentVolumeClaims".to_owned();
                    return Err(Obstacle::Unresolvable(why));
                }
            }
        }
        if let Some(volume) = gone {
            let why = format!("persistentvolume {volume:?} not found");
            return Err(Obstacle::Unresolvable(why));
        }
        if is_soon && prospect.need_node.is_empty() {
            return Err(Obstacle::Soon);
        }
        Ok(prospect)
    }

    /// The claims of a pod, all of which exist and are usable; otherwise the error of the scheduler.
    /// Upstream: `podHasPVCs`.
    fn of(&self, pod: &SimPod) -> Result<Vec<(ObjectKey, Arc<SimClaim>)>, String> {
        let namespace = pod.meta().namespace.as_str();
        let found = |name: &str| self.claims.get(&ObjectKey::new(namespace, name));
        for used in pod.claims().filter(|used| !used.is_ephemeral) {
            if found(&used.name).is_none() {
                return Err(format!("persistentvolumeclaim {:?} not found", used.name));
            }
        }
        let mut claims = Vec::new();
        for used in pod.claims() {
            let name = &*used.name;
            let Some(claim) = found(name) else {
                return Err(format!(
                    "waiting for ephemeral volume controller to create the persistentvolumeclaim {name:?}"
                ));
            };
            if claim.status.phase == "Lost" {
                return Err(format!(
                    "persistentvolumeclaim {name:?} bound to non-existent persistentvolume {:?}",
                    claim.spec.volume_name
                ));
            }
            if claim.meta.is_terminating() {
                return Err(format!("persistentvolumeclaim {name:?} is being deleted"));
            }
            if used.is_ephemeral && !claim.meta.is_controlled_by(&pod.meta().uid) {
                return Err(format!(
                    "PVC {namespace}/{name} was not created for pod {} (pod is not owner)",
                    pod.key()
                ));
            }
            claims.push((ObjectKey::new(namespace, name), claim));
        }
        Ok(claims)
    }

    /// The class of a claim.
    fn class(&self, claim: &SimClaim) -> Option<Arc<SimClass>> {
        self.classes.get(&ObjectKey::new("", claim.class()))
    }

    /// The class of a claim, if the provisioner serves it.
    pub(super) fn class_of(&self, claim: &SimClaim) -> Option<Arc<SimClass>> {
        self.class(claim).filter(|class| class.is_provisioned())
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
