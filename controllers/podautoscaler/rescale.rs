//! Reads and writes the size of a target through its subresource `scale`.
//!
//! Upstream: `scaleForResourceMappings`, and the retries of `reconcileAutoscaler`.
//!
//! The subresource has the same form for all kinds. `crates/client/src/scale.rs` reads and writes that form.

use std::time::Duration;

use steersman_client::discovery::{MappingError, RestMapper, split_api_version};
use steersman_client::scale::{Scale, ScaleError};
use steersman_client::{ApiClient, ApiError, Target};
use steersman_objects::HorizontalPodAutoscaler;
use steersman_values::resource::ResourceType;

/// Writes of one size, with the first one. Upstream: `retry.DefaultRetry`.
const ATTEMPTS: usize = 5;
/// Time between two writes. Upstream's pause is 10 ms with a jitter of 10 %, and its factor is 1.0.
const PAUSE: Duration = Duration::from_millis(10);

/// The size of a target could not be read. The texts are in Events and conditions. Each of them leaves the
/// size as it is. Upstream: the errors of `reconcileAutoscaler` before the metrics.
#[derive(Debug, thiserror::Error)]
pub(super) enum TargetError {
    /// `apiVersion` of the reference is malformed.
    #[error("{0}")]
    ApiVersion(#[source] MappingError),
    /// The kind of the reference is not served at present. A CRD may bring it later.
    #[error("{0}")]
    Kind(#[source] MappingError),
    /// The kind has no resource.
    #[error("unrecognized resource")]
    Unrecognized,
    /// The subresource could not be read. The target is missing, or the kind has no such subresource, or the
    /// answer is malformed.
    #[error("{0}")]
    Scale(#[source] ScaleError),
}

/// A target with its size.
pub(super) struct Scaled {
    /// The resource that answered. Writes go to the same one.
    resource: ResourceType,
    pub(super) scale: Scale,
}

impl Scaled {
    /// Reads the size of the target of `hpa`. A kind may have several resources; the first one with
    /// an answer counts, and else the error of the first one.
    ///
    /// The version of the reference is ignored, as upstream: `scaleTargetRef.apiVersion` gives the group
    /// only.
    pub(super) async fn read(
        client: &ApiClient,
        mapper: &RestMapper,
        hpa: &HorizontalPodAutoscaler,
    ) -> Result<Self, TargetError> {
        let target = &hpa.spec.scale_target_ref;
        let parts = split_api_version(&target.api_version);
        let (group, _) = parts.map_err(TargetError::ApiVersion)?;
        let resources = mapper.resources(group, &target.kind).await;
        let mut first = None;
        for resource in resources.map_err(TargetError::Kind)? {
            match Scale::get(client, target_of(&resource, hpa)).await {
                Ok(scale) => return Ok(Self { resource, scale }),
                // The error of the first resource is kept, since it is the preferred version of the kind.
                Err(error) => first = first.or(Some(error)),
            }
        }
        Err(first.map_or(TargetError::Unrecognized, TargetError::Scale))
    }

    /// Writes the size `replicas`. After a conflict, the write is repeated on the latest state. Other
    /// failures end at once. The next sync reads the size again and decides afresh.
    pub(super) async fn resize(
        mut self,
        client: &ApiClient,
        hpa: &HorizontalPodAutoscaler,
        replicas: i32,
    ) -> Result<(), ApiError> {
        let Self { resource, scale } = &mut self;
        let target = target_of(resource, hpa);
        let mut attempt = 1;
        loop {
            match scale.resize(client, target, replicas).await {
                // A conflict means that the target changed after the read, perhaps even its size.
                // Upstream writes the decided size all the same.
                Err(error) if error.is_conflict() && attempt < ATTEMPTS => {}
                result => return result,
            }
            attempt += 1;
            match Scale::get(client, target).await {
                Ok(latest) => *scale = latest,
                Err(error) => {
                    // The next attempt then has the old resource version, as upstream.
                    tracing::debug!(%error, "the size of the target could not be read again");
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

fn target_of<'a>(resource: &'a ResourceType, hpa: &'a HorizontalPodAutoscaler) -> Target<'a> {
    Target {
        resource,
        namespace: Some(&hpa.meta.namespace),
        name: Some(&hpa.spec.scale_target_ref.name),
        subresource: None,
    }
}
