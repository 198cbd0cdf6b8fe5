//! The changes of pods, claims and slices, and the evictions that follow from them.
//!
//! slice, rule or claim -> [`Devices`] -> claims with another eviction -> their pods -> [`Evictions`]
//!
//! Upstream: `handlePodChange`, `handlePods` and `handlePod` in `device_taint_eviction.go`.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use steersman_objects::{ClaimConsumer, DeviceTaintRule, ObjectKey, Pod, ResourceClaim, Uid};
use steersman_runtime::informer::{Index, Store};
use steersman_values::intern::Sym;

use super::claims::Devices;
use super::evictions::{Effect, Evictions, PodRef};
use super::patches::Patches;
use super::rules::{Effects, RuleRef};

/// The pods in the cache.
pub(super) struct Pods {
    pub(super) store: Store<Pod>,
    /// Pods by namespace and PodGroup. Only with the feature gate `DRAWorkloadResourceClaims`.
    by_group: Option<Index<Pod>>,
}

impl Pods {
    /// Reads from `store`. `pod_groups` is the feature gate `DRAWorkloadResourceClaims`.
    pub(super) fn new(store: Store<Pod>, pod_groups: bool) -> Self {
        let by_group = pod_groups.then(|| store.add_index("podGroupPerPod", group_of));
        Self { store, by_group }
    }

    /// The pods to which `claim` is reserved.
    ///
    /// Upstream: the loop of `handlePods`. A consumer with another UID is a former pod of the name.
    /// PodGroups count only with the feature gate, since their reservations outlive it.
    fn of(&self, claim: &ResourceClaim) -> Vec<Arc<Pod>> {
        let of_consumer = |consumer: &ClaimConsumer| -> Vec<Arc<Pod>> {
            if consumer.is_pod_group() {
                let group = group_key(&claim.meta.namespace, &consumer.name);
                return self
                    .by_group
                    .as_ref()
                    .map_or(Vec::new(), |pods| pods.get(&group));
            }
            if !consumer.is_pod() {
                return Vec::new();
            }
            let pod = self
                .store
                .get(&ObjectKey::new(&claim.meta.namespace, &consumer.name));
            pod.into_iter()
                .filter(|pod| consumer.uid.as_ref() == Some(&pod.meta.uid))
                .collect()
        };
        claim
            .status
            .reserved_for
            .iter()
            .flat_map(of_consumer)
            .collect()
    }

    /// Whether the cache has exactly this pod.
    ///
    /// Another pod of the name does not count.
    pub(super) fn has(&self, pod: &PodRef) -> bool {
        self.store
            .get(&pod.key)
            .is_some_and(|cached| cached.meta.uid == pod.uid)
    }
}

/// The index key of a pod; none for a pod outside of PodGroups.
fn group_of(pod: &Pod) -> Vec<Sym> {
    let group = pod.spec.scheduling_group.pod_group_name.iter();
    group
        .map(|group| Sym::new(&group_key(&pod.meta.namespace, group)))
        .collect()
}

fn group_key(namespace: &str, group: &str) -> String {
    format!("{namespace}/{group}")
}

/// Claims, devices and evictions. A lock around it puts all changes in one order.
#[derive(Default)]
pub(super) struct Tracker {
    pub(super) devices: Devices,
    pub(super) evictions: Evictions,
    /// The rules as 1.33 and 1.34 apply them. Empty in later releases.
    pub(super) patches: Patches,
    /// The number of evicted pods by rule, since the start of this process.
    ///
    /// Upstream: `taintRuleStats`. By UID, so that a new rule of the name starts at zero.
    evicted: HashMap<Uid, u64>,
}

impl Tracker {
    /// Without objects. `pod_groups` is the feature gate `DRAWorkloadResourceClaims`.
    pub(super) fn new(pod_groups: bool) -> Self {
        Self {
            devices: Devices::new(pod_groups),
            ..Self::default()
        }
    }

    /// Takes over a rule as it was and as it is. Returns the claims with another eviction.
    pub(super) fn rule_changed(
        &mut self,
        old: Option<&Arc<DeviceTaintRule>>,
        new: Option<&Arc<DeviceTaintRule>>,
        now: Timestamp,
    ) -> Vec<Arc<ResourceClaim>> {
        if let Some(old) = old
            && new.is_none()
        {
            // The only place that forgets a count, so the map stays as small as the list of rules.
            self.evicted.remove(&old.meta.uid);
        }
        self.devices.rule_changed(old, new, now)
    }

    /// Counts a pod that was evicted because of a rule.
    pub(super) fn count_evicted(&mut self, rule: &RuleRef) {
        *self.evicted.entry(rule.uid.clone()).or_default() += 1;
    }

    /// The effects of `rule`, as if its effect were `NoExecute`. Upstream: `countPendingPods` and
    /// `countTaintedDevices`.
    pub(super) fn effects_of(
        &self,
        rule: &DeviceTaintRule,
        pods: &Pods,
        now: Timestamp,
    ) -> Effects {
        let pods = pods.store.list();
        let pods = pods.iter().map(|pod| &**pod);
        let evicted = self.evicted.get(&rule.meta.uid);
        Effects {
            evicted: evicted.copied().unwrap_or_default(),
            ..self.devices.effects_of(rule, pods, now)
        }
    }

    /// Takes over a pod as it was and as it is.
    ///
    /// Upstream: `handlePodChange`. Pods change often, and most changes concern neither node nor
    /// claims. In particular, the condition of its own eviction does not begin it again.
    pub(super) fn pod_changed(&mut self, old: Option<&Pod>, new: Option<&Pod>) -> Option<Effect> {
        match (old, new) {
            (Some(old), None) => {
                self.evictions.gone(&PodRef::of(old));
                None
            }
            (Some(old), Some(new)) if !is_relevant(old, new) => None,
            (_, Some(new)) => self.check(new),
            (None, None) => None,
        }
    }

    /// Checks the pods of `claims`.
    ///
    /// A pod with several of them is checked more than once, and later checks change nothing.
    pub(super) fn check_pods_of(
        &mut self,
        claims: &[Arc<ResourceClaim>],
        pods: &Pods,
    ) -> Vec<Effect> {
        let pods = claims.iter().flat_map(|claim| pods.of(claim));
        pods.filter_map(|pod| self.check(&pod)).collect()
    }

    /// Upstream: `handlePod`.
    fn check(&mut self, pod: &Pod) -> Option<Effect> {
        let eviction = self.devices.eviction_of(pod);
        self.evictions.update(PodRef::of(pod), eviction)
    }
}

/// Whether a change of a pod may change its eviction. The list of its claims is immutable. A pod
/// stops terminating only if the history went back.
fn is_relevant(old: &Pod, new: &Pod) -> bool {
    old.node != new.node
        || old.details().resource_claim_statuses != new.details().resource_claim_statuses
        || (old.meta.is_terminating() && !new.meta.is_terminating())
}
