//! The strategy `Recreate` of 1.37. The API server of these tests is that of 1.36, whose validation refuses the
//! strategy. So the tests store such sets directly.

use steersman_options::features::{self, FeatureGates};
use steersman_releases::Release;

use super::*;

/// A cluster with the controller of this release, and with the gate or without it.
async fn world_of(minor: u64, is_on: bool) -> World {
    let mut world = World::bare().await;
    let gate = features::STATEFUL_SET_RECREATE_STRATEGY.name;
    world
        .restart_with(&[DESCRIPTOR], |mut context| {
            context.release = Release::of_minor(minor);
            context.features = FeatureGates::new(|name| name == gate && is_on);
            context
        })
        .await;
    world
}

impl World {
    /// Gives the set the strategy `Recreate`, this image and this size.
    fn recreate(&self, image: &str, replicas: i32) {
        let mut set = self.find("statefulsets", "web").unwrap();
        set["spec"]["updateStrategy"] = json!({"type": "Recreate"});
        set["spec"]["replicas"] = json!(replicas);
        set["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
        set["metadata"]["generation"] = json!(2);
        self.cluster.load(set).unwrap();
    }

    /// Reason and message of the condition `Progressing`, which is true.
    fn progress(&self) -> Option<(String, String)> {
        let status = self.set_status();
        let conditions = status["conditions"].as_array()?;
        let told = conditions.iter().find(|one| one["type"] == "Progressing")?;
        assert_eq!(told["status"], "True");
        let text = |field: &str| told[field].as_str().unwrap().to_owned();
        Some((text("reason"), text("message")))
    }

    async fn keep_pod(&self, pod: &str, finalizers: Value) {
        let change = json!({"metadata": {"finalizers": finalizers}});
        self.patch("pods", pod, change).await;
    }
}

fn told(reason: &str, message: &str) -> Option<(String, String)> {
    Some((reason.to_owned(), message.to_owned()))
}

/// Upstream: `recreateDeleteAndWait`. An ordered set also deletes its pods at once, and creates them in order.
#[tokio::test(start_paused = true)]
async fn all_old_pods_are_gone_before_the_first_new_one() {
    let deleting = told("RecreateInProgress", "Deleting old revision pods");
    let creating = told(
        "RecreateInProgress",
        "Waiting for new-revision pods to be created",
    );
    // (why, set, pods that are created at once)
    let cases: [(&str, Value, &[&str]); 2] = [
        ("ordered", web(3), &["web-0"]),
        ("parallel", parallel(web(3)), &["web-0", "web-1", "web-2"]),
    ];
    for (why, set, first) in cases {
        let world = world_of(37, true).await;
        world.create(set).await;
        world.make_pods_ready().await;
        assert_eq!(world.progress(), None, "{why}: a new set");
        for pod in ["web-0", "web-2"] {
            world.keep_pod(pod, json!(["example.com/keep"])).await;
        }
        world.recreate("v2", 3);
        world.at_rest().await;
        assert_eq!(world.names_of("pods"), ["web-0", "web-2"], "{why}");
        assert_eq!(world.progress(), deleting, "{why}");
        world.keep_pod("web-0", Value::Null).await;
        world.at_rest().await;
        assert_eq!(world.names_of("pods"), ["web-2"], "{why}");
        world.keep_pod("web-2", Value::Null).await;
        world.at_rest().await;
        assert_eq!(world.names_of("pods"), first, "{why}");
        assert_eq!(world.progress(), creating, "{why}");
        world.make_pods_ready().await;
        assert!(world.pod_images().values().all(|image| image == "v2"));
        assert_eq!(counters(&world.set_status()), [3; 5], "{why}");
        let status = world.set_status();
        assert_eq!(status["currentRevision"], status["updateRevision"], "{why}");
        let (reason, _) = world.progress().unwrap();
        assert_eq!(reason, "RecreateComplete", "{why}");
    }
}

#[tokio::test(start_paused = true)]
async fn surplus_old_pods_are_deleted_with_the_others() {
    let world = world_of(37, true).await;
    world.create(web(3)).await;
    world.make_pods_ready().await;
    let before = world.writes().len();
    world.recreate("v2", 1);
    world.at_rest().await;
    let writes = world.set_writes_since(before);
    let deletions = writes
        .iter()
        .filter(|write| write.starts_with("delete pods"));
    assert_eq!(deletions.count(), 3, "{writes:?}");
    world.make_pods_ready().await;
    assert_eq!(world.names_of("pods"), ["web-0"]);
}

/// A return to the old template while pods are deleted: only pods of the newer revision go.
#[tokio::test(start_paused = true)]
async fn a_return_to_the_old_revision_is_complete_too() {
    let world = world_of(37, true).await;
    world.create(web(1)).await;
    world.make_pods_ready().await;
    world.keep_pod("web-0", json!(["example.com/keep"])).await;
    world.recreate("v2", 1);
    world.at_rest().await;
    world.recreate("v1", 1);
    world.keep_pod("web-0", Value::Null).await;
    world.make_pods_ready().await;
    let (reason, _) = world.progress().unwrap();
    assert_eq!(reason, "RecreateComplete");
}

/// Upstream: the beginning of `updateStatefulSet`.
#[tokio::test(start_paused = true)]
async fn without_the_gate_the_set_is_left_alone() {
    let world = world_of(37, false).await;
    world.create(web(1)).await;
    world.make_pods_ready().await;
    let status = world.set_status();
    world.recreate("v2", 2);
    world.a_minute().await;
    assert_eq!(
        world.pod_images(),
        [("web-0".to_owned(), "v1".to_owned())].into()
    );
    assert_eq!(world.set_status(), status);
    let message = "statefulset default/web uses Recreate strategy but feature gate StatefulSetRecreateStrategy is \
        disabled";
    let event = ("UnknownStrategy".to_owned(), message.to_owned());
    assert!(world.set_events().await.contains(&event));
}

/// After a downgrade, a stored set can have the strategy.
#[tokio::test(start_paused = true)]
async fn older_releases_take_the_strategy_for_a_rolling_update() {
    let world = world_of(36, false).await;
    world.create(web(2)).await;
    world.make_pods_ready().await;
    world.recreate("v2", 2);
    world.at_rest().await;
    assert_eq!(world.names_of("pods"), ["web-0", "web-1"]);
    world.make_pods_ready().await;
    assert!(world.pod_images().values().all(|image| image == "v2"));
    assert_eq!(world.progress(), None);
}
