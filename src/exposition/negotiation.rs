//! Content negotiation of metrics by upstream's rules: `Accept` selects text or protobuf,
//! `Accept-Encoding` selects compression.
//!
//! Upstream: `expfmt.Negotiate` of `prometheus/common`, and `promhttp` for gzip.

use http::HeaderMap;
use http::header::{ACCEPT, ACCEPT_ENCODING};

/// The serialisation of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Protobuf,
}

/// The negotiated format of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Format {
    pub(super) form: Form,
    /// The escaping scheme to report. Our names consist of characters that need no escaping.
    escaping: &'static str,
    pub(super) gzip: bool,
}

const ESCAPINGS: [&str; 4] = ["underscores", "allow-utf-8", "dots", "values"];
const PROTOBUF: &str = "application/vnd.google.protobuf";
const MESSAGE: &str = "io.prometheus.client.MetricFamily";

impl Format {
    /// The format that a client with these headers prefers. Text is the fallback, so every client
    /// gets a response.
    pub(super) fn wanted(headers: &HeaderMap) -> Self {
        let accept = headers
            .get(ACCEPT)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        let (form, escaping) = form(accept);
        Self {
            form,
            escaping,
            gzip: prefers_gzip(headers),
        }
    }

    /// The value of `Content-Type`.
    pub(super) fn content_type(self) -> String {
        let escaping = self.escaping;
        match self.form {
            Form::Text => format!("text/plain; version=0.0.4; charset=utf-8; escaping={escaping}"),
            Form::Protobuf => {
                format!("{PROTOBUF}; proto={MESSAGE}; encoding=delimited; escaping={escaping}")
            }
        }
    }
}

/// The first supported range in `Accept`, with the last escaping scheme named up to there.
fn form(accept: &str) -> (Form, &'static str) {
    let mut escaping = ESCAPINGS[0];
    let mut ranges: Vec<Range<'_>> = accept.split(',').filter_map(Range::parse).collect();
    ranges.sort_by(|a, b| {
        b.quality
            .total_cmp(&a.quality)
            .then(a.is_any().cmp(&b.is_any()))
    });
    for range in ranges {
        if let Some(known) = ESCAPINGS
            .into_iter()
            .find(|known| range.parameter("escaping") == Some(known))
        {
            escaping = known;
        }
        let parameter = |name: &str| range.parameter(name).unwrap_or_default();
        if range.kind == PROTOBUF
            && parameter("proto") == MESSAGE
            && parameter("encoding") == "delimited"
        {
            return (Form::Protobuf, escaping);
        }
        if range.kind == "text/plain" && ["", "0.0.4"].contains(&parameter("version")) {
            return (Form::Text, escaping);
        }
    }
    (Form::Text, escaping)
}

/// One media range or coding of a header, with its quality.
struct Range<'a> {
    kind: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    quality: f32,
}

impl<'a> Range<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let kind = parts.next().filter(|kind| !kind.is_empty())?;
        let mut range = Self {
            kind,
            parameters: Vec::new(),
            quality: 1.0,
        };
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            match (name.trim(), value.trim()) {
                ("q", quality) => range.quality = quality.parse().unwrap_or(0.0),
                parameter => range.parameters.push(parameter),
            }
        }
        Some(range)
    }

    fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| *value)
    }

    fn is_any(&self) -> bool {
        self.kind.starts_with('*')
    }
}

/// Whether the client prefers gzip to no compression.
fn prefers_gzip(headers: &HeaderMap) -> bool {
    let lists = headers
        .get_all(ACCEPT_ENCODING)
        .into_iter()
        .filter_map(|list| list.to_str().ok());
    let codings: Vec<Range<'_>> = lists
        .flat_map(|list| list.split(','))
        .filter_map(Range::parse)
        .collect();
    let liking = |coding: &str| {
        let matching = codings
            .iter()
            .filter(|range| [coding, "*"].contains(&range.kind));
        matching.map(|range| range.quality).fold(-1.0, f32::max)
    };
    let gzip = liking("gzip");
    gzip > 0.0 && gzip > liking("identity")
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_preferred_supported_format_is_used_with_text_as_fallback() {
        let delimited = format!("{PROTOBUF};proto={MESSAGE};encoding=delimited");
        let text = "text/plain; version=0.0.4; charset=utf-8";
        let protobuf = format!("{PROTOBUF}; proto={MESSAGE}; encoding=delimited");
        // (Accept, content type without escaping, escaping)
        let cases = [
            ("", text, "underscores"),
            ("*/*", text, "underscores"),
            ("text/plain", text, "underscores"),
            ("application/json", text, "underscores"),
            (
                "application/openmetrics-text;version=1.0.0",
                text,
                "underscores",
            ),
            (
                "text/plain;version=0.0.4;escaping=allow-utf-8",
                text,
                "allow-utf-8",
            ),
            ("text/plain;escaping=dots", text, "dots"),
            ("text/plain;escaping=nonsense", text, "underscores"),
            (delimited.as_str(), protobuf.as_str(), "underscores"),
            (
                &format!("{delimited};q=0.7,text/plain;version=0.0.4;q=0.3"),
                &protobuf,
                "underscores",
            ),
            (
                &format!("text/plain;q=0.7, {delimited};q=0.3"),
                text,
                "underscores",
            ),
            (
                &format!("{PROTOBUF};proto={MESSAGE};encoding=text"),
                text,
                "underscores",
            ),
            (
                &format!("{PROTOBUF};encoding=delimited"),
                text,
                "underscores",
            ),
            // The header of Prometheus 3, without and with native histograms.
            (
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,\
                 text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
                text,
                "allow-utf-8",
            ),
            (
                &format!(
                    "{delimited};q=0.6,application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,*/*;q=0.2"
                ),
                &protobuf,
                "underscores",
            ),
        ];
        for (accept, kind, escaping) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::try_from(accept).unwrap());
            assert_eq!(
                Format::wanted(&headers).content_type(),
                format!("{kind}; escaping={escaping}"),
                "{accept:?}"
            );
        }
        assert_eq!(
            Format::wanted(&HeaderMap::new()),
            Format {
                form: Form::Text,
                escaping: "underscores",
                gzip: false
            }
        );
    }

    #[test]
    fn gzip_is_used_if_preferred_to_no_compression() {
        let cases: [(&[&str], bool); 11] = [
            (&["gzip"], true),
            (&["gzip, deflate, br"], true),
            (&["deflate", "gzip;q=0.5"], true),
            (&["zstd, br, deflate"], false),
            (&["*"], false),
            (&["identity"], false),
            (&["gzip, identity"], false),
            (&["gzip, identity;q=0.5"], true),
            (&["gzip;q=0"], false),
            (&["gzip;q=much"], false),
            (&[], false),
        ];
        for (lists, gzip) in cases {
            let mut headers = HeaderMap::new();
            for list in lists {
                headers.append(ACCEPT_ENCODING, HeaderValue::from_static(list));
            }
            assert_eq!(Format::wanted(&headers).gzip, gzip, "{lists:?}");
        }
    }
}
