//! The regular check whether confirmed volumes are still attached.
//!
//! Upstream: `VerifyVolumesAreAttached` in `operation_executor.go`, and `VolumesAreAttached` in
//! `csi_attacher.go`.
//!
//! An attacher or an administrator may detach a volume without this controller. Pods that start there
//! would wait for ever.

use std::time::Duration;

use steersman_client::Category;
use steersman_client::live::{self, LiveError};
use steersman_helpers::volume::{CsiVolume, Plugin, Volume};
use steersman_objects::{ObjectKey, VolumeAttachment};
use steersman_runtime::tasks::CancellationToken;
use steersman_values::intern::Sym;
use tokio::time::Instant;

use super::{Shared, Work, attachment};
use crate::storage_metrics::Finished;

impl Shared {
    /// Checks all volumes after each `period` until `stop`. Never without a period.
    ///
    /// Upstream: `reconciliationLoopFunc`. The period is `--attach-detach-reconcile-sync-period`, a
    /// minute by default; shorter ones than a second are refused at the start.
    pub(super) async fn verify(&self, period: Option<Duration>, stop: &CancellationToken) {
        let Some(period) = period else {
            return;
        };
        while stop
            .run_until_cancelled(tokio::time::sleep(period))
            .await
            .is_some()
        {
            self.verify_once(stop).await;
        }
    }

    /// One pass over all confirmed volumes, node by node.
    async fn verify_once(&self, stop: &CancellationToken) {
        let confirmed = self.world().actual.confirmed();
        for (node, volumes) in confirmed {
            let began = Instant::now();
            for volume in volumes {
                if stop.is_cancelled() {
                    return;
                }
                match self.is_attached(&volume, &node).await {
                    Ok(true) => {}
                    Ok(false) => self.lost(&volume.unique_name, &node),
                    // Upstream takes the volume for lost. A pod would lose a volume for a failed
                    // request.
                    Err(error) => {
                        let category = Category::of(&error).as_str();
                        tracing::warn!(volume = &*volume.unique_name, node = &*node, category, %error, "attachment could not be checked");
                    }
                }
            }
            // Upstream counts the check of a node as a success of no plugin in any case.
            self.metrics.operations.finished(&Finished {
                plugin: "<n/a>",
                operation: "verify_volumes_are_attached_per_node",
                succeeded: true,
                is_migrated: false,
                took: began.elapsed(),
            });
        }
    }

    /// Whether a VolumeAttachment says that the node has the volume. Volumes without one count as
    /// attached.
    ///
    /// Upstream: `VolumesAreAttached`. The cache answers most checks; a VolumeAttachment that it lacks
    /// is read, since the cache may be behind.
    async fn is_attached(&self, volume: &Volume, node: &Sym) -> Result<bool, LiveError> {
        let Plugin::Csi(csi) = &volume.plugin else {
            return Ok(true);
        };
        if self.skips_attach(volume) {
            return Ok(true);
        }
        Ok(match self.attachment(csi, node) {
            Some(cached) => cached.status.attached,
            None => {
                let name = attachment::name(csi, node);
                let live = live::object::<VolumeAttachment>(&self.client, "", &name).await?;
                live.is_some_and(|live| live.status.attached)
            }
        })
    }

    /// The cached VolumeAttachment.
    fn attachment(
        &self,
        volume: &CsiVolume,
        node: &Sym,
    ) -> Option<std::sync::Arc<VolumeAttachment>> {
        let name = attachment::name(volume, node);
        self.attachments.get(&ObjectKey::new("", &name))
    }

    /// The node has lost a volume. It is attached again if a pod wants it.
    ///
    /// Upstream: `MarkVolumeAsDetached`.
    fn lost(&self, volume: &Sym, node: &Sym) {
        let mut world = self.world();
        // An operation knows more, and decides at its end.
        if world.operations.get(volume, node).is_some() || !world.actual.is_confirmed(volume, node)
        {
            return;
        }
        tracing::warn!(
            volume = &**volume,
            node = &**node,
            "volume is no longer attached"
        );
        let changed = world.actual.detached(volume, node);
        drop(world);
        if changed {
            self.queue.add(Work::Node(node.clone()));
        }
        self.enqueue_volumes([volume.clone()]);
    }
}
