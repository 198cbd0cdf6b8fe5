//! One sync of one claim: an Event about its expansion, and the driver of an in-tree volume.
//!
//! Upstream: `syncHandler` in `volume/expand/expand_controller.go`. Each failure returns the claim to
//! the queue with back-off; success needs no later look, since the resizer works on its own.

use std::sync::Arc;

use serde_json::json;
use steersman_client::{ApiClient, ApiError, PatchKind, Target, is_path_name};
use steersman_objects::{
    DecodeError, Object, ObjectKey, ObjectReference, PersistentVolume, PersistentVolumeClaim,
};
use steersman_runtime::events::{EventRecorder, EventType};
use steersman_runtime::keyed::ObjectSyncer;
use steersman_runtime::workers::Requeue;

use super::decision::{self, Resizer};

/// The annotation with the driver whose resizer expands the volume.
const RESIZER: &str = "volume.kubernetes.io/storage-resizer";

/// The operation of a sync that failed. The texts are upstream's.
#[derive(Debug, thiserror::Error)]
pub(super) enum SyncError {
    /// The volume could not be read.
    #[error("failed to get PV {volume:?}: {source}")]
    Read {
        volume: String,
        #[source]
        source: ApiError,
    },
    /// No volume can have this name.
    #[error("failed to get PV {0:?}: invalid resource name")]
    Name(String),
    /// The answer of the API server is no volume.
    #[error("{0}")]
    Answer(#[source] DecodeError),
    /// The volume has another claim.
    #[error("persistent Volume is not bound to PVC being updated : {0}")]
    OfAnother(ObjectKey),
    /// The driver could not be written.
    #[error(
        "error setting resizer annotation to pvc {claim}, with error patchPVCStatus failed to patch PVC {:?}: {source}",
        claim.name
    )]
    Annotate {
        claim: ObjectKey,
        #[source]
        source: ApiError,
    },
}

/// Syncs claims.
pub(super) struct Expander {
    pub(super) client: ApiClient,
    pub(super) recorder: EventRecorder,
}

impl ObjectSyncer for Expander {
    type Object = PersistentVolumeClaim;
    type Error = SyncError;

    /// The order is upstream's. The binding is checked before the sizes, so a claim whose volume
    /// belongs to another claim fails loudly even if it asks for nothing.
    async fn sync(
        &self,
        key: &ObjectKey,
        claim: Arc<PersistentVolumeClaim>,
    ) -> Result<Requeue, SyncError> {
        let volume = self.volume(&claim.spec.volume_name).await?;
        if !decision::is_of(&volume, &claim) {
            return Err(SyncError::OfAnother(key.clone()));
        }
        match decision::resizer(&volume, &claim) {
            None => {}
            Some(Resizer::External) => {
                let message = "waiting for an external controller to expand this PVC";
                self.event(&claim, EventType::Normal, message.to_owned());
            }
            Some(Resizer::Migrated { plugin, driver }) => {
                let message = format!(
                    "CSI migration enabled for {plugin}; waiting for external resizer to expand the pvc"
                );
                // The Event comes before the annotation, as upstream. A failed PATCH repeats it with
                // the next sync.
                self.event(&claim, EventType::Normal, message);
                self.annotate(key, &claim, driver).await?;
            }
        }
        Ok(Requeue::Never)
    }
}

impl Expander {
    /// The volume with this name, as the API server has it.
    ///
    /// Upstream: `getPersistentVolume`. A cached volume could show the size before the last resize. A
    /// volume that is gone is an error, and the sync repeats with back-off.
    async fn volume(&self, name: &str) -> Result<PersistentVolume, SyncError> {
        if !is_path_name(name) {
            return Err(SyncError::Name(name.to_owned()));
        }
        let target = Target::named::<PersistentVolume>("", name);
        let live = self.client.get(target).await;
        let live = live.map_err(|source| SyncError::Read {
            volume: name.to_owned(),
            source,
        })?;
        PersistentVolume::decode(&live).map_err(SyncError::Answer)
    }

    /// Names the driver on `claim`, if the claim is still as cached.
    ///
    /// Upstream: `SetClaimResizer` in `pkg/volume/util/resize_util.go`. The resource version is the
    /// precondition: the spec that led to this decision is still the stored one. The PATCH goes to
    /// `status`, since the role of this controller covers no other part of claims.
    async fn annotate(
        &self,
        key: &ObjectKey,
        claim: &PersistentVolumeClaim,
        driver: &str,
    ) -> Result<(), SyncError> {
        let body = json!({"metadata": {
            "annotations": {RESIZER: driver},
            "resourceVersion": claim.meta.resource_version.to_string(),
        }});
        let target = Target::of::<PersistentVolumeClaim>(&claim.meta).status();
        let patched = self.client.patch(target, PatchKind::Strategic, &body).await;
        patched.map(drop).map_err(|source| {
            let error = SyncError::Annotate {
                claim: key.clone(),
                source,
            };
            self.event(claim, EventType::Warning, error.to_string());
            error
        })
    }

    /// Reports `message` on the claim. All Events of this controller share one reason.
    fn event(&self, claim: &PersistentVolumeClaim, kind: EventType, message: String) {
        let claim = ObjectReference::of(claim);
        self.recorder
            .event(claim, kind, "ExternalExpanding", message);
    }
}
