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

use std::time::Duration;

use jiff::Timestamp;
use steersman_objects::{AutoscalerBehavior, ScalingPolicy, ScalingRules};

use super::history::{History, Timed, before, record, seconds};
use super::limits::{Normalized, Reason, Sizes};

/// The next size. Records the proposal. `window` is the window for scaling down if the rules have
/// none; whole seconds of it count.
pub(super) fn normalize(
    history: &mut History,
    sizes: Sizes,
    behavior: &AutoscalerBehavior,
    window: Duration,
    now: Timestamp,
) -> Normalized {
    let of = |rules: &ScalingRules| rules.stabilization_window_seconds.map(seconds);
    let up = of(&behavior.scale_up).unwrap_or_default();
    let down = of(&behavior.scale_down).unwrap_or(Duration::from_secs(window.as_secs()));
    let cutoffs = (before(now, up), before(now, down));
    let stabilized = stabilize(&mut history.recommendations, sizes, cutoffs, now);
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
/// one of the window for scaling down. `cutoffs` are the starts of these windows.
pub(super) fn stabilize(
    recommendations: &mut Vec<Timed>,
    sizes: Sizes,
    (up, down): (Timestamp, Timestamp),
    now: Timestamp,
) -> i32 {
    let since = |cutoff: Timestamp| {
        let recent = recommendations.iter().filter(move |old| old.at > cutoff);
        recent.map(|old| old.replicas)
    };
    let lowest = since(up).fold(sizes.proposed, i32::min);
    let highest = since(down).fold(sizes.proposed, i32::max);
    let new = Timed {
        replicas: sizes.proposed,
        at: now,
    };
    record(recommendations, new, |old| old.at < up && old.at < down);
    sizes.current.max(lowest).min(highest)
}

/// The size `wanted` within the rates of the rules, and the limit that applies. A size without
/// change has no limit.
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

/// The largest size that the policies allow.
fn up_limit(current: i32, history: &History, rules: &ScalingRules, now: Timestamp) -> i32 {
    let limits = rules.policies.iter().map(|policy| {
        let start = at_start(current, history, policy, now);
        match policy.kind.as_str() {
            "Percent" => percent(start, 1.0 + f64::from(policy.value) / 100.0).ceil() as i32,
            _ => start.saturating_add(policy.value),
        }
    });
    match rules.select_policy.as_str() {
        "Disabled" => current,
        "Min" => limits.min().unwrap_or(i32::MAX),
        _ => limits.max().unwrap_or(i32::MIN),
    }
}

/// The smallest size that the policies allow.
fn down_limit(current: i32, history: &History, rules: &ScalingRules, now: Timestamp) -> i32 {
    let limits = rules.policies.iter().map(|policy| {
        let start = at_start(current, history, policy, now);
        match policy.kind.as_str() {
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

fn percent(start: i32, factor: f64) -> f64 {
    f64::from(start) * factor
}

/// The size at the start of the period that ends now.
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
