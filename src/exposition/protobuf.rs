//! Writes metrics as Prometheus protobuf messages, each preceded by its length.
//!
//! Every field is `optional` and set, so that values of zero are written too, as in Go. Upstream:
//! `io.prometheus.client` in `prometheus/client_model`.

use prometheus::proto::{self, MetricType};
use prost::Message;

#[derive(Message)]
struct MetricFamily {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(string, optional, tag = "2")]
    help: Option<String>,
    #[prost(int32, optional, tag = "3")]
    kind: Option<i32>,
    #[prost(message, repeated, tag = "4")]
    metric: Vec<Metric>,
}

#[derive(Message)]
struct Metric {
    #[prost(message, repeated, tag = "1")]
    label: Vec<LabelPair>,
    #[prost(message, optional, tag = "2")]
    gauge: Option<Value>,
    #[prost(message, optional, tag = "3")]
    counter: Option<Value>,
    #[prost(message, optional, tag = "7")]
    histogram: Option<Histogram>,
}

#[derive(Message)]
struct LabelPair {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(string, optional, tag = "2")]
    value: Option<String>,
}

/// The message of a gauge or of a counter.
#[derive(Message)]
struct Value {
    #[prost(double, optional, tag = "1")]
    value: Option<f64>,
}

#[derive(Message)]
struct Histogram {
    #[prost(uint64, optional, tag = "1")]
    sample_count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    sample_sum: Option<f64>,
    #[prost(message, repeated, tag = "3")]
    bucket: Vec<Bucket>,
}

#[derive(Message)]
struct Bucket {
    #[prost(uint64, optional, tag = "1")]
    cumulative_count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    upper_bound: Option<f64>,
}

/// Encodes `families`, which must be sorted as by `Registry::gather`.
pub(super) fn encode(families: &[proto::MetricFamily]) -> Vec<u8> {
    let shown = families
        .iter()
        .filter(|family| !family.get_metric().is_empty());
    shown
        .flat_map(|family| message(family).encode_length_delimited_to_vec())
        .collect()
}

fn message(family: &proto::MetricFamily) -> MetricFamily {
    let kind = family.get_field_type();
    MetricFamily {
        name: Some(family.name().to_owned()),
        help: Some(family.help().to_owned()),
        kind: Some(match kind {
            // Numbers of `io.prometheus.client.MetricType`.
            MetricType::COUNTER => 0,
            MetricType::HISTOGRAM => 4,
            _ => 1,
        }),
        metric: family
            .get_metric()
            .iter()
            .map(|series| metric(series, kind))
            .collect(),
    }
}

fn metric(series: &proto::Metric, kind: MetricType) -> Metric {
    let label = super::sorted_labels(series)
        .into_iter()
        .map(|(name, value)| LabelPair {
            name: Some(name.to_owned()),
            value: Some(value.to_owned()),
        })
        .collect();
    let mut metric = Metric {
        label,
        gauge: None,
        counter: None,
        histogram: None,
    };
    match kind {
        MetricType::COUNTER => {
            metric.counter = Some(Value {
                value: Some(series.get_counter().get_value()),
            })
        }
        MetricType::HISTOGRAM => metric.histogram = Some(histogram(series.get_histogram())),
        _ => {
            metric.gauge = Some(Value {
                value: Some(series.get_gauge().get_value()),
            })
        }
    }
    metric
}

/// Without the bucket `+Inf`: its count is the sample count.
fn histogram(histogram: &proto::Histogram) -> Histogram {
    let buckets = histogram
        .get_bucket()
        .iter()
        .filter(|bucket| bucket.upper_bound().is_finite());
    Histogram {
        sample_count: Some(histogram.get_sample_count()),
        sample_sum: Some(histogram.get_sample_sum()),
        bucket: buckets
            .map(|bucket| Bucket {
                cumulative_count: Some(bucket.cumulative_count()),
                upper_bound: Some(bucket.upper_bound()),
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use prometheus::{GaugeVec, HistogramOpts, IntCounter, Opts, Registry};

    use super::*;

    #[test]
    fn families_are_encoded_with_all_values() {
        let registry = Registry::new();
        registry
            .register(Box::new(IntCounter::new("a_total", "[ALPHA] A.").unwrap()))
            .unwrap();
        let gauge = GaugeVec::new(Opts::new("b", "[BETA] B."), &["z", "y"]).unwrap();
        gauge.with_label_values(&["1", "2"]).set(-0.5);
        registry.register(Box::new(gauge)).unwrap();
        let histogram =
            prometheus::Histogram::with_opts(HistogramOpts::new("c", "C.").buckets(vec![1.0, 2.0]))
                .unwrap();
        histogram.observe(1.5);
        histogram.observe(3.0);
        registry.register(Box::new(histogram)).unwrap();

        let encoded = encode(&registry.gather());
        let mut rest = &encoded[..];
        let mut found = Vec::new();
        while !rest.is_empty() {
            found.push(MetricFamily::decode_length_delimited(&mut rest).unwrap());
        }
        let [counter, gauge, histogram] = &found[..] else {
            panic!("{found:?}")
        };
        assert_eq!(
            (
                counter.name.as_deref(),
                counter.help.as_deref(),
                counter.kind
            ),
            (Some("a_total"), Some("[ALPHA] A."), Some(0))
        );
        assert_eq!(
            counter.metric[0].counter.as_ref().unwrap().value,
            Some(0.0),
            "zero is a value"
        );
        assert_eq!(
            (gauge.kind, gauge.metric[0].gauge.as_ref().unwrap().value),
            (Some(1), Some(-0.5))
        );
        let labels: Vec<_> = gauge.metric[0]
            .label
            .iter()
            .map(|label| (label.name.as_deref(), label.value.as_deref()))
            .collect();
        assert_eq!(labels, [(Some("y"), Some("2")), (Some("z"), Some("1"))]);
        let values = histogram.metric[0].histogram.as_ref().unwrap();
        let buckets: Vec<_> = values
            .bucket
            .iter()
            .map(|bucket| (bucket.upper_bound, bucket.cumulative_count))
            .collect();
        assert_eq!(buckets, [(Some(1.0), Some(0)), (Some(2.0), Some(1))]);
        assert_eq!(
            (histogram.kind, values.sample_count, values.sample_sum),
            (Some(4), Some(2), Some(4.5))
        );
    }
}
