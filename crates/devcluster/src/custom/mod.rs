//! Custom kinds: what a CustomResourceDefinition makes of a kind.
//!
//! definition -> [`rows`] of the table of kinds, one per served version, each with its [`Custom`]:
//! `schema` -> `complete` (pruning, defaults), `validate`, `columns`, `scale`. Which definitions
//! are served is decided in `rest::definitions`.

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
    /// The state of the definition that this was made of.
    pub(crate) source: Source,
    pub(crate) version: String,
    pub(crate) list_kind: String,
    /// The definition is being deleted: objects can go, but no new ones come.
    pub(crate) terminating: bool,
    /// The version that objects are kept in, when it is another one.
    pub(crate) storage: Option<Arc<Custom>>,
    /// The schema as the definition has it.
    pub(crate) document: Value,
    schema: Schema,
    has_status: bool,
    scale: Option<Scale>,
    columns: Vec<Column>,
    deprecation: Option<String>,
}

/// What of a definition decides what is served.
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
    /// `version` is an entry of `spec.versions` of a valid definition.
    fn parse(definition: &Value, version: &Value, storage: Option<Arc<Custom>>) -> Self {
        let document = &version["schema"]["openAPIV3Schema"];
        let mut schema = Schema::parse(document).unwrap_or_default();
        schema.preserve_unknown |= definition["spec"]["preserveUnknownFields"] == true;
        let name = text(version, "name");
        let spec = &definition["spec"];
        let deprecated = version["deprecated"] == true;
        let own_words = version["deprecationWarning"].as_str().map(str::to_owned);
        let words = || {
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
            deprecation: deprecated.then(|| own_words.unwrap_or_else(words)),
        }
    }

    /// Where replicas are, if the kind can be scaled.
    pub(crate) fn scale(&self) -> Option<&Scale> {
        self.scale.as_ref()
    }

    /// What every answer about a deprecated version warns of.
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

    /// What is wrong with a new object.
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

    /// What is wrong with replacing `old` by `new`, as a whole or through `part`.
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
        // Duplicates that were there before do not keep anybody from changing something else.
        if fit::duplicates(&self.schema, old, "").is_empty() {
            errors.extend(fit::duplicates(&self.schema, new, ""));
        }
        errors
    }

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

/// Kind and version of an object must be those of the resource.
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
