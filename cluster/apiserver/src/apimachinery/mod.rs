//! Checks that built-in and custom kinds share: lists of errors, paths, formats of
//! names and addresses, metadata, and the order of versions.
//!
//! `validate` (built-in kinds) and `custom` both use this module, and `validate` checks
//! CustomResourceDefinitions with `custom`. Without this module the two would need each other.
//!
//! Upstream: `k8s.io/apimachinery/pkg/util/validation` and `pkg/api/validation`.

use serde_json::Value;

use crate::fielderror::FieldError;

pub(crate) mod addresses;
pub(crate) mod errors;
pub(crate) mod meta;
pub(crate) mod path;
pub(crate) mod schema_formats;
pub(crate) mod version;
pub(crate) mod webhook_client;

pub(crate) use steersman_values::validation::{formats, string_formats};

use errors::Errors;

/// Why upstream's client sends no request with this name in its path.
///
/// Upstream: `IsValidPathSegmentName` in `Request.Name` of `k8s.io/client-go/rest`.
pub(crate) fn unusable_in_path(name: &str) -> Option<String> {
    let why = formats::path_segment(name);
    (!why.is_empty()).then(|| format!("invalid resource name {name:?}: [{}]", why.join(" ")))
}

/// Errors in the metadata of a new object of a custom kind.
pub(crate) fn metadata(object: &Value) -> Vec<FieldError> {
    let mut errors = Errors::default();
    meta::check("", object, &mut errors);
    errors.into_list()
}

/// Errors in the metadata of `new`, which replaces `old`, found as often as upstream finds them.
pub(crate) fn metadata_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Errors::default();
    meta::check_any(new, &mut errors);
    meta::check_update("", new, old, &mut errors);
    meta::check_update("", new, old, &mut errors);
    errors.into_list()
}
