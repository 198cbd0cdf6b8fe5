//! The desired state: the volumes that pods want on the nodes they are bound to.
//!
//! A volume stays wanted until its pod is gone or terminated, also when its claim changes meanwhile.
//! Upstream: `cache/desired_state_of_world.go`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use steersman_helpers::volume::Volume;
use steersman_objects::{Meta, Object, ObjectKey, ObjectReference, Pod, Uid};
use steersman_values::intern::Sym;

/// A pod that wants volumes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PodRef {
    pub(super) key: ObjectKey,
    pub(super) uid: Uid,
    /// The resource version at which the pod joined the desired state, as in upstream's Events.
    ///
    /// Later versions of the pod do not replace it.
    pub(super) resource_version: u64,
}

impl PodRef {
    pub(super) fn of(meta: &Meta) -> Self {
        Self {
            key: ObjectKey::new(&meta.namespace, &meta.name),
            uid: meta.uid.clone(),
            resource_version: meta.resource_version,
        }
    }

    /// The object of Events about the pod.
    pub(super) fn reference(&self) -> ObjectReference {
        ObjectReference {
            api_version: Pod::RESOURCE.api_version().into_owned(),
            kind: Pod::RESOURCE.kind.clone().into_owned(),
            namespace: self.key.namespace.to_string(),
            name: self.key.name.to_string(),
            uid: self.uid.to_string(),
            resource_version: self.resource_version.to_string(),
        }
    }
}

/// A volume that pods want on one node.
#[derive(Debug)]
pub(super) struct Wanted {
    /// As it was when the first pod joined. Upstream: `spec` of `volumeToAttach`.
    pub(super) volume: Arc<Volume>,
    /// Sorted by UID, so that Events have a stable order.
    pub(super) pods: BTreeMap<Uid, PodRef>,
    /// Whether Events told the pods that another node has the volume.
    ///
    /// The flag goes with the last pod, and is not reset before. Upstream: `multiAttachErrorReported`.
    pub(super) multi_attach_reported: bool,
}

/// The desired state.
#[derive(Debug, Default)]
pub(super) struct Desired {
    /// Nodes whose kubelets leave attachments to this controller.
    ///
    /// They have the annotation `volumes.kubernetes.io/controller-managed-attach-detach`. Upstream:
    /// `nodesManaged`.
    nodes: HashSet<Sym>,
    /// By unique name of the volume, then by node.
    ///
    /// Upstream has nodes outside. A step looks at one volume on all nodes.
    volumes: HashMap<Sym, BTreeMap<Sym, Wanted>>,
    /// The volumes as they were found. So the end of a pod needs neither its claims nor their volumes,
    /// which may be gone.
    pods: HashMap<Uid, PodVolumes>,
}

/// The node of a pod, and the unique names of its volumes.
#[derive(Debug)]
struct PodVolumes {
    node: Sym,
    volumes: Vec<Sym>,
}

impl Desired {
    /// Manages a node from now on. True if the node is new.
    ///
    /// Upstream: `AddNode`. The annotation may go later; the node stays managed until its deletion, as
    /// upstream.
    pub(super) fn manage(&mut self, node: &Sym) -> bool {
        self.nodes.insert(node.clone())
    }

    /// Stops to manage a deleted node, unless pods want volumes there.
    ///
    /// Upstream: `DeleteNode`. Its pods outlive a node for a while, and their volumes have to be
    /// detached first.
    pub(super) fn forget_node(&mut self, node: &Sym) {
        if self.pods.values().all(|pod| pod.node != *node) {
            self.nodes.remove(node);
        }
    }

    /// Upstream: `NodeExists`.
    pub(super) fn manages(&self, node: &Sym) -> bool {
        self.nodes.contains(node)
    }

    /// Wants `volume` on the node of a pod. True if the pod did not want it before.
    ///
    /// Upstream: `AddPod`. A pod that uses one volume twice counts once.
    pub(super) fn add(&mut self, pod: PodRef, node: &Sym, volume: Volume) -> bool {
        let name = volume.unique_name.clone();
        let known = self.pods.entry(pod.uid.clone()).or_insert(PodVolumes {
            node: node.clone(),
            volumes: Vec::new(),
        });
        if known.volumes.contains(&name) {
            return false;
        }
        known.volumes.push(name.clone());
        let nodes = self.volumes.entry(name).or_default();
        let wanted = nodes.entry(node.clone()).or_insert_with(|| Wanted {
            volume: Arc::new(volume),
            pods: BTreeMap::new(),
            multi_attach_reported: false,
        });
        wanted.pods.insert(pod.uid.clone(), pod);
        true
    }

    /// Removes a pod. Returns its volumes.
    ///
    /// Upstream: `DeletePod`, once for each volume. The volumes may be detached if no other pod wants
    /// them.
    pub(super) fn remove_pod(&mut self, pod: &Uid) -> Vec<Sym> {
        let Some(PodVolumes { node, volumes }) = self.pods.remove(pod) else {
            return Vec::new();
        };
        for volume in &volumes {
            let Some(nodes) = self.volumes.get_mut(volume) else {
                continue;
            };
            if let Some(wanted) = nodes.get_mut(&node) {
                wanted.pods.remove(pod);
                if wanted.pods.is_empty() {
                    nodes.remove(&node);
                }
            }
            if nodes.is_empty() {
                self.volumes.remove(volume);
            }
        }
        volumes
    }

    /// Removes volumes that need no attachment any more. Returns their names.
    ///
    /// Upstream: the end of `findAndRemoveDeletedPods`, which looks for such volumes once a minute.
    /// Their pods stay, for their other volumes.
    pub(super) fn remove_volumes(&mut self, is_obsolete: impl Fn(&Volume) -> bool) -> Vec<Sym> {
        let is_obsolete = |nodes: &BTreeMap<Sym, Wanted>| {
            nodes.values().any(|wanted| is_obsolete(&wanted.volume))
        };
        let gone = self.volumes.extract_if(|_, nodes| is_obsolete(nodes));
        let gone: Vec<Sym> = gone.map(|(name, _)| name).collect();
        for pod in self.pods.values_mut() {
            pod.volumes.retain(|volume| !gone.contains(volume));
        }
        gone
    }

    /// `None` if no pod on the node wants the volume.
    pub(super) fn get(&self, volume: &Sym, node: &Sym) -> Option<&Wanted> {
        self.volumes.get(volume)?.get(node)
    }

    /// Upstream: `VolumeExists`.
    pub(super) fn wants(&self, volume: &Sym, node: &Sym) -> bool {
        self.get(volume, node).is_some()
    }

    /// Notes that the pods know of the other node.
    ///
    /// Upstream: `SetMultiAttachError`.
    pub(super) fn note_multi_attach(&mut self, volume: &Sym, node: &Sym) {
        let nodes = self.volumes.get_mut(volume);
        if let Some(wanted) = nodes.and_then(|nodes| nodes.get_mut(node)) {
            wanted.multi_attach_reported = true;
        }
    }

    /// The nodes where pods want a volume, sorted.
    pub(super) fn nodes_of(&self, volume: &Sym) -> Vec<Sym> {
        let nodes = self.volumes.get(volume);
        nodes.map_or_else(Vec::new, |nodes| nodes.keys().cloned().collect())
    }

    /// The pods that want a volume on one of these nodes.
    ///
    /// Upstream: `GetVolumePodsOnNodes`.
    pub(super) fn pods_on<'a>(
        &'a self,
        volume: &'a Sym,
        nodes: &'a [Sym],
    ) -> impl Iterator<Item = &'a PodRef> {
        let wanted = nodes.iter().filter_map(|node| self.get(volume, node));
        wanted.flat_map(|wanted| wanted.pods.values())
    }

    /// The names of all wanted volumes.
    pub(super) fn names(&self) -> impl Iterator<Item = &Sym> {
        self.volumes.keys()
    }

    /// All volumes, once per node.
    ///
    /// Upstream: `GetVolumesToAttach`.
    pub(super) fn all(&self) -> impl Iterator<Item = &Wanted> {
        self.volumes.values().flat_map(BTreeMap::values)
    }
}
