//! The pods of an owner: claim, create and delete, each write once.
//!
//! Each workload controller that keeps pods uses a [`PodControl`]. Before it creates or deletes
//! pods, the cache must show all earlier writes for the owner: those of this process, and those of
//! the previous leader ([`PodControl::cache_agrees`]). A deletion carries the UID of the pod,
//! so that a new pod of the same name survives. Users see the Events of upstream's
//! `RealPodControl`.
//!
//! Upstream: `controller_utils.go` and the pod half of `controller_ref_manager.go`. One difference:
//! after an expired expectation or an unanswered write, a live list confirms the cached pods.
//! Upstream trusts its cache again after five minutes.

mod difference;
mod error;
mod invariants;
mod slow_start;
mod template;

use std::borrow::Borrow;
use std::collections::HashSet;
use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::{FutureExt, StreamExt, stream};
use serde::Serialize;
use serde_json::value::RawValue;

use steersman_client::live::{self, Lag, Live, LiveError};
use steersman_client::writes::Delete;
use steersman_client::{ApiClient, ApiError, PatchKind, Target};
use steersman_objects::{Identity, Meta, Object, ObjectKey, ObjectReference, Pod, Uid};
use steersman_values::labels::Selector;

use self::difference::Difference;
pub use self::error::PodsError;
pub use self::invariants::{FOREIGN_POD, not_foreign};
use self::slow_start::slow_start;
pub use self::template::{TemplateError, from_template};
use crate::consistency::{ConsistencyStore, RECHECK, TrackedCache};
use crate::events::{EventRecorder, EventType};
use crate::informer::{Change, SharedInformer, Store};
use crate::keyed::Keyed;
use crate::owner::{ByController, ClaimError, DependentEvent, claim_with_finalizer};
use crate::workqueue::WorkQueue;

/// Concurrent deletions per sync. The throttle of the client limits their rate. Upstream starts one
/// goroutine per pod.
const DELETIONS_AT_ONCE: usize = 200;

/// The pods of all owners of one kind. Cheap to clone.
#[derive(Clone)]
pub struct PodControl {
    pods: ByController<Pod>,
    queue: WorkQueue<ObjectKey>,
    /// The records of the controller, by owner.
    consistency: ConsistencyStore,
    /// The cache of pods.
    cache: TrackedCache,
    client: ApiClient,
    recorder: EventRecorder,
    /// The finalizer that adopted pods get and released pods lose.
    finalizer: Option<&'static str>,
}

/// The result of [`PodControl::create_each`].
#[derive(Debug, Default)]
pub struct Creations {
    /// Number of created pods.
    pub created: usize,
    /// Number of pods that count as created, although their namespace is terminating. No further
    /// attempt would succeed.
    pub refused: usize,
    /// Number of failed attempts. The three numbers cover attempted creations only.
    pub failed: usize,
    /// The first failure. Later ones show in Events only.
    pub failure: Option<ApiError>,
}

/// The result of a deletion without a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deleted {
    /// This request deleted the pod.
    Now,
    /// The pod was gone already. Its deletion was the aim, so this is a success.
    Before,
}

/// The result of [`PodControl::delete_each`].
#[derive(Debug)]
pub struct Deletions<'a, P, E> {
    /// The pods that were deleted, now or before.
    pub deleted: Vec<&'a P>,
    /// The first failure.
    pub failure: Option<E>,
}

/// An owner, with the parts that all functions on its pods need.
pub struct Owner<'a, O> {
    /// Namespace and name.
    pub key: &'a ObjectKey,
    /// The cached object.
    pub object: &'a O,
    /// The parsed selector. Callers parse it once per sync.
    pub selector: &'a Selector,
}

impl<O> Clone for Owner<'_, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<O> Copy for Owner<'_, O> {}

impl<O: Object> Owner<'_, O> {
    /// The terminating pods among `candidates` that belong to the owner. Candidates that the owner
    /// would only adopt are left out: terminating orphans are never adopted.
    pub fn terminating(&self, mut candidates: Vec<Arc<Pod>>) -> Vec<Arc<Pod>> {
        let uid = &self.object.meta().uid;
        let belongs = |pod: &Arc<Pod>| {
            pod.is_terminating()
                && pod.meta.is_controlled_by(uid)
                && self.selector.matches(&pod.meta.labels)
        };
        candidates.retain(belongs);
        candidates
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
        // The series exists from the start, so that an alert sees its first increase.
        client.counts_violations_of(&[FOREIGN_POD]);
        Self {
            pods: ByController::of(&pods.store()),
            queue: keyed.queue(),
            consistency: keyed.consistency(),
            cache: keyed.tracked(pods),
            client,
            recorder,
            finalizer: None,
        }
    }

    /// The same, for pods that carry `finalizer` while they belong to their owner.
    #[must_use]
    pub fn with_finalizer(mut self, finalizer: &'static str) -> Self {
        self.finalizer = Some(finalizer);
        self
    }

    /// Counts a change of a pod down from the expectations of its owner. Handlers call it before
    /// they enqueue the owner, so that the sync sees the lower number.
    pub fn observe<O: Object>(&self, change: &Change<'_, Pod>, event: &DependentEvent<O>) {
        match event {
            DependentEvent::Created(owner) => self.consistency.creation_observed(&owner.key()),
            DependentEvent::Deleted(owner) => {
                let gone = change.object().key();
                self.consistency.deletion_observed(&owner.key(), &gone);
            }
            DependentEvent::Updated(_) | DependentEvent::Lost(_) | DependentEvent::Adoptable(_) => {
            }
        }
    }

    /// Drops the expectations and own writes for `owner`, since another object has its name now.
    pub fn forget(&self, owner: &ObjectKey) {
        self.consistency.clear(owner);
    }

    /// Drops the expectations and own writes for `owner` if the cache `owners` lacks it, or has
    /// another object of its name. Returns whether it does.
    ///
    /// Call it after the writes of a sync. An owner may be deleted or recreated during these, and
    /// expectations from after [`PodControl::forget`] would delay the new owner.
    pub fn forget_if_replaced<O: Object>(&self, owner: Owner<'_, O>, owners: &Store<O>) -> bool {
        let uid = &owner.object.meta().uid;
        let now = owners.get(owner.key);
        let is_replaced = now.is_none_or(|now| now.meta().uid != *uid);
        if is_replaced {
            self.forget(owner.key);
        }
        is_replaced
    }

    /// The writes that the caches may lack, among them the expected creations and deletions of pods.
    pub fn consistency(&self) -> &ConsistencyStore {
        &self.consistency
    }

    /// The cached pods that `owner` controls, and the orphans of its namespace, of one instant.
    /// Selectors do not filter them: a pod that no longer matches has to be released.
    pub fn candidates<O: Object>(&self, owner: Owner<'_, O>) -> Vec<Arc<Pod>> {
        self.pods.candidates::<O>(owner.object.meta())
    }

    /// Adopts and releases pods among `candidates`, and returns those that belong to `owner`.
    /// Upstream: `ClaimPods`.
    pub async fn claim<O: Object>(
        &self,
        owner: Owner<'_, O>,
        candidates: Vec<Arc<Pod>>,
    ) -> Result<Vec<Arc<Pod>>, ClaimError> {
        let Owner {
            object, selector, ..
        } = owner;
        let claimed =
            claim_with_finalizer(&self.client, object, selector, candidates, self.finalizer)
                .await?;
        for version in claimed.written {
            self.cache.wrote_at(owner.key, version);
        }
        Ok(claimed.objects)
    }

    /// True if `cached`, the cached pods of `owner`, are its pods on the API server. `state` reads
    /// the parts of a pod that the next decision depends on; it is `None` for pods that do not
    /// matter.
    ///
    /// A live list checks it if the cache may lack a write: of the previous leader, without an
    /// answer, or without its event. If the answer is false, the key of `owner` returns to the
    /// queue as soon as the cache has caught up. If the cache shows a pod that is gone, it returns
    /// after [`RECHECK`], or with the event of the deletion.
    pub async fn cache_agrees<O: Object, S: PartialEq>(
        &self,
        owner: Owner<'_, O>,
        cached: &[Arc<Pod>],
        state: impl Fn(&Pod) -> Option<S>,
    ) -> Result<bool, LiveError> {
        if !self.cache.predates_term() && !self.consistency.is_in_doubt(owner.key) {
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
        let lag = Difference::between(meta, selector, objects, cached, state).lag();
        // The list has settled the former doubt, also where a difference begins a new one.
        self.consistency.confirmed(key);
        match lag {
            None => return Ok(true),
            Some(Lag::Until(version)) => self.cache.await_version(key, version, &self.queue),
            Some(Lag::Deletion) => {
                self.cache.doubt_until(key, version);
                self.queue.add_after(key.clone(), RECHECK);
            }
        }
        Ok(false)
    }

    /// Creates `count` pods from `body` by slow start. Returns the first failure. Upstream:
    /// `slowStartBatch` around `CreatePods`.
    pub async fn create<O: Object>(
        &self,
        owner: Owner<'_, O>,
        count: usize,
        body: &RawValue,
    ) -> Result<(), ApiError> {
        let creations = self.create_each(owner, count, |_| body).await;
        creations.failure.map_or(Ok(()), Err)
    }

    /// Creates `count` pods by slow start. `body` makes the body of the pod with this number, from
    /// 0, when its turn comes.
    pub async fn create_each<O: Object, B: Borrow<RawValue>>(
        &self,
        owner: Owner<'_, O>,
        count: usize,
        body: impl Fn(usize) -> B,
    ) -> Creations {
        self.consistency.expect_creations(owner.key, count);
        self.create_all(owner, count, body).await
    }

    /// Creates `count` pods as [`PodControl::create_each`] does, and then deletes `pods`, also after
    /// a failed creation. One record expects all of these writes. Returns the first failure.
    pub async fn create_and_delete<O: Object, B: Borrow<RawValue>>(
        &self,
        owner: Owner<'_, O>,
        count: usize,
        body: impl Fn(usize) -> B,
        pods: &[Arc<Pod>],
    ) -> Result<(), ApiError> {
        self.consistency.expect(owner.key, count, keys(pods));
        let creations = self.create_all(owner, count, body).await;
        let deleted = self.delete_all(owner, pods).await;
        creations.failure.map_or(deleted, Err)
    }

    /// Creates pods that the caller has added to the expectations.
    async fn create_all<O: Object, B: Borrow<RawValue>>(
        &self,
        owner: Owner<'_, O>,
        count: usize,
        body: impl Fn(usize) -> B,
    ) -> Creations {
        let key = owner.key;
        let about = ObjectReference::of(owner.object);
        let [created, failed] = [(); 2].map(|()| AtomicUsize::new(0));
        let create = |number| {
            let body = body(number);
            let about = &about;
            let created = &created;
            let failed = &failed;
            async move {
                let outcome = self.create_one(key, body.borrow(), about).await;
                let count = match &outcome {
                    Ok(Created::Now) => Some(created),
                    Ok(Created::Refused) => None,
                    Err(_) => Some(failed),
                };
                count.map(|count| count.fetch_add(1, Ordering::Relaxed));
                outcome.map(|_| ())
            }
        };
        let (accepted, failure) = slow_start(count, create).await;
        let skipped = count - accepted;
        if skipped > 0 {
            tracing::debug!(
                podsSkipped = skipped,
                "Slow-start failure. Skipping creation of pods, decrementing expectations"
            );
        }
        // The cache will never show pods that failed or were not attempted.
        for _ in 0..skipped {
            self.consistency.creation_observed(key);
        }
        let created = created.into_inner();
        Creations {
            created,
            refused: accepted - created,
            failed: failed.into_inner(),
            failure,
        }
    }

    /// Creates a pod, and sends the Event about it. A failure counts down no expectation: the
    /// caller does that for all failed and skipped pods together. Upstream: `createPods` of
    /// `RealPodControl`.
    async fn create_one(
        &self,
        key: &ObjectKey,
        body: &RawValue,
        about: &ObjectReference,
    ) -> Result<Created, ApiError> {
        let target = Target::collection::<Pod>(&key.namespace);
        match self.client.create(target, &body).await {
            Ok(answer) => {
                let name = self.created_name(key, &answer);
                tracing::trace!(pod = %ObjectKey::new(&key.namespace, &name), "Controller created pod");
                let message = format!("Created pod: {name}");
                self.event(about, EventType::Normal, "SuccessfulCreate", message);
                Ok(Created::Now)
            }
            // Every retry would fail too, and the deletion of the namespace also deletes the owner.
            // Upstream sends no Event either.
            Err(error) if error.has_cause("NamespaceTerminating") => Ok(Created::Refused),
            // The write gate refused the request, so it is no failure that users should see.
            Err(error) if error.is_fenced() => Err(error),
            Err(error) => {
                self.consistency.failed(key, &error);
                let message = format!("Error creating: {error}");
                self.event(about, EventType::Warning, "FailedCreate", message);
                Err(error)
            }
        }
    }

    /// The name of the created pod in `answer`. Records its resource version. Without a readable
    /// answer the pod has an unknown version, so the owner is in doubt.
    fn created_name(&self, key: &ObjectKey, answer: &[u8]) -> String {
        match Identity::decode(answer) {
            Ok(created) => {
                self.cache.wrote_at(key, created.resource_version);
                created.name
            }
            Err(error) => {
                tracing::warn!(%error, "a pod was created, but the answer has no name for it");
                self.consistency.doubt(key);
                String::new()
            }
        }
    }

    /// Deletes `pods`. Attempts all deletions, and returns the first failure. Upstream: the
    /// deletions of `manageReplicas`.
    pub async fn delete<O: Object>(
        &self,
        owner: Owner<'_, O>,
        pods: &[Arc<Pod>],
    ) -> Result<(), ApiError> {
        self.consistency.expect_deletions(owner.key, keys(pods));
        self.delete_all(owner, pods).await
    }

    /// Deletes pods that the caller has added to the expectations.
    async fn delete_all<O: Object>(
        &self,
        owner: Owner<'_, O>,
        pods: &[Arc<Pod>],
    ) -> Result<(), ApiError> {
        let key = owner.key;
        let about = ObjectReference::of(owner.object);
        let deletions = self.delete_each(key, pods, |pod| self.delete_one(key, pod, &about));
        deletions.await.failure.map_or(Ok(()), Err)
    }

    /// Deletes each of `pods`, which belong to the owner `key`, by `delete`. Attempts all deletions.
    ///
    /// The caller may have added the pods to the expectations. A pod that `delete` does not delete
    /// is counted down.
    pub async fn delete_each<'a, P, E, F>(
        &self,
        key: &ObjectKey,
        pods: &'a [P],
        delete: impl Fn(&'a P) -> F,
    ) -> Deletions<'a, P, E>
    where
        P: Deref<Target = Pod>,
        F: Future<Output = Result<Deleted, E>>,
    {
        let attempts: Vec<_> = pods
            .iter()
            .map(|pod| delete(pod).map(move |outcome| (pod, outcome)))
            .collect();
        let mut outcomes = stream::iter(attempts).buffer_unordered(DELETIONS_AT_ONCE);
        let mut deleted = Vec::new();
        let mut failure = None;
        while let Some((pod, outcome)) = outcomes.next().await {
            // No event follows such a deletion, so the expectation would stay until it expires.
            if !matches!(outcome, Ok(Deleted::Now)) {
                self.consistency.deletion_observed(key, &pod.key());
            }
            match outcome {
                Ok(_) => deleted.push(pod),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        Deletions { deleted, failure }
    }

    /// Deletes a pod of the owner `key`, and sends the Event about it to `about`. Leaves the
    /// expectations to the caller. Refuses to delete a pod of another owner ([`not_foreign`]).
    /// Upstream: `DeletePod` of `RealPodControl`, which sends no UID.
    pub async fn delete_one(
        &self,
        key: &ObjectKey,
        pod: &Pod,
        about: &ObjectReference,
    ) -> Result<Deleted, ApiError> {
        tracing::debug!(pod = %pod.key(), "Deleting pod");
        let target = Target::of::<Pod>(&pod.meta);
        let checked = not_foreign(pod, &Uid::new(&about.uid));
        let deleted = match self.client.permit(target, checked) {
            Ok(()) => {
                let options = Delete::exactly(&pod.meta);
                self.client.delete(target, &options).await
            }
            Err(refused) => Err(refused),
        };
        match deleted {
            Ok(answer) => {
                self.changed(key, &answer);
                let message = format!("Deleted pod: {}", pod.meta.name);
                self.event(about, EventType::Normal, "SuccessfulDelete", message);
                Ok(Deleted::Now)
            }
            // A 404, or another pod of the name. Upstream returns its 404 to the caller, which
            // ignores it.
            Err(error) if live::is_gone::<Pod>(&self.client, &pod.meta, &error).await => {
                tracing::trace!(pod = %pod.key(), "Pod has already been deleted.");
                Ok(Deleted::Before)
            }
            Err(error) => {
                if !error.is_fenced() {
                    self.consistency.failed(key, &error);
                }
                // Upstream sends no Event about a 404.
                if !error.is_fenced() && !error.is_not_found() {
                    let message = format!("Error deleting: {error}");
                    self.event(about, EventType::Warning, "FailedDelete", message);
                }
                Err(error)
            }
        }
    }

    /// Sends a strategic merge patch of a pod of the owner `key`.
    pub async fn patch(
        &self,
        key: &ObjectKey,
        pod: &Meta,
        patch: &(impl Serialize + Sync),
    ) -> Result<(), ApiError> {
        let target = Target::of::<Pod>(pod);
        match self.client.patch(target, PatchKind::Strategic, patch).await {
            Ok(answer) => {
                self.changed(key, &answer);
                Ok(())
            }
            Err(error) => {
                self.consistency.failed(key, &error);
                Err(error)
            }
        }
    }

    /// Records the resource version in the answer to a deletion or patch. The answer to a deletion
    /// is a Status without a version if the pod is gone already. A terminating pod has a new
    /// version too, and the cache has to show it.
    fn changed(&self, key: &ObjectKey, answer: &[u8]) {
        match Identity::decode(answer) {
            Ok(Identity {
                resource_version: 0,
                ..
            }) => {}
            Ok(gone) => self.cache.wrote_at(key, gone.resource_version),
            Err(_) => self.consistency.doubt(key),
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

fn keys(pods: &[Arc<Pod>]) -> HashSet<ObjectKey> {
    pods.iter().map(|pod| pod.key()).collect()
}

/// The result of a creation without a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Created {
    /// This request created the pod.
    Now,
    /// The namespace is terminating.
    Refused,
}
