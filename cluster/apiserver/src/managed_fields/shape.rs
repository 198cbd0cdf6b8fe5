//! The structure of values for field management: which parts of a value can have their own manager.
//!
//! It follows the types of built-in kinds and the schemas of custom kinds. A type can allow several
//! forms of a value, such as a map or a scalar; the value at hand selects one.
//!
//! Upstream: `Atom` of structured-merge-diff, made by `k8s.io/kube-openapi/pkg/schemaconv` from
//! `x-kubernetes-list-type`, `-list-map-keys` and `-map-type`.

use serde_json::Value;
use steersman_releases::Release;

use super::set::html_safe;
use crate::custom::{ListType, Schema};
use crate::kinds::Resource;
use crate::schema::{self, Field, Struct, Topology, Type};

/// The type of a value, in the words of field sets.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape<'a> {
    /// Any value, as one field.
    Untyped,
    /// Any value: maps divide by key, everything else is one field.
    Deduced,
    Scalar(Scalar),
    /// A struct, and whether it is one field.
    Struct(&'static Struct, bool),
    /// A map, and whether it is one field.
    Map(&'static Type, bool),
    List(&'static Type, &'static Topology),
    /// A value of a custom kind.
    Custom(Node<'a>),
}

/// A node in the schema of a custom kind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node<'a> {
    schema: &'a Schema,
    /// Whether the schema of this or of an outer value keeps unknown fields.
    keeps_unknown: bool,
    /// Whether this is a whole object.
    is_root: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scalar {
    Numeric,
    Text,
    Boolean,
    Any,
}

/// A form that a value can have.
#[derive(Debug, Clone, Copy)]
pub(super) enum Form<'a> {
    Map(Mapping<'a>),
    List(Listing<'a>),
    Scalar(Scalar),
}

/// The forms that remain after a look at a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Narrowed {
    Map,
    List,
    Scalar,
    /// The value is null or absent, or has none of the forms of the type.
    Open,
}

/// A map or a struct.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mapping<'a> {
    pub(super) is_atomic: bool,
    shape: Shape<'a>,
}

/// A list.
#[derive(Debug, Clone, Copy)]
pub(super) struct Listing<'a> {
    pub(super) elements: Elements<'a>,
    pub(super) item: Shape<'a>,
}

/// The identity of list elements.
#[derive(Debug, Clone, Copy)]
pub(super) enum Elements<'a> {
    /// The list is one field.
    Atomic,
    /// Each value of a set.
    Values,
    /// These fields of each element.
    Keys(Keys<'a>),
}

/// Names of key fields.
#[derive(Debug, Clone, Copy)]
pub(super) enum Keys<'a> {
    BuiltIn(&'a [&'static str]),
    Custom(&'a [String]),
}

impl<'a> Keys<'a> {
    fn iter(self) -> Box<dyn Iterator<Item = &'a str> + 'a> {
        match self {
            Keys::BuiltIn(names) => Box::new(names.iter().copied()),
            Keys::Custom(names) => Box::new(names.iter().map(String::as_str)),
        }
    }
}

impl Resource {
    /// The parts of an object that can have their own field owner.
    pub(crate) fn shape(&self, object: &Value) -> Shape<'_> {
        match self.custom.as_ref().map(|custom| custom.schema()) {
            Some(schema) => Shape::Custom(Node {
                schema,
                keeps_unknown: false,
                is_root: true,
            }),
            None => Shape::of_object(&self.kind, object),
        }
    }

    /// An object before anybody wrote anything into it.
    pub(crate) fn zero(&self, object: &Value) -> Value {
        let built_in = if self.custom.is_none() {
            schema::of_object(&self.kind, object)
        } else {
            None
        };
        built_in.map_or_else(
            || Value::Object(serde_json::Map::new()),
            schema::Struct::zero,
        )
    }
}

impl<'a> Shape<'a> {
    /// The shape of a whole object of a built-in kind.
    pub(crate) fn of_object(kind: &str, object: &Value) -> Self {
        schema::of_object(kind, object)
            .map_or(Shape::Deduced, |shape| Shape::Struct(shape, shape.atomic))
    }

    /// The shape of the metadata of any object.
    pub(super) fn metadata() -> Self {
        Shape::Struct(schema::metadata(), false)
    }

    fn of_field(owner: &Struct, field: &'static Field) -> Self {
        match (&field.ty, &field.topology) {
            (Type::List(item), topology) => Shape::List(item, topology),
            (ty, Topology::Atomic) => match ty {
                Type::Map(item) => Shape::Map(item, true),
                _ => ty
                    .as_struct()
                    .map_or_else(|| Shape::of_type(ty), |shape| Shape::Struct(shape, true)),
            },
            // Schemas in definitions of custom kinds have no types for `items`, `default` and so on.
            (Type::Any, _) if owner.name().starts_with("apiextensions.") => Shape::Deduced,
            (ty, _) => Shape::of_type(ty),
        }
    }

    fn of_type(ty: &'static Type) -> Self {
        match ty {
            Type::Struct(_) => ty
                .as_struct()
                .map_or(Shape::Untyped, |shape| Shape::Struct(shape, shape.atomic)),
            Type::Map(item) => Shape::Map(item, false),
            Type::List(item) => Shape::List(item, &Topology::Atomic),
            Type::Text | Type::Bytes | Type::Duration => Shape::Scalar(Scalar::Text),
            Type::Int32 | Type::Int64 | Type::Float => Shape::Scalar(Scalar::Numeric),
            Type::Bool => Shape::Scalar(Scalar::Boolean),
            Type::Time | Type::MicroTime | Type::Quantity => Shape::Scalar(Scalar::Any),
            Type::IntOrString => Shape::Deduced,
            Type::Any => Shape::Untyped,
        }
    }

    fn map(self) -> Option<Mapping<'a>> {
        let is_atomic = match self {
            Shape::Untyped => true,
            Shape::Deduced => false,
            Shape::Struct(_, is_atomic) | Shape::Map(_, is_atomic) => is_atomic,
            Shape::Custom(node) if matches!(&*node.schema.kind, "" | "object") => {
                node.schema.is_atomic_map()
            }
            _ => return None,
        };
        Some(Mapping {
            is_atomic,
            shape: self,
        })
    }

    fn list(self) -> Option<Listing<'a>> {
        let (elements, item) = match self {
            Shape::Untyped | Shape::Deduced => (Elements::Atomic, Shape::Untyped),
            Shape::List(item, topology) => {
                let elements = match topology {
                    Topology::Set => Elements::Values,
                    Topology::Keyed(keys) => Elements::Keys(Keys::BuiltIn(keys)),
                    Topology::Atomic | Topology::Granular => Elements::Atomic,
                };
                (elements, Shape::of_type(item))
            }
            Shape::Custom(node) if matches!(&*node.schema.kind, "" | "array") => {
                let elements = match node.schema.list_type {
                    ListType::Atomic => Elements::Atomic,
                    ListType::Set => Elements::Values,
                    ListType::Map => Elements::Keys(Keys::Custom(node.schema.list_keys())),
                };
                let item = node.schema.item();
                (
                    elements,
                    item.map_or(Shape::Untyped, |item| node.inner(item)),
                )
            }
            _ => return None,
        };
        Some(Listing { elements, item })
    }

    fn scalar(self) -> Option<Scalar> {
        match self {
            Shape::Untyped | Shape::Deduced => Some(Scalar::Any),
            Shape::Scalar(scalar) => Some(scalar),
            Shape::Custom(node) => match &*node.schema.kind {
                "" => Some(Scalar::Any),
                "integer" | "number" => Some(Scalar::Numeric),
                "boolean" => Some(Scalar::Boolean),
                "string" if matches!(&*node.schema.format, "" | "byte") => Some(Scalar::Text),
                "string" => Some(Scalar::Any),
                _ => None,
            },
            _ => None,
        }
    }

    /// The forms of this type that `value` can have.
    pub(super) fn narrowed(self, value: Option<&Value>) -> Narrowed {
        match value {
            Some(Value::Object(_)) if self.map().is_some() => Narrowed::Map,
            Some(Value::Array(_)) if self.list().is_some() => Narrowed::List,
            Some(Value::Bool(_) | Value::Number(_) | Value::String(_))
                if self.scalar().is_some() =>
            {
                Narrowed::Scalar
            }
            _ => Narrowed::Open,
        }
    }

    /// The form of a value; maps come before scalars, and these before lists.
    pub(super) fn form(self, narrowed: Narrowed) -> Form<'a> {
        let map = || self.map().map(Form::Map);
        let list = || self.list().map(Form::List);
        let scalar = || self.scalar().map(Form::Scalar);
        let form = match narrowed {
            Narrowed::Map => map(),
            Narrowed::List => list(),
            Narrowed::Scalar => scalar(),
            Narrowed::Open => map().or_else(scalar).or_else(list),
        };
        form.unwrap_or(Form::Scalar(Scalar::Any))
    }

    /// The form of the value at hand.
    pub(super) fn form_of(self, value: &Value) -> Form<'a> {
        self.form(self.narrowed(Some(value)))
    }

    /// Whether both narrowed types allow the same forms.
    pub(super) fn same_forms(self, a: Narrowed, b: Narrowed) -> bool {
        let forms = |narrowed| match narrowed {
            Narrowed::Map => (true, false, false),
            Narrowed::List => (false, true, false),
            Narrowed::Scalar => (false, false, true),
            Narrowed::Open => (
                self.map().is_some(),
                self.list().is_some(),
                self.scalar().is_some(),
            ),
        };
        forms(a) == forms(b)
    }

    /// The shape of the value under `key` of a map or struct.
    pub(super) fn child(self, key: &str) -> Option<Shape<'a>> {
        self.map()?.child(key)
    }

    /// The shape of list elements.
    pub(super) fn item(self) -> Option<Shape<'a>> {
        Some(self.list()?.item)
    }

    /// Whether `key` is a field of the type, in contrast to a key of a map.
    pub(super) fn is_field(self, key: &str) -> bool {
        self.map().is_some_and(|map| map.field(key).is_some())
    }
}

impl<'a> Node<'a> {
    /// The shape of a value inside this one.
    fn inner(self, schema: &'a Schema) -> Shape<'a> {
        Shape::Custom(Node {
            schema,
            keeps_unknown: self.keeps(),
            is_root: false,
        })
    }

    fn keeps(self) -> bool {
        self.keeps_unknown || self.schema.preserve_unknown
    }

    /// Whether the value has a kind and metadata of its own.
    fn is_object(self) -> bool {
        self.is_root || self.schema.embedded_resource
    }
}

impl<'a> Mapping<'a> {
    /// The shape of a field that the type names.
    pub(super) fn field(self, key: &str) -> Option<Shape<'a>> {
        match self.shape {
            Shape::Struct(shape, _) => Some(Shape::of_field(shape, shape.field(key)?)),
            Shape::Custom(node) => match key {
                "metadata" if node.is_object() => Some(Shape::metadata()),
                "apiVersion" | "kind" if node.is_object() => Some(Shape::Scalar(Scalar::Text)),
                _ => Some(node.inner(node.schema.property(key)?)),
            },
            _ => None,
        }
    }

    /// The shape of the values under all other keys; `None` if there are no other keys.
    fn other(self) -> Option<Shape<'a>> {
        match self.shape {
            Shape::Untyped => Some(Shape::Untyped),
            Shape::Deduced => Some(Shape::Deduced),
            Shape::Map(item, _) => Some(Shape::of_type(item)),
            Shape::Struct(shape, _) => shape.fields().is_empty().then_some(Shape::Deduced),
            Shape::Custom(node) => {
                let schema = node.schema;
                match (schema.additional(), schema.allows_additional()) {
                    (Some(additional), _) => Some(node.inner(additional)),
                    (None, Some(allowed)) => allowed.then_some(Shape::Deduced),
                    (None, None) => {
                        let is_free = schema.properties.is_empty() && !node.is_object();
                        (node.keeps() || is_free).then_some(Shape::Deduced)
                    }
                }
            }
            _ => None,
        }
    }

    pub(super) fn child(self, key: &str) -> Option<Shape<'a>> {
        self.field(key).or_else(|| self.other())
    }

    /// Whether `release` has the field `key`, if any release has it.
    pub(super) fn has(self, key: &str, release: Release) -> bool {
        let field = match self.shape {
            Shape::Struct(shape, _) => shape.field(key),
            _ => None,
        };
        field.is_none_or(|field| field.since <= release)
    }

    /// Whether every key leads to a value without a type.
    pub(super) fn is_deduced(self) -> bool {
        match self.shape {
            Shape::Deduced => true,
            Shape::Custom(node) => {
                node.schema.properties.is_empty()
                    && !node.is_object()
                    && matches!(self.other(), Some(Shape::Deduced))
            }
            _ => false,
        }
    }
}

impl Listing<'_> {
    /// The default of an absent key, as JSON.
    fn default_of(&self, key: &str) -> Option<String> {
        match self.item {
            // `protocol` is the only key of built-in kinds with a declared default. Upstream's
            // schemas give each field that is always written its zero value.
            Shape::Struct(..) if key == "protocol" => Some("\"TCP\"".to_owned()),
            Shape::Struct(shape, _) => {
                let field = shape.field(key).filter(|field| field.always)?;
                Some(field.zero().to_string())
            }
            Shape::Custom(node) => {
                let default = node.schema.property(key)?.default_value();
                default.map(Value::to_string)
            }
            _ => None,
        }
    }

    /// The name of a list element in field sets. The error tells why it has none.
    pub(super) fn element(&self, item: &Value) -> Result<String, String> {
        let name = match self.elements {
            Elements::Atomic => Err("invalid indexing of non-associative list".to_owned()),
            Elements::Values => match item {
                Value::Object(_) => {
                    Err("associative list without keys has an element that's a map type".to_owned())
                }
                Value::Array(_) => {
                    Err("not supported: associative list with lists as elements".to_owned())
                }
                Value::Null => Err(
                    "associative list without keys has an element that's an explicit null"
                        .to_owned(),
                ),
                item => Ok(format!("v:{item}")),
            },
            Elements::Keys(keys) => self.keyed(keys, item),
        };
        name.map(html_safe)
    }

    fn keyed(&self, keys: Keys<'_>, item: &Value) -> Result<String, String> {
        let item = match item {
            Value::Object(item) => item,
            Value::Null => {
                return Err("associative list with keys may not have a null element".to_owned());
            }
            _ => {
                return Err("associative list with keys may not have non-map elements".to_owned());
            }
        };
        // The name has its keys in order, independent of the order in the schema. A key without
        // value is left out.
        let mut named: Vec<(&str, String)> = Vec::new();
        for key in keys.iter() {
            let value = match item.get(key) {
                Some(value) => Some(value.to_string()),
                None => self.default_of(key),
            };
            named.extend(value.map(|value| (key, value)));
        }
        if named.is_empty() {
            let keys: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values \
                 for any key fields)",
                keys.join(" ")
            ));
        }
        named.sort_unstable();
        let mut name = String::from("k:{");
        for (at, (key, value)) in named.into_iter().enumerate() {
            if at > 0 {
                name.push(',');
            }
            name.push('"');
            name.push_str(key);
            name.push_str("\":");
            name.push_str(&value);
        }
        name.push('}');
        Ok(name)
    }
}
