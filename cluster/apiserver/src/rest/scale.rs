//! The subresource `scale`: an `autoscaling/v1` Scale with the object's replicas and selector.
//!
//! Custom resources name the paths of these fields in their definition. Upstream is
//! `pkg/registry/apps/*/storage`.

use serde_json::{Map, Value, json};

use super::metadata;
use crate::fielderror::{FieldError, Problem};
use crate::kinds::Resource;
use crate::managed_fields::FieldSet;
use crate::status::{Qualified, Status};

pub(super) const API_VERSION: &str = "autoscaling/v1";
pub(super) const KIND: &str = "Scale";

/// The only field of a Scale that clients write.
pub(super) fn field() -> FieldSet {
    FieldSet::path(["spec", "replicas"].into_iter())
}

/// The field of the object that `spec.replicas` of its Scale stands for.
pub(super) fn field_of(resource: &Resource) -> FieldSet {
    match resource.custom.as_ref().and_then(|custom| custom.scale()) {
        Some(scale) => FieldSet::path(scale.replicas_path()),
        None => field(),
    }
}

/// Stands for replicas that a custom resource lacks, while a patch is applied to its Scale.
const MISSING: i64 = i32::MIN as i64;

/// The Scale of an object of `resource`, to which a patch is applied. The patch may set replicas that
/// a custom resource lacks.
pub(super) fn to_patch(resource: &Resource, object: &Value) -> Result<Value, Status> {
    let mut object = std::borrow::Cow::Borrowed(object);
    if let Some(scale) = resource.custom.as_ref().and_then(|custom| custom.scale())
        && scale.read(&object).is_err()
    {
        scale.write(object.to_mut(), MISSING);
    }
    of(resource, &object)
}

/// 400 if a patched Scale of a custom resource still lacks its replicas.
pub(super) fn check_replicas(resource: &Resource, scale: &Value) -> Result<(), Status> {
    match resource.custom.as_ref().and_then(|custom| custom.scale()) {
        Some(paths) if scale["spec"]["replicas"] == MISSING => Err(Status::bad_request(format!(
            "the spec replicas field {:?} cannot be empty",
            paths.replicas_text()
        ))),
        _ => Ok(()),
    }
}

/// The Scale of an object of `resource`.
pub(super) fn of(resource: &Resource, object: &Value) -> Result<Value, Status> {
    let (replicas, found, selector) =
        match resource.custom.as_ref().and_then(|custom| custom.scale()) {
            Some(scale) => scale.read(object).map_err(|path| {
                Status::internal(format!("the spec replicas field {path:?} does not exist"))
            })?,
            None => (
                object["spec"]["replicas"].as_i64().unwrap_or(0),
                object["status"]["replicas"].as_i64().unwrap_or(0),
                selector_text(&object["spec"]["selector"]),
            ),
        };
    let source = &object["metadata"];
    let mut metadata = Map::new();
    for field in [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
    ] {
        if let Some(value) = source.get(field) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    let mut spec = Map::new();
    // Upstream's type omits the field if it is zero.
    if replicas != 0 {
        spec.insert("replicas".to_owned(), Value::from(replicas));
    }
    let mut status = Map::new();
    status.insert("replicas".to_owned(), Value::from(found));
    if !selector.is_empty() {
        status.insert("selector".to_owned(), Value::from(selector));
    }
    Ok(
        json!({"kind": KIND, "apiVersion": API_VERSION, "metadata": metadata, "spec": spec, "status": status}),
    )
}

/// Sets the replicas of an object of `resource`.
pub(super) fn write(resource: &Resource, object: &mut Value, replicas: i64) {
    match resource.custom.as_ref().and_then(|custom| custom.scale()) {
        Some(scale) => scale.write(object, replicas),
        None => object["spec"]["replicas"] = Value::from(replicas),
    }
}

/// `spec.replicas` of a Scale; 422 if negative.
pub(super) fn replicas(scale: &Value) -> Result<i64, Status> {
    let replicas = scale["spec"]["replicas"].as_i64().unwrap_or(0);
    if replicas >= 0 {
        return Ok(replicas);
    }
    let problem = Problem::Invalid(
        replicas.into(),
        "must be greater than or equal to 0".to_owned(),
    );
    let error = FieldError {
        field: "spec.replicas".to_owned(),
        problem,
    };
    Err(Status::invalid(
        Qualified {
            group: "autoscaling",
            name: "Scale",
        },
        metadata::text(scale, "name"),
        &[error],
    ))
}

/// A label selector, or a map of labels, in the form of upstream's `labels.Selector.String`: `a=b,c
/// in (d,e),!f`.
fn selector_text(selector: &Value) -> String {
    let is_map =
        selector.get("matchLabels").is_none() && selector.get("matchExpressions").is_none();
    let labels = if is_map {
        selector
    } else {
        &selector["matchLabels"]
    };
    let mut terms: Vec<(String, String)> = Vec::new();
    for (key, value) in labels.as_object().into_iter().flatten() {
        terms.push((
            key.clone(),
            format!("{key}={}", value.as_str().unwrap_or_default()),
        ));
    }
    for expression in selector["matchExpressions"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let key = expression["key"].as_str().unwrap_or_default();
        let mut values: Vec<&str> = expression["values"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        values.sort_unstable();
        let values = values.join(",");
        let term = match expression["operator"].as_str() {
            Some("In") => format!("{key} in ({values})"),
            Some("NotIn") => format!("{key} notin ({values})"),
            Some("DoesNotExist") => format!("!{key}"),
            _ => key.to_owned(),
        };
        terms.push((key.to_owned(), term));
    }
    terms.sort();
    terms
        .into_iter()
        .map(|(_, term)| term)
        .collect::<Vec<_>>()
        .join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_printed_in_key_order() {
        let cases = [
            (json!({"app": "d"}), "app=d"),
            (json!({"matchLabels": {"b": "1", "a": "2"}}), "a=2,b=1"),
            (
                json!({"matchLabels": {"z": "1"}, "matchExpressions": [
                    {"key": "k", "operator": "In", "values": ["b", "a"]},
                    {"key": "a", "operator": "DoesNotExist"},
                ]}),
                "!a,k in (a,b),z=1",
            ),
            (Value::Null, ""),
        ];
        for (selector, expected) in cases {
            assert_eq!(selector_text(&selector), expected);
        }
    }
}
