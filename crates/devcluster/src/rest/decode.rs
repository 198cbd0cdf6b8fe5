//! Request bodies as objects: media types, kinds, types of fields, fields nobody knows.

use serde_json::{Map, Value};

use super::query::{Query, invalid_options};
use super::{duplicates, metadata};
use crate::fielderror::{FieldError, Problem};
use crate::kinds::Resource;
use crate::schema;
use crate::status::Status;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Media types of request bodies, as the refusal lists them.
const ACCEPTED: &[&str] = &["application/json", "application/yaml", PROTOBUF];

const MAX_COMPLAINTS: usize = 100;

/// Bytes of a body without kind that its refusal shows.
const SHOWN_BYTES: usize = 30;

/// Characters of one that is text.
const SHOWN_CHARACTERS: usize = 30;

/// The media type without its parameters.
pub(super) fn media_type(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

/// A body that is no object of its own, but one of these requests; 400 when something in it has the
/// wrong type.
pub(super) fn parse(kind: &str, content_type: &str, body: &[u8]) -> Result<Value, Status> {
    let (value, _) = parse_twice(kind, content_type, body)?;
    let is_other = value["kind"]
        .as_str()
        .is_some_and(|named| !named.is_empty() && named != kind);
    if !is_other {
        schema::decode::decode_check(kind, &value).map_err(Status::bad_request)?;
    }
    Ok(value)
}

/// The same for what is written to a part of an object: 400 when it is of another kind than `kind`
/// of `group`.
pub(super) fn part(
    group: &str,
    kind: &str,
    content_type: &str,
    body: &[u8],
) -> Result<Value, Status> {
    let value = parse(kind, content_type, body)?;
    match value["kind"]
        .as_str()
        .filter(|given| !given.is_empty() && *given != kind)
    {
        Some(given) => Err(no_conversion(
            given,
            value["apiVersion"].as_str().unwrap_or_default(),
            group,
            kind,
        )),
        None => Ok(value),
    }
}

fn no_conversion(given: &str, api_version: &str, group: &str, kind: &str) -> Status {
    let from = api_version.rsplit('/').next().unwrap_or_default();
    Status::bad_request(format!(
        "{given} in version \"{from}\" cannot be handled as a {kind}: converting ({from}.{given}) to ({group}.{kind}): unknown conversion"
    ))
}

/// The same, and the paths of fields that are in it twice (in YAML a second one is an error).
fn parse_twice(
    kind: &str,
    content_type: &str,
    body: &[u8],
) -> Result<(Value, Vec<String>), Status> {
    let unrecognized = |error: &dyn std::fmt::Display| {
        let shown = if body.is_empty() {
            "<empty>".into()
        } else {
            String::from_utf8_lossy(body)
        };
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; \
             json parse error: {error} ({shown})"
        ))
    };
    match media_type(content_type) {
        "application/json" | "" | "*/*" => duplicates::parse(&String::from_utf8_lossy(body))
            .map_err(|error| if error.is_eof() { unrecognized(&"unexpected end of JSON input") } else { unrecognized(&error) }),
        "application/yaml" => {
            let text = std::str::from_utf8(body).map_err(|error| unrecognized(&error))?;
            serde_saphyr::from_str(text).map(|value| (value, Vec::new())).map_err(|error| unrecognized(&error))
        }
        PROTOBUF => schema::protobuf::object(kind, body).map(|value| (value, Vec::new())).map_err(|error| {
            let shown: String = body.iter().take(SHOWN_BYTES).map(|byte| format!("{byte:02x}")).collect();
            let shown = if body.is_empty() { "<empty>" } else { &shown };
            Status::bad_request(format!("the object provided is unrecognized (must be of type {kind}): {error} ({shown})"))
        }),
        _ => Err(Status::unsupported_body(ACCEPTED)),
    }
}

/// An object of `resource` from a body, in the form it is kept in, and the warnings about it.
pub(super) fn object(
    resource: &Resource,
    content_type: &str,
    body: &[u8],
    strictness: Strictness,
) -> Result<(Value, Vec<String>), Status> {
    let (mut value, twice) = parse_twice(&resource.kind, content_type, body)?;
    match resource.custom {
        Some(_) => check_custom_kind(resource, &value, body)?,
        None => check_kind(resource, &value)?,
    }
    let unknown = complete(resource, &mut value)?;
    let complaints = unknown
        .iter()
        .map(unknown_field)
        .chain(twice.iter().map(duplicate_field))
        .collect();
    let warnings = strictness.judge(complaints, |errors| {
        let (kind, version) = (&resource.kind, &resource.version);
        Status::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {kind}: strict decoding error: {errors}"
        ))
    })?;
    Ok((resource.to_kept(value), warnings))
}

/// What becomes of fields that the kind does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strictness {
    Ignore,
    Warn,
    Strict,
}

impl Strictness {
    /// From the query; `options` names what is invalid otherwise.
    pub(super) fn parse(query: &Query, options: &str) -> Result<Self, Status> {
        match query.text("fieldValidation") {
            "" | "Warn" => Ok(Self::Warn),
            "Ignore" => Ok(Self::Ignore),
            "Strict" => Ok(Self::Strict),
            other => {
                let known = ["", "Ignore", "Strict", "Warn"].map(str::to_owned).to_vec();
                let problem = Problem::NotSupported(other.into(), known);
                Err(invalid_options(
                    options,
                    &[FieldError {
                        field: "fieldValidation".to_owned(),
                        problem,
                    }],
                ))
            }
        }
    }

    /// The complaints as warnings, or the refusal made of them; no more than upstream's decoder
    /// collects.
    pub(super) fn judge(
        self,
        mut complaints: Vec<String>,
        refuse: impl FnOnce(&str) -> Status,
    ) -> Result<Vec<String>, Status> {
        complaints.truncate(MAX_COMPLAINTS);
        match self {
            Self::Strict if !complaints.is_empty() => Err(refuse(&complaints.join(", "))),
            Self::Ignore => Ok(Vec::new()),
            Self::Warn | Self::Strict => Ok(complaints),
        }
    }
}

pub(super) fn unknown_field(path: &String) -> String {
    format!("unknown field \"{path}\"")
}

pub(super) fn duplicate_field(path: &String) -> String {
    format!("duplicate field \"{path}\"")
}

/// Makes `value` an object of `resource` with `metadata`; 400 when something in it has the wrong
/// type. Fields the kind does not know are dropped and told.
pub(super) fn complete(resource: &Resource, value: &mut Value) -> Result<Vec<String>, Status> {
    let cannot = |what: &str| {
        let (kind, version) = (&resource.kind, &resource.version);
        Status::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {kind}: {what}"
        ))
    };
    if !value.is_object() {
        return Err(cannot("json: cannot unmarshal the document into an object"));
    }
    arrange(resource, value);
    if !value["metadata"].is_object() {
        return Err(cannot(
            "json: cannot unmarshal metadata into Go value of type v1.ObjectMeta",
        ));
    }
    resource.decode_check(value).map_err(Status::bad_request)?;
    Ok(drop_unknown(resource, value))
}

/// Puts kind, apiVersion and metadata first.
pub(super) fn arrange(resource: &Resource, value: &mut Value) {
    let Value::Object(fields) = value else { return };
    let old = std::mem::take(fields);
    fields.insert("kind".to_owned(), Value::from(&*resource.kind));
    fields.insert("apiVersion".to_owned(), Value::from(resource.api_version()));
    fields.insert("metadata".to_owned(), Value::Object(Map::new()));
    for (key, field) in old {
        if !matches!(key.as_str(), "kind" | "apiVersion") && !field.is_null() {
            fields.insert(key, field);
        }
    }
}

/// Drops the fields the kind does not know, and tells them.
pub(super) fn drop_unknown(resource: &Resource, value: &mut Value) -> Vec<String> {
    let unknown = resource.drop_unknown(value);
    if let Some(metadata) = value["metadata"].as_object_mut() {
        metadata.remove("selfLink");
    }
    unknown
}

/// Built-in kinds may leave out kind and apiVersion, but not name others.
fn check_kind(resource: &Resource, value: &Value) -> Result<(), Status> {
    let kind = value["kind"].as_str().unwrap_or_default();
    let api_version = value["apiVersion"].as_str().unwrap_or_default();
    let expected = resource.api_version();
    let (own, version) = (&resource.kind, &resource.version);
    if !kind.is_empty() && kind != own {
        let group = if resource.group.is_empty() {
            "core"
        } else {
            resource.group.split('.').next().unwrap_or_default()
        };
        return Err(no_conversion(kind, api_version, group, own));
    }
    if !api_version.is_empty() && api_version != expected {
        return Err(Status::bad_request(format!(
            "{own} in version \"{version}\" cannot be handled as a {own}: no kind \"{own}\" is registered for version \
             \"{api_version}\" in scheme \"pkg/api/legacyscheme/scheme.go:30\""
        )));
    }
    Ok(())
}

/// Custom kinds must be named, in the version of the request.
fn check_custom_kind(resource: &Resource, value: &Value, body: &[u8]) -> Result<(), Status> {
    let expected = resource.api_version();
    let kind = value["kind"].as_str().unwrap_or_default();
    let api_version = value["apiVersion"].as_str().unwrap_or_default();
    if kind.is_empty() {
        let body = String::from_utf8_lossy(body);
        let start: String = body.chars().take(SHOWN_CHARACTERS).collect();
        return Err(Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): Object 'Kind' is missing in '{body}' ({start} ...)",
            resource.kind
        )));
    }
    if api_version != expected {
        return Err(Status::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({expected})"
        )));
    }
    if kind != resource.kind {
        let problem = Problem::Invalid(kind.into(), format!("must be {}", resource.kind));
        let error = FieldError {
            field: "kind".to_owned(),
            problem,
        };
        return Err(Status::invalid(
            resource.named_kind(),
            metadata::text(value, "name"),
            &[error],
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Registry;
    use serde_json::json;

    #[test]
    fn unknown_fields_are_dropped_told_or_refused() {
        let pods = Registry::built_in().find("", "v1", "pods").unwrap();
        let body = json!({"metadata": {"name": "p", "selfLink": "/p"}, "spec": {"nodeNme": "x"}});
        let decode = |strictness| {
            object(
                &pods.resource,
                "application/json",
                body.to_string().as_bytes(),
                strictness,
            )
        };
        let expected =
            json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}, "spec": {}});
        assert_eq!(
            decode(Strictness::Ignore).unwrap(),
            (expected.clone(), vec![])
        );
        assert_eq!(
            decode(Strictness::Warn).unwrap(),
            (expected, vec!["unknown field \"spec.nodeNme\"".to_owned()])
        );
        let refusal = decode(Strictness::Strict).unwrap_err();
        let text = "Pod in version \"v1\" cannot be handled as a Pod: strict decoding error: unknown field \"spec.nodeNme\"";
        assert_eq!((refusal.code, refusal.message.as_str()), (400, text));
    }

    #[test]
    fn a_body_of_another_kind_or_type_is_refused() {
        let pods = Registry::built_in().find("", "v1", "pods").unwrap();
        let cases = [
            (
                "application/json",
                r#"{"kind":"Secret","apiVersion":"v1"}"#,
                400,
            ),
            (
                "application/json",
                r#"{"kind":"Pod","apiVersion":"v2"}"#,
                400,
            ),
            ("application/json", r#"{"kind":"#, 400),
            ("application/json", "[]", 400),
            (
                "application/json",
                r#"{"metadata":{"labels":{"a":1}}}"#,
                400,
            ),
            ("application/vnd.kubernetes.protobuf", "k8s\0\x12\x05", 400),
            ("application/cbor", "", 415),
        ];
        for (content_type, body, code) in cases {
            let refusal = object(
                &pods.resource,
                content_type,
                body.as_bytes(),
                Strictness::Warn,
            )
            .unwrap_err();
            assert_eq!(refusal.code, code, "{body}");
        }
        let body = b"metadata:\n  name: p\n";
        let (yaml, _) = object(&pods.resource, "application/yaml", body, Strictness::Warn).unwrap();
        assert_eq!(yaml["metadata"]["name"], "p");
    }
}
