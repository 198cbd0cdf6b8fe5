//! Whole syncs against the in-memory API server, under paused time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;
use serde_json::{Value, json};
use steersman_devcluster::faults::{Matcher, internal_error};
use steersman_devcluster::status::{Qualified, Status};

use super::DESCRIPTOR;
use crate::testing::world::World;

const NAME: &str = "kube-root-ca.crt";
const CA: &str = "fake-root-ca";
/// Upstream's text.
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

fn config_map(name: &str, data: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"}, "data": data,
    })
}

impl World {
    /// A cluster in which each namespace has its ConfigMap.
    async fn published() -> Self {
        let mut world = Self::bare().await;
        world.publish(CA).await;
        world
    }

    /// Starts the publisher with this bundle, and waits until it rests.
    async fn publish(&mut self, bundle: &str) {
        self.restart_with(&[DESCRIPTOR], |mut context| {
            context.credentials.root_ca = Arc::from(bundle.as_bytes());
            context
        })
        .await;
        self.cluster.clear_requests();
        self.a_minute().await;
    }

    fn map_path(&self) -> String {
        self.cluster.path("configmaps", "default", NAME)
    }

    async fn published_map(&self) -> Value {
        self.cluster.get(&self.map_path()).await.unwrap()
    }

    /// The publisher's writes: verb, namespace and status code.
    fn published_writes(&self) -> Vec<String> {
        let requests = self.requests_of(DESCRIPTOR.identity).into_iter();
        let short = |line: String| {
            line.replace("/api/v1/namespaces/", "")
                .replace("/configmaps", "")
                .replace(&format!("/{NAME}"), "")
        };
        requests.map(short).collect()
    }

    /// The number of syncs by the label `code`.
    fn syncs(&self) -> BTreeMap<String, u64> {
        counts(&self.registry)
    }
}

fn counts(registry: &Registry) -> BTreeMap<String, u64> {
    let families = registry.gather();
    let family = families
        .iter()
        .find(|family| family.name() == "root_ca_cert_publisher_sync_duration_seconds");
    let metrics = family.map(|family| family.get_metric()).unwrap_or_default();
    let count = |metric: &prometheus::proto::Metric| {
        let code = metric.get_label()[0].value().to_owned();
        (code, metric.get_histogram().get_sample_count())
    };
    metrics.iter().map(count).collect()
}

/// Upstream: `TestConfigMapCreation`.
#[tokio::test(start_paused = true)]
async fn config_map_creation() {
    let other = || config_map("other", json!({"aa": "bb"}));
    // (case, method and object of the user, writes)
    let cases: [(&str, &str, Value, &[&str]); 7] = [
        (
            "create new namespace",
            "POST",
            namespace("new"),
            &["create new 201"],
        ),
        ("delete other configmap", "DELETE", other(), &[]),
        (
            "delete ca configmap",
            "DELETE",
            config_map(NAME, json!({})),
            &["create default 201"],
        ),
        (
            "update ca configmap with adding field",
            "PUT",
            config_map(NAME, json!({"ca.crt": CA, "test": "test"})),
            &["update default 200"],
        ),
        (
            "update ca configmap with modifying field",
            "PUT",
            config_map(NAME, json!({"ca.crt": "abc"})),
            &["update default 200"],
        ),
        ("update with other configmap", "PUT", other(), &[]),
        (
            "update namespace with terminating state",
            "terminate",
            namespace("default"),
            &[],
        ),
    ];
    for (case, method, object, expected) in cases {
        let world = World::published().await;
        world.create(config_map("other", json!({}))).await;
        world.cluster.clear_requests();
        let name = object["metadata"]["name"].as_str().unwrap();
        match method {
            "POST" => drop(world.create(object).await),
            "PUT" => drop(world.cluster.replace(object).await.unwrap()),
            "DELETE" => {
                let path = world.cluster.path("configmaps", "default", name);
                world.cluster.delete(&path).await.unwrap();
            }
            _ => {
                let mut terminating = object;
                terminating["status"] = json!({"phase": "Terminating"});
                world.cluster.load(terminating).unwrap();
            }
        }
        world.a_minute().await;
        assert_eq!(world.published_writes(), expected, "{case}");
        let map = world.published_map().await;
        assert_eq!(map["data"], json!({"ca.crt": CA}), "{case}");
    }
}

/// Upstream: `TestConfigMapUpdateNoHotLoop`.
#[tokio::test(start_paused = true)]
async fn config_map_update_no_hot_loop() {
    // (case, annotation, writes)
    let cases: [(&str, Option<&str>, &[&str]); 4] = [
        ("update-configmap-annotation", None, &["update default 200"]),
        ("an empty annotation", Some(""), &["update default 200"]),
        (
            "no-update-configmap-if-annotation-present-and-equal",
            Some(DESCRIPTION),
            &[],
        ),
        (
            "no-update-configmap-if-annotation-present-and-different",
            Some("different"),
            &[],
        ),
    ];
    for (case, annotation, expected) in cases {
        let world = World::published().await;
        world.cluster.clear_requests();
        let annotations = json!({"kubernetes.io/description": annotation});
        let patch = json!({"metadata": {"annotations": annotations}});
        world.cluster.patch(&world.map_path(), patch).await.unwrap();
        world.a_minute().await;
        assert_eq!(world.published_writes(), expected, "{case}");
        let found =
            &world.published_map().await["metadata"]["annotations"]["kubernetes.io/description"];
        let kept = annotation.filter(|text| !text.is_empty());
        assert_eq!(found, kept.unwrap_or(DESCRIPTION), "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn everything_but_the_data_survives_a_restoration() {
    let world = World::published().await;
    let patch = json!({
        "metadata": {
            "labels": {"a": "b"}, "finalizers": ["example.com/f"],
            "annotations": {"x": "y", "kubernetes.io/description": null},
        },
        "data": {"ca.crt": null, "other": "x"}, "binaryData": {"bin": "AAE="},
    });
    world.cluster.patch(&world.map_path(), patch).await.unwrap();
    world.a_minute().await;
    let map = world.published_map().await;
    assert_eq!(map["data"], json!({"ca.crt": CA}));
    assert_eq!(map["binaryData"], json!({"bin": "AAE="}));
    let metadata = &map["metadata"];
    assert_eq!(metadata["labels"], json!({"a": "b"}));
    assert_eq!(metadata["finalizers"], json!(["example.com/f"]));
    let annotations = json!({"x": "y", "kubernetes.io/description": DESCRIPTION});
    assert_eq!(metadata["annotations"], annotations);
}

#[tokio::test(start_paused = true)]
async fn a_new_bundle_is_published_with_one_request_per_namespace() {
    let mut world = World::published().await;
    assert_eq!(world.published_writes().len(), 4);
    world.publish(CA).await;
    assert_eq!(world.published_writes(), [""; 0]);
    world.publish("another").await;
    let mut writes = world.published_writes();
    writes.sort();
    let expected = ["default", "kube-node-lease", "kube-public", "kube-system"];
    assert_eq!(writes, expected.map(|name| format!("update {name} 200")));
    // Without an authority, only new ConfigMaps are empty.
    world.publish("").await;
    assert_eq!(world.published_writes(), [""; 0]);
    let kept = world.published_map().await;
    assert_eq!(kept["data"], json!({"ca.crt": "another"}));
    world.cluster.delete(&world.map_path()).await.unwrap();
    world.a_minute().await;
    let empty = world.published_map().await;
    assert_eq!(empty["data"], json!({"ca.crt": ""}));
}

/// Upstream: `TestSyncCounter`, through the API server.
#[tokio::test(start_paused = true)]
async fn syncs_are_counted_by_the_status_of_their_request() {
    let world = World::published().await;
    let only = |expected: &[(&str, u64)]| -> BTreeMap<String, u64> {
        let pair = |(code, count): &(&str, u64)| ((*code).to_owned(), *count);
        expected.iter().map(pair).collect()
    };
    assert_eq!(world.syncs(), only(&[("200", 4)]));
    let faults = world.cluster.faults();
    let create = || Matcher::new("create", "configmaps");
    let namespaces = Qualified {
        group: "",
        name: "namespaces",
    };
    let not_found = Status::not_found(namespaces, "default");
    for status in [internal_error(), not_found] {
        faults.reject(create(), status, Some(1));
        world.cluster.delete(&world.map_path()).await.unwrap();
        world.a_minute().await;
    }
    // The refusal with 500 is repeated, and the missing namespace is a success.
    assert_eq!(world.syncs(), only(&[("200", 6), ("500", 1)]));
}

#[tokio::test(start_paused = true)]
async fn an_existing_config_map_that_the_cache_lacks_is_met_again() {
    let mut world = World::bare().await;
    let view = world.hold("configmaps", world.cluster.revision());
    world.create(config_map(NAME, json!({"ca.crt": CA}))).await;
    world.publish(CA).await;
    let conflicts = |world: &World| {
        let writes = world.published_writes().into_iter();
        writes.filter(|write| write == "create default 409").count()
    };
    // 5 ms, doubled each time.
    assert!(
        (10..=15).contains(&conflicts(&world)),
        "{:#?}",
        world.published_writes()
    );
    world.cluster.faults().remove(view);
    tokio::time::sleep(Duration::from_secs(1000)).await;
    let map = world.published_map().await;
    assert_eq!(
        map["metadata"]["annotations"]["kubernetes.io/description"],
        DESCRIPTION
    );
}

/// The watch misses the creation, so the next list shows the ConfigMap with the user's data.
#[tokio::test(start_paused = true)]
async fn a_change_in_a_gap_of_the_watch_is_undone() {
    let world = World::published().await;
    let faults = world.cluster.faults();
    faults.stall_watches("configmaps");
    world.create(namespace("new")).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let path = world.cluster.path("configmaps", "new", NAME);
    let foreign = json!({"data": {"ca.crt": "foreign", "more": "x"}});
    world.cluster.patch(&path, foreign).await.unwrap();
    world.cluster.compact("configmaps");
    faults.resume_watches("configmaps");
    faults.break_watches("configmaps");
    world.a_minute().await;
    let map = world.cluster.get(&path).await.unwrap();
    assert_eq!(map["data"], json!({"ca.crt": CA}));
    let mut writes = world.published_writes();
    writes.retain(|write| write.contains("new"));
    assert_eq!(writes, ["create new 201", "update new 200"]);
}

#[tokio::test(start_paused = true)]
async fn an_immutable_config_map_is_retried_with_back_off() {
    let mut world = World::bare().await;
    let mut map = config_map(NAME, json!({"ca.crt": "of another cluster"}));
    map["immutable"] = json!(true);
    world.create(map).await;
    world.publish(CA).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let writes = world.published_writes();
    let refused = writes.iter().filter(|write| *write == "update default 422");
    assert!((15..=25).contains(&refused.count()), "{writes:#?}");
    assert_eq!(
        world.published_map().await["data"]["ca.crt"],
        "of another cluster"
    );
}

#[tokio::test(start_paused = true)]
async fn a_terminating_namespace_gets_no_further_request() {
    let mut world = World::bare().await;
    let mut object = namespace("ends");
    object["spec"] = json!({"finalizers": ["example.com/wait"]});
    world.create(object).await;
    world
        .cluster
        .delete("/api/v1/namespaces/ends")
        .await
        .unwrap();
    world.publish(CA).await;
    let writes = world.published_writes();
    let refused = writes.iter().filter(|write| write.contains("ends"));
    assert_eq!(refused.collect::<Vec<_>>(), ["create ends 403"]);
    assert_eq!(world.syncs(), BTreeMap::from([("200".to_owned(), 5)]));
}
