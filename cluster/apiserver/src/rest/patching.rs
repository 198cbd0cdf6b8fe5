//! The patch in a request body, and the errors about its result.
//!
//! Upstream is `apiserver/pkg/endpoints/handlers/patch.go`.

use serde_json::{Value, json};

use super::decode::{Strictness, duplicate_field, unknown_field};
use super::{decode, duplicates, json_words};
use crate::fielderror::{FieldError, Problem};
use crate::go_format;
use crate::kinds::Resource;
use crate::patch::{self, PatchError};
use crate::schema;
use crate::schema::decode::json_type;
use crate::status::{Qualified, Status};

/// Media types of patches for custom resources, which have no merge keys for strategic merge
/// patches.
const CUSTOM_PATCHES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
];

/// The fields that tell the type of an object.
const TYPES: [&str; 2] = ["kind", "apiVersion"];

/// Upstream's library refuses a merge patch without a reason.
const INVALID_MERGE: &str = "Invalid JSON Patch";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Json,
    Merge,
    Strategic,
}

impl Kind {
    /// The value of a body, or the reason why it is no patch. Upstream decodes the body a second time, as the operations or
    /// fields that it declares, where field validation wants their errors. That decoder has words before its own.
    fn decode(self, value: Value, strictness: Strictness) -> Result<Value, String> {
        match (self, value) {
            (Self::Json, value) => {
                let checked = patch::check(&value, strictness != Strictness::Ignore);
                checked.map_err(|why| self.refusal(&why, strictness))?;
                Ok(value)
            }
            (Self::Strategic, Value::Null) => Ok(json!({})),
            (Self::Merge, Value::Null) => Err(INVALID_MERGE.to_owned()),
            (_, value @ Value::Object(_)) => Ok(value),
            (_, value) => {
                let got = json_type(&value);
                let why = format!(
                    "json: cannot unmarshal {got} into Go value of type map[string]interface {{}}"
                );
                Err(self.refusal(&why, strictness))
            }
        }
    }

    fn refusal(self, why: &str, strictness: Strictness) -> String {
        match (self, strictness) {
            (Self::Merge, Strictness::Ignore) => INVALID_MERGE.to_owned(),
            (Self::Json, Strictness::Ignore) | (Self::Strategic, _) => why.to_owned(),
            (Self::Json | Self::Merge, _) => format!("error decoding patch: {why}"),
        }
    }
}

/// A parsed patch.
pub(super) struct Patch {
    kind: Kind,
    /// Upstream reads the body after the object, so its error waits for that.
    patch: Result<Value, Status>,
    /// The text of a JSON patch.
    sent: String,
    /// Errors about duplicate keys of the patch, and unknown members of its operations.
    pub(super) field_errors: Vec<String>,
    /// Go reads custom objects as maps, whose keys it writes in order.
    is_custom: bool,
}

impl Patch {
    /// Parses the patch by its media type.
    pub(super) fn parse(
        content_type: &str,
        body: &[u8],
        strictness: Strictness,
    ) -> Result<Self, Status> {
        let kind = match decode::media_type(content_type) {
            "application/json-patch+json" => Kind::Json,
            "application/merge-patch+json" => Kind::Merge,
            "application/strategic-merge-patch+json" => Kind::Strategic,
            _ => return Err(Status::unsupported_patch()),
        };
        let text = String::from_utf8_lossy(body);
        let (patch, duplicates) = match duplicates::parse(&text) {
            Ok((value, duplicates)) => (kind.decode(value, strictness), duplicates),
            Err(error) => {
                let why = json_words::why(body).unwrap_or_else(|| error.to_string());
                (Err(kind.refusal(&why, strictness)), Vec::new())
            }
        };
        let mut field_errors: Vec<String> = duplicates.iter().map(duplicate_field).collect();
        if kind == Kind::Json {
            let operations = patch.as_ref().unwrap_or(&Value::Null);
            field_errors.extend(patch::unknown_members(operations).iter().map(unknown_field));
            for error in &mut field_errors {
                error.insert_str(0, "json patch ");
            }
        }
        Ok(Self {
            kind,
            patch: patch.map_err(Status::bad_request),
            sent: match kind {
                Kind::Json => text.into_owned(),
                Kind::Merge | Kind::Strategic => String::new(),
            },
            field_errors,
            is_custom: false,
        })
    }

    /// The patch of an object of `resource`. Custom kinds have no strategic merge patches.
    pub(super) fn of(mut self, resource: &Resource) -> Result<Self, Status> {
        self.is_custom = resource.custom.is_some();
        if self.kind == Kind::Strategic && self.is_custom {
            Err(Status::unsupported_body(CUSTOM_PATCHES))
        } else {
            Ok(self)
        }
    }

    /// Applies the patch. On an error `object` may be in any state.
    pub(super) fn apply(&self, resource: &Resource, object: &mut Value) -> Result<(), Status> {
        let patch = self.patch.as_ref().map_err(Clone::clone)?;
        let applied = match self.kind {
            Kind::Json => patch::json_as_sent(object, patch, &self.sent),
            Kind::Merge => {
                patch::merge(object, patch);
                Ok(())
            }
            Kind::Strategic => {
                let types = TYPES.map(|field| (field, object[field].clone()));
                let merged =
                    patch::strategic_merged(&resource.kind, std::mem::take(object), patch.clone());
                merged.map(|merged| {
                    *object = merged;
                    keep_type(object, types);
                })
            }
        };
        applied.map_err(status_of)
    }

    /// Checks that `result` is an object of `resource`.
    pub(super) fn check(&self, resource: &Resource, result: &Value) -> Result<(), Status> {
        let kind = result["kind"].as_str().unwrap_or_default();
        let version = result["apiVersion"].as_str().unwrap_or_default();
        if kind == resource.kind && version != resource.api_version() {
            return Err(self.invalid(result, &decode::unregistered(kind, version)));
        }
        if kind != resource.kind {
            // The decoder knows the other kind too, and reads the result as that kind first.
            if let Some(error) = schema::decode::decode_error(kind, result) {
                return Err(self.invalid(result, &error));
            }
            let from = version.rsplit('/').next().unwrap_or_default();
            let group = if resource.group.is_empty() {
                "core"
            } else {
                &resource.group
            };
            let why = format!(
                "converting ({from}.{kind}) to ({group}.{}): unknown conversion",
                resource.kind
            );
            return Err(self.invalid(result, &why));
        }
        if !result["metadata"].is_object() && !result["metadata"].is_null() {
            return Err(self.invalid(
                result,
                "json: cannot unmarshal metadata into Go value of type v1.ObjectMeta",
            ));
        }
        let error = match self.kind {
            Kind::Strategic => schema::decode::restore_error(&resource.kind, result),
            Kind::Json | Kind::Merge => resource.decode_error(result),
        };
        error.map_or(Ok(()), |why| Err(self.invalid(result, &why)))
    }

    /// Whether [`Patch::invalid`] shows the result of the patch.
    pub(super) fn shows_result(&self) -> bool {
        self.kind != Kind::Strategic
    }

    /// 422 about `result`. For a strategic merge patch, upstream shows the patch in place of the
    /// result.
    pub(super) fn invalid(&self, result: &Value, why: &str) -> Status {
        let patch = self.patch.as_ref().unwrap_or(&Value::Null);
        let shown = match self.kind {
            Kind::Strategic => go_format::printed(patch),
            Kind::Json | Kind::Merge if self.is_custom => {
                let mut result = result.clone();
                result.sort_all_objects();
                result.to_string()
            }
            Kind::Json => result.to_string(),
            Kind::Merge => {
                let mut result = result.clone();
                // Stored metadata has the order in which the server set its fields.
                schema::typed_form::normalize_metadata(&mut result["metadata"]);
                patch::sort_merged(&mut result, patch);
                result.to_string()
            }
        };
        let error = FieldError {
            field: "patch".to_owned(),
            problem: Problem::Invalid(shown.into(), why.to_owned()),
        };
        Status::invalid(
            Qualified {
                group: "",
                name: "",
            },
            "",
            &[error],
        )
    }
}

/// Restores kind and version. Upstream reads the result of a strategic merge patch as the type of the stored
/// object. Those of the patch have no effect.
fn keep_type(object: &mut Value, types: [(&'static str, Value); 2]) {
    let Some(fields) = object.as_object_mut() else {
        return;
    };
    for (field, value) in types {
        if fields
            .get(field)
            .is_none_or(|given| given.is_string() || given.is_null())
        {
            fields.insert(field.to_owned(), value);
        }
    }
}

fn status_of(error: PatchError) -> Status {
    match error {
        PatchError::Malformed(message) => Status::bad_request(message),
        PatchError::Failed(message) => {
            let mut status = Status::new(422, "Invalid", message);
            status.details = Some(Box::new(json!({})));
            status
        }
        PatchError::TooLarge(why) => {
            let message = format!("Request entity too large: {why}");
            Status::new(413, "RequestEntityTooLarge", message)
        }
        PatchError::Internal(message) => Status::unclassified(message),
    }
}
