//! The next size by the rules of `spec.behavior`.
//!
//! - stabilization: the current size, moved as little as the recommendations of both windows demand
//! - rate: each policy limits the change since the start of its period
//!
//! Example: 10 replicas grew to 20 ten seconds ago. A policy of 100 % in 15 seconds starts from 10,
//! so the limit stays 20 for five more seconds.
//!
//! Percentages are computed in `f64`, and their rounding decides: 100 replicas plus 10 % are 111.
//!
//! Upstream: `normalizeDesiredReplicasWithBehaviors` in `horizontal.go`.
//!
//! The API server fills in absent policies and windows, so both directions normally have policies.

use std::time::Duration;

use jiff::Timestamp;
use steersman_objects::{AutoscalerBehavior, ScalingPolicy, ScalingRules};

use super::history::{History, Timed, before, record, seconds};
use super::limits::{Normalized, Reason, Sizes};

/// The next size. Records the proposal. `window` is the window for scaling down if the rules have
/// none; whole seconds of it count. Stabilization precedes the rate, since a rate limits the size that is to
/// be written.
pub(super) fn normalize(
    history: &mut History,
    sizes: Sizes,
    behavior: &AutoscalerBehavior,
    window: Duration,
    now: Timestamp,
) -> Normalized {
    let of = |rules: &ScalingRules| rules.stabilization_window_seconds.map(seconds);
    // Growth has no default window: the API server's default is 0 s, and the flag concerns shrinking only.
    let up = of(&behavior.scale_up).unwrap_or_default();
    let down = of(&behavior.scale_down).unwrap_or(Duration::from_secs(window.as_secs()));
    let cutoffs = (before(now, up), before(now, down));
    let stabilized = stabilize(&mut history.recommendations, sizes, cutoffs, now);
    // Upstream compares the proposal, and not the stabilized size, with the current one.
    let able = if stabilized == sizes.proposed {
        Reason::READY
    } else if sizes.proposed >= sizes.current {
        Reason::UP_STABILIZED
    } else {
        Reason::DOWN_STABILIZED
    };
    Normalized::new(
        able,
        stabilized,
        limit(history, sizes, stabilized, behavior, now),
    )
}

/// The current size, between the lowest recommendation of the window for scaling up and the highest
/// one of the window for scaling down. `cutoffs` are the starts of these windows. Within each window the most
/// cautious recommendation counts: growth waits until the whole window asks for it, and so does shrinking.
pub(super) fn stabilize(
    recommendations: &mut Vec<Timed>,
    sizes: Sizes,
    (up, down): (Timestamp, Timestamp),
    now: Timestamp,
) -> i32 {
    let since = |cutoff: Timestamp| {
        // As upstream, a recommendation from exactly the start of the window is out. `limits::stabilize`
        // includes it.
        let recent = recommendations.iter().filter(move |old| old.at > cutoff);
        recent.map(|old| old.replicas)
    };
    let lowest = since(up).fold(sizes.proposed, i32::min);
    let highest = since(down).fold(sizes.proposed, i32::max);
    let new = Timed {
        replicas: sizes.proposed,
        at: now,
    };
    // An entry is outdated only if both windows have passed it.
    record(recommendations, new, |old| old.at < up && old.at < down);
    // The order decides if the bounds cross: the highest recommendation then has the last word, as upstream.
    sizes.current.max(lowest).min(highest)
}

/// The size `wanted` within the rates of the rules, and the limit that applies. A size without
/// change has no limit. Upstream: `convertDesiredReplicasWithBehaviorRate`. Growth ignores `min`, and
/// shrinking ignores `max`: `Reconciler::path` has handled sizes beyond the other limit.
pub(super) fn limit(
    history: &History,
    sizes: Sizes,
    wanted: i32,
    behavior: &AutoscalerBehavior,
    now: Timestamp,
) -> (i32, Reason) {
    let Sizes {
        current, min, max, ..
    } = sizes;
    if wanted > current {
        // A rate below the current size means that the period is used up. It stops growth, and never shrinks
        // the target.
        let rate = up_limit(current, history, &behavior.scale_up, now).max(current);
        let (most, reason) = if max > rate {
            (rate, Reason::UP_LIMIT)
        } else {
            (max, Reason::TOO_MANY)
        };
        if wanted > most {
            return (most, reason);
        }
    } else if wanted < current {
        // Likewise, a rate above the current size never enlarges the target.
        let rate = down_limit(current, history, &behavior.scale_down, now).min(current);
        let (least, reason) = if min < rate {
            (rate, Reason::DOWN_LIMIT)
        } else {
            (min, Reason::TOO_FEW)
        };
        if wanted < least {
            return (least, reason);
        }
    }
    (wanted, Reason::WITHIN_RANGE)
}

/// The largest size that the policies allow. Upstream: `calculateScaleUpLimitWithScalingRules`. "Max", the
/// default, takes the policy with the largest change, and "Min" that with the smallest.
fn up_limit(current: i32, history: &History, rules: &ScalingRules, now: Timestamp) -> i32 {
    let limits = rules.policies.iter().map(|policy| {
        let start = at_start(current, history, policy, now);
        match policy.kind.as_str() {
            // Rounded up, so that a small percentage of a small target adds at least one pod.
            "Percent" => percent(start, 1.0 + f64::from(policy.value) / 100.0).ceil() as i32,
            _ => start.saturating_add(policy.value),
        }
    });
    match rules.select_policy.as_str() {
        // The current size as the limit allows no change at all.
        "Disabled" => current,
        // The bounds of an empty list of policies are upstream's `MaxInt32` and `MinInt32`.
        "Min" => limits.min().unwrap_or(i32::MAX),
        _ => limits.max().unwrap_or(i32::MIN),
    }
}

/// The smallest size that the policies allow. Upstream: `calculateScaleDownLimitWithBehaviors`. "Min" means
/// the smallest change, which is the largest size.
fn down_limit(current: i32, history: &History, rules: &ScalingRules, now: Timestamp) -> i32 {
    let limits = rules.policies.iter().map(|policy| {
        let start = at_start(current, history, policy, now);
        match policy.kind.as_str() {
            // Cut off, so that a small percentage removes at least one pod.
            "Percent" => percent(start, 1.0 - f64::from(policy.value) / 100.0) as i32,
            _ => start.saturating_sub(policy.value),
        }
    });
    match rules.select_policy.as_str() {
        "Disabled" => current,
        "Min" => limits.max().unwrap_or(i32::MIN),
        _ => limits.min().unwrap_or(i32::MAX),
    }
}

/// The factor is computed first, as upstream: the order of the operations decides the last bit, and so the
/// rounding.
fn percent(start: i32, factor: f64) -> f64 {
    f64::from(start) * factor
}

/// The size at the start of the period that ends now. Changes by users or other controllers are unknown here,
/// so the result may never have been the size. Upstream: `getReplicasChangePerPeriod`.
fn at_start(current: i32, history: &History, policy: &ScalingPolicy, now: Timestamp) -> i32 {
    let cutoff = before(now, seconds(policy.period_seconds));
    let changed = |list: &[Timed]| {
        let recent = list.iter().filter(|change| change.at > cutoff);
        recent.fold(0_i32, |sum, change| sum.saturating_add(change.replicas))
    };
    current
        .saturating_sub(changed(&history.ups))
        .saturating_add(changed(&history.downs))
}
