//! The number of requests for many and for large objects.
//!
//! Time is paused, so the speed of the machine does not matter.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_devcluster::faults::Matcher;
use steersman_devcluster::status::Status;
use steersman_runtime::controller::Descriptor;

use super::world::{World, condition_of};
use crate::{deployment, replicaset};

const CONTROLLERS: [Descriptor; 2] = [deployment::DESCRIPTOR, replicaset::DESCRIPTOR];

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": image}]}})
}

fn deployment(name: &str, replicas: usize) -> Value {
    let selector = json!({"matchLabels": {"app": "web"}});
    let spec = json!({"replicas": replicas, "selector": selector, "template": template("one")});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec})
}

fn replica_set(replicas: usize) -> Value {
    let mut set = deployment("web", replicas);
    set["kind"] = json!("ReplicaSet");
    set
}

async fn world(controllers: &[Descriptor]) -> World {
    let mut world = World::bare().await;
    world.restart(controllers).await;
    world
}

/// The number of the manager's requests with this verb and resource.
fn sent(world: &World, verb: &str, resource: &str) -> u64 {
    let counts = world.cluster.request_counts("kube-controller-manager");
    counts
        .get(&(verb.to_owned(), resource.to_owned()))
        .copied()
        .unwrap_or(0)
}

#[tokio::test(start_paused = true)]
async fn a_deployment_of_5000_pods_needs_one_request_per_pod_and_few_others() {
    const PODS: usize = 5000;
    let world = world(&CONTROLLERS).await;
    world.create(deployment("web", PODS)).await;
    let reported = |count: usize| {
        move |world: &World| status_of(world, "deployments", "web")["replicas"] == json!(count)
    };
    until(&world, "5000 replicas", reported(PODS)).await;
    settle(&world).await;
    assert_eq!(
        (
            sent(&world, "create", "pods"),
            sent(&world, "create", "replicasets")
        ),
        (5000, 1)
    );
    // One sync creates a burst of 500 pods. Two status updates follow per burst: one with the state
    // before it, and one after the cache shows the pods.
    assert!(
        sent(&world, "update", "replicasets/status") <= 25,
        "{}",
        sent(&world, "update", "replicasets/status")
    );
    assert!(
        sent(&world, "update", "deployments/status") <= 25,
        "{}",
        sent(&world, "update", "deployments/status")
    );
    // The Event limit per object is 25 at once, and one more every five minutes.
    assert!(sent(&world, "create", "events") + sent(&world, "patch", "events") <= 60);

    world
        .patch("deployments", "web", json!({"spec": {"replicas": 0}}))
        .await;
    until(&world, "no replicas", |world| {
        status_of(world, "deployments", "web")
            .get("replicas")
            .is_none()
    })
    .await;
    settle(&world).await;
    assert_eq!(
        (sent(&world, "delete", "pods"), world.cluster.count("pods")),
        (5000, 0)
    );
    assert!(sent(&world, "update", "replicasets/status") <= 50);
}

#[tokio::test(start_paused = true)]
async fn each_of_500_deployments_needs_the_same_few_requests() {
    const DEPLOYMENTS: u64 = 500;
    let mut world = world(&CONTROLLERS).await;
    for n in 0..DEPLOYMENTS {
        let mut d = deployment(&format!("web-{n}"), 1);
        let app = json!({"app": format!("web-{n}")});
        d["spec"]["selector"]["matchLabels"] = app.clone();
        d["spec"]["template"]["metadata"]["labels"] = app;
        world.create(d).await;
    }
    until(&world, "500 pods", |world| {
        world.cluster.count("pods") == 500
    })
    .await;
    settle(&world).await;
    assert_eq!(
        (
            sent(&world, "create", "replicasets"),
            sent(&world, "create", "pods")
        ),
        (DEPLOYMENTS, DEPLOYMENTS)
    );
    assert_eq!(sent(&world, "update", "replicasets"), 0);
    let statuses = ["deployments/status", "replicasets/status"]
        .map(|resource| sent(&world, "update", resource));
    assert!(
        statuses[0] <= 3 * DEPLOYMENTS && statuses[1] <= 2 * DEPLOYMENTS,
        "{statuses:?}"
    );
    assert_eq!(
        sent(&world, "get", "deployments") + sent(&world, "get", "replicasets"),
        0
    );

    let revision = world.cluster.revision();
    world.restart(&CONTROLLERS).await;
    settle(&world).await;
    assert_eq!(
        world.cluster.revision(),
        revision,
        "a restart with 500 settled Deployments writes nothing"
    );
}

/// The back-off allows 18 attempts in the first 22 minutes, and later one every 1000 seconds. Each
/// attempt sends one request, because slow start begins with one pod.
#[tokio::test(start_paused = true)]
async fn creations_that_a_quota_refuses_are_retried_with_back_off() {
    let world = world(&[replicaset::DESCRIPTOR]).await;
    let message = "pods \"web-abcde\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0";
    let rule = world.cluster.faults().reject(
        Matcher::new("create", "pods"),
        Status::new(403, "Forbidden", message),
        None,
    );
    world.create(replica_set(1000)).await;
    let attempts = || world.cluster.faults().hits(rule);
    // (time in ms, attempts so far). The first status update causes one more sync. After it, the
    // delays are 5 ms, 20 ms, and then twice as long each time.
    let mut passed = Duration::ZERO;
    for (after, expected) in [
        (4, 2),
        (8, 3),
        (40, 4),
        (1_300, 9),
        (10_300, 12),
        (660_000, 18),
    ] {
        let after = Duration::from_millis(after);
        tokio::time::sleep(after - passed).await;
        passed = after;
        assert_eq!(attempts(), expected, "after {after:?}");
    }
    let shown = status_of(&world, "replicasets", "web");
    assert_eq!(shown["conditions"][0]["message"], message);
    assert_eq!(
        condition_of(&world.cluster.objects("replicasets")[0], "ReplicaFailure"),
        Some(("True", "FailedCreate"))
    );
    assert_eq!(
        sent(&world, "update", "replicasets/status"),
        1,
        "the failure is reported once"
    );
    let depth = world
        .registry
        .gather()
        .iter()
        .find(|f| f.name() == "workqueue_retries_total")
        .unwrap()
        .get_metric()[0]
        .clone();
    assert!(
        depth.get_counter().get_value() >= 18.0,
        "the metric counts the retries"
    );
    // A day of refusals: one attempt every 1000 s.
    tokio::time::sleep(Duration::from_secs(24 * 3600)).await;
    assert!((100..=110).contains(&attempts()), "{}", attempts());

    world.cluster.faults().remove(rule);
    until(&world, "1000 pods", |world| {
        world.cluster.count("pods") == 1000
    })
    .await;
    settle(&world).await;
    assert_eq!(
        status_of(&world, "replicasets", "web").get("conditions"),
        None
    );
}

#[tokio::test(start_paused = true)]
async fn a_history_of_200_revisions_is_numbered_reused_and_shortened() {
    const REVISIONS: usize = 200;
    let world = world(&CONTROLLERS).await;
    let mut d = deployment("web", 0);
    d["spec"]["revisionHistoryLimit"] = json!(1000);
    world.create(d).await;
    for n in 1..=REVISIONS {
        let revision = json!(n.to_string());
        until(&world, "the next revision", |world| {
            let d = world.find("deployments", "web").unwrap();
            d["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == revision
        })
        .await;
        if n < REVISIONS {
            world
                .patch(
                    "deployments",
                    "web",
                    json!({"spec": {"template": template(&format!("image-{n}"))}}),
                )
                .await;
        }
    }
    settle(&world).await;
    assert_eq!(
        (
            sent(&world, "create", "replicasets"),
            sent(&world, "update", "replicasets")
        ),
        (200, 0)
    );
    assert!(sent(&world, "update", "deployments/status") <= 3 * 200);

    // The first template becomes current again: its ReplicaSet, one of 200, gets a new revision.
    world
        .patch(
            "deployments",
            "web",
            json!({"spec": {"template": template("one")}}),
        )
        .await;
    settle(&world).await;
    let d = world.find("deployments", "web").unwrap();
    assert_eq!(
        d["metadata"]["annotations"]["deployment.kubernetes.io/revision"],
        "201"
    );
    assert_eq!(
        (
            sent(&world, "create", "replicasets"),
            sent(&world, "update", "replicasets")
        ),
        (200, 1)
    );

    world
        .patch(
            "deployments",
            "web",
            json!({"spec": {"revisionHistoryLimit": 10}}),
        )
        .await;
    settle(&world).await;
    assert_eq!(
        (
            world.cluster.count("replicasets"),
            sent(&world, "delete", "replicasets")
        ),
        (11, 189)
    );
    let kept = world.cluster.objects("replicasets");
    let revision = |rs: &Value| -> u64 {
        rs["metadata"]["annotations"]["deployment.kubernetes.io/revision"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap()
    };
    let mut kept: Vec<u64> = kept.iter().map(revision).collect();
    kept.sort_unstable();
    assert_eq!(
        kept,
        (191..=201).collect::<Vec<_>>(),
        "the newest revisions remain"
    );
}

#[tokio::test(start_paused = true)]
async fn five_hundred_orphans_are_adopted_with_one_live_read_of_the_owner() {
    const ORPHANS: usize = 500;
    let world = world(&[replicaset::DESCRIPTOR]).await;
    for n in 0..ORPHANS {
        let mut pod = template("one");
        pod["apiVersion"] = json!("v1");
        pod["kind"] = json!("Pod");
        pod["metadata"]["name"] = json!(format!("pod-{n}"));
        world.create(pod).await;
    }
    world.create(replica_set(ORPHANS)).await;
    until(&world, "500 replicas", |world| {
        status_of(world, "replicasets", "web")["replicas"] == json!(ORPHANS)
    })
    .await;
    settle(&world).await;
    assert_eq!(
        (
            sent(&world, "get", "replicasets"),
            sent(&world, "patch", "pods")
        ),
        (1, 500)
    );
    assert_eq!(
        (
            sent(&world, "create", "pods"),
            sent(&world, "delete", "pods")
        ),
        (0, 0)
    );
    assert!(sent(&world, "update", "replicasets/status") <= 2);
}

fn status_of(world: &World, plural: &str, name: &str) -> Value {
    world
        .find(plural, name)
        .map(|mut object| object["status"].take())
        .unwrap_or_default()
}

/// Waits until `holds` is true. It checks once per second, because a copy of thousands of objects
/// is expensive.
async fn until(world: &World, expected: &str, holds: impl Fn(&World) -> bool) {
    for _ in 0..3600 {
        if holds(world) {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    panic!(
        "timed out waiting for: {expected}: {:?}",
        world.cluster.request_counts("kube-controller-manager")
    );
}

/// Waits until the revision stays the same for ten seconds.
async fn settle(world: &World) {
    for _ in 0..3600 {
        let before = world.cluster.revision();
        tokio::time::sleep(Duration::from_secs(10)).await;
        if world.cluster.revision() == before {
            return;
        }
    }
    panic!(
        "the revision does not stop growing: {:?}",
        world.cluster.request_counts("kube-controller-manager")
    );
}
