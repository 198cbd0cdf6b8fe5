//! Values of expressions, and their conversion from JSON.
//!
//! Upstream: `common/types` of cel-go, `k8s.io/apiserver/pkg/cel/common/values.go`.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine as _;
use jiff::Timestamp;
use serde_json::Value;

use steersman_values::quantity::Quantity;

use super::objects::authz::{Access, Authz, ResourceCheck};
use super::objects::cidr::Cidr;
use super::objects::format::NamedFormat;
use super::objects::semver::Semver;
use super::objects::url::Url;
use super::time;
use super::types::{Decl, Field, ListKind, Object, Type};

/// A value during evaluation. Clones are cheap.
#[derive(Debug, Clone)]
pub enum Val {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Arc<str>),
    Bytes(Arc<[u8]>),
    List(Arc<List>),
    /// A map, or an object by the names that its fields have in expressions.
    Map(Arc<BTreeMap<Key, Val>>),
    Constructed(Arc<Constructed>),
    Timestamp(Timestamp),
    /// Nanoseconds.
    Duration(i64),
    Type(Type),
    Optional(Option<Arc<Val>>),
    Quantity(Quantity),
    Url(Arc<Url>),
    Ip(IpAddr),
    Cidr(Cidr),
    Semver(Arc<Semver>),
    Format(&'static NamedFormat),
    Authz(Arc<Authz>),
}

/// A list, and how Kubernetes compares and adds it.
#[derive(Debug, Clone, PartialEq)]
pub struct List {
    pub items: Vec<Val>,
    pub kind: ListKind,
}

/// An object that an expression made with a constructor, such as `Object.spec{replicas: 1}`.
#[derive(Debug, Clone, PartialEq)]
pub struct Constructed {
    /// The name of the type.
    pub name: String,
    pub fields: BTreeMap<Key, Val>,
}

/// A key of a map. Unsigned integers that fit are signed ones, because both are equal as keys.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Bool(bool),
    Int(i64),
    Uint(u64),
    Text(Arc<str>),
}

impl Key {
    /// The key that a value is. `None` for types that are never keys.
    pub fn of(value: &Val) -> Option<Self> {
        match value {
            Val::Bool(value) => Some(Key::Bool(*value)),
            Val::Int(value) => Some(Key::Int(*value)),
            Val::Uint(value) => Some(i64::try_from(*value).map_or(Key::Uint(*value), Key::Int)),
            Val::Double(value) if value.fract() == 0.0 && value.abs() < 9e18 => {
                Some(Key::Int(*value as i64))
            }
            Val::Text(value) => Some(Key::Text(value.clone())),
            _ => None,
        }
    }

    pub fn text(text: &str) -> Self {
        Key::Text(Arc::from(text))
    }

    pub fn to_val(&self) -> Val {
        match self {
            Key::Bool(value) => Val::Bool(*value),
            Key::Int(value) => Val::Int(*value),
            Key::Uint(value) => Val::Uint(*value),
            Key::Text(value) => Val::Text(value.clone()),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Bool(value) => write!(f, "{value}"),
            Key::Int(value) => write!(f, "{value}"),
            Key::Uint(value) => write!(f, "{value}"),
            Key::Text(value) => f.write_str(value),
        }
    }
}

impl Val {
    pub fn text(text: &str) -> Self {
        Val::Text(Arc::from(text))
    }

    pub fn list(items: Vec<Val>) -> Self {
        let kind = ListKind::Atomic;
        Val::List(Arc::new(List { items, kind }))
    }

    pub fn some(value: Val) -> Self {
        Val::Optional(Some(Arc::new(value)))
    }

    /// The variable `authorizer`.
    pub fn authorizer(subject: Arc<dyn Access>) -> Self {
        Val::Authz(Arc::new(Authz::Authorizer(subject)))
    }

    /// The variable `authorizer.requestResource`.
    pub fn request_resource(subject: Arc<dyn Access>, resource: ResourceCheck) -> Self {
        Val::Authz(Arc::new(Authz::Resource(subject, resource)))
    }

    /// The type of the value; elements have any type.
    pub fn kind(&self) -> Type {
        match self {
            Val::Null => Type::Null,
            Val::Bool(_) => Type::Bool,
            Val::Int(_) => Type::Int,
            Val::Uint(_) => Type::Uint,
            Val::Double(_) => Type::Double,
            Val::Text(_) => Type::Text,
            Val::Bytes(_) => Type::Bytes,
            Val::List(_) => Type::list(Type::Dyn),
            Val::Map(_) => Type::map(Type::Dyn, Type::Dyn),
            Val::Constructed(object) => Type::Object(Arc::new(Object {
                name: object.name.clone(),
                ..Object::default()
            })),
            Val::Timestamp(_) => Type::Timestamp,
            Val::Duration(_) => Type::Duration,
            Val::Type(_) => Type::Meta,
            Val::Optional(_) => Type::optional(Type::Dyn),
            Val::Quantity(_) => Type::Opaque("kubernetes.Quantity"),
            Val::Url(_) => Type::Opaque("kubernetes.URL"),
            Val::Ip(_) => Type::Opaque("net.IP"),
            Val::Cidr(_) => Type::Opaque("net.CIDR"),
            Val::Semver(_) => Type::Opaque("kubernetes.Semver"),
            Val::Format(_) => Type::Opaque("kubernetes.NamedFormat"),
            Val::Authz(authz) => Type::Opaque(authz.type_name()),
        }
    }

    /// Whether the value can be an argument of type `expected`. Elements are not compared.
    pub(super) fn fits(&self, expected: &Type) -> bool {
        match (expected, self) {
            (Type::Dyn | Type::Param(_) | Type::Var(_), _)
            | (Type::Null, Val::Null)
            | (Type::Bool, Val::Bool(_))
            | (Type::Int, Val::Int(_))
            | (Type::Uint, Val::Uint(_))
            | (Type::Double, Val::Double(_))
            | (Type::Text, Val::Text(_))
            | (Type::Bytes, Val::Bytes(_))
            | (Type::Timestamp, Val::Timestamp(_))
            | (Type::Duration, Val::Duration(_))
            | (Type::Map(..) | Type::Object(_), Val::Map(_))
            | (Type::Meta, Val::Type(_)) => true,
            // Methods such as `sum` have one overload per type of elements.
            (Type::List(element), Val::List(list)) => {
                list.items.first().is_none_or(|first| first.fits(element))
            }
            (Type::Optional(inner), Val::Optional(value)) => {
                value.as_ref().is_none_or(|value| value.fits(inner))
            }
            (Type::Object(object), Val::Constructed(value)) => object.name == value.name,
            (Type::Opaque(name), value) => value.kind() == Type::Opaque(name),
            _ => false,
        }
    }

    /// The size by which costs are computed: characters, bytes, elements; 1 for other values.
    pub(super) fn size(&self) -> u64 {
        match self {
            Val::Text(text) => text.chars().count() as u64,
            Val::Bytes(bytes) => bytes.len() as u64,
            Val::List(list) => list.items.len() as u64,
            Val::Map(map) => map.len() as u64,
            Val::Optional(Some(value)) => value.size(),
            _ => 1,
        }
    }

    /// The value of JSON without a schema.
    pub fn of_json(value: &Value) -> Self {
        match value {
            Value::Null => Val::Null,
            Value::Bool(value) => Val::Bool(*value),
            Value::Number(number) => match number.as_i64() {
                Some(number) => Val::Int(number),
                None => Val::Double(number.as_f64().unwrap_or(f64::NAN)),
            },
            Value::String(text) => Val::text(text),
            Value::Array(items) => Val::list(items.iter().map(Self::of_json).collect()),
            Value::Object(fields) => {
                let entry =
                    |(name, value): (&String, &Value)| (Key::text(name), Self::of_json(value));
                Val::Map(Arc::new(fields.iter().map(entry).collect()))
            }
        }
    }

    /// The value of JSON as `decl` declares it. Fields without a declaration are absent. A text
    /// that its format does not allow stays a text; schema validation refuses it.
    pub fn declared(value: &Value, decl: &Decl) -> Self {
        match (&decl.ty, value) {
            (_, Value::Null) => Val::Null,
            (Type::Object(object), Value::Object(fields)) => {
                let entry = |(name, field): (&String, &Field)| {
                    let value = fields.get(&field.json)?;
                    Some((Key::text(name), Self::declared(value, &field.decl)))
                };
                Val::Map(Arc::new(object.fields.iter().filter_map(entry).collect()))
            }
            (Type::Map(..), Value::Object(fields)) => {
                let convert = |value: &Value| match &decl.element {
                    Some(element) => Self::declared(value, element),
                    None => Self::of_json(value),
                };
                let entries = fields.iter();
                let entries = entries.map(|(name, value)| (Key::text(name), convert(value)));
                Val::Map(Arc::new(entries.collect()))
            }
            (Type::List(_), Value::Array(items)) => {
                let convert = |value: &Value| match &decl.element {
                    Some(element) => Self::declared(value, element),
                    None => Self::of_json(value),
                };
                Val::List(Arc::new(List {
                    items: items.iter().map(convert).collect(),
                    kind: decl.list_kind.clone(),
                }))
            }
            (Type::Double, Value::Number(number)) => {
                Val::Double(number.as_f64().unwrap_or(f64::NAN))
            }
            (Type::Bytes, Value::String(text)) => {
                let bytes = base64::engine::general_purpose::STANDARD.decode(text);
                bytes.map_or_else(|_| Val::text(text), |bytes| Val::Bytes(Arc::from(bytes)))
            }
            (Type::Timestamp, Value::String(text)) => time::parse_timestamp(text)
                .or_else(|| time::parse_date(text))
                .map_or_else(|| Val::text(text), Val::Timestamp),
            (Type::Duration, Value::String(text)) => {
                time::parse_duration(text).map_or_else(|| Val::text(text), Val::Duration)
            }
            _ => Self::of_json(value),
        }
    }

    /// The order of two values. `None` if their types have no order, or one of them is NaN.
    pub(super) fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Val::Bool(a), Val::Bool(b)) => Some(a.cmp(b)),
            (Val::Int(a), Val::Int(b)) => Some(a.cmp(b)),
            (Val::Uint(a), Val::Uint(b)) => Some(a.cmp(b)),
            (Val::Int(a), Val::Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
            (Val::Uint(a), Val::Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
            (Val::Double(a), Val::Double(b)) => a.partial_cmp(b),
            (Val::Double(a), Val::Int(b)) => a.partial_cmp(&(*b as f64)),
            (Val::Int(a), Val::Double(b)) => (*a as f64).partial_cmp(b),
            (Val::Double(a), Val::Uint(b)) => a.partial_cmp(&(*b as f64)),
            (Val::Uint(a), Val::Double(b)) => (*a as f64).partial_cmp(b),
            (Val::Text(a), Val::Text(b)) => Some(a.cmp(b)),
            (Val::Bytes(a), Val::Bytes(b)) => Some(a.cmp(b)),
            (Val::Timestamp(a), Val::Timestamp(b)) => Some(a.cmp(b)),
            (Val::Duration(a), Val::Duration(b)) => Some(a.cmp(b)),
            (Val::Quantity(a), Val::Quantity(b)) => a.partial_cmp(b),
            (Val::Semver(a), Val::Semver(b)) => Some(a.cmp(b)),
            _ => None,
        }
    }
}

impl PartialEq for Val {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Val::Null, Val::Null) => true,
            (Val::List(a), Val::List(b)) => a.equals(b),
            (Val::Map(a), Val::Map(b)) => a == b,
            (Val::Constructed(a), Val::Constructed(b)) => a == b,
            (Val::Type(a), Val::Type(b)) => a == b,
            (Val::Optional(a), Val::Optional(b)) => a == b,
            (Val::Url(a), Val::Url(b)) => a == b,
            (Val::Ip(a), Val::Ip(b)) => a == b,
            (Val::Cidr(a), Val::Cidr(b)) => a == b,
            (Val::Format(a), Val::Format(b)) => std::ptr::eq(*a, *b),
            (Val::Authz(a), Val::Authz(b)) => Arc::ptr_eq(a, b),
            _ => self.compare(other) == Some(Ordering::Equal),
        }
    }
}

impl List {
    /// Sets and lists with keys are equal in any order.
    fn equals(&self, other: &Self) -> bool {
        if self.items.len() != other.items.len() {
            return false;
        }
        match &self.kind {
            ListKind::Atomic => self.items == other.items,
            _ => self.items.iter().all(|item| other.items.contains(item)),
        }
    }

    /// The sum of two lists. A set gets the missing elements, a list with keys replaces elements
    /// of the same keys.
    pub(super) fn plus(&self, other: &Self) -> Self {
        let mut items = self.items.clone();
        if self.kind == ListKind::Atomic {
            items.extend_from_slice(&other.items);
            let kind = ListKind::Atomic;
            return Self { items, kind };
        }
        let same = |a: &Val, b: &Val| match &self.kind {
            ListKind::Atomic => false,
            ListKind::Set => a == b,
            ListKind::Map(keys) => match (a, b) {
                (Val::Map(a), Val::Map(b)) => keys.iter().all(|key| {
                    let key = Key::text(key);
                    a.get(&key) == b.get(&key)
                }),
                _ => false,
            },
        };
        for added in &other.items {
            match items.iter_mut().find(|item| same(item, added)) {
                Some(item) => *item = added.clone(),
                None => items.push(added.clone()),
            }
        }
        Self {
            items,
            kind: self.kind.clone(),
        }
    }
}
