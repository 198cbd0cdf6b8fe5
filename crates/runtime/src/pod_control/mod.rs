//! The pods of an owner: claim, create and delete, each write once.
//!
//! Each workload controller that keeps pods uses a [`PodControl`]. Before it creates or deletes
//! pods, the cache must show all earlier writes for the owner: those of this process, and those of
//! the previous leader ([`PodControl::cache_is_current`]). A deletion carries the UID of the pod,
//! so that a new pod of the same name survives. Users see the Events of upstream's
//! `RealPodControl`.
//!
//! Upstream: `controller_utils.go` and the pod half of `controller_ref_manager.go`. One difference:
//! after an expired expectation or an unanswered write, a live list confirms the cached pods.
//! Upstream trusts its cache again after five minutes.

mod in_flight;
mod slow_start;
mod template;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures::{StreamExt, stream};
use serde_json::value::RawValue;

use self::in_flight::PodsInFlight;
use self::slow_start::slow_start;
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

/// Concurrent deletions per sync. The throttle of the client limits their rate.
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

/// An owner, with the parts that all functions on its pods need.
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

impl<O: Object> Owner<'_, O> {
    /// The number of terminating pods among `candidates` that belong to the owner.
    pub fn count_terminating(&self, candidates: &[Arc<Pod>]) -> usize {
        let uid = &self.object.meta().uid;
        let belongs = |pod: &&Arc<Pod>| {
            pod.is_terminating()
                && pod.meta.is_controlled_by(uid)
                && self.selector.matches(&pod.meta.labels)
        };
        candidates.iter().filter(belongs).count()
    }
}

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

    /// Counts a change of a pod down from the expectations of its owner.
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

    /// Drops the expectations and own writes for `owner`, since another object has its name now.
    pub fn forget(&self, owner: &ObjectKey) {
        self.in_flight.forget(owner);
        self.writes.forget(owner);
    }

    /// Creations and deletions that the cache does not show yet.
    ///
    /// Read them before the pods. In the other order, a pod that arrives in between is missing from
    /// both. Requeue an owner for the time when its expectations expire: if its pods never arrive,
    /// no event enqueues it.
    pub fn expectations(&self) -> &Expectations {
        &self.in_flight.expectations
    }

    /// The cached pods that `owner` controls, and the orphans of its namespace, of one instant.
    pub fn candidates<O: Object>(&self, owner: Owner<'_, O>) -> Vec<Arc<Pod>> {
        self.pods.candidates::<O>(owner.object.meta())
    }

    /// Adopts and releases pods among `candidates`, and returns those that belong to `owner`.
    pub async fn claim<O: Object>(
        &self,
        owner: Owner<'_, O>,
        candidates: Vec<Arc<Pod>>,
    ) -> Result<Vec<Arc<Pod>>, ClaimError> {
        let claimed = claim(&self.client, owner.object, owner.selector, candidates).await?;
        for version in claimed.written {
            self.written.record(owner.key, version);
        }
        Ok(claimed.objects)
    }

    /// True if `active`, the cached active pods of `owner`, are its active pods on the API server.
    ///
    /// A live list checks it if the cache may lack a write: of the previous leader, without an
    /// answer, or without its event. If the answer is false, the key of `owner` returns to the
    /// queue as soon as the cache has caught up.
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
        // The cache has caught up in the meantime, or a rewind dropped the record.
        if waits.is_none() {
            self.queue.add(key.clone());
        }
        Ok(false)
    }

    /// Creates `count` pods from `body` by slow start. Returns the first failure.
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
        // The cache will never show pods that failed or were not attempted.
        for _ in 0..skipped {
            self.in_flight.expectations.creation_observed(key);
        }
        failure.map_or(Ok(()), Err)
    }

    /// Creates a pod, and sends the Event about it. A failure counts down no expectation: the
    /// caller does that for all failed and skipped pods together.
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
            // Every retry would fail too, and the deletion of the namespace also deletes the owner.
            Err(error) if error.has_cause("NamespaceTerminating") => Ok(()),
            // The write gate refused the request, so it is no failure that users should see.
            Err(error) if error.is_fenced() => Err(error),
            Err(error) => {
                self.in_flight.failed(key, &error);
                let message = format!("Error creating: {error}");
                self.event(about, EventType::Warning, "FailedCreate", message);
                Err(error)
            }
        }
    }

    /// The name of the created pod in `answer`. Records its resource version.
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

    /// Deletes `pods`. Attempts all deletions, and returns the first failure.
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

    /// Deletes a pod, and sends the Event about it. A failure counts down the expectation.
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
                // The pod is gone, or another pod has its name. Both mean that it is deleted.
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

    /// Records the resource version in the answer to a deletion. The answer is a Status without a
    /// version if the pod is gone already.
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

/// The difference between the active pods of an owner in a live list and in the cache.
struct Difference {
    /// Resource versions of the pods that the cache lacks.
    missing: Vec<u64>,
    /// True if the cache shows pods that are gone or belong to another owner.
    surplus: bool,
}

impl Difference {
    /// Compares the active pods of `owner` in `live`, a list by `selector`, with `cached`.
    fn between(owner: &Meta, selector: &Selector, live: Vec<Pod>, cached: &[Arc<Pod>]) -> Self {
        // An orphan counts too: a later sync adopts it, after the cache shows it.
        let may_be_ours = |pod: &Pod| pod.meta.controller().is_none_or(|of| of.uid == owner.uid);
        let ours = live.into_iter().filter(|pod| {
            pod.is_active() && selector.matches(&pod.meta.labels) && may_be_ours(pod)
        });
        let mut missing: HashMap<Uid, Meta> =
            ours.map(|pod| (pod.meta.uid.clone(), pod.meta)).collect();
        // The cached copies of pods that this sync adopted lack the reference; the live ones have
        // it.
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

    /// The resource version from which the cache agrees with a live list of version `listed`.
    /// `None` without a difference.
    fn seen_at(&self, listed: u64) -> Option<u64> {
        if self.surplus {
            Some(listed)
        } else {
            // A cache that only lacks pods agrees as soon as it has them. The version of the list
            // can be that of another resource, and then arrives only with a bookmark.
            self.missing.iter().copied().max()
        }
    }
}
