//! Resolves `maxSurge` and `maxUnavailable` of a rolling update to numbers of nodes.
//!
//! Both round up, other than those of Deployments. If both become 0, `maxUnavailable` is 1, so a
//! rolling update can always continue.
//!
//! Examples: 25% of 3 nodes is 1 node, and 25% of 10 nodes is 3.
//!
//! Upstream: `updatedDesiredNodeCounts` in `update.go`, and `SurgeCount` and `UnavailableCount` in
//! `util/daemonset_util.go`.

use steersman_objects::{DaemonSetStrategy, IntOrPercent, PercentError};

/// An unreadable limit. API validation rejects it, so it occurs only if validation was bypassed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum LimitError {
    #[error(
        "couldn't get unavailable numbers: invalid value for MaxUnavailable: nil value for IntOrString"
    )]
    Unset,
    #[error("couldn't get unavailable numbers: invalid value for MaxUnavailable: {0}")]
    Unavailable(#[source] PercentError),
    #[error("couldn't get unavailable numbers: invalid value for MaxSurge: {0}")]
    Surge(#[source] PercentError),
}

/// The limits of a rolling update, in nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    /// Nodes that may have an additional pod.
    pub(super) max_surge: usize,
    /// Nodes that may lack an available pod.
    pub(super) max_unavailable: usize,
}

/// The limits for `desired` nodes that should run a pod.
///
/// Without desired nodes, both may be 0. A strategy without limits has no surge, and its `max_unavailable` is
/// 1.
pub(super) fn resolve(strategy: &DaemonSetStrategy, desired: usize) -> Result<Limits, LimitError> {
    let total = i32::try_from(desired).unwrap_or(i32::MAX);
    let max_unavailable = match strategy {
        DaemonSetStrategy::RollingUpdate(Some(limits)) => {
            let limit = limits.max_unavailable.as_ref().ok_or(LimitError::Unset)?;
            let number = limit.of(total, f64::ceil);
            count(number.map_err(LimitError::Unavailable)?)
        }
        _ => 0,
    };
    let max_surge = max_surge(strategy, total).map_err(LimitError::Surge)?;
    let is_stuck = desired > 0 && (max_surge, max_unavailable) == (0, 0);
    Ok(Limits {
        max_surge,
        max_unavailable: if is_stuck { 1 } else { max_unavailable },
    })
}

/// Whether a node may have two pods during a rolling update. Upstream: `AllowsSurge`.
///
/// One node suffices for the answer, since any positive limit rounds up to at least 1. With an unreadable
/// limit the answer is no.
pub(super) fn allows_surge(strategy: &DaemonSetStrategy) -> bool {
    max_surge(strategy, 1).is_ok_and(|nodes| nodes > 0)
}

/// The surge for `total` nodes. An absent limit is 0, other than an absent `maxUnavailable`, which is an
/// error.
fn max_surge(strategy: &DaemonSetStrategy, total: i32) -> Result<usize, PercentError> {
    let surge: Option<&IntOrPercent> = match strategy {
        DaemonSetStrategy::RollingUpdate(Some(limits)) => limits.max_surge.as_ref(),
        _ => None,
    };
    surge.map_or(Ok(0), |limit| limit.of(total, f64::ceil).map(count))
}

/// Negative limits, which API validation rejects, count as 0.
fn count(number: i32) -> usize {
    usize::try_from(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use steersman_objects::DaemonSet;

    use super::*;
    use crate::testing::daemon_set;

    fn rolling(surge: Value, unavailable: Value) -> DaemonSet {
        let limits = json!({"maxSurge": surge, "maxUnavailable": unavailable});
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": limits});
        daemon_set("foo").spec("updateStrategy", strategy).build()
    }

    fn resolved(ds: &DaemonSet, desired: usize) -> Result<(usize, usize), String> {
        let limits = resolve(&ds.spec.update_strategy, desired).map_err(|e| e.to_string())?;
        Ok((limits.max_surge, limits.max_unavailable))
    }

    #[test]
    fn get_unavailable_numbers() {
        // (name, nodes, maxSurge, maxUnavailable, expected)
        let cases = [
            ("No nodes", 0, json!(null), json!(0), (0, 0)),
            (
                "Two nodes with ready pods",
                2,
                json!(null),
                json!(1),
                (0, 1),
            ),
            (
                "Two nodes, one node without pods",
                2,
                json!(null),
                json!(0),
                (0, 1),
            ),
            (
                "Two nodes, one node without pods, surge",
                2,
                json!(0),
                json!(0),
                (0, 1),
            ),
            (
                "Two nodes with pods, MaxUnavailable in percents",
                2,
                json!(null),
                json!("50%"),
                (0, 1),
            ),
            (
                "Two nodes with pods, MaxUnavailable in percents, surge",
                2,
                json!("50%"),
                json!(0),
                (1, 0),
            ),
            (
                "Two nodes with pods, MaxUnavailable is 100%, surge",
                2,
                json!("100%"),
                json!(0),
                (2, 0),
            ),
            (
                "Two nodes with pods, MaxUnavailable in percents, pod terminating",
                3,
                json!(null),
                json!("50%"),
                (0, 2),
            ),
            // Not upstream's:
            ("both round up", 5, json!("10%"), json!("25%"), (1, 2)),
            ("surge only", 5, json!(2), json!(0), (2, 0)),
            ("negative numbers", 5, json!(-2), json!(-1), (0, 1)),
        ];
        for (name, nodes, surge, unavailable, expected) in cases {
            let ds = rolling(surge, unavailable);
            assert_eq!(resolved(&ds, nodes), Ok(expected), "{name}");
        }
    }

    #[test]
    fn strategies_without_limits_may_lack_one_pod() {
        // (why, strategy, limits of 5 nodes)
        let cases = [
            ("OnDelete", json!({"type": "OnDelete"})),
            ("no rollingUpdate", json!({"type": "RollingUpdate"})),
            ("another type", json!({"type": "Other"})),
        ];
        for (why, strategy) in cases {
            let ds = daemon_set("foo").spec("updateStrategy", strategy).build();
            assert_eq!(resolved(&ds, 5), Ok((0, 1)), "{why}");
            assert!(!allows_surge(&ds.spec.update_strategy), "{why}");
        }
    }

    #[test]
    fn malformed_limits_have_the_texts_of_upstream() {
        let text = "couldn't get unavailable numbers: invalid value for ";
        // (maxSurge, maxUnavailable, start of the text)
        let cases = [
            (json!(null), json!(null), "MaxUnavailable: nil value"),
            (
                json!("x"),
                json!("y"),
                "MaxUnavailable: invalid value for IntOrString",
            ),
            (
                json!("x"),
                json!(1),
                "MaxSurge: invalid value for IntOrString",
            ),
            (
                json!("x%"),
                json!(1),
                "MaxSurge: invalid value for IntOrString",
            ),
        ];
        for (surge, unavailable, expected) in cases {
            let ds = rolling(surge, unavailable);
            let error = resolved(&ds, 5).unwrap_err();
            assert!(error.starts_with(&format!("{text}{expected}")), "{error}");
            assert!(!allows_surge(&ds.spec.update_strategy));
        }
    }
}
