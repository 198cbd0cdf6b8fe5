//! The eviction of one pod at its deadline, and the condition of one rule.
//!
//! live read of the pod -> Event -> condition `DisruptionTarget` -> deletion
//!
//! Upstream: `maybeDeletePod` and `addConditionAndDeletePod` in `device_taint_eviction.go`.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use steersman_client::live;
use steersman_client::{ApiError, Target};
use steersman_helpers::evictions::EvictError;
use steersman_objects::{
    DeviceClass, DeviceTaintRule, Identity, Object, ObjectKey, Pod, PublishedSlice, ResourceClaim,
    ResourceSlice,
};
use steersman_runtime::consistency::TrackedCache;
use steersman_runtime::workers::{Requeue, Syncer};
use steersman_values::clock::saturating_since;

use super::claims::{Devices, Eviction, claim_of};
use super::evictions::{Due, PodRef};
use super::patches::{Patches, class_of};
use super::rules::{self, RuleRef, Told};
use super::{NAME, Shared, Work};

/// The time until the next try while older caches show an eviction that live objects do not
/// confirm.
///
/// The caches catch up meanwhile, so few pods wait longer than once.
const UNCONFIRMED: Duration = Duration::from_secs(5);

impl Syncer<Work> for Shared {
    type Error = WorkError;

    async fn sync(&self, work: &Work) -> Result<Requeue, WorkError> {
        match work {
            Work::Evict(pod) => self.evict_if_due(pod).await.map_err(WorkError::Evict),
            Work::Report(rule) => self.report_rule(rule).await.map_err(WorkError::Report),
        }
    }
}

/// The work that failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum WorkError {
    /// The eviction of a pod.
    #[error("{0}")]
    Evict(#[source] EvictError),
    /// The condition of a rule.
    #[error("add condition to DeviceTaintRule status: {0}")]
    Report(#[source] ApiError),
}

impl Shared {
    /// Upstream: `maybeDeletePod`. Memory tells first whether the time has come. Then a live read shows
    /// whether the pod still exists. Further live reads confirm the taints if a cache may be old.
    async fn evict_if_due(&self, pod: &PodRef) -> Result<Requeue, EvictError> {
        let eviction = match self.due(pod) {
            Due::Never => return Ok(Requeue::Never),
            Due::After(delay) => return Ok(Requeue::After(delay)),
            Due::Now(eviction) => eviction,
        };
        // Another pod of the name is none, too. Nothing is counted, since this process evicted no pod.
        let Some(live) = self.evictor.live(&pod.key, &pod.uid).await? else {
            self.ended(pod);
            return Ok(Requeue::Never);
        };
        // A pod that terminates already counts as evicted, as upstream. It gets neither an Event nor a
        // condition.
        let is_terminating = live.meta.is_terminating();
        if !is_terminating && !self.is_confirmed(&live, &eviction).await? {
            return Ok(Requeue::After(UNCONFIRMED));
        }
        // The taint may be gone since the first look.
        let Due::Now(eviction) = self.due(pod) else {
            return Ok(Requeue::After(Duration::ZERO));
        };
        if is_terminating || self.evict(pod, &live).await? {
            self.count(pod, &eviction);
        }
        self.ended(pod);
        Ok(Requeue::Never)
    }

    /// The state of the eviction by now.
    fn due(&self, pod: &PodRef) -> Due {
        self.tracker().evictions.due(pod, self.clock.now())
    }

    /// Records that no further try is needed.
    fn ended(&self, pod: &PodRef) {
        // The cache drops a pod before its handlers are told, so no record can stay behind.
        let mut tracker = self.tracker();
        let is_cached = self.pods.has(pod);
        tracker.evictions.ended(pod, is_cached);
    }

    /// Marks and deletes the live pod. False if it was gone.
    ///
    /// The condition comes before the deletion: afterwards, the pod may be gone before it is written. A
    /// failure in between repeats both.
    async fn evict(&self, pod: &PodRef, live: &Pod) -> Result<bool, EvictError> {
        if self.tracker().evictions.announce(pod) {
            self.report(pod, "Marking for deletion");
        }
        self.evictor.mark(live).await?;
        self.evictor.delete(&live.meta).await
    }

    /// The latency runs from the deadline and not from the taint, in seconds.
    fn count(&self, pod: &PodRef, eviction: &Eviction) {
        let latency = saturating_since(self.clock.now(), eviction.at);
        let reasons: Vec<String> = eviction.reasons.iter().map(ToString::to_string).collect();
        let reasons = reasons.join(", ");
        tracing::info!(%pod, ?latency, reasons, "Evicted pod by deleting it");
        self.metrics.deletions.inc();
        self.metrics.duration.observe(latency.as_secs_f64());
        let mut tracker = self.tracker();
        // A rule that is gone has no count, which would stay for ever.
        let known = eviction.rules().filter(|rule| self.cached(rule).is_some());
        known.for_each(|rule| tracker.count_evicted(rule));
        drop(tracker);
        self.report_later(eviction.rules());
    }

    /// The cached rule, unless another one has its name now.
    fn cached(&self, rule: &RuleRef) -> Option<Arc<DeviceTaintRule>> {
        let rules = self.rules.as_ref()?;
        let cached = rules.store().get(&ObjectKey::new("", &rule.name))?;
        (cached.meta.uid == rule.uid).then_some(cached)
    }

    /// Updates the condition of a rule, unless it was updated a short time ago. Upstream:
    /// `maybeUpdateRuleStatus`.
    ///
    /// The pause is checked before pods are counted, because the count looks at all of them. So the end
    /// of an eviction shows after up to 10 s.
    async fn report_rule(&self, rule: &RuleRef) -> Result<Requeue, ApiError> {
        let again = Work::Report(rule.clone());
        let ready = self.consistency.ready_or_requeue(rule, &self.queue, again);
        let Some(cached) = self.cached(rule) else {
            self.consistency.clear(rule);
            return Ok(Requeue::Never);
        };
        if ready.is_err() {
            return Ok(Requeue::Never);
        }
        let now = self.clock.now();
        if let Some(wait) = rules::update_in(&cached, now) {
            return Ok(Requeue::After(wait));
        }
        let effects = self.tracker().effects_of(&cached, &self.pods, now);
        if let Some(told) = rules::condition(&cached, effects) {
            self.tell(&cached, told).await?;
        }
        Ok(Requeue::Never)
    }

    /// Writes the condition of a rule, if the rule has the UID of the cached one.
    ///
    /// A server-side apply of one condition leaves those of other clients alone.
    async fn tell(&self, rule: &DeviceTaintRule, told: Told) -> Result<(), ApiError> {
        let Told {
            status,
            reason,
            message,
        } = told;
        let condition = json!({
            "type": rules::IN_PROGRESS, "status": status, "reason": reason, "message": message,
            "observedGeneration": rule.meta.generation,
            "lastTransitionTime": self.clock.now_seconds(),
        });
        let configuration = json!({
            "apiVersion": DeviceTaintRule::RESOURCE.api_version(),
            "kind": DeviceTaintRule::RESOURCE.kind,
            "metadata": {"name": rule.meta.name, "uid": rule.meta.uid},
            "status": {"conditions": [condition]},
        });
        let target = Target::of::<DeviceTaintRule>(&rule.meta).status();
        let client = &self.evictor.client;
        let answer = client.apply(target, NAME, &configuration).await?;
        // An answer that cannot be read only costs a repeated update later.
        if let Some(written) = &self.rules_cache
            && let Ok(live) = Identity::decode(&answer)
        {
            written.wrote_at(&RuleRef::of(rule), live.resource_version);
        }
        Ok(())
    }

    /// Whether one of the caches may show a state that is over: that of the former leader, or that
    /// before an etcd restore.
    ///
    /// Upstream has no such check: an old cache may show a taint that a driver has removed, and the pod
    /// is lost.
    fn caches_are_doubtful(&self) -> bool {
        self.claims_cache.predates_term()
            || self.slices_cache.predates_term()
            || self
                .rules_cache
                .as_ref()
                .is_some_and(TrackedCache::predates_term)
            || self
                .of_tracker
                .as_ref()
                .is_some_and(|of_tracker| of_tracker.classes_cache.predates_term())
            || self.is_rewound.load(Ordering::Relaxed)
    }

    /// Whether the eviction rests on reliable caches, or is due by the live claims and slices as
    /// well.
    ///
    /// The live objects go through the same decisions as the cached ones. A failed read is an error, so
    /// the pod stays.
    async fn is_confirmed(&self, pod: &Pod, eviction: &Eviction) -> Result<bool, EvictError> {
        if !self.caches_are_doubtful() {
            return Ok(true);
        }
        let now = self.clock.now();
        let client = &self.evictor.client;
        let mut devices = Devices::new(self.pod_groups);
        for reference in &pod.spec.resource_claims {
            // The names come from the live pod, so a claim that it has got since counts as well.
            let Some(key) = claim_of(pod, reference) else {
                continue;
            };
            let claim = live::object::<ResourceClaim>(client, &key.namespace, &key.name).await;
            let claim = claim.map_err(EvictError::Read)?.map(Arc::new);
            devices.claim_changed(None, claim.as_ref(), now);
        }
        // Only the reasons of the eviction are read. Another taint has its own event and its own
        // eviction.
        for rule in eviction.rules() {
            let live = live::object::<DeviceTaintRule>(client, "", &rule.name).await;
            let live = live.map_err(EvictError::Read)?.map(Arc::new);
            devices.rule_changed(None, live.as_ref(), now);
        }
        let mut patches = self.live_patches().await?;
        for pool in eviction.pools() {
            // The slices of a node are few, and so are those without a node.
            let node = self.tracker().devices.pools().node(pool).cloned();
            let node = node.unwrap_or_default();
            let fields = format!("spec.driver={},spec.nodeName={node}", pool.driver);
            for slice in self.live_slices(&fields, patches.as_mut()).await? {
                devices.slice_changed(None, Some(&slice), now);
            }
        }
        Ok(devices.eviction_of(pod).is_some_and(|live| live.at <= now))
    }

    /// The live rules and the classes that they need, if rules taint slices.
    async fn live_patches(&self) -> Result<Option<Patches>, EvictError> {
        if self.of_tracker.is_none() {
            return Ok(None);
        }
        let client = &self.evictor.client;
        let mut patches = Patches::default();
        let rules = live::all::<DeviceTaintRule>(client).await;
        let rules = rules.map_err(EvictError::Read)?.objects;
        if rules.iter().any(|rule| class_of(rule).is_some()) {
            let classes = live::all::<DeviceClass>(client).await;
            for class in classes.map_err(EvictError::Read)?.objects {
                patches.class_changed(None, Some(&Arc::new(class)));
            }
        }
        for rule in rules {
            patches.rule_changed(None, Some(&Arc::new(rule)));
        }
        Ok(Some(patches))
    }

    /// The live slices that `fields` selects, with the taints of rules if they taint slices.
    async fn live_slices(
        &self,
        fields: &str,
        patches: Option<&mut Patches>,
    ) -> Result<Vec<Arc<ResourceSlice>>, EvictError> {
        let client = &self.evictor.client;
        let Some(patches) = patches else {
            let slices = live::with_fields::<ResourceSlice>(client, "", fields).await;
            let slices = slices.map_err(EvictError::Read)?.objects;
            return Ok(slices.into_iter().map(Arc::new).collect());
        };
        let slices = live::with_fields::<PublishedSlice>(client, "", fields).await;
        let slices = slices.map_err(EvictError::Read)?.objects.into_iter();
        let patched = slices.flat_map(|slice| {
            let changes = patches.slice_changed(None, Some(&Arc::new(slice)));
            changes.slices.into_iter().filter_map(|(_, new)| new)
        });
        Ok(patched.collect())
    }
}
