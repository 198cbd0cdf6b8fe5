//! `/openapi/v2`: all kinds in one document, converted from version 3 at request time.
//!
//! Clients based on client-go, such as Helm and older versions of kubectl, validate by its
//! definitions. They also read the parameters of patches, to see which ones the server supports.
//! Generators of clients read all operations.

use serde_json::{Map, Value, json};

use super::paths::pages;
use super::schemas::Schemas;
use super::{Document, fingerprint, published};
use crate::registry::Registry;

/// Parameters that stay in their operations. Versions of kubectl before 1.27 look there for the
/// last two. Upstream: `collectSharedParameters` of `kube-openapi/pkg/builder/parameters.go`.
const UNSHARED: [&str; 3] = ["name", "dryRun", "fieldValidation"];

/// The document of all group versions.
pub(crate) fn document(registry: &Registry) -> Document {
    let mut schemas = Schemas::of(registry.release(), published::group_versions());
    let mut shared = Shared::default();
    let mut paths = Map::new();
    let mut all = Vec::new();
    for page in pages(registry) {
        let (path, newer) = page.item(&mut schemas);
        let mut item = shared.path_item(&newer, None);
        // Upstream names no bodies for the pages of tokens.
        let is_of_objects = page.path.starts_with("api") || page.path == "version";
        if is_of_objects {
            item["get"]["consumes"] = item["get"]["produces"].clone();
        }
        paths.insert(path, item);
    }
    for group in registry.groups() {
        for version in &group.versions {
            let prefix = super::path_of(&group.name, version);
            let entries = registry.resources(&group.name, version);
            for entry in &entries {
                let definition = schemas.add_kind(&entry.resource);
                let consumed: &[&str] = match entry.resource.custom {
                    Some(_) => &["application/json", "application/yaml"],
                    None => &["*/*"],
                };
                for (path, item) in
                    super::paths::of(&entry.resource, &prefix, &definition, &mut schemas)
                {
                    paths.insert(path, shared.path_item(&item, Some(consumed)));
                }
            }
            all.extend(entries);
        }
    }
    paths.sort_keys();
    shared.0.sort_keys();
    let definitions: Map<String, Value> = match schemas.into_value() {
        Value::Object(schemas) => schemas
            .into_iter()
            .map(|(name, schema)| (name, published(schema)))
            .collect(),
        _ => Map::new(),
    };
    let json = json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": super::version_of(registry)},
        "paths": paths,
        "definitions": definitions,
        "parameters": shared.0,
        "securityDefinitions": super::bearer(),
        "security": [{"BearerToken": []}],
    });
    Document {
        hash: super::hash(registry, &all),
        json,
    }
}

/// The parameters that operations refer to, by name.
#[derive(Default)]
struct Shared(Map<String, Value>);

impl Shared {
    /// The operations and variables of a path in version 2. `consumed` are the media types of
    /// bodies where version 3 names none.
    fn path_item(&mut self, newer: &Value, consumed: Option<&[&str]>) -> Value {
        let fields = newer.as_object().into_iter().flatten();
        fields
            .map(|(name, value)| {
                let older = match name.as_str() {
                    "parameters" => Value::from(self.parameters(value)),
                    _ => self.operation(value, consumed),
                };
                (name.clone(), older)
            })
            .collect::<Map<_, _>>()
            .into()
    }

    fn parameters(&mut self, newer: &Value) -> Vec<Value> {
        let older = |parameter: &Value| {
            let mut older = json!({
                "uniqueItems": true,
                "type": parameter["schema"]["type"],
                "description": parameter["description"],
                "name": parameter["name"],
                "in": parameter["in"],
            });
            if parameter["required"] == true {
                older["required"] = json!(true);
            }
            self.share(older)
        };
        newer.as_array().into_iter().flatten().map(older).collect()
    }

    /// A reference to the parameter, or the parameter if it is never shared.
    fn share(&mut self, parameter: Value) -> Value {
        let name = parameter["name"].as_str().unwrap_or_default();
        let body = parameter["schema"]["$ref"].as_str().unwrap_or_default();
        let is_of_kind = name == "body" && !body.starts_with("#/definitions/io.k8s.apimachinery");
        if is_of_kind || UNSHARED.contains(&name) {
            return parameter;
        }
        let hash = fingerprint(std::iter::once(&*parameter.to_string()));
        // Names are short, as upstream's, because each operation has a dozen of them.
        let key = format!("{name}-{:08x}", hash >> 32);
        let reference = json!({"$ref": format!("#/parameters/{key}")});
        self.0.entry(key).or_insert(parameter);
        reference
    }

    /// An operation in version 2, where the body is a parameter.
    fn operation(&mut self, newer: &Value, consumed: Option<&[&str]>) -> Value {
        let mut parameters = self.parameters(&newer["parameters"]);
        let body = &newer["requestBody"];
        let content = body["content"].as_object();
        if let Some(content) = content.and_then(|content| content.values().next()) {
            let schema = definition(content["schema"].clone());
            let mut parameter = json!({"name": "body", "in": "body"});
            if body["required"] == true {
                parameter["required"] = json!(true);
            }
            parameter["schema"] = schema;
            parameters.insert(0, self.share(parameter));
        }
        let content = content.map(|content| content.keys().map(String::as_str).collect());
        let consumed: Option<Vec<&str>> = content.or_else(|| consumed.map(<[_]>::to_vec));
        let produced = newer["responses"]["200"]["content"].as_object();
        let produced: Vec<&String> = produced.into_iter().flat_map(Map::keys).collect();
        let answers = newer["responses"].as_object().into_iter().flatten();
        let answers: Map<String, Value> = answers
            .map(|(code, answer)| (code.clone(), response(answer)))
            .collect();
        let mut older = json!({"description": newer["description"]});
        if let Some(consumed) = consumed {
            older["consumes"] = json!(consumed);
        }
        older["produces"] = json!(produced);
        older["schemes"] = json!(["https"]);
        older["tags"] = newer["tags"].clone();
        older["operationId"] = newer["operationId"].clone();
        if !parameters.is_empty() {
            older["parameters"] = Value::from(parameters);
        }
        older["responses"] = Value::from(answers);
        for extension in ["x-kubernetes-action", "x-kubernetes-group-version-kind"] {
            if let Some(value) = newer.get(extension) {
                older[extension] = value.clone();
            }
        }
        older
    }
}

/// An answer in version 2, where all media types have one schema.
fn response(newer: &Value) -> Value {
    let mut older = json!({"description": newer["description"]});
    let content = newer["content"].as_object();
    if let Some(content) = content.and_then(|content| content.values().next()) {
        older["schema"] = definition(content["schema"].clone());
    }
    older
}

/// A type in version 2. A custom kind that keeps unknown fields is any object, because kubectl would
/// otherwise refuse its other fields. Upstream: `buildKubeNative` of
/// `apiextensions-apiserver/pkg/controller/openapi/builder`.
fn published(schema: Value) -> Value {
    let kind = "x-kubernetes-group-version-kind";
    if schema["x-kubernetes-preserve-unknown-fields"] != true || schema[kind].is_null() {
        return definition(schema);
    }
    let mut any = json!({"type": "object"});
    for field in [kind, "x-kubernetes-selectable-fields"] {
        if let Some(value) = schema.get(field) {
            any[field] = value.clone();
        }
    }
    any
}

/// A schema in version 2, which has no `oneOf`, `anyOf`, `not`, `default` or `nullable`.
fn definition(schema: Value) -> Value {
    let Value::Object(fields) = schema else {
        return schema;
    };
    let is = |name: &str| fields.get(name) == Some(&Value::Bool(true));
    let is_untyped = is("nullable") || is("x-kubernetes-int-or-string");
    let is_open = is_untyped || is("x-kubernetes-preserve-unknown-fields");
    let is_choice = fields.contains_key("oneOf") && !fields.contains_key("type");
    let mut older = Map::new();
    for (name, value) in fields {
        let value = match name.as_str() {
            "nullable" | "default" | "oneOf" | "anyOf" | "not" | "x-kubernetes-validations" => {
                continue;
            }
            // Clients would reject unknown fields in a typed object, so open types list none.
            "items" | "properties" | "additionalProperties" if is_open => continue,
            "type" if is_untyped => continue,
            "allOf" => match value.get(0).and_then(|only| only.get("$ref")) {
                Some(reference) => {
                    older.insert("$ref".to_owned(), reference_in_version_2(reference));
                    continue;
                }
                None => continue,
            },
            "$ref" => reference_in_version_2(&value),
            "items" | "additionalProperties" => definition(value),
            "properties" => match value {
                Value::Object(properties) => properties
                    .into_iter()
                    .map(|(name, schema)| (name, definition(schema)))
                    .collect::<Map<_, _>>()
                    .into(),
                other => other,
            },
            _ => value,
        };
        older.insert(name, value);
    }
    if is_choice {
        // Quantities and ports are texts that may also be written as numbers.
        older.insert("type".to_owned(), json!("string"));
    }
    Value::from(older)
}

/// A reference to the place of definitions in version 2.
fn reference_in_version_2(reference: &Value) -> Value {
    Value::from(reference.as_str().unwrap_or_default().replacen(
        "#/components/schemas/",
        "#/definitions/",
        1,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_that_version_2_lacks_are_dropped() {
        // (newer, older)
        let cases = [
            (
                json!({"allOf": [{"$ref": "#/components/schemas/a.B"}], "default": {}, "description": "d"}),
                json!({"$ref": "#/definitions/a.B", "description": "d"}),
            ),
            (
                json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
                json!({"type": "string"}),
            ),
            (
                json!({"type": "array", "items": {"type": "string", "nullable": true}}),
                json!({"type": "array", "items": {}}),
            ),
            (
                json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {}}}),
                json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
            ),
            (
                json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
                json!({"x-kubernetes-int-or-string": true}),
            ),
            (
                json!({"type": "object", "properties": {"default": {"type": "string", "default": "x"}}}),
                json!({"type": "object", "properties": {"default": {"type": "string"}}}),
            ),
        ];
        for (newer, older) in cases {
            assert_eq!(definition(newer), older);
        }
    }

    #[test]
    fn a_kind_that_keeps_unknown_fields_is_any_object() {
        let kind = json!([{"group": "g.test", "kind": "A", "version": "v1"}]);
        let mut schema = json!({"type": "object", "description": "d", "x-kubernetes-preserve-unknown-fields": true,
            "x-kubernetes-group-version-kind": kind, "properties": {"spec": {"type": "object"}}});
        assert_eq!(
            published(schema.clone()),
            json!({"type": "object", "x-kubernetes-group-version-kind": kind})
        );
        schema["x-kubernetes-preserve-unknown-fields"].take();
        assert_eq!(published(schema)["description"], "d");
    }

    #[test]
    fn every_reference_names_a_definition() {
        fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
            match value {
                Value::Object(fields) => {
                    found.extend(fields.get("$ref").and_then(Value::as_str));
                    fields.values().for_each(|value| references(value, found));
                }
                Value::Array(items) => items.iter().for_each(|value| references(value, found)),
                _ => {}
            }
        }
        let document = document(&Registry::built_in()).json;
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > 1000, "{}", found.len());
        for reference in found {
            let place = reference
                .strip_prefix("#/")
                .and_then(|place| place.split_once('/'));
            let (place, name) = place.unwrap();
            assert!(
                ["definitions", "parameters"].contains(&place),
                "{reference}"
            );
            assert!(document[place].get(name).is_some(), "{reference}");
        }
        let deployment =
            &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"];
        let methods: Vec<&String> = deployment.as_object().unwrap().keys().collect();
        assert_eq!(methods, ["get", "put", "delete", "patch", "parameters"]);
        let reference = "#/definitions/io.k8s.api.apps.v1.Deployment";
        assert_eq!(
            deployment["put"]["parameters"][0],
            json!({"name": "body", "in": "body", "required": true, "schema": {"$ref": reference}})
        );
        assert_eq!(
            deployment["get"]["responses"]["200"]["schema"]["$ref"],
            reference
        );
        let name = json!({"name": "name", "in": "path", "required": true, "type": "string", "uniqueItems": true,
            "description": "name of the Deployment"});
        assert_eq!(deployment["parameters"][0], name);
        let reference = deployment["parameters"][1]["$ref"].as_str().unwrap();
        let namespace = &document["parameters"][reference.strip_prefix("#/parameters/").unwrap()];
        assert_eq!(namespace["name"], "namespace");
        let containers =
            &document["definitions"]["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
        assert_eq!(
            (
                &containers["x-kubernetes-patch-merge-key"],
                &containers["x-kubernetes-patch-strategy"]
            ),
            (&json!("name"), &json!("merge"))
        );
    }
}
