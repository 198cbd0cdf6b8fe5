//! Converts the version 2 document of a program without version 3, with some loss, as upstream.
//!
//! Upstream: `ConvertV2ToV3` of `kube-openapi/pkg/openapiconv`.

use serde_json::{Map, Value, json};

use super::Document;

const METHODS: [&str; 7] = ["get", "put", "post", "delete", "options", "head", "patch"];

impl Document {
    /// This document of version 2 in version 3.
    pub(crate) fn newer(&self) -> Self {
        let older = &self.json;
        let mut components = json!({"schemas": mapped(&older["definitions"], schema)});
        if older["securityDefinitions"].is_object() {
            components["securitySchemes"] = older["securityDefinitions"].clone();
        }
        let json = json!({
            "openapi": "3.0.0",
            "info": older["info"],
            "paths": mapped(&older["paths"], path_item),
            "components": components,
        });
        Self {
            hash: self.hash.clone(),
            json,
        }
    }
}

/// The same names with converted values.
fn mapped(older: &Value, convert: impl Fn(&Value) -> Value) -> Value {
    let fields = older.as_object().into_iter().flatten();
    let fields: Map<String, Value> = fields
        .map(|(name, value)| (name.clone(), convert(value)))
        .collect();
    Value::from(fields)
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Upstream: `ConvertSchema`, and `WrapRefs` for references with keywords beside them.
fn schema(older: &Value) -> Value {
    let Some(fields) = older.as_object() else {
        return older.clone();
    };
    let mut newer = Map::new();
    for (name, value) in fields {
        let value = match (name.as_str(), value) {
            ("$ref", Value::String(name)) => {
                json!(name.replacen("#/definitions/", "#/components/schemas/", 1))
            }
            ("properties", _) => mapped(value, schema),
            ("items", Value::Array(list)) => list.iter().map(schema).collect(),
            ("items" | "additionalProperties" | "additionalItems", _) => schema(value),
            _ => value.clone(),
        };
        newer.insert(name.clone(), value);
    }
    if newer.len() > 1
        && let Some(reference) = newer.remove("$ref")
    {
        newer.insert("allOf".to_owned(), json!([{"$ref": reference}]));
    }
    Value::from(newer)
}

fn path_item(older: &Value) -> Value {
    let fields = older.as_object().into_iter().flatten();
    let mut newer = Map::new();
    for (name, value) in fields {
        if METHODS.contains(&name.as_str()) {
            newer.insert(name.clone(), operation(value));
        } else if name.starts_with("x-") {
            newer.insert(name.clone(), value.clone());
        }
    }
    let parameters: Vec<Value> = items(&older["parameters"]).map(parameter).collect();
    if !parameters.is_empty() {
        newer.insert("parameters".to_owned(), Value::from(parameters));
    }
    Value::from(newer)
}

fn operation(older: &Value) -> Value {
    let mut newer = json!({});
    for (name, value) in older.as_object().into_iter().flatten() {
        let is_kept = [
            "description",
            "externalDocs",
            "tags",
            "summary",
            "deprecated",
            "operationId",
        ]
        .contains(&name.as_str());
        if is_kept || name.starts_with("x-") {
            newer[name] = value.clone();
        }
    }
    let is_body = |one: &&Value| one["name"] == "body" && one["schema"].is_object();
    if let Some(body) = items(&older["parameters"]).find(is_body) {
        newer["requestBody"] = json!({"content": content(&older["consumes"], &body["schema"])});
    }
    let parameters = items(&older["parameters"]).filter(|one| !is_body(one));
    let parameters: Vec<Value> = parameters.map(parameter).collect();
    if !parameters.is_empty() {
        newer["parameters"] = Value::from(parameters);
    }
    newer["responses"] = mapped(&older["responses"], |answer| {
        let mut newer = json!({"description": answer["description"]});
        if answer["schema"].is_object() {
            newer["content"] = content(&older["produces"], &answer["schema"]);
        }
        newer
    });
    newer
}

/// The same type for each medium.
fn content(media: &Value, of: &Value) -> Value {
    let media = items(media).filter_map(Value::as_str);
    let all: Map<String, Value> = media
        .map(|medium| (medium.to_owned(), json!({"schema": schema(of)})))
        .collect();
    Value::from(all)
}

fn parameter(older: &Value) -> Value {
    if let Some(reference) = older["$ref"].as_str() {
        let place = reference.replacen("#/parameters/", "#/components/parameters/", 1);
        return json!({"$ref": place});
    }
    let mut newer = json!({});
    let mut simple = json!({});
    for (name, value) in older.as_object().into_iter().flatten() {
        match name.as_str() {
            "type" | "format" | "uniqueItems" => simple[name] = value.clone(),
            "name" | "description" | "in" | "required" => newer[name] = value.clone(),
            _ => {}
        }
    }
    newer["schema"] = match &older["schema"] {
        Value::Null => simple,
        given => schema(given),
    };
    newer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_and_types_have_the_form_of_version_3() {
        let name = json!({"name": "name", "in": "path", "required": true, "type": "string", "uniqueItems": true});
        let body = json!({"name": "body", "in": "body", "schema": {"$ref": "#/definitions/A"}});
        let older = json!({
            "swagger": "2.0", "info": {"title": "t"},
            "paths": {"/as/{name}": {
                "put": {
                    "operationId": "put", "consumes": ["*/*"], "produces": ["application/json"], "x-kind": "A",
                    "parameters": [body, {"$ref": "#/parameters/dry"}],
                    "responses": {"200": {"description": "OK", "schema": {"$ref": "#/definitions/A"}}, "401": {"description": "No"}},
                },
                "parameters": [name],
            }},
            "definitions": {"A": {"type": "object", "properties": {"b": {"$ref": "#/definitions/B", "description": "d"}}}},
        });
        let document = Document {
            hash: "1".to_owned(),
            json: older,
        };
        let a = json!({"schema": {"$ref": "#/components/schemas/A"}});
        let expected = json!({
            "openapi": "3.0.0", "info": {"title": "t"},
            "paths": {"/as/{name}": {
                "put": {
                    "operationId": "put", "x-kind": "A", "requestBody": {"content": {"*/*": a}},
                    "parameters": [{"$ref": "#/components/parameters/dry"}],
                    "responses": {"200": {"description": "OK", "content": {"application/json": a}}, "401": {"description": "No"}},
                },
                "parameters": [{"name": "name", "in": "path", "required": true, "schema": {"type": "string", "uniqueItems": true}}],
            }},
            "components": {"schemas": {"A": {"type": "object", "properties": {
                "b": {"description": "d", "allOf": [{"$ref": "#/components/schemas/B"}]},
            }}}},
        });
        assert_eq!(document.newer().json, expected);
    }
}
