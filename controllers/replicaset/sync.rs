//! One sync: read the caches, claim pods, create or delete some, write the status.

use std::collections::HashMap;
use std::sync::Arc;

use futures::{StreamExt, stream};
use serde::Serialize;
use serde_json::Map;
use serde_json::value::RawValue;
use steersman_runtime::client::{ApiClient, ApiError, Target};
use steersman_runtime::clock::Clock;
use steersman_runtime::events::{EventRecorder, EventType};
use steersman_runtime::features::{self, FeatureGates};
use steersman_runtime::informer::{SharedInformer, Store};
use steersman_runtime::labels::Selector;
use steersman_runtime::live::{self, Live, LiveError};
use steersman_runtime::object::{
    DecodeError, Document, Identity, Meta, Object, ObjectKey, ObjectReference, Pod,
    ReplicaSetStatus, Uid,
};
use steersman_runtime::owner::{CONTROLLER_INDEX, ClaimError, claim, controlled_by, orphans_key};
use steersman_runtime::resource;
use steersman_runtime::workers::{Requeue, Retry, Syncer};
use steersman_runtime::workqueue::WorkQueue;

use super::guard::Guard;
use super::metrics::ReplicaSetMetrics;
use super::owner::PodOwner;
use super::pods::{self, TemplateError};
use super::ranking::{self, Costs};
use super::scale::{self, Scale};
use super::status;

/// Deletions in flight per sync; the client's throttle is what bounds their rate.
const DELETIONS_AT_ONCE: usize = 200;

/// Why a sync failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SyncError {
    /// A pod could not be adopted or released.
    #[error("claim pods: {0}")]
    Claim(#[source] ClaimError),
    /// The cache is in doubt, and the API server did not say what there is.
    #[error("check pods: {0}")]
    Check(#[source] LiveError),
    /// Pods could not be created or deleted.
    #[error("scale: {0}")]
    Scale(#[source] ScaleError),
    /// The status could not be written.
    #[error("write status: {0}")]
    Status(#[source] StatusError),
}

impl SyncError {
    /// See [`ApiError::is_fenced`].
    fn is_fenced(&self) -> bool {
        match self {
            Self::Claim(error) => error.is_fenced(),
            Self::Check(error) => error.request().is_some_and(ApiError::is_fenced),
            Self::Scale(error) => error.is_fenced(),
            Self::Status(StatusError::Request(error)) => error.is_fenced(),
            Self::Status(_) => false,
        }
    }
}

/// Why pods could not be created or deleted; the texts are those of condition `ReplicaFailure`.
#[derive(Debug, thiserror::Error)]
pub(super) enum ScaleError {
    #[error("{0}")]
    Create(#[source] ApiError),
    #[error("{0}")]
    Template(#[source] TemplateError),
    #[error("unable to delete pods: {0}")]
    Delete(#[source] ApiError),
}

impl ScaleError {
    /// See [`ApiError::is_fenced`].
    fn is_fenced(&self) -> bool {
        matches!(self, Self::Create(error) | Self::Delete(error) if error.is_fenced())
    }
}

/// Why a status could not be written.
#[derive(Debug, thiserror::Error)]
pub(super) enum StatusError {
    #[error("{0}")]
    Request(#[source] ApiError),
    #[error("{0}")]
    Answer(#[source] DecodeError),
    #[error("got uid {0}: another object has the name now")]
    Replaced(Uid),
}

/// Keeps as many pods running as each owner asks for.
pub(super) struct ReplicaController<O> {
    pub(super) owner_informer: SharedInformer<O>,
    pub(super) pod_informer: SharedInformer<Pod>,
    pub(super) owners: Store<O>,
    pub(super) pods: Store<Pod>,
    pub(super) queue: WorkQueue<ObjectKey>,
    pub(super) guard: Arc<Guard>,
    pub(super) client: ApiClient,
    pub(super) recorder: EventRecorder,
    pub(super) clock: Clock,
    /// A cache of pods older than this may lack what the leader before us created or deleted.
    pub(super) since: u64,
    pub(super) metrics: ReplicaSetMetrics,
    pub(super) features: FeatureGates,
}

impl<O: PodOwner> Syncer for ReplicaController<O> {
    type Error = SyncError;

    /// Brings one owner a step closer to its spec. The queue never runs one key twice at once.
    async fn sync(&self, key: &ObjectKey) -> Result<Requeue, SyncError> {
        if self.waits_for_own_writes(key) {
            return Ok(Requeue::Never);
        }
        let Some(owner) = self.owners.get(key) else {
            self.guard.forget(key);
            tracing::debug!(kind = &*O::RESOURCE.kind, "Object has been deleted");
            return Ok(Requeue::Never);
        };
        let owner = &*owner;
        // Asked before the pods are listed: one that arrives in between would be expected no more
        // and not counted yet.
        let may_scale = self.guard.expectations.satisfied(key) && !owner.meta().is_terminating();
        let selector = match owner.selector() {
            Ok(selector) => selector,
            Err(error) => {
                tracing::error!(%error, "selector is malformed, nothing to sync until it changes");
                return Ok(Requeue::Never);
            }
        };
        let (active, terminating) = self.claim_pods(key, owner, selector).await?;
        let scaled = if may_scale {
            self.scale(key, owner, selector, &active).await?
        } else {
            Ok(())
        };
        if scaled.as_ref().is_err_and(ScaleError::is_fenced) {
            return scaled.map(|()| Requeue::Never).map_err(SyncError::Scale);
        }

        // The status counts the pods from before the creations and deletions, and is written even
        // when those failed: the failure belongs in it.
        let now = self.clock.now();
        let failure = scaled.as_ref().err().map(ToString::to_string);
        let terminating = Some(terminating).filter(|_| {
            self.features
                .is_on(features::DEPLOYMENT_REPLICA_SET_TERMINATING_REPLICAS)
        });
        let status = status::compute(owner, &active, terminating, failure.as_deref(), now);
        match self.write_status(key, owner, status.clone()).await {
            // The cache will hear of that, too: trying again until then helps nobody.
            Err(StatusError::Request(error)) if error.is_object_not_found() => {
                return Ok(Requeue::Never);
            }
            written => written.map_err(SyncError::Status)?,
        }
        scaled.map_err(SyncError::Scale)?;
        let available = status::next_check(
            &status,
            &active,
            owner.min_ready_seconds(),
            now,
            self.clock.now(),
        );
        // What is expected and never shows up wakes nobody, so the end of waiting for it has to.
        let given_up = self
            .guard
            .expectations
            .expires_in(key)
            .filter(|_| !owner.meta().is_terminating());
        let next = available.into_iter().chain(given_up).min();
        Ok(next.map_or(Requeue::Never, Requeue::After))
    }

    fn retry(&self, error: &SyncError, _failures: u32) -> Retry {
        match error {
            error if error.is_fenced() => Retry::Quietly,
            SyncError::Status(StatusError::Request(error)) if error.is_conflict() => Retry::Quietly,
            SyncError::Status(StatusError::Replaced(_)) => Retry::Quietly,
            SyncError::Claim(error) if error.owner_is_gone() => Retry::Quietly,
            _ => Retry::BackOff,
        }
    }
}

impl<O: PodOwner> ReplicaController<O> {
    fn costs(&self) -> Costs {
        if self.features.is_on(features::POD_DELETION_COST) {
            Costs::Count
        } else {
            Costs::Ignored
        }
    }

    /// True while a cache has not reached our writes for `key`; the key is queued again the moment
    /// it has.
    fn waits_for_own_writes(&self, key: &ObjectKey) -> bool {
        let Some(cache) = self.put_off(key) else {
            return false;
        };
        let group = if cache == pods_cache() {
            ""
        } else {
            &*O::RESOURCE.group
        };
        self.queue.count_put_off(cache);
        if O::COUNTS_STALE_SYNCS {
            self.metrics
                .stale_sync_skips
                .with_label_values(&[group, cache])
                .inc();
        }
        true
    }

    /// Lets `key` come back once a cache, which is returned, has reached our writes for it; none if
    /// they all have.
    fn put_off(&self, key: &ObjectKey) -> Option<&'static str> {
        let seen = |cache: &'static str| {
            if cache == pods_cache() {
                self.pods.resource_version()
            } else {
                self.owners.resource_version()
            }
        };
        let wait = |cache: &'static str, version| {
            let (queue, again) = (self.queue.clone(), key.clone());
            let requeue = move || queue.add(again);
            if cache == pods_cache() {
                self.pod_informer.when_seen(version, requeue);
            } else {
                self.owner_informer.when_seen(version, requeue);
            }
        };
        self.guard.own_writes.put_off(key, seen, wait)
    }

    /// The active pods that belong to `owner`, after adopting and releasing, and the number of
    /// those on their way out.
    async fn claim_pods(
        &self,
        key: &ObjectKey,
        owner: &O,
        selector: &Selector,
    ) -> Result<(Vec<Arc<Pod>>, usize), SyncError> {
        let meta = owner.meta();
        let mut candidates = controlled_by::<O, Pod>(&self.pods, meta);
        let terminating = candidates
            .iter()
            .filter(|pod| pod.is_terminating() && selector.matches(&pod.meta.labels))
            .count();
        candidates.extend(
            self.pods
                .by_index(CONTROLLER_INDEX, &orphans_key(&meta.namespace)),
        );
        candidates.retain(|pod| pod.is_active());
        let claimed = claim(&self.client, owner, selector, candidates)
            .await
            .map_err(SyncError::Claim)?;
        for version in claimed.written {
            self.guard.own_writes.record(key, pods_cache(), version);
        }
        Ok((claimed.objects, terminating))
    }

    /// Creates or deletes pods. The inner result is what the status reports.
    async fn scale(
        &self,
        key: &ObjectKey,
        owner: &O,
        selector: &Selector,
        active: &[Arc<Pod>],
    ) -> Result<Result<(), ScaleError>, SyncError> {
        let scale = scale::decide(active.len(), owner.replicas());
        if scale == Scale::Steady {
            return Ok(Ok(()));
        }
        if !self.is_current(owner).await.map_err(SyncError::Check)? {
            return Ok(Ok(()));
        }
        let behind = self.pods.resource_version() < self.since;
        if (behind || self.guard.in_doubt(key))
            && !self
                .confirm(key, owner, selector, active)
                .await
                .map_err(SyncError::Check)?
        {
            return Ok(Ok(()));
        }
        let (kind, need) = (&*O::RESOURCE.kind, owner.replicas());
        let scaled = match scale {
            Scale::Create(count) => {
                tracing::debug!(kind, need, creating = count, "Too few replicas");
                self.create_pods(key, owner, count).await
            }
            Scale::Delete(count) => {
                tracing::debug!(kind, need, deleting = count, "Too many replicas");
                let now = self.clock.now();
                let all = count == active.len();
                let related = if all {
                    Vec::new()
                } else {
                    self.related_pods(owner)
                };
                let victims = ranking::first_to_go(active, &related, count, self.costs(), now);
                if !all {
                    for ratio in ranking::age_ratios(active, &victims, now) {
                        self.metrics.deletion_age_ratio.observe(ratio as f64);
                    }
                }
                self.delete_pods(key, owner, &victims).await
            }
            Scale::Steady => Ok(()),
        };
        // What was expected of an object that is gone must not hold up the one that has its name
        // now.
        if self
            .owners
            .get(key)
            .is_none_or(|now| now.meta().uid != owner.meta().uid)
        {
            self.guard.forget(key);
        }
        Ok(scaled)
    }

    /// Whether the API server has `owner` as the cache has it; asked only where the cache may lack
    /// work of the leader before us. What it lacks puts the key on the queue when it comes.
    async fn is_current(&self, owner: &O) -> Result<bool, LiveError> {
        Ok(self.owners.resource_version() >= self.since
            || live::is_current::<O>(&self.client, owner.meta()).await?)
    }

    /// Reads the pods of `owner` from the API server. True when they are those in the cache;
    /// otherwise the next sync waits until the cache has caught up with what was read.
    async fn confirm(
        &self,
        key: &ObjectKey,
        owner: &O,
        selector: &Selector,
        cached: &[Arc<Pod>],
    ) -> Result<bool, LiveError> {
        let meta = owner.meta();
        let Live { objects, version } =
            live::matching::<Pod>(&self.client, &meta.namespace, selector).await?;
        // One that nobody controls will be ours: the next sync adopts it, once the cache shows it
        // as it is.
        let may_be_ours = |pod: &Pod| pod.meta.controller().is_none_or(|of| of.uid == meta.uid);
        let ours = objects.into_iter().filter(|pod| {
            pod.is_active() && selector.matches(&pod.meta.labels) && may_be_ours(pod)
        });
        let mut live: HashMap<Uid, Meta> =
            ours.map(|pod| (pod.meta.uid.clone(), pod.meta)).collect();
        self.guard.checked(key);
        // Pods adopted in this very sync are controlled by us in both, whatever the cached copy
        // says.
        let mut gone = false;
        for pod in cached {
            gone |= !live
                .remove(&pod.meta.uid)
                .is_some_and(|now| now.is_controlled_by(&meta.uid));
        }
        let same = live.is_empty() && !gone;
        if !same {
            // Where pods are only missing from the cache it has caught up once it holds them; the
            // version of the list may be that of something else, and come to this cache with the
            // next bookmark only.
            let newest = live
                .into_values()
                .map(|missing| missing.resource_version)
                .max()
                .filter(|_| !gone);
            let version = newest.unwrap_or(version);
            self.guard.own_writes.record(key, pods_cache(), version);
            if self.put_off(key).is_none() {
                self.queue.add(key.clone());
            }
        }
        Ok(same)
    }

    async fn create_pods(
        &self,
        key: &ObjectKey,
        owner: &O,
        count: usize,
    ) -> Result<(), ScaleError> {
        let about = ObjectReference::of(owner);
        self.guard.expectations.expect_creations(key, count);
        let (created, failure) = match pods::body(owner) {
            Ok(body) => {
                let (created, failure) =
                    pods::slow_start(count, || self.create_pod(key, owner, &body, &about)).await;
                (created, failure.map(ScaleError::Create))
            }
            Err(error) => (0, Some(ScaleError::Template(error))),
        };
        if created < count {
            let skipped = count - created;
            tracing::debug!(
                podsSkipped = skipped,
                "Slow-start failure. Skipping creation of pods, decrementing expectations"
            );
        }
        // Those that failed and those never tried will not be seen.
        for _ in created..count {
            self.guard.expectations.creation_observed(key);
        }
        failure.map_or(Ok(()), Err)
    }

    async fn create_pod(
        &self,
        key: &ObjectKey,
        owner: &O,
        body: &RawValue,
        about: &ObjectReference,
    ) -> Result<(), ApiError> {
        let namespace = Some(&*owner.meta().namespace);
        let target = Target {
            resource: &resource::PODS,
            namespace,
            name: None,
            subresource: None,
        };
        match self.client.create(target, &body).await {
            Ok(answer) => {
                let name = match Identity::decode(&answer) {
                    Ok(created) => {
                        self.guard
                            .own_writes
                            .record(key, pods_cache(), created.resource_version);
                        created.name
                    }
                    Err(error) => {
                        tracing::warn!(%error, "a pod was created, but the answer does not say which");
                        self.guard.doubt(key);
                        String::new()
                    }
                };
                tracing::trace!(pod = %ObjectKey::new(&key.namespace, &name), "Controller created pod");
                self.recorder.event(
                    about.clone(),
                    EventType::Normal,
                    "SuccessfulCreate",
                    format!("Created pod: {name}"),
                );
                Ok(())
            }
            // Every further attempt would fail too, and the owner itself is about to go.
            Err(error) if error.has_cause("NamespaceTerminating") => Ok(()),
            // Never sent: nothing that happened to the owner.
            Err(error) if error.is_fenced() => Err(error),
            Err(error) => {
                self.guard.failed(key, &error);
                self.recorder.event(
                    about.clone(),
                    EventType::Warning,
                    "FailedCreate",
                    format!("Error creating: {error}"),
                );
                Err(error)
            }
        }
    }

    async fn delete_pods(
        &self,
        key: &ObjectKey,
        owner: &O,
        victims: &[Arc<Pod>],
    ) -> Result<(), ScaleError> {
        let about = ObjectReference::of(owner);
        self.guard
            .expectations
            .expect_deletions(key, victims.iter().map(|pod| pod.key()).collect());
        let deletions: Vec<_> = victims
            .iter()
            .map(|pod| self.delete_pod(key, pod, &about))
            .collect();
        let results: Vec<_> = stream::iter(deletions)
            .buffer_unordered(DELETIONS_AT_ONCE)
            .collect()
            .await;
        let failure = results.into_iter().find_map(Result::err);
        failure.map_or(Ok(()), |error| Err(ScaleError::Delete(error)))
    }

    async fn delete_pod(
        &self,
        key: &ObjectKey,
        pod: &Pod,
        about: &ObjectReference,
    ) -> Result<(), ApiError> {
        let Pod { meta, .. } = pod;
        let target = Target {
            resource: &resource::PODS,
            namespace: Some(&meta.namespace),
            name: Some(&meta.name),
            subresource: None,
        };
        tracing::debug!(pod = %pod.key(), "Deleting pod");
        match self
            .client
            .delete(target, &DeleteOptions::only(&meta.uid))
            .await
        {
            Ok(answer) => {
                // A Status in place of the pod says that it is gone already; it has no version.
                match Identity::decode(&answer) {
                    Ok(Identity {
                        resource_version: 0,
                        ..
                    }) => {}
                    Ok(gone) => {
                        self.guard
                            .own_writes
                            .record(key, pods_cache(), gone.resource_version)
                    }
                    Err(_) => self.guard.doubt(key),
                }
                let message = format!("Deleted pod: {}", meta.name);
                self.recorder.event(
                    about.clone(),
                    EventType::Normal,
                    "SuccessfulDelete",
                    message,
                );
                Ok(())
            }
            Err(error) => {
                self.guard.expectations.deletion_observed(key, &pod.key());
                // Gone, or replaced by another pod of that name: either way ours is no more.
                if error.is_not_found() || error.is_conflict() {
                    tracing::trace!(pod = %pod.key(), "Pod has already been deleted.");
                    return Ok(());
                }
                if error.is_fenced() {
                    return Err(error);
                }
                self.guard.failed(key, &error);
                self.recorder.event(
                    about.clone(),
                    EventType::Warning,
                    "FailedDelete",
                    format!("Error deleting: {error}"),
                );
                Err(error)
            }
        }
    }

    /// All pods of the owners that share a controller with `owner`, itself included, by selector;
    /// each pod once.
    fn related_pods(&self, owner: &O) -> Vec<Arc<Pod>> {
        let Some(group) = owner.group() else {
            return Vec::new();
        };
        let siblings = self.owners.by_index(CONTROLLER_INDEX, &group.to_string());
        let selectors: Vec<&Selector> = siblings
            .iter()
            .filter(|sibling| sibling.meta().namespace == owner.meta().namespace)
            .filter_map(|sibling| sibling.selector().ok())
            .collect();
        let mut pods = self.pods.in_namespace(&owner.meta().namespace);
        pods.retain(|pod| {
            selectors
                .iter()
                .any(|selector| selector.matches(&pod.meta.labels))
        });
        pods
    }

    /// Writes `status` unless it says what the served one says. One failed attempt is repeated on
    /// the live object.
    async fn write_status(
        &self,
        key: &ObjectKey,
        owner: &O,
        mut status: ReplicaSetStatus,
    ) -> Result<(), StatusError> {
        let meta = owner.meta();
        if !status::needs_write(owner.status(), &status, meta.generation) {
            return Ok(());
        }
        // The generation that was acted on, also when the second attempt finds a newer one.
        status.observed_generation = meta.generation;
        let object = Target {
            resource: O::RESOURCE,
            namespace: Some(&meta.namespace),
            name: Some(&meta.name),
            subresource: None,
        };
        let target = Target {
            subresource: Some("status"),
            ..object
        };
        tracing::trace!(
            replicas = status.replicas,
            need = owner.replicas(),
            readyReplicas = status.ready_replicas,
            availableReplicas = status.available_replicas,
            "Updating status"
        );
        let first = self
            .client
            .replace(target, &status::replacement::<O>(owner.document(), &status))
            .await;
        let answer = match first {
            Ok(answer) => answer,
            Err(error @ ApiError::Fenced { .. }) => return Err(StatusError::Request(error)),
            Err(error) => {
                tracing::debug!(%error, "status not written, trying again on the live object");
                let live = self
                    .client
                    .get(object)
                    .await
                    .map_err(StatusError::Request)?;
                let uid = Identity::decode(&live).map_err(StatusError::Answer)?.uid;
                if uid != meta.uid {
                    return Err(StatusError::Replaced(uid));
                }
                let malformed = |source| {
                    StatusError::Answer(DecodeError::Json {
                        kind: "live object",
                        source,
                    })
                };
                let live: Map<String, _> = serde_json::from_slice(&live).map_err(malformed)?;
                let body = status::replacement::<O>(&Document::new(live), &status);
                self.client
                    .replace(target, &body)
                    .await
                    .map_err(StatusError::Request)?
            }
        };
        let written = Identity::decode(&answer).map_err(StatusError::Answer)?;
        self.guard
            .own_writes
            .record(key, &O::RESOURCE.plural, written.resource_version);
        Ok(())
    }
}

/// Name of the pod cache, for the guard and its metric.
fn pods_cache() -> &'static str {
    &resource::PODS.plural
}

/// Deletes this very object, not a namesake. Upstream sends no precondition.
#[derive(Serialize)]
struct DeleteOptions {
    preconditions: Preconditions,
}

#[derive(Serialize)]
struct Preconditions {
    uid: String,
}

impl DeleteOptions {
    fn only(uid: &Uid) -> Self {
        Self {
            preconditions: Preconditions {
                uid: uid.to_string(),
            },
        }
    }
}
