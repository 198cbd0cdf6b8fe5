//! Types that are unions in JSON, and messages in protobuf.

use super::{Field, Struct};

/// Name of the type of schemas.
pub(super) const SCHEMA: &str = "apiextensions.JSONSchemaProps";

/// The types with members of other types in JSON than in protobuf.
///
/// Upstream: `apiextensions/v1/marshal.go` of apiextensions-apiserver.
#[derive(Debug, Clone, Copy)]
pub(super) enum Union {
    /// A schema, or a boolean.
    Bool,
    /// A schema, or a list of schemas.
    List,
    /// A schema, or a list of texts.
    Texts,
}

impl Union {
    /// The union that `field` of `shape` is, or that its entries are.
    pub(super) fn of(shape: &Struct, field: &Field) -> Option<Self> {
        if shape.name() != SCHEMA {
            return None;
        }
        match field.name {
            "additionalProperties" | "additionalItems" => Some(Self::Bool),
            "items" => Some(Self::List),
            "dependencies" => Some(Self::Texts),
            _ => None,
        }
    }
}
