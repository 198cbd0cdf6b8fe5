//! The reference from an endpoint to its object, which is mostly a pod.
//!
//! Slices and Endpoints hold one reference for each address. Kind and namespace are therefore
//! shared, and the three fields that references to pods lack are in one box. Upstream:
//! `ObjectReference` of `k8s.io/api/core/v1`.

use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};

use steersman_values::intern::Sym;

use super::Uid;
use super::wire::nullable;

/// The object behind an endpoint. Unset fields are empty.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "Wire")]
pub struct TargetRef {
    /// Kind.
    pub kind: Sym,
    /// Namespace.
    pub namespace: Sym,
    /// Name.
    pub name: Arc<str>,
    /// UID.
    pub uid: Uid,
    rare: Option<Box<Rare>>,
}

/// Fields that references to pods lack.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rare {
    api_version: Box<str>,
    resource_version: Box<str>,
    field_path: Box<str>,
}

impl TargetRef {
    /// A reference to the object of `kind` with this identity, and without further fields.
    pub fn new(kind: Sym, namespace: Sym, name: Arc<str>, uid: Uid) -> Self {
        Self {
            kind,
            namespace,
            name,
            uid,
            rare: None,
        }
    }

    /// `apiVersion`; empty when unset.
    pub fn api_version(&self) -> &str {
        self.rare.as_ref().map_or("", |rare| &rare.api_version)
    }

    /// `resourceVersion`; empty when unset.
    pub fn resource_version(&self) -> &str {
        self.rare.as_ref().map_or("", |rare| &rare.resource_version)
    }

    /// `fieldPath`; empty when unset.
    pub fn field_path(&self) -> &str {
        self.rare.as_ref().map_or("", |rare| &rare.field_path)
    }

    /// Whether both references agree in all fields except `resourceVersion`.
    pub fn is_same_object(&self, other: &Self) -> bool {
        self.name == other.name
            && self.uid == other.uid
            && self.kind == other.kind
            && self.namespace == other.namespace
            && self.api_version() == other.api_version()
            && self.field_path() == other.field_path()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    #[serde(default, deserialize_with = "nullable")]
    kind: Sym,
    #[serde(default, deserialize_with = "nullable")]
    namespace: Sym,
    name: Option<Arc<str>>,
    uid: Option<Uid>,
    #[serde(default, deserialize_with = "nullable")]
    api_version: Box<str>,
    #[serde(default, deserialize_with = "nullable")]
    resource_version: Box<str>,
    #[serde(default, deserialize_with = "nullable")]
    field_path: Box<str>,
}

impl From<Wire> for TargetRef {
    fn from(wire: Wire) -> Self {
        let rare = Rare {
            api_version: wire.api_version,
            resource_version: wire.resource_version,
            field_path: wire.field_path,
        };
        let fields = [&rare.api_version, &rare.resource_version, &rare.field_path];
        let is_plain = fields.iter().all(|field| field.is_empty());
        Self {
            kind: wire.kind,
            namespace: wire.namespace,
            name: wire.name.unwrap_or_else(|| Arc::from("")),
            uid: wire.uid.unwrap_or_else(|| Uid::new("")),
            rare: (!is_plain).then(|| Box::new(rare)),
        }
    }
}

impl Serialize for TargetRef {
    /// Writes the fields in the order of upstream's Go type, without empty ones.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let uid = self.uid.to_string();
        let fields = [
            ("kind", self.kind.as_str()),
            ("namespace", self.namespace.as_str()),
            ("name", &*self.name),
            ("uid", &uid),
            ("apiVersion", self.api_version()),
            ("resourceVersion", self.resource_version()),
            ("fieldPath", self.field_path()),
        ];
        serializer.collect_map(fields.into_iter().filter(|(_, value)| !value.is_empty()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn references_are_written_as_they_were_read() {
        let full = json!({
            "kind": "Pod", "namespace": "shop", "name": "web-0", "uid": "u",
            "apiVersion": "v1", "resourceVersion": "7", "fieldPath": "spec",
        });
        let null =
            json!({"kind": null, "namespace": null, "name": null, "uid": null, "fieldPath": null});
        // (served, written)
        let cases = [
            (full.clone(), full),
            (json!({"name": "a"}), json!({"name": "a"})),
            (null, json!({})),
        ];
        for (served, written) in cases {
            let reference: TargetRef = serde_json::from_value(served.clone()).unwrap();
            let found: Value = serde_json::to_value(&reference).unwrap();
            assert_eq!(found, written, "{served}");
        }
    }

    #[test]
    fn only_the_resource_version_may_differ_between_references_to_one_object() {
        let reference = |field: &str, value: &str| -> TargetRef {
            let mut json = json!({"kind": "Pod", "name": "a", "uid": "u"});
            json[field] = Value::from(value);
            serde_json::from_value(json).unwrap()
        };
        let plain = reference("kind", "Pod");
        assert!(plain.is_same_object(&reference("resourceVersion", "7")));
        for field in [
            "kind",
            "namespace",
            "name",
            "uid",
            "apiVersion",
            "fieldPath",
        ] {
            assert!(!plain.is_same_object(&reference(field, "x")), "{field}");
        }
    }
}
