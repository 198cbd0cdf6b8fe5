//! One sync of one Service: compute its subsets, and write its Endpoints object if it differs.
//!
//! Upstream: `syncService`.

use std::sync::Arc;

use steersman_client::live::LiveError;
use steersman_client::writes::Delete;
use steersman_client::{ApiClient, ApiError, Target};
use steersman_helpers::endpointslice::{PodsByLabel, PortOrder, TriggerTimes};
use steersman_objects::{DecodeError, Endpoints, Object, ObjectKey, ObjectReference, Pod, Service};
use steersman_runtime::consistency::{Age, RECHECK, TrackedCache, Unconfirmed, confirmed};
use steersman_runtime::events::{EventRecorder, EventType};
use steersman_runtime::informer::Store;
use steersman_runtime::keyed::ObjectSyncer;
use steersman_runtime::workers::{Requeue, Retry};
use steersman_runtime::workqueue::WorkQueue;

use super::subsets::{is_managed, subsets};
use super::write::{Body, body, is_current};

/// Retries in a row before a key is dropped. Upstream: `maxRetries`. The delays start with 5 ms and
/// double, so the last one is 82 s.
const MAX_RETRIES: u32 = 15;

/// The operation of a sync that failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SyncError {
    /// The Endpoints object could not be created or updated.
    #[error("{0}")]
    Write(#[source] ApiError),
    /// The answer of the API server is no object.
    #[error("{0}")]
    Answer(#[source] DecodeError),
    /// The API server does not confirm the caches of a new leader. Nothing was written.
    #[error("{0}")]
    Check(#[source] Unconfirmed),
    /// A leftover Endpoints object, or its Service, could not be read.
    #[error("{0}")]
    Read(#[source] ApiError),
    /// A leftover Endpoints object could not be deleted.
    #[error("{0}")]
    Delete(#[source] ApiError),
}

/// Syncs Services.
pub(super) struct EndpointsSyncer {
    pub(super) pods: PodsByLabel,
    pub(super) endpoints: Store<Endpoints>,
    /// The cache of Services, to compare its age with the leadership term.
    pub(super) services_cache: TrackedCache,
    /// The same for the cache of pods.
    pub(super) pods_cache: TrackedCache,
    /// The cache of Endpoints, which has to show own writes before the next sync.
    pub(super) cache: TrackedCache,
    pub(super) queue: WorkQueue<ObjectKey>,
    pub(super) triggers: Arc<TriggerTimes>,
    /// The order of ports, which depends on the release: the hash of ports has changed.
    pub(super) order: PortOrder,
    pub(super) client: ApiClient,
    pub(super) recorder: EventRecorder,
}

impl ObjectSyncer for EndpointsSyncer {
    type Object = Service;
    type Error = SyncError;

    async fn sync(&self, key: &ObjectKey, service: Arc<Service>) -> Result<Requeue, SyncError> {
        if !is_managed(&service) {
            return Ok(Requeue::Never);
        }
        // The ages of pods and Endpoints are taken before their objects are read.
        let cached = Cached {
            service: &service,
            service_age: self.services_cache.age(),
            pods_age: self.pods_cache.age(),
            pods: self.pods.selected(&key.namespace, &service.spec.selector),
            stored_age: self.cache.age(),
            stored: self.endpoints.get(key),
        };
        let pods = &cached.pods;
        let stored = cached.stored.as_deref();
        let subsets = subsets(&service, pods, self.order);
        let is_current = |stored| is_current(stored, &service, &subsets, self.order);
        let needs_write = !stored.is_some_and(is_current);
        if needs_write {
            let is_current = self.are_current(key, &cached).await;
            confirmed(is_current).map_err(SyncError::Check)?;
        } else if cached.stored_age.predates_term() {
            // The previous leader may have written addresses that are wrong by now, and an update of
            // Endpoints enqueues nothing.
            self.cache.revisit_in_term(key, &self.queue);
        }
        // Also without a write: the tracker must see each state of the pods. It comes after the
        // checks: a sync that ends there must not use up the time of the change.
        let trigger = self.triggers.observe(key, &service, pods);
        if needs_write {
            let body = body(stored, &service, subsets, trigger);
            self.write(key, &service, stored, &body).await?;
        }
        Ok(Requeue::Never)
    }

    /// Deletes the Endpoints object of a Service that is gone. The API server usually does so.
    async fn clean_up(&self, key: &ObjectKey) -> Result<Requeue, SyncError> {
        // Upstream sends a DELETE for every deleted Service, without a look at its cache.
        let Some(leftover) = self.leftover(key).await? else {
            return Ok(Requeue::Never);
        };
        // The cache of Services may be older than this Endpoints object, and lack its Service.
        let service = Target {
            resource: Service::RESOURCE,
            ..Target::of::<Endpoints>(&leftover.meta)
        };
        match self.client.get(service).await {
            Ok(_) => return Ok(Requeue::Never),
            Err(error) if error.is_object_not_found() => {}
            Err(error) => return Err(SyncError::Read(error)),
        }
        let target = Target::of::<Endpoints>(&leftover.meta);
        let only_this = Delete::exactly(&leftover.meta);
        match self.client.delete(target, &only_this).await {
            Err(error) if !error.is_object_not_found() => Err(SyncError::Delete(error)),
            _ => Ok(Requeue::Never),
        }
    }

    /// A stale cache is checked before the count of failures, so it never drops the key.
    fn retry(&self, error: &SyncError, request: Option<&ApiError>, failures: u32) -> Retry {
        if matches!(error, SyncError::Check(Unconfirmed::Stale)) {
            Retry::After(RECHECK)
        } else if failures >= MAX_RETRIES {
            Retry::Drop
        } else {
            Retry::after_request(request)
        }
    }
}

/// The cached objects of a sync, and the ages of their caches.
struct Cached<'a> {
    service: &'a Service,
    service_age: Age,
    pods_age: Age,
    pods: Vec<Arc<Pod>>,
    stored_age: Age,
    stored: Option<Arc<Endpoints>>,
}

impl EndpointsSyncer {
    /// True if the caches show Service, pods and Endpoints as the API server has them. Only the caches
    /// of a new leader may be too old. A write by such caches could remove the address of a ready
    /// pod, or create the Endpoints of a Service that is gone.
    async fn are_current(&self, key: &ObjectKey, cached: &Cached<'_>) -> Result<bool, LiveError> {
        let client = &self.client;
        let Cached {
            service,
            pods,
            stored,
            ..
        } = cached;
        let age = cached.service_age;
        if !age.shows::<Service>(client, &service.meta).await? {
            return Ok(false);
        }
        let selector = &service.spec.selector;
        let age = cached.pods_age;
        if !age
            .shows_all(client, &key.namespace, selector, pods)
            .await?
        {
            return Ok(false);
        }
        let age = cached.stored_age;
        age.shows_or_lacks(client, key, stored.as_deref()).await
    }

    /// The Endpoints object with this key. The cache of a new leader may lack what the previous
    /// leader created.
    async fn leftover(&self, key: &ObjectKey) -> Result<Option<Arc<Endpoints>>, SyncError> {
        let is_behind = self.cache.predates_term();
        let cached = self.endpoints.get(key);
        if cached.is_some() || !is_behind {
            return Ok(cached);
        }
        let target = Target::named::<Endpoints>(&key.namespace, &key.name);
        match self.client.get(target).await {
            Ok(live) => {
                let live = Endpoints::decode(&live).map_err(SyncError::Answer)?;
                Ok(Some(Arc::new(live)))
            }
            Err(error) if error.is_object_not_found() => Ok(None),
            Err(error) => Err(SyncError::Read(error)),
        }
    }

    /// Sends POST or PUT. The PUT carries the resource version of the cached object, so an edit of
    /// a user in between is a conflict.
    async fn write(
        &self,
        key: &ObjectKey,
        service: &Service,
        stored: Option<&Endpoints>,
        body: &Body,
    ) -> Result<(), SyncError> {
        let answer = match stored {
            Some(stored) => {
                let target = Target::of::<Endpoints>(&stored.meta);
                self.client.replace(target, body).await
            }
            None => {
                let target = Target::collection::<Endpoints>(&key.namespace);
                self.client.create(target, body).await
            }
        };
        match answer {
            Ok(answer) => {
                let recorded = self.cache.wrote_answer(key, &answer);
                recorded.map_err(SyncError::Answer)
            }
            // The namespace is being deleted with all that is in it.
            Err(error) if stored.is_none() && error.has_cause("NamespaceTerminating") => Ok(()),
            Err(error) => {
                if !error.is_fenced() {
                    self.report(service, stored, &error);
                }
                Err(SyncError::Write(error))
            }
        }
    }

    /// Records a Warning about the Endpoints object as it was sent. As upstream, a new object has
    /// only a name, so its Event is in the namespace `default`.
    fn report(&self, service: &Service, stored: Option<&Endpoints>, error: &ApiError) {
        let namespace = &service.meta.namespace;
        let name = &service.meta.name;
        let (object, reason, message) = match stored {
            Some(stored) => (
                ObjectReference::of(stored),
                "FailedToUpdateEndpoint",
                format!("Failed to update endpoint {namespace}/{name}: {error}"),
            ),
            None => (
                ObjectReference {
                    api_version: Endpoints::RESOURCE.api_version().into_owned(),
                    kind: Endpoints::RESOURCE.kind.clone().into_owned(),
                    name: name.to_string(),
                    namespace: String::new(),
                    uid: String::new(),
                    resource_version: String::new(),
                },
                "FailedToCreateEndpoint",
                format!("Failed to create endpoint for service {namespace}/{name}: {error}"),
            ),
        };
        self.recorder
            .event(object, EventType::Warning, reason, message);
    }
}
