//! The schema of one kind in an OpenAPI v3 document, as a type of expressions.
//!
//! document -> [`Document`] (schemas as text) -> the schemas that the kind needs -> [`Type`]
//!
//! Upstream: `k8s.io/apiserver/pkg/cel/openapi` and its package `resolver`.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::value::RawValue;
use steersman_cel::declare::{Schema, declaration};
use steersman_cel::types::Type;

use super::kinds::Kind;

/// Prefix of references to schemas. Upstream: `refPrefix`.
const REFERENCE: &str = "#/components/schemas/";

/// An OpenAPI document, of which only the schemas are read. The texts of the schemas are borrowed
/// and parsed on demand: a document describes many kinds, and one is wanted.
#[derive(Debug, Deserialize)]
pub(super) struct Document<'a> {
    #[serde(borrow)]
    components: Components<'a>,
}

#[derive(Debug, Deserialize)]
struct Components<'a> {
    #[serde(borrow, default)]
    schemas: HashMap<&'a str, &'a RawValue>,
}

/// The kinds that a schema describes. A schema for a part of objects has none. Lists of objects
/// have kinds of their own.
#[derive(Debug, Default, Deserialize)]
struct Described {
    #[serde(default, rename = "x-kubernetes-group-version-kind")]
    kinds: Vec<DescribedKind>,
}

#[derive(Debug, Deserialize)]
struct DescribedKind {
    group: String,
    version: String,
    kind: String,
}

impl Document<'_> {
    /// The type of objects of `kind`; dynamic if the schema does not restrict them. `None` without
    /// a schema.
    pub(super) fn type_of(&self, kind: &Kind) -> Result<Option<Type>, serde_json::Error> {
        let Some(root) = self.schema_of(kind)? else {
            return Ok(None);
        };
        let definitions = self.reachable(root)?;
        let resolved = definitions.get(root).map(|node| Resolved {
            definitions: &definitions,
            node,
            visited: vec![root],
        });
        // `true` marks the root of an object, which has `apiVersion`, `kind` and metadata.
        let declared = resolved.and_then(|schema| declaration(&schema, true, &kind.kind));
        Ok(Some(declared.map_or(Type::Dyn, |declared| declared.ty)))
    }

    /// The name of the schema that describes `kind`. Upstream: `resolveRef`.
    fn schema_of(&self, kind: &Kind) -> Result<Option<&str>, serde_json::Error> {
        for (name, text) in &self.components.schemas {
            let described: Described = serde_json::from_str(text.get())?;
            let is_described = described.kinds.iter().any(|found| {
                (&found.group, &found.version, &found.kind)
                    == (&kind.group, &kind.version, &kind.kind)
            });
            if is_described {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }

    /// The schema `root` and all that it refers to. Missing schemas are left out. A schema that
    /// refers to itself is met once.
    fn reachable(&self, root: &str) -> Result<HashMap<String, Node>, serde_json::Error> {
        let mut found = HashMap::new();
        let mut pending = vec![root.to_owned()];
        while let Some(name) = pending.pop() {
            if found.contains_key(&name) {
                continue;
            }
            if let Some(text) = self.components.schemas.get(&*name) {
                let node: Node = serde_json::from_str(text.get())?;
                node.collect_references(&mut pending);
                found.insert(name, node);
            }
        }
        Ok(found)
    }
}

/// One node of a schema.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Node {
    #[serde(rename = "$ref")]
    reference: Option<String>,
    all_of: Vec<Node>,
    #[serde(rename = "type")]
    kind: String,
    format: String,
    properties: BTreeMap<String, Node>,
    items: Option<Box<Node>>,
    additional_properties: Option<Additional>,
    #[serde(rename = "x-kubernetes-int-or-string")]
    int_or_string: bool,
    /// Custom kinds have it at fields with whole objects.
    #[serde(rename = "x-kubernetes-embedded-resource")]
    embedded_resource: bool,
}

/// `additionalProperties`: whether other fields are allowed, or their schema.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Additional {
    #[allow(dead_code, reason = "only its type is of interest")]
    Allowed(bool),
    Like(Box<Node>),
}

impl Node {
    /// The name of the schema that stands for this node. A reference with a description is in
    /// `allOf`. Upstream: `refOf`.
    fn target(&self) -> Option<&str> {
        match &self.reference {
            Some(reference) => Some(reference.strip_prefix(REFERENCE).unwrap_or(reference)),
            None => self.all_of.iter().find_map(Self::target),
        }
    }

    fn additional(&self) -> Option<&Node> {
        match &self.additional_properties {
            Some(Additional::Like(node)) => Some(node),
            _ => None,
        }
    }

    /// A node with a target can have further parts. They are collected as well, and stay unused.
    fn collect_references(&self, found: &mut Vec<String>) {
        found.extend(self.target().map(str::to_owned));
        let parts = self.properties.values().chain(self.items.as_deref());
        parts
            .chain(self.additional())
            .for_each(|part| part.collect_references(found));
    }
}

/// Stands for a schema within itself, and for a missing one. Upstream: `populateRefs`. Upstream
/// skips a kind with a missing schema. Servers publish complete documents, so only a broken one
/// shows the difference.
static ANY_OBJECT: LazyLock<Node> = LazyLock::new(|| Node {
    kind: "object".to_owned(),
    ..Node::default()
});

/// A node without references.
#[derive(Debug)]
struct Resolved<'a> {
    definitions: &'a HashMap<String, Node>,
    node: &'a Node,
    /// Names of the schemas around the node. They are those on the way to the root. A schema in two
    /// places beside each other is therefore no cycle.
    visited: Vec<&'a str>,
}

impl<'a> Resolved<'a> {
    /// A part of this node, or the schema that it refers to.
    fn part(&self, node: &'a Node) -> Self {
        let mut visited = self.visited.clone();
        let node = match node.target() {
            None => node,
            Some(name) if visited.contains(&name) => &*ANY_OBJECT,
            Some(name) => {
                visited.push(name);
                self.definitions.get(name).unwrap_or(&*ANY_OBJECT)
            }
        };
        Self {
            definitions: self.definitions,
            node,
            visited,
        }
    }
}

impl Schema for Resolved<'_> {
    fn kind(&self) -> &str {
        &self.node.kind
    }

    fn format(&self) -> &str {
        &self.node.format
    }

    fn is_int_or_string(&self) -> bool {
        // Schemas of built-in kinds have the format, and those of custom kinds the extension.
        self.node.int_or_string || self.node.format == "int-or-string"
    }

    fn is_embedded_resource(&self) -> bool {
        self.node.embedded_resource
    }

    fn item(&self) -> Option<Self> {
        self.node.items.as_deref().map(|node| self.part(node))
    }

    fn additional(&self) -> Option<Self> {
        self.node.additional().map(|node| self.part(node))
    }

    fn properties(&self) -> Vec<(&str, Self)> {
        let properties = self.node.properties.iter();
        properties
            .map(|(name, node)| (name.as_str(), self.part(node)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use steersman_cel::admission::typed_declarations;
    use steersman_cel::type_of;

    use super::*;

    fn types(schemas: &Value) -> Result<Option<Type>, serde_json::Error> {
        let text = json!({"components": {"schemas": schemas}}).to_string();
        let document: Document<'_> = serde_json::from_str(&text)?;
        document.type_of(&Kind {
            group: "shop.io".to_owned(),
            version: "v1".to_owned(),
            kind: "Cart".to_owned(),
        })
    }

    /// Upstream: `TestPopulateRefs`.
    #[test]
    fn references_are_replaced() {
        let cart = json!({
            "type": "object",
            "x-kubernetes-group-version-kind": [{"group": "shop.io", "version": "v1", "kind": "Cart"}],
            "properties": {
                "owner": {"allOf": [{"$ref": "#/components/schemas/Owner"}], "default": {}},
                "items": {"type": "array", "items": {"$ref": "#/components/schemas/Owner"}},
                "byName": {"type": "object", "additionalProperties": {"$ref": "#/components/schemas/Owner"}},
                "inner": {"$ref": "#/components/schemas/Cart"},
                "quota": {"oneOf": [{"type": "string"}, {"type": "number"}]},
                "limits": {"type": "object", "additionalProperties": {"oneOf": []}},
                "open": {"type": "object", "additionalProperties": true},
                "port": {"format": "int-or-string", "oneOf": []},
                "custom": {"x-kubernetes-int-or-string": true},
                "namespace": {"type": "string"},
                "template": {"type": "object", "x-kubernetes-embedded-resource": true},
                "missing": {"$ref": "#/components/schemas/Missing"},
            },
        });
        let owner = json!({"type": "object", "properties": {
            "since": {"type": "string", "format": "date-time"}, "self": {"$ref": "#/components/schemas/Owner"},
        }});
        let found = types(&json!({"Cart": cart, "Owner": owner}))
            .unwrap()
            .unwrap();
        let declarations = typed_declarations(found, None);
        // (expression, part of its problem; empty without one)
        let cases = [
            ("object.owner.since > timestamp('2000-01-01T00:00:00Z')", ""),
            (
                "object.items.all(i, i.since == object.byName['a'].since)",
                "",
            ),
            ("object.owner.self.since == null", "undefined field 'since'"),
            ("object.inner.owner == null", "undefined field 'owner'"),
            ("object.quota == 1", "undefined field 'quota'"),
            ("object.limits == {}", "undefined field 'limits'"),
            ("object.open.any == 1", "undefined field 'any'"),
            ("object.port == 1 || object.custom.startsWith('a')", ""),
            ("object.namespace == object.__namespace__", ""),
            (
                "object.metadata.name == object.template.metadata.generateName",
                "",
            ),
            ("object.metadata.labels == {}", "undefined field 'labels'"),
            ("object.missing == null", ""),
            ("object.owner == 1", "applied to '(Cart.owner, int)'"),
            (
                "object.items == 1",
                "applied to '(list(Cart.items.@idx), int)'",
            ),
        ];
        for (expression, problem) in cases {
            match type_of(expression, &declarations) {
                Ok(_) => assert_eq!(problem, "", "{expression}"),
                Err(text) => assert!(
                    !problem.is_empty() && text.contains(problem),
                    "{expression}: {text}"
                ),
            }
        }
    }

    #[test]
    fn a_kind_can_be_without_schema_or_type() {
        let gvk = json!([{"group": "shop.io", "version": "v1", "kind": "Cart"}]);
        assert!(types(&json!({})).unwrap().is_none());
        let untyped = json!({"Cart": {"x-kubernetes-group-version-kind": gvk}});
        assert_eq!(types(&untyped).unwrap(), Some(Type::Dyn));
        let malformed = json!({"Cart": {"x-kubernetes-group-version-kind": gvk, "properties": 1}});
        assert!(types(&malformed).is_err());
    }
}
