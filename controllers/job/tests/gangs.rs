//! Jobs whose pods are scheduled together, with the feature gate `WorkloadWithJob`. The API server
//! here has the types by definitions.

use std::sync::Arc;

use serde_json::{Value, json};
use steersman_devcluster::definitions::definition;
use steersman_devcluster::faults::{self, Matcher};
use steersman_objects::Job;
use steersman_options::features::{self, FeatureGates};
use steersman_runtime::controller::ControllerContext;

use super::single_syncs::conditions;
use super::stories::web;
use crate::job::DESCRIPTOR;
use crate::job::gang::{Rules, Template, pod_group, workload};
use crate::job::testing::{job, load, merge, pod_of_web, sent};
use crate::testing::builder::Builder;
use crate::testing::world::World;

const PARALLELISM: i32 = 4;

pub(super) fn with_gate(mut context: ControllerContext) -> ControllerContext {
    context.features = FeatureGates::new(|name| name == features::WORKLOAD_WITH_JOB.name);
    context
}

/// The version of 1.36.
const VERSION: &str = "v1alpha2";

/// Adds both types in this version.
pub(super) async fn define(world: &World, version: &str) {
    for kind in ["Workload", "PodGroup"] {
        let group = "scheduling.k8s.io";
        world
            .create(definition(group, kind, &[version], "Namespaced"))
            .await;
    }
}

/// A cluster with these objects, and without the controller.
async fn world(objects: impl IntoIterator<Item = Value>) -> World {
    let world = World::recorded().await;
    define(&world, VERSION).await;
    load(&world, objects).await;
    world
}

async fn controlled(objects: impl IntoIterator<Item = Value>) -> World {
    let mut world = world(objects).await;
    world.restart_with(&[DESCRIPTOR], with_gate).await;
    world.at_rest().await;
    world
}

fn gang_job() -> Value {
    job("web").indexed(PARALLELISM).0
}

/// The Job of a gang, with these changes.
fn changed(changes: Value) -> Value {
    let mut job = gang_job();
    merge(&mut job, &changes);
    job
}

fn decoded(job: &Value) -> Job {
    Builder::new(job.clone()).build()
}

/// The Workload of the Job, with another name.
fn workload_named(name: &str) -> Value {
    let mut made = workload(&decoded(&gang_job()), Rules::Gangs);
    made["metadata"]["name"] = json!(name);
    made["metadata"]["uid"] = json!(format!("{name}-uid"));
    made
}

/// The PodGroup after `workload`.
fn group_after(workload: &Value) -> Value {
    let view = Builder::new(workload.clone()).build();
    let template = Template::own(Arc::new(view));
    pod_group(&decoded(&gang_job()), &template, VERSION).expect("there is a template")
}

/// The same with another name.
fn group_named(name: &str, workload: &Value) -> Value {
    let mut made = group_after(workload);
    made["metadata"]["name"] = json!(name);
    made["metadata"]["uid"] = json!(format!("{name}-uid"));
    made
}

fn without_owner(mut object: Value) -> Value {
    object["metadata"]["ownerReferences"] = json!([]);
    object
}

fn a_pod() -> Value {
    pod_of_web("web-0").index("0").0
}

/// The groups of all created pods. `None` stands for pods without one.
pub(super) fn groups_of_pods(world: &World) -> Vec<Option<String>> {
    let group = |pod: Value| {
        let name = pod["spec"]["schedulingGroup"]["podGroupName"].as_str();
        name.map(str::to_owned)
    };
    sent(world, "create", "pods")
        .into_iter()
        .map(group)
        .collect()
}

pub(super) fn names(world: &World, plural: &str) -> Vec<String> {
    let objects = world.cluster.objects(plural);
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
    objects.iter().map(name).collect()
}

/// Upstream: the cases of `TestEnsureWorkloadAndPodGroup` without errors.
#[tokio::test(start_paused = true)]
async fn ensure_workload_and_pod_group() {
    let of_job = workload(&decoded(&gang_job()), Rules::Gangs);
    let name = of_job["metadata"]["name"].as_str().unwrap();
    let group = group_after(&of_job);
    let group_name = group["metadata"]["name"].as_str().unwrap().to_owned();
    let existing = || workload_named(name);
    let group_of = |workload: &Value| group_named(&group_name, workload);
    let suspended = json!([{"type": "Suspended", "status": "True"}]);
    let mut two_templates = existing();
    two_templates["spec"]["podGroupTemplates"] = json!([{"name": "group-a"}, {"name": "group-b"}]);
    let named_by_user = workload_named("user-workload");
    let of_user = group_after(&named_by_user)["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    // (case, objects, number of new pods, their group, number of Workloads, of PodGroups)
    let cases = [
        (
            "creates both Workload and PodGroup when no pods exist",
            vec![gang_job()],
            (4, Some(&group_name)),
            [1, 1],
        ),
        (
            "skips creation when Job has pods but no Workload",
            vec![a_pod(), gang_job()],
            (3, None),
            [0, 0],
        ),
        (
            "skips creation when Job has StartTime set",
            vec![changed(
                json!({"status": {"startTime": "2026-01-01T00:00:00Z"}}),
            )],
            (4, None),
            [0, 0],
        ),
        (
            "skips creation when Job has succeeded pods",
            vec![changed(
                json!({"status": {"succeeded": 1, "completedIndexes": "0"}}),
            )],
            (3, None),
            [0, 0],
        ),
        (
            "skips creation when Job has failed pods",
            vec![changed(json!({"status": {"failed": 1}}))],
            (4, None),
            [0, 0],
        ),
        (
            "skips creating Workload/PodGroup when Job was previously suspended",
            vec![changed(json!({"status": {"conditions": suspended}}))],
            (4, None),
            [0, 0],
        ),
        (
            "discovers existing Workload and PodGroup",
            vec![existing(), group_of(&existing()), gang_job()],
            (4, Some(&group_name)),
            [1, 1],
        ),
        (
            "discovers existing objects even when pods exist",
            vec![existing(), group_of(&existing()), a_pod(), gang_job()],
            (3, Some(&group_name)),
            [1, 1],
        ),
        (
            "workload found but no PodGroup creates one",
            vec![named_by_user.clone(), gang_job()],
            (4, Some(&of_user)),
            [1, 1],
        ),
        (
            "BYO Workload without controller ownerRef falls back",
            vec![without_owner(named_by_user), gang_job()],
            (4, None),
            [1, 0],
        ),
        (
            "ambiguous Workloads fall back",
            vec![
                workload_named("workload-1"),
                workload_named("workload-2"),
                gang_job(),
            ],
            (4, None),
            [2, 0],
        ),
        (
            "BYO PodGroup without controller ownerRef falls back",
            vec![
                existing(),
                without_owner(group_named("external-pg", &existing())),
                gang_job(),
            ],
            (4, None),
            [1, 1],
        ),
        (
            "ambiguous PodGroups fall back",
            vec![
                existing(),
                group_named("pg-1", &existing()),
                group_named("pg-2", &existing()),
                gang_job(),
            ],
            (4, None),
            [1, 2],
        ),
        (
            "unsupported PodGroupTemplate count falls back",
            vec![two_templates, gang_job()],
            (4, None),
            [1, 0],
        ),
        (
            "a Workload of a Job of another namespace",
            vec![
                {
                    let mut elsewhere = existing();
                    elsewhere["metadata"]["namespace"] = json!("other");
                    elsewhere
                },
                gang_job(),
            ],
            (4, Some(&group_name)),
            [2, 1],
        ),
    ];
    for (case, objects, (pods, group), [workloads, groups]) in cases {
        let world = controlled(objects).await;
        let expected = vec![group.cloned(); pods];
        assert_eq!(groups_of_pods(&world), expected, "{case}");
        assert_eq!(names(&world, "workloads").len(), workloads, "{case}");
        assert_eq!(names(&world, "podgroups").len(), groups, "{case}");
    }
}

/// Upstream: the cases of `TestEnsureWorkloadAndPodGroup` with errors.
#[tokio::test(start_paused = true)]
async fn pods_wait_for_the_objects_of_their_gang() {
    for plural in ["workloads", "podgroups"] {
        let mut world = world([gang_job()]).await;
        let faults = world.cluster.faults();
        let matcher = Matcher::new("create", plural);
        let rule = faults.reject(matcher, faults::internal_error(), None);
        world.restart_with(&[DESCRIPTOR], with_gate).await;
        world.a_minute().await;
        assert!(groups_of_pods(&world).is_empty(), "{plural}");
        let job = world.find("jobs", "web").unwrap();
        assert_eq!(job["status"], json!({}), "{plural}");
        world.cluster.faults().remove(rule);
        world.a_minute().await;
        let groups = groups_of_pods(&world);
        assert_eq!(groups.len(), 4, "{plural}");
        assert!(groups.iter().all(Option::is_some), "{plural}");
        assert_eq!(names(&world, "workloads").len(), 1, "{plural}");
        assert_eq!(names(&world, "podgroups").len(), 1, "{plural}");
    }
}

/// Upstream: `TestJobGangScheduling` and `TestSyncJobPodSchedulingGroup`, without those cases that
/// another test has.
#[tokio::test(start_paused = true)]
async fn job_gang_scheduling() {
    let opted_out = json!({"spec": {"template": {"spec": {
        "schedulingGroup": {"podGroupName": "external-pod-group"},
    }}}});
    let external = "external-pod-group".to_owned();
    // (case, Job, pods, their group)
    let cases = [
        (
            "non-indexed job",
            job("web").spec("parallelism", 3).spec("completions", ()).0,
            3,
            None,
        ),
        ("parallelism=1", job("web").indexed(1).0, 1, None),
        (
            "completions != parallelism",
            changed(json!({"spec": {"parallelism": 2, "completions": 5}})),
            2,
            None,
        ),
        (
            "high-level controller owns scheduling objects via existing schedulingGroup",
            changed(opted_out),
            4,
            Some(external),
        ),
    ];
    for (case, job, pods, group) in cases {
        let world = controlled([job]).await;
        assert_eq!(groups_of_pods(&world), vec![group; pods], "{case}");
        assert!(names(&world, "workloads").is_empty(), "{case}");
        assert!(names(&world, "podgroups").is_empty(), "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_the_gate_pods_are_scheduled_one_by_one() {
    let mut world = world([gang_job()]).await;
    world.restart(&[DESCRIPTOR]).await;
    world.at_rest().await;
    assert_eq!(groups_of_pods(&world), vec![None; 4]);
    assert!(names(&world, "workloads").is_empty());
    let requests = world.cluster.requests();
    let is_about_gangs = |resource: &str| matches!(resource, "workloads" | "podgroups");
    assert!(
        requests
            .iter()
            .all(|request| !is_about_gangs(&request.resource)),
        "the caches need no requests without the gate"
    );
}

/// Upstream: the cases "suspended job creates workload before pods" and "controller restart
/// preserves workload" of `TestJobGangScheduling`.
#[tokio::test(start_paused = true)]
async fn a_suspended_job_has_its_group_before_its_pods() {
    let mut world = world([]).await;
    world.restart_with(&[DESCRIPTOR], with_gate).await;
    world
        .create(web(json!({
            "suspend": true, "completionMode": "Indexed", "completions": 4, "parallelism": 4,
        })))
        .await;
    world.at_rest().await;
    assert!(groups_of_pods(&world).is_empty());
    let workloads = names(&world, "workloads");
    let groups = names(&world, "podgroups");
    assert_eq!((workloads.len(), groups.len()), (1, 1));
    let events = world.cluster.objects("events");
    let told = events
        .iter()
        .find(|event| event["reason"] == "WorkloadCreated");
    let told = told.expect("an Event tells about the Workload");
    let message = format!("Created Workload {} for Job web", workloads[0]);
    assert_eq!(told["message"], *message);
    assert_eq!(told["type"], "Normal");

    world.restart_with(&[DESCRIPTOR], with_gate).await;
    world
        .patch("jobs", "web", json!({"spec": {"suspend": false}}))
        .await;
    world.at_rest().await;
    assert_eq!(groups_of_pods(&world), vec![Some(groups[0].clone()); 4]);
    assert_eq!(names(&world, "workloads"), workloads);
    assert_eq!(names(&world, "podgroups"), groups);
    let job = world.find("jobs", "web").unwrap();
    assert_eq!(conditions(&job["status"])[0]["reason"], "JobResumed");
}

/// A new leader whose cache lacks the Workload would create the other pods without their group.
#[tokio::test(start_paused = true)]
async fn a_new_leader_waits_for_the_workload_of_the_former_one() {
    let started = json!({"status": {"startTime": "2026-01-01T00:00:00Z"}});
    let mut world = world([a_pod(), changed(started)]).await;
    let before = world.cluster.revision();
    let made = workload(&decoded(&gang_job()), Rules::Gangs);
    let name = made["metadata"]["name"].as_str().unwrap().to_owned();
    let made = workload_named(&name);
    load(&world, [group_named("g", &made), made]).await;
    let term = world.cluster.revision();
    let view = world.hold("workloads", before);
    let as_new_leader = |context| {
        let mut context = with_gate(context);
        context.term_start_rv = term;
        context
    };
    world.restart_with(&[DESCRIPTOR], as_new_leader).await;
    world.a_minute().await;
    assert!(groups_of_pods(&world).is_empty());
    let reads = world.live_reads("get");
    assert!(reads.iter().any(|path| path.ends_with(&name)), "{reads:?}");
    world.cluster.faults().remove(view);
    world.a_minute().await;
    assert_eq!(groups_of_pods(&world), vec![Some("g".to_owned()); 3]);
}

#[tokio::test(start_paused = true)]
async fn without_the_types_only_gangs_wait() {
    let mut world = World::recorded().await;
    let mut other = job("other").0;
    other["metadata"]["uid"] = json!("uid-of-other");
    load(&world, [gang_job(), other]).await;
    world.restart_with(&[DESCRIPTOR], with_gate).await;
    world.a_minute().await;
    let prefixes = |world: &World| -> Vec<String> {
        let pods = sent(world, "create", "pods").into_iter();
        let prefix = |pod: Value| pod["metadata"]["generateName"].as_str().unwrap().to_owned();
        pods.map(prefix).collect()
    };
    assert_eq!(prefixes(&world), ["other-"]);
    define(&world, VERSION).await;
    world.a_minute().await;
    assert_eq!(prefixes(&world).len(), 5);
}

/// API servers of 1.37 lack `v1alpha2`. In their versions, a PodGroup names its Workload by another field.
#[tokio::test(start_paused = true)]
async fn a_newer_api_server_has_the_types_in_other_versions() {
    for version in ["v1beta1", "v1alpha3"] {
        let mut world = World::recorded().await;
        define(&world, version).await;
        load(&world, [gang_job()]).await;
        world.restart_with(&[DESCRIPTOR], with_gate).await;
        world.a_minute().await;
        let api_version = format!("scheduling.k8s.io/{version}");
        let [workload] = &world.cluster.objects("workloads")[..] else {
            panic!("there is one Workload in {version}");
        };
        let [group] = &world.cluster.objects("podgroups")[..] else {
            panic!("there is one PodGroup in {version}");
        };
        assert_eq!(workload["apiVersion"], *api_version);
        assert_eq!(group["apiVersion"], *api_version);
        let name = &workload["metadata"]["name"];
        let reference = json!({"workloadName": name, "templateName": "web-pgt-0"});
        assert_eq!(group["spec"]["workloadRef"], reference);
        assert_eq!(group["spec"].get("podGroupTemplateRef"), None);
        let owner = &group["metadata"]["ownerReferences"][1];
        assert_eq!(owner["apiVersion"], *api_version);
        let name = group["metadata"]["name"].as_str().unwrap().to_owned();
        assert_eq!(groups_of_pods(&world), vec![Some(name); 4], "{version}");

        // The next manager finds both by their references.
        world.restart_with(&[DESCRIPTOR], with_gate).await;
        world.a_minute().await;
        assert_eq!(names(&world, "workloads").len(), 1, "{version}");
        assert_eq!(names(&world, "podgroups").len(), 1, "{version}");
    }
}
