//! Reads request bodies: media types, and the errors of bodies that have no value.
//!
//! Upstream: `transformDecodeError` of `apiserver/pkg/endpoints/handlers/rest.go`.

use serde_json::{Map, Value};

use super::{duplicates, json_words};
use crate::schema;
use crate::status::Status;
use crate::yaml;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Media types of request bodies, for the text of the 415.
const ACCEPTED: &[&str] = &["application/json", "application/yaml", PROTOBUF];

/// Bytes of a body that an error shows.
const SHOWN_BYTES: usize = 30;

/// The media type without its parameters.
pub(super) fn media_type(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

pub(super) fn duplicate_field(path: &String) -> String {
    format!("duplicate field \"{path}\"")
}

/// The value of a body for an object of `kind`, and the errors about its duplicate fields.
pub(super) fn read(
    kind: &str,
    content_type: &str,
    body: &[u8],
) -> Result<(Value, Vec<String>), Status> {
    let unrecognized = |error: &str| {
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {error} ({})",
            summary(body)
        ))
    };
    let (value, duplicates) = match media_type(content_type) {
        "application/json" | "" | "*/*" => duplicates::parse(&String::from_utf8_lossy(body))
            .map(|(value, paths)| (value, paths.iter().map(duplicate_field).collect()))
            .map_err(|error| {
                let why = json_words::why(body).unwrap_or_else(|| error.to_string());
                unrecognized(&format!("{NO_KIND}{why}"))
            })?,
        "application/yaml" => {
            let (value, duplicates) = yaml::parse(body).map_err(|error| unrecognized(&error))?;
            (value, duplicates.into_iter().collect())
        }
        PROTOBUF => {
            return schema::protobuf::object(kind, body)
                .map(|value| (value, Vec::new()))
                .map_err(|error| unrecognized(&error.to_string()));
        }
        _ => return Err(Status::unsupported_body(ACCEPTED)),
    };
    match value {
        Value::Null => Ok((Value::Object(Map::new()), duplicates)),
        Value::Object(_) => Ok((value, duplicates)),
        other => {
            let found = schema::decode::json_type(&other);
            Err(unrecognized(&format!(
                "{NO_KIND}json: cannot unmarshal {found} into Go value of type {TYPE_META}"
            )))
        }
    }
}

/// Begins the errors of upstream's JSON decoder before it knows the kind.
const NO_KIND: &str = "couldn't get version/kind; json parse error: ";

/// The type into which upstream decodes kind and version.
const TYPE_META: &str = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;

/// The start of a body, as an error shows it. Upstream: `summarizeData` of
/// `apiserver/pkg/endpoints/handlers/rest.go`.
pub(super) fn summary(body: &[u8]) -> String {
    let start = &body[..body.len().min(SHOWN_BYTES)];
    let shown = match start.first() {
        None => return "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(start).into_owned(),
        Some(_) => start.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    let rest = if start.len() < body.len() { " ..." } else { "" };
    shown + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each answer is that of kube-apiserver 1.36.2.
    #[test]
    fn the_error_of_an_unreadable_body_shows_its_start() {
        let list = format!(
            "{NO_KIND}json: cannot unmarshal array into Go value of type {TYPE_META} (5b5d)"
        );
        let eof = format!("{NO_KIND}unexpected end of JSON input");
        let cases = [
            (
                "yaml",
                "a: b: c\n".to_owned(),
                "yaml: mapping values are not allowed in this context (613a20623a20630a)"
                    .to_owned(),
            ),
            (
                "yaml",
                format!("{{a: .inf, b: {}}}", "x".repeat(20)),
                "json: unsupported value: +Inf ({a: .inf, b: xxxxxxxxxxxxxxxxx ...)".to_owned(),
            ),
            (
                "yaml",
                format!("{}a: .inf", "#\n".repeat(15)),
                format!("json: unsupported value: +Inf ({} ...)", "230a".repeat(15)),
            ),
            ("yaml", "[]".to_owned(), list.clone()),
            ("json", "[]".to_owned(), list),
            ("json", String::new(), format!("{eof} (<empty>)")),
            ("json", "{\"a\": ".to_owned(), format!("{eof} ({{\"a\": )")),
        ];
        for (media, body, why) in cases {
            let media = format!("application/{media}");
            let refusal = read("Pod", &media, body.as_bytes()).unwrap_err();
            let expected =
                format!("the object provided is unrecognized (must be of type Pod): {why}");
            assert_eq!((refusal.code, refusal.message), (400, expected), "{body}");
        }
        for (media, body) in [("application/yaml", ""), ("application/json", "null")] {
            let (empty, _) = read("Pod", media, body.as_bytes()).unwrap();
            assert_eq!(empty, Value::Object(Map::new()));
        }
    }
}
