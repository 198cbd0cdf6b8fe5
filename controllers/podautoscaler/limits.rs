//! From a proposed size to the next one: stabilization over time, then limits.
//!
//! proposal, history -> [`Normalized`] -> conditions `AbleToScale` and `ScalingLimited`
//!
//! Without `spec.behavior`, a target shrinks to the highest recommendation of the window, and at most
//! doubles. With it, `behavior.rs` has the rules.
//!
//! Upstream: `normalizeDesiredReplicas` and `convertDesiredReplicasWithRules` in `horizontal.go`.

use std::time::Duration;

use jiff::Timestamp;

use super::history::{History, Timed, before, record};

/// A target at most doubles in one sync. A wrong sample, such as one right after a start, can ask for a huge
/// size; the factor limits the damage (kubernetes/kubernetes#32304). Upstream: `scaleUpLimitFactor`.
const UP_FACTOR: i32 = 2;
/// A small target grows at least to this size. Without it, one replica could only become two. Upstream:
/// `scaleUpLimitMinimum`.
const UP_MINIMUM: i32 = 4;

/// Reason and message of a condition. The texts are upstream's, since alerts and dashboards match them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reason {
    pub(super) reason: &'static str,
    pub(super) message: &'static str,
}

impl Reason {
    /// For `AbleToScale`: stabilization changes nothing. The message says so even if the sizes differ.
    pub(super) const READY: Self = Self {
        reason: "ReadyForNewScale",
        message: "recommended size matches current size",
    };
    /// For `AbleToScale`: a higher recommendation within the window holds the size.
    pub(super) const DOWN_STABILIZED: Self = Self {
        reason: "ScaleDownStabilized",
        message: "recent recommendations were higher than current one, applying the highest recent recommendation",
    };
    /// For `AbleToScale`: a lower recommendation within the window holds the size. Only rules have such a
    /// window.
    pub(super) const UP_STABILIZED: Self = Self {
        reason: "ScaleUpStabilized",
        message: "recent recommendations were lower than current one, applying the lowest recent recommendation",
    };
    /// For `ScalingLimited`, which is `False` then.
    pub(super) const WITHIN_RANGE: Self = Self {
        reason: "DesiredWithinRange",
        message: "the desired count is within the acceptable range",
    };
    /// The rate of growth is the limit: a doubling without rules, or the policies of `scaleUp`.
    pub(super) const UP_LIMIT: Self = Self {
        reason: "ScaleUpLimit",
        message: "the desired replica count is increasing faster than the maximum scale rate",
    };
    /// The policies of `scaleDown` are the limit, or they are disabled. Without rules, shrinking has no rate.
    pub(super) const DOWN_LIMIT: Self = Self {
        reason: "ScaleDownLimit",
        message: "the desired replica count is decreasing faster than the maximum scale rate",
    };
    /// `maxReplicas` is the limit.
    pub(super) const TOO_MANY: Self = Self {
        reason: "TooManyReplicas",
        message: "the desired replica count is more than the maximum replica count",
    };
    /// `minReplicas` is the limit.
    pub(super) const TOO_FEW: Self = Self {
        reason: "TooFewReplicas",
        message: "the desired replica count is less than the minimum replica count",
    };
}

/// The sizes that a decision starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sizes {
    /// The wanted size of the target now. `spec.replicas` of the scale, as read in this sync.
    pub(super) current: i32,
    /// The size that the metrics propose. At least zero, and not yet within any limit.
    pub(super) proposed: i32,
    /// Lower limit. `minReplicas`; 1 if it is unset.
    pub(super) min: i32,
    /// Upper limit.
    pub(super) max: i32,
}

/// The next size, with its conditions. The size may equal the current one; then no write follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Normalized {
    /// The next size.
    pub(super) replicas: i32,
    /// For `AbleToScale`, which is `True`. A failed write of the size sets it to `False` later in the same
    /// sync.
    pub(super) able: Reason,
    /// For `ScalingLimited`.
    pub(super) limit: Reason,
    /// The status of `ScalingLimited`: whether a limit changed the size.
    pub(super) is_limited: bool,
}

impl Normalized {
    /// The result of limiting the size `stabilized` to `replicas`.
    pub(super) fn new(able: Reason, stabilized: i32, (replicas, limit): (i32, Reason)) -> Self {
        // A limit that changes nothing is no limit, also if its reason is named.
        Self {
            replicas,
            able,
            limit,
            is_limited: replicas != stabilized,
        }
    }
}

/// The next size without `spec.behavior`. Records the proposal. Called for each size that metrics propose,
/// also for an unchanged one: each proposal is a recommendation.
pub(super) fn normalize(
    history: &mut History,
    sizes: Sizes,
    window: Duration,
    now: Timestamp,
) -> Normalized {
    let stabilized = stabilize(&mut history.recommendations, sizes.proposed, window, now);
    let able = if stabilized == sizes.proposed {
        Reason::READY
    } else {
        Reason::DOWN_STABILIZED
    };
    Normalized::new(able, stabilized, limit(sizes, stabilized))
}

/// The highest recommendation of the window. Upstream: `stabilizeRecommendation`. Only shrinking is delayed.
/// The proposal is stored as it is, since stored maxima would never leave the window.
pub(super) fn stabilize(
    recommendations: &mut Vec<Timed>,
    proposed: i32,
    window: Duration,
    now: Timestamp,
) -> i32 {
    // Recommendations from exactly the start of the window count, as upstream's `Before` has it.
    let cutoff = before(now, window);
    let recent = recommendations.iter().filter(|old| old.at >= cutoff);
    let highest = recent.map(|old| old.replicas).fold(proposed, i32::max);
    let new = Timed {
        replicas: proposed,
        at: now,
    };
    record(recommendations, new, |old| old.at < cutoff);
    highest
}

/// The size `wanted` within the limits of `sizes`, and the limit that applies. Upstream:
/// `convertDesiredReplicasWithRules`. The lower limit is checked first. If an invalid object has limits that
/// cross, it wins, even beyond the rate.
fn limit(sizes: Sizes, wanted: i32) -> (i32, Reason) {
    // Upstream computes in `float64` and converts. Saturation has the same result up to the largest size.
    let fastest = sizes.current.saturating_mul(UP_FACTOR).max(UP_MINIMUM);
    let (most, too_many) = if sizes.max > fastest {
        (fastest, Reason::UP_LIMIT)
    } else {
        (sizes.max, Reason::TOO_MANY)
    };
    if wanted < sizes.min {
        (sizes.min, Reason::TOO_FEW)
    } else if wanted > most {
        (most, too_many)
    } else {
        (wanted, Reason::WITHIN_RANGE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Upstream: `TestConvertDesiredReplicasWithRules`.
    #[test]
    fn convert_desired_replicas_with_rules() {
        // (why, current and wanted size, limits, size and reason)
        let cases = [
            (
                "prenormalized desired replicas within range",
                (5, 7),
                (3, 8),
                (7, Reason::WITHIN_RANGE),
            ),
            (
                "prenormalized desired replicas < minReplicas",
                (3, 1),
                (2, 8),
                (2, Reason::TOO_FEW),
            ),
            (
                "prenormalized desired zeroed replicas within range",
                (1, 0),
                (0, 10),
                (0, Reason::WITHIN_RANGE),
            ),
            (
                "maxReplicas is the limit because maxReplicas < scaleUpLimit",
                (20, 1000),
                (1, 10),
                (10, Reason::TOO_MANY),
            ),
            (
                "scaleUpLimit is the limit because scaleUpLimit < maxReplicas",
                (3, 1000),
                (1, 2000),
                (6, Reason::UP_LIMIT),
            ),
        ];
        for (why, (current, wanted), (min, max), expected) in cases {
            let sizes = Sizes {
                current,
                proposed: wanted,
                min,
                max,
            };
            assert_eq!(limit(sizes, wanted), expected, "{why}");
        }
    }
}
