//! The served kinds, as discovery and OpenAPI describe them.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::support::ask;

/// A resource that clients can create and update.
pub(crate) struct Resource {
    /// Group and version in paths, such as `v1` and `apps/v1`.
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) kind: String,
    pub(crate) namespaced: bool,
}

impl Resource {
    /// The name in cases, such as `apps/v1/deployments`.
    pub(crate) fn name(&self) -> String {
        format!("{}/{}", self.version, self.plural)
    }

    /// The path of the collection, in the namespace `default`.
    pub(crate) fn path(&self) -> String {
        let root = if self.version.contains('/') {
            "apis"
        } else {
            "api"
        };
        let namespace = if self.namespaced {
            "namespaces/default/"
        } else {
            ""
        };
        format!("/{root}/{}/{namespace}{}", self.version, self.plural)
    }
}

/// All resources that clients can create and update, and the types of their kinds.
pub(crate) struct Schema {
    pub(crate) resources: Vec<Resource>,
    types: BTreeMap<String, Value>,
    /// Names of the types of kinds, by `version/kind`.
    kinds: BTreeMap<String, String>,
}

impl Schema {
    pub(crate) async fn read(client: &kube::Client) -> Self {
        let mut schema = Self {
            resources: Vec::new(),
            types: BTreeMap::new(),
            kinds: BTreeMap::new(),
        };
        let mut versions = vec!["v1".to_owned()];
        let groups = get(client, "/apis").await;
        for group in groups["groups"].as_array().unwrap() {
            let served = group["versions"].as_array().unwrap().iter();
            versions.extend(served.map(|version| text(&version["groupVersion"]).to_owned()));
        }
        for version in versions {
            schema.read_version(client, &version).await;
        }
        schema
    }

    async fn read_version(&mut self, client: &kube::Client, version: &str) {
        let root = if version.contains('/') { "apis" } else { "api" };
        let discovered = get(client, &format!("/{root}/{version}")).await;
        for resource in discovered["resources"].as_array().unwrap() {
            let verbs = resource["verbs"].as_array().unwrap();
            let plural = text(&resource["name"]);
            let is_writable = ["create", "update"]
                .iter()
                .all(|verb| verbs.contains(&Value::from(*verb)));
            if is_writable && !plural.contains('/') {
                self.resources.push(Resource {
                    version: version.to_owned(),
                    plural: plural.to_owned(),
                    kind: text(&resource["kind"]).to_owned(),
                    namespaced: resource["namespaced"] == true,
                });
            }
        }
        let document = get(client, &format!("/openapi/v3/{root}/{version}")).await;
        let types = document["components"]["schemas"].as_object().unwrap();
        for (name, schema) in types {
            let kinds = schema["x-kubernetes-group-version-kind"].as_array();
            for kind in kinds.into_iter().flatten() {
                let group = match text(&kind["group"]) {
                    "" => String::new(),
                    group => format!("{group}/"),
                };
                let key = format!("{group}{}/{}", text(&kind["version"]), text(&kind["kind"]));
                self.kinds.insert(key, name.clone());
            }
            self.types.insert(name.clone(), schema.clone());
        }
    }

    /// The name of the type of a kind.
    pub(crate) fn of_kind(&self, resource: &Resource) -> &str {
        &self.kinds[&format!("{}/{}", resource.version, resource.kind)]
    }

    /// The fields of a type by name; none for scalars.
    pub(crate) fn fields(&self, name: &str) -> Vec<(&str, &Value)> {
        let properties = self.types[name]["properties"].as_object();
        let fields = properties.into_iter().flatten();
        fields.map(|(name, field)| (name.as_str(), field)).collect()
    }

    /// The form of a field.
    pub(crate) fn form<'a>(&self, field: &'a Value) -> Form<'a> {
        let reference = field["$ref"]
            .as_str()
            .or_else(|| field["allOf"][0]["$ref"].as_str());
        if let Some(reference) = reference {
            let name = reference.rsplit('/').next().unwrap();
            return match name.rsplit('.').next().unwrap() {
                "Quantity" => Form::Quantity,
                "IntOrString" => Form::IntOrString,
                "Time" | "MicroTime" => Form::Time,
                _ if self.types[name]["properties"].is_object() => Form::Struct(name),
                _ => Form::Any,
            };
        }
        match text(&field["type"]) {
            "string" if field["format"] == "byte" => Form::Bytes,
            "string" => Form::Text,
            "integer" => Form::Integer,
            "number" => Form::Number,
            "boolean" => Form::Boolean,
            "array" => Form::List(&field["items"]),
            "object" if field["additionalProperties"].is_object() => {
                Form::Map(&field["additionalProperties"])
            }
            _ => Form::Any,
        }
    }
}

/// The form of a value.
#[derive(Clone, Copy)]
pub(crate) enum Form<'a> {
    Text,
    Bytes,
    Time,
    Quantity,
    IntOrString,
    Integer,
    Number,
    Boolean,
    /// A type with fields, by name.
    Struct(&'a str),
    List(&'a Value),
    Map(&'a Value),
    Any,
}

async fn get(client: &kube::Client, path: &str) -> Value {
    let answer = ask(client, "GET", path, "", b"").await;
    assert_eq!(answer.code, 200, "{path}: {}", answer.body);
    answer.body
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
