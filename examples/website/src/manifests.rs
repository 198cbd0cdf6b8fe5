//! The objects that the operator applies.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Serialize;
use serde_json::{Value, json};

/// The name under which the operator owns fields.
pub const FIELD_MANAGER: &str = "website-operator";

/// The values that the objects of one Website depend on.
pub struct Page<'a, O> {
    /// Name of the Website and of its objects.
    pub name: &'a str,
    /// The page.
    pub content: &'a str,
    /// The number of servers.
    pub servers: i32,
    /// The controller reference to the Website. The garbage collector deletes the objects with it.
    pub owner: O,
}

impl<O: Serialize> Page<'_, O> {
    /// The ConfigMap with the page.
    pub fn config_map(&self) -> Value {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": self.metadata(),
            "data": {"index.html": self.content},
        })
    }

    /// The Deployment that serves the page.
    pub fn deployment(&self) -> Value {
        let mut hasher = DefaultHasher::new();
        self.content.hash(&mut hasher);
        let labels = json!({"example.dev/website": self.name});
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": self.metadata(),
            "spec": {
                "replicas": self.servers,
                "selector": {"matchLabels": labels},
                "template": {
                    // The hash of the page changes the template, so a new page replaces the servers.
                    "metadata": {"labels": labels, "annotations": {"example.dev/page": format!("{:x}", hasher.finish())}},
                    "spec": {
                        "containers": [{"name": "server", "image": "nginx", "volumeMounts": [{"name": "page", "mountPath": "/usr/share/nginx/html"}]}],
                        "volumes": [{"name": "page", "configMap": {"name": self.name}}],
                    },
                },
            },
        })
    }

    fn metadata(&self) -> Value {
        json!({"name": self.name, "ownerReferences": [self.owner]})
    }
}

/// The Website's status: the number of ready servers with the current page.
pub fn status(ready: i32) -> Value {
    json!({"apiVersion": "example.dev/v1", "kind": "Website", "status": {"readyReplicas": ready}})
}
