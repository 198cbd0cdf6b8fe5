//! Decodes request bodies: media types, kinds, types of fields, unknown and duplicate fields.
//!
//! Error texts are those of upstream's decoders (`apimachinery/pkg/runtime/serializer`).

use serde_json::{Map, Value};

pub(super) use super::body_value::{duplicate_field, media_type};
use super::query::{Query, invalid_options};
use super::{body_value, metadata};
use crate::fielderror::{FieldError, Problem};
use crate::kinds::Resource;
use crate::schema;
use crate::status::Status;
use crate::yaml;

/// Most field errors in one answer, as upstream's strict decoder collects.
const MAX_FIELD_ERRORS: usize = 100;

/// Decodes a body that is not an object of a resource, such as options. 400 if a field has the
/// wrong type.
pub(super) fn parse(kind: &str, content_type: &str, body: &[u8]) -> Result<Value, Status> {
    let (value, _) = body_value::read(kind, content_type, body)?;
    let is_other = value["kind"]
        .as_str()
        .is_some_and(|named| !named.is_empty() && named != kind);
    if !is_other {
        schema::decode::decode_check(kind, &value).map_err(Status::bad_request)?;
    }
    Ok(value)
}

/// The same for the body of a subresource. 400 if it is of another kind than `kind` of `group`.
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

/// Decodes an object of `resource`. Returns its stored form and the warnings about it.
pub(super) fn object(
    resource: &Resource,
    content_type: &str,
    body: &[u8],
    strictness: Strictness,
) -> Result<(Value, Vec<String>), Status> {
    let (mut value, duplicates) = body_value::read(&resource.kind, content_type, body)?;
    match resource.custom {
        Some(_) => check_custom_kind(resource, &value, body, strictness)?,
        None => check_kind(resource, &value, strictness)?,
    }
    let unknown = complete(resource, &mut value)?;
    let unknown = unknown.iter().map(unknown_field);
    // Upstream looks for duplicates of YAML in a pass of its own, before all other errors.
    let field_errors = match media_type(content_type) {
        "application/yaml" => duplicates.into_iter().chain(unknown).collect(),
        _ => unknown.chain(duplicates).collect(),
    };
    let warnings = strictness.warnings_or_error(field_errors, |errors| {
        let kind = &resource.kind;
        let version = &resource.version;
        Status::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {kind}: strict decoding error: {errors}"
        ))
    })?;
    Ok((resource.to_kept(value), warnings))
}

/// Treatment of unknown fields (`fieldValidation`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strictness {
    Ignore,
    Warn,
    Strict,
}

impl Strictness {
    /// Reads the level from the query. `options` is the kind that an error names.
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

    /// Returns field errors as warnings, or as one error, according to the level. Errors beyond
    /// upstream's limit are dropped.
    pub(super) fn warnings_or_error(
        self,
        mut field_errors: Vec<String>,
        refuse: impl FnOnce(&str) -> Status,
    ) -> Result<Vec<String>, Status> {
        field_errors.truncate(MAX_FIELD_ERRORS);
        match self {
            Self::Strict if !field_errors.is_empty() => Err(refuse(&field_errors.join(", "))),
            Self::Ignore => Ok(Vec::new()),
            Self::Warn | Self::Strict => {
                Ok(field_errors.into_iter().flat_map(yaml::warnings).collect())
            }
        }
    }
}

pub(super) fn unknown_field(path: &String) -> String {
    format!("unknown field \"{path}\"")
}

/// Sets kind, version and `metadata` of an object. 400 if a field has the wrong type. Unknown
/// fields are dropped, and their paths returned.
pub(super) fn complete(resource: &Resource, value: &mut Value) -> Result<Vec<String>, Status> {
    let cannot = |what: &str| {
        let kind = &resource.kind;
        let version = &resource.version;
        Status::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {kind}: {what}"
        ))
    };
    if !value.is_object() {
        return Err(cannot("json: cannot unmarshal the document into an object"));
    }
    arrange(resource, value);
    if !value["metadata"].is_object() {
        return Err(cannot(&format!(
            "json: cannot unmarshal {} into Go struct field {}.metadata of type v1.ObjectMeta",
            schema::decode::json_type(&value["metadata"]),
            resource.kind
        )));
    }
    resource.decode_check(value).map_err(Status::bad_request)?;
    Ok(drop_unknown(resource, value))
}

/// Moves kind, apiVersion and metadata to the front. Nulls of built-in kinds go; the schema of a
/// custom kind decides about its own.
pub(super) fn arrange(resource: &Resource, value: &mut Value) {
    let Value::Object(fields) = value else { return };
    let old = std::mem::take(fields);
    fields.insert("kind".to_owned(), Value::from(&*resource.kind));
    fields.insert("apiVersion".to_owned(), Value::from(resource.api_version()));
    fields.insert("metadata".to_owned(), Value::Object(Map::new()));
    for (key, field) in old {
        let is_kept = match key.as_str() {
            "kind" | "apiVersion" => false,
            "metadata" => !field.is_null(),
            _ => !field.is_null() || resource.custom.is_some(),
        };
        if is_kept {
            fields.insert(key, field);
        }
    }
}

/// Drops unknown fields and returns their paths.
pub(super) fn drop_unknown(resource: &Resource, value: &mut Value) -> Vec<String> {
    let unknown = resource.drop_unknown(value);
    if let Some(metadata) = value["metadata"].as_object_mut() {
        metadata.remove("selfLink");
    }
    unknown
}

/// Checks the kind of a built-in object. The body may omit kind and apiVersion.
fn check_kind(resource: &Resource, value: &Value, strictness: Strictness) -> Result<(), Status> {
    let kind = value["kind"].as_str().unwrap_or_default();
    let api_version = value["apiVersion"].as_str().unwrap_or_default();
    let expected = resource.api_version();
    let own = &resource.kind;
    let version = api_version.rsplit('/').next().unwrap_or_default();
    if !kind.is_empty() && kind != own {
        // The decoder knows the other kind too, and reads the body as that kind first.
        if let Some(error) = schema::decode::decode_error(kind, value) {
            return Err(Status::bad_request(format!(
                "{kind} in version \"{version}\" cannot be handled as a {own}: {error}"
            )));
        }
        let group = if resource.group.is_empty() {
            "core"
        } else {
            resource.group.split('.').next().unwrap_or_default()
        };
        return Err(no_conversion(kind, api_version, group, own));
    }
    if !api_version.is_empty() && api_version != expected {
        if schema::has_version(own, api_version) {
            // The decoder reads the body as that version first.
            let cannot = |error: &str| {
                let what = format!("{own} in version \"{version}\" cannot be handled as a {own}");
                Status::bad_request(format!("{what}: {error}"))
            };
            if let Some(error) = schema::decode::decode_error(own, value) {
                return Err(cannot(&error));
            }
            let unknown =
                schema::typed_form::prune_unknown(resource.release, own, &mut value.clone());
            strictness
                .warnings_or_error(unknown.iter().map(unknown_field).collect(), |errors| {
                    cannot(&format!("strict decoding error: {errors}"))
                })?;
            return Err(Status::bad_request(format!(
                "the API version in the data ({api_version}) does not match the expected API version ({expected})"
            )));
        }
        let why = unregistered(own, api_version);
        return Err(Status::bad_request(format!(
            "{own} in version \"{version}\" cannot be handled as a {own}: {why}"
        )));
    }
    Ok(())
}

/// The error of a kind in a version that it does not have.
pub(super) fn unregistered(kind: &str, api_version: &str) -> String {
    format!(
        "no kind \"{kind}\" is registered for version \"{api_version}\" in scheme \"pkg/api/legacyscheme/scheme.go:30\""
    )
}

/// Checks the kind of a custom object. Unlike built-in kinds, the body must name kind and version.
fn check_custom_kind(
    resource: &Resource,
    value: &Value,
    body: &[u8],
    strictness: Strictness,
) -> Result<(), Status> {
    let expected = resource.api_version();
    let kind = value["kind"].as_str().unwrap_or_default();
    let api_version = value["apiVersion"].as_str().unwrap_or_default();
    if kind.is_empty() {
        let shown = String::from_utf8_lossy(body);
        let why = format!("Object 'Kind' is missing in '{shown}'");
        // Only the lenient decoder knows the kind that it wanted.
        if strictness == Strictness::Ignore {
            let kind = &resource.kind;
            let version = &resource.version;
            return Err(Status::bad_request(format!(
                "{kind} in version \"{version}\" cannot be handled as a {kind}: {why}"
            )));
        }
        return Err(Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): {why} ({})",
            resource.kind,
            body_value::summary(body)
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
    use crate::registry::Registry;
    use serde_json::json;

    #[test]
    fn unknown_fields_are_ignored_warned_about_or_refused() {
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

        let body = b"metadata:\n  name: p\n  name: q\n";
        let of = |strictness| object(&pods.resource, "application/yaml", body, strictness);
        let (yaml, warnings) = of(Strictness::Warn).unwrap();
        assert_eq!(yaml["metadata"]["name"], "q");
        assert_eq!(warnings, ["line 3: key \"name\" already set in map"]);
        let refusal = of(Strictness::Strict).unwrap_err();
        let why = "yaml: unmarshal errors:\n  line 3: key \"name\" already set in map";
        assert_eq!(
            refusal.message,
            format!(
                "Pod in version \"v1\" cannot be handled as a Pod: strict decoding error: {why}"
            )
        );
    }
}
