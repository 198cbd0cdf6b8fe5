//! One Service: ensures its load balancer, or deletes it.
//!
//! Upstream: `syncService`, `processServiceCreateOrUpdate` and `syncLoadBalancerIfNeeded`.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{LoadBalancerStatus, Node, Service};
use serde_json::Value;
use steersman_client::{ApiClient, ApiError, PatchKind, Target};
use steersman_objects::{DecodeError, Identity, Object, ObjectKey, ObjectReference};
use steersman_runtime::consistency::TrackedCache;
use steersman_runtime::events::{EventRecorder, EventType};
use steersman_runtime::informer::Store;
use steersman_runtime::keyed::ObjectSyncer;
use steersman_runtime::workers::{Requeue, Retry};

use super::changes::{has_finalizer, needs_cleanup, wants};
use super::known::Known;
use super::nodes;
use super::patch;
use crate::provider::{CloudError, LoadBalancers};
use crate::served::Served;

/// A sync failed. The texts are upstream's, and end up in Events.
#[derive(Debug, thiserror::Error)]
pub(super) enum SyncError {
    #[error("failed to check if load balancer exists before cleanup: {0}")]
    Check(#[source] CloudError),
    #[error("failed to delete load balancer: {0}")]
    Delete(#[source] CloudError),
    #[error("failed to remove load balancer cleanup finalizer: {0}")]
    RemoveFinalizer(#[source] WriteError),
    #[error("failed to add load balancer cleanup finalizer: {0}")]
    AddFinalizer(#[source] WriteError),
    #[error("failed to ensure load balancer: {0}")]
    Ensure(#[source] CloudError),
    #[error("failed to update load balancer status: {0}")]
    Status(#[source] WriteError),
    /// The load balancer of a deleted Service could not be deleted.
    #[error("{0}")]
    Forgotten(#[source] CloudError),
    /// The live read before a deletion failed.
    #[error("failed to read the service before the deletion of its load balancer: {0}")]
    Read(#[source] WriteError),
    /// The live Service wants the load balancer that the cached one gave up.
    #[error("the cache lacks the latest change of the service, so its load balancer stays")]
    Stale,
}

/// A request about the Service failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    #[error("{0}")]
    Request(#[source] ApiError),
    #[error("{0}")]
    Answer(#[source] DecodeError),
}

/// The course of a successful sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Done {
    Ensured,
    Deleted,
}

pub(super) struct Balancing {
    pub(super) balancers: Arc<dyn LoadBalancers>,
    pub(super) client: ApiClient,
    pub(super) recorder: EventRecorder,
    pub(super) nodes: Store<Served<Node>>,
    pub(super) known: Arc<Known>,
    pub(super) cache: TrackedCache,
}

impl ObjectSyncer for Balancing {
    type Object = Served<Service>;
    type Error = SyncError;

    async fn sync(
        &self,
        key: &ObjectKey,
        service: Arc<Served<Service>>,
    ) -> Result<Requeue, SyncError> {
        if let Some(old) = self.known.get(key)
            && old.meta.uid != service.meta.uid
        {
            self.delete_forgotten(&old).await?;
        }
        self.known.remember(key, &service);
        let done = if !wants(&service.object) || needs_cleanup(&service.object) {
            self.delete(key, &service).await
        } else {
            self.ensure(key, &service).await
        };
        match done {
            Ok(Done::Deleted) => self.known.forget(key),
            Ok(Done::Ensured) => {}
            Err(error) => {
                let is_race = ApiError::within(&error)
                    .is_some_and(|error| error.is_fenced() || error.is_conflict());
                if !is_race && !matches!(error, SyncError::Stale) {
                    let text = format!("Error syncing load balancer: {error}");
                    self.event(&service, EventType::Warning, "SyncLoadBalancerFailed", text);
                }
                return Err(error);
            }
        }
        Ok(Requeue::Never)
    }

    async fn clean_up(&self, key: &ObjectKey) -> Result<Requeue, SyncError> {
        if let Some(old) = self.known.get(key) {
            self.delete_forgotten(&old).await?;
            self.known.forget(key);
        }
        Ok(Requeue::Never)
    }

    fn retry(&self, error: &SyncError, request: Option<&ApiError>, _failures: u32) -> Retry {
        match error {
            SyncError::Ensure(CloudError::RetryAfter { after, .. })
            | SyncError::Forgotten(CloudError::RetryAfter { after, .. }) => {
                tracing::warn!(%error, ?after, "error processing service, retrying");
                Retry::After(*after)
            }
            SyncError::Stale => Retry::Quietly,
            _ if request.is_some_and(ApiError::is_about_another_uid) => Retry::Quietly,
            _ => Retry::after_request(request),
        }
    }
}

impl Balancing {
    async fn ensure(&self, key: &ObjectKey, service: &Served<Service>) -> Result<Done, SyncError> {
        self.normal(service, "EnsuringLoadBalancer", "Ensuring load balancer");
        let mut version = service.meta.resource_version;
        if !has_finalizer(&service.object) {
            let body = patch::add_finalizer(&service.object);
            let patched = self.patch(key, service, body, version).await;
            version = patched.map_err(SyncError::AddFinalizer)?;
        }
        let nodes = nodes::targets(&self.nodes);
        if nodes.is_empty() {
            let text = nodes::NONE.to_owned();
            self.event(service, EventType::Warning, "UnAvailableLoadBalancer", text);
        }
        self.known.set_nodes(key, &nodes);
        let status = match self.balancers.ensure(&service.object, &nodes).await {
            Ok(status) => status,
            Err(CloudError::ImplementedElsewhere) => return Ok(Done::Ensured),
            Err(error) => return Err(SyncError::Ensure(error)),
        };
        self.normal(service, "EnsuredLoadBalancer", "Ensured load balancer");
        self.write_status(key, service, &status, version).await?;
        Ok(Done::Ensured)
    }

    async fn delete(&self, key: &ObjectKey, service: &Served<Service>) -> Result<Done, SyncError> {
        let found = self.balancers.get(&service.object).await;
        if found.map_err(SyncError::Check)?.is_some() {
            if let Some(live) = self.read(service).await?
                && wants(&live.object)
                && !needs_cleanup(&live.object)
            {
                return Err(SyncError::Stale);
            }
            self.normal(service, "DeletingLoadBalancer", "Deleting load balancer");
            match self.balancers.delete(&service.object).await {
                Ok(()) | Err(CloudError::ImplementedElsewhere) => {}
                Err(error) => return Err(SyncError::Delete(error)),
            }
        }
        let mut version = service.meta.resource_version;
        if has_finalizer(&service.object) {
            let body = patch::remove_finalizer(&service.object);
            let patched = self.patch(key, service, body, version).await;
            version = patched.map_err(SyncError::RemoveFinalizer)?;
        }
        self.normal(service, "DeletedLoadBalancer", "Deleted load balancer");
        self.write_status(key, service, &LoadBalancerStatus::default(), version)
            .await?;
        Ok(Done::Deleted)
    }

    /// Deletes the load balancer of a Service that exists no more.
    async fn delete_forgotten(&self, service: &Served<Service>) -> Result<(), SyncError> {
        if !wants(&service.object) {
            return Ok(());
        }
        if self.read(service).await?.is_some() {
            return Err(SyncError::Stale);
        }
        self.normal(service, "DeletingLoadBalancer", "Deleting load balancer");
        if let Err(error) = self.balancers.delete(&service.object).await {
            let text = format!("Error deleting load balancer: {error}");
            self.event(
                service,
                EventType::Warning,
                "DeleteLoadBalancerFailed",
                text,
            );
            return Err(SyncError::Forgotten(error));
        }
        self.normal(service, "DeletedLoadBalancer", "Deleted load balancer");
        Ok(())
    }

    /// The Service as the API server has it; `None` if it is gone or has another UID.
    async fn read(&self, service: &Served<Service>) -> Result<Option<Served<Service>>, SyncError> {
        let target = Target::of::<Served<Service>>(&service.meta);
        let live = match self.client.get(target).await {
            Err(error) if error.is_object_not_found() => return Ok(None),
            live => live.map_err(|error| SyncError::Read(WriteError::Request(error)))?,
        };
        let live = Served::<Service>::decode(&live)
            .map_err(|error| SyncError::Read(WriteError::Answer(error)))?;
        Ok((live.meta.uid == service.meta.uid).then_some(live))
    }

    /// Writes the status into the Service of this version.
    async fn write_status(
        &self,
        key: &ObjectKey,
        service: &Served<Service>,
        status: &LoadBalancerStatus,
        version: u64,
    ) -> Result<(), SyncError> {
        let Some(body) = patch::status(&service.object, status) else {
            return Ok(());
        };
        match self.patch(key, service, body, version).await {
            // The Service vanishes with its last finalizer.
            Err(WriteError::Request(error)) if error.is_object_not_found() => Ok(()),
            written => written.map(drop).map_err(SyncError::Status),
        }
    }

    /// Patches the Service of this version, and returns the new version.
    async fn patch(
        &self,
        key: &ObjectKey,
        service: &Served<Service>,
        mut body: Value,
        version: u64,
    ) -> Result<u64, WriteError> {
        body["metadata"]["resourceVersion"] = version.to_string().into();
        let target = Target::of::<Served<Service>>(&service.meta).status();
        let answer = self.client.patch(target, PatchKind::Strategic, &body).await;
        let answer = Identity::decode(&answer.map_err(WriteError::Request)?);
        let version = answer.map_err(WriteError::Answer)?.resource_version;
        self.cache.wrote_at(key, version);
        Ok(version)
    }

    fn normal(&self, service: &Served<Service>, reason: &'static str, text: &str) {
        self.event(service, EventType::Normal, reason, text.to_owned());
    }

    fn event(&self, of: &Served<Service>, kind: EventType, reason: &'static str, text: String) {
        self.recorder
            .event(ObjectReference::of(of), kind, reason, text);
    }
}
