//! All objects of a cluster, out of it and into another one.

use std::collections::BTreeMap;

use serde_json::Value;

use super::DevCluster;
use crate::status::Status;

/// Kinds that no server here serves, as `apiVersion kind`, with the number of their objects.
pub type Skipped = BTreeMap<String, usize>;

/// Objects about the server itself, which each server writes anew: kind, namespace and name.
const OF_THE_SERVER: [(&str, &str, &str); 3] = [
    ("Endpoints", "default", "kubernetes"),
    ("EndpointSlice", "default", "kubernetes"),
    (
        "ConfigMap",
        "kube-system",
        "extension-apiserver-authentication",
    ),
];

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn version(object: &Value) -> u64 {
    text(object, "/metadata/resourceVersion")
        .parse()
        .unwrap_or(0)
}

fn is_definition(object: &Value) -> bool {
    text(object, "/kind") == "CustomResourceDefinition"
}

fn is_of_the_server(object: &Value) -> bool {
    OF_THE_SERVER.contains(&(
        text(object, "/kind"),
        text(object, "/metadata/namespace"),
        text(object, "/metadata/name"),
    ))
}

impl DevCluster {
    /// All stored objects with their UIDs, versions and statuses, for [`DevCluster::restore`]. Objects
    /// about the server itself are left out.
    pub fn dump(&self) -> Vec<Value> {
        let mut objects = self.server.dump();
        objects.retain(|object| !is_of_the_server(object));
        objects.sort_by_key(version);
        objects
    }

    /// Stores objects unchanged, as another API server left them: with UIDs, owners, times and
    /// statuses, and with their resource versions. The order does not matter. An object replaces that of
    /// its name. Watches see no event, so call this before clients use the cluster.
    ///
    /// Returns the kinds that no definition among the objects declares. Fails for an object without a
    /// name or a needed namespace.
    ///
    /// ```
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use serde_json::json;
    /// use steersman_devcluster::DevCluster;
    ///
    /// let old = DevCluster::builder().start().await?;
    /// let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}});
    /// let created = old.create(map).await?;
    /// let new = DevCluster::builder().start().await?;
    /// assert!(new.restore(old.dump())?.is_empty());
    /// let path = "/api/v1/namespaces/default/configmaps/settings";
    /// assert_eq!(new.get(path).await?["metadata"], created["metadata"]);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(example()).unwrap();
    /// ```
    pub fn restore(&self, mut objects: Vec<Value>) -> Result<Skipped, Status> {
        objects.retain(|object| !is_of_the_server(object));
        // Custom objects need their definitions, which may have been changed after them.
        let definitions = objects.iter().filter(|object| is_definition(object));
        for definition in definitions {
            self.server.load(definition.clone())?;
        }
        let mut skipped = Skipped::new();
        for object in objects {
            let api_version = text(&object, "/apiVersion");
            let kind = text(&object, "/kind");
            if self.server.registered(api_version, kind).is_err() {
                *skipped.entry(format!("{api_version} {kind}")).or_default() += 1;
                continue;
            }
            self.server.restore(object)?;
        }
        self.server.forget_history();
        Ok(skipped)
    }

    /// Later changes have resource versions beyond `revision`, the last one of another cluster whose
    /// objects this one has.
    pub fn continue_after(&self, revision: u64) {
        self.server.revisions.raise(revision);
        self.server.forget_history();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steersman_values::clock::Clock;

    use super::*;

    fn map(name: &str, version: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "resourceVersion": version},
        })
    }

    #[tokio::test(start_paused = true)]
    async fn objects_keep_uid_and_version_in_any_order() {
        let cluster = DevCluster::new(Clock::system());
        let gadget = json!({
            "apiVersion": "example.dev/v1", "kind": "Gadget",
            "metadata": {"name": "g", "namespace": "default", "resourceVersion": "700000"},
            "status": {"ready": true},
        });
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "gadgets.example.dev", "resourceVersion": "900000"},
            "spec": {
                "group": "example.dev", "scope": "Namespaced",
                "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }}}],
            },
        });
        let unknown =
            json!({"apiVersion": "metrics.k8s.io/v1", "kind": "Sample", "metadata": {"name": "s"}});
        let objects = vec![
            map("b", "800000"),
            gadget,
            definition,
            map("a", "6"),
            unknown,
        ];
        let skipped = cluster.restore(objects).unwrap();
        assert_eq!(
            skipped,
            Skipped::from([("metrics.k8s.io/v1 Sample".to_owned(), 1)])
        );
        for (path, version) in [
            ("/api/v1/namespaces/default/configmaps/a", "6"),
            (
                "/apis/example.dev/v1/namespaces/default/gadgets/g",
                "700000",
            ),
            ("/api/v1/namespaces/default/configmaps/b", "800000"),
        ] {
            let found = cluster.get(path).await.unwrap();
            assert_eq!(found["metadata"]["resourceVersion"], version, "{path}");
        }
        // The states before are unknown here.
        let stale = cluster
            .get("/api/v1/configmaps?resourceVersion=700000&resourceVersionMatch=Exact")
            .await;
        assert!(stale.is_err_and(|status| status.code == 410));
        let a = cluster
            .get("/api/v1/namespaces/default/configmaps/a")
            .await
            .unwrap();
        assert_eq!(a["metadata"]["uid"], "uid-a");
        // Later changes have later versions.
        let new = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}});
        let created = cluster.create(new).await.unwrap();
        assert!(version(&created) > 900_000, "{created}");
    }

    #[tokio::test(start_paused = true)]
    async fn objects_about_the_server_stay_those_of_the_new_one() {
        let cluster = DevCluster::new(Clock::system());
        let foreign = json!({
            "apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "kubernetes", "namespace": "default"},
            "subsets": [{"addresses": [{"ip": "192.0.2.1"}]}],
        });
        cluster.restore(vec![foreign]).unwrap();
        let found = cluster
            .get("/api/v1/namespaces/default/endpoints/kubernetes")
            .await;
        assert!(found.is_err_and(|status| status.code == 404));
        assert!(
            cluster
                .dump()
                .iter()
                .all(|object| !is_of_the_server(object))
        );
    }
}
