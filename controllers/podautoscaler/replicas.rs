//! The size that one metric proposes.
//!
//! Ratios are `f64`, and values are thousandths in `i64`, as upstream's: rounding decides sizes.
//! Example: four pods, a target of 50 %, usages of 90 % for three of them, and no sample of the
//! fourth. The ratio is 90/50 = 1.8. The missing pod counts as idle, so the second ratio is
//! 67/50 = 1.34, and the proposal is ceil(1.34 x 4) = 6.
//!
//! Upstream: `replica_calculator.go` and `metrics/utilization.go`.

use std::sync::Arc;

use steersman_objects::{AutoscalerBehavior, Phase, Pod};
use steersman_values::quantity::Quantity;

use super::pods::{Groups, Requests, Sample, Samples};
use super::problem::{CalculationError, Problem};

/// Relative deviations of a ratio from 1.0 that cause no change. The flag gives both the same value.
/// `spec.behavior` may set them apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Tolerances {
    /// Below 1.0.
    pub(super) down: f64,
    /// Above 1.0.
    pub(super) up: f64,
}

impl Tolerances {
    /// Those of the rules, else `common`. Upstream: `tolerancesForHpa`.
    pub(super) fn of(rules: Option<&AutoscalerBehavior>, common: f64) -> Self {
        let own = |tolerance: Option<Quantity>| tolerance.map_or(common, Quantity::to_f64);
        Self {
            down: own(rules.and_then(|rules| rules.scale_down.tolerance.0)),
            up: own(rules.and_then(|rules| rules.scale_up.tolerance.0)),
        }
    }

    // Both ends belong to the range. A ratio that is no number (0 of 0) is outside.
    pub(super) fn contain(self, ratio: f64) -> bool {
        (1.0 - self.down..=1.0 + self.up).contains(&ratio)
    }
}

/// A proposal, with the value of the metric for the status. All functions of this module return the current
/// size for "no change".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Proposal<T> {
    /// The proposed size.
    pub(super) replicas: i32,
    /// The value as measured, before missing pods were filled in. The status shows it, so users see measured
    /// values and never assumed ones.
    pub(super) value: T,
}

/// Mean use of the pods. Upstream: `GetResourceUtilizationRatio`. The percentage is that of all pods
/// together, so a pod with large requests weighs more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Utilization {
    /// Percent of the requests.
    pub(super) percent: i32,
    /// Thousandths per pod. Its unit is that of the resource: thousandths of cores or of bytes.
    pub(super) average: i64,
}

/// The size for a target in percent of the requests. `samples` may include other pods, which count
/// only for the number of samples.
///
/// Upstream: `GetResourceReplicas`. `requests` is called after the check of samples, since its failure has
/// the lower rank.
pub(super) fn by_utilization(
    current: i32,
    target: i32,
    tolerances: Tolerances,
    groups: &Groups,
    samples: Samples,
    requests: impl FnOnce() -> Result<Requests, CalculationError>,
) -> Result<Proposal<Utilization>, CalculationError> {
    let samples = counted(groups, samples)?;
    let requests = requests()?;
    // A pod that uses all of its request keeps a target above 100 % from falling further.
    let fallback = i64::from(target.max(100));
    let fill = |pod: &str| {
        // `requests` fails if a request is missing, so the default is only a guard.
        let request = requests.get(pod).copied().unwrap_or_default();
        request.saturating_mul(fallback) / 100
    };
    by_samples(current, tolerances, groups, samples, fill, |samples| {
        let used = utilization(samples, &requests)?;
        // The whole percent is the base of the ratio, as upstream: 90.9 % counts as 90 %.
        Ok((f64::from(used.percent) / f64::from(target), used))
    })
}

fn utilization(samples: &Samples, requests: &Requests) -> Result<Utilization, Problem> {
    // 128 bits hold the sums of any samples. Upstream's sums in 64 bits overflow for absurd values.
    let mut used = 0_i128;
    let mut requested = 0_i128;
    let mut count = 0_i128;
    for (pod, sample) in samples {
        // The pod of another sample is gone, or the cache does not show it yet.
        if let Some(request) = requests.get(pod) {
            used += i128::from(sample.value);
            requested += i128::from(*request);
            count += 1;
        }
    }
    // Zero means that no sample has a request, or that all requests are zero.
    if requested == 0 {
        return Err(Problem::OtherPods);
    }
    let percent = (used * 100 / requested).clamp(i32::MIN.into(), i32::MAX.into());
    Ok(Utilization {
        percent: percent as i32,
        average: clamped(used / count),
    })
}

/// The size for a target value per pod. Upstream: `calcPlainMetricReplicas`. `target` is in thousandths, for
/// resources as well as for other metrics.
pub(super) fn by_value(
    current: i32,
    target: i64,
    tolerances: Tolerances,
    groups: &Groups,
    samples: Samples,
) -> Result<Proposal<i64>, CalculationError> {
    let samples = counted(groups, samples)?;
    let fill = |_: &str| target;
    by_samples(current, tolerances, groups, samples, fill, |samples| {
        let sum: i128 = samples
            .values()
            .map(|sample| i128::from(sample.value))
            .sum();
        // Whole thousandths, cut off like Go's division. `counted` has excluded an empty list; `max` only
        // guards.
        let average = clamped(sum / samples.len().max(1) as i128);
        Ok((average as f64 / target as f64, average))
    })
}

/// The samples without those of ending and unready pods. Upstream: `removeMetricsForPods`, twice. Samples of
/// pods that the cache lacks remain, and count in averages.
fn counted(groups: &Groups, mut samples: Samples) -> Result<Samples, Problem> {
    samples.retain(|pod, _| !groups.ignored.contains(pod) && !groups.unready.contains(pod));
    if samples.is_empty() {
        return Err(Problem::NoSamples);
    }
    Ok(samples)
}

/// The size for counted samples. `measure` computes the ratio and the shown value of samples.
/// `fill` is the value of a missing pod while the target shrinks; while it grows, the pod is idle.
///
/// A second look with the missing pods may end the change, but never reverses it.
///
/// Upstream has this text twice, in `GetResourceReplicas` and `calcPlainMetricReplicas`. The tolerance is
/// checked after the missing pods are known, since they may move the ratio back into it.
fn by_samples<T>(
    current: i32,
    tolerances: Tolerances,
    groups: &Groups,
    mut samples: Samples,
    fill: impl Fn(&str) -> i64,
    measure: impl Fn(&Samples) -> Result<(f64, T), Problem>,
) -> Result<Proposal<T>, CalculationError> {
    let (ratio, value) = measure(&samples)?;
    let proposal = |replicas| Ok(Proposal { replicas, value });
    // Unready pods matter for growth only: they will take load soon. While the target shrinks, they are left
    // out.
    let grows_with_unready = !groups.unready.is_empty() && ratio > 1.0;
    // Without unknown pods, the ratio applies to the ready ones alone.
    if !grows_with_unready && groups.missing.is_empty() {
        return proposal(if tolerances.contain(ratio) {
            current
        } else {
            ceil(ratio * groups.ready as f64)
        });
    }
    // As upstream, a ratio of exactly 1.0 adds no sample.
    if ratio < 1.0 {
        let missing = groups.missing.iter();
        samples.extend(missing.map(|pod| (Arc::clone(pod), Sample::assumed(fill(pod)))));
    } else if ratio > 1.0 {
        let idle = groups.missing.iter();
        let idle = idle.chain(groups.unready.iter().filter(|_| grows_with_unready));
        samples.extend(idle.map(|pod| (Arc::clone(pod), Sample::assumed(0))));
    }
    let (second, _) = measure(&samples)?;
    // More load than the target per pod cannot mean fewer pods: assumed samples would then turn the
    // direction.
    let turns = (ratio < 1.0 && second > 1.0) || (ratio > 1.0 && second < 1.0);
    if turns || tolerances.contain(second) {
        return proposal(current);
    }
    // The base includes assumed samples, so the number of samples may move the size the other way.
    let replicas = ceil(second * samples.len() as f64);
    let turns = (second < 1.0 && replicas > current) || (second > 1.0 && replicas < current);
    proposal(if turns { current } else { replicas })
}

/// The size for one value of the whole target: `usage` and `target` in thousandths. The base is the
/// number of ready pods, and from zero there is none.
///
/// Upstream: `GetObjectMetricReplicas`, `GetExternalMetricReplicas` and `getUsageRatioReplicaCount`. From
/// zero, the ratio itself is the size, since no pod shares the load.
pub(super) fn by_ratio(
    current: i32,
    usage: i64,
    target: i64,
    tolerances: Tolerances,
    pods: impl FnOnce() -> Vec<Arc<Pod>>,
) -> Result<Proposal<i64>, CalculationError> {
    let ratio = usage as f64 / target as f64;
    let replicas = if current == 0 {
        ceil(ratio)
    } else if tolerances.contain(ratio) {
        current
    } else {
        let pods = pods();
        if pods.is_empty() {
            return Err(Problem::ReadyPods(Box::new(Problem::NoPods)).into());
        }
        // Upstream's `getReadyPodsCount` includes pods that terminate, as long as they are ready.
        let is_ready = |pod: &&Arc<Pod>| pod.phase == Phase::Running && pod.is_ready();
        ceil(ratio * pods.iter().filter(is_ready).count() as f64)
    };
    Ok(Proposal {
        replicas,
        value: usage,
    })
}

/// The size for one value that the pods share: `usage` and the `target` per pod in thousandths. The
/// base is the observed size of the target.
///
/// Within the tolerance the target keeps its `current` size, as for all other metrics. Upstream
/// takes the observed size, which includes the surge of a rollout: with 10 wanted pods and 3 pods of
/// surge, a load for 13 pods keeps 10 here. Upstream scales to 13, and adds the surge of that size in
/// the next step (kubernetes/kubernetes#138505). A size of 0 has no tolerance, as in [`by_ratio`].
pub(super) fn by_share(
    current: i32,
    observed: i32,
    usage: i64,
    target: i64,
    tolerances: Tolerances,
) -> Proposal<i64> {
    let ratio = usage as f64 / (target as f64 * f64::from(observed));
    let replicas = if current != 0 && tolerances.contain(ratio) {
        current
    } else {
        ceil(usage as f64 / target as f64)
    };
    // An overflow stays at the largest number, as upstream. A mean of it would look like a measured value.
    let value = if usage == i64::MAX {
        usage
    } else {
        whole((usage as f64 / f64::from(observed)).ceil())
    };
    Proposal { replicas, value }
}

/// The size for a `ratio` of all `current` pods.
pub(super) fn at_ratio(current: i32, ratio: f64, tolerances: Tolerances) -> i32 {
    if tolerances.contain(ratio) {
        current
    } else {
        ceil(ratio * f64::from(current))
    }
}

/// `size` rounded up. Sizes beyond 32 bits are cut. Upstream converts without a check in most places; the
/// result then depends on the processor.
fn ceil(size: f64) -> i32 {
    size.ceil() as i32
}

/// `value` as Go converts it on amd64: values outside the range, such as those of a division by zero,
/// are the smallest integer.
fn whole(value: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&value) {
        value as i64
    } else {
        i64::MIN
    }
}

/// The status shows such a value in place of a wrapped one.
fn clamped(value: i128) -> i64 {
    value.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// kubernetes/kubernetes#138505: 10 pods are wanted, and a rollout adds pods of surge.
    #[test]
    fn a_share_within_the_tolerance_keeps_the_wanted_size() {
        let tolerances = Tolerances { down: 0.1, up: 0.1 };
        // (wanted, observed, usage per target, size)
        let cases = [
            (10, 10, 10.5, 10),
            (10, 13, 13.0, 10),
            (10, 13, 12.0, 10),
            (10, 7, 7.0, 10),
            (10, 13, 20.0, 20),
            (10, 13, 5.0, 5),
            (10, 0, 5.0, 5),
            (0, 2, 2.0, 2),
            (0, 0, 0.0, 0),
        ];
        for (current, observed, load, expected) in cases {
            let usage = (load * 1000.0) as i64;
            let found = by_share(current, observed, usage, 1000, tolerances);
            assert_eq!(found.replicas, expected, "{current} {observed} {load}");
        }
    }
}
