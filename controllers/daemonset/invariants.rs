//! The invariant of rolling updates without surge.
//!
//! It reads only the limits of the spec, the number of nodes and the deleted pods. So an error in the choice
//! of pods shows up here.

use std::sync::Arc;

use jiff::Timestamp;
use steersman_client::Violation;
use steersman_objects::{DaemonSet, DaemonSetStrategy, Pod};

/// The invariant of this file.
pub(super) const AVAILABILITY: &str = "rollout_availability";

/// `rollout_availability`: without surge, one step of a rolling update deletes at most `maxUnavailable`
/// available pods. `nodes` is the number of nodes that should run a pod.
///
/// With surge, a step also deletes available pods beside new ones, without a limit.
pub(super) fn keeps_available(
    ds: &DaemonSet,
    nodes: usize,
    deleted: &[Arc<Pod>],
    now: Timestamp,
) -> Result<(), Violation> {
    let seconds = ds.spec.min_ready_seconds;
    let available = deleted.iter().filter(|pod| pod.is_available(seconds, now));
    let most = max_unavailable(ds, nodes);
    let available = available.count();
    let holds = most.is_none_or(|most| i64::try_from(available).is_ok_and(|n| n <= most));
    Violation::unless(holds, AVAILABILITY, || {
        format!("delete {available} available pods on {nodes} nodes, at most {most:?} allowed")
    })
}

/// `maxUnavailable`, rounded up. `None` with surge, and for unreadable limits.
///
/// Other than the decision, it computes in whole hundredths, without floating point.
fn max_unavailable(ds: &DaemonSet, nodes: usize) -> Option<i64> {
    let DaemonSetStrategy::RollingUpdate(Some(limits)) = &ds.spec.update_strategy else {
        return None;
    };
    let nodes = i32::try_from(nodes).ok()?;
    let surge = limits.max_surge.as_ref();
    let surge = surge.map_or(Some(0), |limit| limit.hundredths_of(nodes))?;
    let hundredths = limits.max_unavailable.as_ref()?.hundredths_of(nodes)?;
    // A rolling update with neither limit would never begin.
    (surge <= 0).then(|| (-(-hundredths).div_euclid(100)).max(1))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::daemon_set;
    use crate::testing::pods::pod;

    #[test]
    fn a_step_deletes_at_most_max_unavailable_available_pods() {
        let now = Timestamp::from_second(100).unwrap();
        // (maxSurge, maxUnavailable, nodes, most available pods; `None` without a limit)
        let cases: [(Value, Value, usize, Option<usize>); 9] = [
            (json!(0), json!(1), 5, Some(1)),
            (json!(0), json!(3), 5, Some(3)),
            (json!(0), json!("25%"), 5, Some(2)),
            (json!(0), json!("20%"), 5, Some(1)),
            (json!(0), json!("100%"), 5, Some(5)),
            (json!(0), json!(0), 5, Some(1)),
            (Value::Null, json!("1%"), 5, Some(1)),
            (json!(1), json!(0), 5, None),
            (json!(0), json!("x"), 5, None),
        ];
        for (surge, unavailable, nodes, most) in cases {
            let limits = json!({"maxSurge": surge, "maxUnavailable": unavailable});
            let strategy = json!({"type": "RollingUpdate", "rollingUpdate": limits});
            let ds = daemon_set("web").spec("updateStrategy", strategy).build();
            let pods = (0..9).map(|number| {
                let pod = pod(&format!("web-{number}"));
                let is_available = number < 6;
                let pod = if is_available {
                    pod.ready_since(0)
                } else {
                    pod.not_ready()
                };
                Arc::new(pod.build())
            });
            let pods: Vec<_> = pods.collect();
            // Pods that are not available have no limit.
            let deleted = |available: usize| [&pods[..available], &pods[6..]].concat();
            let is_allowed =
                |available| keeps_available(&ds, nodes, &deleted(available), now).is_ok();
            let most = most.unwrap_or(6);
            let found: Vec<_> = (0..=6).map(is_allowed).collect();
            let expected: Vec<_> = (0..=6).map(|available| available <= most).collect();
            assert_eq!(found, expected, "{limits} of {nodes}");
        }
    }
}
