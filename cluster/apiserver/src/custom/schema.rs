//! The structural schema of a custom kind, parsed from the `openAPIV3Schema` of its definition.
//!
//! Upstream: `pkg/apiserver/schema` of apiextensions-apiserver.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Number, Value};
use steersman_regexp::Regex;

/// One node of the schema, which describes the value at one place. The validation of structural
/// schemas decides which fields a node can have.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Schema {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(super) nullable: bool,
    pub(crate) format: String,
    pub(super) default: Option<Value>,
    pub(crate) properties: BTreeMap<String, Schema>,
    pub(super) additional_properties: Option<Additional>,
    pub(super) items: Option<Box<Schema>>,
    pub(super) required: Vec<String>,
    #[serde(rename = "enum")]
    pub(super) allowed: Vec<Value>,
    pub(super) maximum: Option<Number>,
    pub(super) exclusive_maximum: bool,
    pub(super) minimum: Option<Number>,
    pub(super) exclusive_minimum: bool,
    pub(super) multiple_of: Option<Number>,
    #[serde(deserialize_with = "limit")]
    pub(super) max_length: Option<usize>,
    #[serde(deserialize_with = "limit")]
    pub(super) min_length: Option<usize>,
    pub(super) pattern: String,
    #[serde(deserialize_with = "limit")]
    pub(super) max_items: Option<usize>,
    #[serde(deserialize_with = "limit")]
    pub(super) min_items: Option<usize>,
    #[serde(deserialize_with = "limit")]
    pub(super) max_properties: Option<usize>,
    #[serde(deserialize_with = "limit")]
    pub(super) min_properties: Option<usize>,
    pub(super) all_of: Vec<Schema>,
    pub(super) any_of: Vec<Schema>,
    pub(super) one_of: Vec<Schema>,
    pub(super) not: Option<Box<Schema>>,
    #[serde(rename = "x-kubernetes-preserve-unknown-fields")]
    pub(crate) preserve_unknown: bool,
    #[serde(rename = "x-kubernetes-embedded-resource")]
    pub(crate) embedded_resource: bool,
    #[serde(rename = "x-kubernetes-int-or-string")]
    pub(super) int_or_string: bool,
    #[serde(rename = "x-kubernetes-list-type")]
    pub(crate) list_type: ListType,
    #[serde(rename = "x-kubernetes-list-map-keys")]
    pub(super) list_map_keys: Vec<String>,
    #[serde(rename = "x-kubernetes-map-type")]
    pub(super) map_type: String,
    #[serde(rename = "x-kubernetes-validations")]
    pub(super) rules: Vec<Rule>,
    #[serde(skip)]
    compiled: OnceLock<Option<Regex>>,
}

/// A rule as written. The names in JSON are Go's, as in upstream's error messages.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
#[serde(default)]
#[serde(rename_all(serialize = "PascalCase", deserialize = "camelCase"))]
pub(super) struct Rule {
    pub(super) rule: String,
    pub(super) message: String,
    pub(super) message_expression: String,
    pub(super) reason: Option<String>,
    pub(super) field_path: String,
    pub(super) optional_old_self: Option<bool>,
}

impl Rule {
    /// The rule in messages about failures of its evaluation.
    pub(super) fn shown(&self) -> &str {
        if self.message.is_empty() {
            self.rule.trim()
        } else {
            self.message.trim()
        }
    }
}

/// How a list identifies its elements.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ListType {
    #[default]
    Atomic,
    Set,
    Map,
}

/// `additionalProperties`: whether other fields are allowed, or their schema.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Additional {
    Allowed(bool),
    Like(Box<Schema>),
}

/// A limit. Upstream accepts negative ones, too.
fn limit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    let limit = Option::<i64>::deserialize(deserializer)?;
    Ok(limit.map(|limit| usize::try_from(limit).unwrap_or(0)))
}

impl Schema {
    /// Parses a schema. Validation of definitions ensures that this succeeds.
    pub(super) fn parse(document: &Value) -> Result<Self, serde_json::Error> {
        Self::deserialize(document)
    }

    /// Whether server-side apply treats an object as one field.
    pub(crate) fn is_atomic_map(&self) -> bool {
        self.map_type == "atomic"
    }

    /// Whether fields without a schema are kept.
    pub(crate) fn preserves_unknown(&self) -> bool {
        self.preserve_unknown
            || matches!(self.additional_properties, Some(Additional::Allowed(true)))
    }

    /// The schema of a named field.
    pub(crate) fn property(&self, name: &str) -> Option<&Schema> {
        self.properties.get(name)
    }

    /// The schema of fields that are not in `properties`.
    pub(crate) fn additional(&self) -> Option<&Schema> {
        match &self.additional_properties {
            Some(Additional::Like(schema)) => Some(schema),
            _ => None,
        }
    }

    /// The schema of the value under `key`.
    pub(crate) fn child(&self, key: &str) -> Option<&Schema> {
        self.property(key).or_else(|| self.additional())
    }

    /// The schema of list elements.
    pub(crate) fn item(&self) -> Option<&Schema> {
        self.items.as_deref()
    }

    /// The fields that identify elements of a list of type `map`.
    pub(crate) fn list_keys(&self) -> &[String] {
        &self.list_map_keys
    }

    /// Whether `additionalProperties` is a boolean, and which.
    pub(crate) fn allows_additional(&self) -> Option<bool> {
        match self.additional_properties {
            Some(Additional::Allowed(allowed)) => Some(allowed),
            _ => None,
        }
    }

    /// The value that an absent field has.
    pub(crate) fn default_value(&self) -> Option<&Value> {
        self.default.as_ref()
    }

    /// Whether `text` matches the pattern. One that is too large to be compiled here matches everything,
    /// because a refused value could be right.
    pub(super) fn matches(&self, text: &str) -> bool {
        let compiled = self
            .compiled
            .get_or_init(|| steersman_regexp::compile(&self.pattern).ok());
        compiled
            .as_ref()
            .is_none_or(|pattern| pattern.is_match(text))
    }
}
