//! How many pods a rollout may have too many, and how many it may lack.
//!
//! Percentages of surge round up and those of unavailability down, so that a rolling update can
//! always go on: 10 replicas with 25%/25% run between 8 and 13 pods, and 1 replica with 0/25% gets
//! an unavailability of 1.

use steersman_runtime::object::{Deployment, IntOrPercent, Strategy};

/// A limit that no API server would have admitted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum LimitError {
    /// `spec.strategy.rollingUpdate.maxSurge` is missing where it is needed.
    #[error("nil value for IntOrString")]
    Unset,
    /// A text without a percent sign.
    #[error("invalid value for IntOrString: invalid type: string is not a percentage")]
    NotAPercentage,
    /// No whole number in front of the percent sign.
    #[error("invalid value for IntOrString: invalid value {text:?}: {source}")]
    NotANumber {
        /// The limit as given.
        text: String,
        /// What is wrong with it.
        #[source]
        source: std::num::ParseIntError,
    },
}

/// Pods above the wanted number; 0 for any strategy but RollingUpdate, and for limits that cannot
/// be read.
pub(super) fn max_surge(d: &Deployment) -> i32 {
    rolling(d).map_or(0, |(surge, _)| surge)
}

/// Pods below the wanted number, never more than that number itself; 0 for any strategy but
/// RollingUpdate.
pub(super) fn max_unavailable(d: &Deployment) -> i32 {
    rolling(d).map_or(0, |(_, unavailable)| {
        if d.spec.replicas == 0 {
            0
        } else {
            unavailable.min(d.spec.replicas)
        }
    })
}

/// The pods that must stay available.
pub(super) fn min_available(d: &Deployment) -> i32 {
    d.spec.replicas - max_unavailable(d)
}

/// `deployment.kubernetes.io/max-replicas`: what all ReplicaSets may add up to.
pub(super) fn max_replicas(d: &Deployment) -> i32 {
    d.spec.replicas.saturating_add(max_surge(d))
}

/// The pods above `replicas` that `max_surge` allows, taken on its own.
pub(super) fn surge(max_surge: Option<&IntOrPercent>, replicas: i32) -> Result<i32, LimitError> {
    scale(max_surge.ok_or(LimitError::Unset)?, replicas, f64::ceil)
}

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

/// Surge and unavailability of a rolling update, resolved together: where rounding leaves no room
/// for either, one pod may be unavailable, since a surge might not fit a quota (upstream's
/// `ResolveFenceposts`).
fn resolve(
    max_surge: Option<&IntOrPercent>,
    max_unavailable: Option<&IntOrPercent>,
    replicas: i32,
) -> Result<(i32, i32), LimitError> {
    let surge = max_surge.map_or(Ok(0), |limit| scale(limit, replicas, f64::ceil))?;
    let unavailable = max_unavailable.map_or(Ok(0), |limit| scale(limit, replicas, f64::floor))?;
    Ok(if (surge, unavailable) == (0, 0) {
        (0, 1)
    } else {
        (surge, unavailable)
    })
}

fn scale(limit: &IntOrPercent, replicas: i32, round: fn(f64) -> f64) -> Result<i32, LimitError> {
    match limit {
        IntOrPercent::Int(number) => Ok(*number),
        IntOrPercent::Percent(text) => {
            let number = text.strip_suffix('%').ok_or(LimitError::NotAPercentage)?;
            let percent: i32 = number.parse().map_err(|source| LimitError::NotANumber {
                text: text.clone(),
                source,
            })?;
            // A cast of a float saturates, and both factors are whole numbers of 32 bits.
            Ok(round(f64::from(percent) * f64::from(replicas) / 100.0) as i32)
        }
    }
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
            let (max_surge, max_unavailable) = (surge.map(percent), unavailable.map(percent));
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
    fn the_worked_examples_hold() {
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
    fn a_limit_of_no_rolling_update_is_zero() {
        let d = deployment("web").replicas(10).recreate().build();
        assert_eq!(
            (max_surge(&d), max_unavailable(&d), max_replicas(&d)),
            (0, 0, 10)
        );
        assert_eq!(surge(None, 10), Err(LimitError::Unset));
    }
}
