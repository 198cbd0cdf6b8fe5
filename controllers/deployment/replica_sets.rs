//! The ReplicaSets of a Deployment, told apart: the new one has the Deployment's template, all
//! others are old.

use std::cmp::Ordering;
use std::sync::Arc;

use steersman_runtime::object::{Deployment, ReplicaSet};

/// The ReplicaSets a Deployment owns.
#[derive(Debug, Clone, Default)]
pub(super) struct ReplicaSets {
    /// The oldest one whose template equals the Deployment's. After a cluster upgrade there may be
    /// several such.
    pub(super) new: Option<Arc<ReplicaSet>>,
    /// All others, oldest first: empty ones, terminating ones and further matching ones too.
    pub(super) old: Vec<Arc<ReplicaSet>>,
}

impl ReplicaSets {
    /// Tells `claimed` apart for `d`.
    pub(super) fn of(d: &Deployment, mut claimed: Vec<Arc<ReplicaSet>>) -> Self {
        claimed.sort_by(|a, b| by_age(a, b));
        let new = claimed
            .iter()
            .position(|rs| rs.spec.template.equal_ignoring_hash(&d.spec.template));
        let new = new.map(|at| claimed.remove(at));
        Self { new, old: claimed }
    }

    /// Old ones first, oldest first, then the new one.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<ReplicaSet>> {
        self.old.iter().chain(&self.new)
    }

    /// Those that want pods, in the same order.
    pub(super) fn active(&self) -> impl Iterator<Item = &Arc<ReplicaSet>> {
        self.all().filter(|rs| is_active(rs))
    }

    /// The pods all of them want.
    pub(super) fn size(&self) -> i32 {
        sum(self.all(), |rs| rs.spec.replicas)
    }
}

/// Whether it wants pods.
pub(super) fn is_active(rs: &ReplicaSet) -> bool {
    rs.spec.replicas > 0
}

/// Oldest first; what was created in the same second goes by name.
pub(super) fn by_age(a: &ReplicaSet, b: &ReplicaSet) -> Ordering {
    (a.meta.created, &a.meta.name).cmp(&(b.meta.created, &b.meta.name))
}

/// Adds up a number of each.
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
        let (now, later, before) = (100, 160, 40);
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
    fn those_of_one_second_go_by_name() {
        let rs = |name: &str, created: i64| replica_set(name).created(created).build();
        assert_eq!(by_age(&rs("b", 1), &rs("a", 1)), Ordering::Greater);
        assert_eq!(by_age(&rs("b", 1), &rs("a", 2)), Ordering::Less);
    }

    #[test]
    fn sums_do_not_wrap() {
        let sets = [
            Arc::new(replica_set("a").replicas(i32::MAX).build()),
            Arc::new(replica_set("b").replicas(1).build()),
        ];
        assert_eq!(sum(&sets, |rs| rs.spec.replicas), i32::MAX);
    }
}
