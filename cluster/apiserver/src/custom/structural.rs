//! Validation of structural schemas. A structural schema specifies a type for every field, so that
//! objects can be pruned, defaulted and merged.
//!
//! Upstream: `pkg/apiserver/schema/validation.go` of apiextensions-apiserver.

use serde_json::{Value, json};

use super::complete;
use super::fit;
use super::rules::{self, Rules};
use super::schema::Schema;
use crate::apimachinery::errors::{Errors, at, list, text};
use crate::schema::internal;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// Fields that are forbidden inside `allOf`, `anyOf`, `oneOf` and `not`, unless they are empty,
/// with the message.
const FORBIDDEN_IN_ALTERNATIVES: [(&str, &str); 11] = [
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    (
        "x-kubernetes-preserve-unknown-fields",
        "must be false to be structural",
    ),
    (
        "x-kubernetes-embedded-resource",
        "must be false to be structural",
    ),
    (
        "x-kubernetes-int-or-string",
        "must be false to be structural",
    ),
    (
        "x-kubernetes-list-type",
        "must be undefined to be structural",
    ),
    (
        "x-kubernetes-map-type",
        "must be undefined to be structural",
    ),
];

/// Fields of JSON Schema that upstream does not support.
const NOT_SUPPORTED: [&str; 6] = [
    "$ref",
    "id",
    "definitions",
    "dependencies",
    "patternProperties",
    "additionalItems",
];

/// Fields of the internal type that the root of a schema can have besides the status subresource.
const ALLOWED_AT_ROOT: [&str; 22] = [
    "Description",
    "Type",
    "Format",
    "Title",
    "Maximum",
    "ExclusiveMaximum",
    "Minimum",
    "ExclusiveMinimum",
    "MaxLength",
    "MinLength",
    "Pattern",
    "MaxItems",
    "MinItems",
    "UniqueItems",
    "MultipleOf",
    "Required",
    "Items",
    "Properties",
    "ExternalDocs",
    "Example",
    "XPreserveUnknownFields",
    "XValidations",
];

#[derive(Clone, Copy, PartialEq)]
/// The place of a node, which decides between messages.
enum Level {
    Root,
    Item,
    Field,
}

/// Appends the errors of one version's schema, which is at `field`.
pub(super) fn check(schema: &Value, with_status: bool, field: &str, errors: &mut Errors) {
    let before = errors.len();
    if with_status {
        root_fields(schema, field, errors);
    }
    if schema["nullable"] == true {
        errors.forbidden(
            format!("{field}.nullable"),
            "nullable cannot be true at the root",
        );
    }
    let mut found = Errors::default();
    node(schema, Level::Root, field, &mut found);
    let mut found = found.into_list();
    // Upstream sorts these errors, because it finds them in the random order of Go's maps.
    found.sort_by_cached_key(ToString::to_string);
    errors.extend(found);
    openapi(schema, field, errors);
    if errors.len() > before {
        return;
    }
    match Schema::parse(schema) {
        Ok(parsed) => {
            defaults(&parsed, field, errors);
            if errors.len() == before {
                rules::definition::check(&parsed, field, errors);
            }
        }
        Err(error) => errors.invalid(field, "", error.to_string()),
    }
}

/// Checks that the root of a schema has only fields that keep their meaning for the status alone.
/// Upstream finds the first other one in the order of the internal type.
fn root_fields(schema: &Value, field: &str, errors: &mut Errors) {
    const TYPE: &str = "apiextensions.JSONSchemaProps";
    let is_set = |(name, _): &(&str, &str)| !schema[*name].is_null();
    for (_, go_name) in internal::names(TYPE).filter(is_set) {
        if go_name == "Type" {
            let kind = text(schema, "type");
            if kind == "object" || kind.is_empty() {
                continue;
            }
            let why = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
            return errors.invalid(format!("{field}.type"), kind, why);
        }
        if !ALLOWED_AT_ROOT.contains(&go_name) {
            let why = format!(
                "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
                ALLOWED_AT_ROOT.join(" ")
            );
            return errors.invalid(field, internal::form(TYPE, schema), why);
        }
    }
}

/// Appends the errors of a node that describes a field, and of all nodes below it.
fn node(schema: &Value, level: Level, field: &str, errors: &mut Errors) {
    let kind = text(schema, "type");
    let is_set = |name: &str| schema[name] == true;
    let free = is_set("x-kubernetes-preserve-unknown-fields");
    let int_or_string = is_set("x-kubernetes-int-or-string");
    let embedded = is_set("x-kubernetes-embedded-resource");
    let below = |name: &str| format!("{field}.{name}");
    if kind == "array" && schema["items"].is_null() {
        errors.required(below("items"), "must be specified");
    }
    match &schema["items"] {
        items @ Value::Object(_) => node(items, Level::Item, &below("items"), errors),
        Value::Null => {}
        _ => errors.forbidden(
            below("items"),
            "items must be a schema object and not an array",
        ),
    }
    for (name, property) in properties(schema) {
        node(
            property,
            Level::Field,
            &format!("{field}.properties[{name}]"),
            errors,
        );
    }
    if !schema["additionalProperties"].is_null() {
        if level == Level::Root {
            errors.forbidden(
                below("additionalProperties"),
                "must not be used at the root",
            );
        }
        if schema["additionalProperties"].is_object() {
            node(
                &schema["additionalProperties"],
                Level::Field,
                &below("additionalProperties"),
                errors,
            );
        }
    }
    for (name, set) in [
        ("preserve-unknown-fields", free),
        ("embedded-resource", embedded),
    ] {
        if int_or_string && set {
            errors.invalid(
                below(&format!("x-kubernetes-{name}")),
                true,
                "must be false if x-kubernetes-int-or-string is true",
            );
        }
    }
    junctors(schema, field, errors);
    if level == Level::Root {
        completeness(schema, schema, field, field, errors);
    }
    let place = below("type");
    match kind {
        "" if embedded => errors.required(
            place,
            "must be object if x-kubernetes-embedded-resource is true",
        ),
        kind if embedded && kind != "object" => {
            errors.invalid(
                place,
                kind,
                "must be object if x-kubernetes-embedded-resource is true",
            );
        }
        "" if !int_or_string && !free => {
            let why = match level {
                Level::Root => "must not be empty at the root",
                Level::Item => "must not be empty for specified array items",
                Level::Field => "must not be empty for specified object fields",
            };
            errors.required(place, why);
        }
        kind if level == Level::Root && !matches!(kind, "" | "object") => {
            errors.invalid(place, kind, "must be object at the root")
        }
        _ => {}
    }
    resource_fields(schema, level, embedded, field, errors);
}

/// Appends the errors in the schema of `apiVersion`, `kind` and `metadata`.
fn resource_fields(schema: &Value, level: Level, embedded: bool, field: &str, errors: &mut Errors) {
    if level != Level::Root && !embedded {
        return;
    }
    for name in ["kind", "apiVersion"] {
        let property = &schema["properties"][name];
        if !property.is_null() && property["type"] != "string" {
            errors.invalid(
                format!("{field}.properties[{name}].type"),
                text(property, "type"),
                "must be string",
            );
        }
    }
    let metadata = &schema["properties"]["metadata"];
    let place = format!("{field}.properties[metadata]");
    if !metadata.is_null() && metadata["type"] != "object" {
        errors.invalid(
            format!("{place}.type"),
            text(metadata, "type"),
            "must be object",
        );
    }
    let allowed = |key: &str| matches!(key, "type" | "properties" | "description");
    let restricted = metadata
        .as_object()
        .is_some_and(|fields| fields.keys().any(|key| !allowed(key)));
    let named =
        properties(metadata).any(|(name, _)| !matches!(name.as_str(), "name" | "generateName"));
    if level == Level::Root && (restricted || named) {
        let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.forbidden(place, why);
    }
    if embedded
        && schema["x-kubernetes-preserve-unknown-fields"] != true
        && properties(schema).next().is_none()
    {
        let why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.required(format!("{field}.properties"), why);
    }
}

/// Checks the alternatives of a node. They restrict values, but cannot declare fields.
fn junctors(schema: &Value, field: &str, errors: &mut Errors) {
    let int_or_string = json!([{"type": "integer"}, {"type": "string"}]);
    for junctor in ["anyOf", "allOf", "oneOf"] {
        // Alternatives can specify types in one case: the two types of an int-or-string.
        if junctor == "anyOf"
            && schema["anyOf"] == int_or_string
            && schema["x-kubernetes-int-or-string"] == true
        {
            continue;
        }
        for (index, alternative) in list(schema, junctor).iter().enumerate() {
            if junctor == "allOf" && index == 0 && alternative["anyOf"] == int_or_string {
                continue;
            }
            nested(alternative, &format!("{field}.{junctor}[{index}]"), errors);
        }
    }
    if schema["not"].is_object() {
        nested(&schema["not"], &format!("{field}.not"), errors);
    }
    let pattern = text(schema, "pattern");
    if let Some(error) = (!pattern.is_empty())
        .then(|| steersman_regexp::translate(pattern).err())
        .flatten()
    {
        let why = format!("must be a valid regular expression, but isn't: {error}");
        errors.invalid(format!("{field}.pattern"), pattern, why);
    }
}

/// Checks one alternative and everything below it.
fn nested(schema: &Value, field: &str, errors: &mut Errors) {
    junctors(schema, field, errors);
    if schema["items"].is_object() {
        nested(&schema["items"], &format!("{field}.items"), errors);
    }
    for (name, property) in properties(schema) {
        let place = format!("{field}.properties[{name}]");
        if name == "metadata" {
            errors.forbidden(&place, "must not be specified in a nested context");
        }
        nested(property, &place, errors);
    }
    for (name, why) in FORBIDDEN_IN_ALTERNATIVES {
        if !is_zero(&schema[name]) {
            errors.forbidden(format!("{field}.{name}"), why);
        }
    }
}

fn is_zero(value: &Value) -> bool {
    matches!(value, Value::Null | Value::Bool(false)) || value == ""
}

/// Every field in an alternative must also be declared by the node itself.
fn completeness(schema: &Value, node: &Value, field: &str, place: &str, errors: &mut Errors) {
    for junctor in ["allOf", "anyOf", "oneOf"] {
        for (index, alternative) in list(schema, junctor).iter().enumerate() {
            counterpart(
                alternative,
                node,
                field,
                &format!("{place}.{junctor}[{index}]"),
                errors,
            );
        }
    }
    if schema["not"].is_object() {
        counterpart(&schema["not"], node, field, &format!("{place}.not"), errors);
    }
}

/// Checks that `node` declares everything that an alternative mentions.
fn counterpart(schema: &Value, node: &Value, field: &str, place: &str, errors: &mut Errors) {
    completeness(schema, node, field, place, errors);
    if schema["items"].is_object() {
        let field = format!("{field}.items");
        let place = format!("{place}.items");
        if node["items"].is_object() {
            counterpart(&schema["items"], &node["items"], &field, &place, errors);
        } else {
            errors.required(field, &format!("because it is defined in {place}"));
        }
    }
    for (name, property) in properties(schema) {
        let field = format!("{field}.properties[{name}]");
        let place = format!("{place}.properties[{name}]");
        match node["properties"].get(name) {
            Some(own) => counterpart(property, own, &field, &place, errors),
            None => errors.required(field, &format!("because it is defined in {place}")),
        }
    }
}

/// Checks the supported part of JSON Schema, and the combinations of extensions.
fn openapi(schema: &Value, field: &str, errors: &mut Errors) {
    let below = |name: &str| format!("{field}.{name}");
    let kind = text(schema, "type");
    if !kind.is_empty() && !TYPES.contains(&kind) {
        errors.not_supported(below("type"), kind, &TYPES);
    }
    for name in NOT_SUPPORTED {
        if !schema[name].is_null() {
            errors.forbidden(below(name), format!("{name} is not supported"));
        }
    }
    if schema["uniqueItems"] == true {
        let why =
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.forbidden(below("uniqueItems"), why);
    }
    let additional = &schema["additionalProperties"];
    if properties(schema).next().is_some() && !additional.is_null() && additional != true {
        errors.forbidden(
            below("additionalProperties"),
            "additionalProperties and properties are mutual exclusive",
        );
    }
    if schema["x-kubernetes-preserve-unknown-fields"] == false {
        errors.invalid(
            below("x-kubernetes-preserve-unknown-fields"),
            false,
            "must be true or undefined",
        );
    }
    lists_and_maps(schema, kind, field, errors);
    let children =
        properties(schema).map(|(name, property)| (format!("properties[{name}]"), property));
    let single =
        ["items", "additionalProperties", "not"].map(|name| (name.to_owned(), &schema[name]));
    let several = ["allOf", "anyOf", "oneOf"].into_iter().flat_map(|junctor| {
        list(schema, junctor)
            .iter()
            .enumerate()
            .map(move |(index, schema)| (format!("{junctor}[{index}]"), schema))
    });
    for (name, child) in children
        .chain(single)
        .chain(several)
        .filter(|(_, child)| child.is_object())
    {
        openapi(child, &below(&name), errors);
    }
}

/// Checks the extensions of lists and maps.
fn lists_and_maps(schema: &Value, kind: &str, field: &str, errors: &mut Errors) {
    const LIST_TYPE: &str = "x-kubernetes-list-type";
    const KEYS: &str = "x-kubernetes-list-map-keys";
    let below = |name: &str| format!("{field}.{name}");
    for (extension, wanted, supported) in [
        (
            "x-kubernetes-map-type",
            "object",
            &["atomic", "granular"][..],
        ),
        (LIST_TYPE, "array", &["atomic", "set", "map"][..]),
    ] {
        let Some(value) = schema[extension].as_str() else {
            continue;
        };
        match kind {
            "" => errors.required(
                below("type"),
                &format!("must be {wanted} if {extension} is specified"),
            ),
            kind if kind != wanted => errors.invalid(
                below("type"),
                kind,
                format!("must be {wanted} if {extension} is specified"),
            ),
            _ => {}
        }
        errors.one_of(below(extension), value, supported);
    }
    let list_type = text(schema, LIST_TYPE);
    let keys: Vec<&str> = list(schema, KEYS)
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let items = &schema["items"];
    match (list_type, keys.is_empty()) {
        ("map", true) => errors.required(
            below(KEYS),
            "must not be empty if x-kubernetes-list-type is map",
        ),
        ("", false) => errors.required(
            below(LIST_TYPE),
            "must be map if x-kubernetes-list-map-keys is non-empty",
        ),
        ("map", false) => keyed_items(items, &keys, field, errors),
        (other, false) => errors.invalid(
            below(LIST_TYPE),
            other,
            "must be map if x-kubernetes-list-map-keys is non-empty",
        ),
        ("set", true) => {
            const WHY: &str = "must be atomic as item of a list with x-kubernetes-list-type=set";
            let (extension, granular) = match text(items, "type") {
                "array" => (LIST_TYPE, !matches!(text(items, LIST_TYPE), "" | "atomic")),
                "object" => (
                    "x-kubernetes-map-type",
                    text(items, "x-kubernetes-map-type") != "atomic",
                ),
                _ => ("", false),
            };
            if granular {
                errors.invalid(
                    below(&format!("items.{extension}")),
                    items[extension].clone(),
                    WHY,
                );
            }
        }
        _ => {}
    }
    if matches!(list_type, "map" | "set") && items["nullable"] == true {
        let why = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.forbidden(below("items.nullable"), why);
    }
}

/// Checks the elements of a list of type `map`: the keys must be required or defaulted scalars.
fn keyed_items(items: &Value, keys: &[&str], field: &str, errors: &mut Errors) {
    const KEYS: &str = "x-kubernetes-list-map-keys";
    if text(items, "type") != "object" {
        let why = "must be object if parent array's x-kubernetes-list-type is map";
        return errors.invalid(format!("{field}.items.type"), text(items, "type"), why);
    }
    for (index, key) in keys.iter().enumerate() {
        let property = &items["properties"][*key];
        let place = format!("{field}.items.properties[{key}]");
        if property.is_null() {
            errors.invalid(
                format!("{field}.{KEYS}"),
                json!(keys),
                "entries must all be names of item properties",
            );
        } else if matches!(text(property, "type"), "array" | "object") {
            let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
            errors.invalid(format!("{place}.type"), text(items, "type"), why);
        }
        if keys[..index].contains(key) {
            errors.invalid(
                format!("{field}.{KEYS}"),
                json!(keys),
                "must not contain duplicate entries",
            );
        }
        let required = list(items, "required")
            .iter()
            .any(|required| required == key);
        if !property.is_null() && !required && property["default"].is_null() {
            let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.required(format!("{place}.default"), why);
        }
        if property["nullable"] == true {
            let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.forbidden(format!("{place}.nullable"), why);
        }
    }
}

/// Defaults must be valid for their own schema, without unknown fields.
fn defaults(schema: &Schema, field: &str, errors: &mut Errors) {
    if let Some(default) = &schema.default {
        let place = format!("{field}.default");
        let mut pruned = default.clone();
        if !complete::prune_part(schema, &mut pruned).is_empty() {
            errors.invalid(&place, default.clone(), "must not have unknown fields");
        }
        errors.extend(fit::check(schema, default, None, &place));
        if let Some(rules) = Rules::of(schema, schema.embedded_resource) {
            errors.extend(rules.check(default, None, &place).errors);
        }
    }
    for (name, property) in &schema.properties {
        defaults(property, &format!("{field}.properties[{name}]"), errors);
    }
    if let Some(additional) = schema.additional() {
        defaults(additional, &format!("{field}.additionalProperties"), errors);
    }
    if let Some(item) = schema.item() {
        defaults(item, &format!("{field}.items"), errors);
    }
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    at(schema, "properties").as_object().into_iter().flatten()
}
