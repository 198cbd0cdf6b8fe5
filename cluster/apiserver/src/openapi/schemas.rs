//! Schemas of types, by their names in OpenAPI.
//!
//! A schema has upstream's keywords and extensions: descriptions, defaults, required fields, list
//! types and merge keys. [`published`] has the tables of exceptions.

use serde_json::{Map, Value, json};
use steersman_releases::Release;

use super::{enums, published};
use crate::kinds::Resource;
use crate::schema::descriptions::{self, Described};
use crate::schema::{self, Field, Struct, Topology, Type};

const LIST_METADATA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
const METADATA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
/// Type of patch bodies, which may be any JSON.
const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";

/// The types of one document: its kinds, and all types that they refer to, as `release` has them.
pub(super) struct Schemas {
    types: Map<String, Value>,
    release: Release,
    /// The group versions that have the common kinds, such as `DeleteOptions`.
    group_versions: Vec<(String, String)>,
}

/// The extension with the kinds of a type.
const KINDS: &str = "x-kubernetes-group-version-kind";

/// Kinds that each group version has.
const COMMON: [&str; 2] = ["meta.DeleteOptions", "meta.WatchEvent"];

/// The reference to a type of the document.
pub(super) fn reference(definition: &str) -> String {
    format!("#/components/schemas/{definition}")
}

/// A reference in `allOf`, because OpenAPI 3.0 ignores keywords beside `$ref`.
fn refer(definition: &str) -> Value {
    json!({"allOf": [{"$ref": reference(definition)}]})
}

/// Removes the `allOf` around a reference that has no keywords beside it.
fn bare(schema: Value) -> Value {
    schema
        .get("allOf")
        .and_then(|all| all.get(0))
        .cloned()
        .unwrap_or(schema)
}

/// The name of a built-in kind in OpenAPI; `None` for kinds that the table of types lacks.
pub(super) fn definition(group: &str, version: &str, kind: &str) -> Option<String> {
    shape_of(group, version, kind).map(|shape| definition_of(shape).to_owned())
}

fn shape_of(group: &str, version: &str, kind: &str) -> Option<&'static Struct> {
    let version = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    schema::of_object(kind, &json!({"apiVersion": version}))
}

/// The name of a type in OpenAPI. A type without descriptions has the name of the table.
fn definition_of(shape: &Struct) -> &'static str {
    descriptions::of(shape.name()).map_or(shape.name(), |described| described.definition)
}

impl Schemas {
    /// No types so far. `group_versions` have the common kinds.
    pub(super) fn of<'a>(
        release: Release,
        group_versions: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let owned = |(group, version): (&str, &str)| (group.to_owned(), version.to_owned());
        Self {
            types: Map::new(),
            release,
            group_versions: group_versions.into_iter().map(owned).collect(),
        }
    }

    /// The type of patch bodies.
    pub(super) fn patch(&mut self) -> &'static str {
        let described = descriptions::of("meta.Patch").map(Described::text);
        let schema = json!({"type": "object", "description": described});
        self.types.entry(PATCH).or_insert(schema);
        PATCH
    }

    pub(super) fn into_value(mut self) -> Value {
        self.types.sort_keys();
        Value::from(self.types)
    }

    /// Adds the kind of a resource and returns its name in OpenAPI.
    pub(super) fn add_kind(&mut self, resource: &Resource) -> String {
        let kind =
            json!([{"group": resource.group, "kind": resource.kind, "version": resource.version}]);
        let (definition, mut schema) = match &resource.custom {
            Some(custom) => self.custom(resource, &custom.document),
            None => {
                match shape_of(&resource.group, &resource.version, &resource.kind) {
                    Some(shape) => {
                        self.add(shape);
                        let definition = definition_of(shape).to_owned();
                        let schema = self.types.get(&definition).cloned().unwrap_or_default();
                        (definition, schema)
                    }
                    // The table of types lacks this kind.
                    None => (
                        format!(
                            "io.k8s.api.{}.{}.{}",
                            resource.group, resource.version, resource.kind
                        ),
                        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
                    ),
                }
            }
        };
        schema[KINDS] = kind;
        self.types.insert(definition.clone(), schema);
        definition
    }

    /// Adds a built-in kind under the name `definition`, with its group, version and kind. Bodies
    /// of subresources, such as `Scale`, are added this way.
    pub(super) fn kind(&mut self, group: &str, version: &str, kind: &str, definition: &str) {
        if let Some(shape) =
            shape_of(group, version, kind).filter(|_| !self.types.contains_key(definition))
        {
            self.add(shape);
            self.types[definition][KINDS] =
                json!([{"group": group, "kind": kind, "version": version}]);
        }
    }

    /// Adds a type of the table under the name `definition`.
    pub(super) fn shape(&mut self, name: &str, definition: &str) -> String {
        if let Some(shape) = schema::by_name(name) {
            self.add(shape);
        }
        definition.to_owned()
    }

    /// Adds the list kind of a kind.
    pub(super) fn list_of(&mut self, definition: &str, resource: &Resource) -> String {
        let list = definition.strip_suffix(&*resource.kind).map_or_else(
            || format!("{definition}List"),
            |prefix| format!("{prefix}{}", resource.list_kind()),
        );
        let metadata = self.shape("meta.ListMeta", LIST_METADATA);
        let common = |name: &str| {
            descriptions::of("meta.DeleteOptions").and_then(|common| common.field(name))
        };
        let text = |name: &str| json!({"type": "string", "description": common(name)});
        let schema = json!({
            "type": "object",
            "description": format!("{} is a list of {}.", resource.list_kind(), resource.kind),
            "required": ["items"],
            "properties": {
                "apiVersion": text("apiVersion"),
                "items": {"type": "array", "items": bare(refer(definition)), "description": format!("List of {}.", resource.plural)},
                "kind": text("kind"),
                "metadata": {"allOf": refer(&metadata)["allOf"], "default": {}, "description": "Standard list metadata."},
            },
            "x-kubernetes-group-version-kind":
                [{"group": resource.group, "kind": resource.list_kind(), "version": resource.version}],
        });
        self.types.entry(list.as_str()).or_insert(schema);
        list
    }

    /// The schema of a custom kind, with the metadata fields of every object.
    fn custom(&mut self, resource: &Resource, document: &Value) -> (String, Value) {
        self.add(schema::metadata());
        let mut group: Vec<&str> = resource.group.split('.').collect();
        group.reverse();
        let definition = format!("{}.{}.{}", group.join("."), resource.version, resource.kind);
        let mut schema = document.clone();
        // Every type with `kind` and `apiVersion` describes them with the same text.
        let common = descriptions::of("meta.DeleteOptions");
        for name in ["apiVersion", "kind"] {
            let description = common.and_then(|common| common.field(name));
            schema["properties"][name] = json!({"type": "string", "description": description});
        }
        let mut metadata = refer(METADATA);
        if let Some(description) =
            descriptions::of("core.ConfigMap").and_then(|described| described.field("metadata"))
        {
            metadata["description"] = Value::from(description);
        }
        schema["properties"]["metadata"] = metadata;
        (definition, schema)
    }

    /// Adds a type and all types that its fields refer to.
    fn add(&mut self, shape: &'static Struct) {
        let definition = definition_of(shape);
        if self.types.contains_key(definition) {
            return;
        }
        // Types may contain themselves, so the name is inserted before the fields are visited.
        self.types.insert(definition.to_owned(), Value::Null);
        let described = descriptions::of(shape.name());
        let mut schema = json!({"type": "object"});
        if let Some(described) = described {
            schema["description"] = Value::from(described.text());
        }
        let release = self.release;
        let fields = || {
            let fields = shape.fields().iter();
            fields.filter(move |field| field.since <= release)
        };
        let properties: Map<String, Value> = fields()
            .map(|field| {
                (
                    field.name.to_owned(),
                    self.property(shape, field, described),
                )
            })
            .collect();
        let required: Vec<&str> = fields()
            .map(|field| field.name)
            .filter(|name| published::requires(shape, described, name))
            .collect();
        if !properties.is_empty() {
            schema["properties"] = Value::from(properties);
        }
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        if shape.atomic {
            schema["x-kubernetes-map-type"] = json!("atomic");
        }
        let kinds = self.kinds_of(shape);
        if !kinds.is_empty() {
            schema[KINDS] = Value::from(kinds);
        }
        if let Some(unions) = published::unions(shape) {
            schema["x-kubernetes-unions"] = unions;
        }
        self.types.insert(definition.to_owned(), schema);
    }

    /// The kinds that have a type, apart from those of resources: [`Schemas::add_kind`] knows them.
    fn kinds_of(&self, shape: &Struct) -> Vec<Value> {
        let kind = |group: &str, version: &str| json!({"group": group, "kind": shape.short_name(), "version": version});
        if COMMON.contains(&shape.name()) {
            let all = self.group_versions.iter();
            return all.map(|(group, version)| kind(group, version)).collect();
        }
        let is_core = ["core.", "meta."]
            .iter()
            .any(|group| shape.name().starts_with(group));
        let has_kind = |field: &Field| field.embedded == Some("TypeMeta");
        let is_kind = shape.field("kind").is_some_and(has_kind);
        (is_core && is_kind)
            .then(|| kind("", "v1"))
            .into_iter()
            .collect()
    }

    /// The schema of a field: its type, default, description, list type and patch strategy.
    fn property(&mut self, holder: &Struct, field: &Field, described: Option<&Described>) -> Value {
        let open = published::open_type(holder, field);
        let mut schema = self.value(&field.ty, open);
        if let Some(default) = published::default_of(holder.name(), field) {
            schema["default"] = default;
        }
        let own = described.and_then(|described| described.field(field.name));
        let common =
            || descriptions::of("meta.DeleteOptions").and_then(|common| common.field(field.name));
        let is_common = matches!(field.name, "apiVersion" | "kind");
        if let Some(description) = own.or_else(|| if is_common { common() } else { None }) {
            schema["description"] = Value::from(description);
        }
        if let Some(values) = enums::of(definition_of(holder), field.name) {
            // The values are those of the elements of a list or map.
            let place = ["items", "additionalProperties"]
                .into_iter()
                .find(|place| schema.get(*place).is_some());
            match place {
                Some(place) => schema[place]["enum"] = json!(values),
                None => schema["enum"] = json!(values),
            }
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
        published::correct(holder, field, &mut schema);
        let is_bare = schema.as_object().is_some_and(|schema| schema.len() == 1);
        if is_bare { bare(schema) } else { schema }
    }

    /// `open` is the type of values that may be any JSON.
    fn value(&mut self, ty: &Type, open: Option<&str>) -> Value {
        match ty {
            Type::Text | Type::Duration => json!({"type": "string"}),
            Type::Int32 => json!({"type": "integer", "format": "int32"}),
            Type::Int64 => json!({"type": "integer", "format": "int64"}),
            Type::Float => json!({"type": "number", "format": "double"}),
            Type::Bool => json!({"type": "boolean"}),
            Type::Bytes => json!({"type": "string", "format": "byte"}),
            Type::Time => self.scalar(
                "meta.Time",
                json!({"type": "string", "format": "date-time"}),
            ),
            Type::MicroTime => self.scalar(
                "meta.MicroTime",
                json!({"type": "string", "format": "date-time"}),
            ),
            Type::Quantity => self.scalar(
                "resource.Quantity",
                json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
            ),
            Type::IntOrString => {
                let either = json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]});
                self.scalar("intstr.IntOrString", either)
            }
            Type::Any => match open {
                Some(name) if name.starts_with("apiextensions.") => self.scalar(name, json!({})),
                Some(name) => self.scalar(name, json!({"type": "object"})),
                None => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
            },
            Type::List(item) => json!({"type": "array", "items": bare(self.value(item, open))}),
            Type::Map(item) => {
                json!({"type": "object", "additionalProperties": bare(self.value(item, open))})
            }
            Type::Struct(_) => ty.as_struct().map_or(Value::Null, |shape| {
                self.add(shape);
                refer(definition_of(shape))
            }),
        }
    }

    /// Adds a named type without fields, and returns a reference to it.
    fn scalar(&mut self, name: &str, mut schema: Value) -> Value {
        let Some(described) = descriptions::of(name) else {
            return schema;
        };
        schema["description"] = Value::from(described.text());
        self.types.entry(described.definition).or_insert(schema);
        refer(described.definition)
    }
}
