//! Caches of a new leader that lack the last writes of the previous one, and Jobs that are replaced
//! during a sync.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_devcluster::faults::Matcher;

use super::stories::{A_WHILE, has_finalizer, name, web, world_with};
use crate::job::DESCRIPTOR;
use crate::testing::world::{World, condition_of};

/// Changes of the Job that let it adopt pods with the label `app`.
fn selecting() -> Value {
    let labels = json!({"app": "web"});
    json!({
        "manualSelector": true, "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}},
    })
}

/// An orphan that the Job selects.
fn loose() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "loose", "labels": {"app": "web"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]},
    })
}

#[tokio::test(start_paused = true)]
async fn a_counted_pod_with_a_cached_finalizer_is_not_counted_again() {
    let mut world = world_with(json!({"parallelism": 2, "completions": 3})).await;
    let pods = world.running_pods(2).await;
    world.succeed(&pods[0]).await;
    let uncounted = world.cluster.revision();
    world.job_has(json!({"succeeded": 1, "active": 2})).await;
    world.at_rest().await;
    assert!(!has_finalizer(
        &world.find("pods", &name(&pods[0])).unwrap()
    ));
    let view = world.hold("pods", uncounted);
    world.new_leader().await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(world.job()["succeeded"], 1);
    assert_eq!(world.cluster.objects("pods").len(), 3);
    world.cluster.faults().remove(view);
    for pod in world.active() {
        world.succeed(&pod).await;
    }
    world.ended("Complete").await;
    assert_eq!(world.job()["succeeded"], 3);
}

#[tokio::test(start_paused = true)]
async fn a_job_with_a_running_pod_that_the_cache_lacks_is_not_complete() {
    let mut world = World::bare().await;
    let before = world.cluster.revision();
    world.create(web(json!({"parallelism": 2}))).await;
    world.restart(&[DESCRIPTOR]).await;
    let pods = world.running_pods(2).await;
    world.succeed(&pods[0]).await;
    world.job_has(json!({"succeeded": 1, "active": 1})).await;
    world.at_rest().await;
    let view = world.hold("pods", before);
    world.new_leader().await;
    tokio::time::sleep(A_WHILE).await;
    let job = world.find("jobs", "web").unwrap();
    assert_eq!(condition_of(&job, "SuccessCriteriaMet"), None);
    assert_eq!(world.job()["active"], 1);
    world.cluster.faults().remove(view);
    world.succeed(&pods[1]).await;
    world.ended("Complete").await;
    assert_eq!(world.job()["succeeded"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_a_replaced_job_loses_its_finalizer() {
    let mut world = world_with(json!({})).await;
    let pod = name(&world.running_pods(1).await[0]);
    world.restart(&[]).await;
    world.remove_job().await;
    let before = world.cluster.revision();
    world.delete("pods", &pod).await;
    world.create(web(json!({}))).await;
    assert!(has_finalizer(&world.find("pods", &pod).unwrap()));
    world.hold("jobs", before);
    world.new_leader().await;
    let is_gone = |_: &_| world.find("pods", &pod).is_none();
    world.until("the pod is gone", is_gone).await;
}

#[tokio::test(start_paused = true)]
async fn a_terminating_orphan_causes_one_live_list_per_sync() {
    let mut world = World::bare().await;
    let mut orphan = loose();
    orphan["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.create(orphan).await;
    world.delete("pods", "loose").await;
    world.create(web(selecting())).await;
    // Time passes with each list, so a loop of lists meets the time limit.
    let lists = Matcher::new("list", "pods").client("job-controller");
    let second = Duration::from_secs(1);
    world.cluster.faults().delay(lists, second, None);
    world.new_leader().await;
    world.running_pods(1).await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(world.live_reads("list").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_replaced_during_a_sync_does_not_delay_the_new_one() {
    let mut spec = selecting();
    spec["parallelism"] = json!(2);
    spec["completions"] = json!(2);
    let mut world = World::bare().await;
    world.create(loose()).await;
    let adoption = Matcher::new("patch", "pods");
    let three_seconds = Duration::from_secs(3);
    let faults = world.cluster.faults();
    let adoption = faults.delay(adoption, three_seconds, Some(1));
    world.restart(&[DESCRIPTOR]).await;
    world.create(web(spec.clone())).await;
    world.cluster.faults().met(adoption).await;
    // The sync goes on with the old Job: it creates a pod, which no event of the new Job shows.
    world.remove_job().await;
    let new = world.create(web(spec)).await;
    let began = tokio::time::Instant::now();
    let is_of_new =
        |pod: &Value| pod["metadata"]["ownerReferences"][0]["uid"] == new["metadata"]["uid"];
    world
        .until("the new Job has 2 pods", |state| {
            state.pods.iter().filter(|pod| is_of_new(pod)).count() == 2
        })
        .await;
    assert_eq!(pods_of_old(&world, &new), 2, "{:#?}", world.writes());
    assert!(began.elapsed() < Duration::from_secs(60));
}

/// The number of pods of another Job than `new`.
fn pods_of_old(world: &World, new: &Value) -> usize {
    let is_of_old =
        |pod: &&Value| pod["metadata"]["ownerReferences"][0]["uid"] != new["metadata"]["uid"];
    world
        .cluster
        .objects("pods")
        .iter()
        .filter(is_of_old)
        .count()
}
