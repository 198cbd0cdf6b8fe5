use serde_json::json;
use steersman_objects::Object;

use super::*;
use crate::job::testing::{JobBuilder, job};

/// A Job whose pods are scheduled together.
fn training(parallelism: i32) -> JobBuilder {
    job("web").indexed(parallelism)
}

/// Upstream: `TestShouldManageWorkloadForJob` and `TestIsGangSchedulingCandidate`. The feature gate
/// has its own test.
#[test]
fn should_manage_workload_for_job() {
    let mut opted_out = training(4);
    opted_out.0["spec"]["template"]["spec"]["schedulingGroup"] =
        json!({"podGroupName": "existing-pg"});
    // (case, Job, expected)
    let cases = [
        (
            "indexed, parallelism=completions>1, no schedulingGroup",
            training(4),
            true,
        ),
        ("minimum parallelism of 2", training(2), true),
        (
            "parallelism is nil",
            training(4).spec("parallelism", ()),
            false,
        ),
        ("parallelism=1", training(1), false),
        (
            "non-indexed completion mode",
            training(4).spec("completionMode", "NonIndexed"),
            false,
        ),
        (
            "completions is nil",
            training(4).spec("completions", ()),
            false,
        ),
        (
            "completions != parallelism",
            training(4).spec("completions", 8),
            false,
        ),
        ("schedulingGroup already set (opt-out)", opted_out, false),
        (
            "completionMode is nil",
            training(4).spec("completionMode", ()),
            false,
        ),
    ];
    for (case, job, expected) in cases {
        assert_eq!(is_candidate(&job.build()), expected, "{case}");
    }
}

/// Upstream: `TestBuildPodGroupTemplates` and `TestCreateWorkloadForJob`.
#[test]
fn create_workload_for_job() {
    for parallelism in [8, 2] {
        let job = training(parallelism).metadata("name", "my-training-job");
        let job = job.build();
        let expected = json!({
            "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "Workload",
            "metadata": {
                "name": workload_name(&job), "namespace": "default",
                "ownerReferences": [{
                    "apiVersion": "batch/v1", "kind": "Job", "name": "my-training-job",
                    "uid": "uid-of-web", "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": {
                "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "my-training-job"},
                "podGroupTemplates": [{
                    "name": "my-training-job-pgt-0",
                    "schedulingPolicy": {"gang": {"minCount": parallelism}},
                }],
            },
        });
        assert_eq!(workload(&job, Rules::Gangs), expected);
    }
}

fn template_of(templates: Value) -> Template {
    let workload = json!({
        "metadata": {"name": "my-workload", "namespace": "default", "uid": "wl-uid"},
        "spec": {"podGroupTemplates": templates},
    });
    let workload = Workload::decode(workload.to_string().as_bytes()).unwrap();
    Template::own(Arc::new(workload))
}

/// Upstream: `TestCreatePodGroupForWorkload`.
#[test]
fn create_pod_group_for_workload() {
    let job = training(4).build();
    let policy = json!({"gang": {"minCount": 4}, "fromTheFuture": 1});
    let templates = json!([{"name": "web-pgt-0", "schedulingPolicy": policy}]);
    let expected = json!({
        "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
        "metadata": {
            "name": pod_group_name("my-workload", "web-pgt-0"), "namespace": "default",
            "ownerReferences": [
                {
                    "apiVersion": "batch/v1", "kind": "Job", "name": "web", "uid": "uid-of-web",
                    "controller": true, "blockOwnerDeletion": true,
                },
                {
                    "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "Workload",
                    "name": "my-workload", "uid": "wl-uid",
                },
            ],
        },
        "spec": {
            "podGroupTemplateRef": {"workload": {
                "workloadName": "my-workload", "podGroupTemplateName": "web-pgt-0",
            }},
            "schedulingPolicy": policy,
        },
    });
    let found = pod_group(&job, &template_of(templates), "v1alpha2");
    assert_eq!(found, Some(expected));
    let empty = template_of(json!([]));
    assert_eq!(pod_group(&job, &empty, "v1alpha2"), None);
}

/// Upstream: `TestComputeWorkloadName`. The hashes are those of upstream's functions.
#[test]
fn compute_workload_name() {
    let name = |name: &str, uid: &str| {
        let job = training(2).metadata("name", name).metadata("uid", uid);
        workload_name(&job.build())
    };
    assert_eq!(name("my-job", "uid-123"), "my-job-795ddf89fd");
    assert_ne!(name("my-job", "uid-123"), name("my-job", "different-uid"));
    let recorded = name("training", "e3c839a8-8251-4bd0-801c-fe9e5c74df8b");
    assert_eq!(recorded, "training-5585f4759", "from 1.36.2");
    let long = name(&"a".repeat(300), "uid-long");
    assert_eq!(long.len(), 253);
    assert!(long.ends_with("aa-799bb5c8bd"), "{long}");
}

/// Upstream: `TestComputePodGroupName`.
#[test]
fn compute_pod_group_name() {
    let [w, t] = ["w", "t"].map(|letter| move |times| letter.repeat(times));
    // (case, name of the Workload, name of the template, expected)
    let cases = [
        (
            "short names",
            "my-workload".to_owned(),
            "my-template".to_owned(),
            "my-workload-my-template-67bd6bbcc4".to_owned(),
        ),
        (
            "long workload name",
            w(250),
            "tpl".to_owned(),
            format!("{}-tpl-5598d65b5", w(239)),
        ),
        (
            "long template name",
            "wl".to_owned(),
            t(250),
            format!("wl-{}-5c9dbd8778", t(239)),
        ),
        (
            "both long names",
            w(200),
            t(200),
            format!("{}-{}-6f9f45db49", w(121), t(120)),
        ),
        (
            "recorded from 1.36.2",
            "training-5585f4759".to_owned(),
            "training-pgt-0".to_owned(),
            "training-5585f4759-training-pgt-0-75b87f4c49".to_owned(),
        ),
    ];
    for (case, workload, template, expected) in cases {
        let found = pod_group_name(&workload, &template);
        assert_eq!(found, expected, "{case}");
        assert!(found.len() <= 253, "{case}");
        assert_ne!(found, pod_group_name(&workload, "other-template"), "{case}");
    }
}
