//! The Workload and the PodGroup of a Job whose pods have to run together.
//!
//! A scheduler places the pods of a PodGroup at the same time, or none of them. The Job owns both
//! objects, and its pods name the PodGroup. Only with the feature gate `WorkloadWithJob`.
//!
//! Upstream: the decisions of `job_scheduling_manager.go`. As upstream, pods have no owner reference
//! to the PodGroup: `GetPodFromTemplate` drops the one that `manageJob` adds to the template.

use serde_json::{Value, json};
use steersman_objects::{CompletionMode, Job, Object, PodGroup, Workload, template};
use steersman_runtime::owner::ControllerReference;

use super::conditions::SUSPENDED;

/// The longest name of an object.
const LONGEST_NAME: usize = 253;

/// Whether all pods of `job` have to run together. Upstream: `IsGangSchedulingCandidate`.
pub(super) fn is_gang(job: &Job) -> bool {
    let spec = &job.spec;
    spec.parallelism > 1
        && spec.completion_mode == CompletionMode::Indexed
        && spec.completions == Some(spec.parallelism)
        && !spec.has_scheduling_group
}

/// Whether `job` has never started. An older Job without a Workload gets none, because its pods run
/// outside of a group. Upstream: `isNewJob`.
pub(super) fn is_new(job: &Job, has_pods: bool) -> bool {
    let status = &job.status;
    let was_suspended = status.conditions.iter().any(|c| c.kind == SUSPENDED);
    !has_pods
        && status.start_time.is_none()
        && status.succeeded == 0
        && status.failed == 0
        && !was_suspended
}

/// The Workload of `job`. Upstream: `createWorkloadForJob`.
pub(super) fn workload(job: &Job) -> Value {
    let name = &*job.meta.name;
    let policy = json!({"gang": {"minCount": job.spec.parallelism}});
    json!({
        "kind": Workload::RESOURCE.kind, "apiVersion": Workload::RESOURCE.api_version(),
        "metadata": {
            "name": workload_name(name, &job.meta.uid.to_string()),
            "namespace": job.meta.namespace,
            "ownerReferences": [ControllerReference::to::<Job>(&job.meta)],
        },
        "spec": {
            "controllerRef": {"apiGroup": Job::RESOURCE.group, "kind": Job::RESOURCE.kind, "name": name},
            "podGroupTemplates": [{"name": format!("{name}-pgt-0"), "schedulingPolicy": policy}],
        },
    })
}

/// The PodGroup of `job` from the only template of `workload`. Upstream:
/// `createPodGroupForWorkload`.
pub(super) fn pod_group(job: &Job, workload: &Workload) -> Value {
    let served = Value::Object(workload.document.to_object());
    let template = &served["spec"]["podGroupTemplates"][0];
    let template_name = template["name"].as_str().unwrap_or_default();
    let name = &*workload.meta.name;
    let reference = json!({"workloadName": name, "podGroupTemplateName": template_name});
    json!({
        "kind": PodGroup::RESOURCE.kind, "apiVersion": PodGroup::RESOURCE.api_version(),
        "metadata": {
            "name": pod_group_name(name, template_name),
            "namespace": job.meta.namespace,
            "ownerReferences": [
                ControllerReference::to::<Job>(&job.meta),
                {
                    "apiVersion": Workload::RESOURCE.api_version(), "kind": Workload::RESOURCE.kind,
                    "name": name, "uid": workload.meta.uid.to_string(),
                },
            ],
        },
        "spec": {
            "podGroupTemplateRef": {"workload": reference},
            "schedulingPolicy": template["schedulingPolicy"],
        },
    })
}

/// The name of the Workload of a Job: its name, cut if it is too long, and a hash of its UID.
/// Upstream: `computeWorkloadName`.
fn workload_name(job: &str, uid: &str) -> String {
    // Upstream hashes Go's dump, which has the type of the text.
    let hash = template::hash_of_text(&format!("(types.UID){uid}"));
    let prefix = cut(job, LONGEST_NAME - hash.len() - 1);
    format!("{prefix}-{hash}")
}

/// The name of a PodGroup: both names, cut if they are too long, and a hash of both. A short name
/// leaves its room to the other one. Upstream: `computePodGroupName`.
fn pod_group_name(workload: &str, group_template: &str) -> String {
    let hash = template::hash_of_text(&format!("{workload}{group_template}"));
    let room = LONGEST_NAME - hash.len() - 2;
    let half = room / 2;
    let of_template = room - workload.len().min(room - half);
    let group_template = cut(group_template, of_template);
    let workload = cut(workload, room - group_template.len());
    format!("{workload}-{group_template}-{hash}")
}

/// At most `length` bytes of `name`. Names are ASCII, so each byte is a character boundary.
fn cut(name: &str, length: usize) -> &str {
    name.get(..length).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use steersman_objects::Object;

    use super::*;
    use crate::job::testing::job;

    /// Upstream: `TestShouldManageWorkloadForJob`.
    #[test]
    fn should_manage_workload_for_job() {
        let gang = || job("web").indexed(4);
        // (case, Job, whether its pods are a gang)
        let cases = [
            ("eligible", gang(), true),
            (
                "parallelism is nil",
                gang().spec("parallelism", Value::Null),
                false,
            ),
            ("parallelism=1", job("web").indexed(1), false),
            (
                "non-indexed completion mode",
                gang().spec("completionMode", "NonIndexed"),
                false,
            ),
            (
                "completions is nil",
                gang().spec("completions", Value::Null),
                false,
            ),
            (
                "completions != parallelism",
                gang().spec("completions", 8),
                false,
            ),
        ];
        for (case, job, expected) in cases {
            assert_eq!(is_gang(&job.build()), expected, "{case}");
        }
        let mut grouped = gang();
        grouped.0["spec"]["template"]["spec"]["schedulingGroup"] = json!({"podGroupName": "g"});
        assert!(!is_gang(&grouped.build()), "schedulingGroup already set");
    }

    #[test]
    fn a_job_that_has_started_is_not_new() {
        // (case, status, whether it is new)
        let condition = json!([{"type": "Suspended", "status": "False"}]);
        let cases = [
            ("fresh", json!({}), true),
            (
                "started",
                json!({"startTime": "2030-01-01T00:00:00Z"}),
                false,
            ),
            ("has successes", json!({"succeeded": 1}), false),
            ("has failures", json!({"failed": 1}), false),
            ("was suspended", json!({"conditions": condition}), false),
        ];
        for (case, status, expected) in cases {
            let mut job = job("web").indexed(2);
            job.0["status"] = status;
            let job = job.build();
            assert_eq!(is_new(&job, false), expected, "{case}");
            assert!(!is_new(&job, true), "{case}, with pods");
        }
    }

    /// Upstream: `TestBuildPodGroupTemplates`, `TestCreateWorkloadForJob`,
    /// `TestCreatePodGroupForWorkload`.
    #[test]
    fn the_job_owns_both_objects() {
        let job = job("web").indexed(3).build();
        let owner = json!({
            "apiVersion": "batch/v1", "kind": "Job", "name": "web", "uid": "uid-of-web",
            "controller": true, "blockOwnerDeletion": true,
        });
        let mut found = workload(&job);
        let name = workload_name("web", "uid-of-web");
        assert_eq!(found["metadata"]["name"], *name);
        assert_eq!(found["metadata"]["ownerReferences"], json!([owner]));
        let policy = json!({"gang": {"minCount": 3}});
        let spec = json!({
            "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "web"},
            "podGroupTemplates": [{"name": "web-pgt-0", "schedulingPolicy": policy}],
        });
        assert_eq!(found["spec"], spec);

        found["metadata"]["uid"] = json!("uid-of-workload");
        let workload = Workload::decode(found.to_string().as_bytes()).unwrap();
        let group = pod_group(&job, &workload);
        assert_eq!(
            group["metadata"]["name"],
            pod_group_name(&name, "web-pgt-0")
        );
        let second = json!({
            "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "Workload", "name": name,
            "uid": "uid-of-workload",
        });
        assert_eq!(group["metadata"]["ownerReferences"], json!([owner, second]));
        let reference = json!({"workloadName": name, "podGroupTemplateName": "web-pgt-0"});
        let spec =
            json!({"podGroupTemplateRef": {"workload": reference}, "schedulingPolicy": policy});
        assert_eq!(group["spec"], spec);
    }

    /// The names that kube-controller-manager 1.36.2 gave.
    #[test]
    fn names_equal_upstreams() {
        let workload = workload_name("gang", "102b322e-9aea-4746-b32d-8a39f4295bef");
        assert_eq!(workload, "gang-d8d57b86");
        let group = pod_group_name(&workload, "gang-pgt-0");
        assert_eq!(group, "gang-d8d57b86-gang-pgt-0-5cf7465669");
    }

    /// Upstream: `TestComputeWorkloadName`.
    #[test]
    fn compute_workload_name() {
        for (job, uid) in [("my-job", "uid-123"), (&"a".repeat(300), "uid-long")] {
            let name = workload_name(job, uid);
            assert!(name.len() <= LONGEST_NAME, "{name}");
            let (prefix, hash) = name.rsplit_once('-').unwrap();
            assert!(job.starts_with(prefix) && !hash.is_empty(), "{name}");
            assert_ne!(name, workload_name(job, "different-uid"));
        }
        assert_eq!(
            workload_name(&"a".repeat(300), "uid-long").len(),
            LONGEST_NAME
        );
    }

    /// Upstream: `TestComputePodGroupName`.
    #[test]
    fn compute_pod_group_name() {
        let long = |letter: &str, length| letter.repeat(length);
        // (case, names of Workload and template, length if they are cut)
        let cases = [
            ("short", long("w", 11), long("t", 11), None),
            (
                "long Workload",
                long("w", 300),
                long("t", 11),
                Some(LONGEST_NAME),
            ),
            (
                "long template",
                long("w", 11),
                long("t", 300),
                Some(LONGEST_NAME),
            ),
            (
                "both long",
                long("w", 200),
                long("t", 200),
                Some(LONGEST_NAME),
            ),
        ];
        for (case, workload, group_template, length) in cases {
            let name = pod_group_name(&workload, &group_template);
            let hash = template::hash_of_text(&format!("{workload}{group_template}"));
            let whole = format!("{workload}-{group_template}-{hash}");
            match length {
                None => assert_eq!(name, whole, "{case}"),
                Some(length) => assert_eq!(name.len(), length, "{case}: {name}"),
            }
            assert!(name.ends_with(&hash), "{case}");
        }
        // Both are too long: the Workload gets the odd letter.
        let name = pod_group_name(&long("w", 200), &long("t", 200));
        let letters = |letter| name.matches(letter).count();
        assert!(letters('w') - letters('t') <= 1, "{name}");
    }
}
