//! The invariant of the size of a target.
//!
//! `limits.rs` and `behavior.rs` keep it; this check is independent of them, and it stands directly before
//! the request. A violation stops the write, and a metric counts it.

use steersman_client::Violation;
use steersman_objects::HorizontalPodAutoscaler;

/// The invariant of this file.
pub(super) const LIMITS: &str = "autoscaler_limits";

/// `autoscaler_limits`: a target gets no size outside `minReplicas` and `maxReplicas`, in either order. The
/// order is free, because an object from before the validation may have its limits the wrong way round.
pub(super) fn stays_within_limits(
    hpa: &HorizontalPodAutoscaler,
    size: i32,
) -> Result<(), Violation> {
    let min = hpa.spec.min_replicas.unwrap_or(1);
    let max = hpa.spec.max_replicas;
    let holds = (min.min(max)..=min.max(max)).contains(&size);
    Violation::unless(holds, LIMITS, || {
        format!("resize the target to {size}, of {min} to {max}")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steersman_objects::Object;

    use super::*;

    #[test]
    fn a_size_is_within_both_limits() {
        // (minReplicas, maxReplicas, allowed sizes)
        let cases = [
            (Some(2), 5, 2..=5),
            (None, 3, 1..=3),
            (Some(0), 1, 0..=1),
            (Some(4), 4, 4..=4),
            // Validation was bypassed, and upstream takes either limit.
            (Some(5), 3, 3..=5),
        ];
        for (min, max, allowed) in cases {
            let target = json!({"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"});
            let spec = json!({"minReplicas": min, "maxReplicas": max, "scaleTargetRef": target});
            let hpa = json!({"metadata": {"name": "web"}, "spec": spec}).to_string();
            let hpa = HorizontalPodAutoscaler::decode(hpa.as_bytes()).unwrap();
            for size in -1..=7 {
                let checked = stays_within_limits(&hpa, size);
                assert_eq!(
                    checked.is_ok(),
                    allowed.contains(&size),
                    "{min:?} {max} {size}"
                );
            }
        }
    }
}
