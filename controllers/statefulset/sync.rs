//! One sync of one set: claim pods and revisions, find the update revision, act on the pods, write
//! the status, clean the history.
//!
//! adopt -> claim -> [`revisions`] -> [`Plan`] -> [`Writer`] -> [`status`] -> history
//!
//! The status is written even if an action failed. Upstream: `sync` in `stateful_set.go`,
//! `UpdateStatefulSet` and `updateStatefulSet` in `stateful_set_control.go`.
//!
//! `Work::confirm` stands before each write: a new leader compares its caches first. Most syncs write
//! nothing, and so they send no request at all.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use steersman_client::writes::{OnFailure, StatusError, write_status};
use steersman_client::{Aggregate, ApiClient, ApiError};
use steersman_helpers::history::{self, History, Proposal, Style};
use steersman_objects::{
    ControllerRevision, ObjectKey, PercentError, Pod, Selects, StatefulSet, StatefulSetStatus,
    UpdateStrategy, next_availability_check,
};
use steersman_options::features::{self, FeatureGates};
use steersman_releases::Release;
use steersman_runtime::consistency::{TrackedCache, confirmed};
use steersman_runtime::events::EventType;
use steersman_runtime::informer::Store;
use steersman_runtime::keyed::ObjectSyncer;
use steersman_runtime::owner::{self, ByController};
use steersman_runtime::workers::{Requeue, Retry};
use steersman_values::clock::Clock;
use steersman_values::labels::Selector;
use tokio::sync::OnceCell;

use super::batches::in_batches;
use super::error::{PodError, SyncError};
use super::identity::{self, is_member};
use super::invariants;
use super::metrics::StatefulSetMetrics;
use super::new_leader::CurrentCheck;
use super::plan::{Action, Limit, Plan, Turn};
use super::recreate::Step;
use super::retention::PodIdentity;
use super::revisions::{self, Found, KnownEqual};
use super::slots::{Side, Slots};
use super::status::{self, Names};
use super::writes::{Of, Writer};

/// Attempts to write a status that meets conflicts, and the pause between them. Upstream:
/// `retry.DefaultRetry`. Users may change the spec at the same time, so conflicts are normal.
const STATUS_ATTEMPTS: u32 = 5;
const STATUS_PAUSE: Duration = Duration::from_millis(10);

/// Syncs StatefulSets.
pub(super) struct StatefulSetController {
    pub(super) sets: Store<StatefulSet>,
    pub(super) pods: ByController<Pod>,
    pub(super) history: History,
    pub(super) known_equal: Arc<KnownEqual>,
    /// The cache of sets. Own writes are status updates.
    pub(super) sets_cache: TrackedCache,
    /// The cache of revisions. Own writes are creations, new numbers and adoptions.
    pub(super) revisions_cache: TrackedCache,
    pub(super) writer: Writer,
    pub(super) current: CurrentCheck,
    pub(super) client: ApiClient,
    pub(super) clock: Clock,
    pub(super) metrics: StatefulSetMetrics,
    pub(super) features: FeatureGates,
    pub(super) release: Release,
}

impl ObjectSyncer for StatefulSetController {
    type Object = StatefulSet;
    type Error = SyncError;

    async fn sync(&self, key: &ObjectKey, set: Arc<StatefulSet>) -> Result<Requeue, SyncError> {
        let selector = match set.selector() {
            Ok(selector) => selector,
            Err(error) => {
                tracing::error!(%error, "selector is malformed, nothing to sync until it changes");
                return Ok(Requeue::Never);
            }
        };
        match self.run(key, &set, selector).await {
            // The missing event enqueues the key, so this is no failure.
            Err(error) if error.is_stale() => Ok(Requeue::Never),
            outcome => outcome,
        }
    }

    fn retry(&self, error: &SyncError, request: Option<&ApiError>, _failures: u32) -> Retry {
        match error {
            // The new set of this name has a key in the queue already.
            SyncError::Status(StatusError::Replaced(_)) => Retry::Quietly,
            _ => Retry::after_request(request),
        }
    }
}

impl StatefulSetController {
    async fn run(
        &self,
        key: &ObjectKey,
        set: &Arc<StatefulSet>,
        selector: &Selector,
    ) -> Result<Requeue, SyncError> {
        let mut revisions = self.history.list::<StatefulSet>(&set.meta, selector);
        history::sort(&mut revisions);
        self.adopt_revisions(key, set, &revisions).await?;
        let pods = self.claim_pods(key, set, selector).await?;
        let work = Work {
            controller: self,
            of: Of { key, set },
            seen: set,
            selector,
            pods: &pods,
            revisions: &revisions,
            now: self.clock.now(),
            is_current: OnceCell::new(),
            has_old_claims: self.current.revisits_claims(Of { key, set }),
        };
        let (chosen, failure) = match work.choose_revisions().await {
            Ok(chosen) => (Some(chosen), None),
            Err(error) if error.is_stale() => return Err(error),
            Err(error) => (None, Some(error)),
        };
        let (reported, failure) = match &chosen {
            Some(chosen) => work.update(chosen).await,
            None => (Reported::default(), failure),
        };
        // Even after a failure the history is cut, as upstream.
        if let Some(error) = failure {
            if error.is_stale() {
                return Err(error);
            }
            let truncated = work.truncate(chosen.as_ref()).await.err();
            return SyncError::join(Some(error), truncated).map_or(Ok(Requeue::Never), Err);
        }
        work.truncate(chosen.as_ref()).await?;
        Ok(work.next_check(&reported))
    }

    /// Adopts the orphans among `revisions`, after one live read of the set.
    ///
    /// Upstream: `adoptOrphanRevisions`. One read serves all, since a deletion of the set concerns all alike.
    async fn adopt_revisions(
        &self,
        key: &ObjectKey,
        set: &StatefulSet,
        revisions: &[Arc<ControllerRevision>],
    ) -> Result<(), SyncError> {
        let is_orphan = |revision: &&Arc<ControllerRevision>| revision.meta.controller().is_none();
        let orphans: Vec<_> = revisions.iter().filter(is_orphan).collect();
        if orphans.is_empty() {
            return Ok(());
        }
        let checked = owner::check_live::<StatefulSet>(&self.client, &set.meta).await;
        checked.map_err(SyncError::Recheck)?;
        for orphan in orphans {
            let adopted = self.history.adopt::<StatefulSet>(&set.meta, orphan).await;
            let adopted = adopted.map_err(SyncError::Adopt)?;
            self.revisions_cache
                .wrote_at(key, adopted.meta.resource_version);
        }
        Ok(())
    }

    /// The pods of the set. A pod also needs a name of the set, or it is released.
    ///
    /// Upstream: `getPodsForStatefulSet`. Otherwise two sets with equal selectors would take each other's
    /// pods.
    async fn claim_pods(
        &self,
        key: &ObjectKey,
        set: &StatefulSet,
        selector: &Selector,
    ) -> Result<Vec<Arc<Pod>>, SyncError> {
        let candidates = self.pods.candidates::<StatefulSet>(&set.meta);
        let is_ours = |pod: &Pod| {
            selector.matches(&pod.meta.labels) && is_member(&set.meta.name, &pod.meta.name)
        };
        let claimed = owner::claim_where(&self.client, set, is_ours, candidates)
            .await
            .map_err(SyncError::Claim)?;
        for version in claimed.written {
            self.writer.pods_cache.wrote_at(key, version);
        }
        Ok(claimed.objects)
    }

    /// Whether all old pods of `set` end before a new one is created. An error if its gate is off.
    ///
    /// Upstream: `updateStatefulSet`, since kubernetes#137187.
    fn recreates(&self, of: Of<'_>) -> Result<bool, SyncError> {
        let gate = features::STATEFUL_SET_RECREATE_STRATEGY;
        if of.set.spec.update_strategy != UpdateStrategy::Recreate {
            return Ok(false);
        }
        let is_on = self.features.is_on(gate);
        if !is_on && self.release.refuses_recreation_of_stateful_sets() {
            let set = of.key.clone();
            let gate = gate.name;
            return Err(SyncError::Strategy { set, gate });
        }
        Ok(is_on)
    }

    /// Upstream: `isUnavailable` and, in 1.33, `isHealthy`.
    fn seconds_to_available(&self, set: &StatefulSet) -> i32 {
        if self.release.awaits_available_pods_of_stateful_sets() {
            set.spec.min_ready_seconds
        } else {
            0
        }
    }

    /// The pods that may be unavailable during a rolling update. `None` while the gate is off. The field is
    /// ignored while the gate is off, even if it is set.
    fn max_unavailable(&self, set: &StatefulSet) -> Result<Option<i64>, PercentError> {
        if !self.features.is_on(features::MAX_UNAVAILABLE_STATEFUL_SET) {
            return Ok(None);
        }
        max_unavailable(set).map(Some)
    }
}

/// `maxUnavailable` of `set` as a number of at least 1. Upstream: `getStatefulSetMaxUnavailable`.
///
/// A percentage is rounded down, and 0 becomes 1, so that an update always proceeds.
fn max_unavailable(set: &StatefulSet) -> Result<i64, PercentError> {
    let limit = match &set.spec.update_strategy {
        UpdateStrategy::RollingUpdate {
            max_unavailable: Some(limit),
            ..
        } => limit.of(set.spec.replicas, f64::floor)?,
        _ => 1,
    };
    Ok(i64::from(limit.max(1)))
}

/// The status of a sync. The default stands for a sync without a status.
#[derive(Debug, Default)]
struct Reported {
    /// Whether ready pods have yet to become available. They change by the clock alone, so no event comes.
    waits_for_availability: bool,
}

/// The revisions of a sync. Both are the same outside of a roll-out.
struct Chosen {
    /// From the status; the update revision if that one is gone.
    current: Arc<ControllerRevision>,
    /// Has the template of the set.
    update: Arc<ControllerRevision>,
    /// May have grown by a creation of this sync.
    collision_count: i32,
}

/// One sync.
struct Work<'a> {
    controller: &'a StatefulSetController,
    of: Of<'a>,
    seen: &'a Arc<StatefulSet>,
    selector: &'a Selector,
    /// The claimed pods.
    pods: &'a [Arc<Pod>],
    /// The listed revisions by number.
    revisions: &'a [Arc<ControllerRevision>],
    now: Timestamp,
    /// The answer of the live check, after the first write asked for it. One live check serves all writes of
    /// the sync.
    is_current: OnceCell<bool>,
    /// Whether the cache of claims was older than the leadership term when the sync began.
    has_old_claims: bool,
}

impl Work<'_> {
    /// Ends the sync before its first write if the caches lack writes of the previous leader. Each write
    /// calls it; only the first call of a new leader sends requests.
    async fn confirm(&self) -> Result<(), SyncError> {
        let current = &self.controller.current;
        let check = || current.holds(self.of, self.selector, self.pods, self.revisions);
        let checked = self.is_current.get_or_try_init(check).await;
        confirmed(checked.copied()).map_err(SyncError::Check)
    }

    /// Ends the sync before the creation or deletion of a pod if the cache lacked changes of its
    /// claims when the plan was made. A cache that has caught up since may change the plan.
    ///
    /// A claim that a former leader gave to a pod would decide otherwise.
    async fn confirm_claims(&self, plan: &Plan<'_>, action: &Action) -> Result<(), SyncError> {
        let Self { controller, of, .. } = *self;
        let current = &controller.current;
        let cached = plan.claims;
        let ordinal = match action {
            // Repairs write claims with their version, so a stale one meets a conflict.
            Action::Create { ordinal, .. } => Some(*ordinal),
            Action::Delete(pod) => identity::ordinal(&pod.meta.name),
            _ => None,
        };
        let Some(ordinal) = ordinal.filter(|_| self.has_old_claims) else {
            return Ok(());
        };
        let holds = current.claims_hold(of, ordinal, cached).await;
        confirmed(holds).map_err(SyncError::Check)?;
        let is_planned = match action {
            Action::Delete(pod) => plan.has_right_owners(pod),
            _ => !plan.has_stale_claim(ordinal),
        };
        // The cache has moved on since the plan, so no event may follow.
        if !is_planned {
            current.queue.add(of.key.clone());
        }
        confirmed(Ok(is_planned)).map_err(SyncError::Check)
    }

    /// Finds current and update revision. Creates or renumbers the update revision if needed.
    ///
    /// Upstream: `getStatefulSetRevisions`. The collision count is part of the name of a new revision, and
    /// the status keeps it.
    async fn choose_revisions(&self) -> Result<Chosen, SyncError> {
        let controller = self.controller;
        let Of { key, set } = self.of;
        let template = set.template();
        let mut collision_count = set.status.collision_count.unwrap_or(0);
        let proposal = Proposal::new::<StatefulSet>(
            Style::StatefulSet,
            &set.meta,
            &set.document,
            &template,
            Some(collision_count),
            history::next_number(self.revisions),
        );
        let gate = features::STATEFUL_SET_SEMANTIC_REVISION_COMPARISON;
        let by_meaning = controller.features.is_on(gate)
            || controller.release.always_compares_revisions_by_meaning();
        let restores = |newest: &ControllerRevision| {
            let compare = || proposal.restores(newest);
            let known = &controller.known_equal;
            // The gate costs a comparison only if the data differ.
            by_meaning && known.check(key, &set.meta, newest, compare)
        };
        let written = match revisions::find(self.revisions, &proposal, restores) {
            Found::Newest(newest) => {
                return Ok(self.chosen(newest, collision_count));
            }
            Found::Older(older) => {
                // A new number on a stale list could equal that of another revision.
                self.confirm().await?;
                let number = proposal.revision();
                tracing::debug!(
                    revision = &*older.meta.name,
                    number,
                    "Rolling back to an older revision"
                );
                controller.history.renumber(&older, number).await
            }
            Found::None => {
                self.confirm().await?;
                let namespace = &set.meta.namespace;
                controller
                    .history
                    .create(namespace, &proposal, &mut collision_count)
                    .await
            }
        };
        let update = written.map_err(SyncError::Revision)?;
        controller
            .revisions_cache
            .wrote_at(key, update.meta.resource_version);
        Ok(self.chosen(Arc::new(update), collision_count))
    }

    /// Without the revision of the status, the history begins with the update revision, as upstream.
    fn chosen(&self, update: Arc<ControllerRevision>, collision_count: i32) -> Chosen {
        let current = &self.of.set.status.current_revision;
        let mut listed = self.revisions.iter();
        let current = listed.find(|revision| *revision.meta.name == **current);
        Chosen {
            current: Arc::clone(current.unwrap_or(&update)),
            update,
            collision_count,
        }
    }

    /// Acts on the pods, and writes the status. Also returns the first failure.
    ///
    /// Upstream: `performUpdate` and `updateStatefulSet`. A terminating set only gets a status.
    async fn update(&self, chosen: &Chosen) -> (Reported, Option<SyncError>) {
        let controller = self.controller;
        let set = self.of.set;
        let recreates = match controller.recreates(self.of) {
            Ok(recreates) => recreates,
            Err(error) => {
                let writer = &controller.writer;
                let message = error.to_string();
                writer.event(self.of, EventType::Warning, "UnknownStrategy", message);
                return (Reported::default(), Some(error));
            }
        };
        let slots = Slots::new(set, self.pods);
        let claims = |name: &str| controller.writer.claim(self.of, name);
        let plan = Plan {
            set,
            slots: &slots,
            claims: &claims,
            update_revision: &chosen.update.meta.name,
            seconds_to_available: controller.seconds_to_available(set),
            now: self.now,
        };
        let names = Names {
            current: chosen.current.meta.name.to_string(),
            update: chosen.update.meta.name.to_string(),
            collision_count: chosen.collision_count,
        };
        let is_deleted = set.meta.is_terminating();
        let old = if recreates { plan.old() } else { Vec::new() };
        let has_old_pods = !old.is_empty();
        let (deleted, failure) = if is_deleted {
            (0, None)
        } else if has_old_pods {
            (0, self.delete_all(&plan, chosen, old).await)
        } else {
            self.act_on_pods(&plan, chosen, recreates).await
        };
        // A status of a stale cache would be wrong.
        if failure.as_ref().is_some_and(SyncError::is_stale) {
            return (Reported::default(), failure);
        }
        // All claimed pods, also those without an ordinal, as upstream before the loops.
        let mut status = if is_deleted {
            status::compute(set, &names, self.pods.iter(), self.now)
        } else {
            status::compute(set, &names, slots.pods(), self.now)
        };
        status::count_deleted(&mut status, deleted);
        status::complete(set, &mut status, controller.release);
        // As upstream, a failed deletion is no step.
        let tells = recreates && !is_deleted && !(has_old_pods && failure.is_some());
        let step = tells.then(|| Step::of(has_old_pods, set, &status));
        let error = self.write_status(&status, step.flatten()).await.err();
        // Only one error can be returned; the first one is the cause.
        if failure.is_some()
            && let Some(error) = &error
            && !error.is_fenced()
        {
            tracing::error!(%error, "Could not update status");
        }
        let reported = Reported {
            waits_for_availability: status.ready_replicas != status.available_replicas,
        };
        (reported, failure.or(error))
    }

    /// Takes the turns of all pods, and then the next step of a rolling update. Returns the number
    /// of pods that the rolling update deleted, and the first failure.
    ///
    /// Upstream: `updateStatefulSet` from the first loop on.
    async fn act_on_pods(
        &self,
        plan: &Plan<'_>,
        chosen: &Chosen,
        recreates: bool,
    ) -> (usize, Option<SyncError>) {
        for turns in plan.loops() {
            match self.take_turns(plan, chosen, turns).await {
                // An ordered set waits here, so no update follows.
                Ok(Flow::Wait) => return (0, None),
                Ok(Flow::Next) => {}
                Err(errors) => return (0, Some(SyncError::Pods(Aggregate(errors)))),
            }
        }
        if recreates {
            return (0, None);
        }
        let max_unavailable = match self.controller.max_unavailable(plan.set) {
            Ok(max_unavailable) => max_unavailable,
            Err(error) => return (0, Some(SyncError::MaxUnavailable(error))),
        };
        let is_rolling = plan.set.spec.update_strategy != UpdateStrategy::OnDelete;
        // Upstream sets the metric only on this way.
        if max_unavailable.is_some() && is_rolling {
            let count = plan.unavailable();
            self.controller.metrics.set_unavailable(plan.set, count);
        }
        let limit = max_unavailable.map(|max_unavailable| Limit {
            max_unavailable,
            spares_unavailable: self
                .controller
                .release
                .replaces_unavailable_pods_of_parallel_sets(),
        });
        let mut deleted = 0;
        for pod in plan.outdated(limit) {
            tracing::debug!(
                pod = &*pod.meta.name,
                "Pod of StatefulSet is terminating for update"
            );
            // After a failure the pods before it are counted, as upstream.
            if let Err(error) = self.act(plan, chosen, &Action::Delete(pod)).await {
                return (deleted, Some(SyncError::Pods(Aggregate(vec![error]))));
            }
            deleted += 1;
        }
        (deleted, None)
    }

    /// Deletes the `old` pods that are not terminating yet, in batches also for an ordered set. Returns the failure.
    ///
    /// Upstream: `recreateDeleteAndWait`. The next sync comes with the end of a pod.
    async fn delete_all(
        &self,
        plan: &Plan<'_>,
        chosen: &Chosen,
        mut old: Vec<Arc<Pod>>,
    ) -> Option<SyncError> {
        old.retain(|pod| !pod.meta.is_terminating());
        let delete = |pod| async move { self.act(plan, chosen, &Action::Delete(pod)).await };
        let deleted = in_batches(old.into_iter(), delete).await;
        let failures = deleted.err()?;
        Some(SyncError::Pods(Aggregate(failures)))
    }

    /// Takes the turns of a loop: in order until one has to wait, or all of them in batches.
    ///
    /// Upstream: `runForAll`.
    async fn take_turns(
        &self,
        plan: &Plan<'_>,
        chosen: &Chosen,
        turns: impl Iterator<Item = Turn>,
    ) -> Result<Flow, Vec<PodError>> {
        // A parallel set ignores `wait`: each pod has its own pace.
        if !plan.is_ordered() {
            let take = |Turn { actions, .. }| async move {
                for action in actions {
                    self.act(plan, chosen, &action).await?;
                }
                Ok(())
            };
            return in_batches(turns, take).await.map(|()| Flow::Next);
        }
        for Turn { actions, wait } in turns {
            for action in actions {
                let acted = self.act(plan, chosen, &action).await;
                acted.map_err(|error| vec![error])?;
            }
            if wait {
                return Ok(Flow::Wait);
            }
        }
        Ok(Flow::Next)
    }

    /// The checks precede all actions alike, so no write can forget them.
    async fn act(&self, plan: &Plan<'_>, chosen: &Chosen, action: &Action) -> Result<(), PodError> {
        let mut checked = self.confirm().await;
        if checked.is_ok() {
            checked = self.confirm_claims(plan, action).await;
        }
        checked.map_err(|error| PodError::Check(Box::new(error)))?;
        let writer = &self.controller.writer;
        let of = self.of;
        match action {
            Action::Delete(pod) => {
                let checked = invariants::may_be_deleted(plan.set, plan.update_revision, pod);
                writer.delete(of, pod, checked).await
            }
            Action::Create { ordinal, side } => {
                let revision = match side {
                    Side::Current => &chosen.current,
                    Side::Update => &chosen.update,
                };
                writer.create(of, *ordinal, revision).await
            }
            Action::ProvideClaims(pod) => writer.provide_claims(of, pod).await,
            Action::OwnClaims(pod) => writer.correct_owners(of, &PodIdentity::of(pod)).await,
            Action::Repair(pod) => writer.repair(of, pod).await,
        }
    }

    /// Writes `status` and the `step` of the update, if they differ from the cached ones. A conflict is repeated
    /// with the cached set of that time.
    ///
    /// Upstream: `updateStatefulSetStatus` and `UpdateStatefulSetStatus`.
    async fn write_status(
        &self,
        status: &StatefulSetStatus,
        step: Option<Step>,
    ) -> Result<(), SyncError> {
        let controller = self.controller;
        let Of { key, set } = self.of;
        // The metric is set before the comparison, as upstream: it does not depend on a write.
        let limit = controller.max_unavailable(set);
        if let Some(limit) = limit.map_err(SyncError::MaxUnavailable)? {
            controller.metrics.set_max_unavailable(set, limit);
        }
        let is_news = step.is_some_and(|step| !step.is_told_by(&set.status.conditions));
        if !is_news && !status::needs_write(&set.status, status) {
            return Ok(());
        }
        // Also before a status without any action: an older cache of pods would count too few.
        self.confirm().await?;
        let mut seen = Arc::clone(self.seen);
        let mut status = status.clone();
        let mut attempt = 1;
        loop {
            status::keep_conditions(&mut status, &seen.status, controller.release);
            if let Some(step) = step {
                step.tell(&mut status.conditions, self.now);
            }
            let meta = &seen.meta;
            let document = &seen.document;
            let client = &controller.client;
            let put =
                write_status::<StatefulSet>(client, meta, document, &status, OnFailure::Return);
            match put.await {
                Ok(answer) => {
                    let recorded = controller.sets_cache.wrote_answer(key, &answer);
                    recorded.map_err(|error| SyncError::Status(StatusError::Answer(error)))?;
                    return Ok(());
                }
                Err(StatusError::Request(error))
                    if error.is_conflict() && attempt < STATUS_ATTEMPTS =>
                {
                    tokio::time::sleep(STATUS_PAUSE).await;
                    // A newer set keeps this status, although its generation is newer: `observedGeneration`
                    // tells that.
                    seen = controller.sets.get(key).unwrap_or(seen);
                    if seen.meta.uid != set.meta.uid {
                        let replaced = StatusError::Replaced(seen.meta.uid.clone());
                        return Err(SyncError::Status(replaced));
                    }
                    attempt += 1;
                }
                Err(error) => return Err(SyncError::Status(error)),
            }
        }
    }

    /// Deletes unused revisions beyond the history limit. The revisions of pods are in use.
    ///
    /// Upstream: `truncateHistory`.
    async fn truncate(&self, chosen: Option<&Chosen>) -> Result<(), SyncError> {
        let chosen = chosen.into_iter().flat_map(|c| [&c.current, &c.update]);
        let chosen = chosen.map(|revision| &*revision.meta.name);
        let of_pods = self.pods.iter().map(|pod| status::revision(pod));
        let live: HashSet<&str> = chosen.chain(of_pods).collect();
        let limit = self.of.set.spec.revision_history_limit;
        for revision in revisions::surplus(self.revisions, &live, limit) {
            self.confirm().await?;
            let deleted = self.controller.history.delete(revision).await;
            deleted.map_err(SyncError::Truncate)?;
        }
        Ok(())
    }

    /// The time of the next sync: when the next ready pod becomes available.
    ///
    /// Upstream: the end of `syncStatefulSet`. The shortest rest of all ready pods counts.
    fn next_check(&self, reported: &Reported) -> Requeue {
        let seconds = self.of.set.spec.min_ready_seconds;
        let available = (seconds > 0 && reported.waits_for_availability).then(|| {
            let now = self.controller.clock.now();
            next_availability_check(self.pods, seconds, self.now, now)
        });
        available.map_or(Requeue::Never, Requeue::After)
    }
}

/// Whether the sync goes on after a loop. Ordered sets alone return `Wait`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Next,
    Wait,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::stateful_set;

    #[test]
    fn get_stateful_set_max_unavailable() {
        // (maxUnavailable, replicas, expected)
        let cases: [(Value, i32, Option<i64>); 11] = [
            (Value::Null, 10, Some(1)),
            (json!(3), 10, Some(3)),
            (json!(3), 0, Some(3)),
            (json!(0), 0, Some(1)),
            (json!("10%"), 25, Some(2)),
            (json!("100%"), 5, Some(5)),
            (json!("50%"), 5, Some(2)),
            (json!("10%"), 5, Some(1)),
            (json!("1%"), 0, Some(1)),
            (json!("0%"), 0, Some(1)),
            (json!("x"), 5, None),
        ];
        for (limit, replicas, expected) in cases {
            let rolling = json!({"partition": 0, "maxUnavailable": limit});
            let strategy = json!({"type": "RollingUpdate", "rollingUpdate": rolling});
            let set = stateful_set("web")
                .replicas(replicas)
                .update_strategy(strategy);
            assert_eq!(
                max_unavailable(&set.build()).ok(),
                expected,
                "{limit} of {replicas}"
            );
        }
    }
}
