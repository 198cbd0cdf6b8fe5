//! Writes metrics as Prometheus protobuf messages, each preceded by its length.
//!
//! Every field is `optional` and set, so that values of zero are written too, as in Go. Upstream:
//! `io.prometheus.client` in `prometheus/client_model`.

use prometheus::proto::{self, MetricType};
use prost::Message;
use steersman_metrics::{NativeBuckets, Span, ZERO_THRESHOLD};

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
    // The native buckets.
    #[prost(sint32, optional, tag = "5")]
    schema: Option<i32>,
    #[prost(double, optional, tag = "6")]
    zero_threshold: Option<f64>,
    #[prost(uint64, optional, tag = "7")]
    zero_count: Option<u64>,
    #[prost(message, repeated, tag = "9")]
    negative_span: Vec<BucketSpan>,
    #[prost(sint64, repeated, packed = "false", tag = "10")]
    negative_delta: Vec<i64>,
    #[prost(message, repeated, tag = "12")]
    positive_span: Vec<BucketSpan>,
    #[prost(sint64, repeated, packed = "false", tag = "13")]
    positive_delta: Vec<i64>,
}

#[derive(Message)]
struct BucketSpan {
    #[prost(sint32, optional, tag = "1")]
    offset: Option<i32>,
    #[prost(uint32, optional, tag = "2")]
    length: Option<u32>,
}

impl From<Span> for BucketSpan {
    fn from(span: Span) -> Self {
        Self {
            offset: Some(span.offset),
            length: Some(span.length),
        }
    }
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
        MetricType::HISTOGRAM => {
            let mut classic = histogram(series.get_histogram());
            if let Some(native) = NativeBuckets::of(series) {
                add_native(&mut classic, &native);
            }
            metric.histogram = Some(classic);
        }
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
        ..Histogram::default()
    }
}

/// Adds the native buckets. Their number of observations becomes that of the histogram: Prometheus
/// refuses a histogram with another one, and families of labels read their native buckets after the
/// classic ones.
fn add_native(histogram: &mut Histogram, native: &NativeBuckets) {
    let (negative_span, negative_delta) = NativeBuckets::spans(&native.negative);
    let (positive_span, positive_delta) = NativeBuckets::spans(&native.positive);
    let message = |spans: Vec<Span>| spans.into_iter().map(BucketSpan::from).collect();
    histogram.sample_count = Some(native.count());
    histogram.schema = Some(native.schema);
    histogram.zero_threshold = Some(ZERO_THRESHOLD);
    histogram.zero_count = Some(native.zeros);
    histogram.negative_span = message(negative_span);
    histogram.negative_delta = negative_delta;
    histogram.positive_span = message(positive_span);
    histogram.positive_delta = positive_delta;
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

    /// A histogram of 3 and twice 0.75, as client_golang with the settings of Kubernetes writes it.
    #[test]
    fn native_buckets_follow_the_classic_ones() {
        let mut metric = proto::Metric::default();
        let mut classic = proto::Histogram::default();
        classic.set_sample_count(2);
        classic.set_sample_sum(4.5);
        metric.set_histogram(classic);
        let native = NativeBuckets {
            positive: [(-3, 2), (13, 1)].into(),
            ..NativeBuckets::default()
        };
        native.attach(&mut metric);
        let mut family = proto::MetricFamily::default();
        family.set_name("a".to_owned());
        family.set_field_type(MetricType::HISTOGRAM);
        family.set_metric(vec![metric]);

        let message = message(&family);
        let found = message.metric[0].histogram.as_ref().unwrap();
        let encoded = found.encode_to_vec();
        assert_eq!(found.sample_count, Some(3), "that of the native buckets");
        let native = [
            &[0x28, 0x06, 0x31][..],
            &ZERO_THRESHOLD.to_le_bytes(),
            &[0x38, 0x00],
            &[0x62, 0x04, 0x08, 0x05, 0x10, 0x01],
            &[0x62, 0x04, 0x08, 0x1e, 0x10, 0x01],
            &[0x68, 0x04, 0x68, 0x01],
        ];
        assert!(encoded.ends_with(&native.concat()), "{encoded:x?}");
    }
}
