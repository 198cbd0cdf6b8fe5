//! The ReplicaSets of a Deployment: the new one has the Deployment's template, all others are old.
//!
//! Upstream: `FindNewReplicaSet` and `FindOldReplicaSets` in `deployment_util.go`.
//!
//! All functions of the controller take this view, so they agree about the new one within a sync.

use std::cmp::Ordering;
use std::sync::Arc;

use steersman_objects::{Deployment, ReplicaSet};

/// The ReplicaSets that a Deployment owns.
#[derive(Debug, Clone, Default)]
pub(super) struct ReplicaSets {
    /// The oldest ReplicaSet with the Deployment's template. Several may exist, for example after
    /// a cluster upgrade (kubernetes/kubernetes#40415). `None` before the first rollout of a template.
    pub(super) new: Option<Arc<ReplicaSet>>,
    /// All others, oldest first, including empty ones, terminating ones and further ones with the
    /// Deployment's template.
    pub(super) old: Vec<Arc<ReplicaSet>>,
}

impl ReplicaSets {
    /// Divides `claimed` into the new ReplicaSet of `d` and the old ones. The hash label is ignored, since
    /// the Deployment's template lacks it.
    pub(super) fn of(d: &Deployment, mut claimed: Vec<Arc<ReplicaSet>>) -> Self {
        claimed.sort_by(|a, b| by_age(a, b));
        let new = claimed
            .iter()
            .position(|rs| rs.spec.template.equal_ignoring_hash(&d.spec.template));
        let new = new.map(|at| claimed.remove(at));
        Self { new, old: claimed }
    }

    /// The old ReplicaSets, oldest first, then the new one.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<ReplicaSet>> {
        self.old.iter().chain(&self.new)
    }

    /// The active ReplicaSets, in the same order.
    pub(super) fn active(&self) -> impl Iterator<Item = &Arc<ReplicaSet>> {
        self.all().filter(|rs| is_active(rs))
    }

    /// The sum of all sizes (`spec.replicas`).
    pub(super) fn size(&self) -> i32 {
        sum(self.all(), |rs| rs.spec.replicas)
    }
}

/// Whether the size is above 0.
pub(super) fn is_active(rs: &ReplicaSet) -> bool {
    rs.spec.replicas > 0
}

/// Oldest first; by name if both were created in the same second. Upstream: `ReplicaSetsByCreationTimestamp`
/// in `controller_utils.go`.
pub(super) fn by_age(a: &ReplicaSet, b: &ReplicaSet) -> Ordering {
    (a.meta.created, &a.meta.name).cmp(&(b.meta.created, &b.meta.name))
}

/// The sum of `number` over all `sets`; it saturates. Upstream's sums overflow instead, with sizes that no
/// cluster has.
pub(super) fn sum<'a>(
    sets: impl IntoIterator<Item = &'a Arc<ReplicaSet>>,
    number: fn(&ReplicaSet) -> i32,
) -> i32 {
    sets.into_iter()
        .map(|rs| number(rs))
        .fold(0, i32::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{deployment, replica_set};

    #[test]
    fn test_find_new_and_old_replica_sets() {
        let d = deployment("nginx").build();
        let rs = |name: &str, image: &str, created: i64| {
            Arc::new(replica_set(name).image(image).created(created).build())
        };
        let now = 100;
        let later = 160;
        let before = 40;
        let new = || rs("new", "nginx", later);
        let duplicate = || rs("dup", "nginx", now);
        let old = || rs("old", "nginx-old-1", before);
        // (name, claimed, new, old)
        let cases = [
            (
                "Get new ReplicaSet with the same template",
                vec![new(), old()],
                Some("new"),
                vec!["old"],
            ),
            (
                "Get the oldest new ReplicaSet when there are more than one ReplicaSet with the same template",
                vec![new(), old(), duplicate()],
                Some("dup"),
                vec!["old", "new"],
            ),
            ("Get nil new ReplicaSet", vec![old()], None, vec!["old"]),
            (
                "Get empty old ReplicaSets",
                vec![new()],
                Some("new"),
                vec![],
            ),
            ("nothing", vec![], None, vec![]),
        ];
        for (name, claimed, expected_new, expected_old) in cases {
            let sets = ReplicaSets::of(&d, claimed);
            assert_eq!(
                sets.new.as_ref().map(|rs| &*rs.meta.name),
                expected_new,
                "{name}"
            );
            assert_eq!(
                sets.old.iter().map(|rs| &*rs.meta.name).collect::<Vec<_>>(),
                expected_old,
                "{name}"
            );
        }
    }

    #[test]
    fn replica_sets_of_the_same_second_are_ordered_by_name() {
        let rs = |name: &str, created: i64| replica_set(name).created(created).build();
        assert_eq!(by_age(&rs("b", 1), &rs("a", 1)), Ordering::Greater);
        assert_eq!(by_age(&rs("b", 1), &rs("a", 2)), Ordering::Less);
    }

    #[test]
    fn sums_saturate() {
        let sets = [
            Arc::new(replica_set("a").replicas(i32::MAX).build()),
            Arc::new(replica_set("b").replicas(1).build()),
        ];
        assert_eq!(sum(&sets, |rs| rs.spec.replicas), i32::MAX);
    }
}
