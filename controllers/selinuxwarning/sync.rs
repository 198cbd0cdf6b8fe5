//! Syncs one pod: its uses of volumes, and the Events about new conflicts.
//!
//! Upstream: `syncPod` in `selinux_warning_controller.go`.

use std::sync::Arc;

use steersman_client::ApiError;
use steersman_helpers::volume::{Plugin, ResolveError, Volume};
use steersman_objects::{ObjectKey, ObjectReference, SelinuxPod};
use steersman_runtime::events::EventType;
use steersman_runtime::keyed::ObjectSyncer;
use steersman_runtime::workers::{Requeue, Retry};
use steersman_values::intern::Sym;

use super::Shared;
use super::conflicts::Conflict;
use super::labels::{self, SeveralLabels};

/// Syncs pods.
pub(super) struct SelinuxWarning(pub(super) Arc<Shared>);

/// A volume of a pod cannot be compared.
#[derive(Debug, thiserror::Error)]
pub(super) enum SyncError {
    /// No volume is behind it yet.
    #[error("{0}")]
    Resolve(#[from] ResolveError),
    /// It has several labels.
    ///
    /// Only a user can mend it, by another pod. The repeated Event keeps the message visible.
    #[error("{0}")]
    Labels(#[from] SeveralLabels),
}

impl ObjectSyncer for SelinuxWarning {
    type Object = SelinuxPod;
    type Error = SyncError;

    /// A finished pod is treated as a deleted one: its kubelet unmounts the volumes. Upstream: `sync`.
    async fn sync(&self, key: &ObjectKey, pod: Arc<SelinuxPod>) -> Result<Requeue, SyncError> {
        if pod.is_finished() {
            self.0.used().remove(key);
        } else {
            self.0.sync_volumes(key, &pod)?;
        }
        Ok(Requeue::Never)
    }

    async fn clean_up(&self, key: &ObjectKey) -> Result<Requeue, SyncError> {
        self.0.used().remove(key);
        Ok(Requeue::Never)
    }

    /// A claim that is not bound yet is no error.
    fn retry(&self, error: &SyncError, _request: Option<&ApiError>, _failures: u32) -> Retry {
        match error {
            SyncError::Resolve(_) => Retry::Quietly,
            SyncError::Labels(_) => Retry::BackOff,
        }
    }
}

impl Shared {
    /// Compares all volumes of a pod that can be compared. Fails with the first error.
    ///
    /// The other volumes of the pod are compared all the same, as upstream.
    fn sync_volumes(&self, key: &ObjectKey, pod: &SelinuxPod) -> Result<(), SyncError> {
        // Upstream then takes each use for `Recursive` and without a label, which conflict with nothing.
        if !self.mounts_labels {
            return Ok(());
        }
        self.used().remove_namesake(key, &pod.meta.uid);
        let mut mounted = labels::mounted(pod);
        let mut result = Ok(());
        for volume in pod.spec.volumes.0.iter() {
            let found = match self.resolver.resolve(&pod.meta, volume) {
                // A volume that no container mounts, or only as a block device, is skipped.
                Ok(Some(found)) if mounted.remove(&*volume.name) => found,
                Ok(_) => continue,
                Err(error) => {
                    mounted.remove(&*volume.name);
                    result = result.and(Err(error.into()));
                    continue;
                }
            };
            match labels::of_volume(pod, &volume.name, self.is_supported(&found)) {
                Ok(used) => {
                    let driver = match &found.plugin {
                        Plugin::Csi(csi) => csi.driver.clone(),
                        Plugin::FibreChannel | Plugin::Iscsi => Sym::default(),
                    };
                    let conflicts =
                        self.used()
                            .add(&found.unique_name, &driver, (key, &pod.meta.uid), used);
                    self.report(&conflicts);
                }
                Err(error) => {
                    self.report_several(pod, &volume.name);
                    result = result.and(Err(error.into()));
                }
            }
        }
        // Volumes of other plugins, such as `emptyDir`, conflict with no other pod, but the
        // containers of one pod have to agree about them too.
        for name in mounted {
            if let Err(error) = labels::of_volume(pod, name, false) {
                self.report_several(pod, name);
                result = result.and(Err(error.into()));
            }
        }
        result
    }

    /// Tells the pod that its containers mount the volume `name` with several labels.
    fn report_several(&self, pod: &SelinuxPod, name: &str) {
        let message = format!(
            "Volume {name:?} is mounted twice with different SELinux labels inside this pod"
        );
        self.recorder.event(
            ObjectReference::of(pod),
            EventType::Warning,
            "MultipleSELinuxLabels",
            message,
        );
    }

    /// Whether the plugin of a volume mounts it with a label.
    ///
    /// Fibre Channel and `iSCSI` always do. A CSI driver has to announce it. Upstream:
    /// `SupportsSELinuxContextMount` of the plugins.
    fn is_supported(&self, volume: &Volume) -> bool {
        let Plugin::Csi(csi) = &volume.plugin else {
            return true;
        };
        let driver = self.drivers.get(&ObjectKey::new("", &csi.driver));
        driver.is_some_and(|driver| driver.spec.se_linux_mount)
    }

    /// Tells both pods of each conflict. A pod that is gone ends the conflicts of the sync.
    ///
    /// Upstream: `reportConflictEvents`. It stops at the first missing pod as well.
    fn report(&self, conflicts: &[Conflict]) {
        for conflict in conflicts {
            let Some(pod) = self.pods.get(&conflict.pod) else {
                return;
            };
            self.recorder.event(
                ObjectReference::of(&*pod),
                EventType::Normal,
                conflict.reason(),
                conflict.message(),
            );
        }
    }
}
