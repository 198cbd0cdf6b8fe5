//! Response bodies of refused requests, byte for byte as upstream's server writes them.
//!
//! Clients such as kubectl parse these bodies. The `Status` object is therefore written by hand in
//! upstream's field order, as JSON, YAML or protobuf. Upstream:
//! `k8s.io/apiserver/pkg/endpoints/handlers/responsewriters`.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{self, HeaderName};
use http::request::Parts;
use http::{HeaderMap, StatusCode, Uri};
use serde_json::Value;

use crate::command_line::go_bool;

pub(crate) const NOSNIFF: (HeaderName, &str) = (header::X_CONTENT_TYPE_OPTIONS, "nosniff");

/// A plain-text response.
pub(crate) fn text(status: StatusCode, body: impl Into<Body>) -> Response {
    (
        status,
        [(header::CONTENT_TYPE, "text/plain; charset=utf-8"), NOSNIFF],
        body.into(),
    )
        .into_response()
}

/// The fields of a `Status` with `status: Failure` that differ between refusals.
struct Failure<'a> {
    code: StatusCode,
    reason: &'a str,
    message: &'a str,
    /// Whether the `Status` contains the empty object `details`.
    details: bool,
}

/// The serialisation of a [`Failure`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Json,
    Yaml,
    Protobuf,
}

/// 401: every credential that the request carries was rejected.
pub(super) fn unauthorized(request: &Parts) -> Response {
    let failure = Failure {
        code: StatusCode::UNAUTHORIZED,
        reason: "Unauthorized",
        message: "Unauthorized",
        details: false,
    };
    failure.response(request)
}

/// 403: the authenticated user lacks the permission.
pub(super) fn forbidden(request: &Parts, user: &str, verb: &str, reason: &str) -> Response {
    let path = request.uri.path();
    let colon = if reason.is_empty() { "" } else { ": " };
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

/// 406: the resource exists, but not in a media type that the client accepts.
pub(crate) fn not_acceptable(request: &Parts, message: &str) -> Response {
    let failure = Failure {
        code: StatusCode::NOT_ACCEPTABLE,
        reason: "NotAcceptable",
        message,
        details: false,
    };
    failure.response(request)
}

/// Path and query of the request target. HTTP/2 requests also carry scheme and host, which
/// upstream's messages omit.
pub(crate) fn request_target(uri: &Uri) -> &str {
    uri.path_and_query()
        .map_or_else(|| uri.path(), |whole| whole.as_str())
}

/// 500: the authorizer failed, so the permission is unknown.
pub(super) fn internal_error(uri: &Uri, error: &str) -> Response {
    text(
        StatusCode::INTERNAL_SERVER_ERROR,
        sanitized(&format!(
            "Internal Server Error: {:?}: {error}",
            request_target(uri)
        )) + "\n",
    )
}

/// Escapes HTML, so that a browser does not interpret parts of the request as markup.
fn sanitized(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Whether JSON is indented: by the query parameter `pretty`, or for browsers, `curl` and `Wget`.
fn wants_indentation(request: &Parts) -> bool {
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
    /// The first supported media type in `Accept`; JSON if none is supported.
    fn accepted(headers: &HeaderMap) -> Self {
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
    /// The response in the first media type that the client accepts.
    fn response(&self, request: &Parts) -> Response {
        let form = Form::accepted(&request.headers);
        let body = match form {
            Form::Json => self.json(wants_indentation(request)).into_bytes(),
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

    /// As upstream, compact JSON ends with a line break, and indented JSON without one.
    fn json(&self, indented: bool) -> String {
        // Go's JSON encoder escapes `&` too. `sanitized` has already removed `<` and `>`.
        let message = Value::from(self.message)
            .to_string()
            .replace('&', "\\u0026");
        let reason = self.reason;
        let code = self.code.as_u16();
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

    /// Upstream's YAML encoder sorts the fields by name.
    fn yaml(&self) -> String {
        let details = if self.details { "details: {}\n" } else { "" };
        // Upstream's YAML encoder puts texts with a colon in single quotes. Inside them, only a
        // single quote is escaped, by doubling it.
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

    /// A `runtime.Unknown` that wraps a `meta/v1.Status`, after the four magic bytes of Kubernetes'
    /// protobuf encoding.
    fn protobuf(&self) -> Vec<u8> {
        // Field numbers are those of upstream's `generated.proto`. Empty messages and strings are
        // written too, because upstream's encoder does so.
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

/// Appends a length-delimited protobuf field.
fn field(out: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    out.push(number << 3 | 2);
    varint(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// Appends `value` as a protobuf varint.
fn varint(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
