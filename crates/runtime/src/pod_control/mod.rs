//! The pods of an owner: claimed, created and deleted, and never twice.
//!
//! Each workload controller that keeps pods works through a [`PodControl`]. No pod is created or
//! deleted on the strength of a cache that lacks an earlier write of this process for the same
//! owner, or a write of the previous leader ([`PodControl::cache_is_current`]). Deletions carry the
//! UID of the pod. Users see the Events of upstream's `RealPodControl`.
//!
//! Upstream: `controller_utils.go` and the pod half of `controller_ref_manager.go`. Differences:
//! expectations that expire unmet, and writes without an answer, are followed by a live list of the
//! pods; upstream trusts its cache again after five minutes.

mod in_flight;
mod slow_start;
mod template;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures::{StreamExt, stream};
use serde_json::value::RawValue;

pub use self::in_flight::PodsInFlight;
pub use self::slow_start::slow_start;
pub use self::template::{TemplateError, from_template};
use crate::client::{ApiClient, ApiError, Target};
use crate::events::{EventRecorder, EventType};
use crate::expectations::Expectations;
use crate::informer::{Change, SharedInformer};
use crate::keyed::Keyed;
use crate::labels::Selector;
use crate::live::{self, Live, LiveError};
use crate::object::{Identity, Meta, Object, ObjectKey, ObjectReference, Pod, Uid};
use crate::own_writes::{Memory, OwnWrites, WritesTo};
use crate::owner::{ByController, ClaimError, DependentEvent, claim};
use crate::workqueue::WorkQueue;
use crate::writes::Delete;

/// Deletions in flight per sync; the client's throttle is what bounds their rate.
const DELETIONS_AT_ONCE: usize = 200;

/// The pods of all owners of one kind. Cheap to clone.
#[derive(Clone)]
pub struct PodControl {
    pods: ByController<Pod>,
    queue: WorkQueue<ObjectKey>,
    writes: OwnWrites,
    written: WritesTo,
    in_flight: Arc<PodsInFlight>,
    client: ApiClient,
    recorder: EventRecorder,
}

/// An owner as its pods need it.
pub struct Owner<'a, O> {
    /// Namespace and name.
    pub key: &'a ObjectKey,
    /// The cached object.
    pub object: &'a O,
    /// The parsed selector.
    pub selector: &'a Selector,
}

impl<O> Clone for Owner<'_, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<O> Copy for Owner<'_, O> {}

impl PodControl {
    /// The pods of the owners that `keyed` syncs. Writes go through `client`, Events through
    /// `recorder`.
    pub fn new<O: Object>(
        keyed: &mut Keyed<O>,
        pods: &SharedInformer<Pod>,
        client: ApiClient,
        recorder: EventRecorder,
    ) -> Self {
        let in_flight = Arc::<PodsInFlight>::default();
        keyed.remembers(Arc::clone(&in_flight) as Arc<_>);
        Self {
            pods: ByController::of(&pods.store()),
            queue: keyed.queue(),
            writes: keyed.writes(),
            written: keyed.writes_to(pods),
            in_flight,
            client,
            recorder,
        }
    }

    /// Settles the expectations of an owner, given a change of a pod and its meaning for the owner.
    pub fn observe<O: Object>(&self, change: &Change<'_, Pod>, event: &DependentEvent<O>) {
        let expectations = &self.in_flight.expectations;
        match event {
            DependentEvent::Created(owner) => expectations.creation_observed(&owner.key()),
            DependentEvent::Deleted(owner) => {
                expectations.deletion_observed(&owner.key(), &change.object().key());
            }
            DependentEvent::Updated(_) | DependentEvent::Lost(_) | DependentEvent::Adoptable(_) => {
            }
        }
    }

    /// The owner of this name is another object now. What the former one expected is void.
    pub fn forget(&self, owner: &ObjectKey) {
        self.in_flight.forget(owner);
        self.writes.forget(owner);
    }

    /// Creations and deletions that the cache does not show yet. Ask them before reading pods: a
    /// pod that arrives in between would be neither expected nor counted. An owner has to come back
    /// when they expire, since nothing else wakes it if its pods never show up.
    pub fn expectations(&self) -> &Expectations {
        &self.in_flight.expectations
    }

    /// The number of terminating pods that belong to `owner`, by the cache.
    pub fn terminating<O: Object>(&self, owner: Owner<'_, O>) -> usize {
        let belongs =
            |pod: &&Arc<Pod>| pod.is_terminating() && owner.selector.matches(&pod.meta.labels);
        self.pods
            .controlled_by::<O>(owner.object.meta())
            .iter()
            .filter(belongs)
            .count()
    }

    /// The pods among those that pass `filter` that belong to `owner`, after adoption and release.
    pub async fn claim<O: Object>(
        &self,
        owner: Owner<'_, O>,
        filter: impl Fn(&Pod) -> bool,
    ) -> Result<Vec<Arc<Pod>>, ClaimError> {
        let mut candidates = self.pods.candidates::<O>(owner.object.meta());
        candidates.retain(|pod| filter(pod));
        let claimed = claim(&self.client, owner.object, owner.selector, candidates).await?;
        for version in claimed.written {
            self.written.record(owner.key, version);
        }
        Ok(claimed.objects)
    }

    /// Whether `active`, the active pods of `owner` by the cache, are all its active pods. Asks the
    /// API server where the cache may lack a write: of the previous leader, without an answer, or
    /// never seen. When the answer is no, the key of `owner` returns to the queue once the cache
    /// has caught up.
    pub async fn cache_is_current<O: Object>(
        &self,
        owner: Owner<'_, O>,
        active: &[Arc<Pod>],
    ) -> Result<bool, LiveError> {
        if !self.written.predates_term() && !self.in_flight.is_in_doubt(owner.key) {
            return Ok(true);
        }
        let Owner {
            key,
            object,
            selector,
        } = owner;
        let meta = object.meta();
        let Live { objects, version } =
            live::matching::<Pod>(&self.client, &meta.namespace, selector).await?;
        self.in_flight.confirmed(key);
        let difference = Difference::between(meta, selector, objects, active);
        let Some(version) = difference.seen_at(version) else {
            return Ok(true);
        };
        self.written.record(key, version);
        let (queue, again) = (self.queue.clone(), key.clone());
        let waits = self.writes.wait_for_cache(key, move || queue.add(again));
        if waits.is_none() {
            self.queue.add(key.clone());
        }
        Ok(false)
    }

    /// Creates `count` pods from `body` by slow start. The first failure is returned.
    pub async fn create<O: Object>(
        &self,
        owner: Owner<'_, O>,
        count: usize,
        body: &RawValue,
    ) -> Result<(), ApiError> {
        let (key, about) = (owner.key, ObjectReference::of(owner.object));
        self.in_flight.expectations.expect_creations(key, count);
        let create = || self.create_one(key, body, &about);
        let (created, failure) = slow_start(count, create).await;
        let skipped = count - created;
        if skipped > 0 {
            tracing::debug!(
                podsSkipped = skipped,
                "Slow-start failure. Skipping creation of pods, decrementing expectations"
            );
        }
        // Pods that failed, and pods never tried, will not show up.
        for _ in 0..skipped {
            self.in_flight.expectations.creation_observed(key);
        }
        failure.map_or(Ok(()), Err)
    }

    async fn create_one(
        &self,
        key: &ObjectKey,
        body: &RawValue,
        about: &ObjectReference,
    ) -> Result<(), ApiError> {
        let target = Target::collection::<Pod>(&key.namespace);
        match self.client.create(target, &body).await {
            Ok(answer) => {
                let name = self.created_name(key, &answer);
                tracing::trace!(pod = %ObjectKey::new(&key.namespace, &name), "Controller created pod");
                let message = format!("Created pod: {name}");
                self.event(about, EventType::Normal, "SuccessfulCreate", message);
                Ok(())
            }
            // Every further attempt would fail too, and the owner itself is about to go.
            Err(error) if error.has_cause("NamespaceTerminating") => Ok(()),
            // Never sent, so that nothing happened to the owner.
            Err(error) if error.is_fenced() => Err(error),
            Err(error) => {
                self.in_flight.failed(key, &error);
                let message = format!("Error creating: {error}");
                self.event(about, EventType::Warning, "FailedCreate", message);
                Err(error)
            }
        }
    }

    /// The name of the pod in an answer, whose version is noted.
    fn created_name(&self, key: &ObjectKey, answer: &[u8]) -> String {
        match Identity::decode(answer) {
            Ok(created) => {
                self.written.record(key, created.resource_version);
                created.name
            }
            Err(error) => {
                tracing::warn!(%error, "a pod was created, but the answer has no name for it");
                self.in_flight.doubt(key);
                String::new()
            }
        }
    }

    /// Deletes `pods`. The first failure is returned, after all were tried.
    pub async fn delete<O: Object>(
        &self,
        owner: Owner<'_, O>,
        pods: &[Arc<Pod>],
    ) -> Result<(), ApiError> {
        let (key, about) = (owner.key, ObjectReference::of(owner.object));
        let names: HashSet<_> = pods.iter().map(|pod| pod.key()).collect();
        self.in_flight.expectations.expect_deletions(key, names);
        let deletions: Vec<_> = pods
            .iter()
            .map(|pod| self.delete_one(key, pod, &about))
            .collect();
        let results: Vec<_> = stream::iter(deletions)
            .buffer_unordered(DELETIONS_AT_ONCE)
            .collect()
            .await;
        results.into_iter().find(Result::is_err).unwrap_or(Ok(()))
    }

    async fn delete_one(
        &self,
        key: &ObjectKey,
        pod: &Pod,
        about: &ObjectReference,
    ) -> Result<(), ApiError> {
        tracing::debug!(pod = %pod.key(), "Deleting pod");
        let target = Target::of::<Pod>(&pod.meta);
        match self
            .client
            .delete(target, &Delete::exactly(&pod.meta))
            .await
        {
            Ok(answer) => {
                self.deleted(key, &answer);
                let message = format!("Deleted pod: {}", pod.meta.name);
                self.event(about, EventType::Normal, "SuccessfulDelete", message);
                Ok(())
            }
            Err(error) => {
                self.in_flight
                    .expectations
                    .deletion_observed(key, &pod.key());
                // Gone, or replaced by another pod of that name: either way ours is no more.
                if error.is_not_found() || error.is_conflict() {
                    tracing::trace!(pod = %pod.key(), "Pod has already been deleted.");
                    return Ok(());
                }
                if !error.is_fenced() {
                    self.in_flight.failed(key, &error);
                    let message = format!("Error deleting: {error}");
                    self.event(about, EventType::Warning, "FailedDelete", message);
                }
                Err(error)
            }
        }
    }

    /// Notes the version of a pod in the answer to its deletion. A Status in its place says that
    /// the pod is gone already; it has no version.
    fn deleted(&self, key: &ObjectKey, answer: &[u8]) {
        match Identity::decode(answer) {
            Ok(Identity {
                resource_version: 0,
                ..
            }) => {}
            Ok(gone) => self.written.record(key, gone.resource_version),
            Err(_) => self.in_flight.doubt(key),
        }
    }

    fn event(
        &self,
        about: &ObjectReference,
        kind: EventType,
        reason: &'static str,
        message: String,
    ) {
        self.recorder.event(about.clone(), kind, reason, message);
    }
}

/// The active pods of an owner on the API server that a cache shows otherwise.
struct Difference {
    /// Versions of the pods that the cache lacks.
    missing: Vec<u64>,
    /// Whether the cache shows pods that are gone or belong to another owner.
    surplus: bool,
}

impl Difference {
    fn between(owner: &Meta, selector: &Selector, live: Vec<Pod>, cached: &[Arc<Pod>]) -> Self {
        // A pod without a controller will belong to the owner: the next sync adopts it, once the
        // cache shows it as it is.
        let may_be_ours = |pod: &Pod| pod.meta.controller().is_none_or(|of| of.uid == owner.uid);
        let ours = live.into_iter().filter(|pod| {
            pod.is_active() && selector.matches(&pod.meta.labels) && may_be_ours(pod)
        });
        let mut missing: HashMap<Uid, Meta> =
            ours.map(|pod| (pod.meta.uid.clone(), pod.meta)).collect();
        // The owner controls pods adopted in this very sync, whatever the cached copy says.
        let mut surplus = false;
        for pod in cached {
            let live = missing.remove(&pod.meta.uid);
            surplus |= !live.is_some_and(|live| live.is_controlled_by(&owner.uid));
        }
        Self {
            missing: missing
                .into_values()
                .map(|meta| meta.resource_version)
                .collect(),
            surplus,
        }
    }

    /// The version at which the cache shows what a list of version `listed` showed; `None` without
    /// a difference.
    fn seen_at(&self, listed: u64) -> Option<u64> {
        if self.surplus {
            Some(listed)
        } else {
            // A cache that only lacks pods has caught up once it holds them. The version of the
            // list may be that of another resource, and reach this cache with a bookmark only.
            self.missing.iter().copied().max()
        }
    }
}
