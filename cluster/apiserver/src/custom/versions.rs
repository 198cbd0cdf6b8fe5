//! Validation of the versions of a CustomResourceDefinition, with upstream's messages.
//!
//! Upstream's internal type keeps fields that all versions share in one place of the spec, whose
//! path errors have. Upstream: `k8s.io/apiextensions-apiserver/pkg/apis/apiextensions`,
//! `v1/conversion.go` and `validation/validation.go`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::structural;
use crate::apimachinery::errors::{Errors, at, text};
use crate::apimachinery::formats::dns_label;
use crate::schema::internal;

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] = [
    "byte",
    "date",
    "date-time",
    "double",
    "float",
    "int32",
    "int64",
    "password",
];
const NO_PATH: &str = "must be a simple json path starting with .";
const MAX_SELECTABLE_FIELDS: usize = 8;
const MAX_WARNING: usize = 256;

/// The fields that versions can share.
const SHARED: [&str; 4] = [
    "schema",
    "subresources",
    "additionalPrinterColumns",
    "selectableFields",
];

/// The versions of a definition.
pub(super) struct Versions<'a> {
    pub(super) all: &'a [Value],
    /// The versions before an update.
    pub(super) known: &'a [Value],
}

/// The paths of the fields of one version, or of the fields that all versions share.
struct Paths {
    schema: String,
    subresources: String,
    columns: String,
    selectable: String,
    /// The error of selectable fields without a schema.
    no_schema: &'static str,
}

impl Paths {
    fn of_version(index: usize) -> Self {
        let field = |name: &str| format!("spec.versions[{index}].{name}");
        Self {
            schema: field("schema.openAPIV3Schema"),
            subresources: field("subresources"),
            columns: field("additionalPrinterColumns"),
            selectable: field("selectableFields"),
            no_schema: "may only be set when `version.schema.openAPIV3Schema` is not included",
        }
    }

    fn shared() -> Self {
        Self {
            schema: "spec.validation.openAPIV3Schema".to_owned(),
            subresources: "spec.subresources".to_owned(),
            columns: "spec.additionalPrinterColumns".to_owned(),
            selectable: "spec.selectableFields".to_owned(),
            no_schema: "may only be set when validations.schema is included",
        }
    }
}

impl Versions<'_> {
    /// Appends the errors of all versions, except those of shared fields.
    pub(super) fn check(&self, errors: &mut Errors) {
        for (index, version) in self.all.iter().enumerate() {
            if at(version, "schema.openAPIV3Schema").is_null() {
                errors.required(Paths::of_version(index).schema, "");
            }
        }
        let changed = |(_, version): &(usize, &Value)| !self.known.contains(version);
        for (index, version) in self.all.iter().enumerate().filter(changed) {
            let field = |name: &str| format!("spec.versions[{index}].{name}");
            let name = text(version, "name");
            let problems = dns_label(name);
            if !problems.is_empty() {
                errors.invalid(field("name"), name, problems.join(","));
            }
            check_deprecation(version, &field("deprecationWarning"), errors);
            let with_status = at(version, "subresources.status").is_object();
            self.check_fields(
                version,
                false,
                with_status,
                &Paths::of_version(index),
                errors,
            );
        }
        let names: BTreeSet<&str> = self
            .all
            .iter()
            .map(|version| text(version, "name"))
            .collect();
        if names.len() < self.all.len() {
            errors.invalid(
                "spec.versions",
                self.shown(),
                "must contain unique version names",
            );
        }
        let is_stored = |version: &&Value| version["storage"] == true;
        if self.all.iter().filter(is_stored).count() != 1 {
            let why = "must have exactly one version marked as storage version";
            errors.invalid("spec.versions", self.shown(), why);
        }
        // The internal type has the name of the first version in a field of its own, too.
        let first = self.all.first().map_or("", |version| text(version, "name"));
        let problems = dns_label(first);
        if !first.is_empty() && !problems.is_empty() {
            errors.invalid("spec.version", first, problems.join(","));
        }
    }

    /// Appends the errors of the fields that all versions share.
    pub(super) fn check_shared(&self, errors: &mut Errors) {
        let is_kept = self.all.iter().all(|version| self.known.contains(version));
        let Some(version) = self.all.first().filter(|_| !is_kept) else {
            return;
        };
        let has_status = |version: &Value| at(version, "subresources.status").is_object();
        let with_status = self.all.iter().any(has_status);
        self.check_fields(version, true, with_status, &Paths::shared(), errors);
    }

    /// Checks the fields of a version that are, or are not, the same in all versions.
    fn check_fields(
        &self,
        version: &Value,
        shared: bool,
        with_status: bool,
        paths: &Paths,
        errors: &mut Errors,
    ) {
        let field = |name: &str| {
            if self.is_shared(name) == shared {
                at(version, name)
            } else {
                &Value::Null
            }
        };
        let schema = at(field("schema"), "openAPIV3Schema");
        if !schema.is_null() {
            structural::check(schema, with_status, &paths.schema, errors);
        }
        let scale = at(field("subresources"), "scale");
        check_scale(scale, &format!("{}.scale", paths.subresources), errors);
        let columns = field("additionalPrinterColumns").as_array();
        for (number, column) in columns.into_iter().flatten().enumerate() {
            check_column(column, &format!("{}[{number}]", paths.columns), errors);
        }
        match field("selectableFields").as_array() {
            None => {}
            Some(_) if schema.is_null() => {
                errors.invalid(&paths.selectable, "", paths.no_schema);
            }
            Some(fields) => check_selectable(fields, schema, &paths.selectable, errors),
        }
    }

    /// Whether all versions have the same value of a field.
    fn is_shared(&self, field: &str) -> bool {
        let mut versions = self.all.windows(2);
        versions.all(|pair| pair[0][field] == pair[1][field])
    }

    /// The internal form of all versions, which lacks shared fields.
    fn shown(&self) -> Value {
        if self.all.is_empty() {
            return Value::Null;
        }
        let mut versions = self.all.to_vec();
        for field in SHARED.into_iter().filter(|field| self.is_shared(field)) {
            for version in versions.iter_mut().filter_map(Value::as_object_mut) {
                version.remove(field);
            }
        }
        internal::form(
            "apiextensions.CustomResourceDefinitionVersion",
            &Value::from(versions),
        )
    }
}

fn check_deprecation(version: &Value, field: &str, errors: &mut Errors) {
    let Some(warning) = version["deprecationWarning"].as_str() else {
        return;
    };
    if version["deprecated"] != true {
        return errors.invalid(field, warning, "can only be set for deprecated versions");
    }
    if warning.len() > MAX_WARNING {
        errors.invalid(field, warning, "must be <= 256 characters long");
    }
    if warning.is_empty() {
        errors.invalid(field, warning, "must not be an empty string");
    }
    if let Some((index, _)) = warning
        .char_indices()
        .find(|(_, letter)| letter.is_control())
    {
        let why = format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {index}"
        );
        errors.invalid(field, warning, why);
    }
}

/// Replica paths must be plain paths into spec or status.
fn check_scale(scale: &Value, field: &str, errors: &mut Errors) {
    if scale.is_null() {
        return;
    }
    let mut path = |name: &str, parts: &[&str]| {
        let field = format!("{field}.{name}");
        match text(scale, name) {
            "" if name == "labelSelectorPath" => {}
            "" => errors.required(field, ""),
            path if !path.starts_with('.') => errors.invalid(field, path, NO_PATH),
            path if !parts.iter().any(|part| path.starts_with(part)) => {
                let why = match parts {
                    [only] => format!("should be a json path under {only}"),
                    _ => "should be a json path under either .status or .spec".to_owned(),
                };
                errors.invalid(field, path, why);
            }
            _ => {}
        }
    };
    path("specReplicasPath", &[".spec."]);
    path("statusReplicasPath", &[".status."]);
    path("labelSelectorPath", &[".status.", ".spec."]);
}

fn check_column(column: &Value, field: &str, errors: &mut Errors) {
    if text(column, "name").is_empty() {
        errors.required(format!("{field}.name"), "");
    }
    let types = format!("must be one of {}", COLUMN_TYPES.join(","));
    match text(column, "type") {
        "" => errors.required(format!("{field}.type"), &types),
        kind if !COLUMN_TYPES.contains(&kind) => {
            errors.invalid(format!("{field}.type"), kind, types)
        }
        _ => {}
    }
    let format = text(column, "format");
    if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
        let why = format!("must be one of {}", COLUMN_FORMATS.join(","));
        errors.invalid(format!("{field}.format"), format, why);
    }
    match text(column, "jsonPath") {
        "" => errors.required(format!("{field}.JSONPath"), ""),
        path if !path.starts_with('.') => {
            errors.invalid(format!("{field}.JSONPath"), path, NO_PATH);
        }
        _ => {}
    }
}

/// Selectable fields must be scalars that the schema declares outside of metadata.
fn check_selectable(fields: &[Value], schema: &Value, field: &str, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, selectable) in fields.iter().enumerate() {
        let field = format!("{field}[{index}].jsonPath");
        let path = text(selectable, "jsonPath");
        if path.is_empty() {
            errors.required(field, "");
            continue;
        }
        let found = match selected(schema, path) {
            Ok(found) => found,
            Err(why) => {
                errors.invalid(field, path, format!("is an invalid path: {why}"));
                continue;
            }
        };
        if path.starts_with(".metadata") {
            errors.invalid(&field, path, "must not point to fields in metadata");
        }
        if !matches!(text(found, "type"), "string" | "boolean" | "integer") {
            let why = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are \
                       allowed.";
            errors.invalid(&field, path, why);
        }
        if !seen.insert(path) {
            errors.duplicate(field, path);
        }
    }
    if seen.len() > MAX_SELECTABLE_FIELDS {
        errors.too_many(field, seen.len(), MAX_SELECTABLE_FIELDS);
    }
}

/// The schema of the field that a path without brackets names.
/// Upstream: `pkg/apiserver/schema/cel/validation.go`, ValidFieldPath.
fn selected<'a>(mut schema: &'a Value, path: &str) -> Result<&'a Value, String> {
    const UNKNOWN: &str = "does not refer to a valid field";
    let token = |text: &str| {
        let end = text.find(['.', '[', ']']).unwrap_or(text.len());
        text[..end.max(1)].to_owned()
    };
    let mut rest = path;
    while !rest.is_empty() {
        if rest.starts_with('[') {
            return Err("array notation is not allowed".to_owned());
        }
        let Some(after) = rest.strip_prefix('.') else {
            return Err(format!("expected [ or . but got: {}", token(rest)));
        };
        if after.is_empty() {
            return Err("unexpected end of JSON path".to_owned());
        }
        let name = token(after);
        schema = match schema["properties"].as_object() {
            Some(properties) => properties.get(&name).ok_or(UNKNOWN)?,
            None if schema["additionalProperties"].is_object() => &schema["additionalProperties"],
            None => return Err(UNKNOWN.to_owned()),
        };
        rest = &after[name.len()..];
    }
    Ok(schema)
}
