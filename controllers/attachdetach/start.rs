//! The state at the start, from the caches.
//!
//! Upstream: `populateActualStateOfWorld`, `processVolumeAttachments` and
//! `populateDesiredStateOfWorld` in `attach_detach_controller.go`.

use std::sync::Arc;

use steersman_runtime::intern::Sym;
use steersman_runtime::object::{Object, ObjectKey, VolumeAttachment};
use steersman_runtime::volume::Volume;

use super::Shared;

impl Shared {
    /// Reads the caches, and queues all volumes. Volumes that no pod wants any more are detached.
    pub(super) fn start(&self) {
        {
            let mut world = self.world();
            world.is_started = true;
            for node in self.nodes.list() {
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
                world.actual.set_in_use(&name, &node.status.volumes_in_use);
            }
        }
        for attachment in self.attachments.list() {
            self.adopt(&attachment);
        }
        for pod in self.pods.list() {
            self.pod_changed(&pod);
        }
        let mut world = self.world();
        world.learn_volumes();
        let wanted = world.desired.names();
        let names: Vec<Sym> = wanted.chain(world.actual.names()).cloned().collect();
        drop(world);
        self.enqueue_volumes(names);
    }

    /// Notes a VolumeAttachment of an earlier process: its volume is uncertain on its node. Returns
    /// the volume, if it is new.
    pub(super) fn adopt(&self, attachment: &VolumeAttachment) -> Option<Sym> {
        let node = &attachment.spec.node_name;
        let Some(name) = &attachment.spec.source.persistent_volume_name else {
            tracing::warn!(attachment = %attachment.key(), "VolumeAttachment without a PersistentVolume is left alone");
            return None;
        };
        let Some(volume) = self.volumes.get(&ObjectKey::new("", name)) else {
            tracing::error!(attachment = %attachment.key(), volume = &**name, "PersistentVolume of VolumeAttachment not found");
            return None;
        };
        let volume = match Volume::of_persistent_volume(&volume) {
            Ok(Some(volume)) if !self.skips_attach(&volume) => Arc::new(volume),
            Ok(_) => return None,
            Err(error) => {
                tracing::error!(attachment = %attachment.key(), %error, "PersistentVolume of VolumeAttachment cannot be attached");
                return None;
            }
        };
        let unique_name = volume.unique_name.clone();
        let mut world = self.world();
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
