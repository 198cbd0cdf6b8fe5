//! The decisions of one sync about the pods of a set.
//!
//! The first loop goes through the slots in ascending order. The second one corrects the claims of
//! condemned pods, and the third one deletes these pods. [`Plan::loops`] decides their [`Turn`]s.
//! Ordered sets stop at the first turn that has to wait; parallel ones take all turns.
//! [`Plan::outdated`] then chooses the pods that a rolling update replaces.
//!
//! Upstream: `processReplica`, `processCondemned` and `updateStatefulSet` in
//! `stateful_set_control.go`.
//!
//! The plan sends nothing, and knows only the name of the update revision.

use std::sync::Arc;

use jiff::Timestamp;
use steersman_objects::{
    PersistentVolumeClaim, Phase, Pod, PodManagement, StatefulSet, UpdateStrategy,
};

use super::claims;
use super::identity::{identity_matches, ordinal, storage_matches};
use super::retention::{Owners, PodIdentity};
use super::slots::{Side, Slot, Slots, is_unavailable};
use super::status::{is_running_and_ready, revision};

/// Finds a cached claim of the set's namespace by name. It reads the cache; `explain.rs` gives one over
/// served objects.
pub(super) type Claims<'a> = dyn Fn(&str) -> Option<Arc<PersistentVolumeClaim>> + Send + Sync + 'a;

/// A write that the sync sends. Each carries its pod, so that `sync.rs` needs no further look-up.
#[derive(Debug, Clone)]
pub(super) enum Action {
    /// Deletes the pod. A pod that has ended is deleted too: its successor has the same name.
    Delete(Arc<Pod>),
    /// Creates the pod with this ordinal, and its claims before it. The revision follows from `Slots`.
    Create {
        /// The ordinal.
        ordinal: i64,
        /// The revision of its template.
        side: Side,
    },
    /// Creates missing claims of a pending pod, and corrects the owners of its claims. The scheduler may wait
    /// for these claims.
    ProvideClaims(Arc<Pod>),
    /// Corrects the owners of the claims of a pod. For condemned pods only: the claim must belong to the pod
    /// before the deletion, or it remains.
    OwnClaims(Arc<Pod>),
    /// Corrects identity, volumes and claims of a pod. It needs a PUT of the pod, and perhaps of claims.
    Repair(Arc<Pod>),
}

/// The actions for one pod, in order. Upstream returns `shouldExit` and writes in between.
#[derive(Debug, Default)]
pub(super) struct Turn {
    pub(super) actions: Vec<Action>,
    /// Whether an ordered set has to wait after this turn. Parallel sets ignore it.
    pub(super) wait: bool,
}

impl Turn {
    fn next(actions: impl IntoIterator<Item = Action>) -> Self {
        Self {
            actions: actions.into_iter().collect(),
            wait: false,
        }
    }

    fn wait(actions: impl IntoIterator<Item = Action>) -> Self {
        Self {
            wait: true,
            ..Self::next(actions)
        }
    }
}

/// The limit of unavailable pods of a rolling update, with the gate `MaxUnavailableStatefulSet`. Without the
/// gate, one pod at a time is replaced, and an unavailable one stops the update.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit {
    /// The value of `maxUnavailable`, at least 1.
    pub(super) max_unavailable: i64,
    /// Whether a parallel set replaces unavailable pods beyond the limit. Before 1.37, such pods could hold a
    /// rolling update for ever.
    pub(super) spares_unavailable: bool,
}

/// The state that the decisions of one sync are about. It lasts for one sync. `explain.rs` builds one from
/// served objects.
pub(super) struct Plan<'a> {
    pub(super) set: &'a StatefulSet,
    pub(super) slots: &'a Slots<'a>,
    pub(super) claims: &'a Claims<'a>,
    /// Name of the update revision. Pods with another label value are outdated.
    pub(super) update_revision: &'a str,
    /// Seconds after which a ready pod is available to updates and scale-downs. 1.33 does not wait.
    pub(super) seconds_to_available: i32,
    pub(super) now: Timestamp,
}

impl Plan<'_> {
    /// Whether pods are created and deleted one at a time. Upstream: `allowsBurst`, negated. The policy is
    /// immutable.
    pub(super) fn is_ordered(&self) -> bool {
        self.set.spec.pod_management == PodManagement::OrderedReady
    }

    /// The loops of a sync, in order. Each turn is decided when the loop reaches it.
    ///
    /// Each returned loop starts only after the one before was taken to its end.
    pub(super) fn loops(&self) -> [Box<dyn Iterator<Item = Turn> + Send + '_>; 3] {
        // Decided before any write, as upstream: the first unavailable pod of the whole set.
        let seconds = self.seconds_to_available;
        let first_unavailable = self.slots.first_unavailable_condemned(seconds, self.now);
        let condemned = || self.slots.condemned.iter();
        [
            Box::new(self.slots.iter().map(|slot| self.slot(&slot))),
            Box::new(condemned().map(|pod| self.condemned_claims(pod))),
            Box::new(condemned().map(move |pod| self.condemned(pod, first_unavailable))),
        ]
    }

    /// The turn of a slot: creates, replaces or repairs its pod. Upstream: `processReplica`. The order of its
    /// checks is kept: an ended pod, a missing pod, claims, readiness, form.
    fn slot(&self, slot: &Slot) -> Turn {
        let pod = match slot {
            Slot::Pod(pod) => pod,
            // The claim of an earlier pod is on its way out. A new pod must not mount it.
            Slot::Empty { ordinal, .. } if self.has_stale_claim(*ordinal) => {
                return Turn::wait(None);
            }
            Slot::Empty { ordinal, side } => {
                let ordinal = *ordinal;
                let side = *side;
                return Turn::wait([Action::Create { ordinal, side }]);
            }
        };
        // Also for a succeeded pod: the exit code of an evicted pod decides its phase.
        if pod.is_finished() {
            let delete = (!pod.meta.is_terminating()).then(|| Action::Delete(Arc::clone(pod)));
            return Turn::wait(delete);
        }
        let mut actions = Vec::new();
        if pod.phase == Phase::Pending && self.lacks_claims(pod) {
            // An ordered set waits for this pod all the same: without its claims it never becomes ready.
            actions.push(Action::ProvideClaims(Arc::clone(pod)));
        }
        // A terminating pod that is still ready stops an ordered set, too.
        let is_settled = !pod.meta.is_terminating() && is_running_and_ready(pod);
        if self.is_ordered() && !(is_settled && self.is_available(pod)) {
            return Turn::wait(actions);
        }
        // `ProvideClaims` corrects the owners already, and the cache shows it only later.
        let has_right_owners = !actions.is_empty() || self.has_right_owners(pod);
        if !(self.has_right_form(pod) && has_right_owners) {
            actions.push(Action::Repair(Arc::clone(pod)));
        }
        Turn::next(actions)
    }

    /// The turn of a condemned pod for the owners of its claims. Upstream: `fixPodClaim` in
    /// `updateStatefulSet`.
    fn condemned_claims(&self, pod: &Arc<Pod>) -> Turn {
        Turn::next((!self.has_right_owners(pod)).then(|| Action::OwnClaims(Arc::clone(pod))))
    }

    /// The turn of a condemned pod for its deletion. `first_unavailable` is the unavailable pod
    /// that an ordered set may delete, although others wait for it.
    ///
    /// Upstream: `processCondemned`. An ordered set deletes the next pod only while all others are available,
    /// except for the one that is broken itself.
    fn condemned(&self, pod: &Arc<Pod>, first_unavailable: Option<&Arc<Pod>>) -> Turn {
        // The next sync comes with the event of its end.
        if pod.meta.is_terminating() {
            return Turn::wait(None);
        }
        let is_first = first_unavailable.is_some_and(|first| Arc::ptr_eq(first, pod));
        let is_healthy = is_running_and_ready(pod) && self.is_available(pod);
        if self.is_ordered() && !is_healthy && !is_first {
            return Turn::wait(None);
        }
        Turn::wait([Action::Delete(Arc::clone(pod))])
    }

    /// The pods that a rolling update deletes now, highest ordinal first. Their successors have the
    /// update revision. `limit` is `None` while its gate is off.
    ///
    /// Upstream: the end of `updateStatefulSet`, and `updateStatefulSetAfterInvariantEstablished` with the
    /// gate. Pods below the partition stay in any case.
    pub(super) fn outdated(&self, limit: Option<Limit>) -> Vec<Arc<Pod>> {
        let partition = match &self.set.spec.update_strategy {
            UpdateStrategy::OnDelete => return Vec::new(),
            UpdateStrategy::RollingUpdate { partition, .. }
            | UpdateStrategy::Other { partition } => partition.unwrap_or(0),
            // Releases without this strategy take it for a rolling update.
            UpdateStrategy::Recreate => 0,
        };
        let is_outdated =
            |pod: &Pod| revision(pod) != self.update_revision && !pod.meta.is_terminating();
        // One pod per sync: its successor must be available before the next one goes.
        let Some(limit) = limit else {
            for slot in self.slots.down_to(partition) {
                if let Some(pod) = slot.pod().filter(|pod| is_outdated(pod)) {
                    return vec![Arc::clone(pod)];
                }
                if slot.is_unavailable(self.seconds_to_available, self.now) {
                    break;
                }
            }
            return Vec::new();
        };
        // Pods that are down already use up the limit, also those below the partition.
        let budget = limit.max_unavailable - self.unavailable();
        let budget = usize::try_from(budget).unwrap_or(0);
        // Only slots with pods count, and an absurd number of slots must not be searched.
        let mut pods: Vec<_> = self.slots.occupied().collect();
        pods.reverse();
        let first = i64::from(self.set.spec.start_ordinal) + i64::from(partition);
        pods.retain(|pod| ordinal(&pod.meta.name).is_some_and(|n| n >= first) && is_outdated(pod));
        let (available, unavailable): (Vec<_>, Vec<_>) =
            if self.is_ordered() || !limit.spares_unavailable {
                (pods, Vec::new())
            } else {
                pods.into_iter().partition(|pod| self.is_available(pod))
            };
        let chosen = unavailable
            .into_iter()
            .chain(available.into_iter().take(budget));
        chosen.cloned().collect()
    }

    /// The pods that have to be gone before the strategy `Recreate` creates a new one, terminating ones included.
    /// Surplus pods count, too. Upstream: `recreateDeleteAndWait`.
    pub(super) fn old(&self) -> Vec<Arc<Pod>> {
        let is_old = |pod: &&Arc<Pod>| revision(pod) != self.update_revision;
        self.slots.pods().filter(is_old).cloned().collect()
    }

    /// The number of slots without an available pod. A missing pod counts, and a condemned one does not.
    pub(super) fn unavailable(&self) -> i64 {
        let seconds = self.seconds_to_available;
        let is_available = |pod: &&Arc<Pod>| !is_unavailable(pod, seconds, self.now);
        let available = self.slots.occupied().filter(is_available);
        self.slots.len() - i64::try_from(available.count()).unwrap_or(i64::MAX)
    }

    /// Whether a claim of `pod` is missing or terminating, or has wrong owners. A needless `ProvideClaims` is
    /// cheap, and it reports an unexpected controller again, as upstream.
    fn lacks_claims(&self, pod: &Pod) -> bool {
        let owners = Owners::new(self.set, PodIdentity::of(pod));
        self.claims_of(&pod.meta.name).any(|claim| match claim {
            None => true,
            Some(claim) => {
                claim.meta.is_terminating()
                    || !owners.are_right(&claim)
                    || owners.has_unexpected_controller(&claim)
            }
        })
    }

    /// Whether identity and volumes of `pod` are right. Revisions do not count here: `outdated` replaces a
    /// pod of an old one.
    fn has_right_form(&self, pod: &Pod) -> bool {
        identity_matches(self.set, pod) && storage_matches(self.set, pod)
    }

    /// Whether all existing claims of `pod` have the right owners. Missing claims are right: they get their
    /// owners when they are created.
    pub(super) fn has_right_owners(&self, pod: &Pod) -> bool {
        let owners = Owners::new(self.set, PodIdentity::of(pod));
        self.claims_of(&pod.meta.name)
            .flatten()
            .all(|claim| owners.are_right(&claim))
    }

    /// Whether a claim of an earlier pod with this ordinal remains. Upstream: `PodClaimIsStale`. Only
    /// `whenScaled: Delete` has such claims.
    pub(super) fn has_stale_claim(&self, ordinal: i64) -> bool {
        let name = super::identity::pod_name(&self.set.meta.name, ordinal);
        let owners = Owners::new(self.set, PodIdentity::new(&name));
        self.claims_of(&name)
            .flatten()
            .any(|claim| owners.is_stale(&claim))
    }

    /// The claims of the pod `pod`, in the order of the templates.
    fn claims_of(
        &self,
        pod: &str,
    ) -> impl Iterator<Item = Option<Arc<PersistentVolumeClaim>>> + '_ {
        let names = ordinal(pod).map(|ordinal| claims::names(self.set, ordinal));
        names.into_iter().flatten().map(|name| (self.claims)(&name))
    }

    fn is_available(&self, pod: &Pod) -> bool {
        pod.is_available(self.set.spec.min_ready_seconds, self.now)
    }
}

#[cfg(test)]
mod tests;
