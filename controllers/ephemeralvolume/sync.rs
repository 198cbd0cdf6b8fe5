//! One sync of one pod: each of its `ephemeral` volumes has a claim.
//!
//! Upstream: `syncHandler` and `handleVolume` in `volume/ephemeral/controller.go`. The claim only has
//! to exist; the binder provisions its volume.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use steersman_client::live::{self, LiveError};
use steersman_client::{ApiClient, ApiError, Target};
use steersman_helpers::pods_by_claim::claim_of;
use steersman_objects::{
    DecodeError, Object, ObjectKey, ObjectReference, PersistentVolumeClaim, Pod, PodVolume,
    VolumeSource,
};
use steersman_runtime::consistency::TrackedCache;
use steersman_runtime::events::{EventRecorder, EventType};
use steersman_runtime::informer::Store;
use steersman_runtime::keyed::ObjectSyncer;
use steersman_runtime::owner::ControllerReference;
use steersman_runtime::workers::Requeue;
use steersman_values::intern::Sym;

use super::metrics::EphemeralVolumeMetrics;

/// A volume of a pod could not get its claim.
#[derive(Debug, thiserror::Error)]
#[error("pod {pod}, ephemeral volume {volume}: {source}")]
pub(super) struct SyncError {
    pod: ObjectKey,
    volume: Sym,
    source: ClaimError,
}

/// The reason that a volume has no claim.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClaimError {
    /// A claim of this name exists, and the pod does not control it. A foreign claim is never adopted: it
    /// may hold the data of another user.
    #[error("PVC {claim} was not created for pod {pod} (pod is not owner)")]
    NotOwner { claim: ObjectKey, pod: ObjectKey },
    /// The template of the claim is malformed.
    #[error("create PVC {claim}: {source}")]
    Template {
        claim: Arc<str>,
        source: serde_json::Error,
    },
    /// The claim could not be created.
    #[error("create PVC {claim}: {source}")]
    Create { claim: Arc<str>, source: ApiError },
    /// The answer of the API server is no object.
    #[error("{0}")]
    Answer(#[source] DecodeError),
    /// The pod could not be read.
    #[error("{0}")]
    Read(#[source] LiveError),
}

impl ClaimError {
    /// Whether the cache lacks a claim that exists. The next sync shows its owner.
    fn is_race(&self) -> bool {
        matches!(self, Self::Create { source, .. } if source.is_already_exists())
    }

    /// Whether this process may no longer write. The next leader creates the claim.
    fn is_fenced(&self) -> bool {
        matches!(self, Self::Create { source, .. } if source.is_fenced())
    }
}

/// Syncs pods.
pub(super) struct EphemeralVolumes {
    pub(super) claims: Store<PersistentVolumeClaim>,
    /// The cache of claims. A sync of a pod waits until it shows the claims that earlier syncs created.
    pub(super) cache: TrackedCache,
    /// Tells whether the cache of pods may lack changes from before the leadership term.
    pub(super) pods_cache: TrackedCache,
    pub(super) client: ApiClient,
    /// Reads in place of caches, with the rights of the informers.
    pub(super) lists: ApiClient,
    pub(super) recorder: EventRecorder,
    pub(super) metrics: EphemeralVolumeMetrics,
}

impl ObjectSyncer for EphemeralVolumes {
    type Object = Pod;
    type Error = SyncError;

    /// Volumes are served in order, and the first failure ends the sync. Upstream does the same, so an
    /// Event names one volume at a time.
    async fn sync(&self, key: &ObjectKey, pod: Arc<Pod>) -> Result<Requeue, SyncError> {
        if pod.meta.is_terminating() {
            return Ok(Requeue::Never);
        }
        for volume in pod.volumes.iter() {
            self.ensure_claim(key, &pod, volume)
                .await
                .map_err(|source| self.failed(key, &pod, volume, source))?;
        }
        Ok(Requeue::Never)
    }
}

impl EphemeralVolumes {
    /// Creates the claim of `volume` if it is `ephemeral` and has none. Upstream: `handleVolume`.
    async fn ensure_claim(
        &self,
        key: &ObjectKey,
        pod: &Pod,
        volume: &PodVolume,
    ) -> Result<(), ClaimError> {
        let VolumeSource::Ephemeral(source) = &volume.source else {
            return Ok(());
        };
        // Each `ephemeral` volume has a name for its claim: `<pod>-<volume>`.
        let Some(name) = claim_of(pod, volume) else {
            return Ok(());
        };
        let claim = ObjectKey::new(&key.namespace, &name);
        match self.claims.get(&claim) {
            Some(found) if found.meta.is_controlled_by(&pod.meta.uid) => Ok(()),
            Some(_) => Err(ClaimError::NotOwner {
                claim,
                pod: key.clone(),
            }),
            // The cache of a new leader may still show a pod that is gone. Its next event brings back
            // one that has changed.
            None if self.pods_cache.predates_term() && !self.is_current(pod).await? => Ok(()),
            None => self.create(key, pod, &claim, source).await,
        }
    }

    /// Whether the API server has this version of `pod`.
    ///
    /// A pod that was deleted during the change of leader would otherwise get a claim that has lost its
    /// owner.
    async fn is_current(&self, pod: &Pod) -> Result<bool, ClaimError> {
        let meta = &pod.meta;
        let live = live::named::<Pod>(&self.lists, &meta.namespace, &meta.name).await;
        let live = live.map_err(ClaimError::Read)?.objects;
        Ok(live.iter().any(|live| {
            live.meta.uid == meta.uid && live.meta.resource_version == meta.resource_version
        }))
    }

    /// Creates `claim` from the template `source`, and records it for the next sync of the pod.
    async fn create(
        &self,
        key: &ObjectKey,
        pod: &Pod,
        claim: &ObjectKey,
        source: &str,
    ) -> Result<(), ClaimError> {
        let body = new_claim(pod, &claim.name, source).map_err(|source| ClaimError::Template {
            claim: Arc::clone(&claim.name),
            source,
        })?;
        self.metrics.creations.inc();
        let target = Target::collection::<PersistentVolumeClaim>(&claim.namespace);
        let created = self.client.create(target, &body).await.map_err(|source| {
            self.metrics.failures.inc();
            ClaimError::Create {
                claim: Arc::clone(&claim.name),
                source,
            }
        })?;
        let recorded = self.cache.wrote_answer(key, &created);
        recorded.map_err(ClaimError::Answer)
    }

    /// The error of the sync. The pod gets an Event, unless the failure says nothing about it.
    fn failed(
        &self,
        key: &ObjectKey,
        pod: &Pod,
        volume: &PodVolume,
        source: ClaimError,
    ) -> SyncError {
        let volume = volume.name.clone();
        if !source.is_race() && !source.is_fenced() {
            self.recorder.event(
                ObjectReference::of(pod),
                EventType::Warning,
                "FailedBinding",
                format!("ephemeral volume {volume}: {source}"),
            );
        }
        let pod = key.clone();
        SyncError {
            pod,
            volume,
            source,
        }
    }
}

/// The claim of a volume whose `ephemeral` source is the JSON `source`: labels, annotations and spec
/// of the template, controlled by the pod.
///
/// Upstream: the creation in `handleVolume`. Only `labels` and `annotations` of the template's metadata
/// are taken. The spec passes through as JSON, so fields of later releases reach the API server.
fn new_claim(pod: &Pod, name: &str, source: &str) -> Result<Value, serde_json::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Source {
        volume_claim_template: Template,
    }
    #[derive(Deserialize)]
    struct Template {
        #[serde(default)]
        metadata: Value,
        #[serde(default)]
        spec: Value,
    }
    let Source {
        volume_claim_template: Template { metadata, spec },
    } = serde_json::from_str(source)?;
    let mut claim = json!({
        "apiVersion": PersistentVolumeClaim::RESOURCE.api_version(),
        "kind": PersistentVolumeClaim::RESOURCE.kind,
        "metadata": {
            "name": name,
            "ownerReferences": [ControllerReference::to::<Pod>(&pod.meta)],
        },
        "spec": spec,
    });
    for field in ["annotations", "labels"] {
        if let Some(pairs) = metadata.get(field) {
            claim["metadata"][field] = pairs.clone();
        }
    }
    Ok(claim)
}
