//! The state at the start: from the caches, or from the API server if these are older than the term.
//!
//! Upstream: `populateActualStateOfWorld`, `processVolumeAttachments` and
//! `populateDesiredStateOfWorld` in `attach_detach_controller.go`.
//!
//! The status of nodes is the record of the former leader: a volume in it is attached, unless shown
//! otherwise. A VolumeAttachment without such an entry may be anything.

use std::sync::Arc;
use std::time::Duration;

use steersman_client::Category;
use steersman_client::live::{self, LiveError};
use steersman_helpers::volume::Volume;
use steersman_objects::{Node, Object, ObjectKey, PersistentVolume, VolumeAttachment};
use steersman_runtime::consistency::TrackedCache;
use steersman_runtime::informer::Store;
use steersman_values::intern::Sym;

use super::Shared;

/// Pause after a failed read.
///
/// At the start, all other work waits for the read, so the delay does not grow.
pub(super) const RETRY: Duration = Duration::from_secs(5);

impl Shared {
    /// Reads the state of the former leader, and queues all volumes. Volumes that no pod wants any
    /// more are detached.
    ///
    /// The order is upstream's. Nodes come first, so that a VolumeAttachment of a reported volume is no
    /// uncertain one. Pods come last, since only managed nodes count.
    pub(super) async fn start(&self) {
        let nodes = self.current(&self.nodes, &self.nodes_cache).await;
        let attachments = self
            .current(&self.attachments, &self.attachments_cache)
            .await;
        let mut found = Vec::new();
        for attachment in attachments {
            let volume = self.volume_of(&attachment).await;
            found.push((attachment, volume));
        }
        self.begin(&nodes);
        for (attachment, volume) in found {
            self.adopt(&attachment, volume.as_deref());
        }
        for pod in self.pods.list() {
            self.pod_changed(&pod);
        }
        let mut world = self.world();
        // The status of nodes has names only. Volumes of pods bring their access modes, which decide on
        // exclusion.
        world.learn_volumes();
        let wanted = world.desired.names();
        let names: Vec<Sym> = wanted.chain(world.actual.names()).cloned().collect();
        drop(world);
        self.enqueue_volumes(names);
    }

    /// The objects of a type: the cached ones, or those of the API server if the cache may lack writes
    /// of the former leader. A failed read is repeated.
    async fn current<T: Object>(&self, cached: &Store<T>, seen: &TrackedCache<Sym>) -> Vec<Arc<T>> {
        if !seen.predates_term() {
            return cached.list();
        }
        let live = self.read(|| live::all::<T>(&self.lists)).await;
        live.objects.into_iter().map(Arc::new).collect()
    }

    /// Repeats a read until it succeeds. A start with half of the state could detach a volume that is
    /// in use.
    async fn read<T, R: Future<Output = Result<T, LiveError>>>(&self, read: impl Fn() -> R) -> T {
        loop {
            match read().await {
                Ok(found) => return found,
                Err(error) => {
                    let category = Category::of(&error).as_str();
                    tracing::error!(category, %error, "state at the start not read");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    /// Notes what the nodes say. From now on, events change the state.
    ///
    /// Upstream: `populateActualStateOfWorld`.
    fn begin(&self, nodes: &[Arc<Node>]) {
        let mut world = self.world();
        world.is_started = true;
        for node in nodes {
            let name = Sym::new(&node.meta.name);
            if node.annotations.controller_managed_attach_detach.is_some() {
                world.desired.manage(&name);
            }
            for volume in &node.status.volumes_attached {
                world.actual.attached(&volume.name, &name, None);
                world
                    .actual
                    .set_device_path(&volume.name, &volume.device_path);
            }
            // This comes after `attached`, which assumes that a new volume is in use.
            world.actual.set_in_use(&name, &node.status.volumes_in_use);
        }
    }

    /// The volume of a VolumeAttachment. It is read from the API server if the cache is older than
    /// the term and lacks it.
    async fn volume_of(&self, attachment: &VolumeAttachment) -> Option<Arc<PersistentVolume>> {
        let name = attachment.spec.source.persistent_volume_name.as_ref()?;
        let cached = self.volumes.get(&ObjectKey::new("", name));
        if cached.is_some() || !self.volumes_cache.predates_term() {
            return cached;
        }
        let live = self.read(|| live::named::<PersistentVolume>(&self.lists, "", name));
        live.await.objects.into_iter().next().map(Arc::new)
    }

    /// As [`adopt`](Self::adopt), with the cached volume.
    pub(super) fn adopt_cached(&self, attachment: &VolumeAttachment) -> Option<Sym> {
        let name = attachment.spec.source.persistent_volume_name.as_ref();
        let volume = name.and_then(|name| self.volumes.get(&ObjectKey::new("", name)));
        self.adopt(attachment, volume.as_deref())
    }

    /// Notes a VolumeAttachment of an earlier process: its volume is uncertain on its node. Returns
    /// the volume, if it is new.
    ///
    /// Upstream: `processVolumeAttachments`. `None` as well for a volume of a pod's own spec, for one
    /// without its PersistentVolume, and for a driver that skips attachments. These are left alone.
    fn adopt(
        &self,
        attachment: &VolumeAttachment,
        volume: Option<&PersistentVolume>,
    ) -> Option<Sym> {
        let node = &attachment.spec.node_name;
        let Some(name) = &attachment.spec.source.persistent_volume_name else {
            tracing::warn!(attachment = %attachment.key(), "VolumeAttachment without a PersistentVolume is left alone");
            return None;
        };
        let Some(volume) = volume else {
            tracing::error!(attachment = %attachment.key(), volume = &**name, "PersistentVolume of VolumeAttachment not found");
            return None;
        };
        let volume = match Volume::of_persistent_volume(volume) {
            Ok(Some(volume)) if !self.skips_attach(&volume) => Arc::new(volume),
            Ok(_) => return None,
            Err(error) => {
                tracing::error!(attachment = %attachment.key(), %error, "PersistentVolume of VolumeAttachment cannot be attached");
                return None;
            }
        };
        let unique_name = volume.unique_name.clone();
        let mut world = self.world();
        // A VolumeAttachment of an own operation is no leftover.
        if world.actual.is_known(&unique_name, node)
            || world.operations.get(&unique_name, node).is_some()
        {
            return None;
        }
        world.actual.uncertain(&unique_name, node, Some(volume));
        // The attachment is old, so the status of the node tells whether it is in use.
        if let Some(node_object) = self.nodes.get(&ObjectKey::new("", node)) {
            world
                .actual
                .set_in_use(node, &node_object.status.volumes_in_use);
        }
        Some(unique_name)
    }
}
