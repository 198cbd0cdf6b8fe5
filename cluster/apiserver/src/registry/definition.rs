//! The rows that a CustomResourceDefinition adds: one per version, with the version's [`Custom`].
//! `rest::definitions` decides which definitions are served.
//!
//! Upstream: `k8s.io/apiextensions-apiserver/pkg/apiserver`.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;
use steersman_releases::Release;

use super::Registered;
use crate::custom::{Custom, jsonpath};
use crate::kinds::{DeleteAnswer, Generation, Resource, SelectableField, Storage, Subresource};
use crate::store::TypeStore;

const VERBS: &[&str] = &[
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];
const READ_WRITE: &[&str] = &["get", "patch", "update"];
const STATUS: Subresource = Subresource {
    name: "status",
    kind: "",
    group_version: None,
    verbs: READ_WRITE,
};
const SCALE: Subresource = Subresource {
    name: "scale",
    kind: "Scale",
    group_version: Some(("autoscaling", "v1")),
    verbs: READ_WRITE,
};

/// The rows for the versions of a definition, the storage version's first.
pub(crate) fn rows(definition: &Value, store: &Arc<TypeStore>) -> Vec<Registered> {
    let versions = definition["spec"]["versions"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let Some(stored) = versions.iter().find(|version| version["storage"] == true) else {
        return Vec::new();
    };
    let storage = Arc::new(Custom::parse(definition, stored, None));
    let others = versions
        .iter()
        .filter(|version| !std::ptr::eq(*version, stored))
        .map(|version| {
            let custom = Custom::parse(definition, version, Some(storage.clone()));
            (version, Arc::new(custom))
        });
    std::iter::once((stored, storage.clone()))
        .chain(others)
        .map(|(version, custom)| {
            let row = Registered::new(row(definition, version, custom), store.clone());
            Registered {
                served: version["served"] == true,
                ..row
            }
        })
        .collect()
}

/// The storage row of a definition, for a store of its objects.
pub(crate) fn stored_row(definition: &Value) -> Option<Resource> {
    let versions = definition["spec"]["versions"].as_array()?;
    let stored = versions.iter().find(|version| version["storage"] == true)?;
    Some(row(
        definition,
        stored,
        Arc::new(Custom::parse(definition, stored, None)),
    ))
}

fn row(definition: &Value, version: &Value, custom: Arc<Custom>) -> Resource {
    let spec = &definition["spec"];
    let names = &definition["status"]["acceptedNames"];
    let owned = |value: &Value, field: &str| Cow::Owned(text(value, field).to_owned());
    let list = |field: &str| -> Vec<Cow<'static, str>> {
        let entries = names[field].as_array().into_iter().flatten();
        entries
            .filter_map(|entry| entry.as_str().map(|entry| Cow::Owned(entry.to_owned())))
            .collect()
    };
    let subresources: &'static [Subresource] = match (custom.has_status, custom.scale().is_some()) {
        (false, false) => &[],
        (true, false) => const { &[STATUS] },
        (false, true) => const { &[SCALE] },
        (true, true) => const { &[STATUS, SCALE] },
    };
    Resource {
        group: owned(spec, "group"),
        version: owned(version, "name"),
        kind: owned(names, "kind"),
        plural: owned(&spec["names"], "plural"),
        singular: owned(names, "singular"),
        short_names: list("shortNames"),
        categories: list("categories"),
        namespaced: text(spec, "scope") == "Namespaced",
        verbs: VERBS,
        subresources,
        generation: if custom.has_status {
            Generation::Content
        } else {
            Generation::ContentAndStatus
        },
        fields: Cow::Owned(selectable(version)),
        own_field_labels: true,
        delete_answer: DeleteAnswer::Status,
        create_on_update: false,
        unconditional_update: false,
        orphans_by_default: false,
        garbage_collected: true,
        storage: if custom.storage.is_some() {
            Storage::OtherVersion
        } else {
            Storage::Own
        },
        custom: Some(custom),
        release: Release::DEFAULT,
    }
}

/// The fields that field selectors of a version may name.
fn selectable(version: &Value) -> Vec<SelectableField> {
    let fields = version["selectableFields"].as_array().into_iter().flatten();
    let field = |field: &Value| {
        let names = jsonpath::names(text(field, "jsonPath"))?;
        let pointer = Cow::Owned(format!("/{}", names.join("/")));
        Some(SelectableField {
            label: Cow::Owned(names.join(".")),
            pointer,
            fallback: "",
            group: None,
            absent: "",
        })
    };
    fields.filter_map(field).collect()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}
