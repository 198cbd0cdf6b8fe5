//! All objects of a cluster, out of it and into another one.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;
use steersman_apiserver::Server;

use super::{DevCluster, Snapshot};
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

/// Whether a restore has to delete the present object before it stores the past one.
fn is_another(now: &Value, past: &Value) -> bool {
    let is_terminating = |object: &Value| !text(object, "/metadata/deletionTimestamp").is_empty();
    // No deletion is taken back, so watchers such as the garbage collector have to see its end. A definition
    // stays, because its objects would go with it.
    let is_revived = is_terminating(now) && !is_terminating(past) && !is_definition(now);
    is_revived || text(now, "/metadata/uid") != text(past, "/metadata/uid")
}

/// The parts of an object that are the same in all versions of its kind: group, kind, namespace and name.
type Identity = [String; 4];

fn identity(object: &Value) -> Identity {
    let group = text(object, "/apiVersion").split_once('/');
    let group = group.map_or("", |(group, _)| group);
    let rest = ["/kind", "/metadata/namespace", "/metadata/name"];
    let [kind, namespace, name] = rest.map(|at| text(object, at).to_owned());
    [group.to_owned(), kind, namespace, name]
}

/// Whether two states of an object differ in their resource versions only.
fn is_unchanged(one: &Value, other: &Value) -> bool {
    let unversioned = |object: &Value| {
        let mut object = object.clone();
        object["metadata"]["resourceVersion"].take();
        object
    };
    unversioned(one) == unversioned(other)
}

/// All objects of a server in the order of their versions, without those about the server itself.
fn dump(server: &Server) -> Vec<Value> {
    let mut objects = server.dump();
    objects.retain(|object| !is_of_the_server(object));
    objects.sort_by_key(version);
    objects
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
        dump(&self.server)
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

    /// Makes the objects those of `snapshot` again, while clients and controllers use the cluster. UIDs, owners,
    /// times and statuses are those of then. Watches see each difference as a change, with a new resource
    /// version.
    ///
    /// Other tasks of the same thread see no state in between. Fails for an object that no definition
    /// of the snapshot declares.
    ///
    /// ```
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use serde_json::json;
    /// use steersman_devcluster::DevCluster;
    ///
    /// let cluster = DevCluster::builder().nodes(1).start().await?;
    /// let prepared = cluster.snapshot();
    /// let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}});
    /// cluster.create(map).await?;
    /// cluster.return_to(&prepared)?;
    /// assert_eq!(cluster.count("configmaps"), prepared.objects("configmaps").len());
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(example()).unwrap();
    /// ```
    pub fn return_to(&self, snapshot: &Snapshot) -> Result<(), Status> {
        let past = dump(snapshot.objects_of());
        let kept: HashSet<Identity> = past.iter().map(identity).collect();
        let present = dump(&self.server).into_iter();
        let later: Vec<Value> = present
            .filter(|object| !kept.contains(&identity(object)))
            .collect();
        let (later_definitions, later): (Vec<_>, Vec<_>) =
            later.into_iter().partition(is_definition);
        let (definitions, objects): (Vec<_>, Vec<_>) = past.into_iter().partition(is_definition);
        // A definition goes after its objects, and comes before them.
        for object in later.iter().rev() {
            self.server.unload(object)?;
        }
        self.put_back(definitions)?;
        for definition in &later_definitions {
            self.server.unload(definition)?;
        }
        self.put_back(objects)
    }

    /// Stores those of the objects that differ from the present ones.
    fn put_back(&self, objects: Vec<Value>) -> Result<(), Status> {
        let present = dump(&self.server).into_iter();
        let present: HashMap<Identity, Value> =
            present.map(|object| (identity(&object), object)).collect();
        for object in objects {
            match present.get(&identity(&object)) {
                Some(now) if is_unchanged(now, &object) => continue,
                Some(now) if is_another(now, &object) => self.server.unload(now)?,
                _ => {}
            }
            self.server.load(object)?;
        }
        Ok(())
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
    use std::time::Duration;

    use serde_json::json;
    use steersman_values::clock::Clock;

    use super::*;

    fn map(name: &str, version: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "resourceVersion": version},
        })
    }

    fn definition(singular: &str, kind: &str) -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{singular}s.example.dev")},
            "spec": {
                "group": "example.dev", "scope": "Namespaced",
                "names": {
                    "plural": format!("{singular}s"), "singular": singular, "kind": kind, "listKind": format!("{kind}List"),
                },
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }}}],
            },
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
        let mut definition = definition("gadget", "Gadget");
        definition["metadata"]["resourceVersion"] = "900000".into();
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

    /// All objects without their resource versions.
    fn state(cluster: &DevCluster) -> BTreeMap<Identity, Value> {
        let objects = cluster.dump().into_iter();
        let unversioned = objects.map(|mut object| {
            object["metadata"]["resourceVersion"].take();
            (identity(&object), object)
        });
        unversioned.collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_return_undoes_all_changes_before_the_eyes_of_watches() {
        let cluster = DevCluster::new(Clock::system());
        let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        let custom = |kind: &str| json!({"apiVersion": "example.dev/v1", "kind": kind, "metadata": {"name": "x"}});
        cluster
            .create_all([definition("gadget", "Gadget"), custom("Gadget")])
            .await
            .unwrap();
        cluster
            .create_all(["changed", "deleted", "replaced", "same"].map(map))
            .await
            .unwrap();
        let mut guarded = map("guarded");
        guarded["metadata"]["finalizers"] = json!(["example.dev/guard"]);
        cluster.create(guarded).await.unwrap();
        let before = state(&cluster);
        let prepared = cluster.snapshot();

        let path = |name: &str| cluster.path("configmaps", "default", name);
        let change = json!({"data": {"a": "b"}});
        cluster.patch(&path("changed"), change).await.unwrap();
        cluster.delete(&path("deleted")).await.unwrap();
        cluster.delete(&path("replaced")).await.unwrap();
        cluster.delete(&path("guarded")).await.unwrap();
        let later = [map("replaced"), map("new"), definition("widget", "Widget")];
        cluster.create_all(later).await.unwrap();
        cluster.create(custom("Widget")).await.unwrap();
        let gadgets = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.example.dev";
        cluster.delete(gadgets).await.unwrap();
        let gone = cluster.wait_for(
            "customresourcedefinitions",
            Duration::from_secs(9),
            |found| found.len() == 1,
        );
        gone.await.unwrap();

        let last = cluster.revision();
        cluster.return_to(&prepared).unwrap();
        assert_eq!(state(&cluster), before);
        let changes = cluster.changes(last).unwrap().into_iter();
        let seen: Vec<_> = changes
            .map(|(plural, event)| format!("{plural} {:?} {}", event.kind, event.object().name()))
            .collect();
        let expected = [
            "configmaps Deleted new",
            "customresourcedefinitions Added gadgets.example.dev",
            "customresourcedefinitions Deleted widgets.example.dev",
            "gadgets Added x",
            "configmaps Modified changed",
            "configmaps Added deleted",
            "configmaps Deleted replaced",
            "configmaps Added replaced",
            "configmaps Deleted guarded",
            "configmaps Added guarded",
        ];
        assert_eq!(seen, expected);
        let served = cluster.get(&cluster.path("gadgets", "default", "x")).await;
        assert!(version(&served.unwrap()) > last);

        let last = cluster.revision();
        cluster.return_to(&prepared).unwrap();
        assert_eq!(cluster.revision(), last, "there was nothing to change");
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
