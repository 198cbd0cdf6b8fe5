//! Conversion of custom resources by a webhook: the review, and its answer.
//!
//! Upstream: `pkg/apiserver/conversion/webhook_converter.go` of apiextensions-apiserver.

use serde_json::{Map, Value, json};

use crate::apimachinery::errors::{Errors, list, text};
use crate::apimachinery::meta;

/// The versions of reviews that the server knows.
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// The webhook of a definition with the conversion strategy `Webhook`.
#[derive(Debug)]
pub(crate) struct Converter {
    /// The `clientConfig`.
    pub(crate) client: Value,
    /// The version of reviews that the webhook prefers.
    review_version: Option<&'static str>,
}

impl Converter {
    /// `None` for a definition whose versions differ only in their schemas.
    pub(super) fn parse(definition: &Value) -> Option<Self> {
        let conversion = &definition["spec"]["conversion"];
        let webhook = &conversion["webhook"];
        let known = |version: &Value| {
            let mut versions = REVIEW_VERSIONS.into_iter();
            versions.find(|known| version == known)
        };
        (conversion["strategy"] == "Webhook").then(|| Self {
            client: webhook["clientConfig"].clone(),
            review_version: list(webhook, "conversionReviewVersions")
                .iter()
                .find_map(known),
        })
    }

    /// The review that asks for these objects in another version, without its UID.
    pub(crate) fn review(&self, objects: &[&Value], api_version: &str) -> Result<Value, String> {
        let version = self
            .review_version
            .ok_or("no supported conversion review versions")?;
        Ok(json!({
            "kind": "ConversionReview",
            "apiVersion": format!("apiextensions.k8s.io/{version}"),
            "request": {"uid": "", "desiredAPIVersion": api_version, "objects": objects},
        }))
    }

    /// The converted objects in the answer to a review with this UID. They keep all metadata of
    /// `objects` except labels and annotations. The error begins after `conversion webhook for ...`.
    pub(crate) fn converted(
        &self,
        objects: &[&Value],
        api_version: &str,
        uid: &str,
        answer: &Value,
    ) -> Result<Vec<Value>, String> {
        let failed = |why: String| format!(" failed: {why}");
        let found = self.response(uid, answer).map_err(failed)?;
        if found.len() != objects.len() {
            let found = found.len();
            let wanted = objects.len();
            return Err(format!(" returned {found} objects, expected {wanted}"));
        }
        let pairs = objects.iter().zip(found);
        pairs
            .map(|(original, converted)| {
                checked(original, converted, api_version)
                    .map_err(|why| format!(" returned invalid {why}"))
            })
            .collect()
    }

    /// The objects of a successful answer.
    fn response<'a>(&self, uid: &str, answer: &'a Value) -> Result<&'a [Value], String> {
        let kind = text(answer, "kind");
        let group_version = text(answer, "apiVersion");
        let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
        if kind != "ConversionReview"
            || group != "apiextensions.k8s.io"
            || !REVIEW_VERSIONS.contains(&version)
        {
            return Err(format!(
                "no kind {kind:?} is registered for version {group_version:?} in scheme \"k8s.io/apiserver/pkg/util/webhook/client.go:71\""
            ));
        }
        let response = &answer["response"];
        if !response.is_object() {
            return Err("no response provided".to_owned());
        }
        let echoed = text(response, "uid");
        if self.review_version == Some("v1") && echoed != uid {
            return Err(format!("expected response.uid={uid:?}, got {echoed:?}"));
        }
        match (
            text(response, "result.status"),
            text(response, "result.message"),
        ) {
            ("Success", _) => Ok(list(response, "convertedObjects")),
            (status, "") => Err(format!(
                "response.result.status was '{status}', not 'Success'"
            )),
            (_, message) => Err(message.to_owned()),
        }
    }
}

/// A converted object with the metadata of its original. Upstream converts objects one by one, so
/// its words name the index 0.
fn checked(original: &Value, converted: &Value, api_version: &str) -> Result<Value, String> {
    let found = text(converted, "apiVersion");
    if found != api_version {
        return Err(format!(
            "object at index 0: invalid groupVersion (expected {api_version}, received {found})"
        ));
    }
    let wanted = text(original, "kind");
    let found = text(converted, "kind");
    if wanted != found {
        return Err(format!(
            "object at index 0: invalid kind (expected {wanted}, received {found})"
        ));
    }
    for (field, shown) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let member = |object: &Value| text(&object["metadata"], field).to_owned();
        let before = member(original);
        let after = member(converted);
        if before != after {
            return Err(format!(
                "object: must have the same {shown}: {before} != {after}"
            ));
        }
    }
    let mut object = converted.clone();
    object["metadata"] = metadata(&original["metadata"], &converted["metadata"])
        .map_err(|why| format!("metadata: {why}"))?;
    Ok(object)
}

/// The original metadata with the labels and annotations of the converted object.
fn metadata(original: &Value, converted: &Value) -> Result<Value, String> {
    let mut kept = original.as_object().cloned().unwrap_or_default();
    for field in ["labels", "annotations"] {
        let Some(found) = converted.get(field).filter(|value| !value.is_null()) else {
            kept.remove(field);
            continue;
        };
        let found = found
            .as_object()
            .ok_or_else(|| format!("invalid metadata.{field} in converted object"))?;
        if let Some((key, _)) = found.iter().find(|(_, value)| !value.is_string()) {
            return Err(format!(
                "metadata.{field}[{key}] must be a string in converted object"
            ));
        }
        if original.get(field).and_then(Value::as_object) != Some(found) {
            check_changed(field, found)?;
        }
        kept.insert(field.to_owned(), Value::Object(found.clone()));
    }
    Ok(Value::Object(kept))
}

/// Changed labels and annotations have to be valid.
fn check_changed(field: &str, values: &Map<String, Value>) -> Result<(), String> {
    let mut errors = Errors::default();
    let values = Value::Object(values.clone());
    match field {
        "labels" => meta::labels("metadata.labels", &values, &mut errors),
        _ => meta::annotations("metadata.annotation", &values, &mut errors),
    }
    let errors = errors.into_list();
    match &*errors {
        [] => Ok(()),
        [error] => Err(error.to_string()),
        errors => {
            let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
            Err(format!("[{}]", texts.join(", ")))
        }
    }
}
