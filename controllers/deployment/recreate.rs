//! The strategy Recreate: all old pods end before the first new pod is created.
//!
//! Two versions of the application never run at the same time. Upstream: `recreate.go`.

use std::sync::Arc;

use steersman_objects::{Deployment, Pod};

use super::replica_sets::{ReplicaSets, is_active, sum};
use super::resize::Resize;

/// Resizes to 0 for the old ReplicaSets with a size above 0. Upstream: `scaleDownOldReplicaSetsForRecreate`.
pub(super) fn empty_old(sets: &ReplicaSets) -> Vec<Resize> {
    sets.old
        .iter()
        .filter(|rs| is_active(rs))
        .map(|rs| Resize::lazy(rs, 0))
        .collect()
}

/// Whether old pods may still run, given all pods of the old ReplicaSets.
///
/// Terminating pods still run. Pods of an unknown phase, on a node that does not report, might.
///
/// Upstream: `oldPodsRunning`. Status and cache of pods are both asked, since either may be behind.
pub(super) fn old_pods_running(sets: &ReplicaSets, old_pods: &[Arc<Pod>]) -> bool {
    sum(&sets.old, |rs| rs.status.replicas) > 0 || old_pods.iter().any(|pod| !pod.is_finished())
}

/// The resize of the new ReplicaSet to full size, or `None` if it has that size. Upstream:
/// `scaleUpNewReplicaSetForRecreate`.
pub(super) fn resize_new(d: &Deployment, sets: &ReplicaSets) -> Option<Resize> {
    sets.new
        .as_ref()
        .map(|rs| Resize::lazy(rs, d.spec.replicas))
        .filter(Resize::changes_size)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steersman_objects::Object;

    use super::*;
    use crate::testing::{deployment, replica_set};

    fn pod(phase: &str) -> Arc<Pod> {
        let json = json!({"metadata": {"name": "p", "namespace": "default", "uid": "p"}, "status": {"phase": phase}});
        Arc::new(Pod::decode(json.to_string().as_bytes()).unwrap())
    }

    #[test]
    fn test_scale_down_old_replica_sets() {
        let old =
            [3, 0].map(|size| Arc::new(replica_set(&format!("foo-{size}")).replicas(size).build()));
        let resizes = empty_old(&ReplicaSets {
            new: None,
            old: old.to_vec(),
        });
        let sizes: Vec<_> = resizes
            .iter()
            .map(|resize| (&*resize.set.meta.name, resize.to))
            .collect();
        assert_eq!(sizes, [("foo-3", 0)]);
    }

    #[test]
    fn test_old_pods_running() {
        const FINISHED: [&str; 2] = ["Failed", "Succeeded"];
        // (name, status.replicas of the old one, phases of old pods, running)
        let cases: [(&str, Option<i32>, &[&str], bool); 9] = [
            ("no old RSs", None, &[], false),
            ("old RSs with running pods", Some(0), &["", ""], true),
            (
                "old RSs without pods but with non-zero status replicas",
                Some(1),
                &[],
                true,
            ),
            (
                "old RSs without pods or non-zero status replicas",
                Some(0),
                &[],
                false,
            ),
            (
                "old RSs with zero status replicas but pods in terminal state are present",
                Some(0),
                &FINISHED,
                false,
            ),
            (
                "old RSs with zero status replicas but pod in unknown phase present",
                Some(0),
                &["Unknown"],
                true,
            ),
            (
                "old RSs with zero status replicas with pending pod present",
                Some(0),
                &["Pending"],
                true,
            ),
            (
                "old RSs with zero status replicas with running pod present",
                Some(0),
                &["Running"],
                true,
            ),
            (
                "old RSs with zero status replicas but pods in terminal state and pending are present",
                Some(0),
                &["Failed", "Succeeded", "Pending"],
                true,
            ),
        ];
        for (name, replicas, phases, running) in cases {
            let old = replicas
                .into_iter()
                .map(|n| Arc::new(replica_set("rs-1").pods(n, 0).build()))
                .collect();
            let pods: Vec<_> = phases.iter().map(|phase| pod(phase)).collect();
            assert_eq!(
                old_pods_running(&ReplicaSets { new: None, old }, &pods),
                running,
                "{name}"
            );
        }
    }

    #[test]
    fn the_new_replica_set_gets_its_full_size_at_once() {
        let d = deployment("web").replicas(5).recreate().build();
        // (size, resized to)
        for (size, to) in [(0, Some(5)), (9, Some(5)), (5, None)] {
            let sets = ReplicaSets {
                new: Some(Arc::new(replica_set("web-1").replicas(size).build())),
                old: vec![],
            };
            assert_eq!(resize_new(&d, &sets).map(|resize| resize.to), to);
        }
    }
}
