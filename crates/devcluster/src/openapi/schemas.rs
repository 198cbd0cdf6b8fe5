//! Types as OpenAPI writes them, by their names there.

use serde_json::{Map, Value, json};

use super::descriptions::{self, Described};
use crate::kinds::Resource;
use crate::schema::{self, Field, Struct, Topology, Type};

const METADATA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";

/// The types of one document: those of its kinds, and all that these refer to.
#[derive(Default)]
pub(super) struct Schemas(Map<String, Value>);

/// Where a type is in a document.
pub(super) fn reference(definition: &str) -> String {
    format!("#/components/schemas/{definition}")
}

fn refer(definition: &str) -> Value {
    json!({"allOf": [{"$ref": reference(definition)}]})
}

/// The name of a type in OpenAPI; without descriptions it is the one of the table.
fn definition_of(shape: &Struct) -> &'static str {
    descriptions::of(shape.name()).map_or(shape.name(), |described| described.definition)
}

impl Schemas {
    pub(super) fn into_value(mut self) -> Value {
        self.0.insert(PATCH.to_owned(), json!({"type": "object"}));
        self.0.sort_keys();
        Value::from(self.0)
    }

    /// Adds the kind of a resource, and tells its name here.
    pub(super) fn add_kind(&mut self, resource: &Resource) -> String {
        let kind = json!([{"group": resource.group, "kind": resource.kind, "version": resource.version}]);
        let (definition, mut schema) = match &resource.custom {
            Some(custom) => self.custom(resource, &custom.document),
            None => {
                let shape = schema::of_object(&resource.kind, &json!({"apiVersion": resource.api_version()}));
                match shape {
                    Some(shape) => {
                        self.add(shape);
                        let definition = definition_of(shape).to_owned();
                        let schema = self.0.get(&definition).cloned().unwrap_or_default();
                        (definition, schema)
                    }
                    // A kind that the table of types does not have.
                    None => (
                        format!("io.k8s.api.{}.{}.{}", resource.group, resource.version, resource.kind),
                        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
                    ),
                }
            }
        };
        schema["x-kubernetes-group-version-kind"] = kind;
        self.0.insert(definition.clone(), schema);
        definition
    }

    /// The schema of a custom kind, with the fields that every object has.
    fn custom(&mut self, resource: &Resource, document: &Value) -> (String, Value) {
        self.add(schema::metadata());
        let mut group: Vec<&str> = resource.group.split('.').collect();
        group.reverse();
        let definition = format!("{}.{}.{}", group.join("."), resource.version, resource.kind);
        let mut schema = document.clone();
        // Kind and version are the same in every type that has them.
        let common = descriptions::of("meta.DeleteOptions");
        for name in ["apiVersion", "kind"] {
            let description = common.and_then(|common| common.field(name));
            schema["properties"][name] = json!({"type": "string", "description": description});
        }
        let mut metadata = refer(METADATA);
        if let Some(description) = descriptions::of("core.ConfigMap").and_then(|described| described.field("metadata")) {
            metadata["description"] = Value::from(description);
        }
        schema["properties"]["metadata"] = metadata;
        (definition, schema)
    }

    fn add(&mut self, shape: &'static Struct) {
        let definition = definition_of(shape);
        if self.0.contains_key(definition) {
            return;
        }
        // Types may contain themselves: the name is taken before its fields are looked at.
        self.0.insert(definition.to_owned(), Value::Null);
        let described = descriptions::of(shape.name());
        let mut schema = json!({"type": "object"});
        if let Some(described) = described {
            schema["description"] = Value::from(described.text());
        }
        let properties: Map<String, Value> =
            shape.fields().iter().map(|field| (field.name.to_owned(), self.property(field, described))).collect();
        let required: Vec<&str> =
            shape.fields().iter().map(|field| field.name).filter(|name| requires(described, name)).collect();
        if !properties.is_empty() {
            schema["properties"] = Value::from(properties);
        }
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        if shape.atomic {
            schema["x-kubernetes-map-type"] = json!("atomic");
        }
        self.0.insert(definition.to_owned(), schema);
    }

    fn property(&mut self, field: &Field, described: Option<&Described>) -> Value {
        let mut schema = self.value(&field.ty);
        let own = described.and_then(|described| described.field(field.name));
        let common = || descriptions::of("meta.DeleteOptions").and_then(|common| common.field(field.name));
        let is_common = matches!(field.name, "apiVersion" | "kind");
        if let Some(description) = own.or_else(|| if is_common { common() } else { None }) {
            schema["description"] = Value::from(description);
        }
        match (&field.topology, &field.ty) {
            (Topology::Atomic, Type::List(_)) => schema["x-kubernetes-list-type"] = json!("atomic"),
            (Topology::Set, _) => schema["x-kubernetes-list-type"] = json!("set"),
            (Topology::Keyed(keys), _) => {
                schema["x-kubernetes-list-type"] = json!("map");
                schema["x-kubernetes-list-map-keys"] = json!(keys);
            }
            (Topology::Atomic, _) => schema["x-kubernetes-map-type"] = json!("atomic"),
            (Topology::Granular, _) => {}
        }
        let strategies: Vec<&str> = field.patch.strategies().collect();
        if !strategies.is_empty() {
            schema["x-kubernetes-patch-strategy"] = json!(strategies.join(","));
        }
        if let Some(key) = field.patch.merge_key {
            schema["x-kubernetes-patch-merge-key"] = json!(key);
        }
        schema
    }

    fn value(&mut self, ty: &Type) -> Value {
        match ty {
            Type::Text | Type::Duration => json!({"type": "string"}),
            Type::Int32 => json!({"type": "integer", "format": "int32"}),
            Type::Int64 => json!({"type": "integer", "format": "int64"}),
            Type::Float => json!({"type": "number", "format": "double"}),
            Type::Bool => json!({"type": "boolean"}),
            Type::Bytes => json!({"type": "string", "format": "byte"}),
            Type::Time => self.scalar("meta.Time", json!({"type": "string", "format": "date-time"})),
            Type::MicroTime => self.scalar("meta.MicroTime", json!({"type": "string", "format": "date-time"})),
            Type::Quantity => self.scalar("resource.Quantity", json!({"oneOf": [{"type": "string"}, {"type": "number"}]})),
            Type::IntOrString => {
                let either = json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]});
                self.scalar("intstr.IntOrString", either)
            }
            Type::Any => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
            Type::List(item) => json!({"type": "array", "items": self.value(item)}),
            Type::Map(item) => json!({"type": "object", "additionalProperties": self.value(item)}),
            Type::Struct(_) => ty.as_struct().map_or(Value::Null, |shape| {
                self.add(shape);
                refer(definition_of(shape))
            }),
        }
    }

    /// A type with a name but without fields.
    fn scalar(&mut self, name: &str, mut schema: Value) -> Value {
        let Some(described) = descriptions::of(name) else { return schema };
        schema["description"] = Value::from(described.text());
        self.0.entry(described.definition).or_insert(schema);
        refer(described.definition)
    }
}

fn requires(described: Option<&Described>, name: &str) -> bool {
    // Upstream requires the metadata of no object.
    name != "metadata" && described.is_some_and(|described| described.requires(name))
}
