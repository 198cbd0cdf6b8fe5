//! Metrics as clients want them: Prometheus text 0.0.4 or delimited protobuf, compressed or not.
//!
//! headers -> negotiation -> text or protobuf -> gzip

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

/// `families`, which are sorted as `Registry::gather` gives them, for a client with these headers.
pub(crate) fn answer(families: &[MetricFamily], headers: &HeaderMap) -> Response {
    let format = Format::wanted(headers);
    let body = match format.form {
        Form::Text => text::encode(families).into_bytes(),
        Form::Protobuf => protobuf::encode(families),
    };
    let mut response = match format.gzip.then(|| compressed(&body)).transpose() {
        Ok(Some(compressed)) => ([(header::CONTENT_ENCODING, "gzip")], compressed).into_response(),
        // As it is, should it not go otherwise: writing to memory does not fail.
        Ok(None) | Err(_) => body.into_response(),
    };
    let content_type = HeaderValue::try_from(format.content_type()).expect("it is plain text");
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, content_type);
    response
}

/// Quickly rather than well: scrapes come every few seconds.
fn compressed(body: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 8), Compression::fast());
    encoder.write_all(body)?;
    encoder.finish()
}

/// Names and values of labels, by name.
fn sorted_labels(metric: &Metric) -> Vec<(&str, &str)> {
    let mut labels: Vec<(&str, &str)> = metric
        .get_label()
        .iter()
        .map(|label| (LabelPair::name(label), label.value()))
        .collect();
    labels.sort_by_key(|(name, _)| *name);
    labels
}
