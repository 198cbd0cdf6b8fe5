//! One sync of one DaemonSet: find its revision, create, delete or replace pods, write the status.
//!
//! cache -> revisions -> claimed pods -> [`Layout`] -> ([`manage`], else [`rolling`]) -> pods,
//! old revisions, status
//!
//! All decisions read the pods from before the writes, and a later sync continues. So one sync
//! claims pods once and needs no second read of the cache. Upstream: `syncDaemonSet` in
//! `daemon_controller.go`, which claims the pods for each step again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use steersman_client::live::{self, Live, LiveError};
use steersman_client::writes::{OnFailure, StatusError, write_status};
use steersman_client::{ApiClient, ApiError, Target};
use steersman_helpers::scheduling::Comparisons;
use steersman_objects::{
    ControllerRevision, DaemonSet, DaemonSetStrategy, Node, Object, ObjectKey, ObjectReference,
    Pod, Selects,
};
use steersman_runtime::consistency::TrackedCache;
use steersman_runtime::events::{EventRecorder, EventType};
use steersman_runtime::informer::Store;
use steersman_runtime::keyed::ObjectSyncer;
use steersman_runtime::pod_control::{Owner, PodControl};
use steersman_runtime::workers::{Requeue, Retry};
use steersman_runtime::workqueue::WorkQueue;
use steersman_values::clock::Clock;
use tokio::time::Instant;

use super::changes::Changes;
use super::error::SyncError;
use super::failed_pods::FailedPods;
use super::history;
use super::invariants;
use super::layout::{Layout, is_present, target_node};
use super::manage::{self, Managed};
use super::pod::Bodies;
use super::revisions::Revisions;
use super::rolling;
use super::status::{self, Counters};
use super::updated::Current;

/// Syncs DaemonSets.
///
/// It has no state of its own besides the back-offs, so all workers share it.
pub(super) struct DaemonSetSyncer {
    pub(super) daemon_sets: Store<DaemonSet>,
    pub(super) nodes: Store<Node>,
    pub(super) control: PodControl,
    pub(super) revisions: Revisions,
    pub(super) failed_pods: Arc<FailedPods>,
    /// The cache of DaemonSets. Own writes are status updates.
    pub(super) cache: TrackedCache,
    /// Live reads of nodes that the cache has to show.
    pub(super) nodes_cache: TrackedCache,
    pub(super) queue: WorkQueue<ObjectKey>,
    pub(super) client: ApiClient,
    pub(super) recorder: EventRecorder,
    pub(super) clock: Clock,
    pub(super) comparisons: Comparisons,
}

/// The result of the writes about pods and old revisions.
///
/// The default is that of unmet expectations: nothing was done, and the status keeps its generation.
#[derive(Default)]
struct Updated {
    /// Whether the sync acted on the spec. False while expectations are unmet.
    observed: bool,
    /// The time until the next failed pod may be deleted.
    next_deletion: Option<Duration>,
}

impl ObjectSyncer for DaemonSetSyncer {
    type Object = DaemonSet;
    type Error = SyncError;

    async fn sync(&self, key: &ObjectKey, ds: Arc<DaemonSet>) -> Result<Requeue, SyncError> {
        let selector = match ds.selector() {
            Ok(selector) => selector,
            Err(error) => {
                tracing::error!(%error, "selector is malformed, nothing to sync until it changes");
                return Ok(Requeue::Never);
            }
        };
        if selector.is_everything() {
            let message =
                "This daemon set is selecting all pods. A non-empty selector is required.";
            self.event(
                &ds,
                (EventType::Warning, "SelectingAll", message.to_owned()),
            );
            return Ok(Requeue::Never);
        }
        // The garbage collector may already have removed revisions of a terminating DaemonSet, so
        // its status cannot be computed.
        if ds.meta.is_terminating() {
            return Ok(Requeue::Never);
        }
        let owner = Owner {
            key,
            object: &*ds,
            selector,
        };
        // Read before the pods, for the reason in `ConsistencyStore::satisfied`.
        let is_settled = self.control.consistency().satisfied(key);
        // Events of revisions enqueue no DaemonSet. One that the cache lacks may need another number.
        let revisions = &self.revisions.cache;
        revisions.revisit_in_term(key, &self.queue);
        let constructed = self.revisions.construct(owner, &self.control).await;
        let Some(constructed) = constructed.map_err(SyncError::History)? else {
            return Ok(Requeue::Never);
        };
        let current = Current::new(&ds, constructed.hash);
        let pods = self.claimed_pods(owner).await?;
        let constraints = &ds.spec.constraints;
        let layout = Layout::new(constraints, self.comparisons, self.nodes.list(), &pods);
        let outcome = if is_settled {
            let updated = self.update(owner, &layout, &pods, &current, &constructed.old);
            // The counts of a stale layout must not reach the status.
            let Some(outcome) = updated.await.transpose() else {
                return Ok(Requeue::Never);
            };
            outcome
        } else {
            Ok(Updated::default())
        };
        match outcome {
            Err(error) if error.is_fenced() => Err(error),
            outcome => self.report(owner, &layout, &current, outcome).await,
        }
    }

    fn retry(&self, error: &SyncError, request: Option<&ApiError>, _failures: u32) -> Retry {
        error.retry(request)
    }
}

impl DaemonSetSyncer {
    /// The cached pods of `owner`, after adoption and release. Upstream: `getDaemonPods`.
    async fn claimed_pods(&self, owner: Owner<'_, DaemonSet>) -> Result<Vec<Arc<Pod>>, SyncError> {
        let candidates = self.control.candidates(owner);
        let claimed = self.control.claim(owner, candidates).await;
        claimed.map_err(|source| SyncError::Claim {
            name: owner.key.name.to_string(),
            source,
        })
    }

    /// Creates and deletes pods, and deletes superfluous revisions. `None` if the caches are stale;
    /// the missing event enqueues the key.
    ///
    /// Upstream: `updateDaemonSet`. Failures of `apply` leave the old revisions for a later sync.
    async fn update(
        &self,
        owner: Owner<'_, DaemonSet>,
        layout: &Layout,
        pods: &[Arc<Pod>],
        current: &Current,
        old: &[Arc<ControllerRevision>],
    ) -> Result<Option<Updated>, SyncError> {
        let ds = owner.object;
        let now = self.clock.now();
        let instant = Instant::now();
        let mut managed = self.failed_pods.of(ds, |backoffs| {
            manage::decide(ds, layout, current, backoffs, now, instant)
        });
        let is_rolling = matches!(ds.spec.update_strategy, DaemonSetStrategy::RollingUpdate(_));
        // While pods are missing or surplus, a roll-out waits, as for unmet expectations.
        if managed.changes.is_empty() && is_rolling {
            let next = rolling::decide(ds, layout, current, now);
            managed.changes = next.map_err(SyncError::Limit)?;
            let delete = &managed.changes.delete;
            let checked = invariants::keeps_available(ds, layout.desired(), delete, now);
            let permitted = self
                .client
                .permit(Target::of::<DaemonSet>(&ds.meta), checked);
            permitted.map_err(SyncError::Pods)?;
        }
        let superfluous = history::superfluous(old, pods, ds.spec.revision_history_limit);
        let has_work = !managed.changes.is_empty() || !superfluous.is_empty();
        if has_work && !self.is_current(owner, pods, &managed.changes).await? {
            return Ok(None);
        }
        self.apply(owner, current, &managed, instant).await?;
        let cleaned = self.revisions.delete(superfluous).await;
        cleaned.map_err(SyncError::CleanUp)?;
        Ok(Some(Updated {
            observed: true,
            next_deletion: managed.next_deletion,
        }))
    }

    /// True if the caches are recent enough to create or delete objects. If not, the key returns
    /// with the missing event.
    ///
    /// The cheapest check comes first.
    async fn is_current(
        &self,
        owner: Owner<'_, DaemonSet>,
        pods: &[Arc<Pod>],
        changes: &Changes,
    ) -> Result<bool, SyncError> {
        let is_current = self.revisions.is_current(&owner.object.meta).await;
        if !is_current.map_err(SyncError::History)? {
            return Ok(false);
        }
        if changes.is_empty() {
            return Ok(true);
        }
        // A terminating pod blocks its node. A rolling update counts available pods, and deletes pods
        // that are not ready beyond its limits.
        let state = |pod: &Pod| is_present(pod).then_some((pod.meta.is_terminating(), pod.ready));
        let agrees = self.control.cache_agrees(owner, pods, state).await;
        if !agrees.map_err(SyncError::Check)? {
            return Ok(false);
        }
        let (_, delete) = changes.capped();
        let agrees = self.has_current_nodes(owner.key, delete).await;
        agrees.map_err(SyncError::Check)
    }

    /// True if the cache has the nodes of the `deleted` pods as the API server has them. A new
    /// leader with an old cache of nodes would delete the pods of a node that fits again.
    ///
    /// Creations need no such check: a surplus pod is deleted by a later sync, while a deleted one is lost.
    async fn has_current_nodes(
        &self,
        key: &ObjectKey,
        deleted: &[Arc<Pod>],
    ) -> Result<bool, LiveError> {
        if !self.nodes_cache.predates_term() {
            return Ok(true);
        }
        let names: BTreeSet<_> = deleted.iter().filter_map(|pod| target_node(pod)).collect();
        for name in names {
            let Live { objects, .. } = live::named::<Node>(&self.client, "", &name).await?;
            let cached = self.nodes.get(&ObjectKey::new("", &name));
            let live = objects.iter().map(Object::meta);
            let cached = cached.iter().map(|node| node.meta());
            if !self.nodes_cache.agrees(key, &self.queue, live, cached) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Sends the Events about finished pods, and creates and deletes pods.
    ///
    /// Upstream: `syncNodes`. Events and back-offs come first, as upstream's do, even if the deletion then
    /// fails.
    async fn apply(
        &self,
        owner: Owner<'_, DaemonSet>,
        current: &Current,
        managed: &Managed,
        instant: Instant,
    ) -> Result<(), SyncError> {
        let ds = owner.object;
        for finished in &managed.finished {
            self.event(ds, finished.event());
        }
        self.failed_pods.step(ds, &managed.backed_off, instant);
        if managed.changes.is_empty() {
            return Ok(());
        }
        let (create, delete) = managed.changes.capped();
        tracing::debug!(
            creating = create.len(),
            deleting = delete.len(),
            "Creating and deleting daemon pods"
        );
        let bodies = Bodies::new(ds, current).map_err(SyncError::Template)?;
        let body = |number: usize| bodies.on(&create[number]);
        let control = &self.control;
        let changed = control
            .create_and_delete(owner, create.len(), body, delete)
            .await;
        control.forget_if_replaced(owner, &self.daemon_sets);
        changed.map_err(SyncError::Pods)
    }

    /// Writes the status, and returns the time of the next sync. The status is written even if the
    /// writes about pods failed, and their error is returned afterwards.
    ///
    /// Upstream: the end of `syncDaemonSet`, and of `updateDaemonSetStatus`.
    async fn report(
        &self,
        owner: Owner<'_, DaemonSet>,
        layout: &Layout,
        current: &Current,
        outcome: Result<Updated, SyncError>,
    ) -> Result<Requeue, SyncError> {
        let Owner {
            key, object: ds, ..
        } = owner;
        let counters = status::count(ds, layout, current, self.clock.now());
        let observed = outcome.as_ref().map_or(true, |updated| updated.observed);
        let written = self.write_status(key, ds, counters, observed).await;
        let (updated, source) = match (outcome, written) {
            (Ok(updated), written) => (updated, written.err()),
            (Err(error), Ok(())) => return Err(error),
            (Err(error), Err(status)) => {
                tracing::error!(error = %status, "Failed to update status");
                return Err(error);
            }
        };
        match source {
            // The DaemonSet was deleted. Its key returns when the cache shows the deletion.
            Some(error) if error.is_object_not_found() => return Ok(Requeue::Never),
            Some(source) => {
                return Err(SyncError::Status {
                    name: key.name.to_string(),
                    source,
                });
            }
            None => {}
        }
        // A last resort, as upstream: the handler of pods has added a delayed key already.
        let seconds = u64::try_from(ds.spec.min_ready_seconds).unwrap_or(0);
        let becomes_available = (seconds > 0 && counters.ready != counters.available)
            .then(|| Duration::from_secs(seconds));
        let expires = self.control.consistency().expires_in(key);
        let next = [updated.next_deletion, becomes_available, expires];
        let next = next.into_iter().flatten().min();
        Ok(next.map_or(Requeue::Never, Requeue::After))
    }

    /// Writes `counters` if they differ from the status. After a failure, writes them to the live
    /// object, so that its other fields keep their live values.
    ///
    /// Upstream: `storeDaemonSetStatus`, which repeats once as well.
    async fn write_status(
        &self,
        key: &ObjectKey,
        ds: &DaemonSet,
        counters: Counters,
        observed: bool,
    ) -> Result<(), StatusError> {
        // The generation that this sync acted on, even if the live object has a newer one.
        let observed = observed.then_some(ds.meta.generation);
        if !counters.differ_from(&ds.status, observed) {
            return Ok(());
        }
        let put = async |ds: &DaemonSet| {
            let status = counters.onto(&ds.status, observed);
            let return_it = OnFailure::Return;
            write_status::<DaemonSet>(&self.client, &ds.meta, &ds.document, &status, return_it)
                .await
        };
        let answer = match put(ds).await {
            Err(StatusError::Request(error)) if !error.is_fenced() => {
                tracing::debug!(%error, "status update failed, retrying with the live object");
                put(&self.live(ds).await?).await?
            }
            first => first?,
        };
        let recorded = self.cache.wrote_answer(key, &answer);
        recorded.map_err(StatusError::Answer)
    }

    /// The DaemonSet as the API server has it now.
    async fn live(&self, ds: &DaemonSet) -> Result<DaemonSet, StatusError> {
        let answer = self.client.get(Target::of::<DaemonSet>(&ds.meta)).await;
        let answer = answer.map_err(StatusError::Request)?;
        let live = DaemonSet::decode(&answer).map_err(StatusError::Answer)?;
        if live.meta.uid != ds.meta.uid {
            return Err(StatusError::Replaced(live.meta.uid));
        }
        Ok(live)
    }

    /// Sends an Event about `ds`.
    fn event(&self, ds: &DaemonSet, (kind, reason, message): (EventType, &'static str, String)) {
        let about = ObjectReference::of(ds);
        self.recorder.event(about, kind, reason, message);
    }
}
