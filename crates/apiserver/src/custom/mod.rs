//! Custom kinds: everything that a CustomResourceDefinition defines about a kind.
//!
//! definition -> [`rows`] of the table of kinds, one per served version, each with its [`Custom`]:
//! `schema` -> `complete` (pruning, defaults), `validate`, `columns`, `scale`. The module
//! `rest::definitions` decides which definitions are served.
//!
//! A custom kind is a row of the same table as built-in kinds, so all request handlers work for
//! both. Upstream: `k8s.io/apiextensions-apiserver`.

use std::borrow::Cow;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::fielderror::{FieldError, Problem};
use crate::fields::Shape;
use crate::kinds::{
    DeleteAnswer, Generation, Registered, Resource, SelectableField, Storage, Subresource,
};
use crate::store::TypeStore;
use crate::validate;

mod columns;
mod complete;
pub(crate) mod definition;
mod embedded;
mod fit;
mod formats;
mod jsonpath;
pub(crate) mod names;
mod scale;
mod schema;
mod structural;

pub(crate) use scale::Scale;
pub(crate) use schema::{ListType, Schema};

use columns::Column;

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

/// One version of a custom kind.
#[derive(Debug)]
pub struct Custom {
    /// Identifies the state of the definition from which this was made.
    pub(crate) source: Source,
    pub(crate) version: String,
    pub(crate) list_kind: String,
    /// The definition is being deleted. Objects can be deleted, but not created.
    pub(crate) terminating: bool,
    /// The storage version, if this version is a different one.
    pub(crate) storage: Option<Arc<Custom>>,
    /// The schema as written in the definition.
    pub(crate) document: Value,
    schema: Schema,
    has_status: bool,
    scale: Option<Scale>,
    columns: Vec<Column>,
    deprecation: Option<String>,
}

/// The parts of a definition that determine the served API.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Source {
    pub(crate) uid: String,
    generation: i64,
    accepted_names: Value,
    terminating: bool,
}

impl Source {
    pub(crate) fn of(definition: &Value) -> Self {
        let metadata = &definition["metadata"];
        Self {
            uid: text(metadata, "uid").to_owned(),
            generation: metadata["generation"].as_i64().unwrap_or(0),
            accepted_names: definition["status"]["acceptedNames"].clone(),
            terminating: metadata.get("deletionTimestamp").is_some(),
        }
    }
}

impl Custom {
    /// Parses `version`, an entry of `spec.versions` of a valid definition.
    fn parse(definition: &Value, version: &Value, storage: Option<Arc<Custom>>) -> Self {
        let document = &version["schema"]["openAPIV3Schema"];
        let mut schema = Schema::parse(document).unwrap_or_default();
        schema.preserve_unknown |= definition["spec"]["preserveUnknownFields"] == true;
        let name = text(version, "name");
        let spec = &definition["spec"];
        let deprecated = version["deprecated"] == true;
        let own_warning = version["deprecationWarning"].as_str().map(str::to_owned);
        let default_warning = || {
            format!(
                "{}/{name} {} is deprecated",
                text(spec, "group"),
                text(&spec["names"], "kind")
            )
        };
        Self {
            source: Source::of(definition),
            version: name.to_owned(),
            list_kind: text(&definition["status"]["acceptedNames"], "listKind").to_owned(),
            terminating: definition["metadata"].get("deletionTimestamp").is_some(),
            storage,
            document: document.clone(),
            schema,
            has_status: version["subresources"]["status"].is_object(),
            scale: Scale::parse(&version["subresources"]["scale"]),
            columns: Column::of_version(version),
            deprecation: deprecated.then(|| own_warning.unwrap_or_else(default_warning)),
        }
    }

    /// The paths of replicas and selector, if the kind has the scale subresource.
    pub(crate) fn scale(&self) -> Option<&Scale> {
        self.scale.as_ref()
    }

    /// The warning in every answer for a deprecated version.
    pub(crate) fn deprecation(&self) -> Option<&str> {
        self.deprecation.as_deref()
    }

    pub(crate) fn shape(&self) -> Shape<'_> {
        if self.schema.kind.is_empty() && self.schema.preserve_unknown {
            Shape::Free
        } else {
            Shape::Custom(&self.schema)
        }
    }

    pub(crate) fn prune(&self, object: &mut Value) -> Vec<String> {
        complete::prune(&self.schema, object)
    }

    pub(crate) fn complete(&self, object: &mut Value) {
        complete::complete(&self.schema, object);
    }

    pub(crate) fn columns(&self) -> Vec<Value> {
        columns::definitions(&self.columns)
    }

    pub(crate) fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        columns::cells(&self.columns, object, now)
    }

    /// The errors of a new object.
    pub(crate) fn errors(&self, resource: &Resource, object: &Value) -> Vec<FieldError> {
        let mut errors = kind_errors(resource, object);
        if errors.is_empty() {
            errors.extend(validate::metadata(object));
            errors.extend(fit::check(&self.schema, object, None, ""));
            errors.extend(self.scale.iter().flat_map(|scale| scale.errors(object)));
            errors.extend(embedded::errors(&self.schema, object));
            errors.extend(fit::duplicates(&self.schema, object, ""));
        }
        errors
    }

    /// The errors of an update from `old` to `new`, through the main endpoint or through `part`.
    pub(crate) fn update_errors(
        &self,
        resource: &Resource,
        part: Option<&str>,
        new: &Value,
        old: &Value,
    ) -> Vec<FieldError> {
        let mut errors = kind_errors(resource, new);
        if !errors.is_empty() {
            return errors;
        }
        errors.extend(validate::metadata_update(new, old));
        if part == Some("status") {
            if let (Some(schema), Some(status)) =
                (self.schema.property("status"), new.get("status"))
            {
                errors.extend(fit::check(schema, status, old.get("status"), "status"));
                errors.extend(fit::duplicates(schema, status, "status"));
            }
            errors.extend(self.scale.iter().flat_map(|scale| scale.status_errors(new)));
            return errors;
        }
        errors.extend(fit::check(&self.schema, new, Some(old), ""));
        errors.extend(self.scale.iter().flat_map(|scale| scale.errors(new)));
        errors.extend(embedded::errors(&self.schema, new));
        // Duplicates in the old object do not block other changes.
        if fit::duplicates(&self.schema, old, "").is_empty() {
            errors.extend(fit::duplicates(&self.schema, new, ""));
        }
        errors
    }

    /// The selectable fields of a version.
    fn selectable(version: &Value) -> Vec<SelectableField> {
        let fields = version["selectableFields"].as_array().into_iter().flatten();
        let field = |field: &Value| {
            let names = jsonpath::names(text(field, "jsonPath"))?;
            let pointer = Cow::Owned(format!("/{}", names.join("/")));
            Some(SelectableField {
                label: Cow::Owned(names.join(".")),
                pointer,
                absent: "",
            })
        };
        fields.filter_map(field).collect()
    }
}

/// The table rows for all versions of a definition, the storage version first.
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

/// The row of the storage version, for a store of the objects.
pub(crate) fn stored_row(definition: &Value) -> Option<Resource> {
    let versions = definition["spec"]["versions"].as_array()?;
    let stored = versions.iter().find(|version| version["storage"] == true)?;
    Some(row(
        definition,
        stored,
        Arc::new(Custom::parse(definition, stored, None)),
    ))
}

/// The table row of one version.
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
    let subresources: &'static [Subresource] = match (custom.has_status, custom.scale.is_some()) {
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
        fields: Cow::Owned(Custom::selectable(version)),
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
    }
}

/// Kind and apiVersion of an object must equal those of the resource.
fn kind_errors(resource: &Resource, object: &Value) -> Vec<FieldError> {
    let must_be = |field: &str, wanted: &str| {
        let problem = Problem::Invalid(object[field].clone(), format!("must be {wanted}"));
        (object[field] != *wanted).then(|| FieldError {
            field: field.to_owned(),
            problem,
        })
    };
    [
        must_be("kind", &resource.kind),
        must_be("apiVersion", &resource.api_version()),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}
