//! A change of the manager. A Job at rest gets no write, and a Job in the middle of its work gets
//! exactly the remaining ones. The states are those that kube-controller-manager 1.36.2 leaves.

use std::time::Duration;

use serde_json::{Value, json};

use crate::job::DESCRIPTOR;
use crate::job::testing::{job, load, merge, pod_of_web, set_times};
use crate::testing::world::World;

/// Time for two resyncs and all other timers.
const TWO_DAYS: Duration = Duration::from_secs(50 * 3600);

/// One state: changes of the Job, and of each of its pods.
struct Rest {
    why: &'static str,
    job: Value,
    pods: Vec<Value>,
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastProbeTime": "@-60", "lastTransitionTime": "@-60",
    })
}

const REACHED: (&str, &str) = (
    "CompletionsReached",
    "Reached expected number of succeeded pods",
);

fn running(ready: bool) -> Value {
    let status = if ready { "True" } else { "False" };
    json!({"status": {"conditions": [{"type": "Ready", "status": status, "lastTransitionTime": "@-30"}]}})
}

fn ended(phase: &str) -> Value {
    json!({"metadata": {"finalizers": []}, "status": {"phase": phase}})
}

fn uncounted(uid: &str, phase: &str) -> Value {
    json!({"metadata": {"uid": uid}, "status": {"phase": phase}})
}

/// The objects of a state. The Job is called `name`, and its pods have numbers.
fn objects(rest: &Rest, name: &str, now: jiff::Timestamp) -> Vec<Value> {
    let mut object = job("web").0;
    merge(&mut object, &rest.job);
    let mut objects = vec![object];
    for (position, changes) in rest.pods.iter().enumerate() {
        let mut pod = pod_of_web(&format!("web-{position}")).0;
        merge(&mut pod, changes);
        objects.push(pod);
    }
    for object in &mut objects {
        set_times(object, now);
        *object = serde_json::from_str(&object.to_string().replace("web", name)).unwrap();
    }
    objects
}

#[tokio::test(start_paused = true)]
async fn a_job_at_rest_gets_no_write() {
    let status = |fields: Value| {
        let mut status = json!({"startTime": "@-60", "ready": 0, "terminating": 0, "uncountedTerminatedPods": {}});
        merge(&mut status, &fields);
        status
    };
    let (reason, message) = REACHED;
    let limit = "Job has reached the specified backoff limit";
    let cases = [
        Rest {
            why: "running",
            job: json!({"spec": {"parallelism": 2, "completions": 2}, "status": status(json!({"active": 2, "ready": 1}))}),
            pods: vec![running(true), running(false)],
        },
        Rest {
            why: "running, with counted pods",
            job: json!({"spec": {"completions": 3}, "status": status(json!({"active": 1, "ready": 1, "succeeded": 1, "failed": 1}))}),
            pods: vec![running(true), ended("Succeeded"), ended("Failed")],
        },
        Rest {
            why: "suspended before its start",
            job: json!({"spec": {"suspend": true}, "status": {
                "conditions": [condition("Suspended", "True", "JobSuspended", "Job suspended")],
                "ready": 0, "terminating": 0, "uncountedTerminatedPods": {},
            }}),
            pods: vec![],
        },
        Rest {
            why: "resumed",
            job: json!({"status": status(json!({
                "active": 1, "conditions": [condition("Suspended", "False", "JobResumed", "Job resumed")],
            }))}),
            pods: vec![running(false)],
        },
        Rest {
            why: "complete",
            job: json!({"status": status(json!({
                "succeeded": 1, "completionTime": "@-60", "conditions": [
                    condition("SuccessCriteriaMet", "True", reason, message), condition("Complete", "True", reason, message),
                ],
            }))}),
            pods: vec![ended("Succeeded")],
        },
        Rest {
            why: "failed",
            job: json!({"spec": {"backoffLimit": 0}, "status": status(json!({
                "failed": 1, "conditions": [
                    condition("FailureTarget", "True", "BackoffLimitExceeded", limit),
                    condition("Failed", "True", "BackoffLimitExceeded", limit),
                ],
            }))}),
            pods: vec![ended("Failed")],
        },
        Rest {
            why: "failing, while a pod terminates",
            job: json!({"spec": {"backoffLimit": 0}, "status": status(json!({
                "failed": 2, "terminating": 1,
                "conditions": [condition("FailureTarget", "True", "BackoffLimitExceeded", limit)],
            }))}),
            pods: vec![ended("Failed"), json!({"metadata": {"deletionTimestamp": "@-5", "finalizers": []}})],
        },
        Rest {
            why: "an Indexed Job",
            job: json!({
                "spec": {"completionMode": "Indexed", "parallelism": 4, "completions": 4, "backoffLimitPerIndex": 1},
                "status": status(json!({"active": 2, "succeeded": 1, "failed": 2, "completedIndexes": "0", "failedIndexes": "1"})),
            }),
            pods: ["2", "3"].map(|index| {
                let mut pod = running(false);
                pod["metadata"]["annotations"] = json!({
                    "batch.kubernetes.io/job-completion-index": index, "batch.kubernetes.io/job-index-failure-count": "0",
                });
                pod
            }).to_vec(),
        },
        Rest {
            why: "of another controller",
            job: json!({"spec": {"managedBy": "example.com/queue"}, "status": {}}),
            pods: vec![uncounted("a", "Succeeded")],
        },
    ];
    let mut world = World::bare().await;
    let now = world.clock.now();
    for rest in &cases {
        let name = rest.why.replace([' ', ','], "-").to_lowercase();
        load(&world, objects(rest, &name, now)).await;
    }
    for _ in 0..2 {
        world.restart(&[DESCRIPTOR]).await;
        tokio::time::sleep(TWO_DAYS).await;
    }
    assert_eq!(world.live_reads("list"), [""; 0]);
    world.new_leader().await;
    tokio::time::sleep(TWO_DAYS).await;
    // Only the end of a Job needs recent caches here.
    let ending = "uid-of-failing--while-a-pod-terminates";
    let lists = world.live_reads("list");
    assert!(lists.iter().all(|path| path.contains(ending)), "{lists:#?}");
    assert!(world.writes().is_empty(), "{:#?}", world.writes());
    assert!(
        world.state().events.is_empty(),
        "{:#?}",
        world.state().events
    );
}

#[tokio::test(start_paused = true)]
async fn a_job_with_uncounted_pods_gets_the_remaining_writes() {
    let listed = |fields: Value| {
        let mut status = json!({"startTime": "@-60", "ready": 0, "terminating": 0});
        merge(&mut status, &fields);
        status
    };
    let complete = "update jobs/web/status 200";
    let patch = |pod: usize| format!("patch pods/web-{pod} 200");
    // (state, succeeded and failed pods at the end, writes)
    let cases = [
        (
            Rest {
                why: "listed, with finalizers",
                job: json!({"spec": {"completions": 2}, "status": listed(json!({
                    "succeeded": 1, "uncountedTerminatedPods": {"succeeded": ["a"]},
                }))}),
                pods: vec![uncounted("a", "Succeeded"), ended("Succeeded")],
            },
            (2, 0),
            vec![complete.to_owned(), patch(0), complete.to_owned()],
        ),
        (
            Rest {
                why: "listed, without finalizers",
                job: json!({"spec": {"completions": 1, "parallelism": 0}, "status": listed(json!({
                    "uncountedTerminatedPods": {"failed": ["b"]},
                }))}),
                pods: vec![ended("Failed")],
            },
            (0, 1),
            vec![complete.to_owned()],
        ),
        (
            Rest {
                why: "not listed",
                job: json!({"spec": {"completions": 2, "parallelism": 0}, "status": listed(json!({
                    "uncountedTerminatedPods": {},
                }))}),
                pods: vec![uncounted("a", "Succeeded"), uncounted("b", "Failed")],
            },
            (1, 1),
            vec![complete.to_owned(), patch(0), patch(1), complete.to_owned()],
        ),
    ];
    for (rest, (succeeded, failed), expected) in cases {
        let why = rest.why;
        let mut world = World::bare().await;
        load(&world, objects(&rest, "web", world.clock.now())).await;
        world.restart(&[DESCRIPTOR]).await;
        world.at_rest().await;
        let mut writes = world.writes();
        let status = world.find("jobs", "web").unwrap()["status"].take();
        let number = |field: &str| status[field].as_i64().unwrap_or(0);
        assert_eq!(
            (number("succeeded"), number("failed")),
            (succeeded, failed),
            "{why}"
        );
        // Patches of one sync are concurrent.
        let last = writes.len().saturating_sub(1);
        if last > 1 {
            writes[1..last].sort();
        }
        assert_eq!(writes, expected, "{why}");
        world.restart(&[DESCRIPTOR]).await;
        world.at_rest().await;
        assert_eq!(
            world.writes().len(),
            expected.len(),
            "{why}: after one more change"
        );
    }
}
