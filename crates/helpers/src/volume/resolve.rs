//! The volume behind a pod's volume: through its claim to the PersistentVolume, or the source itself.
//!
//! Upstream: `CreateVolumeSpec` in `pkg/controller/volume/attachdetach/util`.

use steersman_objects::{
    Meta, ObjectKey, PersistentVolume, PersistentVolumeClaim, PodVolume, VolumeSource,
};
use steersman_runtime::informer::Store;

use super::{TranslationError, Volume};

/// The caches of claims and PersistentVolumes. Cheap to clone.
#[derive(Clone)]
pub struct VolumeResolver {
    claims: Store<PersistentVolumeClaim>,
    volumes: Store<PersistentVolume>,
}

/// A volume of a pod that has no volume behind it yet.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// The claim does not exist.
    #[error("failed to find PVC {0} in PVCInformer cache")]
    NoClaim(ObjectKey),
    /// The claim of the ephemeral volume belongs to another object.
    #[error("PVC {0} was not created for the pod (pod is not owner)")]
    ForeignClaim(ObjectKey),
    /// The claim has no volume.
    #[error("PVC {0} has non-bound phase or empty pvc.Spec.VolumeName")]
    Unbound(ObjectKey),
    /// The volume does not exist.
    #[error("failed to find PV {0:?} in PVInformer cache")]
    NoVolume(Box<str>),
    /// The volume is not bound to the claim.
    #[error("found PV object {volume:?} but its pv.Spec.ClaimRef does not point to PVC {claim}")]
    OtherClaim {
        /// Name of the volume.
        volume: Box<str>,
        /// The claim.
        claim: ObjectKey,
    },
    /// The in-tree source has no form in CSI.
    #[error("{0}")]
    Translation(#[from] TranslationError),
}

impl VolumeResolver {
    /// A resolver over these caches.
    pub fn new(claims: Store<PersistentVolumeClaim>, volumes: Store<PersistentVolume>) -> Self {
        Self { claims, volumes }
    }

    /// The volume behind `volume` of the pod with the metadata `pod`. `None` for a source without a
    /// plugin that attaches volumes.
    pub fn resolve(&self, pod: &Meta, volume: &PodVolume) -> Result<Option<Volume>, ResolveError> {
        let key = |name: &str| ObjectKey::new(&pod.namespace, name);
        match &volume.source {
            VolumeSource::Claim(name) => self.of_claim(key(name), None),
            VolumeSource::Ephemeral(_) => {
                let name = format!("{}-{}", pod.name, volume.name);
                self.of_claim(key(&name), Some(pod))
            }
            VolumeSource::InlineCsi(_) => Ok(None),
            VolumeSource::Inline { kind, source } => Ok(Volume::of_inline(
                &pod.namespace,
                &volume.name,
                kind,
                source,
            )?),
        }
    }

    /// The volume of a claim. `owner` is the pod that must control it.
    fn of_claim(
        &self,
        key: ObjectKey,
        owner: Option<&Meta>,
    ) -> Result<Option<Volume>, ResolveError> {
        let Some(claim) = self.claims.get(&key) else {
            return Err(ResolveError::NoClaim(key));
        };
        if claim.status.phase != *"Bound" || claim.spec.volume_name.is_empty() {
            return Err(ResolveError::Unbound(key));
        }
        if owner.is_some_and(|pod| !claim.meta.is_controlled_by(&pod.uid)) {
            return Err(ResolveError::ForeignClaim(key));
        }
        let name = &claim.spec.volume_name;
        let Some(volume) = self.volumes.get(&ObjectKey::new("", name)) else {
            return Err(ResolveError::NoVolume(name.clone()));
        };
        let bound_to = volume.spec.claim_ref.as_ref();
        if bound_to.and_then(|claim| claim.uid()) != Some(&claim.meta.uid) {
            return Err(ResolveError::OtherClaim {
                volume: name.clone(),
                claim: key,
            });
        }
        Ok(Volume::of_persistent_volume(&volume)?)
    }
}
