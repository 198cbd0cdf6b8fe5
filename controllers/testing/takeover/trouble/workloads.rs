//! Workloads whose pods are refused, never become ready, or fail.

use serde_json::{Value, json};
use steersman_devcluster::faults::{Matcher, internal_error};
use steersman_runtime::controller::Descriptor;

use super::{CHANGED, Trouble, cluster_object, is_condition, merge, object};
use crate::job::testing::{job, pod_of_web};
use crate::testing::world::World;
use crate::{
    cronjob, daemonset, deployment, replicaset, replicationcontroller, statefulset,
    ttlafterfinished,
};

const WORKLOADS: [Descriptor; 7] = [
    cronjob::DESCRIPTOR,
    daemonset::DESCRIPTOR,
    deployment::DESCRIPTOR,
    crate::job::DESCRIPTOR,
    replicaset::DESCRIPTOR,
    replicationcontroller::DESCRIPTOR,
    statefulset::DESCRIPTOR,
];

pub(super) fn troubles() -> Vec<Trouble> {
    vec![
        refused(),
        never_ready(),
        failing(),
        terminating(),
        finished(),
    ]
}

fn template(app: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {
            "containers": [{"name": "main", "image": "i"}], "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
        },
    })
}

/// One workload of each kind, and a node for the pods of the DaemonSet.
fn workloads() -> Vec<Value> {
    let workload = |api_version: &str, kind: &str, spec: Value| {
        let app = kind.to_lowercase();
        let mut object = object(api_version, kind, &app, json!({}));
        object["spec"] = json!({
            "replicas": 2, "selector": {"matchLabels": {"app": app}}, "template": template(&app),
        });
        merge(&mut object["spec"], spec);
        object
    };
    let rolling = json!({"maxSurge": "25%", "maxUnavailable": "25%"});
    let mut controller = workload("v1", "ReplicationController", json!({}));
    controller["spec"]["selector"] = json!({"app": "replicationcontroller"});
    let mut jobs = template("cronjob");
    jobs["spec"]["restartPolicy"] = json!("Never");
    let cron = object(
        "batch/v1",
        "CronJob",
        "cronjob",
        json!({"spec": {
            "schedule": "*/2 * * * *", "concurrencyPolicy": "Forbid", "suspend": false,
            "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1,
            "jobTemplate": {"spec": {"template": jobs}},
        }}),
    );
    vec![
        cluster_object("v1", "Node", "node", json!({})),
        workload(
            "apps/v1",
            "Deployment",
            json!({
                "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
                "progressDeadlineSeconds": 30, "revisionHistoryLimit": 10,
            }),
        ),
        workload("apps/v1", "ReplicaSet", json!({})),
        controller,
        workload(
            "apps/v1",
            "StatefulSet",
            json!({
                "serviceName": "s", "podManagementPolicy": "OrderedReady", "revisionHistoryLimit": 10,
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            }),
        ),
        workload(
            "apps/v1",
            "DaemonSet",
            json!({
                "revisionHistoryLimit": 10,
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
            }),
        ),
        job("plain").0,
        cron,
    ]
}

fn is_late(world: &World) -> bool {
    is_condition(
        world,
        "deployments",
        "deployment",
        ("Progressing", "False", "ProgressDeadlineExceeded"),
    )
}

/// The API server refuses all pods.
fn refused() -> Trouble {
    Trouble::new("pods are refused", &WORKLOADS)
        .with(workloads())
        .refusing(Matcher::new("create", "pods"), internal_error())
        .reached(is_late)
}

/// No kubelet starts the pods.
fn never_ready() -> Trouble {
    Trouble::new("pods never become ready", &WORKLOADS)
        .with(workloads())
        .reached(is_late)
}

/// Number `number` of the failed pods of the Job `web`, which ended shortly before the begin.
fn failed_pod(number: u32) -> Value {
    let mut pod = pod_of_web(&format!("web-{number}")).0;
    let ended = format!("2026-11-21T02:59:5{number}Z");
    merge(
        &mut pod,
        json!({"status": {"phase": "Failed", "containerStatuses": [
            {"name": "main", "state": {"terminated": {"exitCode": 1, "finishedAt": ended}}},
        ]}}),
    );
    pod
}

fn of_web(fields: Value) -> Value {
    let mut web = job("web").0;
    merge(&mut web, fields);
    web
}

/// A Job waits before it replaces the third failed pod.
fn failing() -> Trouble {
    Trouble::new("a Job fails", &[crate::job::DESCRIPTOR])
        .with([of_web(json!({"status": {"startTime": CHANGED}}))])
        .with((1..=3).map(failed_pod))
        .reached(|world| world.find("jobs", "web").unwrap()["status"]["failed"] == 3)
        .settled_after(5)
}

/// A Job has failed, and its pods have not gone. A second one ends with its deadline.
fn terminating() -> Trouble {
    let mut gone = pod_of_web("web-gone").0;
    merge(
        &mut gone,
        json!({"metadata": {"deletionTimestamp": CHANGED, "deletionGracePeriodSeconds": 30}}),
    );
    let mut late = job("late").0;
    merge(
        &mut late,
        json!({"spec": {"activeDeadlineSeconds": 30}, "status": {}}),
    );
    Trouble::new("a failed Job waits for its pods", &[crate::job::DESCRIPTOR])
        .with([
            of_web(json!({"spec": {"backoffLimit": 0}, "status": {"startTime": CHANGED}})),
            failed_pod(1),
            gone,
            late,
        ])
        .reached(|world| {
            let failed = world.find("jobs", "web").unwrap();
            let late = world.find("jobs", "late").unwrap();
            [failed, late]
                .iter()
                .all(|job| job["status"]["conditions"][0]["type"] == "FailureTarget")
        })
}

/// A finished Job is deleted, but keeps a finalizer of another program.
fn finished() -> Trouble {
    let complete = json!({
        "type": "Complete", "status": "True", "reason": "CompletionsReached", "message": "m",
        "lastProbeTime": CHANGED, "lastTransitionTime": CHANGED,
    });
    let done = of_web(json!({
        "metadata": {"finalizers": ["example.com/hold"]}, "spec": {"ttlSecondsAfterFinished": 630},
        "status": {
            "startTime": CHANGED, "completionTime": CHANGED, "succeeded": 1, "ready": 0, "terminating": 0,
            "uncountedTerminatedPods": {}, "conditions": [complete],
        },
    }));
    let mut later = done.clone();
    later["metadata"]["name"] = json!("later");
    later["metadata"]["uid"] = json!("uid-of-later");
    later["metadata"]["finalizers"] = Value::Null;
    later["spec"]["ttlSecondsAfterFinished"] = json!(1800);
    Trouble::new(
        "a finished Job stays",
        &[ttlafterfinished::DESCRIPTOR, crate::job::DESCRIPTOR],
    )
    .with([done, later])
    .reached(|world| {
        world.find("jobs", "web").unwrap()["metadata"]["deletionTimestamp"].is_string()
    })
}
