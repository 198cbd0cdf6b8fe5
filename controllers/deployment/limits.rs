//! Resolves `maxSurge` and `maxUnavailable` of a rolling update to numbers of pods.
//!
//! `maxSurge` rounds up and `maxUnavailable` rounds down. If both become 0, `maxUnavailable` is 1,
//! so a rolling update can always continue.
//!
//! Examples: 10 replicas with 25%/25% run 8 to 13 pods; 1 replica with 0/25% may lack 1 pod.
//!
//! Upstream: `MaxSurge`, `MaxUnavailable` and `ResolveFenceposts` in `deployment_util.go`.
//!
//! The order of rounding favours availability: a surge may be a pod too large, and an outage never is.

use steersman_objects::{Deployment, IntOrPercent, PercentError, Strategy};

/// An unreadable limit. API validation rejects it, so it occurs only if validation was bypassed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum LimitError {
    /// `spec.strategy.rollingUpdate.maxSurge` is missing where it is needed. `ResolveFenceposts` takes a
    /// missing value for 0, and `NewRSNewReplicas` refuses it.
    #[error("nil value for IntOrString")]
    Unset,
    /// The limit is a text that is no percentage.
    #[error("{0}")]
    Percent(#[from] PercentError),
}

/// Pods allowed above `spec.replicas`; 0 for the strategy Recreate and for unreadable limits.
///
/// Upstream: `MaxSurge`. An error counts as 0, as there.
pub(super) fn max_surge(d: &Deployment) -> i32 {
    rolling(d).map_or(0, |(surge, _)| surge)
}

/// Pods that may be unavailable, at most `spec.replicas`; 0 for the strategy Recreate and for
/// unreadable limits.
///
/// Upstream: `MaxUnavailable`. Without the cap, `min_available` could be negative.
pub(super) fn max_unavailable(d: &Deployment) -> i32 {
    rolling(d).map_or(0, |(_, unavailable)| {
        if d.spec.replicas == 0 {
            0
        } else {
            unavailable.min(d.spec.replicas)
        }
    })
}

/// The number of pods that must stay available. Upstream: `MinAvailable`.
pub(super) fn min_available(d: &Deployment) -> i32 {
    d.spec.replicas - max_unavailable(d)
}

/// The maximum for the sum of all ReplicaSets' sizes: the annotation
/// `deployment.kubernetes.io/max-replicas`.
pub(super) fn max_replicas(d: &Deployment) -> i32 {
    d.spec.replicas.saturating_add(max_surge(d))
}

/// The pods above `replicas` that `max_surge` allows, resolved without `maxUnavailable`. A missing
/// value is an error, as in upstream's `NewRSNewReplicas`.
pub(super) fn surge(max_surge: Option<&IntOrPercent>, replicas: i32) -> Result<i32, LimitError> {
    let limit = max_surge.ok_or(LimitError::Unset)?;
    Ok(limit.of(replicas, f64::ceil)?)
}

/// The surge and unavailability limits. `None`, which callers read as 0, if a limit is unreadable or the
/// strategy is Recreate.
fn rolling(d: &Deployment) -> Option<(i32, i32)> {
    let Strategy::RollingUpdate {
        max_surge,
        max_unavailable,
    } = &d.spec.strategy
    else {
        return None;
    };
    resolve(
        max_surge.as_ref(),
        max_unavailable.as_ref(),
        d.spec.replicas,
    )
    .ok()
}

/// `maxSurge` and `maxUnavailable`, resolved together as in upstream's `ResolveFenceposts`. If both
/// are 0, one pod may be unavailable, because a quota might forbid a surge.
fn resolve(
    max_surge: Option<&IntOrPercent>,
    max_unavailable: Option<&IntOrPercent>,
    replicas: i32,
) -> Result<(i32, i32), LimitError> {
    let surge = max_surge.map_or(Ok(0), |limit| limit.of(replicas, f64::ceil))?;
    let unavailable = max_unavailable.map_or(Ok(0), |limit| limit.of(replicas, f64::floor))?;
    Ok(if (surge, unavailable) == (0, 0) {
        (0, 1)
    } else {
        (surge, unavailable)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::deployment;
    use serde_json::{Value, json};

    fn percent(text: &str) -> IntOrPercent {
        IntOrPercent::Percent(text.to_owned())
    }

    #[test]
    fn test_resolve_fenceposts() {
        // (maxSurge, maxUnavailable, desired, expected)
        let cases = [
            (Some("0%"), Some("0%"), 0, Some((0, 1))),
            (Some("39%"), Some("39%"), 10, Some((4, 3))),
            (Some("oops"), Some("39%"), 10, None),
            (Some("55%"), Some("urg"), 10, None),
            (None, Some("39%"), 10, Some((0, 3))),
            (Some("39%"), None, 10, Some((4, 0))),
            (None, None, 10, Some((0, 1))),
            (Some("x%"), None, 10, None),
        ];
        for (surge, unavailable, desired, expected) in cases {
            let max_surge = surge.map(percent);
            let max_unavailable = unavailable.map(percent);
            let resolved = resolve(max_surge.as_ref(), max_unavailable.as_ref(), desired);
            assert_eq!(
                resolved.ok(),
                expected,
                "{surge:?} {unavailable:?} of {desired}"
            );
        }
    }

    #[test]
    fn test_max_unavailable() {
        // (name, replicas, maxUnavailable, expected)
        let cases = [
            ("maxUnavailable less than replicas", 10, json!(5), 5),
            ("maxUnavailable equal replicas", 10, json!(10), 10),
            ("maxUnavailable greater than replicas", 5, json!(10), 5),
            ("maxUnavailable with replicas is 0", 0, json!(10), 0),
            (
                "maxUnavailable less than replicas with percents",
                10,
                json!("50%"),
                5,
            ),
            (
                "maxUnavailable equal replicas with percents",
                10,
                json!("100%"),
                10,
            ),
            (
                "maxUnavailable greater than replicas with percents",
                5,
                json!("100%"),
                5,
            ),
        ];
        for (name, replicas, unavailable, expected) in cases {
            let d = deployment("nginx")
                .replicas(replicas)
                .rolling(1, unavailable)
                .build();
            assert_eq!(max_unavailable(&d), expected, "{name}");
        }
        let d = deployment("nginx").replicas(1).recreate().build();
        assert_eq!(
            max_unavailable(&d),
            0,
            "maxUnavailable with Recreate deployment strategy"
        );
    }

    #[test]
    fn test_min_available() {
        // (name, replicas, maxUnavailable, expected)
        let cases = [
            ("replicas greater than maxUnavailable", 10, json!(5), 5),
            ("replicas equal maxUnavailable", 10, json!(10), 0),
            ("replicas less than maxUnavailable", 5, json!(10), 0),
            ("replicas is 0", 0, json!(10), 0),
            (
                "replicas greater than maxUnavailable with percents",
                10,
                json!("60%"),
                4,
            ),
            (
                "replicas equal maxUnavailable with percents",
                10,
                json!("100%"),
                0,
            ),
            (
                "replicas less than maxUnavailable with percents",
                5,
                json!("100%"),
                0,
            ),
        ];
        for (name, replicas, unavailable, expected) in cases {
            let d = deployment("nginx")
                .replicas(replicas)
                .rolling(1, unavailable)
                .build();
            assert_eq!(min_available(&d), expected, "{name}");
        }
    }

    #[test]
    fn limits_are_resolved_for_small_and_large_deployments() {
        // (replicas, maxSurge, maxUnavailable, cap, minAvailable)
        let cases: [(i32, Value, Value, i32, i32); 8] = [
            (10, json!("25%"), json!("25%"), 13, 8),
            (3, json!("25%"), json!("25%"), 4, 3),
            (1, json!("25%"), json!("25%"), 2, 1),
            (1, json!(0), json!("25%"), 1, 0),
            (5, json!("0%"), json!("10%"), 5, 4),
            (4, json!(0), json!("50%"), 4, 2),
            (2, json!(1), json!(10), 3, 0),
            (0, json!("25%"), json!("25%"), 0, 0),
        ];
        for (replicas, surge, unavailable, cap, least) in cases {
            let d = deployment("web")
                .replicas(replicas)
                .rolling(surge.clone(), unavailable.clone())
                .build();
            assert_eq!(
                (max_replicas(&d), min_available(&d)),
                (cap, least),
                "{replicas} {surge} {unavailable}"
            );
        }
    }

    #[test]
    fn limits_of_recreate_are_zero() {
        let d = deployment("web").replicas(10).recreate().build();
        assert_eq!(
            (max_surge(&d), max_unavailable(&d), max_replicas(&d)),
            (0, 0, 10)
        );
        assert_eq!(surge(None, 10), Err(LimitError::Unset));
    }
}
