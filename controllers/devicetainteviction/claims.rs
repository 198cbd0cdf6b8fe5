//! When the pods of a claim, and a pod, have to leave their devices.
//!
//! The tolerations are those that the scheduler copied into the allocation. Their effect must be
//! `NoExecute`: as upstream, an empty effect tolerates nothing here.
//!
//! Upstream: `claimEvictionTime` and `podEvictionTime` in `device_taint_eviction.go`, and
//! `k8s.io/dynamic-resource-allocation/resourceclaim`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use steersman_objects::{
    AllocatedDevice, DeviceTaint, DeviceTaintRule, Object, ObjectKey, Pod, PodResourceClaim,
    ResourceClaim, ResourceSlice, Toleration,
};
use steersman_values::intern::Sym;

use super::pools::{Changed, PoolId, Pools};
use super::rules::{self, Effects, RuleRef};

/// An eviction that waits for its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Eviction {
    /// The time at which the first tolerance ends. A restart does not move it.
    ///
    /// It may be in the past: the taint is older than this process, or nothing tolerates it.
    pub(super) at: Timestamp,
    /// All taints that are not tolerated for ever.
    ///
    /// For logs, for the conditions of rules, and for the live reads of a new leader. The shortest of
    /// them alone sets `at`.
    pub(super) reasons: BTreeSet<Reason>,
}

/// A taint that evicts pods. Those of rules come first, as upstream.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reason {
    /// The taint of a DeviceTaintRule.
    Rule(RuleRef),
    /// A taint in a slice.
    Slice(SliceTaint),
}

/// A taint of one device in a slice.
///
/// Upstream: `sliceDeviceTaint`, which tells taints apart by their place in the slice. By key and
/// value, a slice that is written again changes no eviction.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SliceTaint {
    pub(super) pool: PoolId,
    pub(super) device: Sym,
    pub(super) key: Sym,
    pub(super) value: Sym,
}

/// For logs only.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(rule) => write!(f, "DeviceTaintRule {rule}"),
            Self::Slice(taint) => taint.fmt(f),
        }
    }
}

impl fmt::Display for SliceTaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            pool,
            device,
            key,
            value,
        } = self;
        write!(
            f,
            "{}/{}/{device} has {key}={value}",
            pool.driver, pool.name
        )
    }
}

impl Eviction {
    /// The pools with tainted devices in slices.
    pub(super) fn pools(&self) -> BTreeSet<&PoolId> {
        let pools = self.reasons.iter().filter_map(|reason| match reason {
            Reason::Slice(taint) => Some(&taint.pool),
            Reason::Rule(_) => None,
        });
        pools.collect()
    }

    /// The DeviceTaintRules among the reasons.
    pub(super) fn rules(&self) -> impl Iterator<Item = &RuleRef> {
        self.reasons.iter().filter_map(|reason| match reason {
            Reason::Rule(rule) => Some(rule),
            Reason::Slice(_) => None,
        })
    }

    /// The earlier time of both, for all reasons.
    ///
    /// Upstream: the merge in `podEvictionTime`.
    fn join(&self, other: &Self) -> Self {
        Self {
            at: self.at.min(other.at),
            reasons: self.reasons.union(&other.reasons).cloned().collect(),
        }
    }
}

/// The allocated claims, and the taints of devices.
#[derive(Debug, Default)]
pub(super) struct Devices {
    taints: Taints,
    /// Upstream: `allocatedClaims`. Only allocated claims use devices.
    claims: HashMap<ObjectKey, Allocated>,
    /// The feature gate `DRAWorkloadResourceClaims`: claims may belong to PodGroups.
    pod_groups: bool,
}

/// All taints that evict pods.
#[derive(Debug, Default)]
struct Taints {
    pools: Pools,
    /// The rules with the effect `NoExecute`, by name.
    ///
    /// Upstream: `evictingRules`. Rules of other effects cost nothing at an evaluation.
    rules: BTreeMap<Arc<str>, Arc<DeviceTaintRule>>,
}

/// A claim with devices.
#[derive(Debug)]
struct Allocated {
    claim: Arc<ResourceClaim>,
    /// `None` if its devices have no taint, or if it tolerates all of them for ever.
    eviction: Option<Arc<Eviction>>,
}

impl Devices {
    /// Without claims and slices. `pod_groups` is the feature gate `DRAWorkloadResourceClaims`.
    pub(super) fn new(pod_groups: bool) -> Self {
        Self {
            pod_groups,
            ..Self::default()
        }
    }

    /// The slices.
    pub(super) fn pools(&self) -> &Pools {
        &self.taints.pools
    }

    /// Takes over a slice as it was and as it is. Returns the claims with another eviction.
    ///
    /// Only claims with a device whose taints have changed are evaluated. Upstream:
    /// `handleSliceChange`. Most updates of slices change no taint.
    pub(super) fn slice_changed(
        &mut self,
        old: Option<&Arc<ResourceSlice>>,
        new: Option<&Arc<ResourceSlice>>,
        now: Timestamp,
    ) -> Vec<Arc<ResourceClaim>> {
        // A slice that was created again under its name may be of another pool.
        let is_moved = |old: &&Arc<ResourceSlice>| {
            new.is_none_or(|new| {
                (&old.spec.driver, &old.spec.pool.name) != (&new.spec.driver, &new.spec.pool.name)
            })
        };
        let pools = &mut self.taints.pools;
        let removed = old.filter(is_moved).map(|old| pools.remove(old));
        let set = new.map(|new| pools.set(new));
        let changes = removed.into_iter().chain(set);
        let changes: Vec<Changed> = changes.filter(|change| !change.is_empty()).collect();
        if changes.is_empty() {
            return Vec::new();
        }
        let includes = |device: &_| changes.iter().any(|change| change.includes(device));
        self.update_claims(now, |claim| devices(claim).iter().any(includes))
    }

    /// Takes over a rule as it was and as it is. Returns the claims with another eviction.
    ///
    /// Upstream: `handleRuleChange`, which evaluates all claims. The rule as it was counts as well: its
    /// end frees claims.
    pub(super) fn rule_changed(
        &mut self,
        old: Option<&Arc<DeviceTaintRule>>,
        new: Option<&Arc<DeviceTaintRule>>,
        now: Timestamp,
    ) -> Vec<Arc<ResourceClaim>> {
        let rules = &mut self.taints.rules;
        if let Some(old) = old {
            rules.remove(&old.meta.name);
        }
        if let Some(new) = new.filter(|new| rules::evicts(new)) {
            rules.insert(Arc::clone(&new.meta.name), Arc::clone(new));
        }
        let is_selected = |claim: &ResourceClaim| {
            let mut both = old.into_iter().chain(new);
            both.any(|rule| uses_device_of(claim, rule))
        };
        self.update_claims(now, is_selected)
    }

    /// Evaluates those claims again to which `concerns` applies. Returns the claims with another
    /// eviction.
    fn update_claims(
        &mut self,
        now: Timestamp,
        concerns: impl Fn(&ResourceClaim) -> bool,
    ) -> Vec<Arc<ResourceClaim>> {
        let mut changed = Vec::new();
        for Allocated { claim, eviction } in self.claims.values_mut() {
            if !concerns(claim) {
                continue;
            }
            let updated = of_claim(claim, &self.taints, now);
            if *eviction != updated {
                *eviction = updated;
                changed.push(Arc::clone(claim));
            }
        }
        changed
    }

    /// Takes over a claim as it was and as it is. Returns its versions whose pods may be concerned.
    ///
    /// Upstream: `handleClaimChange`. Both versions are returned if the consumers differ: a pod that
    /// left the list may stay now, and one that joined may have to go.
    pub(super) fn claim_changed(
        &mut self,
        old: Option<&Arc<ResourceClaim>>,
        new: Option<&Arc<ResourceClaim>>,
        now: Timestamp,
    ) -> Vec<Arc<ResourceClaim>> {
        let is_allocated = |claim: &&Arc<ResourceClaim>| claim.status.allocation.is_some();
        let is_gone = old.filter(is_allocated).is_some() && new.filter(is_allocated).is_none();
        if let Some(old) = old.filter(|_| is_gone) {
            self.claims.remove(&old.key());
        }
        if let Some(new) = new.filter(is_allocated) {
            // An allocation is immutable, so its eviction stays. After a gap of the watch, the claim
            // may have another one. Upstream keeps the deadline of the old devices then.
            let same = |known: &&Allocated| known.claim.status.allocation == new.status.allocation;
            let eviction = match self.claims.get(&new.key()).filter(same) {
                Some(known) => known.eviction.clone(),
                None => of_claim(new, &self.taints, now),
            };
            let claim = Arc::clone(new);
            self.claims.insert(new.key(), Allocated { claim, eviction });
        } else if !is_gone {
            return Vec::new();
        }
        let same_consumers = |old: &&Arc<ResourceClaim>| match new {
            Some(new) => old.status.reserved_for == new.status.reserved_for,
            None => false,
        };
        let old = old.filter(|old| !same_consumers(old));
        old.into_iter().chain(new).cloned().collect()
    }

    /// The eviction of `pod`, if it has to leave one of its devices. Phase and deletion of the pod
    /// have no influence.
    ///
    /// Upstream: `podEvictionTime`. A finished pod soon loses its reservations, and its eviction with
    /// them.
    pub(super) fn eviction_of(&self, pod: &Pod) -> Option<Arc<Eviction>> {
        let of_claims = self.used_by(pod);
        of_claims.filter_map(|of| of.eviction.as_ref()).fold(
            None,
            |joined: Option<Arc<Eviction>>, eviction| match joined {
                None => Some(Arc::clone(eviction)),
                // Claims with equal evictions share one, which is the usual case of a rule.
                Some(joined) if joined == *eviction => Some(joined),
                Some(joined) => Some(Arc::new(joined.join(eviction))),
            },
        )
    }

    /// The allocated claims that a bound pod uses.
    ///
    /// A pod without a node runs nowhere. A claim counts only if it is reserved for the pod: its
    /// namesake may have used it before.
    fn used_by<'a>(&'a self, pod: &'a Pod) -> impl Iterator<Item = &'a Allocated> {
        let references = pod.spec.resource_claims.iter();
        let references = references.filter(|_| pod.node.is_some());
        references.filter_map(|reference| {
            let allocated = self.claims.get(&claim_of(pod, reference)?)?;
            let claim = &allocated.claim;
            // A claim from a template has an owner: the pod, or its PodGroup.
            let is_own =
                reference.resource_claim_name.is_some() || claim.is_for_pod(pod, self.pod_groups);
            (is_own && claim.is_reserved_for_pod(pod, self.pod_groups)).then_some(allocated)
        })
    }

    /// The effects of `rule` as if it evicted pods. `pods` are all pods of the cache.
    ///
    /// Upstream simulates the rule in a copy of its controller. Here the same functions run over the
    /// present state.
    pub(super) fn effects_of<'a>(
        &self,
        rule: &DeviceTaintRule,
        pods: impl Iterator<Item = &'a Pod>,
        now: Timestamp,
    ) -> Effects {
        let evicts = |allocated: &Allocated| {
            let claim = &allocated.claim;
            let mut selected = selected(claim, rule);
            selected.any(|device| {
                tolerated_until(&rules::taint(rule), &device.tolerations, now).is_some()
            })
        };
        // A terminating pod leaves its devices anyway. Upstream: `countPendingPods`.
        let has_to_leave = |pod: &&Pod| !pod.meta.is_terminating() && self.used_by(pod).any(evicts);
        let pods: Vec<&Pod> = pods.filter(has_to_leave).collect();
        let namespaces: BTreeSet<&str> = pods.iter().map(|pod| &*pod.meta.namespace).collect();
        let claims = self.claims.values();
        // Reserved or not: the condition tells about devices.
        let allocated = claims.map(|allocated| selected(&allocated.claim, rule).count());
        Effects {
            published: self.taints.pools.count_selected(rule),
            allocated: allocated.sum(),
            pods: pods.len(),
            namespaces: namespaces.len(),
            evicted: 0,
        }
    }

    /// The evictions of all allocated claims.
    #[cfg(test)]
    pub(super) fn evictions(&self) -> Vec<(String, Option<Eviction>)> {
        let claims = self
            .claims
            .iter()
            .map(|(key, allocated)| (key.to_string(), allocated.eviction.as_deref().cloned()));
        claims.collect()
    }
}

/// The key of a pod's claim. `None` if the claim does not exist yet, or if the pod needs none.
///
/// Upstream: `resourceclaim.Name`. A claim with an unknown source counts as absent, and so as not
/// tainted.
pub(super) fn claim_of(pod: &Pod, reference: &PodResourceClaim) -> Option<ObjectKey> {
    let name = pod.claim_name(reference).known()?;
    Some(ObjectKey::new(&pod.meta.namespace, name))
}

/// Empty for a claim without an allocation.
fn devices(claim: &ResourceClaim) -> &[AllocatedDevice] {
    let allocation = claim.status.allocation.as_ref();
    allocation.map_or(&[], |allocation| &allocation.devices.results)
}

/// The devices of `claim` that `rule` selects.
fn selected<'a>(
    claim: &'a ResourceClaim,
    rule: &DeviceTaintRule,
) -> impl Iterator<Item = &'a AllocatedDevice> {
    devices(claim)
        .iter()
        .filter(|device| rules::selects_allocated(rule, device))
}

fn uses_device_of(claim: &ResourceClaim, rule: &DeviceTaintRule) -> bool {
    selected(claim, rule).next().is_some()
}

/// The eviction of the pods of an allocated claim.
///
/// Upstream: `claimEvictionTime`. All taints are reasons, also those with a later time: if the first
/// one goes, the others still count at the next change.
fn of_claim(claim: &ResourceClaim, taints: &Taints, now: Timestamp) -> Option<Arc<Eviction>> {
    let mut eviction: Option<Eviction> = None;
    for device in devices(claim) {
        for (taint, reason) in taints.of(device) {
            let Some(at) = tolerated_until(&taint, &device.tolerations, now) else {
                continue;
            };
            let reasons = BTreeSet::from([reason]);
            let one = Eviction { at, reasons };
            eviction = Some(eviction.map_or(one.clone(), |others| others.join(&one)));
        }
    }
    eviction.map(Arc::new)
}

/// Upstream: `allEvictingDeviceTaints`.
impl Taints {
    /// The taints of an allocated device, from its slice and from rules. A rule also taints devices
    /// that no slice shows.
    fn of(&self, device: &AllocatedDevice) -> Vec<(DeviceTaint, Reason)> {
        let of_slice = self.pools.taints(device).iter().map(|taint| {
            let reason = Reason::Slice(SliceTaint {
                pool: PoolId::of(device),
                device: device.device.clone(),
                key: taint.key.clone(),
                value: taint.value.clone(),
            });
            (taint.clone(), reason)
        });
        let selecting = self.rules.values();
        let selecting = selecting.filter(|rule| rules::selects_allocated(rule, device));
        let of_rules = selecting.map(|rule| (rules::taint(rule), Reason::Rule(RuleRef::of(rule))));
        of_slice.chain(of_rules).collect()
    }
}

/// The end of the tolerance of `taint`; `None` if it is tolerated for ever. The shortest of all
/// matching tolerations counts, unless one of them has no limit.
fn tolerated_until(
    taint: &DeviceTaint,
    tolerations: &[Toleration],
    now: Timestamp,
) -> Option<Timestamp> {
    // API servers set the time. Upstream crashes without it.
    // The deadline starts with the taint and not with its event, so a restart moves nothing.
    let added = taint.time_added.unwrap_or(now);
    let mut shortest: Option<i64> = None;
    for toleration in tolerations.iter().filter(|one| tolerates(one, taint)) {
        // Negative seconds are zero, as upstream. Without seconds, the whole taint is tolerated.
        let seconds = toleration.toleration_seconds?.max(0);
        shortest = Some(shortest.map_or(seconds, |known| known.min(seconds)));
    }
    let tolerance = SignedDuration::from_secs(shortest.unwrap_or(0));
    // A deadline beyond all times never comes.
    Some(added.checked_add(tolerance).unwrap_or(Timestamp::MAX))
}

/// Upstream: `ToleratesTaint`, and the check of the effect before it. An unknown operator tolerates
/// nothing.
fn tolerates(toleration: &Toleration, taint: &DeviceTaint) -> bool {
    let is_of_key = toleration.key.is_empty() || toleration.key == taint.key;
    let is_of_value = match &*toleration.operator {
        "Exists" => true,
        "" | "Equal" => toleration.value == taint.value,
        _ => false,
    };
    toleration.effect == *"NoExecute" && is_of_key && is_of_value
}
