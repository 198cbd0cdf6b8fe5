//! Tests of StatefulSets against the in-memory API server, without kubelets: the test itself writes
//! the status of pods.

mod claims;
mod failures;
mod lives;
mod recreate;
mod revisions;
mod takeover;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use steersman_releases::Release;

use super::DESCRIPTOR;
use crate::testing::world::World;

/// A StatefulSet `web` of the image `v1`, without claims.
fn web(replicas: i32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "serviceName": "svc",
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "v1"}]},
            },
        },
    })
}

/// The same with the claim template `data`.
fn with_claims(mut set: Value) -> Value {
    set["spec"]["volumeClaimTemplates"] = json!([{
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }]);
    set
}

fn with(mut set: Value, field: &str, value: Value) -> Value {
    set["spec"][field] = value;
    set
}

fn parallel(set: Value) -> Value {
    with(set, "podManagementPolicy", json!("Parallel"))
}

fn retention(set: Value, deleted: &str, scaled: &str) -> Value {
    let policy = json!({"whenDeleted": deleted, "whenScaled": scaled});
    with(set, "persistentVolumeClaimRetentionPolicy", policy)
}

fn partition(set: Value, partition: i32) -> Value {
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": partition}});
    with(set, "updateStrategy", strategy)
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

fn image(object: &Value) -> &str {
    object["spec"]["containers"][0]["image"].as_str().unwrap()
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|c| c["type"] == "Ready" && c["status"] == "True")
}

impl World {
    fn set_status(&self) -> Value {
        let set = self.find("statefulsets", "web");
        set.map(|mut set| set["status"].take()).unwrap_or_default()
    }

    /// Names and images of all pods, by name.
    fn pod_images(&self) -> BTreeMap<String, String> {
        let pods = self.cluster.objects("pods");
        let entry = |pod: &Value| (name(pod).to_owned(), image(pod).to_owned());
        pods.iter().map(entry).collect()
    }

    fn names_of(&self, plural: &str) -> Vec<String> {
        let objects = self.cluster.objects(plural);
        let mut names: Vec<_> = objects
            .iter()
            .map(|object| name(object).to_owned())
            .collect();
        names.sort();
        names
    }

    async fn change_set(&self, changes: Value) {
        self.patch("statefulsets", "web", json!({"spec": changes}))
            .await;
    }

    async fn roll_set_to(&self, image: &str) {
        let containers = json!([{"name": "main", "image": image}]);
        self.change_set(json!({"template": {"spec": {"containers": containers}}}))
            .await;
    }

    /// Makes pods ready, lowest ordinal first, until the controller has nothing more to do.
    async fn make_pods_ready(&self) {
        loop {
            self.at_rest().await;
            let mut pods = self.cluster.objects("pods");
            pods.retain(|pod| !is_ready(pod) && pod["metadata"]["deletionTimestamp"].is_null());
            pods.sort_by_key(|pod| name(pod).to_owned());
            let Some(pod) = pods.first() else {
                return;
            };
            self.make_ready(name(pod)).await;
        }
    }

    /// The writes since the first `from` ones.
    fn set_writes_since(&self, from: usize) -> Vec<String> {
        self.writes().split_off(from)
    }

    /// Reason and message of all Events about the set.
    async fn set_events(&self) -> Vec<(String, String)> {
        self.at_rest().await.events_about("web")
    }
}

/// A cluster with the controller running.
async fn world() -> World {
    let mut world = World::bare().await;
    world.restart(&[DESCRIPTOR]).await;
    world
}

/// The same, with `set` complete and all its pods ready.
async fn world_with(set: Value) -> World {
    let world = world().await;
    world.create(set).await;
    world.make_pods_ready().await;
    world
}

fn counters(status: &Value) -> [i64; 5] {
    [
        "replicas",
        "readyReplicas",
        "availableReplicas",
        "currentReplicas",
        "updatedReplicas",
    ]
    .map(|field| status[field].as_i64().unwrap_or(0))
}

#[tokio::test(start_paused = true)]
async fn an_ordered_set_gets_claims_and_pods_one_by_one() {
    let world = world().await;
    world.create(with_claims(web(2))).await;
    world.at_rest().await;
    let first = [
        "create controllerrevisions 201",
        "create persistentvolumeclaims 201",
        "create pods 201",
        "update statefulsets/web/status 200",
        "update statefulsets/web/status 200",
    ];
    assert_eq!(world.writes(), first, "web-0 does not wait, web-1 does");
    let revision = world.names_of("controllerrevisions").remove(0);
    let expected = json!({
        "observedGeneration": 1, "replicas": 1, "currentReplicas": 1, "updatedReplicas": 1, "availableReplicas": 0,
        "collisionCount": 0, "currentRevision": revision, "updateRevision": revision,
    });
    assert_eq!(world.set_status(), expected);
    let set = world.find("statefulsets", "web").unwrap();
    let pod = world.find("pods", "web-0").unwrap();
    let metadata = &pod["metadata"];
    assert_eq!(metadata["generateName"], "web-");
    let labels = json!({"app": "web", "apps.kubernetes.io/pod-index": "0",
        "statefulset.kubernetes.io/pod-name": "web-0", "controller-revision-hash": revision});
    assert_eq!(metadata["labels"], labels);
    let owners = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": set["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true}]);
    assert_eq!(metadata["ownerReferences"], owners);
    assert_eq!(
        (&pod["spec"]["hostname"], &pod["spec"]["subdomain"]),
        (&json!("web-0"), &json!("svc"))
    );
    let claim = world.find("persistentvolumeclaims", "data-web-0").unwrap();
    assert_eq!(claim["metadata"]["labels"], json!({"app": "web"}));
    assert_eq!(claim["metadata"].get("ownerReferences"), None);

    world.make_ready("web-0").await;
    world.at_rest().await;
    let second = [
        "create persistentvolumeclaims 201",
        "create pods 201",
        "update statefulsets/web/status 200",
        "update statefulsets/web/status 200",
    ];
    assert_eq!(world.set_writes_since(first.len()), second);
    assert_eq!(counters(&world.set_status()), [2, 1, 1, 2, 2]);
    world.make_ready("web-1").await;
    world.at_rest().await;
    assert_eq!(counters(&world.set_status()), [2, 2, 2, 2, 2]);
    let created = |number| {
        [
            format!("Create Claim data-web-{number} Pod web-{number} in StatefulSet web success"),
            format!("Create Pod web-{number} in StatefulSet web successful"),
        ]
    };
    let expected: Vec<_> = [created(0), created(1)]
        .concat()
        .into_iter()
        .map(|message| ("SuccessfulCreate".to_owned(), message))
        .collect();
    assert_eq!(world.set_events().await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_rolling_update_replaces_the_highest_pod_first() {
    let world = world_with(web(2)).await;
    let before = world.writes().len();
    let old = world.set_status();
    world.roll_set_to("v2").await;
    world.at_rest().await;
    let first = [
        "create controllerrevisions 201",
        "delete pods/web-1 200",
        "update statefulsets/web/status 200",
        "create pods 201",
        "update statefulsets/web/status 200",
        "update statefulsets/web/status 200",
    ];
    assert_eq!(world.set_writes_since(before), first);
    assert_eq!(counters(&world.set_status()), [2, 1, 1, 1, 1]);
    assert_eq!(
        world.set_status()["currentRevision"],
        old["currentRevision"]
    );
    world.make_pods_ready().await;
    let status = world.set_status();
    assert_eq!(counters(&status), [2, 2, 2, 2, 2]);
    assert_eq!(status["currentRevision"], status["updateRevision"]);
    assert_ne!(status["currentRevision"], old["currentRevision"]);
    assert!(world.pod_images().values().all(|image| image == "v2"));
}

#[tokio::test(start_paused = true)]
async fn a_rollback_renumbers_the_older_revision() {
    let world = world_with(web(2)).await;
    let first = world.set_status()["currentRevision"].clone();
    world.roll_set_to("v2").await;
    world.make_pods_ready().await;
    let before = world.writes().len();
    world.roll_set_to("v1").await;
    world.make_pods_ready().await;
    let renumbered = format!("update controllerrevisions/{} 200", first.as_str().unwrap());
    assert_eq!(world.set_writes_since(before)[0], renumbered);
    assert_eq!(world.set_status()["currentRevision"], first);
    let revisions = world.cluster.objects("controllerrevisions");
    let mut numbers: Vec<_> = revisions
        .iter()
        .map(|r| r["revision"].as_i64().unwrap())
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [2, 3]);
}

#[tokio::test(start_paused = true)]
async fn pods_below_the_partition_keep_their_revision() {
    let set = with(
        parallel(partition(web(3), 2)),
        "ordinals",
        json!({"start": 5}),
    );
    let world = world_with(set).await;
    world.roll_set_to("v2").await;
    world.make_pods_ready().await;
    let images = |images: [&str; 3]| -> BTreeMap<String, String> {
        let names = ["web-5", "web-6", "web-7"].map(str::to_owned);
        names.into_iter().zip(images.map(str::to_owned)).collect()
    };
    assert_eq!(world.pod_images(), images(["v1", "v1", "v2"]));
    let status = world.set_status();
    assert_eq!(counters(&status), [3, 3, 3, 2, 1]);
    assert_ne!(status["currentRevision"], status["updateRevision"]);
    for pod in ["web-5", "web-7"] {
        world.kill(pod).await;
        world.make_pods_ready().await;
        assert_eq!(
            world.pod_images(),
            images(["v1", "v1", "v2"]),
            "{pod} is replaced"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn on_delete_replaces_only_deleted_pods() {
    let world = world_with(with(web(2), "updateStrategy", json!({"type": "OnDelete"}))).await;
    let old = world.set_status()["currentRevision"].clone();
    world.roll_set_to("v2").await;
    world.make_pods_ready().await;
    assert!(world.pod_images().values().all(|image| image == "v1"));
    assert_eq!(counters(&world.set_status()), [2, 2, 2, 2, 0]);
    for pod in ["web-0", "web-1"] {
        world.kill(pod).await;
        world.make_pods_ready().await;
        assert_eq!(world.pod_images()[pod], "v2");
    }
    let status = world.set_status();
    assert_eq!(counters(&status), [2, 2, 2, 0, 2]);
    assert_eq!(
        status["currentRevision"], old,
        "an OnDelete roll-out never completes"
    );
}

#[tokio::test(start_paused = true)]
async fn a_broken_roll_out_needs_help_only_in_ordered_sets() {
    for (set, is_stuck) in [(web(2), true), (parallel(web(2)), false)] {
        let world = world_with(set).await;
        world.roll_set_to("broken").await;
        world.at_rest().await;
        assert_eq!(world.pod_images()["web-1"], "broken");
        world.roll_set_to("v1").await;
        world.at_rest().await;
        let expected = if is_stuck { "broken" } else { "v1" };
        assert_eq!(world.pod_images()["web-1"], expected, "stuck: {is_stuck}");
        if is_stuck {
            world.kill("web-1").await;
        }
        world.make_pods_ready().await;
        assert!(world.pod_images().values().all(|image| image == "v1"));
    }
}

#[tokio::test(start_paused = true)]
async fn min_ready_seconds_delay_the_next_pod() {
    let world = world().await;
    world
        .create(with(web(2), "minReadySeconds", json!(10)))
        .await;
    world.until("web-0", |state| state.pods.len() == 1).await;
    world.make_ready("web-0").await;
    let since = world.clock.now();
    world
        .until("web-0 counts as ready", |_| {
            counters(&world.set_status())[1] == 1
        })
        .await;
    assert_eq!(counters(&world.set_status()), [1, 1, 0, 1, 1]);
    world.until("web-1", |state| state.pods.len() == 2).await;
    let waited = world.clock.now().duration_since(since).as_secs();
    assert!((9..=11).contains(&waited), "{waited} s");
    world
        .until("web-0 counts as available", |_| {
            counters(&world.set_status())[2] == 1
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn updates_of_parallel_sets_wait_for_availability_since_1_34() {
    for (minor, waited) in [(33, 0..=2), (34, 9..=11), (36, 9..=11)] {
        let mut world = World::bare().await;
        world
            .restart_with(&[DESCRIPTOR], |mut context| {
                context.release = Release::of_minor(minor);
                context
            })
            .await;
        world
            .create(with(parallel(web(2)), "minReadySeconds", json!(10)))
            .await;
        world.make_pods_ready().await;
        world.a_minute().await;
        world.roll_set_to("v2").await;
        let is_new = |pod: &str| {
            world
                .pod_images()
                .get(pod)
                .is_some_and(|image| image == "v2")
        };
        world.until("web-1 is new", |_| is_new("web-1")).await;
        world.make_ready("web-1").await;
        let since = world.clock.now();
        world.until("web-0 is new", |_| is_new("web-0")).await;
        let found = world.clock.now().duration_since(since).as_secs();
        assert!(waited.contains(&found), "1.{minor}: {found} s");
    }
}

#[tokio::test(start_paused = true)]
async fn parallel_sets_create_and_delete_pods_at_once() {
    let world = world().await;
    world.create(parallel(web(10))).await;
    world.at_rest().await;
    assert_eq!(world.names_of("pods").len(), 10, "no pod is ready");
    world.change_set(json!({"replicas": 3})).await;
    world.at_rest().await;
    assert_eq!(world.names_of("pods"), ["web-0", "web-1", "web-2"]);
    assert_eq!(counters(&world.set_status()), [3, 0, 0, 3, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_terminating_pod_keeps_its_slot() {
    for set in [web(2), parallel(web(2))] {
        let world = world_with(set).await;
        let finalizers = json!({"metadata": {"finalizers": ["example.com/keep"]}});
        world.patch("pods", "web-0", finalizers).await;
        let uid = world.find("pods", "web-0").unwrap()["metadata"]["uid"].clone();
        world.delete("pods", "web-0").await;
        world.at_rest().await;
        let kept = world.find("pods", "web-0").unwrap();
        assert_eq!(kept["metadata"]["uid"], uid);
        assert_eq!(counters(&world.set_status()), [2, 2, 2, 1, 1]);
        world
            .patch("pods", "web-0", json!({"metadata": {"finalizers": null}}))
            .await;
        world.make_pods_ready().await;
        assert_ne!(world.find("pods", "web-0").unwrap()["metadata"]["uid"], uid);
    }
}

#[tokio::test(start_paused = true)]
async fn finished_pods_are_replaced() {
    for phase in ["Failed", "Succeeded"] {
        let world = world_with(web(2)).await;
        let uid = world.find("pods", "web-0").unwrap()["metadata"]["uid"].clone();
        world.pod_status("web-0", json!({"phase": phase})).await;
        world.make_pods_ready().await;
        assert_ne!(
            world.find("pods", "web-0").unwrap()["metadata"]["uid"],
            uid,
            "{phase}"
        );
        let deleted = (
            "SuccessfulDelete".to_owned(),
            "Delete Pod web-0 in StatefulSet web successful".to_owned(),
        );
        assert!(world.set_events().await.contains(&deleted), "{phase}");
    }
}

#[tokio::test(start_paused = true)]
async fn orphans_with_the_right_name_are_adopted() {
    let world = world().await;
    let pod = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "v1"}]}})
    };
    for name in ["web-0", "web-x", "other-0"] {
        world.create(pod(name)).await;
    }
    let set = world.create(web(1)).await;
    world.make_pods_ready().await;
    let owner = |name: &str| {
        let pod = world.find("pods", name).unwrap();
        pod["metadata"]["ownerReferences"][0]["uid"].clone()
    };
    assert_eq!(owner("web-0"), set["metadata"]["uid"]);
    assert_eq!(
        (owner("web-x"), owner("other-0")),
        (Value::Null, Value::Null)
    );
    let repaired = world.find("pods", "web-0").unwrap();
    let label = |key: &str| &repaired["metadata"]["labels"][key];
    assert_eq!(label("statefulset.kubernetes.io/pod-name"), "web-0");
    assert_eq!(label("apps.kubernetes.io/pod-index"), "0");
    let updated = (
        "SuccessfulUpdate".to_owned(),
        "Update Pod web-0 in StatefulSet web successful".to_owned(),
    );
    assert!(world.set_events().await.contains(&updated));
}

#[tokio::test(start_paused = true)]
async fn pods_without_the_labels_are_released() {
    let world = world_with(parallel(web(2))).await;
    world
        .patch(
            "pods",
            "web-1",
            json!({"metadata": {"labels": {"app": "other"}}}),
        )
        .await;
    world.at_rest().await;
    let released = world.find("pods", "web-1").unwrap();
    assert_eq!(released["metadata"].get("ownerReferences"), None);
    assert_eq!(
        counters(&world.set_status()),
        [1, 1, 1, 1, 1],
        "its name stays taken"
    );
}

#[tokio::test(start_paused = true)]
async fn the_subdomain_follows_the_service_name_of_new_pods() {
    let world = world_with(web(1)).await;
    let stored = world.find("statefulsets", "web").unwrap();
    world
        .cluster
        .load(with(stored, "serviceName", json!("renamed")))
        .unwrap();
    world.at_rest().await;
    let subdomain = || world.find("pods", "web-0").unwrap()["spec"]["subdomain"].clone();
    assert_eq!(subdomain(), "svc", "an existing pod keeps it");
    world.kill("web-0").await;
    world.make_pods_ready().await;
    assert_eq!(subdomain(), "renamed");
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_start_ordinal_moves_the_pods() {
    // (start before, start after)
    for (before, after) in [(0, 1), (0, 5), (3, 0), (2, 1)] {
        let start = |start: i32| json!({ "start": start });
        let world = world_with(with(web(2), "ordinals", start(before))).await;
        let pods = |start: i32| [0, 1].map(|n| format!("web-{}", start + n));
        assert_eq!(world.names_of("pods"), pods(before));
        world.change_set(json!({"ordinals": start(after)})).await;
        world.make_pods_ready().await;
        assert_eq!(world.names_of("pods"), pods(after), "{before} to {after}");
        assert_eq!(counters(&world.set_status()), [2, 2, 2, 2, 2]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_set_in_deletion_only_reports() {
    let mut set = web(2);
    set["metadata"]["finalizers"] = json!(["example.com/keep"]);
    let world = world_with(set).await;
    world.delete("statefulsets", "web").await;
    world.kill("web-1").await;
    world.at_rest().await;
    assert_eq!(world.names_of("pods"), ["web-0"]);
    assert_eq!(counters(&world.set_status()), [1, 1, 1, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_restarted_manager_writes_nothing() {
    let rolled = |world: World| async move {
        world.roll_set_to("v2").await;
        world.at_rest().await;
        world
    };
    let worlds = [
        ("complete", world_with(with_claims(web(3))).await),
        (
            "with a policy",
            world_with(retention(with_claims(web(2)), "Delete", "Delete")).await,
        ),
        (
            "ordered, half rolled",
            rolled(world_with(web(3)).await).await,
        ),
        (
            "parallel, half rolled",
            rolled(world_with(parallel(web(3))).await).await,
        ),
        (
            "partition",
            rolled(world_with(partition(web(3), 2)).await).await,
        ),
        (
            "OnDelete",
            rolled(world_with(with(web(2), "updateStrategy", json!({"type": "OnDelete"}))).await)
                .await,
        ),
    ];
    for (why, mut world) in worlds {
        world.at_rest().await;
        let before = world.writes().len();
        world.restart(&[DESCRIPTOR]).await;
        world.at_rest().await;
        assert!(
            world.set_writes_since(before).is_empty(),
            "{why}: {:?}",
            world.set_writes_since(before)
        );
    }
}
