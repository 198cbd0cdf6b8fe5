//! `--allow-metric-labels`: replaces unexpected label values, and merges the affected series.
//!
//! A label value outside the allow list becomes `unexpected`, which bounds the number of series.
//! Upstream replaces values when it counts, Steersman when it serves `/metrics`; the output is the
//! same. Upstream: `k8s.io/component-base/metrics` (`opts.go`).

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use prometheus::proto::{Bucket, Counter, Gauge, Histogram, Metric, MetricFamily, MetricType};
use steersman_metrics::NativeBuckets;

use crate::config::AllowedValues;

/// The replacement of values outside the allow list.
const UNEXPECTED: &str = "unexpected";

/// Replaces values in `families` that `allowed` does not contain. Returns how many observations had
/// such values.
pub(crate) fn constrain(families: &mut [MetricFamily], allowed: &AllowedValues) -> u64 {
    let concerned = families
        .iter_mut()
        .filter_map(|family| Some((allowed.get(family.name())?, family)));
    concerned
        .map(|(labels, family)| merge_unexpected(family, labels))
        .sum()
}

/// Replaces unexpected values in one family, and adds up the series that become equal. Returns the
/// number of observations with unexpected values.
fn merge_unexpected(
    family: &mut MetricFamily,
    allowed: &BTreeMap<String, BTreeSet<String>>,
) -> u64 {
    let kind = family.get_field_type();
    let mut series: BTreeMap<Vec<(String, String)>, Metric> = BTreeMap::new();
    let mut unexpected = 0;
    for mut metric in family.take_metric() {
        for label in metric.mut_label() {
            if allowed
                .get(label.name())
                .is_some_and(|values| !values.contains(label.value()))
            {
                label.set_value(UNEXPECTED.to_owned());
            }
        }
        let labels: Vec<_> = metric
            .get_label()
            .iter()
            .map(|label| (label.name().to_owned(), label.value().to_owned()))
            .collect();
        let replaced = labels
            .iter()
            .filter(|(name, value)| value == UNEXPECTED && allowed.contains_key(name))
            .count();
        unexpected += replaced as u64 * times(&metric, kind);
        match series.entry(labels) {
            Entry::Vacant(place) => drop(place.insert(metric)),
            Entry::Occupied(mut place) => add(place.get_mut(), &metric, kind),
        }
    }
    family.set_metric(series.into_values().collect());
    unexpected
}

/// Number of observations in a series. A gauge does not record it and counts as one.
fn times(metric: &Metric, kind: MetricType) -> u64 {
    match kind {
        MetricType::COUNTER => metric.get_counter().get_value() as u64,
        MetricType::HISTOGRAM => metric.get_histogram().get_sample_count(),
        _ => 1,
    }
}

/// Adds the values of `other` to `sum`.
fn add(sum: &mut Metric, other: &Metric, kind: MetricType) {
    match kind {
        MetricType::COUNTER => {
            let mut counter = Counter::default();
            counter.set_value(sum.get_counter().get_value() + other.get_counter().get_value());
            sum.set_counter(counter);
        }
        MetricType::HISTOGRAM => {
            let one = sum.get_histogram();
            let two = other.get_histogram();
            let mut histogram = Histogram::default();
            histogram.set_sample_count(one.get_sample_count() + two.get_sample_count());
            histogram.set_sample_sum(one.get_sample_sum() + two.get_sample_sum());
            // All series of a family have the same bucket bounds.
            let both = one.get_bucket().iter().zip(two.get_bucket());
            histogram.set_bucket(both.map(|(one, two)| add_bucket(one, two)).collect());
            sum.set_histogram(histogram);
            if let Some((mut native, more)) = NativeBuckets::of(sum).zip(NativeBuckets::of(other)) {
                native.add(more);
                native.attach(sum);
            }
        }
        _ => {
            let mut gauge = Gauge::default();
            gauge.set_value(sum.get_gauge().get_value() + other.get_gauge().get_value());
            sum.set_gauge(gauge);
        }
    }
}

fn add_bucket(one: &Bucket, two: &Bucket) -> Bucket {
    let mut bucket = Bucket::default();
    bucket.set_upper_bound(one.upper_bound());
    bucket.set_cumulative_count(one.cumulative_count() + two.cumulative_count());
    bucket
}

#[cfg(test)]
mod tests {
    use prometheus::{GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};

    use super::*;
    use crate::exposition;

    #[test]
    fn series_with_unexpected_label_values_are_merged() {
        let registry = Registry::new();
        let counter = IntCounterVec::new(Opts::new("c", "."), &["code", "verb"]).unwrap();
        for (code, verb, count) in [
            ("200", "GET", 1),
            ("404", "GET", 2),
            ("500", "GET", 3),
            ("500", "PUT", 4),
            ("unexpected", "PUT", 5),
        ] {
            counter.with_label_values(&[code, verb]).inc_by(count);
        }
        let gauge = GaugeVec::new(Opts::new("g", "."), &["name"]).unwrap();
        for (name, value) in [("a", 1.5), ("b", 2.0), ("c", 4.0)] {
            gauge.with_label_values(&[name]).set(value);
        }
        let histogram = HistogramVec::new(
            HistogramOpts::new("h", ".").buckets(vec![1.0, 2.0]),
            &["name"],
        )
        .unwrap();
        for (name, value) in [("a", 0.5), ("b", 1.5), ("c", 9.0)] {
            histogram.with_label_values(&[name]).observe(value);
        }
        registry.register(Box::new(counter)).unwrap();
        registry.register(Box::new(gauge)).unwrap();
        registry.register(Box::new(histogram)).unwrap();

        let list = |metric: &str, label: &str, values: &[&str]| {
            let values = values.iter().map(|value| (*value).to_owned()).collect();
            (
                metric.to_owned(),
                BTreeMap::from([(label.to_owned(), values)]),
            )
        };
        let allowed = AllowedValues::from([
            list("c", "code", &["200", "500"]),
            list("g", "name", &["a"]),
            list("h", "name", &[]),
            list("unused", "name", &[]),
        ]);
        let mut families = registry.gather();
        // 2 and 5 from the counter, two gauges, three observations of the histogram.
        assert_eq!(constrain(&mut families, &allowed), 2 + 5 + 2 + 3);
        let expected = r#"# HELP c .
# TYPE c counter
c{code="200",verb="GET"} 1
c{code="500",verb="GET"} 3
c{code="500",verb="PUT"} 4
c{code="unexpected",verb="GET"} 2
c{code="unexpected",verb="PUT"} 5
# HELP g .
# TYPE g gauge
g{name="a"} 1.5
g{name="unexpected"} 6
# HELP h .
# TYPE h histogram
h_bucket{name="unexpected",le="1"} 1
h_bucket{name="unexpected",le="2"} 2
h_bucket{name="unexpected",le="+Inf"} 3
h_sum{name="unexpected"} 11
h_count{name="unexpected"} 3
"#;
        assert_eq!(exposition::encode(&families), expected);
    }
}
