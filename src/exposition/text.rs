//! Writes metrics in the text format 0.0.4, with numbers as Go prints them.
//!
//! The encoder of the `prometheus` crate prints `0.000001` where Go prints `1e-06`. That matters in
//! `le` labels, which queries compare as text.

use std::fmt::Write;

use prometheus::proto::{Metric, MetricFamily, MetricType};

/// Encodes `families`, which must be sorted as by `Registry::gather`.
pub(crate) fn encode(families: &[MetricFamily]) -> String {
    let mut out = String::new();
    for family in families
        .iter()
        .filter(|family| !family.get_metric().is_empty())
    {
        let name = family.name();
        let kind = family.get_field_type();
        let help = family.help().replace('\\', r"\\").replace('\n', r"\n");
        let kind_name = match kind {
            MetricType::COUNTER => "counter",
            MetricType::GAUGE => "gauge",
            MetricType::HISTOGRAM => "histogram",
            _ => "untyped",
        };
        let _ = write!(out, "# HELP {name} {help}\n# TYPE {name} {kind_name}\n");
        for metric in family.get_metric() {
            match kind {
                MetricType::COUNTER => sample(
                    &mut out,
                    name,
                    metric,
                    None,
                    &number(metric.get_counter().get_value()),
                ),
                MetricType::HISTOGRAM => histogram(&mut out, name, metric),
                _ => sample(
                    &mut out,
                    name,
                    metric,
                    None,
                    &number(metric.get_gauge().get_value()),
                ),
            }
        }
    }
    out
}

/// Appends the samples `_bucket`, `_sum` and `_count` of a histogram.
fn histogram(out: &mut String, name: &str, metric: &Metric) {
    let histogram = metric.get_histogram();
    let count = histogram.get_sample_count().to_string();
    let bucket = format!("{name}_bucket");
    for part in histogram
        .get_bucket()
        .iter()
        .filter(|part| part.upper_bound().is_finite())
    {
        sample(
            out,
            &bucket,
            metric,
            Some(&number(part.upper_bound())),
            &part.cumulative_count().to_string(),
        );
    }
    sample(out, &bucket, metric, Some("+Inf"), &count);
    sample(
        out,
        &format!("{name}_sum"),
        metric,
        None,
        &number(histogram.get_sample_sum()),
    );
    sample(out, &format!("{name}_count"), metric, None, &count);
}

/// Appends one sample. `bound` is the value of the label `le`.
fn sample(out: &mut String, name: &str, metric: &Metric, bound: Option<&str>, value: &str) {
    let labels = super::sorted_labels(metric).into_iter();
    let mut labels: Vec<(&str, String)> =
        labels.map(|(name, value)| (name, escape(value))).collect();
    labels.extend(bound.map(|bound| ("le", bound.to_owned())));
    out.push_str(name);
    for (at, (label, value)) in labels.iter().enumerate() {
        let _ = write!(
            out,
            "{}{label}=\"{value}\"",
            if at == 0 { '{' } else { ',' }
        );
    }
    let _ = writeln!(out, "{} {value}", if labels.is_empty() { "" } else { "}" });
}

fn escape(value: &str) -> String {
    value
        .replace('\\', r"\\")
        .replace('\n', r"\n")
        .replace('"', "\\\"")
}

/// Formats like Go's `%g`: with an exponent below 1e-04, and from 1e+06 on.
fn number(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific
        .split_once('e')
        .expect("scientific notation always has an exponent");
    let exponent: i32 = exponent.parse().expect("an exponent is a number");
    if !(-4..6).contains(&exponent) {
        return format!(
            "{mantissa}e{}{:02}",
            if exponent < 0 { '-' } else { '+' },
            exponent.abs()
        );
    }
    value.to_string()
}

#[cfg(test)]
mod tests {
    use prometheus::{Gauge, HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};

    use super::*;

    #[test]
    fn numbers_are_printed_as_in_go() {
        let cases = [
            (0.0, "0"),
            (1.0, "1"),
            (-2.5, "-2.5"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (9.999999999999999e-6, "9.999999999999999e-06"),
            (999_999.0, "999999"),
            (2_592_000.0, "2.592e+06"),
            (18_446_744_073_709_551_615.0, "1.8446744073709552e+19"),
            (f64::INFINITY, "+Inf"),
            (f64::NAN, "NaN"),
        ];
        for (value, printed) in cases {
            assert_eq!(number(value), printed);
        }
    }

    #[test]
    fn families_have_the_layout_of_prometheus() {
        let registry = Registry::new();
        let gauge = Gauge::new("b_gauge", "[ALPHA] A \\ gauge.").unwrap();
        gauge.set(1_500_000.0);
        let counter =
            IntCounterVec::new(Opts::new("a_total", "[STABLE] Things."), &["z", "a"]).unwrap();
        counter.with_label_values(&["say \"hi\"", "x"]).inc();
        let histogram = HistogramOpts::new("c_seconds", "Time.").buckets(vec![1e-8, 1.0]);
        let histogram = HistogramVec::new(histogram, &["name"]).unwrap();
        histogram.with_label_values(&["q"]).observe(0.5);
        registry.register(Box::new(gauge)).unwrap();
        registry.register(Box::new(counter)).unwrap();
        registry.register(Box::new(histogram)).unwrap();
        let expected = r##"# HELP a_total [STABLE] Things.
# TYPE a_total counter
a_total{a="x",z="say \"hi\""} 1
# HELP b_gauge [ALPHA] A \\ gauge.
# TYPE b_gauge gauge
b_gauge 1.5e+06
# HELP c_seconds Time.
# TYPE c_seconds histogram
c_seconds_bucket{name="q",le="1e-08"} 0
c_seconds_bucket{name="q",le="1"} 1
c_seconds_bucket{name="q",le="+Inf"} 1
c_seconds_sum{name="q"} 0.5
c_seconds_count{name="q"} 1
"##;
        assert_eq!(encode(&registry.gather()), expected);
    }
}
