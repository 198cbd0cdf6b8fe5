//! Jobs whose pods have to run together, with the feature gate `WorkloadWithJob`. The API server here
//! has Workloads and PodGroups by definitions.

use serde_json::{Value, json};
use steersman_devcluster::definitions::definition;
use steersman_devcluster::faults::{self, Matcher};
use steersman_options::features::{FeatureGates, WORKLOAD_WITH_JOB};

use super::stories::{A_WHILE, web};
use crate::job::DESCRIPTOR;
use crate::testing::NAMESPACE;
use crate::testing::world::World;

const GROUP: &str = "scheduling.k8s.io";

/// A cluster with the gate and both types, before the controller starts.
async fn world() -> World {
    let world = World::bare().await;
    for kind in ["Workload", "PodGroup"] {
        world
            .create(definition(GROUP, kind, &["v1alpha2"], "Namespaced"))
            .await;
    }
    world
}

async fn start(world: &mut World) {
    world
        .restart_with(&[DESCRIPTOR], |mut context| {
            context.features = FeatureGates::new(|name| name == WORKLOAD_WITH_JOB.name);
            context
        })
        .await;
}

/// The Job `web` with two indexes.
fn gang() -> Value {
    let mut job = web(json!({"completionMode": "Indexed", "completions": 2, "parallelism": 2}));
    job["metadata"]["namespace"] = json!(NAMESPACE);
    job
}

fn names(world: &World, plural: &str) -> Vec<Value> {
    let objects = world.cluster.objects(plural);
    objects
        .iter()
        .map(|object| object["metadata"]["name"].clone())
        .collect()
}

/// The PodGroups that the pods name.
fn groups_of_pods(world: &World) -> Vec<Value> {
    let pods = world.cluster.objects("pods");
    let group = |pod: &Value| pod["spec"]["schedulingGroup"]["podGroupName"].clone();
    pods.iter().map(group).collect()
}

/// Upstream: "new job without existing workload" and "discover existing" of
/// `TestEnsureWorkloadAndPodGroup`.
#[tokio::test(start_paused = true)]
async fn a_gang_gets_one_workload_and_one_pod_group() {
    let mut world = world().await;
    start(&mut world).await;
    world.create(gang()).await;
    world.running_pods(2).await;
    let [workloads, groups] = ["workloads", "podgroups"].map(|plural| names(&world, plural));
    assert_eq!((workloads.len(), groups.len()), (1, 1));
    assert_eq!(groups_of_pods(&world), vec![groups[0].clone(); 2]);
    let owners = |pod: &Value| pod["metadata"]["ownerReferences"].as_array().unwrap().len();
    assert!(
        world
            .cluster
            .objects("pods")
            .iter()
            .all(|pod| owners(pod) == 1)
    );
    let events = world.state().events_about("web");
    let created = events
        .iter()
        .find(|(reason, _)| reason == "WorkloadCreated");
    let name = workloads[0].as_str().unwrap();
    assert_eq!(
        created.unwrap().1,
        format!("Created Workload {name} for Job web")
    );

    // The next leader finds both. So a pod that it replaces belongs to the same group.
    start(&mut world).await;
    let pod = world.active()[0].clone();
    world.fail(&pod).await;
    world
        .until("a replacement", |state| state.pods.len() == 3)
        .await;
    assert_eq!(names(&world, "workloads"), workloads);
    assert_eq!(groups_of_pods(&world), vec![groups[0].clone(); 3]);
}

/// Upstream: "fall back" cases of `TestEnsureWorkloadAndPodGroup`.
#[tokio::test(start_paused = true)]
async fn other_jobs_are_scheduled_without_a_group() {
    let workload = |name: &str| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "Workload",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {
                "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "web"},
                "podGroupTemplates": [{"name": "t", "schedulingPolicy": {"basic": {}}}],
            },
        })
    };
    let mut started = gang();
    started["metadata"]["uid"] = json!("u");
    started["status"] = json!({"startTime": "2030-01-01T00:00:00Z"});
    let not_indexed = web(json!({"completions": 2, "parallelism": 2}));
    // (case, other objects, Job)
    let cases = [
        ("Workload of another owner", vec![workload("a")], gang()),
        (
            "several Workloads",
            vec![workload("a"), workload("b")],
            gang(),
        ),
        ("not a gang", vec![], not_indexed),
        ("started before the gate was on", vec![], started),
    ];
    for (case, others, job) in cases {
        let mut world = world().await;
        let before = others.len();
        for other in others {
            world.create(other).await;
        }
        if job["status"].is_null() {
            world.create(job).await;
        } else {
            let mut job = job;
            let labels = json!({"job": "web"});
            job["spec"]["selector"] = json!({"matchLabels": labels});
            job["spec"]["template"]["metadata"] = json!({"labels": labels});
            world.cluster.load(job).unwrap();
        }
        start(&mut world).await;
        world.running_pods(2).await;
        assert_eq!(groups_of_pods(&world), [Value::Null, Value::Null], "{case}");
        assert_eq!(names(&world, "workloads").len(), before, "{case}");
        assert!(names(&world, "podgroups").is_empty(), "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn pods_wait_for_their_group() {
    let mut world = world().await;
    start(&mut world).await;
    let faults = world.cluster.faults();
    let creations = Matcher::new("create", "podgroups");
    let rule = faults.reject(creations, faults::internal_error(), None);
    world.create(gang()).await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(names(&world, "workloads").len(), 1);
    assert!(world.cluster.objects("pods").is_empty());
    assert!(faults.hits(rule) > 0);
    faults.remove(rule);
    world.running_pods(2).await;
    assert_eq!(names(&world, "workloads").len(), 1);
    assert!(groups_of_pods(&world).iter().all(Value::is_string));
}
