//! The kinds that a server has, and the paths of their collections.

use std::collections::HashMap;

use anyhow::Result;
use serde_json::Value;

use crate::answer::send;
use crate::documents::Document;

/// The resources of a server, by version and kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct Kinds {
    resources: HashMap<(String, String), Resource>,
}

#[derive(Debug, Clone)]
struct Resource {
    plural: String,
    is_namespaced: bool,
}

impl Kinds {
    /// All kinds in a server's discovery.
    pub(crate) async fn of_server(client: &kube::Client) -> Result<Self> {
        let get = async |path: String| {
            let answer = send(client, "GET", &path, "application/json", String::new());
            anyhow::Ok(answer.await?.body)
        };
        let mut kinds = Self::default();
        kinds.add("v1", &get("/api/v1".to_owned()).await?);
        let groups = get("/apis".to_owned()).await?;
        for group in groups["groups"].as_array().into_iter().flatten() {
            for version in group["versions"].as_array().into_iter().flatten() {
                let version = version["groupVersion"].as_str().unwrap_or_default();
                kinds.add(version, &get(prefix(version)).await?);
            }
        }
        Ok(kinds)
    }

    /// Adds the resources of an `APIResourceList`.
    fn add(&mut self, version: &str, list: &Value) {
        for resource in list["resources"].as_array().into_iter().flatten() {
            let text = |field: &str| resource[field].as_str().unwrap_or_default().to_owned();
            let plural = text("name");
            if plural.contains('/') {
                continue;
            }
            let is_namespaced = resource["namespaced"] == true;
            let resource = Resource {
                plural,
                is_namespaced,
            };
            let key = (version.to_owned(), text("kind"));
            self.resources.insert(key, resource);
        }
    }

    /// Adds the kind of a definition. Returns the paths of all of its objects, one for each served
    /// version.
    pub(crate) fn define(&mut self, definition: &Value) -> Vec<String> {
        let spec = &definition["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let versions = spec["versions"].as_array().into_iter().flatten();
        let served = versions.filter(|version| version["served"] == true);
        let mut paths = Vec::new();
        for version in served {
            let version = format!("{}/{}", text(&spec["group"]), text(&version["name"]));
            let plural = text(&spec["names"]["plural"]);
            paths.push(format!("{}/{plural}", prefix(&version)));
            let resource = Resource {
                plural,
                is_namespaced: spec["scope"] == "Namespaced",
            };
            let key = (version, text(&spec["names"]["kind"]));
            self.resources.insert(key, resource);
        }
        paths
    }

    /// The path to which a document is posted, if the server has its kind.
    pub(crate) fn collection(&self, document: &Document) -> Option<String> {
        let version = document.api_version();
        let key = (version.to_owned(), document.kind().to_owned());
        let resource = self.resources.get(&key)?;
        let namespace = if resource.is_namespaced {
            format!("/namespaces/{}", segment(document.namespace()))
        } else {
            String::new()
        };
        Some(format!(
            "{}{namespace}/{}",
            prefix(version),
            resource.plural
        ))
    }
}

/// The path of all resources of a version.
fn prefix(version: &str) -> String {
    let root = if version.contains('/') { "apis" } else { "api" };
    format!("/{root}/{version}")
}

/// A name as one segment of a path.
pub(crate) fn segment(name: &str) -> String {
    let mut segment = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' => {
                segment.push(char::from(byte));
            }
            _ => segment.push_str(&format!("%{byte:02X}")),
        }
    }
    segment
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document(version: &str, kind: &str) -> Document {
        let metadata = json!({"name": "x", "namespace": "a b"});
        Document {
            place: String::new(),
            text: String::new(),
            object: json!({"apiVersion": version, "kind": kind, "metadata": metadata}),
        }
    }

    #[test]
    fn paths_follow_discovery_and_definitions() {
        let mut kinds = Kinds::default();
        let pods = json!({"name": "pods", "kind": "Pod", "namespaced": true});
        let binding = json!({"name": "pods/binding", "kind": "Binding", "namespaced": true});
        kinds.add("v1", &json!({"resources": [pods, binding]}));
        let roles = json!({"name": "clusterroles", "kind": "ClusterRole", "namespaced": false});
        kinds.add(
            "rbac.authorization.k8s.io/v1",
            &json!({"resources": [roles]}),
        );
        let version = |name: &str, served: bool| json!({"name": name, "served": served});
        let paths = kinds.define(&json!({"spec": {
            "group": "ex.example", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
            "versions": [version("v1", true), version("v1beta1", false)],
        }}));
        assert_eq!(paths, ["/apis/ex.example/v1/things"]);
        for (version, kind, expected) in [
            ("v1", "Pod", Some("/api/v1/namespaces/a%20b/pods")),
            ("v1", "Binding", None),
            ("apps/v1", "Pod", None),
            (
                "rbac.authorization.k8s.io/v1",
                "ClusterRole",
                Some("/apis/rbac.authorization.k8s.io/v1/clusterroles"),
            ),
            ("ex.example/v1", "Thing", Some("/apis/ex.example/v1/things")),
            ("ex.example/v1beta1", "Thing", None),
        ] {
            let found = kinds.collection(&document(version, kind));
            assert_eq!(found.as_deref(), expected, "{version} {kind}");
        }
    }
}
