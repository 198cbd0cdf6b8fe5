//! Stand-ins for Secrets and ConfigMaps that a program in the manifests would have made.
//!
//! Simulated containers run no program. So an object that one of them makes on a real cluster, such
//! as a password, never comes, and the pods that refer to it wait for ever.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use serde_json::{Map, Value, json};
use steersman_devcluster::DevCluster;
use steersman_devcluster::manifests::Manifest;

/// A kind of objects that pods read, and the fields of a pod that refer to them.
#[derive(Debug, PartialEq, Eq)]
struct Kind {
    kind: &'static str,
    plural: &'static str,
    fields: [&'static str; 3],
}

const KINDS: [Kind; 2] = [
    Kind {
        kind: "Secret",
        plural: "secrets",
        fields: ["secret", "secretRef", "secretKeyRef"],
    },
    Kind {
        kind: "ConfigMap",
        plural: "configmaps",
        fields: ["configMap", "configMapRef", "configMapKeyRef"],
    },
];

/// An object that may be missing: `secret/NAME` or `configmap/NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MissingOk {
    kind: &'static Kind,
    name: String,
}

impl fmt::Display for MissingOk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.kind.to_ascii_lowercase(), self.name)
    }
}

impl FromStr for MissingOk {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, name) = text.split_once('/').unwrap_or((text, ""));
        let known = KINDS
            .iter()
            .find(|known| known.kind.eq_ignore_ascii_case(kind) || known.plural == kind);
        match known {
            Some(kind) if !name.is_empty() => Ok(Self {
                kind,
                name: name.to_owned(),
            }),
            _ => Err("an object is secret/NAME or configmap/NAME".to_owned()),
        }
    }
}

impl MissingOk {
    /// Creates the object where pods of `manifests` refer to it and it does not exist, with an empty
    /// value for each key that they read. Returns a line for each, or one about the lack of them.
    pub(super) async fn stand_in(
        &self,
        cluster: &DevCluster,
        manifests: &[Manifest],
    ) -> Vec<String> {
        let found = self.references(manifests);
        if found.is_empty() {
            return vec![format!("no applied pod refers to {self}")];
        }
        let mut lines = Vec::new();
        for (namespace, keys) in found {
            let values: Map<String, Value> = keys
                .iter()
                .map(|key| (key.clone(), Value::from("")))
                .collect();
            let object = json!({
                "apiVersion": "v1", "kind": self.kind.kind,
                "metadata": {"name": self.name, "namespace": namespace}, "data": values,
            });
            // One that exists is not missing.
            match cluster.create(object).await {
                Ok(_) => lines.push(format!(
                    "made {} {namespace}/{} in place of a program, with the keys {:?}",
                    self.kind.kind.to_ascii_lowercase(),
                    self.name,
                    keys
                )),
                Err(status) if status.reason == "AlreadyExists" => {}
                Err(status) => lines.push(format!("{self} cannot be made: {}", status.message)),
            }
        }
        lines
    }

    /// The keys that pods read, by namespace.
    fn references(&self, manifests: &[Manifest]) -> BTreeMap<String, BTreeSet<String>> {
        let mut found = BTreeMap::new();
        for manifest in manifests {
            let mut keys = None;
            self.walk(&manifest.object["spec"], &mut keys);
            if let Some(keys) = keys {
                let namespace = manifest.namespace().to_owned();
                let known: &mut BTreeSet<String> = found.entry(namespace).or_default();
                known.extend(keys);
            }
        }
        found
    }

    /// Adds the keys of all references in `value`; `None` means no reference so far.
    fn walk(&self, value: &Value, keys: &mut Option<BTreeSet<String>>) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.walk(item, keys)),
            Value::Object(members) => {
                for (field, member) in members {
                    if self.kind.fields.contains(&&**field) && self.is_named(member) {
                        let keys = keys.get_or_insert_default();
                        let items = member["items"].as_array().into_iter().flatten();
                        let read = items.chain([member]).map(|item| &item["key"]);
                        keys.extend(read.filter_map(Value::as_str).map(str::to_owned));
                    }
                    self.walk(member, keys);
                }
            }
            _ => {}
        }
    }

    /// A volume names its Secret by `secretName`, all other references use `name`.
    fn is_named(&self, reference: &Value) -> bool {
        reference["name"] == *self.name || reference["secretName"] == *self.name
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use steersman_devcluster::manifests::parse;

    use super::*;

    fn missing(text: &str) -> MissingOk {
        text.parse().unwrap()
    }

    #[test]
    fn an_object_has_kind_and_name() {
        assert_eq!(missing("ConfigMap/a").to_string(), "configmap/a");
        assert_eq!(missing("secret/a"), missing("secrets/a"));
        for bad in ["secret", "secret/", "pod/a", "a"] {
            assert!(bad.parse::<MissingOk>().is_err(), "{bad}");
        }
    }

    #[test]
    fn keys_come_from_variables_volumes_and_projections() {
        let text = "
{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, namespace: x}, spec: {template: {spec: {
  containers: [{env: [{name: P, valueFrom: {secretKeyRef: {name: redis, key: auth}}}, {name: Q, valueFrom: {secretKeyRef: {name: other, key: no}}}]}],
  volumes: [{name: v, secret: {secretName: redis, items: [{key: tls, path: tls}]}}, {name: w, projected: {sources: [{secret: {name: redis, items: [{key: ca, path: ca}]}}]}}]}}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: b}, spec: {containers: [{envFrom: [{secretRef: {name: redis}}, {configMapRef: {name: config}}]}]}}
";
        let manifests = parse(Path::new("f.yaml"), text).unwrap();
        let keys = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect();
        let expected = BTreeMap::from([
            ("default".to_owned(), keys(&[])),
            ("x".to_owned(), keys(&["auth", "ca", "tls"])),
        ]);
        assert_eq!(missing("secret/redis").references(&manifests), expected);
        assert_eq!(missing("configmap/config").references(&manifests).len(), 1);
        assert!(missing("configmap/redis").references(&manifests).is_empty());
    }
}
