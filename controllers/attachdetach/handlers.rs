//! Events of objects: changes of the desired state and of nodes, and keys for the queue.
//!
//! Until [`Shared::start`] has read the caches, events change nothing.
//!
//! Upstream: `podAdd`, `podUpdate`, `podDelete`, `nodeUpdate` and `nodeDelete` in
//! `attach_detach_controller.go`, and its populator.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use steersman_helpers::volume::{Plugin, Volume};
use steersman_objects::{
    CsiDriver, Node, Object, ObjectKey, PersistentVolume, PersistentVolumeClaim, Pod,
    VolumeAttachment,
};
use steersman_runtime::informer::{Change, SharedInformer};
use steersman_values::intern::Sym;

use super::desired::PodRef;
use super::{Shared, Work};

/// Adds the handlers of pods, nodes and VolumeAttachments.
pub(super) fn register(
    shared: &Arc<Shared>,
    pods: &SharedInformer<Pod>,
    nodes: &SharedInformer<Node>,
    attachments: &SharedInformer<VolumeAttachment>,
) {
    let of_pods = Arc::clone(shared);
    pods.add_handler(move |change| match change {
        Change::Added { object, .. } => of_pods.pod_changed(object),
        Change::Updated { old, new } => {
            // Another pod of this name hides the deletion of the old one.
            if old.meta.uid != new.meta.uid {
                of_pods.pod_gone(old);
            }
            of_pods.pod_changed(new);
        }
        Change::Deleted { object, .. } => of_pods.pod_gone(object),
    });
    let of_nodes = Arc::clone(shared);
    nodes.add_handler(move |change| match change {
        Change::Added { object, .. } => of_nodes.node_changed(None, object),
        Change::Updated { old, new } => of_nodes.node_changed(Some(old), new),
        Change::Deleted { object, .. } => of_nodes.node_gone(object),
    });
    let of_attachments = Arc::clone(shared);
    attachments.add_handler(move |change| of_attachments.attachment_changed(&change));
    // The informers outlive the controller, and must not keep its records alive.
    let rewound = Arc::downgrade(shared);
    attachments.on_rewind(move || {
        if let Some(shared) = rewound.upgrade() {
            shared.is_rewound.store(true, Ordering::Relaxed);
        }
    });
}

/// Adds the handlers of claims, PersistentVolumes and CSI drivers.
///
/// Upstream's only queue has claims, and sees no PersistentVolumes: a pod whose volume appears late
/// waits there for the populator, for up to three minutes.
pub(super) fn register_claims(
    shared: &Arc<Shared>,
    claims: &SharedInformer<PersistentVolumeClaim>,
    volumes: &SharedInformer<PersistentVolume>,
    drivers: &SharedInformer<CsiDriver>,
) {
    let queue = shared.queue.clone();
    // A deleted claim changes nothing: pods keep their volumes until they end.
    claims.add_handler(move |change| {
        if !matches!(change, Change::Deleted { .. }) {
            queue.add(Work::Claim(change.object().key()));
        }
    });
    let queue = shared.queue.clone();
    volumes.add_handler(move |change| {
        if let Some(claim) = &change.object().spec.claim_ref
            && !matches!(change, Change::Deleted { .. })
        {
            let key = ObjectKey::new(&claim.namespace, &claim.name);
            queue.add(Work::Claim(key));
        }
    });
    let queue = shared.queue.clone();
    drivers.add_handler(move |change| {
        let driver = change.object();
        let is_same = match &change {
            Change::Updated { old, new } => old.skips_attach() == new.skips_attach(),
            // At the start, all pods are processed anyway.
            Change::Added { initial, .. } => *initial,
            Change::Deleted { .. } => false,
        };
        if !is_same {
            queue.add(Work::Driver(Sym::new(&driver.meta.name)));
        }
    });
}

impl Shared {
    /// Adds the volumes of a pod to the desired state, or removes those of a terminated one.
    ///
    /// Upstream: `ProcessPodVolumes` and `DetermineVolumeAction`. A pod of an unmanaged node is
    /// ignored: its kubelet attaches volumes itself. A volume that cannot be resolved yet is left out
    /// until an event of its claim or volume.
    pub(super) fn pod_changed(&self, pod: &Pod) {
        let Some(node) = &pod.node else {
            return;
        };
        if pod.is_terminated() {
            return self.pod_gone(pod);
        }
        if pod.volumes.is_empty() || !self.world().manages(node) {
            return;
        }
        // Volumes are resolved outside of the lock, since each may need several lookups.
        let found = pod.volumes.iter().filter_map(|volume| {
            let found = self.resolver.resolve(&pod.meta, volume);
            let found = found.unwrap_or_else(|error| {
                tracing::trace!(pod = %pod.key(), volume = &*volume.name, %error, "Error processing volume for pod");
                None
            });
            found.filter(|volume| !self.skips_attach(volume))
        });
        let found: Vec<Volume> = found.collect();
        let mut world = self.world();
        let mut added = Vec::new();
        for volume in found {
            let name = volume.unique_name.clone();
            if world.desired.add(PodRef::of(&pod.meta), node, volume) {
                added.push(name);
            }
        }
        drop(world);
        // The pod may be gone since the caller read it. Then its event came before this change.
        let cached = self.pods.get(&pod.key());
        if !added.is_empty() && cached.is_none_or(|cached| cached.meta.uid != pod.meta.uid) {
            self.pod_gone(pod);
        }
        self.enqueue_volumes(added);
    }

    /// Removes the volumes of `pod` from the desired state.
    fn pod_gone(&self, pod: &Pod) {
        if !pod.volumes.is_empty() {
            let volumes = self.world().desired.remove_pod(&pod.meta.uid);
            self.enqueue_volumes(volumes);
        }
    }

    /// Whether the driver of the volume needs no attachments.
    ///
    /// Upstream: `skipAttach` of the CSI plugin. A driver without a CSIDriver object needs attachments.
    pub(super) fn skips_attach(&self, volume: &Volume) -> bool {
        let Plugin::Csi(csi) = &volume.plugin else {
            return false;
        };
        let driver = self.drivers.get(&ObjectKey::new("", &csi.driver));
        driver.is_some_and(|driver| driver.skips_attach())
    }

    /// Upstream: `nodeUpdate` and `processVolumesInUse`. Nodes change often, so only changes that
    /// matter for detaching wake volumes: the use of volumes, readiness, taints and the UID.
    fn node_changed(&self, old: Option<&Arc<Node>>, node: &Arc<Node>) {
        let name = Sym::new(&node.meta.name);
        let mut world = self.world();
        if !world.is_started {
            return;
        }
        let is_managed = node.annotations.controller_managed_attach_detach.is_some();
        let is_new = is_managed && world.desired.manage(&name);
        let in_use = &node.status.volumes_in_use;
        let use_changed = world.actual.set_in_use(&name, in_use);
        world
            .actual
            .note_shown(&name, &node.status.volumes_attached);
        let is_old = !use_changed && old.is_some_and(|old| matter_equally(old, node));
        let volumes = if is_old {
            Vec::new()
        } else {
            world.actual.volumes_on(&name)
        };
        // A node that was created again, or whose status another client has changed, gets its list
        // again. Upstream does so for added nodes only.
        let is_reported = world.actual.report(&name).is_some();
        drop(world);
        self.enqueue_volumes(volumes);
        let is_shown = old.is_some_and(|old| {
            old.meta.uid == node.meta.uid
                && old.status.volumes_attached == node.status.volumes_attached
        });
        if is_reported && !is_shown {
            self.queue.add(Work::Node(name.clone()));
        }
        // Pods that were bound before their node was managed have been ignored so far.
        if is_new {
            for pod in self.pods_by_node.bound_to(&name) {
                self.pod_changed(&pod);
            }
        }
    }

    /// Its volumes are looked at again. Those in use still wait for six minutes, as upstream: the
    /// machine may run on.
    fn node_gone(&self, node: &Node) {
        let name = Sym::new(&node.meta.name);
        let mut world = self.world();
        world.desired.forget_node(&name);
        let volumes = world.actual.volumes_on(&name);
        drop(world);
        self.enqueue_volumes(volumes);
    }

    /// Wakes the volume that waits for this answer. Upstream polls the cache.
    fn attachment_changed(&self, change: &Change<'_, VolumeAttachment>) {
        let attachment = change.object();
        let waiting = self.world().waits_for(&attachment.meta.name).cloned();
        match waiting {
            Some(volume) => self.queue.add(Work::Volume(volume)),
            // A restored VolumeAttachment may be unknown, as at the start.
            None if self.is_rewound.load(Ordering::Relaxed)
                && !matches!(change, Change::Deleted { .. }) =>
            {
                let volume = self.adopt_cached(attachment);
                self.enqueue_volumes(volume);
            }
            None => {}
        }
    }
}

/// Whether two states of a node have the same effect on detaching its volumes, apart from their use.
///
/// Readiness decides on the detach by force after six minutes, and the taint on the one at once.
fn matter_equally(old: &Node, new: &Node) -> bool {
    old.meta.uid == new.meta.uid
        && old.is_ready() == new.is_ready()
        && old.spec.taints == new.spec.taints
}
