//! The controller's reads and writes of claims and volumes. Each answer to a write becomes a known
//! state.
//!
//! Upstream: `storeVolumeUpdate` and `storeClaimUpdate` after each write.

use std::sync::Arc;

use steersman_client::live::{self, LiveError};
use steersman_client::{ApiClient, ApiError, Target};
use steersman_objects::{DecodeError, Object, ObjectKey, PersistentVolume, PersistentVolumeClaim};

use super::body::Body;
use super::known::Caches;

/// A write failed.
///
/// After a lost answer, the next sync finds the new state by its event.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    /// The API server refused the request, or did not answer.
    #[error("{0}")]
    Request(#[source] ApiError),
    /// The answer is not the object.
    #[error("{0}")]
    Answer(#[source] DecodeError),
}

/// The endpoint of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Everything but the status.
    ///
    /// A write of this part drops changes of the status, and the other way round, so a binding needs
    /// four writes.
    Main,
    /// The status.
    Status,
}

/// Reads and writes for one controller.
#[derive(Clone)]
pub(super) struct Objects {
    pub(super) client: ApiClient,
    pub(super) caches: Arc<Caches>,
}

impl Objects {
    /// PUTs `body` in place of `volume`, and returns the volume as stored.
    pub(super) async fn put_volume(
        &self,
        volume: &PersistentVolume,
        part: Part,
        body: &Body,
    ) -> Result<Arc<PersistentVolume>, WriteError> {
        let answer = self.put(volume, part, body).await?;
        let mut volumes = self.caches.volumes();
        let stored = once(volumes.get(&answer.key()), answer);
        volumes.store(&stored);
        Ok(stored)
    }

    /// PUTs `body` in place of `claim`, and returns the claim as stored.
    pub(super) async fn put_claim(
        &self,
        claim: &PersistentVolumeClaim,
        part: Part,
        body: &Body,
    ) -> Result<Arc<PersistentVolumeClaim>, WriteError> {
        let answer = self.put(claim, part, body).await?;
        let mut claims = self.caches.claims();
        let stored = once(claims.get(&answer.key()), answer);
        claims.store(&stored);
        Ok(stored)
    }

    /// The body carries UID and resource version, so it replaces only the state that was read.
    async fn put<T: Object>(
        &self,
        object: &T,
        part: Part,
        body: &Body,
    ) -> Result<Arc<T>, WriteError> {
        let target = Target::of::<T>(object.meta());
        let target = match part {
            Part::Main => target,
            Part::Status => target.status(),
        };
        let answer = self.client.replace(target, body).await;
        let stored = T::decode(&answer.map_err(WriteError::Request)?);
        stored.map(Arc::new).map_err(WriteError::Answer)
    }

    /// The claim with this key, as the API server has it.
    ///
    /// The answer does not become a known state.
    pub(super) async fn live_claim(
        &self,
        key: &ObjectKey,
    ) -> Result<Option<Arc<PersistentVolumeClaim>>, LiveError> {
        let claim = live::object(&self.client, &key.namespace, &key.name).await?;
        Ok(claim.map(Arc::new))
    }

    /// The volume with this name, as the API server has it.
    pub(super) async fn live_volume(
        &self,
        name: &str,
    ) -> Result<Option<Arc<PersistentVolume>>, LiveError> {
        let volume = live::object(&self.client, "", name).await?;
        Ok(volume.map(Arc::new))
    }
}

/// The known state of an object if the answer to a write repeats it, else the answer. The informer
/// may see a write before its answer arrives; memory then holds that state once.
fn once<T: Object>(known: Option<Arc<T>>, answer: Arc<T>) -> Arc<T> {
    let version = answer.meta().resource_version;
    known
        .filter(|known| known.meta().resource_version == version)
        .unwrap_or(answer)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_that_the_informer_has_shown_is_in_memory_once() {
        let claim = |version: &str| {
            let claim = json!({"metadata": {"name": "c", "resourceVersion": version}}).to_string();
            Arc::new(PersistentVolumeClaim::decode(claim.as_bytes()).unwrap())
        };
        let known = claim("7");
        let equal = claim("7");
        let later = claim("8");
        assert!(Arc::ptr_eq(&once(Some(known.clone()), equal), &known));
        assert!(Arc::ptr_eq(&once(Some(known), later.clone()), &later));
        assert!(Arc::ptr_eq(&once(None, later.clone()), &later));
    }
}
