//! The invariants of creations and deletions: they lead towards `spec.replicas`, and never past it.
//!
//! They count pods by themselves, from phase and deletion, so that an error in the decision cannot hide here.

use std::sync::Arc;

use steersman_client::Violation;
use steersman_objects::{Phase, Pod};

const SURPLUS: &str = "surplus_pods";
const WANTED: &str = "wanted_pods";

/// The invariants of this file.
pub(super) const NAMES: &[&str] = &[SURPLUS, WANTED];

/// `surplus_pods`: an owner creates no pod beyond its size. The API server has no such limit by itself, so a
/// wrong count would fill the cluster.
pub(super) fn creates_missing(
    pods: &[Arc<Pod>],
    replicas: i32,
    count: usize,
) -> Result<(), Violation> {
    let running = running(pods);
    let holds = running + count <= size(replicas);
    Violation::unless(holds, SURPLUS, || {
        format!("create {count} pods beside {running}, of {replicas} wanted")
    })
}

/// `wanted_pods`: an owner deletes no pod that its size needs. Surplus is counted in running pods, as ended
/// ones serve nothing.
pub(super) fn deletes_surplus(
    pods: &[Arc<Pod>],
    replicas: i32,
    victims: &[Arc<Pod>],
) -> Result<(), Violation> {
    let running = running(pods);
    let count = victims.len();
    let holds = size(replicas) + count <= running;
    Violation::unless(holds, WANTED, || {
        format!("delete {count} of {running} pods, of {replicas} wanted")
    })
}

/// The number of pods that neither ended nor terminate.
fn running(pods: &[Arc<Pod>]) -> usize {
    let has_ended = |pod: &Pod| matches!(pod.phase, Phase::Succeeded | Phase::Failed);
    let is_running = |pod: &&Arc<Pod>| pod.meta.deleted.is_none() && !has_ended(pod);
    pods.iter().filter(is_running).count()
}

/// A negative size, which API validation rejects, counts as 0.
fn size(replicas: i32) -> usize {
    usize::try_from(replicas).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replicaset::scale::{Scale, decide};
    use crate::testing::pods::pod;

    fn pods(count: usize) -> Vec<Arc<Pod>> {
        let pod = |number| Arc::new(pod(&format!("web-{number}")).build());
        (0..count).map(pod).collect()
    }

    #[test]
    fn each_right_decision_is_allowed_and_one_pod_more_is_refused() {
        for (active, replicas) in [
            (0, 0),
            (3, 3),
            (1, 3),
            (3, 1),
            (3, 0),
            (3, -1),
            (0, 700),
            (700, 0),
            (700, 650),
        ] {
            let pods = pods(active);
            let case = format!("{active} of {replicas}");
            let create = |count| creates_missing(&pods, replicas, count);
            let delete = |count| deletes_surplus(&pods, replicas, &pods[..count]);
            match decide(active, replicas) {
                Scale::Steady => {
                    assert!(create(1).is_err(), "{case}");
                    assert!(active == 0 || delete(1).is_err(), "{case}");
                }
                Scale::Create(count) => {
                    let missing = size(replicas) - active;
                    assert_eq!(create(count), Ok(()), "{case}");
                    assert!(create(missing + 1).is_err(), "{case}");
                    assert!(active == 0 || delete(1).is_err(), "{case}");
                }
                Scale::Delete(count) => {
                    let surplus = active - size(replicas);
                    assert_eq!(delete(count), Ok(()), "{case}");
                    assert!(surplus == active || delete(surplus + 1).is_err(), "{case}");
                    assert!(create(1).is_err(), "{case}");
                }
            }
        }
    }

    #[test]
    fn pods_that_ended_or_terminate_do_not_count_as_running() {
        let pods = [
            pod("running"),
            pod("terminating").deleted(1),
            pod("failed").phase("Failed"),
        ];
        let pods = pods.map(|pod| Arc::new(pod.build()));
        assert_eq!(creates_missing(&pods, 2, 1), Ok(()));
        let violation = deletes_surplus(&pods, 1, &pods[..2]).unwrap_err();
        assert_eq!(violation.invariant, "wanted_pods");
        assert_eq!(violation.decision, "delete 2 of 1 pods, of 1 wanted");
    }
}
