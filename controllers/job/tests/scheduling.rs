//! Jobs of 1.37 with the feature gate `WorkloadWithJob`: each has a Workload, by its `spec.scheduling`.

use serde_json::{Value, json};
use steersman_releases::Release;

use super::gangs::{define, groups_of_pods, names, with_gate};
use crate::job::DESCRIPTOR;
use crate::job::testing::{JobBuilder, job, load};
use crate::testing::world::World;

const VERSION: &str = "v1beta1";

async fn controlled(objects: impl IntoIterator<Item = Value>) -> World {
    let mut world = World::recorded().await;
    define(&world, VERSION).await;
    load(&world, objects).await;
    world
        .restart_with(&[DESCRIPTOR], |context| {
            let mut context = with_gate(context);
            context.release = Release::of_minor(37);
            context
        })
        .await;
    world.a_minute().await;
    world
}

fn three_pods() -> JobBuilder {
    job("web").spec("parallelism", 3).spec("completions", 3)
}

/// A Workload of another party, which names the Job or its owner.
fn workload(kind: &str, name: &str) -> Value {
    let of = json!({"apiGroup": "jobset.x-k8s.io", "kind": kind, "name": name});
    let gang = json!({"gang": {"minCount": 2}});
    let workers = json!({"name": "workers", "schedulingPolicy": gang, "priorityClassName": "high"});
    json!({
        "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "Workload",
        "metadata": {"name": "other", "namespace": "default", "uid": "other-uid"},
        "spec": {"controllerRef": of, "podGroupTemplates": [workers]},
    })
}

fn owned_by_a_set(annotations: Value) -> Value {
    let owner = json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "set", "uid": "set-uid",
        "controller": true,
    });
    let job = three_pods().metadata("ownerReferences", json!([owner]));
    job.metadata("annotations", annotations).0
}

/// Upstream: the cases of `TestEnsureWorkloadAndPodGroup` on the branch of kubernetes#140188.
#[tokio::test(start_paused = true)]
async fn each_job_of_its_own_has_a_workload() {
    let gang = json!({"schedulingPolicy": {"gang": {}}});
    let started = json!({"startTime": "2026-01-01T00:00:00Z"});
    let mut running = three_pods().0;
    running["status"] = started;
    let mut foreign = workload("Job", "web");
    foreign["spec"]["controllerRef"]["apiGroup"] = json!("batch");
    // (case, objects, number of Workloads, policy)
    let cases = [
        (
            "a Job without scheduling",
            vec![three_pods().0],
            1,
            Some(json!({"basic": {}})),
        ),
        (
            "a gang",
            vec![three_pods().spec("scheduling", gang).0],
            1,
            Some(json!({"gang": {"minCount": 3}})),
        ),
        (
            "a Workload of another party does not count",
            vec![foreign, three_pods().0],
            2,
            Some(json!({"basic": {}})),
        ),
        ("a Job that has started", vec![running], 0, None),
        ("a Job of a set", vec![owned_by_a_set(json!({}))], 0, None),
    ];
    for (case, objects, workloads, policy) in cases {
        let world = controlled(objects).await;
        assert_eq!(names(&world, "workloads").len(), workloads, "{case}");
        let groups = world.cluster.objects("podgroups");
        let found = groups
            .first()
            .map(|group| group["spec"]["schedulingPolicy"].clone());
        assert_eq!(found, policy, "{case}");
        let name = names(&world, "podgroups").pop();
        assert_eq!(groups_of_pods(&world), vec![name; 3], "{case}");
    }
}

/// Upstream: `getOrCreateDelegatedPodGroup`.
#[tokio::test(start_paused = true)]
async fn the_owner_of_a_job_may_delegate_a_group() {
    let annotation = |template: &str| json!({"scheduling.k8s.io/group-template-name": template});
    let job = owned_by_a_set(annotation("workers"));
    let world = controlled([workload("JobSet", "set"), job]).await;
    assert_eq!(names(&world, "workloads"), ["other"]);
    let groups = world.cluster.objects("podgroups");
    let [group] = &groups[..] else {
        panic!("there is one PodGroup: {groups:?}");
    };
    let owners = group["metadata"]["ownerReferences"].as_array().unwrap();
    let kinds: Vec<&Value> = owners.iter().map(|owner| &owner["kind"]).collect();
    assert_eq!(kinds, ["Job"]);
    let spec = json!({
        "workloadRef": {"workloadName": "other", "templateName": "workers"},
        "schedulingPolicy": {"gang": {"minCount": 2}}, "priorityClassName": "high",
    });
    assert_eq!(group["spec"], spec);
    let name = group["metadata"]["name"].as_str().unwrap().to_owned();
    assert_eq!(groups_of_pods(&world), vec![Some(name); 3]);

    let unknown = owned_by_a_set(annotation("unknown"));
    let world = controlled([workload("JobSet", "set"), unknown]).await;
    assert_eq!(groups_of_pods(&world), vec![None; 3], "no such template");
    let alone = owned_by_a_set(annotation("workers"));
    let world = controlled([alone]).await;
    assert_eq!(groups_of_pods(&world), vec![None; 3], "no such Workload");
}

#[tokio::test(start_paused = true)]
async fn events_tell_of_both_objects() {
    let world = controlled([three_pods().0]).await;
    let [workload, group] =
        ["workloads", "podgroups"].map(|plural| names(&world, plural).remove(0));
    let told: Vec<_> = world.at_rest().await.events_about("web");
    for (reason, message) in [
        (
            "WorkloadCreated",
            format!("Created Workload {workload} for Job web"),
        ),
        (
            "PodGroupCreated",
            format!("Created PodGroup {group} for Job web"),
        ),
    ] {
        let event = (reason.to_owned(), message);
        assert!(told.contains(&event), "{event:?} in {told:?}");
    }
}
