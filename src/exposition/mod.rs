//! Writes metrics in the format that a client accepts: Prometheus text 0.0.4 or delimited protobuf,
//! optionally compressed.
//!
//! request headers -> negotiation -> text or protobuf -> gzip
//!
//! The encoders are our own, because those of the `prometheus` crate differ from Go's output.
//! Upstream: `prometheus/common/expfmt` and `client_golang/prometheus/promhttp`.

mod negotiation;
mod protobuf;
mod text;

use std::io::Write;

use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{self, HeaderMap, HeaderValue};
use prometheus::proto::{LabelPair, Metric, MetricFamily};

use negotiation::{Form, Format};
#[cfg(test)]
pub(crate) use text::encode;

/// The response with `families`, which must be sorted as by `Registry::gather`, for a client with
/// these request headers.
pub(crate) fn answer(families: &[MetricFamily], headers: &HeaderMap) -> Response {
    let format = Format::wanted(headers);
    let body = match format.form {
        Form::Text => text::encode(families).into_bytes(),
        Form::Protobuf => protobuf::encode(families),
    };
    let mut response = match format.gzip.then(|| compressed(&body)).transpose() {
        Ok(Some(compressed)) => ([(header::CONTENT_ENCODING, "gzip")], compressed).into_response(),
        // Writing to memory does not fail. If it did, the uncompressed body would be valid too.
        Ok(None) | Err(_) => body.into_response(),
    };
    let content_type = HeaderValue::try_from(format.content_type()).expect("it is plain text");
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, content_type);
    response
}

/// Compresses with the fastest level, because scrapes come every few seconds.
fn compressed(body: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 8), Compression::fast());
    encoder.write_all(body)?;
    encoder.finish()
}

/// Pairs of label name and value, sorted by name.
fn sorted_labels(metric: &Metric) -> Vec<(&str, &str)> {
    let mut labels: Vec<(&str, &str)> = metric
        .get_label()
        .iter()
        .map(|label| (LabelPair::name(label), label.value()))
        .collect();
    labels.sort_by_key(|(name, _)| *name);
    labels
}
