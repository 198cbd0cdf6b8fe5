//! Custom kinds: everything that a CustomResourceDefinition defines about a kind.
//!
//! definition -> [`rows`] of the table of kinds, one per served version, each with its [`Custom`]:
//! `schema` -> `complete` (pruning, defaults), `validate`, `columns`, `scale`. The module
//! `rest::definitions` decides which definitions are served.
//!
//! A custom kind is a row of the same table as built-in kinds, so all request handlers work for
//! both. Upstream: `k8s.io/apiextensions-apiserver`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use serde_json::Value;

use crate::apimachinery::{self, version};
use crate::fielderror::{FieldError, Problem};

mod columns;
mod complete;
mod conversion;
pub(crate) mod definition;
mod embedded;
mod fit;
pub(crate) mod jsonpath;
pub(crate) mod names;
mod rules;
mod scale;
mod schema;
mod structural;
mod versions;

pub(crate) use conversion::Converter;
pub(crate) use scale::Scale;
pub(crate) use schema::{ListType, Schema};

use columns::Column;
use rules::{Findings, Rules};

/// One version of a custom kind.
#[derive(Debug)]
pub struct Custom {
    /// Identifies the state of the definition from which this was made.
    pub(crate) source: Source,
    pub(crate) version: String,
    pub(crate) list_kind: String,
    /// The definition is being deleted. Watches go on, so this changes without new rows.
    terminating: AtomicBool,
    /// The storage version, if this version is a different one.
    pub(crate) storage: Option<Arc<Custom>>,
    /// The webhook that converts between versions; `None` if these differ only in their schemas.
    pub(crate) converter: Option<Converter>,
    /// The schema as written in the definition.
    pub(crate) document: Value,
    document_text_hash: OnceLock<u64>,
    schema: Schema,
    rules: Option<Rules>,
    pub(crate) has_status: bool,
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
}

impl Source {
    pub(crate) fn of(definition: &Value) -> Self {
        let metadata = &definition["metadata"];
        Self {
            uid: text(metadata, "uid").to_owned(),
            generation: metadata["generation"].as_i64().unwrap_or(0),
            accepted_names: definition["status"]["acceptedNames"].clone(),
        }
    }
}

/// The warning of a deprecated version without a text of its own. It recommends the best of the served
/// versions that are better.
///
/// Upstream: `defaultDeprecationWarning` of `apiextensions-apiserver/pkg/apiserver`.
fn default_warning(spec: &Value, deprecated: &str) -> String {
    let of = |version: &str| {
        let kind = text(&spec["names"], "kind");
        format!("{}/{version} {kind}", text(spec, "group"))
    };
    let versions = spec["versions"].as_array().into_iter().flatten();
    let better = versions
        .filter(|version| version["served"] == true && version["deprecated"] != true)
        .map(|version| text(version, "name"))
        .filter(|name| version::compare(name, deprecated).is_lt())
        .min_by(|a, b| version::compare(a, b));
    let advice = better.map(|name| format!("; use {}", of(name)));
    format!(
        "{} is deprecated{}",
        of(deprecated),
        advice.unwrap_or_default()
    )
}

impl Custom {
    /// Parses `version`, an entry of `spec.versions` of a valid definition.
    pub(crate) fn parse(definition: &Value, version: &Value, storage: Option<Arc<Custom>>) -> Self {
        let document = &version["schema"]["openAPIV3Schema"];
        let mut schema = Schema::parse(document).unwrap_or_default();
        schema.preserve_unknown |= definition["spec"]["preserveUnknownFields"] == true;
        let name = text(version, "name");
        let spec = &definition["spec"];
        let deprecated = version["deprecated"] == true;
        let own_warning = version["deprecationWarning"].as_str().map(str::to_owned);
        Self {
            source: Source::of(definition),
            version: name.to_owned(),
            list_kind: text(&definition["status"]["acceptedNames"], "listKind").to_owned(),
            terminating: AtomicBool::default(),
            storage,
            converter: Converter::parse(definition),
            document: document.clone(),
            document_text_hash: OnceLock::new(),
            rules: Rules::of_resource(&schema),
            schema,
            has_status: version["subresources"]["status"].is_object(),
            scale: Scale::parse(&version["subresources"]["scale"]),
            columns: Column::of_version(version),
            deprecation: deprecated
                .then(|| own_warning.unwrap_or_else(|| default_warning(spec, name))),
        }
    }

    /// Whether the definition is being deleted: objects can be deleted then, but not created.
    pub(crate) fn is_terminating(&self) -> bool {
        self.terminating.load(Ordering::Acquire)
    }

    /// Marks the definition as being deleted, which has no way back.
    pub(crate) fn terminate(&self) {
        self.terminating.store(true, Ordering::Release);
    }

    /// The paths of replicas and selector, if the kind has the scale subresource.
    pub(crate) fn scale(&self) -> Option<&Scale> {
        self.scale.as_ref()
    }

    /// The warning in every answer for a deprecated version.
    pub(crate) fn deprecation(&self) -> Option<&str> {
        self.deprecation.as_deref()
    }

    /// `hash` of the text of the schema. The first call computes it, because an index of all
    /// schemas otherwise costs as much as their texts together.
    pub(crate) fn document_hash(&self, hash: impl FnOnce(&str) -> u64) -> u64 {
        *self
            .document_text_hash
            .get_or_init(|| hash(&self.document.to_string()))
    }

    /// The schema of objects.
    pub(crate) fn schema(&self) -> &Schema {
        &self.schema
    }

    pub(crate) fn prune(&self, object: &mut Value) -> Vec<String> {
        complete::prune(&self.schema, object)
    }

    /// Removes nulls that the schema forbids, unless a default replaces them.
    pub(crate) fn drop_nulls(&self, object: &mut Value) {
        complete::drop_nulls(&self.schema, object);
    }

    pub(crate) fn set_defaults(&self, object: &mut Value) {
        complete::set_defaults(&self.schema, object);
    }

    /// Removes forbidden nulls and sets defaults. Idempotent.
    pub(crate) fn complete(&self, object: &mut Value) {
        self.drop_nulls(object);
        self.set_defaults(object);
    }

    pub(crate) fn columns(&self) -> Vec<Value> {
        columns::definitions(&self.columns)
    }

    pub(crate) fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        columns::cells(&self.columns, object, now)
    }

    /// The errors of a new object.
    pub(crate) fn errors(&self, object: &Value) -> Vec<FieldError> {
        let mut errors = apimachinery::metadata(object);
        errors.extend(fit::check(&self.schema, object, None, ""));
        errors.extend(self.scale.iter().flat_map(|scale| scale.errors(object)));
        errors.extend(embedded::errors(&self.schema, object));
        errors.extend(fit::duplicates(&self.schema, object, ""));
        let found = self.check_rules(object, None, &errors);
        errors.extend(found.errors);
        errors
    }

    /// Checks the rules, unless other errors make the results meaningless.
    fn check_rules(&self, object: &Value, old: Option<&Value>, errors: &[FieldError]) -> Findings {
        let Some(rules) = &self.rules else {
            return Findings::default();
        };
        let blocks = |error: &FieldError| {
            matches!(
                error.problem,
                Problem::Required(_)
                    | Problem::TypeInvalid(..)
                    | Problem::NotSupported(..)
                    | Problem::TooLong(_)
                    | Problem::TooMany(..)
            )
        };
        if !errors.iter().any(blocks) {
            return rules.check(object, old, "");
        }
        const SKIPPED: &str = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
        let skipped = FieldError {
            field: "<nil>".to_owned(),
            problem: Problem::Invalid(Value::Null, SKIPPED.to_owned()),
        };
        Findings {
            errors: vec![skipped],
            ..Findings::default()
        }
    }

    /// Warnings about an update: rules that a part fails which the update keeps.
    pub(crate) fn update_warnings(&self, new: &Value, old: &Value) -> Vec<String> {
        let found = self.check_rules(new, Some(old), &[]);
        found.kept.iter().map(ToString::to_string).collect()
    }

    /// The errors of an update from `old` to `new`, through the main endpoint or through `part`.
    pub(crate) fn update_errors(
        &self,
        part: Option<&str>,
        new: &Value,
        old: &Value,
    ) -> Vec<FieldError> {
        let mut errors = apimachinery::metadata_update(new, old);
        if part == Some("status") {
            if let Some(schema) = self.schema.property("status")
                && let Some(status) = new.get("status")
            {
                // A null in place of a missing status is no change.
                let before = old.get("status").or(Some(&Value::Null));
                let before = before.filter(|before| !before.is_null() || status.is_null());
                errors.extend(fit::check_part(schema, status, before, "status"));
                errors.extend(fit::duplicates(schema, status, "status"));
            }
            errors.extend(self.scale.iter().flat_map(|scale| scale.status_errors(new)));
            let found = self.check_rules(new, Some(old), &errors);
            errors.extend(found.errors);
            return errors;
        }
        errors.extend(fit::check(&self.schema, new, Some(old), ""));
        errors.extend(self.scale.iter().flat_map(|scale| scale.errors(new)));
        errors.extend(embedded::errors(&self.schema, new));
        // Duplicates in the old object do not block other changes.
        if fit::duplicates(&self.schema, old, "").is_empty() {
            errors.extend(fit::duplicates(&self.schema, new, ""));
        }
        let found = self.check_rules(new, Some(old), &errors);
        errors.extend(found.errors);
        errors
    }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}
