//! The library from the view of a test of other software: initial objects, nodes, controllers,
//! programs and snapshots.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::TryStreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams, WatchEvent, WatchParams};
use serde_json::{Value, json};
use steersman_devcluster::{DevCluster, StartError};
use steersman_objects::Pod;
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::reads::Read;
use steersman_runtime::tasks::CancellationToken;
use steersman_values::clock::Clock;

const LIMIT: Duration = Duration::from_secs(60);

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "1"}})
}

const POD: &str = "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: main, image: web}]}}";

fn runs(pods: &[Value]) -> bool {
    pods.len() == 1
        && pods[0]["status"]["phase"] == "Running"
        && pods[0]["spec"]["nodeName"] == "node-0"
}

#[tokio::test(start_paused = true)]
async fn times_follow_a_paused_clock() {
    let begin: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let cluster = DevCluster::builder()
        .clock(Clock::runtime(begin))
        .nodes(1)
        .manifest(POD)
        .start()
        .await
        .unwrap();
    cluster.wait_for("pods", LIMIT, runs).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let late = cluster.create(config_map("late")).await.unwrap();
    assert_eq!(
        late["metadata"]["creationTimestamp"],
        "2026-01-01T01:00:00Z"
    );
}

#[tokio::test]
async fn nodes_run_pods_in_real_time() {
    let cluster = DevCluster::builder()
        .nodes(1)
        .manifest(POD)
        .start()
        .await
        .unwrap();
    cluster.wait_for("pods", LIMIT, runs).await.unwrap();
    let age = Timestamp::now().duration_since(cluster.clock().now());
    assert!(age.abs().as_secs() < 60, "the clock is off by {age:?}");
}

#[tokio::test(start_paused = true)]
async fn initial_objects_come_from_values_manifests_and_files() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(
        directory.path().join("a.yaml"),
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: file}\n",
    )
    .unwrap();
    let typed: ConfigMap = serde_json::from_value(config_map("typed")).unwrap();
    let cluster = DevCluster::builder()
        .object(typed)
        .object(config_map("json"))
        .load(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "loaded", "namespace": "x", "uid": "u"}}))
        .manifest(format!("{}\n---\n{}", config_map("first"), config_map("second")))
        .manifest_file(directory.path())
        .start()
        .await
        .unwrap();
    let names: Vec<_> = cluster
        .objects("configmaps")
        .iter()
        .map(|map| map["metadata"]["name"].clone())
        .collect();
    assert_eq!(
        names,
        ["file", "first", "json", "second", "typed", "loaded"]
    );
    let managers = |name: &str| {
        cluster
            .objects("configmaps")
            .iter()
            .find(|map| map["metadata"]["name"] == name)
            .unwrap()["metadata"]["managedFields"]
            .clone()
    };
    assert_eq!(managers("json")[0]["manager"], "devcluster");
    assert_eq!(managers("loaded"), Value::Null);
}

#[tokio::test(start_paused = true)]
async fn errors_at_the_start_name_their_cause() {
    let invalid = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "Big"}});
    // (builder, start of the error)
    let cases = [
        (
            DevCluster::builder().object(&invalid),
            "ConfigMap \"Big\": ConfigMap \"Big\" is invalid: metadata.name: Invalid value: \"Big\"",
        ),
        (
            DevCluster::builder().object(json!({"kind": "Pot"})),
            "Pot \"?\": no resource serves kind \"Pot\" of \"\"",
        ),
        (
            DevCluster::builder().load(json!({"kind": "Pod", "apiVersion": "v1"})),
            "Pod \"?\": a Pod to load has no name or namespace",
        ),
        (
            DevCluster::builder().manifest("kind: Pod"),
            "manifest: document 1 has no apiVersion",
        ),
        (
            DevCluster::builder().manifest_file("/nowhere"),
            "read /nowhere: No such file or directory",
        ),
        (
            DevCluster::builder().controllers_named(&[COUNTER], ["count", "mount"]),
            "no controller is called \"mount\"; there are pod-counter",
        ),
        (
            DevCluster::builder().kubernetes_version("1.20"),
            "\"1.20\" is no release of Kubernetes that Steersman knows: 1.33, ",
        ),
        (
            DevCluster::builder().controllers(&[BROKEN]),
            "build broken: out of luck",
        ),
    ];
    for (builder, expected) in cases {
        let error: StartError = builder.start().await.unwrap_err();
        assert!(
            error.to_string().starts_with(expected),
            "{error}\nis not {expected}"
        );
    }
}

/// A controller that counts pods once, at its start.
const COUNTER: Descriptor = Descriptor {
    name: "pod-counter",
    aliases: &["count"],
    enabled_by_default: false,
    summary: "",
    identity: "pod-counter",
    reads: &[Read::of::<Pod>()],
    rules: &[],
    init: |context| {
        let pods = context.informers.shared::<Pod>().store();
        Ok(Box::new(Once {
            seen: Box::new(move || pods.list().len()),
        }))
    },
};

const BROKEN: Descriptor = Descriptor {
    name: "broken",
    enabled_by_default: true,
    init: |_: &ControllerContext| {
        Err(InitError {
            controller: "broken",
            source: "out of luck".into(),
        })
    },
    ..COUNTER
};

static SEEN: AtomicUsize = AtomicUsize::new(usize::MAX);
static ENDED: AtomicUsize = AtomicUsize::new(0);

/// Records the number of pods at its start, and counts its ends.
struct Once {
    seen: Box<dyn Fn() -> usize + Send>,
}

impl Controller for Once {
    fn run(self: Box<Self>, stop: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            SEEN.store((self.seen)(), Ordering::SeqCst);
            stop.cancelled().await;
            ENDED.fetch_add(1, Ordering::SeqCst);
        })
    }
}

#[tokio::test(start_paused = true)]
async fn controllers_start_with_synced_caches_and_stop_waits_for_them() {
    let replaced = Descriptor {
        name: COUNTER.name,
        enabled_by_default: true,
        ..BROKEN
    };
    let builder = DevCluster::builder()
        .manifest(POD)
        .controllers(&[replaced])
        .controllers_named(&[COUNTER], ["count"]);
    let cluster = builder.start().await.unwrap();
    tokio::task::yield_now().await;
    assert_eq!(SEEN.load(Ordering::SeqCst), 1);
    assert_eq!(ENDED.load(Ordering::SeqCst), 0);
    cluster.stop().await;
    assert_eq!(ENDED.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_program_of_the_user_runs_until_the_cluster_is_dropped() {
    let alive = Arc::new(());
    let witness = alive.clone();
    let program = move |client: kube::Client| async move {
        let maps: Api<ConfigMap> = Api::default_namespaced(client);
        maps.create(
            &PostParams::default(),
            &serde_json::from_value(config_map("mine")).unwrap(),
        )
        .await
        .unwrap();
        std::future::pending::<()>().await;
        drop(alive);
    };
    let cluster = DevCluster::builder()
        .run("mine", program)
        .start()
        .await
        .unwrap();
    cluster
        .wait_for("configmaps", LIMIT, |maps| maps.len() == 1)
        .await
        .unwrap();
    let clone = cluster.clone();
    drop(cluster);
    tokio::time::sleep(LIMIT).await;
    assert_eq!(Arc::strong_count(&witness), 2, "a clone is left");
    drop(clone);
    tokio::time::sleep(LIMIT).await;
    assert_eq!(Arc::strong_count(&witness), 1);
}

#[tokio::test(start_paused = true)]
async fn snapshots_are_immutable_and_forks_are_independent() {
    let cluster = DevCluster::builder()
        .object(config_map("a"))
        .object(config_map("b"))
        .start()
        .await
        .unwrap();
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    cluster.create(service.clone()).await.unwrap();
    let before = cluster.objects("configmaps");
    let revision = cluster.revision();
    let snapshot = cluster.snapshot();
    let fork = snapshot.fork();

    cluster
        .delete(&cluster.path("configmaps", "default", "a"))
        .await
        .unwrap();
    fork.patch(
        &fork.path("configmaps", "default", "b"),
        json!({"data": {"k": "v"}}),
    )
    .await
    .unwrap();
    fork.create(config_map("c")).await.unwrap();
    assert_eq!(
        (cluster.count("configmaps"), fork.count("configmaps")),
        (1, 3)
    );
    assert_eq!(
        (snapshot.objects("configmaps"), snapshot.revision()),
        (before.clone(), revision)
    );
    assert_eq!(snapshot.fork().objects("configmaps"), before);
    assert!(
        fork.requests()
            .iter()
            .all(|request| !request.path.contains("services")),
        "the log of a fork starts empty"
    );

    // Addresses continue from the snapshot. Each cluster holds those of its own Services.
    let mut other = service;
    other["metadata"]["name"] = json!("other");
    let first = &cluster.objects("services")[0];
    let second = fork.create(other.clone()).await.unwrap();
    assert_ne!(first["spec"]["clusterIP"], second["spec"]["clusterIP"]);
    other["metadata"]["name"] = json!("third");
    other["spec"]["clusterIP"] = first["spec"]["clusterIP"].clone();
    assert_eq!(fork.create(other.clone()).await.unwrap_err().code, 422);
    fork.delete(&fork.path("services", "default", "s"))
        .await
        .unwrap();
    fork.create(other.clone()).await.unwrap();
    assert_eq!(cluster.create(other).await.unwrap_err().code, 422);

    // A watch can continue from the snapshot's revision, but from no earlier one.
    let maps: Api<ConfigMap> = Api::default_namespaced(fork.client());
    let parameters = WatchParams::default().timeout(5);
    let frames: Vec<_> = maps
        .watch(&parameters, &revision.to_string())
        .await
        .unwrap()
        .try_collect()
        .await
        .unwrap();
    assert!(
        matches!(
            &frames[..],
            [WatchEvent::Modified(_), WatchEvent::Added(_), ..]
        ),
        "{frames:?}"
    );
    let frames: Vec<_> = maps
        .watch(&parameters, &(revision - 1).to_string())
        .await
        .unwrap()
        .try_collect()
        .await
        .unwrap();
    assert!(
        matches!(&frames[..], [WatchEvent::Error(error)] if error.code == 410),
        "{frames:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_is_consistent_across_types() {
    let cluster = DevCluster::builder()
        .managed_fields(false)
        .start()
        .await
        .unwrap();
    let writer = cluster.clone();
    let writing = tokio::spawn(async move {
        for n in 0..500 {
            let named = |kind: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": format!("n{n:04}")}});
            writer.create(named("Secret")).await.unwrap();
            writer.create(named("ConfigMap")).await.unwrap();
        }
    });
    while !writing.is_finished() {
        let snapshot = cluster.snapshot();
        let secrets = snapshot.objects("secrets");
        let maps = snapshot.objects("configmaps");
        assert!(
            (0..=1).contains(&(secrets.len() - maps.len())),
            "{} secrets, {} maps",
            secrets.len(),
            maps.len()
        );
        let newest = secrets
            .iter()
            .chain(&maps)
            .filter_map(|object| object["metadata"]["resourceVersion"].as_str()?.parse().ok())
            .max();
        assert!(
            newest.is_none_or(|newest: u64| newest == snapshot.revision()),
            "{newest:?} at {}",
            snapshot.revision()
        );
        tokio::task::yield_now().await;
    }
    writing.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_log_keeps_its_limit_and_counts_all_requests() {
    for (kept, ends) in [(0, &[][..]), (2, &["configmaps/b", "configmaps/c"])] {
        let cluster = DevCluster::builder()
            .kept_requests(kept)
            .start()
            .await
            .unwrap();
        for name in ["a", "b", "c"] {
            cluster.create(config_map(name)).await.unwrap();
        }
        for name in ["a", "b", "c"] {
            cluster
                .get(&cluster.path("configmaps", "default", name))
                .await
                .unwrap();
        }
        let paths: Vec<String> = cluster
            .requests()
            .into_iter()
            .map(|request| request.path)
            .collect();
        let expected: Vec<String> = ends
            .iter()
            .map(|end| format!("/api/v1/namespaces/default/{end}"))
            .collect();
        assert_eq!(paths, expected);
        assert_eq!(
            cluster.request_counts("devcluster").values().sum::<u64>(),
            6
        );
    }
}
