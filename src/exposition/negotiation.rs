//! Which form of metrics a client gets, by upstream's rules: text or protobuf by `Accept`,
//! compressed by `Accept-Encoding`.

use http::HeaderMap;
use http::header::{ACCEPT, ACCEPT_ENCODING};

/// How metrics are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Protobuf,
}

/// What a client is answered with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Format {
    pub(super) form: Form,
    /// How names are to be escaped; none of ours has to be.
    escaping: &'static str,
    pub(super) gzip: bool,
}

const ESCAPINGS: [&str; 4] = ["underscores", "allow-utf-8", "dots", "values"];
const PROTOBUF: &str = "application/vnd.google.protobuf";
const MESSAGE: &str = "io.prometheus.client.MetricFamily";

impl Format {
    /// What the client of these headers prefers, of what there is. There is no client without an
    /// answer.
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

/// The first range of `Accept` that can be had, and what was said of escaping until there.
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

/// One range of `Accept`.
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

/// Whether gzip is accepted more gladly than nothing at all.
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
    fn the_form_is_the_one_liked_best_and_text_in_doubt() {
        let delimited = format!("{PROTOBUF};proto={MESSAGE};encoding=delimited");
        let (text, protobuf) = (
            "text/plain; version=0.0.4; charset=utf-8",
            format!("{PROTOBUF}; proto={MESSAGE}; encoding=delimited"),
        );
        // (Accept, the content type but for the escaping, the escaping)
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
            // What Prometheus 3 asks for, without and with native histograms.
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
    fn gzip_is_used_when_it_is_liked_better_than_nothing() {
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
