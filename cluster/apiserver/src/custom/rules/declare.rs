//! Types and sizes of the values that the schema of a custom kind allows.

use std::sync::Arc;

use super::super::schema::{ListType, Schema};
use crate::cel::declare::{self, Limits, declaration};
use crate::cel::types::{Decl, ListKind, escape};

/// The declaration of a schema; `None` for values of any type. `resource` adds `apiVersion`,
/// `kind` and the names in `metadata`.
pub(super) fn schema(schema: &Schema, resource: bool) -> Option<Decl> {
    declaration(&schema, resource, "object")
}

/// The declaration of a property: the part of its parent's, or its own if no expression can name
/// it.
pub(super) fn property(parent: &Decl, name: &str, node: &Schema) -> Option<Arc<Decl>> {
    match escape(name) {
        Some(escaped) => parent.field(&escaped).cloned(),
        None => schema(node, node.embedded_resource).map(Arc::new),
    }
}

impl declare::Schema for &Schema {
    fn kind(&self) -> &str {
        &self.kind
    }

    fn format(&self) -> &str {
        &self.format
    }

    fn is_int_or_string(&self) -> bool {
        self.int_or_string
    }

    fn is_embedded_resource(&self) -> bool {
        self.embedded_resource
    }

    fn item(&self) -> Option<Self> {
        Schema::item(self)
    }

    fn additional(&self) -> Option<Self> {
        Schema::additional(self)
    }

    fn properties(&self) -> Vec<(&str, Self)> {
        let properties = self.properties.iter();
        properties
            .map(|(name, schema)| (name.as_str(), schema))
            .collect()
    }

    fn limits(&self) -> Limits {
        let size = |limit: Option<usize>| limit.map(|limit| limit as u64);
        let texts = self.allowed.iter().filter_map(|value| value.as_str());
        let longest = texts.map(|text| text.len() as u64).max();
        Limits {
            length: size(self.max_length),
            longest: (!self.allowed.is_empty()).then_some(longest.unwrap_or(0)),
            items: size(self.max_items),
            properties: size(self.max_properties),
        }
    }

    fn requires(&self, name: &str) -> bool {
        let has_default = |property: &Schema| property.default.is_some();
        self.required.iter().any(|required| required == name)
            && !self.property(name).is_some_and(has_default)
    }

    fn list_kind(&self) -> ListKind {
        match self.list_type {
            ListType::Atomic => ListKind::Atomic,
            ListType::Set => ListKind::Set,
            ListType::Map => ListKind::Map(self.list_keys().into()),
        }
    }
}
