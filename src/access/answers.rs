//! What refused requests are answered with, to the letter of upstream's server.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{self, HeaderName};
use http::request::Parts;
use http::{HeaderMap, StatusCode, Uri};
use serde_json::Value;

use crate::options::go_bool;

pub(crate) const NOSNIFF: (HeaderName, &str) = (header::X_CONTENT_TYPE_OPTIONS, "nosniff");

/// Plain text.
pub(crate) fn text(status: StatusCode, body: impl Into<Body>) -> Response {
    (
        status,
        [(header::CONTENT_TYPE, "text/plain; charset=utf-8"), NOSNIFF],
        body.into(),
    )
        .into_response()
}

/// A Failure, as far as it differs from one to the next.
struct Failure<'a> {
    code: StatusCode,
    reason: &'a str,
    message: &'a str,
    /// Whether there are (empty) details.
    details: bool,
}

/// How a Failure is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Json,
    Yaml,
    Protobuf,
}

/// No credentials were good.
pub(super) fn unauthorized(request: &Parts) -> Response {
    let failure = Failure {
        code: StatusCode::UNAUTHORIZED,
        reason: "Unauthorized",
        message: "Unauthorized",
        details: false,
    };
    failure.response(request)
}

/// This user may not do that.
pub(super) fn forbidden(request: &Parts, user: &str, verb: &str, reason: &str) -> Response {
    let (path, colon) = (
        request.uri.path(),
        if reason.is_empty() { "" } else { ": " },
    );
    let message = sanitized(&format!(
        "forbidden: User {user:?} cannot {verb} path {path:?}{colon}{reason}"
    ));
    let failure = Failure {
        code: StatusCode::FORBIDDEN,
        reason: "Forbidden",
        message: &message,
        details: true,
    };
    ([NOSNIFF], failure.response(request)).into_response()
}

/// What is there cannot be had in the form that was asked for.
pub(crate) fn not_acceptable(request: &Parts, message: &str) -> Response {
    let failure = Failure {
        code: StatusCode::NOT_ACCEPTABLE,
        reason: "NotAcceptable",
        message,
        details: false,
    };
    failure.response(request)
}

/// What a request asks for, as HTTP/1 writes it also where HTTP/2 names scheme and host.
pub(crate) fn asked_for(uri: &Uri) -> &str {
    uri.path_and_query()
        .map_or_else(|| uri.path(), |whole| whole.as_str())
}

/// Nobody can tell whether the user may.
pub(super) fn internal_error(uri: &Uri, error: &str) -> Response {
    text(
        StatusCode::INTERNAL_SERVER_ERROR,
        sanitized(&format!(
            "Internal Server Error: {:?}: {error}",
            asked_for(uri)
        )) + "\n",
    )
}

/// So that a browser takes nothing of it for markup.
fn sanitized(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Whether JSON is for somebody to read: asked for, or sent to a browser or a tool of the command
/// line.
fn is_for_people(request: &Parts) -> bool {
    let asked = form_urlencoded::parse(request.uri.query().unwrap_or_default().as_bytes())
        .find(|(key, _)| key == "pretty");
    if let Some((_, value)) = asked.filter(|(_, value)| !value.is_empty()) {
        return go_bool(&value).unwrap_or(false);
    }
    let agent = request
        .headers
        .get(header::USER_AGENT)
        .and_then(|agent| agent.to_str().ok())
        .unwrap_or_default();
    ["curl", "Wget", "Mozilla/5.0"]
        .iter()
        .any(|known| agent.starts_with(known))
}

impl Form {
    /// The first media type in `Accept` that can be had; JSON when there is none.
    fn asked_for(headers: &HeaderMap) -> Self {
        let lists = headers
            .get_all(header::ACCEPT)
            .into_iter()
            .filter_map(|list| list.to_str().ok());
        let mut forms = lists.flat_map(|list| list.split(',')).filter_map(|range| {
            match range.split(';').next().unwrap_or_default().trim() {
                "application/json" | "application/*" | "*/*" => Some(Self::Json),
                "application/yaml" => Some(Self::Yaml),
                "application/vnd.kubernetes.protobuf" => Some(Self::Protobuf),
                _ => None,
            }
        });
        forms.next().unwrap_or(Self::Json)
    }

    fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }
}

impl Failure<'_> {
    fn response(&self, request: &Parts) -> Response {
        let form = Form::asked_for(&request.headers);
        let body = match form {
            Form::Json => self.json(is_for_people(request)).into_bytes(),
            Form::Yaml => self.yaml().into_bytes(),
            Form::Protobuf => self.protobuf(),
        };
        (
            self.code,
            [(header::CONTENT_TYPE, form.content_type())],
            body,
        )
            .into_response()
    }

    fn json(&self, indented: bool) -> String {
        // As Go's encoder, which takes no risk with markup either.
        let message = Value::from(self.message)
            .to_string()
            .replace('&', "\\u0026");
        let (reason, code) = (self.reason, self.code.as_u16());
        let mut fields = vec![
            ("kind", "\"Status\"".to_owned()),
            ("apiVersion", "\"v1\"".to_owned()),
            ("metadata", "{}".to_owned()),
            ("status", "\"Failure\"".to_owned()),
            ("message", message),
            ("reason", format!("\"{reason}\"")),
        ];
        if self.details {
            fields.push(("details", "{}".to_owned()));
        }
        fields.push(("code", code.to_string()));
        let line = |(name, value): &(&str, String)| {
            if indented {
                format!("  \"{name}\": {value}")
            } else {
                format!("\"{name}\":{value}")
            }
        };
        let lines: Vec<String> = fields.iter().map(line).collect();
        if indented {
            format!("{{\n{}\n}}", lines.join(",\n"))
        } else {
            format!("{{{}}}\n", lines.join(","))
        }
    }

    fn yaml(&self) -> String {
        let details = if self.details { "details: {}\n" } else { "" };
        // Single quotes, as upstream's encoder writes texts with a colon; what is inside needs only
        // its own quotes doubled.
        let quoted = if self.message.contains([':', '\'', '"']) {
            format!("'{}'", self.message.replace('\'', "''"))
        } else {
            self.message.to_owned()
        };
        format!(
            "apiVersion: v1\ncode: {}\n{details}kind: Status\nmessage: {quoted}\nmetadata: {{}}\nreason: {}\nstatus: Failure\n",
            self.code.as_u16(),
            self.reason
        )
    }

    /// A `runtime.Unknown` around a `meta/v1.Status`, behind the four bytes that mark all of
    /// Kubernetes' protobuf.
    fn protobuf(&self) -> Vec<u8> {
        let mut status = Vec::new();
        field(&mut status, 1, &[0x0a, 0, 0x12, 0, 0x1a, 0]);
        field(&mut status, 2, b"Failure");
        field(&mut status, 3, self.message.as_bytes());
        field(&mut status, 4, self.reason.as_bytes());
        if self.details {
            field(
                &mut status,
                5,
                &[0x0a, 0, 0x12, 0, 0x1a, 0, 0x28, 0, 0x32, 0],
            );
        }
        status.push(6 << 3);
        varint(&mut status, usize::from(self.code.as_u16()));

        let mut kind = Vec::new();
        field(&mut kind, 1, b"v1");
        field(&mut kind, 2, b"Status");
        let mut unknown = b"k8s\0".to_vec();
        field(&mut unknown, 1, &kind);
        field(&mut unknown, 2, &status);
        field(&mut unknown, 3, b"");
        field(&mut unknown, 4, b"");
        unknown
    }
}

/// A length-delimited field.
fn field(out: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    out.push(number << 3 | 2);
    varint(out, bytes.len());
    out.extend_from_slice(bytes);
}

fn varint(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
